// SPDX-License-Identifier: Apache-2.0
//! Daemons that refuse to start, and pairs that serve.

use helio_testkit::{Pair, Told, eventually, helio_binary, run_within};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Far longer than anything here should take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a daemon says that refuses to start. `helio check` finds it before in the same words, and leaves nothing behind.
#[track_caller]
pub(crate) fn refusal(node: &str, config: &Path, state: &Path) -> String {
    refusal_under(&[], node, config, state)
}

/// The same, run by another command, such as one that sets a limit.
#[track_caller]
pub(crate) fn refusal_under(under: &[&str], node: &str, config: &Path, state: &Path) -> String {
    let there = state.exists();
    let fails = fails(&verb(under, "check", node, config, state));
    assert_eq!(state.exists(), there, "a check makes nothing");
    let told = verb(under, "daemon", node, config, state);
    assert_eq!(told.status.code(), Some(1), "{told}");
    let said = told.expect_failure();
    let same = |(why, hint): &&(String, String)| said.contains(&format!("{why}\n  hint: {hint}"));
    assert!(
        fails.iter().find(same).is_some(),
        "check found {fails:#?}, and the daemon said\n{said}"
    );
    said
}

/// What a check finds that fails: why, and the hint.
#[track_caller]
pub(crate) fn fails(told: &Told) -> Vec<(String, String)> {
    let found: Vec<_> = findings(told).into_iter().filter(|it| it["verdict"] == "FAIL").collect();
    let code = i32::from(!found.is_empty());
    assert_eq!(told.status.code(), Some(code), "{told}");
    let text = |it: &Value, key: &str| it[key].as_str().expect("a text").to_owned();
    found.iter().map(|it| (text(it, "why"), text(it, "hint"))).collect()
}

/// Everything that a check finds.
#[track_caller]
pub(crate) fn findings(told: &Told) -> Vec<Value> {
    serde_json::from_str(&told.stdout).unwrap_or_else(|why| panic!("{why}: {told}"))
}

/// Runs `helio check --json` or `helio daemon`.
pub(crate) fn verb(under: &[&str], verb: &str, node: &str, config: &Path, state: &Path) -> Told {
    let helio = helio_binary().display().to_string();
    let mut words = [under, &[&helio, verb]].concat();
    if verb == "check" {
        words.push("--json");
    }
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["--node", node, "--config"]).arg(config);
    run_within(command.arg("--state").arg(state), PATIENCE)
}

/// Fails unless the text has every one of these phrases.
#[track_caller]
pub(crate) fn assert_says(text: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(text.contains(phrase), "it should say `{phrase}`, and says:\n{text}");
    }
}

/// Changes the pair's configuration: every `from` becomes `to`.
#[track_caller]
pub(crate) fn rewrite(pair: &Pair, from: &str, to: &str) {
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    assert!(text.contains(from), "no `{from}` in:\n{text}");
    pair.scratch().write("heliograph.toml", &text.replace(from, to));
}

/// The line of the configuration, counted from 1, that holds this.
#[track_caller]
pub(crate) fn line_of(pair: &Pair, what: &str) -> usize {
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    let at = text.lines().position(|line| line.contains(what));
    1 + at.unwrap_or_else(|| panic!("no `{what}` in:\n{text}"))
}

/// Promotes a node once its peer agrees, and waits until it replicates.
#[track_caller]
pub(crate) fn promote(pair: &Pair, node: &str) {
    eventually(PATIENCE, "a primary", || {
        pair.helio(node, &["promote", pair.group()]).status.success().then_some(())
    });
    replicating(pair, node);
}

/// Waits until the copies are equal.
#[track_caller]
pub(crate) fn replicating(pair: &Pair, node: &str) {
    eventually(PATIENCE, "replicating", || {
        let status = pair.status(node);
        (status["groups"][0]["state"] == "replicating").then_some(())
    });
}
