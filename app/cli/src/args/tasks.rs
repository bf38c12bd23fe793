// SPDX-License-Identifier: Apache-2.0
//! The commands grouped by task, for `helio --help`. A test compares the table with the commands.

use clap::Command;
use std::fmt::Write as _;

/// Tasks, each with its commands in the order of their use.
const TASKS: [(&str, &[&str]); 8] = [
    ("Set up and run", &["init", "check", "daemon", "apply", "key", "quickstart"]),
    ("Look", &["status", "top", "dashboard", "events", "explain", "advise"]),
    ("Replicate", &["pause", "resume", "resync", "verify", "mode", "queue", "seed"]),
    ("Fail over", &["promote", "demote", "switch", "drill"]),
    ("Repair", &["resolve", "saved", "member", "metadata", "rename", "inspect", "debug"]),
    ("Volumes and devices", &["client", "attach", "detach", "snapshot", "adopt", "release"]),
    ("Measure and plan", &["trace", "plan", "lab", "simhadr"]),
    ("Help", &["man", "completions", "help"]),
];

/// The template of the help text.
pub(super) fn help(command: &Command) -> String {
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (task, verbs) in TASKS {
        let _ = writeln!(text, "\n{task}:");
        for verb in verbs {
            let about = match command.find_subcommand(verb).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print the help of a command".to_owned(),
            };
            let _ = writeln!(text, "  {verb:<12} {about}");
        }
    }
    text + "\nGlobal options:\n{options}\n\n`helio COMMAND --help` lists the options of a command."
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_has_one_task_and_one_line() {
        let command = crate::args::command();
        let listed: Vec<&str> = TASKS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let wanted: BTreeSet<&str> = shown.map(Command::get_name).chain(["help"]).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), wanted);
        assert_eq!(listed.len(), wanted.len(), "a command is listed twice");
        for row in help(&command).lines() {
            assert!(row.len() <= 100, "longer than a row: {row}");
        }
    }
}
