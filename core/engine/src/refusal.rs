// SPDX-License-Identifier: Apache-2.0
//! Why something was not done, in words that name the culprit and the hint.

use alloc::format;
use alloc::string::String;
use helio_stack::StoreFault;

/// Why a client's request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// This node is not primary for the group.
    NotPrimary,
    /// It leaves the volume.
    OutOfBounds,
    /// It does not keep to the volume's blocks.
    Unaligned,
    /// The queue is full and its policy says fail.
    QueueFull,
    /// The local store failed.
    Store(StoreFault),
}

/// Why a command was refused. The text names culprit and cause, the hint stands apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One kebab-case word for programs.
    pub code: &'static str,
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    pub hint: String,
    /// Trying again later may succeed.
    pub retry: bool,
}

/// Settings that keep what a hint waits for from ending.
pub(crate) const HELD_BACK: &str =
    "if `copies-at-once` or `copy-priority` is 0, raise it and run `helio apply`";

/// The hint of a command that needs all of this node's copy.
#[must_use]
pub fn until_complete(group: &str) -> String {
    format!(
        "do what `helio status {group}` shows as the next step, then wait until it shows the copy as complete"
    )
}

impl Refusal {
    /// A refusal that waiting does not cure.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, text: text.into(), hint: hint.into(), retry: false }
    }

    /// What was asked for needs a peer, and the group has only this node.
    #[must_use]
    pub fn no_peer(group: &str) -> Self {
        Self::new(
            "no-peer",
            format!("{group} has only one node"),
            format!(
                "to add a second node, name it in `nodes` of [group.{group}] in the configuration file, give each volume a member \
                 on it, and restart the daemon"
            ),
        )
    }

    /// A hint for two nodes neither of which has everything: only `ahead` has the last writes, and only `complete` has a consistent copy.
    #[must_use]
    pub fn neither_has_everything(group: &str, ahead: &str, complete: &str) -> String {
        format!(
            "neither copy has everything: {ahead} has the last writes and an inconsistent copy, {complete} has a consistent copy without \
             them. To discard the writes that only {ahead} has: `helio resolve {group} --discard {ahead}` on {ahead}, which saves them in \
             a file first; then `helio promote {group}` on {complete}"
        )
    }

    /// What is wrong with its form, if anything ([`helio_units::form`]). For tests and proofs.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let Self { code, text, hint, .. } = self;
        let fault = helio_units::form::faults(text, Some(hint), true).into_iter().next()?;
        Some(format!("{code}: {fault}: {text}; hint: {hint}"))
    }

    /// A refusal that waiting may cure.
    #[must_use]
    pub fn later(code: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { retry: true, ..Self::new(code, text, hint) }
    }
}
