// SPDX-License-Identifier: Apache-2.0
//! The whole program repeats the requests, commands and cuts in a recorder's file from a user's system.

use std::process::{Command, Output};

const DUMP: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../replay/two-cuts-and-a-failed-store.json");

fn whole(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_helio-whole");
    Command::new(program).args(arguments).output().expect("it was built with this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_file_of_the_field_keeps_every_promise_twice() {
    let [one, other] = [0, 1].map(|_| whole(&["--replay", DUMP, "--seed", "3"]));
    assert!(one.status.success(), "{}", text(&one.stdout));
    assert_eq!(one.stdout, other.stdout);
    assert!(text(&one.stdout).contains("201 of 201 steps were told"), "{}", text(&one.stdout));
}

#[test]
fn what_cannot_be_told_is_refused_with_a_hint() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (arguments, why) in [
        (vec!["--replay", manifest], "is not the dump of a recorder"),
        (vec!["--replay", "no/such/file"], "no/such/file: "),
        (vec!["--replay", DUMP, DUMP, DUMP], "3 files are given"),
        (vec!["--replay", "--story"], "0 files are given"),
        (vec!["--replay", DUMP, "--seed", "1", "--seeds", "2"], "--seed tells one story"),
    ] {
        let refused = whole(&arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && said.contains("\nhint: "), "{said}");
    }
}

#[cfg(feature = "plant")]
#[test]
fn faults_that_are_planted_in_the_daemon_are_found_by_a_file_of_the_field() {
    let walk = ["--replay", DUMP, "--seeds", "20", "--most", "1"];
    let sound = whole(&walk);
    assert!(sound.status.success(), "{}", text(&sound.stderr));
    for fault in ["reply-twice", "write-twice"] {
        let found = whole(&[&walk[..], &["--plant", fault]].concat());
        assert_eq!(found.status.code(), Some(1), "{}", text(&found.stdout));
        let again = format!("--replay {DUMP} --shrink");
        assert!(text(&found.stderr).contains(&again), "{}", text(&found.stderr));
    }
}
