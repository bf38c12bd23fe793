// SPDX-License-Identifier: Apache-2.0
//! Invalid command lines, in the form of every other error.

use crate::args;
use helio_api::ApiError;
use std::ffi::OsString;

/// The command that a line names, without arguments: "helio queue set".
pub(crate) fn command_of(line: &[OsString]) -> String {
    let root = args::command();
    let (mut command, mut name) = (&root, "helio".to_owned());
    for word in line.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(inner) = command.find_subcommand(word) {
            name = format!("{name} {}", inner.get_name());
            command = inner;
        }
    }
    name
}

/// What is wrong with a command line, and what helps: clap's tip, or the help of the command.
pub(crate) fn error(error: &clap::Error, command: &str) -> ApiError {
    let text = error.to_string();
    let text = text.trim_start_matches("error: ").trim_end();
    let text = text.split("\n\nFor more information").next().unwrap_or(text);
    let text = text.split("\n\nUsage:").next().unwrap_or(text);
    let mut report = ApiError::read("usage", text);
    let whole = std::mem::take(&mut report.error);
    let rows = whole.lines().map(str::trim).filter(|row| !row.is_empty());
    let (tips, rows): (Vec<&str>, Vec<&str>) = rows.partition(|row| row.starts_with("tip: "));
    report.error = rows.join(" ");
    let tips: Vec<&str> = tips.iter().map(|tip| tip.trim_start_matches("tip: ")).collect();
    if report.hint.is_none() {
        report.hint = Some(if tips.is_empty() {
            format!("`{command} --help` lists arguments and options")
        } else {
            tips.join("; ")
        });
    }
    report
}
