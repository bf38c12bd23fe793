// SPDX-License-Identifier: Apache-2.0
//! What is asked of the layer, and the steps that it takes on pool and members. Steps are taken one at a time.
//!
//! ```text
//!   cut:      (Reserving ──> Listing) ──> Ready ──> Settles ──> Flushes ──> (Listing)
//!   reserve:  (Reserving)
//!   rollback: (Checking) … ──> as a cut, with (Recording) before the last (Listing)
//!             then (Reading ──> Appending) (Loading ──> Writing) … ──> Flushes … ──> (Listing) ──> (Recording)
//!   restore:  (Checking) … ──> (Reading ──> Appending) (Loading ──> Writing) … ──> Flushes
//!   drop:     (Listing)
//!   preserve: (Reserving) (Reading ──> Appending)
//!   clients:  (Overlaying), (Reserving) (Reading ──> Raising ──> Appending) (Amending), (Flushing)
//!   no room:  (Listing) without an expendable copy; if the pool failed: (Recording)
//! ```
//! What is in brackets are steps; while a cut settles and flushes, changes take theirs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use helio_format::before::{CHUNK_BYTES, CopyNumber, CopyView, KeptCopy, Slot};
use helio_ledger::Chunk;
use helio_stack::{CopyIo, CopyOp, CopyOutcome, CopyRecord, MemberFault, Outcome, Row};
use helio_units::{Extent, PayloadId, VolumeIndex};

/// Most chunks preserved by one batch; as many bytes as the copier has on its way.
pub(crate) const BATCH_CHUNKS: usize = 256;
/// Neighbouring chunks that are read, and appended, at once.
pub(crate) const ROW_CHUNKS: u64 = 16;
/// Chunks that are being put back at once: 2 MiB.
pub(crate) const LOADED_AT_ONCE: usize = 32;

/// What is asked of the layer and has not ended.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    None,
    /// It waits for the step under way, or for room.
    Asked(Box<CopyOp>),
    Drop(CopyNumber),
    /// After which the copy is as that says.
    Cut(Box<KeptCopy>, CutStage),
    Restore(CopyNumber, RestoreStage),
    /// A rollback to that copy is prepared: everything up to that chunk is sound.
    Rollback(CopyNumber, u64),
}

/// How far a cut is.
#[derive(Clone, Debug)]
pub(crate) enum CutStage {
    /// It is being listed as coming.
    Begins,
    /// It is listed, and its moment may come.
    Ready,
    /// Its moment was: changes before it end.
    Settles,
    /// All volumes are flushed.
    Flushes,
    /// It may be listed, if the ledger knows what there is to know.
    Flushed,
    /// The ledger is to say that a rollback may be under way.
    Records,
    /// It is being listed.
    Ends,
    /// It failed like that, and is to be listed no more.
    Fails(CopyOutcome),
    /// The same, and the list may say that it is held.
    Spoiled(CopyOutcome),
}

/// How far a restore is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RestoreStage {
    /// Everything up to that chunk is sound; nothing was put back.
    Checks(u64),
    /// Everything up to that chunk is put back.
    Writes(u64),
    /// All volumes are flushed.
    Flushes,
}

/// What room is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// What is asked.
    Task,
    /// Changes that are parked, or what a restore overwrites.
    Chunks,
    /// What a rollback overwrites.
    Rollback,
    /// A client's change of a branch.
    Branch,
}

/// What the list is written for.
#[derive(Clone, Debug)]
pub(crate) enum Listing {
    /// The copy of the cut is coming, ...
    Coming,
    /// ... or held.
    Held,
    /// These go: dropped, or never cut.
    Without(Vec<CopyNumber>),
    /// These go for want of room.
    Over(Vec<CopyNumber>),
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

/// The step that is being taken.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Idle,
    Reserving {
        records: u64,
        then: For,
    },
    Listing(Listing),
    /// Rows of chunks for that copy, or for its branch; those that have been read.
    Reading {
        of: CopyView,
        rows: Vec<Chunk>,
        read: Vec<Row>,
        batch: Batch,
    },
    Appending {
        of: CopyView,
        chunks: Vec<(u64, Slot)>,
        payloads: Vec<PayloadId>,
    },
    /// Up to that chunk.
    Checking(u64),
    /// What a copy holds of these chunks.
    Loading(Vec<u64>),
    /// What the pool has is being laid over what was read of the volume.
    Overlaying {
        io: CopyIo,
        base: Row,
    },
    /// What is preserved for the copy is being laid over what was read of the volume for its branch.
    Raising {
        copy: CopyNumber,
        base: Row,
    },
    /// A client's change overwrites chunks of a branch, up to that one.
    Amending(CopyIo, u64),
    /// A client's flush of a branch.
    Flushing(CopyIo),
    Writing {
        chunks: Vec<u64>,
        rows: Vec<Row>,
        batch: Batch,
    },
    /// The ledger is to say that.
    Recording(CopyRecord),
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
