// SPDX-License-Identifier: Apache-2.0
//! What the operator typed, for the commands that texts advise: they get the global options of this command line, so
//! that they run as printed. Options from the environment hold for the next command anyway.

use std::sync::OnceLock;

/// Commands that ask no daemon and read its state directory.
const FILES: [&str; 6] = ["daemon", "check", "adopt", "inspect", "metadata", "key"];
/// Commands that do neither.
const NEITHER: [&str; 8] =
    ["init", "completions", "man", "quickstart", "plan", "lab", "simhadr", "help"];

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

impl Typed {
    fn complete(&self, text: &str, node: &str) -> String {
        let mut out = String::new();
        let mut elsewhere = false;
        // Every second piece stands between backticks.
        let pieces: Vec<&str> = text.split('`').collect();
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                out.push('`');
            }
            out.push_str(piece);
            if at % 2 == 0 {
                elsewhere = goes_on(elsewhere, piece, at > 0, node);
            } else if let Some(behind) = pieces.get(at + 1)
                && !named_behind(behind).map_or(elsewhere, |name| is_other(name, node))
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
        let on_files = matches!((verb, words.next()), ("trace", Some("show" | "convert")));
        if names_one || on_files || NEITHER.contains(&verb) {
            String::new()
        } else if FILES.contains(&verb) {
            self.state.clone()
        } else {
            format!("{}{}", self.state, self.remote)
        }
    }
}

fn is_other(name: &str, node: &str) -> bool {
    let name = name.trim_matches(|c: char| !c.is_alphanumeric());
    name != node && !["this", "daemon"].contains(&name)
}

/// The node that a command is for, if the words behind it say so: "`command` on lyon".
fn named_behind(behind: &str) -> Option<&str> {
    let clause = behind.split([';', ',', ':']).next().unwrap_or_default();
    let words: Vec<&str> = clause.split_whitespace().collect();
    words.windows(2).find(|pair| pair[0] == "on").map(|pair| pair[1])
}

/// Whether commands behind a piece are for another node, if they were before it: "on lyon: free space, then `command`; or
/// `command`". That ends with the sentence. What stands directly behind a command is about that one.
fn goes_on(before: bool, piece: &str, is_behind: bool, node: &str) -> bool {
    let own = if is_behind { piece.find([';', ',', ':']).unwrap_or(piece.len()) } else { 0 };
    let words: Vec<&str> = piece[own..].split_whitespace().collect();
    let ends = piece[..own].split_whitespace().any(|word| word.ends_with('.'));
    let mut elsewhere = before && !ends;
    for (at, word) in words.iter().enumerate() {
        match words.get(at + 1) {
            Some(&"the") if *word == "on" => {
                elsewhere = is_other(words.get(at + 2).unwrap_or(&"the"), node);
            }
            Some(name) if *word == "on" => elsewhere = is_other(name, node),
            _ if word.ends_with('.') => elsewhere = false,
            _ => {}
        }
    }
    elsewhere
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
            (
                "on paris: free it, then `helio resync db`",
                "on paris: free it, then `helio resync db --state /a --key k`",
            ),
            (
                "`helio demote db` on lyon, then `helio promote db`",
                "`helio demote db` on lyon, then `helio promote db --state /a --key k`",
            ),
            (
                "it continues on the daemon; `helio verify stop db` stops it",
                "it continues on the daemon; `helio verify stop db --state /a --key k` stops it",
            ),
            (
                "on lyon, free space. Then `helio resume db`",
                "on lyon, free space. Then `helio resume db --state /a --key k`",
            ),
        ] {
            assert_eq!(typed(text), printed);
        }
    }

    #[test]
    fn a_command_for_another_node_or_without_a_daemon_stays_as_it_is() {
        for text in [
            "`helio promote db` on lyon; do not promote paris",
            "on lyon: free it, then `helio resync db`",
            "choose the node to discard; on it: `helio demote db`, then `helio resolve db --discard NODE`",
            "on lyon: repair the disk, then restart its daemon; or `helio member replace db/data`",
            "on lyon, `helio demote db`, then `helio member accept db/data`",
            "on lyon.example: free space, or `helio member replace db/data`",
            "`helio status` and the log on lyon say what helps",
            "`helio --help` lists the commands; `journalctl -u helio`",
            "`helio status db --state /b`",
            "`helio plan forecast --json`",
            "set `safe-copy` to a size",
        ] {
            assert_eq!(typed(text), text);
        }
    }
}
