// SPDX-License-Identifier: Apache-2.0
//! What a copy does of its own: one thing at a time.
//!
//! ```text
//!   cut:      Draining ──> Reserving ──> Flushing ──> Beginning
//!   reserve:  Reserving
//!   preserve: (Reserving) ──> Reading ──> Appending
//!   restore:  Checking ──> Loading ⇄ Writing ──> Flushing
//!   drop:     Ending
//!   no room for an expendable copy:  Recording ──> Ending
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use helio_format::before::{CHUNK_BYTES, KeptImage};
use helio_ledger::Chunk;
use helio_stack::{CopyClass, MemberFault, Outcome, Row};
use helio_units::{Extent, PayloadId, VolumeIndex};

/// Most chunks preserved by one batch; as many bytes as the copier has on its way.
pub(crate) const BATCH_CHUNKS: usize = 256;
/// Neighbouring chunks that are read, and appended, at once.
const ROW_CHUNKS: u64 = 16;
/// Chunks that are being put back at once: 2 MiB.
pub(crate) const LOADED_AT_ONCE: u64 = 32;

/// What room is made for.
#[derive(Clone, Debug)]
pub(crate) enum For {
    /// A cut with that label.
    Cut(CopyClass, Box<KeptImage>),
    /// What will be overwritten.
    Asked,
    /// Changes that are parked.
    Parked,
}

/// Operations on members that were issued together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    left: usize,
    failed: Option<MemberFault>,
}

impl Batch {
    pub(crate) const fn of(operations: usize) -> Self {
        Self { left: operations, failed: None }
    }

    /// One on that volume ended. Returns how all went once none is left.
    pub(crate) fn ended(
        &mut self,
        volume: VolumeIndex,
        outcome: &Outcome,
    ) -> Option<Result<(), MemberFault>> {
        self.left -= 1;
        if let Some(fault) = outcome.fault() {
            let first = MemberFault { volumes: 0, volume, fault };
            self.failed.get_or_insert(first).volumes |= 1 << volume.0;
        }
        (self.left == 0).then_some(self.failed.map_or(Ok(()), Err))
    }
}

/// What is being done.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Idle,
    /// A cut waits until the changes under way have ended.
    Draining {
        class: CopyClass,
        label: Box<KeptImage>,
        room: u64,
    },
    Reserving {
        room: u64,
        then: For,
    },
    /// All volumes; then a preserving with that label begins, or a restore is over.
    Flushing {
        batch: Batch,
        label: Option<(CopyClass, Box<KeptImage>)>,
    },
    Beginning(CopyClass),
    /// Rows of chunks; those that have been read.
    Reading {
        chunks: Vec<u64>,
        rows: Vec<Chunk>,
        read: Vec<Row>,
        batch: Batch,
    },
    Appending {
        chunks: Vec<u64>,
        payloads: Vec<PayloadId>,
    },
    Checking,
    Loading {
        next: u64,
    },
    Writing {
        next: u64,
        rows: Vec<Row>,
        batch: Batch,
    },
    /// `asked`: a `Drop` requested it. Otherwise an expendable copy ended.
    Ending {
        asked: bool,
    },
    /// The ledger is to say that an expendable copy is over.
    Recording,
}

/// Chunks that lie one behind the other, together.
pub(crate) fn rows(chunks: impl IntoIterator<Item = Chunk>) -> Vec<Chunk> {
    let mut rows: Vec<(VolumeIndex, Extent)> = Vec::new();
    for (volume, extent) in chunks {
        match rows.last_mut() {
            Some((v, row))
                if *v == volume
                    && row.end() == extent.offset
                    && row.length + extent.length <= ROW_CHUNKS * CHUNK_BYTES =>
            {
                row.length += extent.length;
            }
            _ => rows.push((volume, extent)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_stack::StoreFault;

    #[test]
    fn neighbours_go_in_rows_and_a_short_chunk_ends_one() {
        let chunk =
            |volume, n: u64| (VolumeIndex(volume), Extent::new(n * CHUNK_BYTES, CHUNK_BYTES));
        let short = (VolumeIndex(0), Extent::new(20 * CHUNK_BYTES, 4096));
        let mut chunks: Vec<Chunk> = (0..20).map(|n| chunk(0, n)).collect();
        chunks.extend([short, chunk(1, 0), chunk(1, 2), chunk(1, 1)]);
        let all: u64 = chunks.iter().map(|(_, extent)| extent.length).sum();
        let rows = rows(chunks);
        let lengths: Vec<u64> = rows.iter().map(|(_, extent)| extent.length).collect();
        let [c, s] = [CHUNK_BYTES, 4096];
        assert_eq!(lengths, [16 * c, 4 * c + s, c, c, c]);
        assert_eq!(lengths.iter().sum::<u64>(), all, "none is lost");
    }

    #[test]
    fn what_failed_of_a_batch_is_told_once_all_have_ended() {
        let (mut batch, volume) = (Batch::of(4), VolumeIndex);
        assert_eq!(batch.ended(volume(2), &Outcome::Unsure(StoreFault::Silent)), None);
        assert_eq!(batch.ended(volume(0), &Outcome::Done), None);
        assert_eq!(batch.ended(volume(2), &Outcome::Failed(StoreFault::Io)), None);
        let failed = MemberFault { volumes: 0b110, volume: volume(2), fault: StoreFault::Silent };
        assert_eq!(batch.ended(volume(1), &Outcome::Failed(StoreFault::Io)), Some(Err(failed)));
    }
}
