// SPDX-License-Identifier: Apache-2.0
//! The metadata file as the time it takes: what is asked for together is written and flushed together, and what comes
//! meanwhile is next.

use super::disk::Disk;
use helio_engine::{Event, Kept};
use helio_units::Moment;

/// What is being kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record {
    Superblock,
    Part(Kept),
}

/// One node's metadata file.
#[derive(Debug)]
pub(super) struct Records {
    waiting: Vec<Record>,
    under_way: Vec<Record>,
    /// When what is under way is durable.
    pub(super) next: Moment,
    sequence: u64,
}

impl Records {
    pub(super) fn new() -> Self {
        Self { waiting: Vec::new(), under_way: Vec::new(), next: Moment::NEVER, sequence: 0 }
    }

    pub(super) fn keep(&mut self, now: Moment, record: Record, disk: &mut Disk) {
        self.waiting.push(record);
        self.begin(now, disk);
    }

    fn begin(&mut self, now: Moment, disk: &mut Disk) {
        if self.under_way.is_empty() && !self.waiting.is_empty() {
            core::mem::swap(&mut self.waiting, &mut self.under_way);
            self.next = now + disk.record_time();
        }
    }

    /// What is under way is durable.
    pub(super) fn end(&mut self, now: Moment, disk: &mut Disk, into: &mut Vec<Event>) {
        self.next = Moment::NEVER;
        for record in self.under_way.drain(..) {
            self.sequence += 1;
            let (ok, sequence) = (true, self.sequence);
            into.push(match record {
                Record::Superblock => Event::SuperblockSaved { ok, sequence },
                Record::Part(kept) => Event::Kept { kept, ok, sequence },
            });
        }
        self.begin(now, disk);
    }
}
