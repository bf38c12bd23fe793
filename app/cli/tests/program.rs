// SPDX-License-Identifier: Apache-2.0
//! The program as a process: what a shell sees of it.

use std::io::Read;
use std::process::{Command, Output, Stdio};

fn helio(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helio"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn told(arguments: &[&str]) -> Output {
    helio(arguments).output().expect("it was built with this test")
}

#[test]
fn it_says_its_version() {
    let told = told(&["--version"]);
    assert!(told.status.success());
    assert_eq!(told.stdout, format!("helio {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
}

#[test]
fn a_misspelt_command_is_refused_with_the_one_that_is_meant() {
    let told = told(&["promot", "db"]);
    let said = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(2));
    assert!(said.contains("`promot`") || said.contains("'promot'"), "{said}");
    assert!(said.contains("hint:") && said.contains("promote"), "{said}");
    assert!(told.stdout.is_empty());
}

#[test]
fn it_ends_if_nobody_reads_on() {
    let mut child =
        helio(&["completions", "bash"]).stdout(Stdio::piped()).spawn().expect("it was built");
    let mut output = child.stdout.take().expect("it is piped");
    let mut first = [0];
    output.read_exact(&mut first).expect("it writes");
    drop(output);
    // 141 is what a shell shows of a program that a closed pipe ended. It is too fast for that if all fitted into the pipe.
    let code = child.wait().expect("it ends").code();
    assert!(matches!(code, Some(0 | 141)), "{code:?}");
}
