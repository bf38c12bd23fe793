// SPDX-License-Identifier: Apache-2.0
//! What the stories share.

use helio_testkit::{Pair, Told};

/// Fails unless the command ended with that code and said all of this.
#[track_caller]
pub(crate) fn assert_ended(told: &Told, code: i32, phrases: &[&str]) {
    assert_eq!(told.status.code(), Some(code), "{told}");
    let text = format!("{}{}", told.stdout, told.stderr);
    for phrase in phrases {
        assert!(text.contains(phrase), "it should say `{phrase}`: {told}");
    }
}

/// Changes the pair's configuration: every `from` becomes `to`.
#[track_caller]
pub(crate) fn change(pair: &Pair, from: &str, to: &str) {
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    assert!(text.contains(from), "no `{from}` in:\n{text}");
    pair.scratch().write("heliograph.toml", &text.replace(from, to));
}
