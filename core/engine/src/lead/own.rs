// SPDX-License-Identifier: Apache-2.0
//! What the own store of a primary did: how far it came, and what failed.

use crate::stream::line::{Entry, Line};
use crate::turn::Turn;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use core::time::Duration;
use helio_stack::StoreFault;
use helio_units::{Moment, Sequence, VolumeIndex};

/// Writes that find no space follow one another. What they left is copied to the peer this long after the last one, and a volume counts
/// as full at least until then.
const FULL_FOR: Duration = Duration::from_secs(5);

/// A volume without space, and [`FULL_FOR`] after the last write that found none.
#[derive(Clone, Copy, Debug)]
enum Full {
    /// No write succeeded since.
    Unwritten(Moment),
    /// One did: there is space from then on, unless another one fails.
    Written(Moment),
}

impl Full {
    const fn until(self) -> Moment {
        let (Self::Unwritten(until) | Self::Written(until)) = self;
        until
    }

    /// When there is space, if no write fails until then.
    const fn ends_at(self) -> Option<Moment> {
        if let Self::Written(until) = self { Some(until) } else { None }
    }
}

/// What this node's own store did.
#[derive(Clone, Debug)]
pub(crate) struct OwnStore {
    /// Every item up to here has ended on it.
    ended: Sequence,
    /// The first item that it does not have, and whose mark is not kept yet: a mark alone tells of it.
    missing_from: Option<Sequence>,
    /// It failed on a volume, and how.
    fault: Option<(VolumeIndex, StoreFault)>,
    /// Volumes without space.
    full: BTreeMap<VolumeIndex, Full>,
    /// Volumes whose bytes prove nothing although they are read well: a flush failed, or the disk is another one.
    distrusted: BTreeSet<VolumeIndex>,
}

impl OwnStore {
    /// A store on which everything up to `head` has ended well.
    pub(crate) fn starting_after(head: Sequence) -> Self {
        let (full, distrusted) = (BTreeMap::new(), BTreeSet::new());
        Self { ended: head, missing_from: None, fault: None, full, distrusted }
    }

    /// Moves the prefix that has ended over what is done; a copier's item is from the start.
    #[inline]
    pub(super) fn advance(&mut self, line: &Line) {
        while line.get(self.ended.next()).is_some_and(Entry::has_ended_here) {
            self.ended = self.ended.next();
        }
    }

    /// It does not have an item, which failed or was not issued to it; the region is marked.
    pub(super) fn item_missing(&mut self, at: Sequence) {
        self.missing_from.get_or_insert(at);
    }

    /// The marks of what is missing are kept.
    pub(super) const fn marks_kept(&mut self) {
        self.missing_from = None;
    }

    /// Up to here this node's own records cover what its line did.
    pub(super) fn covered(&self) -> Sequence {
        let least = self.missing_from.map(|at| Sequence(at.0.saturating_sub(1)));
        least.map_or(self.ended, |least| self.ended.min(least))
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

    /// A write, zero or discard found no space on a volume, and its region is dirty.
    pub(super) fn found_no_space(&mut self, volume: VolumeIndex, turn: &mut Turn) {
        let full = Full::Unwritten(turn.now() + FULL_FOR);
        if self.full.insert(volume, full).is_none() {
            turn.warn(format!(
                "volume {} has no space on this node: a write failed, and its region is dirty; reads continue",
                turn.config().name_of(volume)
            ));
        }
    }

    /// A write succeeded on that volume.
    #[inline]
    pub(super) fn wrote(&mut self, volume: VolumeIndex) {
        if let Some(full) = self.full.get_mut(&volume) {
            *full = Full::Written(full.until());
        }
    }

    /// Volumes have space again: writes succeed, and none has failed for a while.
    pub(super) fn find_space(&mut self, turn: &mut Turn) {
        let now = turn.now();
        self.full.retain(|volume, full| {
            let ends = full.ends_at().is_some_and(|at| now >= at);
            if ends {
                let name = turn.config().name_of(*volume);
                turn.info(format!("volume {name} has space again on this node"));
            }
            !ends
        });
    }

    /// When the next volume has space again, if no write fails until then.
    pub(super) fn space_found_at(&self) -> Option<Moment> {
        self.full.values().filter_map(|full| full.ends_at()).min()
    }

    /// Whether that volume counts as full.
    pub(super) fn is_full(&self, volume: VolumeIndex) -> bool {
        self.full.contains_key(&volume)
    }

    /// When what writes left that found no space is copied to the peer, if any is full.
    pub(super) fn full_until(&self) -> Option<Moment> {
        self.full.values().map(|full| full.until()).max()
    }

    /// It failed on a volume, and how; a volume without space did not.
    pub(super) const fn fault(&self) -> Option<(VolumeIndex, StoreFault)> {
        self.fault
    }

    /// The same, or a volume without space.
    pub(super) fn shown_fault(&self) -> Option<(VolumeIndex, StoreFault)> {
        let full = || self.full.keys().next().map(|volume| (*volume, StoreFault::NoSpace));
        self.fault.or_else(full)
    }

    /// Nothing counts as failed.
    pub(super) fn forgive(&mut self) {
        self.fault = None;
        self.full.clear();
    }

    /// What failed on that volume does not count.
    pub(super) fn forgive_volume(&mut self, volume: VolumeIndex) {
        self.fault = self.fault.filter(|(failed, _)| *failed != volume);
        self.full.remove(&volume);
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
