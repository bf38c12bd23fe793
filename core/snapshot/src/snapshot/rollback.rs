// SPDX-License-Identifier: Apache-2.0
//! How a rollback goes on; see [`Rollback`].
//!
//! It begins as a cut does, and everything later than its moment waits until the pool lists it. From then on what a chunk is to hold lies
//! in the pool until the chunk is put back. What changes it then is preserved for the moment of the rollback. A process that finds
//! it puts back what is not preserved since.

use super::{Doubtful, Snapshot};
use crate::rollback::Rollback;
use crate::work::{BATCH_CHUNKS, CutStage, For, LOADED_AT_ONCE, Listing, Task, Work};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use helio_format::before::{
    CHUNK_BYTES, COPIES_MOST, CopyClass, CopyNumber, CopyStage, KeptCopy, KeptImage,
};
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyOutcome, CopyRecord, Outcome, PoolHealth, Port, RollbackStatus, Shortage, StoreFault,
};
use helio_units::{Bytes, VolumeIndex};

impl Snapshot {
    /// Everything that a rollback needs is sound: its moment is prepared.
    pub(super) fn begin_rollback(&mut self, to: CopyNumber, port: &mut Port<'_>) {
        let Some(copy) = self.copies.held(to) else {
            return self.task_over(CopyOutcome::Over, port);
        };
        if self.copies.list().count() >= COPIES_MOST {
            return self.task_over(CopyOutcome::TooMany, port);
        }
        let (number, stage) = (self.copies.next(), CopyStage::Rollback(to));
        let (class, image) = (CopyClass::Expendable, KeptImage::default());
        let copy = KeptCopy { number, class, stage, image, ..copy };
        self.list_coming(Box::new(copy), port);
    }

    /// To which copy the volumes are rolled back, or are to be when the cut has ended that is under way.
    pub(super) fn rolls_back(&self) -> Option<CopyNumber> {
        match &self.task {
            Task::Cut(copy, _) if let CopyStage::Rollback(to) = copy.stage => Some(to),
            _ => self.rollbacks.now().map(Rollback::to),
        }
    }

    /// Whether operations that touch these chunks, and are not older than a cut, wait for a rollback.
    pub(super) fn holds_back(&self, chunks: &Range<u64>) -> bool {
        if planted(Plant::RollbackServes) {
            return false;
        }
        (self.is_cutting() && self.rolls_back().is_some())
            || chunks.clone().any(|chunk| self.is_owed(chunk, Rollback::lacks))
    }

    fn is_owed(&self, chunk: u64, wants: impl Fn(&Rollback, u64) -> bool) -> bool {
        let owes = |it: &Rollback| wants(it, chunk) && self.copies.owes(it.span(), chunk);
        self.rollbacks.now().is_some_and(owes)
    }

    /// These chunks wait for a rollback that cannot go on: how what touches them fails.
    pub(super) fn is_beyond(&self, chunks: &Range<u64>) -> Option<StoreFault> {
        let denied = self.rollbacks.now().and_then(Rollback::denies);
        denied.filter(|_| self.holds_back(chunks))
    }

    /// The ledger says that a rollback may be under way, or cannot.
    pub(super) fn rollback_recorded(&mut self, by: Option<CopyNumber>, ok: bool) {
        self.rollbacks.record(by.filter(|_| ok));
        if let Task::Cut(_, stage @ CutStage::Records) = &mut self.task {
            *stage = match ok {
                true => CutStage::Flushed,
                false => CutStage::Fails(CopyOutcome::Unrecorded),
            };
        }
    }

    /// The pool lists it: what was later than its moment goes on.
    pub(super) fn rollback_listed(&mut self, to: CopyNumber, by: CopyNumber) {
        self.ahead.stop();
        self.rollbacks.begin(Rollback::new(to, by));
    }

    /// Puts back what operations wait for, where no step is being taken.
    pub(super) fn roll_back_wanted(&mut self, port: &mut Port<'_>) {
        if !self.may_roll_back() {
            return;
        }
        let wanted = self.changes.touched();
        let mut chunks: Vec<u64> =
            wanted.filter(|chunk| self.is_owed(*chunk, Rollback::is_unwritten)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        chunks.truncate(LOADED_AT_ONCE);
        if !chunks.is_empty() {
            return self.put_chunks_back(chunks, port);
        }
        if self.changes.touched().any(|chunk| self.is_owed(chunk, Rollback::lacks)) {
            self.flush_rollback(port);
        }
    }

    /// Puts back what is next, or ends the rollback, where no step is being taken and that is permitted. Changes that lack room wait for
    /// the end.
    pub(super) fn roll_back(&mut self, port: &mut Port<'_>) {
        if !self.can_roll_back() {
            return;
        }
        let (chunks, written) = self.next_owed();
        if !chunks.is_empty() && written < BATCH_CHUNKS {
            self.put_chunks_back(chunks, port);
        } else if written > 0 {
            self.flush_rollback(port);
        } else if let Some(by) = self.rollbacks.now().map(Rollback::by) {
            self.unlist(vec![by], Listing::Without, port);
        }
    }

    /// The next chunks that are to be written, and how many are, and not flushed.
    fn next_owed(&mut self) -> (Vec<u64>, usize) {
        let Some(rollback) = self.rollbacks.now_mut() else { return (Vec::new(), 0) };
        let (mut chunks, mut from) = (Vec::new(), rollback.next());
        let mut reached = None;
        while chunks.len() < LOADED_AT_ONCE {
            let found = self.copies.differing(rollback.to(), from, BATCH_CHUNKS);
            let Some((last, _)) = found.last() else { break };
            from = last + 1;
            let owed =
                |chunk: &u64| rollback.lacks(*chunk) && self.copies.owes(rollback.span(), *chunk);
            for chunk in found.into_iter().map(|(chunk, _)| chunk).filter(owed) {
                reached = reached.or(Some(chunk));
                if rollback.is_unwritten(chunk) && chunks.len() < LOADED_AT_ONCE {
                    chunks.push(chunk);
                }
            }
        }
        rollback.reaches(reached.unwrap_or(from));
        (chunks, rollback.written())
    }

    /// It is under way and could take a step.
    fn may_roll_back(&self) -> bool {
        let goes = self.rollbacks.now().is_some_and(|it| it.failed().is_none());
        goes && matches!(self.work, Work::Idle) && self.flushes.is_none()
    }

    /// The same of what no operation waits for. It needs no permission if something waits for its end: changes that lack room, or what is
    /// asked of the copies, as the safe copy of a resync.
    pub(super) fn can_roll_back(&self) -> bool {
        let short = self.rollbacks.now().is_some_and(Rollback::is_short);
        let is_awaited = short || matches!(self.task, Task::Asked(_));
        self.may_roll_back()
            && (is_awaited
                || self.rollback_volume().is_some_and(|it| self.rollbacks.is_permitted(it)))
    }

    /// In which volume it goes on.
    pub(super) fn rollback_volume(&self) -> Option<VolumeIndex> {
        let rollback = self.rollbacks.now().filter(|it| it.failed().is_none())?;
        Some(self.chunks.place(rollback.next().min(self.chunks.total() - 1)).0)
    }

    /// Puts these chunks back. What younger copies need of them is preserved first.
    fn put_chunks_back(&mut self, chunks: Vec<u64>, port: &mut Port<'_>) {
        let Some(to) = self.rollbacks.now().map(Rollback::to) else { return };
        let missing =
            chunks.iter().copied().filter(|chunk| self.copies.is_unpreserved(*chunk, true));
        let missing: Vec<u64> = missing.collect();
        if let Some(youngest) = self.copies.youngest(true).filter(|_| !missing.is_empty()) {
            return match self.pool {
                PoolHealth::Works => self.preserve_for(youngest, missing, For::Rollback, port),
                _ => self.rollback_lacks_room(Shortage::FAILED, port),
            };
        }
        self.load(to, chunks, port);
    }

    /// What it would overwrite cannot be preserved. Expendable copies that need it go.
    pub(super) fn rollback_lacks_room(&mut self, shortage: Shortage, port: &mut Port<'_>) {
        if !self.give_up(shortage, port) {
            let fault = match shortage == Shortage::FAILED {
                true => StoreFault::Io,
                false => StoreFault::NoSpace,
            };
            self.rollback_fails(fault, port);
        }
    }

    /// What is being read is for it.
    pub(super) fn reads_for_rollback(&self, copy: CopyNumber) -> bool {
        self.rollbacks.now().is_some_and(|rollback| copy < rollback.by())
    }

    fn flush_rollback(&mut self, port: &mut Port<'_>) {
        if let Some(rollback) = self.rollbacks.now_mut() {
            rollback.flushes();
            if planted(Plant::RollbackUnflushed) {
                rollback.flushed();
                return self.go_on(port);
            }
            self.flush(port);
        }
    }

    /// All volumes were flushed, or that failed.
    pub(super) fn rollback_flushed(&mut self, failed: Option<StoreFault>, port: &mut Port<'_>) {
        match (failed, self.rollbacks.now_mut()) {
            (Some(fault), Some(_)) => self.rollback_fails(fault, port),
            (None, Some(rollback)) => rollback.flushed(),
            (_, None) => {}
        }
    }

    /// These chunks are written back, or that failed.
    pub(super) fn rollback_wrote(
        &mut self,
        chunks: Vec<u64>,
        failed: Option<StoreFault>,
        port: &mut Port<'_>,
    ) {
        match (failed, self.rollbacks.now_mut()) {
            (Some(fault), Some(_)) => self.rollback_fails(fault, port),
            (None, Some(rollback)) => rollback.writes(chunks),
            (_, None) => {}
        }
    }

    /// It cannot go on in this process: what waits for it fails, and so does what will.
    pub(super) fn rollback_fails(&mut self, fault: StoreFault, port: &mut Port<'_>) {
        let Some(rollback) = self.rollbacks.now_mut() else { return };
        rollback.doubt();
        rollback.fail(fault);
        let Some(denied) = rollback.denies() else { return };
        let mut changes = mem::take(&mut self.changes);
        let gone = changes.take(crate::changes::Age::Later, |_, chunks| self.holds_back(chunks));
        self.changes = changes;
        for (operation, _) in gone {
            port.end(operation.io, Outcome::failed(&operation.op, denied));
        }
    }

    /// If the copy is of no use any more, there is nothing to roll back to. Both leave the list together.
    pub(super) fn check_rollback(&mut self) {
        let gone = |it: &Rollback| !self.copies.holds(it.to());
        if let Some(rollback) = self.rollbacks.end_if(gone) {
            self.copies.forsake(&[rollback.by()]);
        }
    }

    /// The ledger says that a rollback may be under way, and none is.
    pub(super) fn has_old_record(&self) -> bool {
        let over = self.rolls_back().is_none();
        let listed = |by: CopyNumber| self.copies.has(by);
        over && self.flushes.is_none() && self.rollbacks.recorded().is_some_and(|by| !listed(by))
    }

    pub(super) fn clear_record(&mut self, port: &mut Port<'_>) {
        if matches!(self.work, Work::Idle) && self.has_old_record() {
            self.record(CopyRecord::Rollback(None), port);
        }
    }

    pub(super) fn rollback_status(&self) -> Option<RollbackStatus> {
        let Some(rollback) = self.rollbacks.now() else { return self.may_have_begun() };
        let done = rollback.done().filter(|chunk| self.copies.owes(rollback.span(), *chunk));
        let left = self.copies.owed(rollback.span(), rollback.next()) - done.count() as u64;
        let left = Bytes(left * CHUNK_BYTES);
        Some(RollbackStatus { to: rollback.to(), left, failed: rollback.failed() })
    }

    /// One whose beginning failed, and that list and ledger may say is under way: a process that finds both goes back.
    fn may_have_begun(&self) -> Option<RollbackStatus> {
        let (Some(Doubtful { number, to }), PoolHealth::Failed(fault)) = (self.doubtful, self.pool)
        else {
            return None;
        };
        let to = to.filter(|_| self.rollbacks.recorded() == Some(number))?;
        let left = Bytes(self.copies.owed((to, number), 0) * CHUNK_BYTES);
        Some(RollbackStatus { to, left, failed: Some(fault) })
    }
}
