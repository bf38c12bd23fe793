// SPDX-License-Identifier: Apache-2.0
//! How old the metadata is, this node's own and the peer's: how often each was durably changed.

use core::time::Duration;
use helio_units::Moment;

/// What was heard of the peer's metadata is recorded once in that time at most.
const REMEMBER_EVERY: Duration = Duration::from_secs(5);

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ages {
    /// How often the metadata was durably changed.
    sequence: u64,
    /// How often it had been when this process began, until the peer is told of a change since: what a start changes would
    /// make an older file look as young as the one that the peer remembers.
    found: Option<u64>,
    /// The highest such count of the peer that was ever heard of.
    heard: u64,
    /// When that was recorded last.
    remembered_at: Option<Moment>,
}

impl Ages {
    pub(crate) const fn starting(sequence: u64, heard: u64) -> Self {
        Self { sequence, found: Some(sequence), heard, remembered_at: None }
    }

    /// What the peer is told of the metadata's age in a hello.
    pub(crate) fn in_hello(&self) -> u64 {
        self.found.unwrap_or(self.sequence)
    }

    /// What it is told from then on.
    pub(crate) fn tell(&mut self) -> u64 {
        self.found = None;
        self.sequence
    }

    /// The metadata was durably changed.
    pub(crate) fn changed(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// The highest count of the peer's metadata.
    pub(crate) const fn heard(&self) -> u64 {
        self.heard
    }

    /// The peer's metadata has that count.
    pub(crate) fn hear(&mut self, metadata: u64) {
        self.heard = self.heard.max(metadata);
    }

    /// From here on its count begins again.
    pub(crate) fn begin_again(&mut self, metadata: u64) {
        self.heard = metadata;
    }

    /// Whether more was heard than is recorded, and it is time to record that.
    pub(crate) fn are_due(&self, recorded: u64, now: Moment) -> bool {
        let due = self.remembered_at.is_none_or(|at| now >= at + REMEMBER_EVERY);
        self.heard > recorded && due
    }

    /// What was heard is being recorded.
    pub(crate) fn remember(&mut self, now: Moment) {
        self.remembered_at = Some(now);
    }
}
