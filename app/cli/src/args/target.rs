// SPDX-License-Identifier: Apache-2.0
//! What each command works on.

/// What a command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A daemon, which it asks.
    Daemon,
    /// The state directory of a node; it asks no daemon.
    State,
    /// Neither.
    Neither,
}

const DAEMON: [&str; 28] = [
    "status",
    "top",
    "dashboard",
    "apply",
    "pause",
    "resume",
    "resync",
    "mode",
    "promote",
    "demote",
    "switch",
    "drill",
    "explain",
    "resolve",
    "verify",
    "seed",
    "saved",
    "snapshot",
    "member",
    "client",
    "attach",
    "detach",
    "release",
    "events",
    "advise",
    "queue",
    "debug",
    "trace",
];
const STATE: [&str; 7] = ["daemon", "check", "adopt", "inspect", "metadata", "rename", "key"];
const NEITHER: [&str; 9] = [
    "init",
    "completions",
    "complete-names",
    "man",
    "quickstart",
    "plan",
    "lab",
    "simhadr",
    "help",
];
/// Commands within a command of another target.
const WITHIN: [(&str, &str, Target); 4] = [
    ("trace", "show", Target::Neither),
    ("trace", "convert", Target::Neither),
    ("snapshot", "import", Target::Neither),
    ("snapshot", "join", Target::Neither),
];

/// What `helio COMMAND INNER` works on; none if there is no such command.
pub(crate) fn target(command: &str, inner: Option<&str>) -> Option<Target> {
    if let Some((.., target)) = WITHIN.iter().find(|row| (row.0, Some(row.1)) == (command, inner)) {
        return Some(*target);
    }
    let lists =
        [(&DAEMON[..], Target::Daemon), (&STATE, Target::State), (&NEITHER, Target::Neither)];
    let (_, target) = lists.iter().find(|(list, _)| list.contains(&command))?;
    Some(*target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_list() {
        let root = crate::args::command();
        let mut known: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
        known.push("help");
        let mut listed: Vec<&str> = [&DAEMON[..], &STATE, &NEITHER].concat();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
        for (command, inner, _) in WITHIN {
            let command = root.find_subcommand(command).expect(command);
            assert!(command.find_subcommand(inner).is_some(), "{inner}");
        }
    }
}
