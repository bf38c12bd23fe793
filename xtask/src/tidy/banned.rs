// SPDX-License-Identifier: Apache-2.0
//! Rules `banned-call` and `unfinished`: what the house does without, each with what to use instead.

use super::Finding;
use super::source::{Source, is_word};
use std::path::Path;

/// The only files that may sleep, each with its reason.
const MAY_SLEEP: [(&str, &str); 1] =
    [("proof/testkit/src/wait.rs", "polls other processes, which raise no event here")];

/// Calls that stand in no file, with the hint.
const CALLS: [(&str, &str); 4] = [
    ("todo!", "finish it, or leave the room out until it has code"),
    ("unimplemented!", "finish it, or refuse with a named error"),
    ("dbg!", "use tracing, or a Note effect in the pure floors"),
    ("#[ignore]", "say why: #[ignore = \"…\"]; better, make it quick enough to run"),
];

/// Marks of unfinished work in comments and scripts. Spelled in halves, so that this file passes.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let may_sleep = MAY_SLEEP.iter().any(|(file, _)| source.path == Path::new(file));
    for (at, line, _) in source.lines() {
        let mut ban =
            |rule, hint: String| findings.push(Finding::new(&source.path, at, rule, hint));
        for (call, hint) in CALLS {
            if has_word(line, call) {
                ban("banned-call", format!("`{call}` is banned: {hint}"));
            }
        }
        if !may_sleep && (has_word(line, "thread::sleep") || has_word(line, "time::sleep")) {
            ban(
                "banned-call",
                "sleeping is banned: wait for the event, or for a deadline in the reactor"
                    .to_owned(),
            );
        }
        if (line.contains("allow(") || line.contains("expect(")) && has_word(line, "dead_code") {
            ban("unfinished", "dead code goes: remove it until something calls it".to_owned());
        }
    }
    for (at, comment) in source.comments.iter().enumerate() {
        findings.extend(mark(&source.path, at + 1, comment));
    }
    findings
}

/// The marks of unfinished work in a script or a settings file.
pub(super) fn check_script(path: &Path, text: &str) -> Vec<Finding> {
    text.lines().enumerate().filter_map(|(at, line)| mark(path, at + 1, line)).collect()
}

fn mark(path: &Path, line: usize, text: &str) -> Option<Finding> {
    let found = MARKS.iter().find(|word| has_word(text, word))?;
    let hint = format!("`{found}` marks unfinished work: finish it, or open an issue for it");
    Some(Finding::new(path, line, "unfinished", hint))
}

/// Whether `word` stands in `text` and is not a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        before.is_none_or(|c| !is_word(c)) && after.is_none_or(|c| !is_word(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<&'static str> {
        check(&Source::read(Path::new(path), text))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn every_banned_call_is_found() {
        for call in [
            "todo!()",
            "unimplemented!()",
            "dbg!(x)",
            "std::thread::sleep(d)",
            "tokio::time::sleep(d)",
        ] {
            assert_eq!(found("a.rs", &format!("fn a() {{ {call}; }}")), ["banned-call"], "{call}");
        }
        assert_eq!(found("a.rs", "#[test]\n#[ignore]\nfn a() {}"), ["banned-call"]);
        assert_eq!(found("a.rs", "#[allow(dead_code)]\nfn a() {}"), ["unfinished"]);
        assert_eq!(found("a.rs", "#![expect(unused, dead_code)]"), ["unfinished"]);
    }

    #[test]
    fn a_mark_of_unfinished_work_is_found_in_comments_and_scripts() {
        for word in MARKS {
            assert_eq!(found("a.rs", &format!("// {word}: later")), ["unfinished"]);
            assert_eq!(check_script(Path::new("a.sh"), &format!("# {word}")).len(), 1);
            assert!(found("a.rs", &format!("// mktemp a.{word}Y")).is_empty());
        }
    }

    #[test]
    fn text_a_reason_and_the_poller_are_let_through() {
        assert!(found("a.rs", "fn a() { say(\"todo!()\"); } // thread::sleep").is_empty());
        assert!(found("a.rs", "#[ignore = \"needs a kernel with ublk\"]\nfn a() {}").is_empty());
        assert!(found(MAY_SLEEP[0].0, "fn a() { std::thread::sleep(d); }").is_empty());
    }
}
