// SPDX-License-Identifier: Apache-2.0
//! What the own store of a primary did: how far it came, and what failed.

use crate::stream::line::{Entry, Line};
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::format;
use helio_stack::StoreFault;
use helio_units::{Sequence, VolumeIndex};

/// What this node's own store did.
#[derive(Clone, Debug)]
pub(crate) struct OwnStore {
    /// Every item up to here has ended on it.
    ended: Sequence,
    /// The first item that failed on it and whose mark is not kept yet.
    failed_at: Option<Sequence>,
    /// It failed on a volume, and how.
    fault: Option<(VolumeIndex, StoreFault)>,
    /// Volumes whose bytes prove nothing although they are read well: a flush failed, or the disk is another one.
    distrusted: BTreeSet<VolumeIndex>,
}

impl OwnStore {
    /// A store on which everything up to `head` has ended well.
    pub(crate) const fn starting_after(head: Sequence) -> Self {
        let distrusted = BTreeSet::new();
        Self { ended: head, failed_at: None, fault: None, distrusted }
    }

    /// Moves the prefix that has ended over what is done; a copier's item is from the start.
    #[inline]
    pub(super) fn advance(&mut self, line: &Line) {
        while line.get(self.ended.next()).is_some_and(Entry::has_ended_here) {
            self.ended = self.ended.next();
        }
    }

    /// An item failed, and its region is marked.
    pub(super) fn item_failed(&mut self, at: Sequence) {
        self.failed_at.get_or_insert(at);
    }

    /// The marks of what failed are kept.
    pub(super) const fn marks_kept(&mut self) {
        self.failed_at = None;
    }

    /// Up to here this node's own records cover what its line did.
    pub(super) fn covered(&self) -> Sequence {
        self.failed_at.map_or(self.ended, |at| self.ended.min(Sequence(at.0.saturating_sub(1))))
    }

    /// A volume failed, and that is told elsewhere.
    pub(super) const fn failed(&mut self, volume: VolumeIndex, fault: StoreFault) {
        self.fault = Some((volume, fault));
    }

    /// An operation on a volume failed, and its region is dirty. That a disk failed is shown rather than that something else did.
    pub(super) fn failed_dirty(&mut self, volume: VolumeIndex, fault: StoreFault, turn: &mut Turn) {
        if self.fault.is_none() {
            turn.warn(format!(
                "volume {} failed on this node: {fault}; its region is dirty",
                turn.config().name_of(volume)
            ));
        }
        if self.fault.is_none() || fault.is_of_store() {
            self.failed(volume, fault);
        }
    }

    /// It failed on a volume, and how.
    pub(super) const fn fault(&self) -> Option<(VolumeIndex, StoreFault)> {
        self.fault
    }

    /// Nothing counts as failed.
    pub(super) const fn forgive(&mut self) {
        self.fault = None;
    }

    /// What failed on that volume does not count.
    pub(super) fn forgive_volume(&mut self, volume: VolumeIndex) {
        self.fault = self.fault.filter(|(failed, _)| *failed != volume);
    }

    /// The volume's bytes prove nothing. Returns whether they did before.
    pub(super) fn distrust(&mut self, volume: VolumeIndex) -> bool {
        self.distrusted.insert(volume)
    }

    /// The volume's bytes prove something.
    pub(super) fn trusts(&self, volume: VolumeIndex) -> bool {
        !self.distrusted.contains(&volume)
    }

    /// All its bytes prove something again.
    pub(super) fn trust_all(&mut self) {
        self.distrusted.clear();
    }
}
