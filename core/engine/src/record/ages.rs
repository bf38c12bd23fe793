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
    told: Told,
    /// The highest such count of the peer that was ever heard of.
    heard: u64,
    /// When that was recorded last.
    remembered_at: Option<Moment>,
}

/// What the peer is told of the metadata's age.
///
/// ```text
/// Found ── pings are exchanged ──▶ Agreed ── a record without an age is durable ──▶ All
///   └───── pings are exchanged, and no record of this process, or one before, has an age ────▶ All
/// ```
///
/// Changes of which the peer was not told would make an older file look as young as the one that the peer remembers, and so would
/// restarts. So a record says how often the metadata had been changed when the peer was told of that last.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// No change of this process. `found`: how often it had been changed before. `recorded`: the durable superblock says that, or
    /// may.
    Found { found: u64, recorded: bool },
    /// The peer takes part, and the durable superblock may still say that age.
    Agreed { found: u64 },
    /// Every change.
    All,
}

impl Default for Told {
    fn default() -> Self {
        Self::Found { found: 0, recorded: false }
    }
}

impl Ages {
    /// As the last process left it; `untold` is what the superblock has of it.
    pub(crate) fn starting(sequence: u64, untold: Option<u64>, heard: u64) -> Self {
        let told = Told::Found {
            found: untold.map_or(sequence, |found| found.min(sequence)),
            recorded: untold.is_some(),
        };
        Self { sequence, told, heard, remembered_at: None }
    }

    /// What the peer is told of the metadata's age.
    pub(crate) const fn told(&self) -> u64 {
        match self.told {
            Told::Found { found, .. } | Told::Agreed { found } => found,
            Told::All => self.sequence,
        }
    }

    /// Pings are exchanged with the peer: it may be told of changes.
    pub(crate) const fn agree(&mut self) {
        self.told = match self.told {
            Told::Found { found, recorded: true } => Told::Agreed { found },
            Told::Found { recorded: false, .. } => Told::All,
            told => told,
        };
    }

    /// What a record that begins says of that.
    pub(crate) const fn record(&mut self) -> Option<u64> {
        match &mut self.told {
            Told::Found { found, recorded } => {
                *recorded = true;
                Some(*found)
            }
            Told::Agreed { .. } | Told::All => None,
        }
    }

    /// A record that says that is durable.
    pub(crate) const fn recorded(&mut self, untold: Option<u64>) {
        if let (Told::Agreed { .. }, None) = (self.told, untold) {
            self.told = Told::All;
        }
    }

    /// Whether this process changed the metadata, and no record says how old it was before.
    pub(crate) const fn is_unrecorded(&self) -> bool {
        matches!(self.told, Told::Found { found, recorded: false } if self.sequence > found)
    }

    /// A layer changed its part of the metadata, and does not tell how often that was changed.
    pub(crate) const fn changed_by_layer(&mut self) {
        self.sequence += 1;
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

    /// Whether more was heard than is recorded, or the peer may be told of more than the record says, and it is time to record that.
    pub(crate) fn are_due(&self, recorded: u64, now: Moment) -> bool {
        let due = self.remembered_at.is_none_or(|at| now >= at + REMEMBER_EVERY);
        due && (self.heard > recorded || matches!(self.told, Told::Agreed { .. }))
    }

    /// What was heard is being recorded.
    pub(crate) fn remember(&mut self, now: Moment) {
        self.remembered_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_told_of_changes_once_the_record_does_not_say_how_old_the_metadata_was_found() {
        let mut ages = Ages::starting(40, None, 7);
        ages.changed(41);
        assert_eq!((ages.told(), ages.is_unrecorded()), (40, true));
        assert_eq!(ages.record(), Some(40));
        assert!(!ages.is_unrecorded());
        ages.recorded(Some(40));
        ages.changed(42);
        ages.agree();
        assert_eq!((ages.told(), ages.are_due(7, Moment::ZERO)), (40, true));
        ages.recorded(Some(40));
        assert_eq!(ages.told(), 40, "that record had begun before");
        assert_eq!(ages.record(), None);
        ages.recorded(None);
        assert_eq!((ages.told(), ages.are_due(7, Moment::ZERO)), (42, false));
    }

    #[test]
    fn restarts_do_not_make_metadata_look_younger() {
        let ages = Ages::starting(90, Some(40), 0);
        assert_eq!((ages.told(), ages.is_unrecorded()), (40, false));
    }

    #[test]
    fn a_peer_that_is_met_before_anything_changed_is_told_of_every_change() {
        let mut ages = Ages::starting(40, None, 0);
        ages.agree();
        ages.changed_by_layer();
        assert_eq!((ages.told(), ages.record()), (41, None));
    }
}
