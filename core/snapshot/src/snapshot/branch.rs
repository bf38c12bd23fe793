// SPDX-License-Identifier: Apache-2.0
//! How an operation on a branch goes on; see [`Clients`](crate::clients::Clients).

use super::Snapshot;
use crate::work::{For, ROW_CHUNKS, Work};
use alloc::vec::Vec;
use core::ops::Range;
use helio_format::before::CopyNumber;
use helio_ledger::Chunk;
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyIo, CopyView, Outcome, PoolHealth, PoolOp, PoolOutcome, Port, StoreFault, StoreOp,
};

impl Snapshot {
    /// Serves the one that is next, where no step is being taken. It is done before that chunk.
    pub(super) fn serve_branch(&mut self, io: CopyIo, done: u64, port: &mut Port<'_>) {
        let copy = io.on.copy();
        if !self.copies.holds(copy) || self.pool != PoolHealth::Works {
            return port.copy_ended(io.name, Outcome::failed(&io.op, StoreFault::Io));
        }
        let Some(extent) = io.op.changes() else {
            self.work = Work::Flushing(io);
            return port.pool(PoolOp::Flush);
        };
        let touched = self.chunks.touched(io.volume, extent);
        let start = touched.start.max(done);
        let end = touched.end.min(start + ROW_CHUNKS);
        let in_place = planted(Plant::BranchInPlace);
        let lacks = |chunk: &u64| match in_place {
            true => self.copies.slot(io.on, *chunk).is_none(),
            false => self.copies.branch_slot(copy, *chunk).is_none(),
        };
        if let Some(first) = (start..end).find(lacks) {
            self.clients.wait_first(io, done);
            return self.raise(copy, first..end, port);
        }
        let record = |chunk| Some((self.copies.slot(io.on, chunk)?, self.chunks.place(chunk)));
        let records = (start..end).filter_map(record).collect();
        let payload = io.op.payload();
        self.work = Work::Amending(io, end);
        port.pool(PoolOp::Amend { extent, payload, records });
    }

    /// Makes the first of these chunks part of that branch, and others that lie where it does. The branches have room of their own.
    fn raise(&mut self, copy: CopyNumber, range: Range<u64>, port: &mut Port<'_>) {
        let kept = |chunk: u64| self.copies.slot(CopyView::Cut(copy), chunk);
        let from_pool = kept(range.start).is_some();
        let lacks = |chunk: &u64| self.copies.branch_slot(copy, *chunk).is_none();
        let alike = |chunk: &u64| lacks(chunk) && kept(*chunk).is_some() == from_pool;
        let mut chunks: Vec<u64> = range.clone().take_while(alike).collect();
        if self.room.of_branches() == 0 {
            if self.room.forbids(self.room.reserved() + 1).is_some() {
                return self.branch_fails(StoreFault::NoSpace, port);
            }
            let needed = self.room.reserved() + chunks.len() as u64;
            let records = self.room.grown(needed, 0, self.chunks.total());
            return self.reserve(records, For::Branch, port);
        }
        chunks.truncate(self.room.of_branches() as usize);
        if from_pool {
            let record = |chunk: &u64| Some((kept(*chunk)?, self.chunks.place(*chunk)));
            let records = chunks.iter().filter_map(record).collect();
            self.work = Work::Raising { copy, chunks };
            return port.pool(PoolOp::Load { records });
        }
        self.read_rows(CopyView::Branch(copy), &chunks, port);
    }

    /// What a copy holds of these chunks was loaded: its branch begins with that.
    pub(super) fn raised(
        &mut self,
        (copy, chunks): (CopyNumber, Vec<u64>),
        outcome: PoolOutcome,
        port: &mut Port<'_>,
    ) {
        match outcome {
            PoolOutcome::Loaded(rows) => {
                // A volume that has grown since has a longer chunk than is preserved.
                let place = |chunk: &u64| self.chunks.place(*chunk);
                let whole = rows.iter().map(|row| (row.volume, row.extent));
                if whole.eq(chunks.iter().map(place).collect::<Vec<Chunk>>()) {
                    return self.append(CopyView::Branch(copy), rows, port);
                }
                rows.iter().for_each(|row| port.release(row.payload.id));
                self.branch_fails(StoreFault::Io, port);
            }
            PoolOutcome::Damaged => self.branch_fails(StoreFault::Io, port),
            // What cannot be read may still be added to.
            PoolOutcome::Failed(fault) => self.branch_fails(fault, port),
            outcome => panic!("the pool ended a load as {outcome:?}"),
        }
    }

    /// What is being served cannot go on.
    pub(super) fn branch_fails(&mut self, fault: StoreFault, port: &mut Port<'_>) {
        let io = self.clients.take_first();
        port.copy_ended(io.name, Outcome::failed(&io.op, fault));
    }

    /// A branch was amended before that chunk.
    pub(super) fn amended(&mut self, io: CopyIo, done: u64, port: &mut Port<'_>) {
        let end = io.op.changes().map_or(0, |extent| self.chunks.touched(io.volume, extent).end);
        if done < end {
            self.clients.wait_first(io, done);
        } else if io.op.is_flush() {
            self.clients.wait_first(CopyIo { op: StoreOp::Flush, ..io }, 0);
        } else {
            port.copy_ended(io.name, Outcome::Done);
        }
    }

    /// What was being done for a client failed at the pool, which is of no use any more.
    pub(super) fn end_failed(work: &Work, fault: StoreFault, port: &mut Port<'_>) {
        if let Work::Amending(io, _) | Work::Flushing(io) = work {
            port.copy_ended(io.name, Outcome::failed(&io.op, fault));
        }
    }
}
