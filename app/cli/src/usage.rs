// SPDX-License-Identifier: Apache-2.0
//! Invalid command lines, in the form of every other error.

use crate::args;
use helio_api::ApiError;
use std::ffi::OsString;

/// The command that a line names, without arguments: "helio queue set".
pub(crate) fn command_of(line: &[OsString]) -> String {
    let root = args::command();
    let (mut command, mut name) = (&root, "helio".to_owned());
    let words: Vec<String> = line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut from = 1;
    while let Some(at) = args::positional(&words, from) {
        let Some(inner) = command.find_subcommand(&words[at]) else { break };
        name = format!("{name} {}", inner.get_name());
        (command, from) = (inner, at + 1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_line_is_no_value_of_an_option_and_no_argument() {
        for (line, command) in [
            ("helio --state status promote x", "helio promote"),
            ("helio --timeout 5s queue --host pause:1 set db --memory x", "helio queue set"),
            ("helio pause status", "helio pause"),
            ("helio no-such-command status", "helio"),
            ("helio", "helio"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(command_of(&words), command, "{line}");
        }
    }
}
