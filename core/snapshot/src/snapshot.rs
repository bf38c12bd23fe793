// SPDX-License-Identifier: Apache-2.0
//! The layer: which changes pass, and which step is next.

mod branch;
mod preserve;
mod read;
mod rollback;
mod task;

use crate::ahead::Ahead;
use crate::changes::{Age, Changes};
use crate::chunks::Chunks;
use crate::clients::Clients;
use crate::copies::Copies;
use crate::rollback::{Rollback, Rollbacks};
use crate::room::Room;
use crate::work::{Batch, CutStage, Listing, Task, Work, rows};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use helio_format::before::{
    CHUNK_BYTES, CopyClass, CopyNumber, CopyStage, CopyView, KeptCopy, KeptImage,
};
use helio_format::message::VOLUMES_MAX;
use helio_ledger::BeforeFound;
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyIo, CopyOp, CopyOutcome, CopyRecord, CopyStatus, HeldCopy, Io, Layer, LayerRecord,
    LayerSetting, Leg, MemberFault, Operation, Outcome, PoolHealth, PoolOp, PoolOutcome, Port,
    RollbackStatus, Shortage, StoreOp, Tag,
};
use helio_units::{Bytes, Extent, Moment, VolumeIndex};

/// See the drawing of the crate.
#[derive(Clone, Debug)]
pub struct Snapshot {
    chunks: Chunks,
    copies: Copies,
    room: Room,
    ahead: Ahead,
    pool: PoolHealth,
    changes: Changes,
    clients: Clients,
    work: Work,
    task: Task,
    rollbacks: Rollbacks,
    doubtful: Option<Doubtful>,
    /// Flushes of all volumes that are under way, for the task or for one that failed.
    flushes: Option<Batch>,
}

/// A copy whose cut failed, although the list may say that it is held: it needs what copies need until the ledger says that it is over, and
/// the layer does not list it.
#[derive(Clone, Copy, Debug)]
struct Doubtful {
    number: CopyNumber,
    /// The list may say that it is the moment of a rollback to that copy.
    to: Option<CopyNumber>,
}

/// In a number: which volume.
const VOLUMES: u64 = VOLUMES_MAX as u64;
/// In a tag: an operation that passes, ...
const PASSES: u64 = 0;
/// ... and changes something, ...
const CHANGES: u64 = 1;
/// ... or one of the layer's own.
const OWN: u64 = 2;
const FLUSHES: u64 = 3;
/// ... or a read of the volume for one of a copy.
const READS: u64 = 4;
const KINDS: u64 = 5;

impl Snapshot {
    /// Of volumes of these sizes, with what the pool held when the process began. By the ledger, expendable copies up to the number
    /// `over` are over, and a rollback of the number `recorded` may be under way.
    #[must_use]
    pub fn new(
        sizes: &[Bytes],
        found: &BeforeFound,
        over: CopyNumber,
        recorded: Option<CopyNumber>,
    ) -> Self {
        let chunks = Chunks::new(sizes);
        let used = found.records.iter().map(|record| record.slot);
        let by = recorded.filter(|by| *by > over);
        let to = by.and_then(|by| found.rollback(by));
        let rollback = to.zip(by).map(|(to, by)| Rollback::new(to, by));
        let by = rollback.as_ref().map(Rollback::by);
        Self {
            copies: Copies::found(found, (over, by), &chunks),
            room: Room::found(found.slots, used),
            chunks,
            ahead: Ahead::default(),
            pool: PoolHealth::Works,
            changes: Changes::default(),
            clients: Clients::default(),
            work: Work::Idle,
            task: Task::None,
            rollbacks: Rollbacks::found(rollback, recorded),
            doubtful: None,
            flushes: None,
        }
    }

    /// The moment of a cut was, and the cut has not ended.
    const fn is_cutting(&self) -> bool {
        matches!(&self.task, Task::Cut(_, stage)
            if !matches!(stage, CutStage::Begins | CutStage::Ready))
    }

    /// Whether a change of that age needs that chunk preserved first. A copy that a process before left coming needs nothing.
    fn is_unpreserved(&self, chunk: u64, age: Age) -> bool {
        self.copies.is_unpreserved(chunk, self.is_before(age))
    }

    /// Whether a change of that age comes before the moment of the cut or of the rollback that is under way.
    const fn is_before(&self, age: Age) -> bool {
        matches!(age, Age::Older) || !(self.is_cutting() || self.rollbacks.now().is_some())
    }

    /// Whether an operation waits.
    fn waits(&self, operation: &Operation, chunks: &Range<u64>, age: Age) -> bool {
        let changes = operation.op.changes().is_some();
        (age == Age::Later && self.holds_back(chunks))
            || (changes && chunks.clone().any(|chunk| self.is_unpreserved(chunk, age)))
    }

    fn pass(
        &mut self,
        age: Age,
        (operation, chunks): (Operation, Range<u64>),
        port: &mut Port<'_>,
    ) {
        let Operation { io, leg, op } = operation;
        self.changes.begins(age, io.number(), chunks);
        port.issue(leg, op, Tag(io.number() * KINDS + CHANGES));
    }

    fn issue_own(volume: VolumeIndex, op: StoreOp, number: usize, port: &mut Port<'_>) {
        port.issue(Leg::whole(volume), op, Tag(number as u64 * KINDS + OWN));
    }

    /// Flushes all volumes.
    fn flush(&mut self, port: &mut Port<'_>) {
        for volume in 0..self.chunks.volumes() {
            let tag = Tag(u64::from(volume) * KINDS + FLUSHES);
            port.issue(Leg::whole(VolumeIndex(volume)), StoreOp::Flush, tag);
        }
        self.flushes = Some(Batch::of(usize::from(self.chunks.volumes())));
    }

    /// An operation on that volume ended like that. If it was to make something durable, what was done before it may be lost, and no
    /// flush behind it brings that back: a cut that is listed fails. Returns whether one does.
    fn heed(&mut self, volume: VolumeIndex, outcome: &Outcome) -> bool {
        let Outcome::Unsure(fault) = *outcome else { return false };
        if let Some(rollback) = self.rollbacks.now_mut() {
            rollback.doubt();
            // What is being written may be lost, too: it does not count, and is written again.
            if let Work::Writing { chunks, .. } = &mut self.work {
                chunks.clear();
            }
        }
        let failed = MemberFault { volumes: 1 << volume.0, volume, fault };
        self.cut_fails(CopyOutcome::FlushFailed(failed))
    }

    /// A cut that is listed fails like that. Returns whether one does.
    fn cut_fails(&mut self, outcome: CopyOutcome) -> bool {
        let Task::Cut(_, stage) = &mut self.task else { return false };
        *stage = match stage {
            CutStage::Begins | CutStage::Fails(_) | CutStage::Spoiled(_) => return false,
            CutStage::Ends => CutStage::Spoiled(outcome),
            _ => CutStage::Fails(outcome),
        };
        true
    }

    fn is_doubtful(&self, number: CopyNumber) -> bool {
        self.doubtful.is_some_and(|copy| copy.number == number)
    }

    /// Before-images can be preserved no more: parked changes that need none go, and the others are refused.
    fn fail(&mut self, health: PoolHealth, port: &mut Port<'_>) {
        self.pool = health;
        if let PoolHealth::Failed(fault) = health {
            self.rollback_fails(fault, port);
        }
        if let PoolHealth::Failed(fault) = health
            && let Task::Cut(copy, stage) = &self.task
        {
            let may_be_listed = matches!(stage, CutStage::Ends | CutStage::Spoiled(_));
            if may_be_listed && copy.class == CopyClass::Expendable {
                // The list may say that it is held, and nothing is preserved for it any more.
                let number = copy.number;
                let to = if let CopyStage::Rollback(to) = copy.stage { Some(to) } else { None };
                self.copies.hold(KeptCopy { stage: CopyStage::Held, ..**copy });
                self.doubtful = Some(Doubtful { number, to });
                match to {
                    Some(_) => self.record(CopyRecord::Rollback(None), port),
                    None => self.record(CopyRecord::Over(number), port),
                }
            } else {
                self.copies.remove(&[copy.number], &self.chunks);
            }
            self.task_over(CopyOutcome::PoolFailed(fault), port);
        }
        self.let_go(port);
        self.refuse(Shortage::FAILED, port);
    }

    /// Parked changes cannot be preserved. Expendable copies that need it go, the oldest first; where that helps no more, the changes
    /// are refused, untouched.
    fn refuse(&mut self, shortage: Shortage, port: &mut Port<'_>) {
        if self.changes.none_waits() || self.give_up(shortage, port) {
            return;
        }
        if shortage != Shortage::FAILED
            && self.rollbacks.now_mut().is_some_and(Rollback::falls_short)
        {
            return;
        }
        for age in Age::ALL {
            let mut changes = mem::take(&mut self.changes);
            let refused = changes.take(age, |operation, chunks| {
                self.waits(operation, chunks, age) && operation.op.changes().is_some()
            });
            self.changes = changes;
            for change in refused {
                if planted(Plant::RefusedTouches) {
                    self.pass(age, change, port);
                } else {
                    port.end(change.0.io, Outcome::Refused(shortage));
                }
            }
        }
        self.settle(port);
    }

    /// Gives an expendable copy up for want of that room, or all of them if nothing can be preserved. Returns whether one is there.
    fn give_up(&mut self, shortage: Shortage, port: &mut Port<'_>) -> bool {
        if !matches!(self.work, Work::Idle) {
            return true;
        }
        let restored = if let Task::Restore(number, _) = &self.task { Some(*number) } else { None };
        let restored = self.rolls_back().or(restored);
        let expendable = self.copies.of_class(CopyClass::Expendable);
        let mut over: Vec<_> = expendable.filter(|number| restored != Some(*number)).collect();
        if let PoolHealth::Failed(_) = self.pool {
            // What a rollback needs may be read by the next process.
            if self.rollbacks.now().is_some() {
                return false;
            }
            let over = over.last().copied();
            over.into_iter().for_each(|last| self.record(CopyRecord::Over(last), port));
            return over.is_some();
        }
        if shortage != Shortage::FAILED {
            over.truncate(1);
        } else if let (PoolHealth::Works, Some(rollback)) = (self.pool, self.rollbacks.now()) {
            // What it cannot read only younger ones need.
            over.retain(|number| *number > rollback.to());
        }
        if over.is_empty()
            && self.is_cutting()
            && let Task::Cut(copy, stage) = &mut self.task
            && copy.class == CopyClass::Expendable
        {
            over.push(copy.number);
            *stage = CutStage::Fails(match self.pool {
                PoolHealth::Unread(failed) => CopyOutcome::MemberFailed(failed),
                _ => CopyOutcome::NoRoom(shortage),
            });
        }
        if over.is_empty() {
            return false;
        }
        if planted(Plant::OverUnrecorded) {
            self.copies.remove(&over, &self.chunks);
            self.let_go(port);
        } else {
            self.unlist(over, Listing::Over, port);
        }
        true
    }

    /// The ledger is to say that.
    fn record(&mut self, record: CopyRecord, port: &mut Port<'_>) {
        self.work = Work::Recording(record);
        port.record(LayerRecord::Copies(record));
    }

    /// Tells of these, if they were held: there was no room for what they needed.
    fn tell_over(&self, numbers: &[CopyNumber], port: &mut Port<'_>) {
        let over = self.held().into_iter().filter(|copy| numbers.contains(&copy.number));
        over.for_each(|copy| port.over(copy));
    }

    /// These copies are to be in the list no more.
    fn unlist(
        &mut self,
        numbers: Vec<CopyNumber>,
        why: impl FnOnce(Vec<CopyNumber>) -> Listing,
        port: &mut Port<'_>,
    ) {
        let (copies, freed) = self.copies.without(&numbers, &self.chunks);
        self.work = Work::Listing(why(numbers));
        port.pool(PoolOp::List { copies, freed });
    }

    /// Those copies are in the list no more: what no other one needs is free.
    fn unlisted(&mut self, numbers: &[CopyNumber], port: &mut Port<'_>) {
        let freed = self.copies.remove(numbers, &self.chunks);
        self.rollbacks.end_if(|rollback| numbers.contains(&rollback.by()));
        freed.into_iter().for_each(|(_, slot)| self.room.give(slot));
        if self.copies.is_empty() {
            self.room.clear();
        }
        // A member failed where it was read for copies that are gone. The pool can preserve the next one.
        let none_required = self.copies.of_class(CopyClass::Required).next().is_none();
        if none_required {
            self.room.promise(false);
        }
        if matches!(self.pool, PoolHealth::Unread(_)) && none_required {
            self.pool = PoolHealth::Works;
        }
        match &self.task {
            Task::Drop(number) if numbers.contains(number) => {
                self.task_over(CopyOutcome::Done, port);
            }
            Task::Cut(copy, CutStage::Fails(outcome) | CutStage::Spoiled(outcome))
                if numbers.contains(&copy.number) =>
            {
                let outcome = *outcome;
                self.task_over(outcome, port);
            }
            _ => {}
        }
    }

    /// Lets changes go whose chunks are all preserved.
    fn let_go(&mut self, port: &mut Port<'_>) {
        for age in Age::ALL {
            let mut changes = mem::take(&mut self.changes);
            let goes = |operation: &Operation, chunks: &_| !self.waits(operation, chunks, age);
            let gone = changes.take(age, goes);
            self.changes = changes;
            gone.into_iter().for_each(|change| self.pass(age, change, port));
        }
    }

    /// Takes the step that is next, where none is being taken.
    fn go_on(&mut self, port: &mut Port<'_>) {
        if matches!(self.work, Work::Idle) {
            self.check_rollback();
        }
        self.let_go(port);
        if !matches!(self.work, Work::Idle) {
            return;
        }
        self.drop_left_over(port);
        self.serve_client(port);
        self.roll_back_wanted(port);
        self.go_on_with_task(port);
        match self.pool {
            PoolHealth::Works => self.preserve(port),
            _ => self.refuse(Shortage::FAILED, port),
        }
        self.roll_back(port);
        self.clear_record(port);
        self.serve_client(port);
    }

    /// Whether there are copies that need nothing.
    fn has_left_over(&self) -> bool {
        let ours = matches!(self.task, Task::Cut(..));
        !ours && self.pool == PoolHealth::Works && self.copies.coming().next().is_some()
    }

    fn drop_left_over(&mut self, port: &mut Port<'_>) {
        if self.has_left_over() {
            let coming = self.copies.coming().collect();
            self.unlist(coming, Listing::Without, port);
        }
    }

    /// What was asked is over.
    fn task_over(&mut self, outcome: CopyOutcome, port: &mut Port<'_>) {
        self.task = Task::None;
        self.changes.cut_ended();
        port.copied(outcome);
    }
}

impl Layer for Snapshot {
    fn begin(&mut self, operation: Operation, port: &mut Port<'_>) {
        let Operation { io, leg, op } = operation;
        let chunks = op.touches().map(|extent| self.chunks.touched(leg.volume, extent));
        let changes = op.changes().is_some();
        let Some(chunks) = chunks.filter(|chunks| changes || self.holds_back(chunks)) else {
            let number = io.number() * VOLUMES + u64::from(leg.volume.0);
            return port.issue(leg, op, Tag(number * KINDS + PASSES));
        };
        if let Some(fault) = self.is_beyond(&chunks) {
            return port.end(io, Outcome::failed(&op, fault));
        }
        if changes {
            self.ahead.reach(chunks.end);
        }
        if !self.waits(&operation, &chunks, Age::Later)
            || (changes && planted(Plant::OverwriteUnpreserved))
        {
            self.pass(Age::Later, (operation, chunks), port);
        } else {
            self.changes.park(operation, chunks);
        }
        self.go_on(port);
    }

    /// The ledger says that, or cannot.
    fn recorded(&mut self, ok: bool, port: &mut Port<'_>) {
        let Work::Recording(record) = mem::replace(&mut self.work, Work::Idle) else { return };
        match record {
            CopyRecord::Over(last) if ok => {
                let expendable = self.copies.of_class(CopyClass::Expendable);
                let over: Vec<_> = expendable.filter(|number| *number <= last).collect();
                self.tell_over(&over, port);
                self.copies.forsake(&over);
            }
            CopyRecord::Rollback(by @ Some(_)) => self.rollback_recorded(by, ok),
            CopyRecord::Rollback(None) if ok || self.doubtful.is_none() => {
                self.rollbacks.record(None);
                let doubtful = self.doubtful.map(|copy| copy.number);
                self.copies.forsake(doubtful.as_slice());
            }
            // Nothing can say that they are over: from now on they are required.
            CopyRecord::Over(_) | CopyRecord::Rollback(None) => self.copies.require_all(),
        }
        self.go_on(port);
    }

    fn ended(&mut self, Tag(tag): Tag, outcome: Outcome, port: &mut Port<'_>) {
        let number = tag / KINDS;
        match tag % KINDS {
            OWN => self.own_ended(number, outcome, port),
            FLUSHES => self.flush_ended(VolumeIndex(number as u16), &outcome, port),
            READS => self.volume_read(number, outcome, port),
            CHANGES => {
                port.end(Io::new(number), outcome);
                if let Some(chunks) = self.changes.ended(number) {
                    self.heed(self.chunks.place(chunks.start).0, &outcome);
                }
                self.settle(port);
            }
            _ => {
                port.end(Io::new(number / VOLUMES), outcome);
                if self.heed(VolumeIndex((number % VOLUMES) as u16), &outcome) {
                    self.go_on(port);
                }
            }
        }
    }

    fn held(&self) -> Vec<KeptCopy> {
        let copies = self.copies.list();
        copies.filter(|it| it.stage == CopyStage::Held && !self.is_doubtful(it.number)).collect()
    }

    fn held_copy(&self, number: CopyNumber) -> Option<KeptCopy> {
        self.copies.held(number).filter(|_| !self.is_doubtful(number))
    }

    fn begin_on_copy(&mut self, io: CopyIo, port: &mut Port<'_>) -> bool {
        self.begin_for_client(io, port)
    }

    fn copy(&mut self, op: CopyOp, port: &mut Port<'_>) -> Option<CopyOp> {
        self.task = Task::Asked(Box::new(op));
        self.go_on(port);
        None
    }

    fn cut(&mut self, image: Option<Box<KeptImage>>, port: &mut Port<'_>) {
        self.cut_now(image, port);
    }

    fn copies(&self) -> Vec<HeldCopy> {
        let of = |(copy, chunks): (KeptCopy, [u64; 3])| {
            let [changed, preserved, branch] = chunks.map(|count| Bytes(count * CHUNK_BYTES));
            HeldCopy { copy, changed, preserved, branch }
        };
        let figures = self.copies.figures().into_iter();
        figures.filter(|(copy, ..)| !self.is_doubtful(copy.number)).map(of).collect()
    }

    fn bound(&mut self, most: Option<Bytes>) {
        self.room.bound(most);
    }

    fn pool_ended(&mut self, outcome: PoolOutcome, port: &mut Port<'_>) {
        self.step_ended(outcome, port);
        self.go_on(port);
    }

    fn abandon(&mut self, copy: CopyNumber, port: &mut Port<'_>) {
        self.copies.forsake(&[copy]);
        self.go_on(port);
    }

    fn fail_cut(&mut self, failed: MemberFault, port: &mut Port<'_>) {
        if self.is_cutting() && self.cut_fails(CopyOutcome::MemberFailed(failed)) {
            self.go_on(port);
        }
    }

    fn cutting(&self) -> Option<CopyNumber> {
        let Task::Cut(copy, _) = &self.task else { return None };
        self.is_cutting().then_some(copy.number)
    }

    fn differing(&self, copy: CopyNumber) -> Vec<(VolumeIndex, Extent)> {
        let all = self.copies.differing(copy, 0, usize::MAX).into_iter();
        rows(all.map(|(chunk, _)| self.chunks.place(chunk)))
    }

    fn changed(
        &self,
        on: CopyView,
        (volume, extent): (VolumeIndex, Extent),
    ) -> Option<Vec<Extent>> {
        self.held_copy(on.copy())?;
        let rollback = self.rollbacks.now().map(Rollback::span);
        let rollback = rollback.filter(|_| !planted(Plant::RollbackUnchanged));
        let chunks = self.chunks.touched(volume, extent);
        let changed = self.copies.changed(on, rollback, chunks);
        let rows = rows(changed.map(|chunk| self.chunks.place(chunk)));
        Some(rows.into_iter().map(|(_, extent)| extent).collect())
    }

    fn set(&mut self, setting: LayerSetting, port: &mut Port<'_>) {
        if let LayerSetting::Background(volumes) = setting {
            self.rollbacks.permit(volumes);
            self.go_on(port);
        }
    }

    fn background(&self, _now: Moment) -> u64 {
        self.rollback_volume().map_or(0, |volume| 1 << volume.0)
    }

    fn preserves(&self) -> Option<CopyStatus> {
        let preserved = Bytes(self.copies.taken() * CHUNK_BYTES);
        // A rollback that failed is a fault that only another process ends, too.
        let failed = self.rollbacks.now().and_then(Rollback::failed);
        Some(CopyStatus { preserved, pool: failed.map_or(self.pool, PoolHealth::Failed) })
    }

    fn is_rolling_back(&self) -> bool {
        self.rollbacks.now().is_some()
    }

    fn rollback(&self) -> Option<RollbackStatus> {
        self.rollback_status()
    }

    fn rests(&self) -> bool {
        let idle = matches!((&self.work, &self.task), (Work::Idle, Task::None));
        let idle = idle && self.flushes.is_none() && self.clients.is_empty();
        let idle = idle && self.rollbacks.now().is_none() && self.rollbacks.recorded().is_none();
        idle && self.copies.is_empty() && self.changes.is_empty()
    }

    fn deadline(&self) -> Moment {
        let own = self.has_left_over() || self.can_roll_back() || self.has_old_record();
        let waits = matches!(self.work, Work::Idle) && own;
        if waits { Moment::ZERO } else { Moment::NEVER }
    }

    fn tick(&mut self, port: &mut Port<'_>) {
        self.go_on(port);
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
