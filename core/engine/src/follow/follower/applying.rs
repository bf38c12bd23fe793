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
use crate::local::Local;
use crate::local::failure::{self, Facts, Failed, Meaning, Side};
use crate::turn::Turn;
use alloc::format;
use core::time::Duration;
use helio_stack::StoreFault;
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

    /// An item failed: it keeps its place.
    pub(super) fn item_failed(
        &mut self,
        at: Sequence,
        fault: StoreFault,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Some(slot) = self.slot_mut(at) else { panic!("item {at} is not held") };
        let (volume, failed) = (slot.item.volume, Failed::of(&slot.item));
        slot.stage = if failed == Failed::Flush { Stage::Waiting } else { Stage::Failed };
        if failed == Failed::Flush {
            return self.flush_failed(volume, fault, local, turn);
        }
        let before = self.failed();
        self.disk_failed(volume, failed, fault, local, turn);
        // That the metadata cannot be written was reported.
        if before != self.failed() && fault != StoreFault::Unrecorded {
            let name = turn.config().name_of(volume);
            let then = if self.waits_for_space() {
                "applying continues when there is space"
            } else {
                "applying stops there"
            };
            turn.warn(format!("volume {name} failed on this node at item {at}: {fault}; {then}"));
        }
    }

    /// A flush, or an item with FUA, failed: what the disk holds of that volume is suspect from here on, and no later
    /// flush of it proves anything.
    pub(crate) fn flush_failed(
        &mut self,
        volume: VolumeIndex,
        fault: StoreFault,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let is_news = self.failed().is_none_or(|(failed, _)| failed != volume);
        if is_news && fault != StoreFault::Unrecorded {
            turn.warn(format!(
                "a flush of volume {} failed on this node: {fault}; applying stops, and after a restart of the daemon {} \
                 writes the copy again",
                turn.config().name_of(volume), turn.config().peer
            ));
        }
        self.disk_failed(volume, Failed::Flush, fault, local, turn);
    }

    /// Does what the failure means. A disk that was stopped stays so; that it failed is shown rather than that something else did.
    fn disk_failed(
        &mut self,
        volume: VolumeIndex,
        failed: Failed,
        fault: StoreFault,
        local: &mut Local,
        turn: &Turn,
    ) {
        let stopped = match self.applying {
            Applying::Stopped { fault: before, .. } if !before.is_of_store() => {
                fault == StoreFault::NoSpace || !fault.is_of_store()
            }
            Applying::Stopped { .. } => true,
            Applying::Running | Applying::Full { .. } => false,
        };
        let facts = Facts { failed, fault, side: Side::Secondary };
        match failure::meaning(facts) {
            Meaning::Stopped { suspect: true } => {
                self.stop_applying(volume, fault);
                local.doubt_hot(volume);
            }
            _ if stopped => {}
            Meaning::WaitsForSpace => {
                let due = turn.now() + RETRY_AFTER;
                self.applying = Applying::Full { volume, retried: None, due };
            }
            _ => self.stop_applying(volume, fault),
        }
    }

    /// An item was applied: if it is the one that was tried again, there is space.
    pub(super) fn item_applied(&mut self, at: Sequence, local: &mut Local, turn: &mut Turn) {
        let Applying::Full { volume, retried: Some(retried), .. } = self.applying else { return };
        if retried != at {
            return;
        }
        self.applying = Applying::Running;
        let name = turn.config().name_of(volume);
        turn.info(format!("volume {name} has space again on this node: applying continues"));
        let failed = self.slots.iter().filter(|slot| slot.stage == Stage::Failed);
        let failed: alloc::vec::Vec<_> = failed.map(|slot| slot.item.sequence).collect();
        failed.into_iter().for_each(|at| self.issue(at, local, turn));
    }

    /// Issues the first item that failed again, if it is time.
    pub(super) fn retry_if_due(&mut self, local: &mut Local, turn: &mut Turn) {
        let Applying::Full { volume, retried: None, due } = self.applying else { return };
        if turn.now() < due {
            return;
        }
        let first = self.slots.iter().find(|slot| slot.stage == Stage::Failed);
        let Some(at) = first.map(|slot| slot.item.sequence) else { return };
        self.applying = Applying::Full { volume, retried: Some(at), due };
        self.issue(at, local, turn);
    }

    /// When a full store is tried again.
    pub(super) const fn retry_deadline(&self) -> Moment {
        match self.applying {
            Applying::Full { retried: None, due, .. } => due,
            _ => Moment::NEVER,
        }
    }
}
