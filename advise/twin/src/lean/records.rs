// SPDX-License-Identifier: Apache-2.0
//! The metadata file as the time it takes: what is asked for together is written and flushed together, and what comes
//! meanwhile is next.

use super::disk::Disk;
use helio_ledger::{Change, Kept};
use helio_units::Moment;

/// One node's metadata file.
#[derive(Debug, Default)]
pub struct Records {
    waiting: Vec<Kept>,
    under_way: Vec<Kept>,
    sequence: u64,
}

impl Records {
    /// Asks for a change. Returns when what is under way is durable, if it begins by that.
    pub(super) fn keep(&mut self, now: Moment, change: &Change, disk: &mut Disk) -> Option<Moment> {
        let ok = true;
        self.waiting.push(match *change {
            Change::Superblock(_) => Kept::Superblock { ok },
            Change::Members(_) => Kept::Members { ok },
            Change::Epochs(_) => Kept::Epochs { ok },
            Change::Hot { ticket, .. } => Kept::Hot { ticket, ok },
            Change::Marks { owner, page, .. } => Kept::Marks { owner, page, ok },
            Change::Make { owner, .. } | Change::Remove { owner } => Kept::Map { owner, ok },
        });
        self.begin(now, disk)
    }

    fn begin(&mut self, now: Moment, disk: &mut Disk) -> Option<Moment> {
        if !self.under_way.is_empty() || self.waiting.is_empty() {
            return None;
        }
        core::mem::swap(&mut self.waiting, &mut self.under_way);
        Some(now + disk.record_time())
    }

    /// What is under way is durable. Returns it, and when what comes next is.
    pub(super) fn end(&mut self, now: Moment, disk: &mut Disk) -> (Vec<Kept>, Option<Moment>) {
        let kept = core::mem::take(&mut self.under_way);
        self.sequence += kept.len() as u64;
        (kept, self.begin(now, disk))
    }

    /// How many changes are durable.
    pub(super) const fn sequence(&self) -> u64 {
        self.sequence
    }
}
