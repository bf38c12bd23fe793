// SPDX-License-Identifier: Apache-2.0
//! Rules `floors`, `pure-crates` and `pure`: imports go down only, and the pure floors can reach no clock,
//! no dice and no system. The first two compare with what the manifests declare.

use super::Finding;
use super::source::Source;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The crates that are told and never look: `#![no_std]`.
const PURE: [&str; 13] = [
    "words/units",
    "words/format",
    "core/plant",
    "core/bitmap",
    "core/copy",
    "core/stack",
    "core/snapshot",
    "core/shadow",
    "core/recovery",
    "core/ledger",
    "core/engine",
    "advise/netmodel",
    "advise/workload",
];

/// Which rooms of the core each of them may use.
const CORE: [(&str, &[&str]); 9] = [
    ("core/plant", &[]),
    ("core/bitmap", &["core/plant"]),
    ("core/copy", &["core/bitmap"]),
    ("core/stack", &["core/plant"]),
    ("core/recovery", &["core/plant"]),
    ("core/ledger", &[]),
    ("core/snapshot", &["core/plant", "core/stack", "core/ledger"]),
    ("core/shadow", &["core/plant", "core/bitmap", "core/copy", "core/stack"]),
    (
        "core/engine",
        &["core/plant", "core/bitmap", "core/copy", "core/stack", "core/recovery", "core/ledger"],
    ),
];

/// What the tests of a room of the core may use besides: the stories of the engine compose the layers below it, as a host does.
const CORE_TESTS: [(&str, &[&str]); 1] = [("core/engine", &["core/shadow", "core/snapshot"])];

/// Third-party crates a pure crate may use, with the features it may ask for. `no_std` does not reach
/// into dependencies, so each of these was read for clocks, seeds and threads.
const PURE_CRATES: [(&str, &str, &[&str]); 1] = [("words/units", "serde", &["derive", "alloc"])];

/// Third-party crates the tests of a pure crate may use besides.
const PURE_TEST_CRATES: [&str; 1] = ["proptest"];

/// A dependency as its manifest declares it.
struct Dependency {
    name: String,
    /// The folder relative to the top, for a crate of the house.
    folder: Option<PathBuf>,
    for_tests: bool,
    default_features: bool,
    features: Vec<String>,
}

/// The import rule and the allowlist, over everything `cargo metadata --no-deps` says.
pub(super) fn check(metadata: &Value, root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let inside = |path: &str| Path::new(path).strip_prefix(root).map(Path::to_path_buf).ok();
    for package in metadata["packages"].as_array().ok_or("cargo metadata lists no packages")? {
        let manifest = package["manifest_path"].as_str().and_then(inside);
        let manifest = manifest.ok_or("a package without a place in the repository")?;
        let folder = manifest.parent().unwrap_or(Path::new(""));
        for declared in package["dependencies"].as_array().into_iter().flatten() {
            let dependency = Dependency {
                name: declared["name"].as_str().unwrap_or_default().to_owned(),
                folder: declared["path"].as_str().and_then(inside),
                for_tests: declared["kind"] == "dev",
                default_features: declared["uses_default_features"] == true,
                features: strings(&declared["features"]),
            };
            findings.extend(judge(folder, &dependency).map(|(rule, hint)| {
                let line = line_of(&root.join(&manifest), &dependency.name);
                Finding::new(&manifest, line, rule, hint)
            }));
        }
    }
    Ok(findings)
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// The line of a manifest that names a dependency.
fn line_of(manifest: &Path, name: &str) -> usize {
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let names =
        |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=']));
    text.lines().position(names).map_or(1, |at| at + 1)
}

/// What is wrong with a crate in `from` declaring this dependency: the rule and the hint.
fn judge(from: &Path, dependency: &Dependency) -> Option<(&'static str, String)> {
    match &dependency.folder {
        Some(to) if dependency.for_tests && tests_may_see(from, to) => None,
        Some(to) if !may_see(from, to) => {
            let hint = format!(
                "{} may not use {}: imports go down only (ARCHITECTURE.md); what both need belongs in words, \
                 and what joins them in app",
                from.display(),
                to.display()
            );
            Some(("floors", hint))
        }
        Some(_) => None,
        None => judge_third_party(from, dependency),
    }
}

/// Whether the tests of a crate in one folder may use the crate in another, which the crate may not.
fn tests_may_see(from: &Path, to: &Path) -> bool {
    let room = CORE_TESTS.iter().find(|(room, _)| from == Path::new(room));
    room.is_some_and(|(_, rooms)| rooms.iter().any(|room| to == Path::new(room)))
}

/// Whether a crate in one folder may use the crate in another.
fn may_see(from: &Path, to: &Path) -> bool {
    let floor =
        |path: &Path| path.iter().next().and_then(|part| part.to_str()).unwrap_or("").to_owned();
    let target = floor(to);
    let sees = |floors: &[&str]| floors.contains(&target.as_str());
    match floor(from).as_str() {
        "words" => sees(&["words"]),
        "core" => {
            let rooms = CORE.iter().find(|(room, _)| from == Path::new(room));
            let room = |rooms: &[&str]| rooms.iter().any(|room| to == Path::new(room));
            sees(&["words"]) || rooms.is_some_and(|(_, rooms)| room(rooms))
        }
        "advise" => sees(&["words", "core", "advise"]),
        "edge" => {
            let own = to == Path::new("edge/driver");
            let weather = from == Path::new("edge/wan") && to == Path::new("advise/netmodel");
            own || weather || sees(&["words"])
        }
        "app" => sees(&["words", "core", "edge", "advise", "app"]),
        "proof" => !sees(&["xtask"]),
        // xtask judges the house and must build when the house does not.
        _ => false,
    }
}

/// The allowlist of the pure crates.
fn judge_third_party(from: &Path, dependency: &Dependency) -> Option<(&'static str, String)> {
    let name = dependency.name.as_str();
    let pure = PURE.iter().find(|folder| from == Path::new(folder))?;
    if dependency.for_tests && PURE_TEST_CRATES.contains(&name) {
        return None;
    }
    let Some((_, _, features)) =
        PURE_CRATES.iter().find(|(at, allowed, _)| at == pure && *allowed == name)
    else {
        let hint = format!(
            "{pure} is pure and may not use `{name}`: hand its work in as a function or as an event"
        );
        return Some(("pure-crates", hint));
    };
    let extra = dependency.features.iter().find(|feature| !features.contains(&feature.as_str()));
    let told =
        if dependency.default_features { Some("default") } else { extra.map(String::as_str) };
    told.map(|feature| {
        let hint = format!("{pure} may use `{name}` only with {features:?} and no default features, not `{feature}`");
        ("pure-crates", hint)
    })
}

/// Calls that read a clock, draw a number or reach the system.
const IMPURE: [&str; 7] = [
    "std::",
    "extern crate std",
    "Instant::now",
    "SystemTime",
    "thread_rng",
    "RandomState",
    "getrandom",
];

/// What the text of a pure crate may not say, tests apart. The models and forecasts of `advise` run in
/// virtual time even where they are not `no_std`, so they read no clock either.
pub(super) fn check_source(source: &Source) -> Vec<Finding> {
    let pure = PURE.iter().any(|folder| source.path.starts_with(folder));
    let banned: &[&str] = match pure {
        true => &IMPURE,
        false if source.path.starts_with("advise") => &IMPURE[2..],
        false => return Vec::new(),
    };
    let mut findings = Vec::new();
    for (at, line, test) in source.lines() {
        for word in banned.iter().filter(|word| !test && line.contains(**word)) {
            let hint = format!(
                "`{word}` in a pure floor: take time, seeds and bytes as arguments; use core and alloc"
            );
            findings.push(Finding::new(&source.path, at, "pure", hint));
        }
    }
    let is_top = PURE.iter().any(|folder| source.path == Path::new(folder).join("src/lib.rs"));
    if is_top && !source.code.iter().any(|line| line.trim() == "#![no_std]") {
        findings.push(Finding::new(
            &source.path,
            1,
            "pure",
            "a pure crate says `#![no_std]` in its lib.rs",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(to: &str) -> Dependency {
        Dependency {
            name: "helio-x".to_owned(),
            folder: Some(PathBuf::from(to)),
            for_tests: false,
            default_features: true,
            features: Vec::new(),
        }
    }

    fn third_party(
        name: &str,
        for_tests: bool,
        default_features: bool,
        features: &[&str],
    ) -> Dependency {
        let features = features.iter().map(ToString::to_string).collect();
        Dependency { name: name.to_owned(), folder: None, for_tests, default_features, features }
    }

    fn rule(from: &str, dependency: &Dependency) -> Option<&'static str> {
        judge(Path::new(from), dependency).map(|(rule, _)| rule)
    }

    #[test]
    fn an_import_that_climbs_a_floor_is_found() {
        let climbs = [
            ("words/units", "core/engine"),
            ("core/engine", "edge/driver"),
            ("core/bitmap", "core/engine"),
            ("core/bitmap", "core/copy"),
            ("core/recovery", "core/bitmap"),
            ("core/ledger", "core/engine"),
            ("core/engine", "advise/netmodel"),
            ("edge/nbd", "edge/disk"),
            ("edge/nbd", "core/engine"),
            ("edge/link", "advise/netmodel"),
            ("advise/plan", "edge/driver"),
            ("advise/twin", "app/api"),
            ("app/daemon", "proof/testkit"),
            ("app/cli", "xtask"),
            ("proof/e2e", "xtask"),
            ("xtask", "words/units"),
        ];
        for (from, to) in climbs {
            assert_eq!(rule(from, &house(to)), Some("floors"), "{from} -> {to}");
        }
    }

    #[test]
    fn imports_that_go_down_are_let_through() {
        let fine = [
            ("words/format", "words/units"),
            ("core/engine", "core/ledger"),
            ("core/engine", "core/bitmap"),
            ("core/bitmap", "core/plant"),
            ("core/copy", "core/bitmap"),
            ("edge/disk", "edge/driver"),
            ("edge/wan", "advise/netmodel"),
            ("advise/twin", "core/engine"),
            ("app/daemon", "edge/nbd"),
            ("proof/sim", "advise/twin"),
        ];
        for (from, to) in fine {
            assert_eq!(rule(from, &house(to)), None, "{from} -> {to}");
        }
    }

    #[test]
    fn tests_alone_may_compose_the_layers_below_the_engine() {
        let for_tests = |to| Dependency { for_tests: true, ..house(to) };
        assert_eq!(rule("core/engine", &for_tests("core/snapshot")), None);
        assert_eq!(rule("core/engine", &house("core/snapshot")), Some("floors"));
        assert_eq!(rule("core/bitmap", &for_tests("core/snapshot")), Some("floors"));
        assert_eq!(rule("core/engine", &for_tests("edge/driver")), Some("floors"));
    }

    #[test]
    fn a_crate_outside_the_allowlist_is_found_in_the_pure_floors_alone() {
        assert_eq!(
            rule("core/engine", &third_party("rand", false, true, &[])),
            Some("pure-crates")
        );
        assert_eq!(
            rule("core/engine", &third_party("serde", false, false, &[])),
            Some("pure-crates")
        );
        assert_eq!(
            rule("words/units", &third_party("serde", false, true, &[])),
            Some("pure-crates")
        );
        assert_eq!(
            rule("words/units", &third_party("serde", false, false, &["std"])),
            Some("pure-crates")
        );
        assert_eq!(
            rule("words/format", &third_party("tokio", true, true, &[])),
            Some("pure-crates")
        );
        assert_eq!(
            rule("words/format", &third_party("proptest", false, true, &[])),
            Some("pure-crates")
        );
        assert_eq!(rule("words/units", &third_party("serde", false, false, &["derive"])), None);
        assert_eq!(rule("words/format", &third_party("proptest", true, true, &[])), None);
        assert_eq!(rule("edge/link", &third_party("rand", false, true, &[])), None);
    }

    #[test]
    fn what_cargo_says_is_read_as_it_says_it() {
        let said = serde_json::json!({ "packages": [{
            "manifest_path": "/top/edge/nbd/Cargo.toml",
            "dependencies": [
                { "name": "helio-engine", "path": "/top/core/engine", "kind": null,
                  "uses_default_features": true, "features": [] },
                { "name": "thiserror", "path": null, "kind": null,
                  "uses_default_features": false, "features": [] },
            ],
        }]});
        let findings = check(&said, Path::new("/top")).expect("it is well formed");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].hint.contains("edge/nbd may not use core/engine"));
        assert!(check(&serde_json::json!({}), Path::new("/top")).is_err());
    }

    fn impure(path: &str, text: &str) -> usize {
        check_source(&Source::read(Path::new(path), text)).len()
    }

    #[test]
    fn clocks_and_the_standard_library_are_found_in_pure_floors() {
        assert_eq!(impure("core/engine/src/gate.rs", "use std::fmt;"), 1);
        assert_eq!(impure("core/engine/src/gate.rs", "let t = Instant::now();"), 1);
        assert_eq!(impure("advise/twin/src/node.rs", "let t = Instant::now();"), 1);
        assert_eq!(impure("core/engine/src/lib.rs", "extern crate alloc;"), 1);
        assert_eq!(impure("core/engine/src/lib.rs", "#![no_std]"), 0);
        assert_eq!(
            impure("core/engine/src/gate.rs", "#[cfg(test)]\nmod tests {\n    use std::vec;\n}"),
            0
        );
        assert_eq!(impure("advise/twin/src/node.rs", "use std::collections::BTreeMap;"), 0);
        assert_eq!(impure("app/daemon/src/lib.rs", "let t = std::time::Instant::now();"), 0);
    }
}
