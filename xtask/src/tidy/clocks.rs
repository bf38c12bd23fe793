// SPDX-License-Identifier: Apache-2.0
//! Rules `clock-bound`, `date` and `slow`: no test fails because its machine is busy, or because of the day it runs on.

use super::Finding;
use super::source::{Source, is_word};
use std::path::Path;

/// Tests that may read the date, each with its reason.
const MAY_READ_DATE: [(&str, &str); 2] = [
    ("app/lab/tests/ends.rs", "compares a moment that both ends report with the calendar"),
    ("proof/e2e/tests/refusals/clock.rs", "compares the times of a status with the calendar"),
];

/// What may use clocks as it likes: it may depend on no crate of the house, so it has no kit.
const NO_KIT: &str = "xtask";

/// Where the kind of a failure is written and read.
const KIND: &str = "SLOW: ";
const MAY_NAME_KIND: [&str; 3] =
    ["proof/testkit/src/wait.rs", "xtask/src/test", "xtask/src/tidy/clocks.rs"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |at: usize, rule, hint: &str| {
        findings.push(Finding::new(&source.path, at, rule, hint));
    };
    let proof = source.path.starts_with("proof");
    let dated = MAY_READ_DATE.iter().any(|(file, _)| source.path == Path::new(file));
    let spans = spans(source);
    for (at, line, test) in source.lines() {
        if !(test || proof) {
            continue;
        }
        if !dated && (line.contains("SystemTime::now") || line.contains("UNIX_EPOCH")) {
            find(at, "date", "nothing in tests reads the date: use a fixed one, or a seed");
        }
        let bounded = line.contains("assert") && bounds_time(&argument(source, at - 1), &spans);
        if bounded && !source.path.starts_with(NO_KIT) {
            let hint = "a busy machine breaks this: wait for the event with `helio_testkit::eventually`, compare two times \
                        of one run, use virtual time; `helio_testkit::in_time` holds real processes to a bound";
            find(at, "clock-bound", hint);
        }
    }
    if !MAY_NAME_KIND.iter().any(|place| source.path.starts_with(place)) {
        for (at, _) in source.texts.iter().enumerate().filter(|(_, text)| text.contains(KIND)) {
            find(at + 1, "slow", "only the kit's wait ends a test as SLOW: use `helio_testkit`");
        }
    }
    findings
}

/// The names of a file that stand for a moment's age: `let took = begun.elapsed();`.
fn spans(source: &Source) -> Vec<&str> {
    let bound = source.code.iter().filter(|line| line.contains(".elapsed()"));
    let names = bound.filter_map(|line| line.trim_start().strip_prefix("let ")?.split_once(" = "));
    names.map(|(name, _)| name).filter(|name| name.chars().all(is_word)).collect()
}

/// What stands in the round brackets of the assertion on a line, on one line and without spaces.
fn argument(source: &Source, line: usize) -> String {
    let begin = source.code[line].find("assert").unwrap_or_default();
    let (mut text, mut depth) = (String::new(), 0_usize);
    let rest = source.code[line..].iter().enumerate();
    for c in rest.flat_map(|(n, code)| code[if n == 0 { begin } else { 0 }..].chars()) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' | '{' if depth == 0 => break,
            _ => {}
        }
        if !c.is_whitespace() {
            text.push(c);
        }
        if c == ')' && depth == 0 {
            break;
        }
    }
    text
}

/// Whether an assertion has an upper bound for the age of a moment, or asks whether a deadline is still ahead.
fn bounds_time(argument: &str, spans: &[&str]) -> bool {
    let name = argument.split('(').next().unwrap_or_default();
    let is_assertion = name.starts_with("assert") && name.ends_with('!');
    let below = |name: &str| {
        argument.match_indices(name).any(|(at, _)| {
            let before = argument[..at].chars().next_back();
            let behind = &argument[at + name.len()..];
            let behind = behind.strip_prefix(".as_millis()").unwrap_or(behind);
            let behind = behind.strip_prefix(".as_secs()").unwrap_or(behind);
            before.is_none_or(|c| !is_word(c))
                && behind.starts_with('<')
                && !behind.starts_with("<<")
        })
    };
    let ages =
        [".elapsed()<", ".elapsed().as_millis()<", ".elapsed().as_secs()<", "Instant::now()<"];
    let is_age = ages.iter().any(|age| argument.contains(age))
        || (argument.contains(".contains(&") && argument.contains(".elapsed())"));
    is_assertion && (is_age || spans.iter().any(|name| below(name)))
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
    fn an_upper_bound_on_the_age_of_a_moment_is_found() {
        for text in [
            "assert!(begun.elapsed() < LIMIT);",
            "assert!(begun.elapsed() <= LIMIT, \"{x}\");",
            "assert!(\n    told.is_ok()\n        && begun.elapsed() < LIMIT,\n);",
            "assert!((least..most).contains(&begun.elapsed()));",
            "assert!(begun.elapsed().as_millis() < 20);",
            "assert!(Instant::now() < deadline, \"still waiting\");",
            "let took = begun.elapsed();\nassert!(took < LIMIT);",
            "let took = begun.elapsed();\nassert!(took.as_millis() < 20);",
        ] {
            assert_eq!(found("edge/nbd/tests/a.rs", text), ["clock-bound"], "{text}");
            assert_eq!(found("proof/sim/src/a.rs", text), ["clock-bound"], "{text}");
            assert!(found("edge/nbd/src/a.rs", text).is_empty(), "no test: {text}");
            let module = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
            assert_eq!(found("edge/nbd/src/a.rs", &module), ["clock-bound"], "{text}");
        }
    }

    #[test]
    fn lower_bounds_and_ratios_are_let_through() {
        for text in [
            "assert!(begun.elapsed() >= LIMIT);",
            "assert!(LIMIT <= begun.elapsed());",
            "while begun.elapsed() < span { write(); }",
            "let took = begun.elapsed();\nassert!(overtook < LIMIT && took > LIMIT);",
            "in_time(begun.elapsed(), LIMIT, \"the way\");",
            "assert!(beside < alone * 5, \"{alone:?}\");\nlet a = b.elapsed() < c;",
        ] {
            assert!(found("edge/nbd/tests/a.rs", text).is_empty(), "{text}");
        }
        assert!(found("xtask/tests/a.rs", "assert!(begun.elapsed() < LIMIT);").is_empty());
    }

    #[test]
    fn a_test_that_reads_the_date_is_found() {
        let text = "let now = SystemTime::now().duration_since(UNIX_EPOCH);";
        assert_eq!(found("proof/e2e/src/a.rs", text), ["date"]);
        assert_eq!(found("app/api/tests/a.rs", text), ["date"]);
        assert!(found("app/api/src/a.rs", text).is_empty(), "a product may");
        for (file, _) in MAY_READ_DATE {
            assert!(found(file, text).is_empty(), "{file}");
        }
    }

    #[test]
    fn only_the_kit_says_that_a_test_is_slow() {
        let text = "fn a() { panic!(\"SLOW: waited\"); }";
        assert_eq!(found("proof/e2e/src/a.rs", text), ["slow"]);
        assert_eq!(found("app/api/src/a.rs", text), ["slow"]);
        assert!(found("proof/testkit/src/wait.rs", text).is_empty());
        assert!(found("xtask/src/test/tally.rs", text).is_empty());
        assert!(found("app/api/src/a.rs", "// SLOW: a comment\nconst SLOW: u8 = 1;").is_empty());
    }
}
