// SPDX-License-Identifier: Apache-2.0
//! How an operation on a branch goes on; see [`Clients`](crate::clients::Clients).

use super::Snapshot;
use crate::clients::Wanted;
use crate::work::{For, ROW_CHUNKS, Work};
use alloc::vec::Vec;
use core::ops::Range;
use helio_format::before::CopyNumber;
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyIo, CopyView, Outcome, PoolHealth, PoolOp, PoolOutcome, Port, Row, StoreFault, StoreOp,
};

impl Snapshot {
    /// Takes the next step of a change or a flush of a branch. Chunks before `done` are done.
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
        let records = self.records(io.on, start..end);
        let payload = io.op.payload();
        self.work = Work::Amending(io, end);
        port.pool(PoolOp::Amend { extent, payload, records });
    }

    /// Makes the first of these chunks part of that branch, with the next ones that are not.
    fn raise(&mut self, copy: CopyNumber, range: Range<u64>, port: &mut Port<'_>) {
        let lacks = |chunk: &u64| self.copies.branch_slot(copy, *chunk).is_none();
        let mut chunks: Vec<u64> = range.take_while(lacks).collect();
        if self.room.for_branches() == 0 {
            let least = self.room.next_for_branches();
            let Some(least) = least.filter(|least| self.room.forbids(*least).is_none()) else {
                return self.branch_fails(StoreFault::NoSpace, port);
            };
            let needed = least + chunks.len() as u64 - 1;
            let records = self.room.grown(needed, 0, self.chunks.total());
            return self.reserve(records, For::Branch, port);
        }
        chunks.truncate(self.room.for_branches() as usize);
        self.read_rows(CopyView::Branch(copy), &chunks, port);
    }

    /// The volume was read for the branch of that copy. What is preserved for the copy is laid over it.
    pub(super) fn raise_read(&mut self, copy: CopyNumber, read: &[Row], port: &mut Port<'_>) {
        let [base] = *read else { panic!("neighbours were read in {} rows", read.len()) };
        let touched = self.chunks.touched(base.volume, base.extent);
        let records = self.records(CopyView::Cut(copy), touched);
        if records.is_empty() {
            return self.append(CopyView::Branch(copy), Vec::from([base]), port);
        }
        self.work = Work::Raising { copy, base };
        port.pool(PoolOp::Overlay { base, records });
    }

    /// What the copy holds is known: its branch begins with that.
    pub(super) fn raised(
        &mut self,
        (copy, base): (CopyNumber, Row),
        outcome: PoolOutcome,
        port: &mut Port<'_>,
    ) {
        match Self::laid_over(base, outcome, port) {
            Ok(row) => self.append(CopyView::Branch(copy), Vec::from([row]), port),
            Err(fault) => self.branch_fails(fault, port),
        }
    }

    /// What is being served cannot go on.
    pub(super) fn branch_fails(&mut self, fault: StoreFault, port: &mut Port<'_>) {
        let io = self.clients.take_first();
        port.copy_ended(io.name, Outcome::failed(&io.op, fault));
    }

    /// A branch was amended before that chunk. The rest is done in turn with others.
    pub(super) fn amended(&mut self, io: CopyIo, done: u64, port: &mut Port<'_>) {
        let end = io.op.changes().map_or(0, |extent| self.chunks.touched(io.volume, extent).end);
        if done < end {
            self.clients.wait(Wanted::Branch(io, done));
        } else if io.op.is_flush() {
            self.clients.wait(Wanted::Branch(CopyIo { op: StoreOp::Flush, ..io }, 0));
        } else {
            port.copy_ended(io.name, Outcome::Done);
        }
    }
}
