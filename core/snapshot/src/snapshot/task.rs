// SPDX-License-Identifier: Apache-2.0
//! What is asked of the layer: how a cut, a restore, a drop go on.

use super::Snapshot;
use crate::ahead::Ahead;
use crate::rollback::Rollback;
use crate::room::Room;
use crate::work::{
    BATCH_CHUNKS, Batch, CutStage, For, LOADED_AT_ONCE, Listing, RestoreStage, Task, Work,
};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use helio_format::before::{
    COPIES_MOST, CopyClass, CopyNumber, CopyStage, CopyView, EXPENDABLE_MOST, KeptCopy, KeptImage,
};
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyOp, CopyOutcome, CopyRecord, MemberFault, Outcome, PoolHealth, PoolOp, PoolOutcome, Port,
    Row, Shortage, StoreFault, StoreOp,
};
use helio_units::{Bytes, VolumeIndex};

impl Snapshot {
    /// Goes on with what is asked, where no step is being taken.
    pub(super) fn go_on_with_task(&mut self, port: &mut Port<'_>) {
        if !matches!(self.work, Work::Idle) {
            return;
        }
        // What is asked during a rollback waits for its end.
        let may_begin = self.flushes.is_none() && !self.goes_back();
        match &mut self.task {
            Task::Asked(op) if may_begin => {
                let op = op.clone();
                self.begin_task(*op, port);
            }
            Task::Cut(copy, stage @ CutStage::Flushed)
                if let CopyStage::Rollback(to) = copy.stage
                    && !self.copies.holds(to) =>
            {
                *stage = CutStage::Fails(CopyOutcome::Over);
                self.go_on_with_task(port);
            }
            Task::Cut(copy, stage @ CutStage::Flushed)
                if copy.stage != CopyStage::Held
                    && self.rollbacks.recorded() != Some(copy.number) =>
            {
                *stage = CutStage::Records;
                let by = copy.number;
                self.record(CopyRecord::Rollback(Some(by)), port);
            }
            Task::Cut(copy, stage @ CutStage::Flushed) => {
                *stage = CutStage::Ends;
                let held = **copy;
                let older = self.copies.list().filter(|copy| copy.number != held.number);
                let copies = older.chain([held]).collect();
                self.work = Work::Listing(Listing::Held);
                port.pool(PoolOp::List { copies, freed: 0 });
            }
            Task::Cut(copy, CutStage::Fails(_) | CutStage::Spoiled(_)) => {
                let number = copy.number;
                self.unlist(vec![number], Listing::Without, port);
            }
            Task::Restore(number, RestoreStage::Checks(_) | RestoreStage::Writes(0))
                if !self.copies.holds(*number) =>
            {
                self.task_over(CopyOutcome::Over, port);
            }
            Task::Restore(number, RestoreStage::Writes(_)) if !self.copies.holds(*number) => {
                self.task_over(CopyOutcome::PoolFailed(StoreFault::Io), port);
            }
            Task::Restore(number, RestoreStage::Checks(from)) => {
                let (number, from) = (*number, *from);
                self.check(number, from, port);
            }
            // What is under way meanwhile comes first.
            Task::Rollback(number, from) if self.changes.none_waits() => {
                let (number, from) = (*number, *from);
                self.check(number, from, port);
            }
            Task::Restore(_, RestoreStage::Writes(from)) => {
                let from = *from;
                self.put_back(from, port);
            }
            _ => {}
        }
    }

    fn begin_task(&mut self, op: CopyOp, port: &mut Port<'_>) {
        let restores = matches!(op, CopyOp::Restore(_));
        if let Some(fault) = self.rollbacks.now().and_then(Rollback::failed) {
            return self.task_over(CopyOutcome::PoolFailed(fault), port);
        }
        // All that was overwritten is preserved: a restore may succeed all the same.
        let failed = match self.pool {
            PoolHealth::Works => None,
            PoolHealth::Failed(fault) => Some(CopyOutcome::PoolFailed(fault)),
            PoolHealth::Unread(failed) => Some(CopyOutcome::MemberFailed(failed)),
        };
        if let Some(failed) = failed.filter(|_| !restores) {
            return self.task_over(failed, port);
        }
        match op {
            CopyOp::Cut { class, .. } if self.is_full_of(class) => {
                self.task_over(CopyOutcome::TooMany, port);
            }
            CopyOp::Cut { overwritten, .. } => self.make_room(overwritten, 0, port),
            CopyOp::Reserve { overwritten } => {
                let youngest = self.copies.youngest(true);
                let preserved = youngest.map_or(0, |copy| self.copies.preserved_for(copy));
                self.make_room(overwritten, preserved, port);
            }
            CopyOp::Restore(number) if self.copies.holds(number) => {
                self.task = Task::Restore(number, RestoreStage::Checks(0));
                self.go_on_with_task(port);
            }
            CopyOp::Rollback(number) if self.copies.holds(number) => {
                self.task = Task::Rollback(number, 0);
                self.go_on_with_task(port);
            }
            CopyOp::Restore(_) | CopyOp::Rollback(_) => self.task_over(CopyOutcome::Over, port),
            CopyOp::Drop(number) if self.copies.has(number) => {
                self.task = Task::Drop(number);
                self.unlist(vec![number], Listing::Without, port);
            }
            CopyOp::Drop(_) => self.task_over(CopyOutcome::Done, port),
        }
    }

    /// Whether the list has no place for one more copy of that class.
    fn is_full_of(&self, class: CopyClass) -> bool {
        let most = match class {
            CopyClass::Required => COPIES_MOST,
            CopyClass::Expendable => EXPENDABLE_MOST,
        };
        let counts = |copy: &KeptCopy| class == CopyClass::Required || copy.class == class;
        self.copies.list().filter(counts).count() >= most
    }

    /// Makes room for what will be overwritten, where so many chunks are preserved already.
    fn make_room(&mut self, overwritten: Bytes, preserved: u64, port: &mut Port<'_>) {
        self.ahead = Ahead::new(overwritten >= self.chunks.bytes());
        let records = self.room.asked(overwritten, preserved, self.chunks.total());
        self.reserve(records.max(self.room.reserved()), For::Task, port);
    }

    /// An expendable copy is asked for.
    fn asks_expendable(&self) -> bool {
        matches!(&self.task, Task::Asked(op)
            if matches!(**op, CopyOp::Cut { class: CopyClass::Expendable, .. }))
    }

    /// There is room for what is asked.
    pub(super) fn task_has_room(&mut self, port: &mut Port<'_>) {
        if !self.asks_expendable() {
            self.room.promise(true);
        }
        let task = mem::replace(&mut self.task, Task::None);
        match if let Task::Asked(op) = task { Some(*op) } else { None } {
            Some(CopyOp::Cut { class, owner, .. }) => {
                let (number, stage) = (self.copies.next(), CopyStage::Held);
                let copy = KeptCopy { number, class, stage, owner, image: KeptImage::default() };
                self.list_coming(Box::new(copy), port);
            }
            _ => self.task_over(CopyOutcome::Done, port),
        }
    }

    /// A cut begins, after which the copy is as that says.
    pub(super) fn list_coming(&mut self, copy: Box<KeptCopy>, port: &mut Port<'_>) {
        let coming = KeptCopy { stage: CopyStage::Coming, ..*copy };
        self.task = Task::Cut(copy, CutStage::Begins);
        self.work = Work::Listing(Listing::Coming);
        let copies = self.copies.list().chain([coming]).collect();
        port.pool(PoolOp::List { copies, freed: 0 });
    }

    /// There is none. Expendable copies yield to a required one, if that helps.
    pub(super) fn task_has_no_room(&mut self, shortage: Shortage, port: &mut Port<'_>) {
        let taken = self.copies.taken_by_expendable();
        let helps = shortage.needed <= shortage.free + Room::bytes(taken);
        if self.asks_expendable() || !helps || !self.give_up(shortage, port) {
            self.task_over(CopyOutcome::NoRoom(shortage), port);
        }
    }

    /// The list says that the copy is coming: its moment may come.
    pub(super) fn cut_listed(&mut self, port: &mut Port<'_>) {
        if let Task::Cut(copy, stage) = &mut self.task {
            *stage = CutStage::Ready;
            self.copies.add(KeptCopy { stage: CopyStage::Coming, ..**copy });
            port.cut_ready();
        }
    }

    /// This is the moment of the cut, or there is none.
    pub(super) fn cut_now(&mut self, image: Option<Box<KeptImage>>, port: &mut Port<'_>) {
        let Task::Cut(copy, stage @ CutStage::Ready) = &mut self.task else { return };
        match image {
            Some(image) => {
                copy.image = *image;
                *stage = CutStage::Settles;
                self.changes.cut();
                self.settle(port);
            }
            None => {
                *stage = CutStage::Fails(CopyOutcome::Cancelled);
                self.go_on(port);
            }
        }
    }

    /// Goes on with a cut once no change is on its way that is older.
    pub(super) fn settle(&mut self, port: &mut Port<'_>) {
        let settled = !self.changes.has_older() || planted(Plant::CutUnsettled);
        if settled && matches!(self.task, Task::Cut(_, CutStage::Settles)) {
            let unflushed = planted(Plant::CutUnflushed);
            if let Task::Cut(_, stage) = &mut self.task {
                *stage = if unflushed { CutStage::Flushed } else { CutStage::Flushes };
            }
            if !unflushed {
                self.flush(port);
            }
        }
        if !self.changes.none_waits() || !matches!(self.task, Task::None) {
            self.go_on(port);
        }
    }

    /// A flush of a volume ended, for a cut or for a restore. The layer reports a failure at once.
    pub(super) fn flush_ended(
        &mut self,
        volume: VolumeIndex,
        outcome: &Outcome,
        port: &mut Port<'_>,
    ) {
        if let Some(fault) = outcome.fault() {
            port.flush_failed(volume, fault);
        }
        let Some(batch) = &mut self.flushes else { panic!("a flush ended that nothing began") };
        let Some(ended) = batch.ended(volume, outcome) else { return };
        self.flushes = None;
        self.rollback_flushed(ended.err().map(|failed| failed.fault), port);
        let outcome = ended.err().map(CopyOutcome::FlushFailed);
        match &mut self.task {
            Task::Cut(_, stage @ CutStage::Flushes) => {
                *stage = outcome.map_or(CutStage::Flushed, CutStage::Fails);
            }
            Task::Restore(_, RestoreStage::Flushes) => {
                self.task_over(outcome.unwrap_or(CopyOutcome::Done), port);
            }
            // What it was for has failed since.
            _ => {}
        }
        self.go_on(port);
    }

    /// A rollback is under way, and goes on.
    fn goes_back(&self) -> bool {
        self.rollbacks.now().is_some_and(|rollback| rollback.failed().is_none())
    }

    /// Reads what the copy needs from that chunk on, and checks it.
    fn check(&mut self, number: CopyNumber, from: u64, port: &mut Port<'_>) {
        let found = self.copies.differing(number, from, BATCH_CHUNKS);
        let Some((last, _)) = found.last() else {
            return match &mut self.task {
                Task::Restore(_, stage) => {
                    *stage = RestoreStage::Writes(0);
                    self.put_back(0, port);
                }
                _ => self.begin_rollback(number, port),
            };
        };
        self.work = Work::Checking(last + 1);
        let records = found.iter().map(|(chunk, slot)| (*slot, self.chunks.place(*chunk)));
        port.pool(PoolOp::Check { records: records.collect() });
    }

    /// Puts back what the copy holds from that chunk on. What younger copies need of it is preserved first.
    fn put_back(&mut self, from: u64, port: &mut Port<'_>) {
        let Task::Restore(number, _) = self.task else { return };
        let found = self.copies.differing(number, from, LOADED_AT_ONCE);
        if found.is_empty() {
            self.task = Task::Restore(number, RestoreStage::Flushes);
            return self.flush(port);
        }
        let chunks: Vec<u64> = found.into_iter().map(|(chunk, _)| chunk).collect();
        let unpreserved = |chunk: &u64| self.copies.is_unpreserved(*chunk, true);
        let missing: Vec<u64> = chunks.iter().copied().filter(unpreserved).collect();
        if let Some(youngest) = self.copies.youngest(true).filter(|_| !missing.is_empty()) {
            return match self.pool {
                PoolHealth::Works => self.preserve_for(youngest, missing, For::Chunks, port),
                _ => self.restore_lacks_room(Shortage::FAILED, port),
            };
        }
        self.load(number, chunks, port);
    }

    /// Loads what a copy holds of these chunks, in which it differs from the volumes.
    pub(super) fn load(&mut self, copy: CopyNumber, chunks: Vec<u64>, port: &mut Port<'_>) {
        let slot = |chunk: &u64| Some((self.copies.slot(CopyView::Cut(copy), *chunk)?, *chunk));
        let found = chunks.iter().filter_map(slot);
        let records = found.map(|(slot, chunk)| (slot, self.chunks.place(chunk))).collect();
        self.work = Work::Loading(chunks);
        port.pool(PoolOp::Load { records });
    }

    /// A restore is under way that still reads or writes something.
    pub(super) const fn is_restoring(&self) -> bool {
        matches!(self.task, Task::Restore(_, RestoreStage::Checks(_) | RestoreStage::Writes(_)))
    }

    /// What a restore would overwrite cannot be preserved. Expendable copies that need it go.
    pub(super) fn restore_lacks_room(&mut self, shortage: Shortage, port: &mut Port<'_>) {
        if !self.give_up(shortage, port) {
            let outcome = match self.pool {
                PoolHealth::Works => CopyOutcome::NoRoom(shortage),
                PoolHealth::Failed(fault) => CopyOutcome::PoolFailed(fault),
                PoolHealth::Unread(failed) => CopyOutcome::MemberFailed(failed),
            };
            self.task_over(outcome, port);
        }
    }

    /// Records were checked, or loaded, or that failed.
    pub(super) fn restore_step(&mut self, work: Work, outcome: PoolOutcome, port: &mut Port<'_>) {
        match (work, outcome) {
            (Work::Checking(next), PoolOutcome::Done) => match &mut self.task {
                Task::Restore(_, stage) => *stage = RestoreStage::Checks(next),
                Task::Rollback(_, from) => *from = next,
                _ => {}
            },
            (Work::Checking(_), PoolOutcome::Damaged) => {
                self.task_over(CopyOutcome::Damaged, port);
            }
            (Work::Loading(_), PoolOutcome::Damaged) => self.damaged(port),
            (Work::Loading(chunks), PoolOutcome::Loaded(rows)) => {
                // Of other volumes than these, or of smaller ones: the host's configuration changed since.
                let fits = |row: &Row| self.chunks.find((row.volume, row.extent)).is_some();
                if rows.len() != chunks.len() || !rows.iter().all(fits) {
                    rows.iter().for_each(|row| port.release(row.payload.id));
                    return self.damaged(port);
                }
                self.write_back(chunks, rows, port);
            }
            (Work::Loading(_), PoolOutcome::Failed(fault)) if self.rollbacks.now().is_some() => {
                self.rollback_fails(fault, port);
            }
            // What cannot be read may still be added to.
            (_, PoolOutcome::Failed(fault)) => {
                self.task_over(CopyOutcome::PoolFailed(fault), port);
            }
            (work, outcome) => panic!("the pool ended {work:?} as {outcome:?}"),
        }
    }

    fn write_back(&mut self, chunks: Vec<u64>, rows: Vec<Row>, port: &mut Port<'_>) {
        for (number, Row { volume, extent, payload }) in rows.iter().enumerate() {
            let op = StoreOp::Write { extent: *extent, payload: *payload, fua: false };
            Self::issue_own(*volume, op, number, port);
        }
        let batch = Batch::of(rows.len());
        self.work = Work::Writing { chunks, rows, batch };
    }

    /// What was loaded is written back, or that failed.
    pub(super) fn written(&mut self, ended: Result<(), MemberFault>, port: &mut Port<'_>) {
        let Work::Writing { chunks, rows, .. } = mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        rows.into_iter().for_each(|row| port.release(row.payload.id));
        match (ended, &mut self.task) {
            (ended, _) if self.rollbacks.now().is_some() => {
                self.rollback_wrote(chunks, ended.err().map(|failed| failed.fault), port);
            }
            (Err(failed), _) => self.task_over(CopyOutcome::MemberFailed(failed), port),
            (Ok(()), Task::Restore(_, stage)) => {
                let next = chunks.last().map_or(0, |last| last + 1);
                *stage = RestoreStage::Writes(next);
            }
            (Ok(()), _) => {}
        }
        self.go_on(port);
    }

    /// What is preserved is damaged. A part may have been put back.
    fn damaged(&mut self, port: &mut Port<'_>) {
        if self.rollbacks.now().is_some() {
            return self.rollback_fails(StoreFault::Io, port);
        }
        let untouched = matches!(self.task, Task::Restore(_, RestoreStage::Writes(0)));
        let outcome = match untouched {
            true => CopyOutcome::Damaged,
            false => CopyOutcome::PoolFailed(StoreFault::Io),
        };
        self.task_over(outcome, port);
    }
}
