// SPDX-License-Identifier: Apache-2.0
//! The program as a process: what a shell sees of it.

use std::io::Read;
use std::process::{Command, Output, Stdio};

/// What a pipe holds.
const PIPE_BYTES: usize = 64 << 10;

fn helio(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helio"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    helio(arguments).output().expect("it was built with this test")
}

#[test]
fn it_prints_its_version() {
    let output = output(&["--version"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, format!("helio {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
}

#[test]
fn a_misspelt_command_is_refused_with_the_one_that_is_meant() {
    let output = output(&["promot", "db"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("'promot'"), "{stderr}");
    assert!(stderr.contains("hint:") && stderr.contains("'promote'"), "{stderr}");
    assert!(output.stdout.is_empty());
}

#[test]
fn it_exits_if_its_output_is_closed() {
    let completions = ["completions", "bash"];
    let length = output(&completions).stdout.len();
    assert!(length > PIPE_BYTES, "{length} bytes fit into a pipe: this test needs another command");
    let mut child = helio(&completions).stdout(Stdio::piped()).spawn().expect("it was built");
    let mut output = child.stdout.take().expect("it is piped");
    output.read_exact(&mut [0]).expect("it writes");
    drop(output);
    assert_eq!(child.wait().expect("it ends").code(), Some(141));
}
