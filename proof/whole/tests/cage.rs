// SPDX-License-Identifier: Apache-2.0
//! The cage that forbids the process of a simulated world the real one.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// What a forbidden system call and a forbidden access to the processor's counter end with.
const SIGNALS: [i32; 2] = [libc::SIGSYS, libc::SIGSEGV];

fn whole(arguments: &[&str]) -> ExitStatus {
    let program = env!("CARGO_BIN_EXE_helio-whole");
    Command::new(program).args(arguments).status().expect("it was built with this test")
}

#[test]
fn what_reaches_for_nothing_lives_in_the_cage() {
    assert!(whole(&["--cage-proof", "nothing"]).success());
}

// Only there can the counter that clocks are read from be forbidden.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_clock_a_file_a_thread_and_a_socket_each_end_the_process() {
    for reach in ["clock", "file", "thread", "socket"] {
        let status = whole(&["--cage-proof", reach]);
        assert!(status.signal().is_some_and(|it| SIGNALS.contains(&it)), "{reach}: {status}");
    }
}

#[test]
fn a_hundred_stories_reach_for_nothing_real() {
    let first = helio_testkit::first_seed();
    let walks = [first, first + 50].map(|from| {
        let program = env!("CARGO_BIN_EXE_helio-whole");
        let walk = ["--cage", "--seeds", "50", "--from", &from.to_string()];
        Command::new(program).args(walk).spawn().expect("it was built with this test")
    });
    // Both end before either is judged.
    for status in walks.map(|mut walk| walk.wait().expect("it is a child")) {
        assert!(status.success(), "{status}: two walks of 50 seeds from {first}");
    }
}
