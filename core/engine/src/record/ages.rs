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
    report: Report,
    /// The highest such count of the peer that was ever heard of.
    heard: u64,
    /// The count that replaces it once the peer has taken up the stream that brings it everything. Until then the peer may not have
    /// recorded that its metadata is old.
    anew: Option<u64>,
    /// When that was recorded last.
    remembered_at: Option<Moment>,
}

/// Which age of its metadata this node reports to the peer.
///
/// ```text
/// Found ── pings are exchanged ──▶ Agreed ── a record without an age is durable ──▶ All
///   └───── pings are exchanged, and no record of this process, or one before, has an age ────▶ All
/// ```
///
/// An older file that is changed or restarted must not look as young as the one that the peer has on record. So the superblock
/// records the age that was reported last, until the peer exchanges pings with this node.
#[derive(Clone, Copy, Debug)]
enum Report {
    /// Changes of this process are not reported. `found`: the number of changes before. `recorded`: the durable superblock has this
    /// number, or may have it.
    Found { found: u64, recorded: bool },
    /// The peer exchanged pings, and the durable superblock may still have that number.
    Agreed { found: u64 },
    /// Every change is reported.
    All,
}

impl Default for Report {
    fn default() -> Self {
        Self::Found { found: 0, recorded: false }
    }
}

impl Ages {
    /// As the last process left it; `reported`: the field of the superblock.
    pub(crate) fn starting(sequence: u64, reported: Option<u64>, heard: u64) -> Self {
        let report = Report::Found {
            found: reported.map_or(sequence, |found| found.min(sequence)),
            recorded: reported.is_some(),
        };
        Self { sequence, report, heard, anew: None, remembered_at: None }
    }

    /// The age that this node reports.
    pub(crate) const fn age(&self) -> u64 {
        match self.report {
            Report::Found { found, .. } | Report::Agreed { found } => found,
            Report::All => self.sequence,
        }
    }

    /// Pings were exchanged with the peer: changes may be reported.
    pub(crate) const fn agree(&mut self) {
        self.report = match self.report {
            Report::Found { found, recorded: true } => Report::Agreed { found },
            Report::Found { recorded: false, .. } => Report::All,
            report => report,
        };
    }

    /// A superblock is about to be written. Returns its field.
    pub(crate) const fn record(&mut self) -> Option<u64> {
        match &mut self.report {
            Report::Found { found, recorded } => {
                *recorded = true;
                Some(*found)
            }
            Report::Agreed { .. } | Report::All => None,
        }
    }

    /// A superblock with that field is durable.
    pub(crate) const fn recorded(&mut self, reported: Option<u64>) {
        if let (Report::Agreed { .. }, None) = (self.report, reported) {
            self.report = Report::All;
        }
    }

    /// Whether this process changed the metadata, and no superblock has the age from before.
    pub(crate) const fn is_unrecorded(&self) -> bool {
        matches!(self.report, Report::Found { found, recorded: false } if self.sequence > found)
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
        self.anew = self.anew.map(|anew| anew.max(metadata));
    }

    /// From here on its count begins again.
    pub(crate) fn begin_again(&mut self, metadata: u64) {
        (self.heard, self.anew) = (metadata, None);
    }

    /// Its count begins again once it has taken up the stream that is begun for it: what an older file has to say of itself is durable
    /// there before that.
    pub(crate) const fn begin_again_when_taken_up(&mut self, metadata: u64) {
        self.anew = Some(metadata);
    }

    /// It has taken up the stream that flows: what it found of itself then is durable there. Returns whether a later state is forgotten.
    pub(crate) fn taken_up(&mut self) -> bool {
        let heard = self.heard;
        self.heard = self.anew.take().unwrap_or(heard);
        self.heard < heard
    }

    /// The connection ended before that.
    pub(crate) const fn not_taken_up(&mut self) {
        self.anew = None;
    }

    /// Whether a superblock is due: the peer reported a later age than is recorded, or the field `reported` is to be cleared.
    pub(crate) fn are_due(&self, recorded: u64, now: Moment) -> bool {
        let due = self.remembered_at.is_none_or(|at| now >= at + REMEMBER_EVERY);
        due && (self.heard != recorded || matches!(self.report, Report::Agreed { .. }))
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
    fn changes_are_reported_once_no_superblock_has_the_age_that_was_found() {
        let mut ages = Ages::starting(40, None, 7);
        ages.changed(41);
        assert_eq!((ages.age(), ages.is_unrecorded()), (40, true));
        assert_eq!(ages.record(), Some(40));
        assert!(!ages.is_unrecorded());
        ages.recorded(Some(40));
        ages.changed(42);
        ages.agree();
        assert_eq!((ages.age(), ages.are_due(7, Moment::ZERO)), (40, true));
        ages.recorded(Some(40));
        assert_eq!(ages.age(), 40, "that record had begun before");
        assert_eq!(ages.record(), None);
        ages.recorded(None);
        assert_eq!((ages.age(), ages.are_due(7, Moment::ZERO)), (42, false));
    }

    #[test]
    fn restarts_do_not_make_metadata_look_younger() {
        let ages = Ages::starting(90, Some(40), 0);
        assert_eq!((ages.age(), ages.is_unrecorded()), (40, false));
    }

    #[test]
    fn every_change_is_reported_if_pings_are_exchanged_before_the_first_one() {
        let mut ages = Ages::starting(40, None, 0);
        ages.agree();
        ages.changed(41);
        assert_eq!((ages.age(), ages.record()), (41, None));
    }
}
