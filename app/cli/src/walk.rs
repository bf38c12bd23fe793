// SPDX-License-Identifier: Apache-2.0
//! Walks every command: what all of them have in common, so that a new one cannot forget it.

use crate::{args, usage};
use clap::{Arg, ArgAction, Command};
use helio_api::form;
use std::ffi::OsString;

/// Commands without `--json`: their output is no result, or has a form of its own.
const NO_JSON: [&str; 12] = [
    "helio complete-names",
    "helio completions",
    "helio daemon",
    "helio lab answer",
    "helio lab record",
    "helio lab relay",
    "helio lab wan",
    "helio man",
    "helio quickstart",
    "helio simhadr",
    "helio dashboard",
    "helio top",
];
/// Commands that need the name of a group: without a daemon there is none to ask.
const NEED_GROUP: [&str; 5] = [
    "helio inspect",
    "helio metadata accept",
    "helio metadata check",
    "helio metadata create",
    "helio metadata move",
];
/// Options that have one letter, and the same one everywhere.
const LETTERS: [(&str, char); 3] = [("dry-run", 'n'), ("yes", 'y'), ("force", 'f')];
const GLOBAL: [&str; 5] = ["state", "host", "key", "server-key", "timeout"];

/// Every command that runs something, by its full name.
fn commands() -> Vec<(String, Command)> {
    let mut root = args::command().disable_help_subcommand(true);
    root.build();
    let (mut left, mut found) = (vec![("helio".to_owned(), root)], Vec::new());
    while let Some((name, command)) = left.pop() {
        let inner: Vec<_> = command
            .get_subcommands()
            .map(|inner| (format!("{name} {}", inner.get_name()), inner.clone()))
            .collect();
        if inner.is_empty() {
            found.push((name, command));
        }
        left.extend(inner);
    }
    assert!(found.len() > 40, "the walk ended early");
    found
}

fn option<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|argument| argument.get_long() == Some(long))
}

#[test]
fn every_command_that_prints_a_result_prints_json() {
    for (name, command) in commands() {
        let exempt = NO_JSON.contains(&name.as_str());
        assert_eq!(option(&command, "json").is_none(), exempt, "--json of `{name}`");
    }
    for name in NO_JSON.iter().chain(&NEED_GROUP) {
        assert!(commands().iter().any(|(known, _)| known == name), "there is no `{name}`");
    }
}

#[test]
fn every_command_takes_the_global_options() {
    for (name, command) in commands() {
        for long in GLOBAL {
            let option = option(&command, long);
            assert!(option.is_some_and(Arg::is_global_set), "--{long} of `{name}`");
        }
    }
}

#[test]
fn an_option_has_the_same_letter_and_form_everywhere() {
    for (name, command) in commands() {
        for (long, letter) in LETTERS {
            if let Some(option) = option(&command, long) {
                assert_eq!(option.get_short(), Some(letter), "--{long} of `{name}`");
            }
        }
        if let Some(wait) = option(&command, "wait") {
            assert!(matches!(wait.get_action(), ArgAction::SetTrue), "--wait of `{name}`");
        }
        if option(&command, "force").is_some() {
            assert!(option(&command, "yes").is_some(), "`{name} --force` asks: it needs --yes");
        }
    }
}

#[test]
fn a_group_may_be_omitted() {
    for (name, command) in commands() {
        let group = |argument: &&Arg| {
            argument.get_value_names().is_some_and(|names| names[0].starts_with("GROUP"))
        };
        if let Some(group) = command.get_positionals().find(group) {
            let needed = NEED_GROUP.contains(&name.as_str());
            assert_eq!(group.is_required_set(), needed, "GROUP of `{name}`");
        }
    }
}

#[test]
fn every_command_is_described_in_one_short_line_that_begins_with_a_verb() {
    for (name, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let begins = about.chars().next().is_some_and(char::is_uppercase);
        let verb = about.split(' ').next().is_some_and(|word| !word.ends_with('s'));
        assert!(begins && verb && about.len() <= 90, "`{name}`: {about}");
    }
}

#[test]
fn every_command_is_completed_in_every_shell() {
    for shell in [args::Shell::Bash, args::Shell::Zsh, args::Shell::Fish] {
        let script = crate::manual::script(shell).expect("it is text");
        for (name, command) in commands() {
            let word = command.get_name();
            if word == "complete-names" {
                continue;
            }
            assert!(script.contains(word), "{shell:?} lacks `{name}`");
            if let Some(json) = option(&command, "json").and_then(Arg::get_long) {
                assert!(script.contains(json), "{shell:?} lacks --json of `{name}`");
            }
        }
        assert!(script.contains("complete-names"), "{shell:?} completes no names");
    }
}

/// Invalid lines of a command: nothing at all, an unknown option, too many words, wrong and missing values, conflicts.
fn invalid_lines(name: &str, command: &Command) -> Vec<String> {
    let mut lines = vec![
        name.to_owned(),
        format!("{name} --no-such-option"),
        format!("{name} a b c d e f g h"),
        format!("{name} --host a:1 --state /b"),
        format!("{name} --host a:1"),
        format!("{name} --key b"),
    ];
    for option in command.get_arguments().filter_map(Arg::get_long) {
        lines.extend(["", "=", "=-", "=x x x"].map(|value| format!("{name} --{option}{value}")));
    }
    lines
}

#[test]
fn every_invalid_command_line_is_refused_in_the_form_of_an_error() {
    let mut nouns: Vec<String> = commands()
        .iter()
        .filter_map(|(name, _)| Some(name.rsplit_once(' ')?.0.to_owned()))
        .collect();
    nouns.dedup();
    let unknown = nouns.iter().map(|noun| format!("{noun} no-such-command"));
    let known = commands().into_iter().flat_map(|(name, command)| invalid_lines(&name, &command));
    let mut refused = 0;
    for line in known.chain(unknown).chain(["helio log db".into(), "helio log".into()]) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let Err(error) = args::read(words.clone()) else { continue };
        if error.use_stderr() {
            let report = usage::error(&error, &usage::command_of(&words));
            assert_eq!(form::faults(&report), Vec::<String>::new(), "{line}: {report}");
            refused += 1;
        }
    }
    assert!(refused > 500, "only {refused} lines were refused");
}

#[test]
fn what_is_wrong_with_a_command_line_and_what_helps_are_two_texts() {
    for (line, text) in [
        (
            "helio mode",
            "the following required arguments were not provided: <MODE>\n  hint: `helio mode --help` lists",
        ),
        (
            "helio mode db fast",
            "invalid value 'fast' for '<MODE>': expected one of sync, nearsync, async, periodic\n  hint: ",
        ),
        (
            "helio staus",
            "unrecognized subcommand 'staus'\n  hint: some similar subcommands exist: 'pause', 'status'",
        ),
        (
            "helio attach --via usb",
            "[possible values: auto, ublk, fuse, nbd]\n  hint: a similar value exists: 'fuse'",
        ),
        ("helio log db", "helio has no command `log`; nothing was changed\n  hint: to read"),
    ] {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = args::read(words.clone()).expect_err(line);
        let shown = usage::error(&error, &usage::command_of(&words)).to_string();
        assert!(shown.contains(text), "{line}: {shown}");
    }
}
