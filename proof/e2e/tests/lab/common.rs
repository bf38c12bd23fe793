// SPDX-License-Identifier: Apache-2.0
//! Both ends of a measurement.

use helio_testkit::{Told, helio_binary, run};
use std::process::Command;
use std::thread::JoinHandle;

/// One end, running.
pub(crate) fn start(arguments: &[&str]) -> JoinHandle<Told> {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    std::thread::spawn(move || run(Command::new(helio_binary()).args(arguments)))
}

/// Both ends to their end, the first one named started first.
pub(crate) fn both(first: &[&str], second: &[&str]) -> [Told; 2] {
    let first = start(first);
    let second = start(second);
    [first, second].map(|end| end.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
}

/// The words of a command line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
