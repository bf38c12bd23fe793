// SPDX-License-Identifier: Apache-2.0
//! Daemons that refuse to start, and pairs that serve.

use helio_testkit::{Pair, eventually, helio_binary, run_within};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Far longer than anything here should take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a daemon says that refuses to start.
#[track_caller]
pub(crate) fn refusal(node: &str, config: &Path, state: &Path) -> String {
    let mut command = Command::new(helio_binary());
    command.args(["daemon", "--node", node, "--config"]).arg(config).arg("--state").arg(state);
    let told = run_within(&mut command, PATIENCE);
    assert_eq!(told.status.code(), Some(1), "{told}");
    told.expect_failure()
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
