// SPDX-License-Identifier: Apache-2.0
//! Names that pages mention: they exist in the program, and what the program has is mentioned.

use crate::pages::{blocks, page, pages};
use helio_daemon::config::Config;
use helio_testkit::helio;
use std::collections::BTreeSet;

/// The commands of `helio --help`: the first word of each indented row before the options.
fn verbs() -> BTreeSet<String> {
    let told = helio(&["--help"]).expect_success();
    let list = told.lines().take_while(|row| *row != "Global options:");
    // Descriptions go on at a deeper indentation.
    list.filter_map(|row| row.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|row| row.split_whitespace().next().map(ToOwned::to_owned))
        .collect()
}

/// Words behind `helio ` in code, whether in blocks or in a line's text.
fn mentioned(text: &str) -> BTreeSet<String> {
    let code = |at: usize| {
        let before = text[..at].chars().next_back();
        matches!(before, Some('`' | ' ' | '\n' | '/' | '(' | '='))
    };
    let calls = text.match_indices("helio ").filter(|(at, _)| code(*at));
    calls
        .filter_map(|(at, call)| {
            let line = text[at + call.len()..].lines().next()?;
            let in_code = text[..at].ends_with(['`', '/']) || text[..at].ends_with("$ ");
            let word: String =
                line.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            (in_code && !word.is_empty() && !word.starts_with('-')).then_some(word)
        })
        .collect()
}

#[test]
fn every_verb_a_page_mentions_exists() {
    let verbs = verbs();
    assert!(verbs.contains("status") && verbs.contains("lab"), "{verbs:?}");
    for (name, text) in pages() {
        for word in mentioned(&text) {
            assert!(verbs.contains(&word), "{name} mentions `helio {word}`, and there is none");
        }
    }
}

#[test]
fn every_verb_and_its_options_are_on_the_page() {
    let text = page("docs/reference/cli.md");
    for verb in verbs().iter().filter(|verb| *verb != "help") {
        assert!(text.contains(&format!("`helio {verb}")), "cli.md lacks `helio {verb}`");
        let help = helio(&[verb, "--help"]).expect_success();
        for option in help.split_whitespace().filter(|word| word.starts_with("--")) {
            let option = option.trim_end_matches([',', '.', ';', ':', ')', ']']);
            // An option whose value may be left out shows it as `--watch[=<SECONDS>]`.
            let option = option.split_once("[=").map_or(option, |(option, _)| option);
            let known = option == "--help" || text.contains(option);
            assert!(known, "cli.md lacks {option} of `helio {verb}`");
        }
        let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let commands = commands.take_while(|line| !line.is_empty());
        for command in commands.filter_map(|line| line.split_whitespace().next()) {
            let known = command == "help" || text.contains(&format!("`helio {verb} {command}"));
            assert!(known, "cli.md lacks `helio {verb} {command}`");
        }
    }
}

#[test]
fn every_configuration_on_the_pages_is_one() {
    let example = page("docs/example.toml");
    let parsed = Config::parse(&example, "docs/example.toml");
    assert!(parsed.is_ok(), "{}", parsed.expect_err("it is not ok"));
    for (name, text) in pages() {
        for block in blocks(&text, "toml") {
            if let Err(why) = Config::parse(&block, &name) {
                panic!("{why}\n{block}");
            }
        }
    }
}

#[test]
fn every_key_of_the_example_is_on_the_page() {
    let (example, text) = (page("docs/example.toml"), page("docs/reference/config.md"));
    let settings = example.lines().filter(|line| !line.starts_with('#'));
    let keys = settings.filter_map(|line| line.split_once(" = ")).map(|(key, _)| key);
    for key in keys {
        let key = key.split('.').next().unwrap_or(key);
        assert!(text.contains(&format!("`{key}")), "config.md lacks `{key}`");
    }
    // What the daemon knows of each table it says when it meets a key it does not know.
    for table in [
        "node.paris",
        "node.paris.tls",
        "group.db",
        "group.db.queue",
        "group.db.link",
        "group.db.alerts",
        "group.db.volume.data",
    ] {
        let head = format!("[{table}]\n");
        let wrong = example.replacen(&head, &format!("{head}no-such-key = 1\n"), 1);
        let why = Config::parse(&wrong, "example").expect_err("the key is unknown");
        let known = why.hint.strip_prefix("known here: ").expect("a list of keys").to_owned();
        for key in known.split(", ") {
            assert!(text.contains(&format!("`{key}")), "config.md lacks `{key}` of [{table}]");
        }
    }
}
