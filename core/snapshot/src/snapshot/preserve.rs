// SPDX-License-Identifier: Apache-2.0
//! Preserving: room, reading what changes will overwrite, and appending it to the pool.

use super::Snapshot;
use crate::changes::Age;
use crate::rollback::Rollback;
use crate::room::Room;
use crate::work::{BATCH_CHUNKS, Batch, CutStage, For, Listing, Task, Work, rows};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use helio_format::before::{CopyNumber, CopyStage};
use helio_stack::{
    CopyOutcome, CopyView, MemberFault, Outcome, PoolHealth, PoolOp, PoolOutcome, Port, Row,
    Shortage, StoreFault, StoreOp,
};

impl Snapshot {
    pub(super) fn reserve(&mut self, records: u64, then: For, port: &mut Port<'_>) {
        if let Some(shortage) = self.room.forbids(records) {
            return self.no_room(shortage, then, port);
        }
        self.work = Work::Reserving { records, then };
        port.pool(PoolOp::Reserve { records });
    }

    /// There is no room.
    fn no_room(&mut self, shortage: Shortage, then: For, port: &mut Port<'_>) {
        self.work = Work::Idle;
        match then {
            For::Task => self.task_has_no_room(shortage, port),
            For::Chunks if self.is_restoring() => self.restore_lacks_room(shortage, port),
            For::Chunks => self.refuse(shortage, port),
            For::Rollback => self.rollback_lacks_room(shortage, port),
            For::Branch => self.branch_fails(StoreFault::NoSpace, port),
        }
    }

    /// For which copy chunks are to be preserved that parked changes wait for, and which, each once, in the order of the changes. What
    /// is older than a cut comes first; what an older change touches waits for it.
    fn missing(&self) -> Option<(CopyNumber, Vec<u64>)> {
        let older_wait = self.changes.wanted(Age::Older).next().is_some();
        let age = if older_wait { Age::Older } else { Age::Later };
        let copy = self.copies.youngest(self.is_before(age))?;
        let (mut seen, mut chunks) = (BTreeSet::new(), Vec::new());
        for chunk in self.changes.wanted(age).filter(|chunk| self.is_unpreserved(*chunk, age)) {
            let owed = self.holds_back(&(chunk..chunk + 1));
            let touched = age == Age::Later && (owed || self.changes.older_touches(chunk));
            if chunks.len() < BATCH_CHUNKS && !touched && seen.insert(chunk) {
                chunks.push(chunk);
            }
        }
        Some((copy, chunks))
    }

    /// Preserves what parked changes wait for and what lies ahead of all changes, as much as one batch takes, where no step is being
    /// taken.
    pub(super) fn preserve(&mut self, port: &mut Port<'_>) {
        let short = self.rollbacks.now().is_some_and(Rollback::is_short);
        if !matches!(self.work, Work::Idle) || short {
            return;
        }
        let Some((copy, mut chunks)) = self.missing() else { return };
        let wanted = chunks.len() as u64;
        if wanted <= self.room.unused() && !self.is_cutting() {
            let seen: BTreeSet<u64> = chunks.iter().copied().collect();
            let (total, copies) = (self.chunks.total(), &self.copies);
            while chunks.len() < BATCH_CHUNKS && (chunks.len() as u64) < self.room.unused() {
                let has = |chunk| !copies.is_unpreserved(chunk, true) || seen.contains(&chunk);
                let Some(chunk) = self.ahead.next(total, has) else { break };
                chunks.push(chunk);
            }
        }
        if !chunks.is_empty() {
            self.preserve_for(copy, chunks, For::Chunks, port);
        }
    }

    /// Preserves these chunks for that copy, as far as there is room; makes some first if there is none.
    pub(super) fn preserve_for(
        &mut self,
        copy: CopyNumber,
        mut chunks: Vec<u64>,
        then: For,
        port: &mut Port<'_>,
    ) {
        if self.room.unused() == 0 {
            let needed = self.room.used() + 1;
            return match self.room.forbids(needed) {
                Some(shortage) => self.no_room(shortage, then, port),
                None => {
                    let needed = self.room.used() + chunks.len() as u64;
                    let (preserved, total) = (self.copies.preserved_for(copy), self.chunks.total());
                    let records = self.room.grown(needed, preserved, total);
                    self.reserve(records, then, port);
                }
            };
        }
        chunks.truncate(self.room.unused() as usize);
        self.read_rows(CopyView::Cut(copy), &chunks, port);
    }

    /// Reads these chunks of the volumes.
    pub(super) fn read_rows(&mut self, of: CopyView, chunks: &[u64], port: &mut Port<'_>) {
        let rows = rows(chunks.iter().map(|chunk| self.chunks.place(*chunk)));
        for (number, (volume, extent)) in rows.iter().enumerate() {
            Self::issue_own(*volume, StoreOp::Read { extent: *extent }, number, port);
        }
        let batch = Batch::of(rows.len());
        self.work = Work::Reading { of, rows, read: Vec::new(), batch };
    }

    /// An operation of its own ended.
    pub(super) fn own_ended(&mut self, number: u64, outcome: Outcome, port: &mut Port<'_>) {
        match &mut self.work {
            Work::Reading { rows, read, batch, .. } => {
                let (volume, extent) = rows[number as usize];
                if let Outcome::Read(payload) = outcome {
                    read.push(Row { volume, extent, payload });
                }
                if let Some(ended) = batch.ended(volume, &outcome) {
                    self.rows_read(ended, port);
                }
            }
            Work::Writing { rows, batch, .. } => {
                if let Some(ended) = batch.ended(rows[number as usize].volume, &outcome) {
                    self.written(ended, port);
                }
            }
            other => panic!("an operation of its own ended while it did {other:?}"),
        }
    }

    fn rows_read(&mut self, ended: Result<(), MemberFault>, port: &mut Port<'_>) {
        let Work::Reading { of, read, .. } = mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        let Err(failed) = ended else {
            return match of {
                CopyView::Cut(_) => self.append(of, read, port),
                CopyView::Branch(copy) => self.raise_read(copy, &read, port),
            };
        };
        read.iter().for_each(|row| port.release(row.payload.id));
        if let CopyView::Branch(_) = of {
            self.branch_fails(failed.fault, port);
            return self.go_on(port);
        }
        if self.is_restoring() {
            self.task_over(CopyOutcome::MemberFailed(failed), port);
        }
        // Younger copies need what cannot be read: they go, and the rollback goes on.
        if self.reads_for_rollback(of.copy()) {
            self.rollback_lacks_room(Shortage::FAILED, port);
            return self.go_on(port);
        }
        // It may be that no change waits for what cannot be read: what changes do wait for is read again, alone.
        let wanted = self.missing().is_some_and(|(_, chunks)| !chunks.is_empty());
        if !self.ahead.stop() && wanted {
            self.fail(PoolHealth::Unread(failed), port);
        }
        self.go_on(port);
    }

    /// Appends what was read to the pool.
    pub(super) fn append(&mut self, of: CopyView, rows: Vec<Row>, port: &mut Port<'_>) {
        let touched = |row: &Row| self.chunks.touched(row.volume, row.extent);
        let chunks: Vec<u64> = rows.iter().flat_map(touched).collect();
        let chunks: Vec<_> = chunks.into_iter().map(|chunk| (chunk, self.room.take(of))).collect();
        let slots = chunks.iter().map(|(_, slot)| *slot).collect();
        let payloads = rows.iter().map(|row| row.payload.id).collect();
        self.work = Work::Appending { of, chunks, payloads };
        port.pool(PoolOp::Append { of, rows, slots });
    }

    /// What was asked of the pool ended.
    pub(super) fn step_ended(&mut self, outcome: PoolOutcome, port: &mut Port<'_>) {
        match (mem::replace(&mut self.work, Work::Idle), outcome) {
            (work @ (Work::Checking(_) | Work::Loading(_)), outcome) => {
                self.restore_step(work, outcome, port);
            }
            (Work::Overlaying { io, base }, outcome) => Self::overlaid((io, base), outcome, port),
            (Work::Raising { copy, base }, outcome) => self.raised((copy, base), outcome, port),
            // Nothing else than these bytes of the branch is unknown.
            (Work::Amending(io, _), PoolOutcome::Failed(fault)) => {
                port.copy_ended(io.name, Outcome::failed(&io.op, fault));
            }
            (work, PoolOutcome::Failed(fault)) => self.pool_failed(work, fault, port),
            (Work::Reserving { records, then }, PoolOutcome::Done) => {
                self.room.reserve(records);
                if then == For::Task {
                    self.task_has_room(port);
                }
            }
            (Work::Reserving { records, then }, PoolOutcome::NoRoom { free }) => {
                let least = match then {
                    For::Chunks | For::Rollback => self.room.used() + 1,
                    For::Branch => self.room.next_for_branches().unwrap_or(records),
                    For::Task => records,
                };
                if least < records && Room::fits(least, free) {
                    return self.reserve(least, then, port);
                }
                self.no_room(Room::shortage(least, free), then, port);
            }
            (Work::Listing(Listing::Coming), PoolOutcome::Done) => self.cut_listed(port),
            (Work::Listing(Listing::Held), PoolOutcome::Done) => {
                if let Task::Cut(copy, CutStage::Ends) = &self.task {
                    let (number, stage) = (copy.number, copy.stage);
                    self.copies.hold(**copy);
                    if let CopyStage::Rollback(to) = stage {
                        self.rollback_listed(to, number);
                    }
                    self.task_over(CopyOutcome::Cut(number), port);
                }
            }
            (Work::Listing(Listing::Without(numbers)), PoolOutcome::Done) => {
                self.unlisted(&numbers, port);
            }
            (Work::Listing(Listing::Over(numbers)), PoolOutcome::Done) => {
                self.tell_over(&numbers, port);
                self.unlisted(&numbers, port);
            }
            (Work::Appending { of, chunks, payloads }, PoolOutcome::Done) => {
                payloads.into_iter().for_each(|payload| port.release(payload));
                for (chunk, slot) in chunks {
                    self.copies.preserve(of, chunk, slot);
                }
            }
            (Work::Amending(io, done), PoolOutcome::Done) => self.amended(io, done, port),
            (Work::Flushing(io), PoolOutcome::Done) => port.copy_ended(io.name, Outcome::Done),
            (work, outcome) => panic!("the pool ended {work:?} as {outcome:?}"),
        }
    }

    /// What was asked of the pool failed.
    fn pool_failed(&mut self, work: Work, fault: StoreFault, port: &mut Port<'_>) {
        if let Work::Flushing(io) = &work {
            port.copy_ended(io.name, Outcome::failed(&io.op, fault));
        }
        if let Work::Appending { payloads, .. } = work {
            payloads.into_iter().for_each(|payload| port.release(payload));
        }
        let asked = matches!(self.task, Task::Asked(_) | Task::Drop(_) | Task::Rollback(..));
        if self.is_restoring() || asked {
            self.task_over(CopyOutcome::PoolFailed(fault), port);
        }
        self.fail(PoolHealth::Failed(fault), port);
    }
}
