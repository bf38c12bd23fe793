// SPDX-License-Identifier: Apache-2.0
//! Reads of copies.
//!
//! ```text
//!   ──> Volume ──> ended: nothing that was read is preserved for the copy
//!          │
//!          └─────> waits ──> (Overlaying) ──> ended
//! ```
//! The volume is read first. What is not preserved when that has ended was not changed since the cut: it is what the copy holds. The rest
//! is taken from the pool and laid over it. A chunk that is preserved in between changes nothing: the bytes that were read are older.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use helio_stack::{CopyRead, Row};

/// Reads of copies that are under way. Clients' own bounds hold them in check: each is one of their requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    next: u64,
    /// Those that read the volume.
    volume: BTreeMap<u64, CopyRead>,
    waiting: VecDeque<Overlay>,
    /// So many may be served before the next step for others, where those wait.
    due: u32,
}

/// What was read of the volume, and which of its chunks are preserved for the copy.
pub(crate) type Overlay = (CopyRead, Row, Vec<u64>);

impl Readers {
    /// One begins. Returns its number.
    pub(crate) fn begin(&mut self, read: CopyRead) -> u64 {
        self.next += 1;
        self.volume.insert(self.next, read);
        self.next
    }

    /// The volume was read for the one of that number.
    pub(crate) fn ended(&mut self, number: u64) -> CopyRead {
        let Some(read) = self.volume.remove(&number) else { panic!("read {number} never began") };
        read
    }

    pub(crate) fn wait(&mut self, overlay: Overlay) {
        self.waiting.push_back(overlay);
    }

    /// The next one to be served. Where something else waits, too, it is its turn every other time.
    pub(crate) fn next(&mut self, others_wait: bool) -> Option<Overlay> {
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
