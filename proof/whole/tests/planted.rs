// SPDX-License-Identifier: Apache-2.0
//! Faults planted around the engine are found: some, by the seed of the run. `cargo xtask sim --daemon --check-planted --seeds 300` plants each.
#![cfg(feature = "plant")]

use helio_plant::Plant;
use std::process::{Command, Output};

/// How many of them.
const FAULTS: usize = 3;

fn whole(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_helio-whole");
    Command::new(program).args(arguments).output().expect("it was built with this test")
}

/// Looks for a planted fault, which is to be found by a story that keeps every promise without it.
fn find(fault: &str) {
    let found = whole(&["--plant", fault, "--seeds", "300", "--most", "1"]);
    let stderr = String::from_utf8_lossy(&found.stderr);
    assert_eq!(
        found.status.code(),
        Some(1),
        "{fault} is not found: {stderr}\n    cargo xtask sim --daemon --plant {fault} --seeds 300"
    );
    let words = stderr.lines().find_map(|line| line.strip_prefix("seed ")?.split(':').next());
    let seed = words.expect("it names the seed");
    let sound = whole(&["--seed", seed]);
    assert!(sound.status.success(), "{fault}: seed {seed} is broken without it, too");
}

#[test]
fn faults_of_the_daemon_are_found() {
    let first = helio_testkit::drawn(Plant::DAEMON.len());
    for (fault, _) in Plant::DAEMON.iter().cycle().skip(first).take(FAULTS) {
        find(fault);
    }
}
