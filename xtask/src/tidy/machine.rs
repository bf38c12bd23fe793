// SPDX-License-Identifier: Apache-2.0
//! Rule `this-machine`: no file names a path of the machine it was written on, nor another registry than
//! cargo's own, since neither means anything to whoever clones the repository.

use super::Finding;
use std::path::Path;

// Spelled in two halves, so that this file does not break its own rule.
const PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// Where Cargo.lock says a crate comes from, when it comes from cargo's own registry.
const OWN_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(path: &Path, text: &str) -> Vec<Finding> {
    let toml = path.extension().is_some_and(|end| end == "toml");
    let lock = path.ends_with("Cargo.lock");
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(found) = PATHS.iter().find(|found| names_path(line, found)) {
            let hint = format!("`{found}` is a path of one machine; use one that everyone has");
            findings.push(Finding::new(path, at + 1, "this-machine", hint));
        }
        let key = line.trim_start();
        let redirects = toml
            && ["[registries", "[source.", "replace-with", "registry ="]
                .iter()
                .any(|x| key.starts_with(x));
        let foreign = lock && key.starts_with("source = ") && !key.contains(OWN_REGISTRY);
        if redirects || foreign {
            let hint = "crates come from cargo's own registry; a mirror belongs in the user's own configuration";
            findings.push(Finding::new(path, at + 1, "this-machine", hint));
        }
    }
    findings
}

/// Whether a line names the path itself, and not a longer one that contains it (`a/…`, `…://host/…`).
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '*')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(Path::new(path), text).len()
    }

    #[test]
    fn a_path_of_this_machine_is_found_even_in_a_string() {
        assert_eq!(found("a.md", &format!("see `{}shared/x`", PATHS[0])), 1);
        assert_eq!(found("a.rs", &format!("let p = \"{}x\";", PATHS[1])), 1);
        assert_eq!(found("a.rs", &format!("frame{}x", PATHS[0])), 0);
        assert_eq!(found("a.rs", "open(\"/var/lib/heliograph\")"), 0);
    }

    #[test]
    fn another_registry_is_found_in_settings_and_lock_file() {
        assert_eq!(found(".cargo/config.toml", "[source.crates]\nreplace-with = \"m\"\n"), 2);
        assert_eq!(found("Cargo.lock", "source = \"registry+https://example.org/index\"\n"), 1);
        assert_eq!(found("Cargo.lock", &format!("source = \"{OWN_REGISTRY}\"\n")), 0);
    }
}
