// SPDX-License-Identifier: Apache-2.0
//! What the operator typed, for the commands that texts advise: they get the global options of this command line, so
//! that they run as printed. Options from the environment hold for the next command anyway.
//!
//! A command in a text is for the node that answers. If it is for another node, ` on NAME` stands directly behind its
//! closing backtick: "`helio demote db` on lyon". Such a command gets no options.

use crate::args::{Target, target};
use std::sync::OnceLock;

/// The parts of a command line that texts refer to.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    /// The command without its arguments: "helio queue set".
    pub(crate) command: String,
    /// `--state DIR` as it was typed; empty if it was not.
    pub(crate) state: String,
    /// `--host`, `--key` and `--server-key` as they were typed.
    pub(crate) remote: String,
}

static TYPED: OnceLock<Typed> = OnceLock::new();

/// Sets the command line of this process, once.
pub(crate) fn set(typed: Typed) {
    // A process has one command line.
    let _set_before = TYPED.set(typed);
}

/// What the operator does about an error that has no hint of its own.
pub(crate) fn help() -> String {
    let command = TYPED.get().map_or("helio", |typed| typed.command.as_str());
    format!("`{command} --help` describes the command and its options")
}

/// A text with commands for this node, or for any node, in the form in which they run here.
pub(crate) fn runnable(text: &str) -> String {
    runnable_on(text, "")
}

/// The same, if the node that received the request is known by name.
pub(crate) fn runnable_on(text: &str, node: &str) -> String {
    TYPED.get().map_or_else(|| text.to_owned(), |typed| typed.complete(text, node))
}

/// The commands in a text, each with what stands behind it.
pub(crate) fn commands(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pieces: Vec<&str> = text.split('`').collect();
    let pairs = pieces.chunks_exact(2).map(|pair| pair[1]);
    let behind = pieces.iter().copied().skip(2).step_by(2);
    pairs.zip(behind).collect::<Vec<_>>().into_iter()
}

/// The commands in a text that are for this node: for none by name, or for either of the two.
pub(crate) fn commands_for<'a>(text: &'a str, node: &str) -> Vec<&'a str> {
    let either =
        |behind: &str| [" on it", " on the other one"].iter().any(|it| behind.starts_with(it));
    let here = |behind: &str| !is_elsewhere(behind, node) || either(behind);
    commands(text).filter(|(_, behind)| here(behind)).map(|(command, _)| command).collect()
}

/// The commands in a text that are for this node by its name.
pub(crate) fn commands_on<'a>(text: &'a str, node: &str) -> Vec<&'a str> {
    let named = |behind: &str| is_elsewhere(behind, "") && !is_elsewhere(behind, node);
    commands(text).filter(|(_, behind)| named(behind)).map(|(command, _)| command).collect()
}

impl Typed {
    fn complete(&self, text: &str, node: &str) -> String {
        let mut out = String::new();
        // Every second piece stands between backticks.
        let pieces: Vec<&str> = text.split('`').collect();
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                out.push('`');
            }
            out.push_str(piece);
            if at % 2 == 1
                && let Some(behind) = pieces.get(at + 1)
                && !is_elsewhere(behind, node)
            {
                out.push_str(&self.options(piece));
            }
        }
        out
    }

    /// The options to add to a command.
    fn options(&self, command: &str) -> String {
        let mut words = command.split(' ');
        let verb = (words.next() == Some("helio")).then(|| words.next()).flatten();
        let Some(verb) = verb.filter(|verb| !verb.starts_with('-') && !verb.is_empty()) else {
            return String::new();
        };
        let names_one = [" --state", " --host"].iter().any(|option| command.contains(option));
        match target(verb, words.next()) {
            _ if names_one => String::new(),
            Some(Target::Daemon) => format!("{}{}", self.state, self.remote),
            Some(Target::State) => self.state.clone(),
            Some(Target::Neither) | None => String::new(),
        }
    }
}

/// Whether what stands behind a command names another node than `node`: " on lyon, then".
fn is_elsewhere(behind: &str, node: &str) -> bool {
    let Some(rest) = behind.strip_prefix(" on ") else { return false };
    let is_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let name = rest.split(|c| !is_name(c)).next().unwrap_or_default().trim_end_matches('.');
    name != node && !["this node", "the daemon"].iter().any(|here| rest.starts_with(here))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> String {
        let typed = Typed {
            command: "helio status".into(),
            state: " --state /a".into(),
            remote: " --key k".into(),
        };
        typed.complete(text, "paris")
    }

    #[test]
    fn an_advised_command_gets_the_options_that_name_the_daemon() {
        for (text, printed) in [
            ("`helio resume db` ends it", "`helio resume db --state /a --key k` ends it"),
            ("start `helio daemon`", "start `helio daemon --state /a`"),
            ("`helio promote db` on paris", "`helio promote db --state /a --key k` on paris"),
            ("`helio demote db` on this node", "`helio demote db --state /a --key k` on this node"),
            (
                "free space on lyon, then `helio resync db`",
                "free space on lyon, then `helio resync db --state /a --key k`",
            ),
            (
                "`helio demote db` on lyon, then `helio promote db`",
                "`helio demote db` on lyon, then `helio promote db --state /a --key k`",
            ),
            (
                "it continues on the daemon; `helio verify stop db` stops it",
                "it continues on the daemon; `helio verify stop db --state /a --key k` stops it",
            ),
        ] {
            assert_eq!(typed(text), printed);
        }
    }

    #[test]
    fn a_command_for_another_node_or_without_a_daemon_stays_as_it_is() {
        for text in [
            "`helio promote db` on lyon; do not promote paris",
            "free space on lyon, then `helio resync db` on lyon",
            "`helio member replace db/data` on paris.example. It asks",
            "`helio status db` on both nodes shows why",
            "`helio --help` lists the commands; `journalctl -u helio`",
            "`helio status db --state /b`",
            "`helio plan forecast --json`",
            "set `safe-copy` to a size",
        ] {
            assert_eq!(typed(text), text);
        }
    }
}
