// SPDX-License-Identifier: Apache-2.0
//! What clients do with copies: they read them, and write to their branches.
//!
//! ```text
//!   read   ──> Volume ──> ended: the pool has nothing that is seen there
//!                 └─────> waits ──> (Overlaying) ──> ended
//!   change ──> waits ──> (Reserving) (Reading ──> Raising ──> Appending) (Amending) … ──> ended, with FUA as a flush
//!   flush  ──> waits ──> (Flushing) ──> ended
//! ```
//! For a read the volume is read first. What is not preserved when that has ended was not changed since the cut: it is what the copy
//! holds. The rest is taken from the pool and laid over it. A chunk that is preserved in between changes nothing: the bytes that were
//! read are older.
//!
//! A change makes the chunks that it touches part of the branch, some at a time, in turn with others: each begins as what the copy
//! holds, which is read as for a read; `Raising` is left out if the pool has nothing for them. Then the bytes are overwritten in place.

use alloc::collections::{BTreeMap, VecDeque};
use helio_stack::{CopyIo, Row};

/// Operations on copies that are under way. Each is a client's request, so the limits on clients' requests bound them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    next: u64,
    /// Reads of the volume for those that read.
    volume: BTreeMap<u64, CopyIo>,
    waiting: VecDeque<Wanted>,
    /// So many may be served before the next step for others, where those wait.
    due: u32,
}

/// What waits for the pool.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// This read wants what the pool has laid over what was read of the volume.
    Overlay(CopyIo, Row),
    /// A change of a branch, done before that chunk, or a flush.
    Branch(CopyIo, u64),
}

impl Clients {
    /// The volume is being read for that one. Returns the number of that.
    pub(crate) fn reads_volume(&mut self, io: CopyIo) -> u64 {
        self.next += 1;
        self.volume.insert(self.next, io);
        self.next
    }

    /// The volume was read for the one of that number.
    pub(crate) fn volume_read(&mut self, number: u64) -> CopyIo {
        let Some(io) = self.volume.remove(&number) else { panic!("read {number} never began") };
        io
    }

    pub(crate) fn wait(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    /// That one was served in part: it is the next one.
    pub(crate) fn wait_first(&mut self, io: CopyIo, done: u64) {
        self.waiting.push_front(Wanted::Branch(io, done));
    }

    /// The one that was served in part.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn take_first(&mut self) -> CopyIo {
        let Some(Wanted::Branch(io, _)) = self.waiting.pop_front() else {
            panic!("no change of a branch was served in part: {self:?}")
        };
        io
    }

    /// The next one to be served. Where something else waits, too, it is its turn every other time.
    pub(crate) fn next(&mut self, others_wait: bool) -> Option<Wanted> {
        if others_wait && self.due == 0 {
            self.due = 1;
            return None;
        }
        self.due = self.due.saturating_sub(1);
        self.waiting.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.volume.is_empty() && self.waiting.is_empty()
    }
}
