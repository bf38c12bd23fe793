// SPDX-License-Identifier: Apache-2.0
//! The form of an error: what failed and why in one text, and a hint that says what to do, with the names of what it is about.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Words that stand for a name. An error is about one object, whose name is known.
const PLACEHOLDERS: [&str; 4] = ["GROUP", "VOLUME", "NODE", "PEER"];
/// Words that a number follows only where an index took the place of a name.
const NAMED: [&str; 4] = ["volume", "group", "peer", "member"];

/// Commands for the whole node, or whose object a text cannot know.
const OF_NODE: [&str; 8] =
    ["adopt", "apply", "check", "daemon", "events", "init", "quickstart", "status"];

/// What is wrong with the form of an error; empty for a good one. `named`: it is about an object, whose name is known.
#[must_use]
pub fn faults(text: &str, hint: Option<&str>, named: bool) -> Vec<String> {
    let mut faults = of_text("the text", text);
    match hint {
        None => faults.push("it has no hint".to_string()),
        Some(hint) => faults.extend(of_text("the hint", hint)),
    }
    if named {
        faults.extend([text, hint.unwrap_or_default()].into_iter().flat_map(unnamed));
        let commands = hint.unwrap_or_default().split('`').skip(1).step_by(2);
        let bare = commands.filter(|command| lacks_object(command));
        faults.extend(bare.map(|command| format!("`{command}` has no object")));
    }
    faults
}

/// What is wrong with one text of an error.
#[must_use]
pub fn of_text(what: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.trim().is_empty() {
        faults.push(format!("{what} is empty"));
    }
    // An argument of a command may be repeated: `PATH...`.
    if text.trim_end().trim_end_matches("...").ends_with(['.', '!', ':', ';', ',']) {
        faults.push(format!("{what} ends with punctuation"));
    }
    if begins_upper(text) {
        faults.push(format!("{what} begins with a capital letter"));
    }
    if text.contains("hint:") {
        faults.push(format!("{what} has a hint inside"));
    }
    if text.matches('`').count() % 2 == 1 {
        faults.push(format!("{what} has a command without its second backtick"));
    }
    faults
}

/// Whether a text begins with an ordinary word in capitals; an abbreviation or a file name may.
fn begins_upper(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or_default();
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_uppercase)
        && letters.clone().count() > 0
        && letters.all(char::is_lowercase)
}

/// Whether a command leaves open which group or volume it is for. With two words behind `helio`, the last one may be the
/// object or belong to the command (`helio key new`).
fn lacks_object(command: &str) -> bool {
    let mut words = command.split(' ');
    if words.next() != Some("helio") || command.contains(" --help") || command.contains(" --list") {
        return false;
    }
    let words: Vec<&str> = words.filter(|word| !word.starts_with('-')).collect();
    words.len() < 2 && !words.iter().any(|verb| OF_NODE.contains(verb))
}

/// Placeholders and indices where a name belongs. Which node to discard, the operator chooses.
fn unnamed(text: &str) -> Vec<String> {
    let text = text.replace("--discard NODE", "--discard");
    let words: Vec<&str> =
        text.split(|c: char| !(c.is_alphanumeric() || "-_.=".contains(c))).collect();
    let placeholders = words.iter().filter(|word| PLACEHOLDERS.contains(word));
    let indices = words.windows(2).filter(|pair| {
        NAMED.contains(&pair[0])
            && !pair[1].is_empty()
            && pair[1].bytes().all(|c| c.is_ascii_digit())
    });
    let of = |word: &str| format!("`{word}` is not a name");
    placeholders.map(|word| of(word)).chain(indices.map(|pair| of(&pair.join(" ")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, hint: &str) -> usize {
        faults(text, Some(hint), true).len()
    }

    #[test]
    fn every_fault_of_form_is_found_and_a_good_error_has_none() {
        for (text, hint, count) in [
            ("group dbx is not configured on paris", "name one of: db, mail", 0),
            ("TLS with lyon: no key", "`helio key new`. Then restart the daemon", 0),
            ("Group dbx is not configured", "name another", 1),
            ("it failed.", "try again", 1),
            ("it failed", "try again.", 1),
            ("it failed", "", 1),
            ("it failed; hint: try", "try again", 1),
            ("volume 0 failed", "`helio resync db`", 1),
            ("db is paused", "`helio resync GROUP`", 1),
            ("both nodes wrote db", "on one: `helio resolve db --discard NODE`", 0),
            ("db is paused", "`helio resync db", 1),
            ("db is attached", "`helio detach` it first", 1),
            ("db is attached", "`helio detach --force` it first", 1),
            ("db is attached", "`helio attach --list` shows where; `helio status` shows db", 0),
        ] {
            assert_eq!(found(text, hint), count, "{text} / {hint}");
        }
        assert_eq!(faults("it failed", None, true), ["it has no hint"]);
    }
}
