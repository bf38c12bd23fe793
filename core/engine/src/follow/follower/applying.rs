// SPDX-License-Identifier: Apache-2.0
//! Whether a follower applies items. A store without space stops it until there is space again; any other fault, and every
//! failed flush, until the daemon restarts or another disk takes the volume's place.
//!
//! ```text
//!            a write finds no space              another fault, a failed flush
//!        ┌──────────────────────────> Full ──────────────────────────────────┐
//!     Running <── a retry is applied ───┘                                    v
//!        └───────────────────────────────────────────────────────────────> Stopped
//! ```
//! While the store is full, the first item that failed is issued again every [`RETRY_AFTER`]. The items that failed keep
//! their extents in the gate, so nothing that overlaps them passes before they are applied.

use super::{Follower, Stage};
use crate::refusal::StoreFault;
use crate::shared::Shared;
use alloc::format;
use core::time::Duration;
use helio_units::{Moment, Sequence, VolumeIndex};

/// A full store is tried again after that long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applying {
    Running,
    /// `volume` has no space. `retried` is the item that was issued again, at `due` at the latest.
    Full {
        volume: VolumeIndex,
        retried: Option<Sequence>,
        due: Moment,
    },
    Stopped {
        volume: VolumeIndex,
        fault: StoreFault,
    },
}

impl Applying {
    /// A write, zero or discard failed.
    fn item_failed(self, volume: VolumeIndex, fault: StoreFault, now: Moment) -> Self {
        match (self, fault) {
            (Self::Stopped { .. }, _) => self,
            (Self::Running, StoreFault::NoSpace) | (Self::Full { .. }, StoreFault::NoSpace) => {
                Self::Full { volume, retried: None, due: now + RETRY_AFTER }
            }
            (Self::Running | Self::Full { .. }, _) => Self::Stopped { volume, fault },
        }
    }
}

impl Follower {
    /// The volume whose store failed, so that nothing is applied.
    pub(crate) const fn failed(&self) -> Option<(VolumeIndex, StoreFault)> {
        match self.applying {
            Applying::Running => None,
            Applying::Full { volume, .. } => Some((volume, StoreFault::NoSpace)),
            Applying::Stopped { volume, fault } => Some((volume, fault)),
        }
    }

    /// Whether applying continues by itself once the store has space.
    pub(crate) const fn waits_for_space(&self) -> bool {
        matches!(self.applying, Applying::Full { .. })
    }

    /// Nothing is applied to that volume any more.
    pub(crate) fn stop_applying(&mut self, volume: VolumeIndex, fault: StoreFault) {
        self.applying = Applying::Stopped { volume, fault };
    }

    /// The store failed an item that is no flush and has no FUA: it keeps its place.
    pub(super) fn item_failed(&mut self, at: Sequence, fault: StoreFault, s: &mut Shared) {
        let Some(slot) = self.slot_mut(at) else { panic!("item {at} is not held") };
        slot.stage = Stage::Failed;
        let volume = slot.item.volume;
        let before = self.failed();
        self.applying = self.applying.item_failed(volume, fault, s.now);
        if before != self.failed() {
            let name = s.config.name_of(volume);
            let then = if self.waits_for_space() {
                "applying continues when there is space"
            } else {
                "applying stops there"
            };
            s.warn(format!("volume {name} failed on this node at item {at}: {fault}; {then}"));
        }
    }

    /// An item was applied: if it is the one that was tried again, there is space.
    pub(super) fn item_applied(&mut self, at: Sequence, s: &mut Shared) {
        let Applying::Full { volume, retried: Some(retried), .. } = self.applying else { return };
        if retried != at {
            return;
        }
        self.applying = Applying::Running;
        let name = s.config.name_of(volume);
        s.info(format!("volume {name} has space again on this node: applying continues"));
        let failed = self.slots.iter().filter(|slot| slot.stage == Stage::Failed);
        let failed: alloc::vec::Vec<_> = failed.map(|slot| slot.item.sequence).collect();
        failed.into_iter().for_each(|at| self.issue(at, s));
    }

    /// Issues the first item that failed again, if it is time.
    pub(super) fn retry_if_due(&mut self, s: &mut Shared) {
        let Applying::Full { volume, retried: None, due } = self.applying else { return };
        if s.now < due {
            return;
        }
        let first = self.slots.iter().find(|slot| slot.stage == Stage::Failed);
        let Some(at) = first.map(|slot| slot.item.sequence) else { return };
        self.applying = Applying::Full { volume, retried: Some(at), due };
        self.issue(at, s);
    }

    /// When a full store is tried again.
    pub(super) const fn retry_deadline(&self) -> Moment {
        match self.applying {
            Applying::Full { retried: None, due, .. } => due,
            _ => Moment::NEVER,
        }
    }
}
