// SPDX-License-Identifier: Apache-2.0
//! Every command that asks a daemon, without one: exit code 3, and an error that says what to do. The commands come
//! from the manual pages, so that a new one is not forgotten.

use crate::common::assert_says;
use helio_testkit::{TempDir, helio};
use std::collections::BTreeSet;

/// Commands that ask no daemon, by the first word.
const LOCAL: [&str; 17] = [
    "adopt",
    "check",
    "completions",
    "daemon",
    "init",
    "inspect",
    "key",
    "lab",
    "man",
    "metadata",
    "rename",
    "plan",
    "quickstart",
    "simhadr",
    "snapshot import",
    "snapshot join",
    "trace show",
];
/// Commands without `--json`.
const NO_JSON: [&str; 2] = ["dashboard", "top"];
/// What a command needs beside its name.
const NEEDED: [(&str, &[&str]); 13] = [
    ("client close", &["1", "--yes"]),
    ("member add", &["db/data", "/disk"]),
    ("member remove", &["db/data", "/disk"]),
    ("member set", &["db/data", "/disk", "--read-cost", "auto"]),
    ("mode", &["sync"]),
    ("queue set", &["--memory", "1MiB"]),
    ("resolve", &["--discard", "paris"]),
    ("saved delete", &["--all"]),
    ("snapshot create", &["db@one"]),
    ("snapshot delete", &["db@one", "--yes"]),
    ("snapshot export", &["db@one", "/nowhere/db"]),
    ("snapshot refresh", &["db@one", "--yes"]),
    ("snapshot restore", &["db@one", "--yes"]),
];

/// Every command that asks a daemon: "queue set".
fn commands(scratch: &TempDir) -> BTreeSet<String> {
    let dir = scratch.join("man");
    helio(&["man", "--dir", &dir.to_string_lossy()]).expect_success();
    let pages = std::fs::read_dir(&dir).expect("the pages were written");
    let names: BTreeSet<String> = pages
        .map(|page| page.expect("is listed").file_name().to_string_lossy().into_owned())
        .filter_map(|page| Some(page.strip_prefix("helio-")?.strip_suffix(".1")?.to_owned()))
        .collect();
    let has_commands =
        |name: &&String| !names.iter().any(|other| other.starts_with(&format!("{name}-")));
    let leaves = names.iter().filter(has_commands).map(|name| name.replace('-', " "));
    let local = |name: &String| {
        LOCAL.iter().any(|local| name == local || name.starts_with(&format!("{local} ")))
    };
    leaves.filter(|name| !local(name) && name != "trace convert").collect()
}

#[test]
fn without_a_daemon_every_command_ends_with_three_and_says_what_to_do() {
    let scratch = TempDir::new();
    let state = scratch.path().to_string_lossy().into_owned();
    let commands = commands(&scratch);
    assert!(commands.len() > 25, "{commands:?}");
    for name in &commands {
        let needed =
            NEEDED.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, words)| *words);
        let words: Vec<&str> = name.split(' ').collect();
        let line = [&words[..], needed, &["--state", &state]].concat();
        let told = helio(&line);
        assert_eq!(told.status.code(), Some(3), "{told}");
        assert!(told.stdout.is_empty(), "{told}");
        assert_says(
            &told.stderr,
            &["helio: no daemon responds on", "\n  hint: start `helio daemon --node "],
        );
        if NO_JSON.contains(&name.as_str()) {
            continue;
        }
        let told = helio(&[&line[..], &["--json"]].concat());
        assert_eq!(told.status.code(), Some(3), "{told}");
        let error: serde_json::Value = serde_json::from_str(&told.stderr).expect("one JSON object");
        assert_eq!(
            (&error["code"], &error["retry"]),
            (&"no-daemon".into(), &true.into()),
            "{error}"
        );
        assert!(error["error"].is_string() && error["hint"].is_string(), "{error}");
    }
}
