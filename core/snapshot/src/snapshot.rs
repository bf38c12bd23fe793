// SPDX-License-Identifier: Apache-2.0
//! The layer: which changes pass, and what is done next.

use crate::ahead::Ahead;
use crate::chunks::{ChunkSet, Chunks};
use crate::room::Room;
use crate::work::{BATCH_CHUNKS, Batch, For, LOADED_AT_ONCE, Work, rows};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use helio_format::before::{CHUNK_BYTES, KeptImage};
use helio_ledger::BeforeKept;
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyClass, CopyOp, CopyOutcome, CopyStatus, Io, Layer, LayerRecord, Leg, MemberFault,
    Operation, Outcome, PoolHealth, PoolOp, PoolOutcome, Port, Row, Shortage, StoreFault, StoreOp,
    Tag,
};
use helio_units::{Bytes, VolumeIndex};

/// A change that waits until all its chunks are preserved.
#[derive(Clone, Debug)]
struct Parked {
    operation: Operation,
    chunks: Range<u64>,
}

/// What is preserved.
#[derive(Clone, Debug)]
enum Copy {
    None,
    /// These chunks; it begins to count once its cut has ended.
    Held(CopyClass, ChunkSet),
}

/// See the drawing of the crate.
#[derive(Clone, Debug)]
pub struct Snapshot {
    chunks: Chunks,
    volumes: u16,
    copy: Copy,
    room: Room,
    ahead: Ahead,
    pool: PoolHealth,
    parked: VecDeque<Parked>,
    work: Work,
    /// What is asked and waits for the work under way.
    asked: Option<CopyOp>,
    /// Changes under way below.
    changing: u32,
}

/// In a tag: an operation that passes, or one of the copy's own.
const PASSES: u64 = 0;
const CHANGES: u64 = 1;
const OWN: u64 = 2;
const KINDS: u64 = 3;

impl Snapshot {
    /// Of volumes of these sizes, with what the pool held when the process began.
    #[must_use]
    pub fn new(sizes: &[Bytes], found: Option<&BeforeKept>) -> Self {
        let chunks = Chunks::new(sizes);
        let (mut copy, mut room) = (Copy::None, Room::default());
        if let Some(found) = found {
            let mut preserved = ChunkSet::default();
            for number in found.chunks.iter().filter_map(|chunk| chunks.find(*chunk)) {
                preserved.insert(number);
            }
            (copy, room) =
                (Copy::Held(CopyClass::Required, preserved), Room::of(found.chunks.len() as u64));
        }
        Self {
            chunks,
            volumes: sizes.len() as u16,
            copy,
            room,
            ahead: Ahead::default(),
            pool: PoolHealth::Works,
            parked: VecDeque::new(),
            work: Work::Idle,
            asked: None,
            changing: 0,
        }
    }

    /// What the pool held is of this class; by default it is required.
    #[must_use]
    pub fn of_class(mut self, of: CopyClass) -> Self {
        if let Copy::Held(class, _) = &mut self.copy {
            *class = of;
        }
        self
    }

    fn preserved(&self) -> u64 {
        if let Copy::Held(_, chunks) = &self.copy { chunks.count() } else { 0 }
    }

    /// Whether the copy needs what that chunk holds, and the pool does not have it yet.
    fn is_unpreserved(&self, chunk: u64) -> bool {
        matches!(&self.copy, Copy::Held(_, chunks) if !chunks.has(chunk))
    }

    /// A cut is under way: what changes anything now is behind it.
    const fn is_cutting(&self) -> bool {
        matches!(
            &self.work,
            Work::Draining { .. }
                | Work::Reserving { then: For::Cut(..), .. }
                | Work::Flushing { label: Some(_), .. }
                | Work::Beginning(_)
        )
    }

    fn pass(&mut self, Operation { io, leg, op }: Operation, port: &mut Port<'_>) {
        let changes = op.changes().is_some();
        self.changing += u32::from(changes);
        let kind = if changes { CHANGES } else { PASSES };
        port.issue(leg, op, Tag(io.number() * KINDS + kind));
    }

    fn issue_own(volume: VolumeIndex, op: StoreOp, number: usize, port: &mut Port<'_>) {
        port.issue(Leg::whole(volume), op, Tag(number as u64 * KINDS + OWN));
    }

    /// Before-images can be preserved no more: parked changes that need none go, and the others are refused.
    fn fail(&mut self, health: PoolHealth, port: &mut Port<'_>) {
        self.pool = health;
        self.let_go(port);
        self.refuse(Shortage::FAILED, port);
    }

    /// Parked changes are refused, untouched; where the copy is expendable, it is over.
    fn refuse(&mut self, shortage: Shortage, port: &mut Port<'_>) {
        if self.is_expendable() && !self.parked.is_empty() {
            if planted(Plant::OverUnrecorded) {
                self.copy = Copy::None;
                self.let_go(port);
            } else if matches!(self.work, Work::Idle) {
                self.work = Work::Recording;
                port.record(LayerRecord::CopyOver);
            }
            return;
        }
        for parked in mem::take(&mut self.parked) {
            if planted(Plant::RefusedTouches) {
                self.pass(parked.operation, port);
            } else {
                port.end(parked.operation.io, Outcome::Refused(shortage));
            }
        }
    }

    /// Lets changes go whose chunks are all preserved.
    fn let_go(&mut self, port: &mut Port<'_>) {
        if self.is_cutting() {
            return;
        }
        for parked in mem::take(&mut self.parked) {
            if parked.chunks.clone().any(|chunk| self.is_unpreserved(chunk)) {
                self.parked.push_back(parked);
            } else {
                self.pass(parked.operation, port);
            }
        }
    }

    /// Does what is next, where nothing is being done.
    fn go_on(&mut self, port: &mut Port<'_>) {
        self.let_go(port);
        if !matches!(self.work, Work::Idle) {
            return;
        }
        match self.asked.take() {
            Some(op) => self.begin_copy(op, port),
            None if self.pool == PoolHealth::Works => self.preserve(port),
            None if self.is_expendable() => self.refuse(Shortage::FAILED, port),
            None => {}
        }
    }

    const fn is_expendable(&self) -> bool {
        matches!(self.copy, Copy::Held(CopyClass::Expendable, _))
    }

    fn begin_copy(&mut self, op: CopyOp, port: &mut Port<'_>) {
        if op == CopyOp::Restore && matches!(self.copy, Copy::None) {
            port.copied(CopyOutcome::Over);
            return self.go_on(port);
        }
        // All that was overwritten is preserved: a restore may succeed all the same.
        let failed = match self.pool {
            PoolHealth::Works => None,
            PoolHealth::Failed(fault) => Some(CopyOutcome::PoolFailed(fault)),
            PoolHealth::Unread(failed) => Some(CopyOutcome::MemberFailed(failed)),
        };
        if let Some(failed) = failed.filter(|_| op != CopyOp::Restore) {
            port.copied(failed);
            return self.go_on(port);
        }
        match op {
            CopyOp::Cut { class, label, overwritten } => {
                self.look_ahead(overwritten);
                let room = Room::asked(overwritten, 0, self.chunks.total());
                self.work = Work::Draining { class, label, room };
                self.drained(port);
            }
            CopyOp::Reserve { overwritten } => {
                self.look_ahead(overwritten);
                let room = Room::asked(overwritten, self.preserved(), self.chunks.total());
                let room = room.max(self.room.reserved());
                self.reserve(room, For::Asked, port);
            }
            CopyOp::Restore => {
                self.work = Work::Checking;
                port.pool(PoolOp::Check);
            }
            CopyOp::Drop => {
                self.work = Work::Ending { asked: true };
                port.pool(PoolOp::End);
            }
        }
    }

    fn look_ahead(&mut self, overwritten: Bytes) {
        self.ahead = Ahead::new(overwritten >= self.chunks.bytes());
    }

    /// Goes on with a cut once no change is under way.
    fn drained(&mut self, port: &mut Port<'_>) {
        if let Work::Draining { class, label, room } = &mut self.work
            && self.changing == 0
        {
            let (class, label, room) = (*class, mem::take(label), *room);
            self.reserve(room, For::Cut(class, label), port);
        }
    }

    fn reserve(&mut self, room: u64, then: For, port: &mut Port<'_>) {
        if let Some(shortage) = self.room.forbids(room) {
            return self.no_room(shortage, then, port);
        }
        self.work = Work::Reserving { room, then };
        port.pool(PoolOp::Reserve { chunks: room });
    }

    fn no_room(&mut self, shortage: Shortage, then: For, port: &mut Port<'_>) {
        self.work = Work::Idle;
        match then {
            For::Cut(..) | For::Asked => port.copied(CopyOutcome::NoRoom(shortage)),
            For::Parked => self.refuse(shortage, port),
        }
        self.go_on(port);
    }

    fn reserved(&mut self, room: u64, then: For, port: &mut Port<'_>) {
        self.room.reserve(room);
        match then {
            For::Cut(class, label) if planted(Plant::CutUnflushed) => {
                self.begin_preserving(class, label, port);
            }
            For::Cut(class, label) => self.flush(Some((class, label)), port),
            For::Asked => self.over(CopyOutcome::Done, port),
            For::Parked => {
                self.work = Work::Idle;
                self.go_on(port);
            }
        }
    }

    fn flush(&mut self, label: Option<(CopyClass, Box<KeptImage>)>, port: &mut Port<'_>) {
        self.work = Work::Flushing { batch: Batch::of(usize::from(self.volumes)), label };
        for volume in 0..self.volumes {
            Self::issue_own(VolumeIndex(volume), StoreOp::Flush, usize::from(volume), port);
        }
    }

    fn begin_preserving(&mut self, class: CopyClass, label: Box<KeptImage>, port: &mut Port<'_>) {
        self.work = Work::Beginning(class);
        port.pool(PoolOp::Begin { label });
    }

    /// What was asked is over.
    fn over(&mut self, outcome: CopyOutcome, port: &mut Port<'_>) {
        self.work = Work::Idle;
        port.copied(outcome);
        self.go_on(port);
    }

    /// Chunks that parked changes wait for, each once, in their order.
    fn missing(&self) -> Vec<u64> {
        let (mut seen, mut chunks) = (ChunkSet::default(), Vec::new());
        let wanted = self.parked.iter().flat_map(|parked| parked.chunks.clone());
        for chunk in wanted.filter(|chunk| self.is_unpreserved(*chunk)) {
            if chunks.len() < BATCH_CHUNKS && seen.insert(chunk) {
                chunks.push(chunk);
            }
        }
        chunks
    }

    /// Preserves what parked changes wait for and what lies ahead of all changes, as much as one batch takes, where nothing is
    /// being done.
    fn preserve(&mut self, port: &mut Port<'_>) {
        let works = self.pool == PoolHealth::Works && matches!(self.copy, Copy::Held(..));
        if !works || !matches!(self.work, Work::Idle) {
            return;
        }
        let (mut chunks, total) = (self.missing(), self.chunks.total());
        let (preserved, reserved) = (self.preserved(), self.room.reserved());
        let needed = preserved + chunks.len() as u64;
        if !chunks.is_empty() && needed > reserved {
            return match self.room.forbids(needed) {
                Some(shortage) => self.no_room(shortage, For::Parked, port),
                None => self.reserve(self.room.grown(needed, total), For::Parked, port),
            };
        }
        let mut seen = ChunkSet::default();
        chunks.iter().for_each(|chunk| _ = seen.insert(*chunk));
        while chunks.len() < BATCH_CHUNKS && preserved + (chunks.len() as u64) < reserved {
            let Copy::Held(_, held) = &self.copy else { break };
            let next = self.ahead.next(total, |chunk| held.has(chunk) || seen.has(chunk));
            let Some(chunk) = next else { break };
            chunks.push(chunk);
        }
        if chunks.is_empty() {
            return;
        }
        let rows = rows(chunks.iter().map(|chunk| self.chunks.place(*chunk)));
        for (number, (volume, extent)) in rows.iter().enumerate() {
            Self::issue_own(*volume, StoreOp::Read { extent: *extent }, number, port);
        }
        let batch = Batch::of(rows.len());
        self.work = Work::Reading { chunks, rows, read: Vec::new(), batch };
    }

    /// An operation of its own ended.
    fn own_ended(&mut self, number: u64, outcome: Outcome, port: &mut Port<'_>) {
        match &mut self.work {
            Work::Flushing { batch, label } => {
                let ended = batch.ended(VolumeIndex(number as u16), &outcome);
                match (ended, label.take_if(|_| ended.is_some())) {
                    (None, _) => {}
                    (Some(Ok(())), Some((class, label))) => {
                        self.begin_preserving(class, label, port)
                    }
                    (Some(Ok(())), None) => self.over(CopyOutcome::Done, port),
                    (Some(Err(failed)), _) => self.over(CopyOutcome::FlushFailed(failed), port),
                }
            }
            Work::Reading { rows, read, batch, .. } => {
                let (volume, extent) = rows[number as usize];
                if let Outcome::Read(payload) = outcome {
                    read.push(Row { volume, extent, payload });
                }
                if let Some(ended) = batch.ended(volume, &outcome) {
                    self.rows_read(ended, port);
                }
            }
            Work::Writing { next, rows, batch } => {
                let ended = batch.ended(rows[number as usize].volume, &outcome);
                let Some(ended) = ended else { return };
                let next = *next;
                mem::take(rows).into_iter().for_each(|row| port.release(row.payload.id));
                if let Err(failed) = ended {
                    return self.over(CopyOutcome::MemberFailed(failed), port);
                }
                self.work = Work::Loading { next };
                port.pool(PoolOp::Load { first: next, most: LOADED_AT_ONCE });
            }
            other => panic!("an operation of its own ended while it did {other:?}"),
        }
    }

    fn rows_read(&mut self, ended: Result<(), MemberFault>, port: &mut Port<'_>) {
        let Work::Reading { chunks, read, .. } = mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        let Err(failed) = ended else {
            let payloads = read.iter().map(|row| row.payload.id).collect();
            self.work = Work::Appending { chunks, payloads };
            return port.pool(PoolOp::Append { rows: read });
        };
        read.iter().for_each(|row| port.release(row.payload.id));
        // It may be that no change waits for what cannot be read: what changes do wait for is read again, alone.
        if !self.ahead.stop() && !self.missing().is_empty() {
            self.fail(PoolHealth::Unread(failed), port);
        }
        self.go_on(port);
    }

    fn loaded(&mut self, next: u64, rows: Vec<Row>, port: &mut Port<'_>) {
        if rows.is_empty() && next < self.preserved() {
            return self.damaged(next, port);
        }
        if rows.is_empty() {
            return self.flush(None, port);
        }
        // Of other volumes than these, or of smaller ones: the host's configuration changed since.
        if rows.iter().any(|row| self.chunks.find((row.volume, row.extent)).is_none()) {
            rows.iter().for_each(|row| port.release(row.payload.id));
            return self.damaged(next, port);
        }
        for (number, Row { volume, extent, payload }) in rows.iter().enumerate() {
            let op = StoreOp::Write { extent: *extent, payload: *payload, fua: false };
            Self::issue_own(*volume, op, number, port);
        }
        let loaded: u64 = rows.iter().map(|row| row.extent.length.div_ceil(CHUNK_BYTES)).sum();
        let (batch, next) = (Batch::of(rows.len()), next + loaded);
        self.work = Work::Writing { next, rows, batch };
    }

    /// What is preserved is damaged from that chunk on. The chunks before it were put back.
    fn damaged(&mut self, chunk: u64, port: &mut Port<'_>) {
        let put_back = chunk > 0;
        let pool_failed = CopyOutcome::PoolFailed(StoreFault::Io);
        self.over(if put_back { pool_failed } else { CopyOutcome::Damaged }, port);
    }

    /// What was asked of the pool failed.
    fn pool_failed(&mut self, work: Work, fault: StoreFault, port: &mut Port<'_>) {
        match work {
            Work::Appending { payloads, .. } => {
                payloads.into_iter().for_each(|payload| port.release(payload));
            }
            Work::Reserving { then: For::Parked, .. } | Work::Ending { asked: false } => {}
            // What cannot be read may still be added to.
            Work::Checking | Work::Loading { .. } => {
                return self.over(CopyOutcome::PoolFailed(fault), port);
            }
            _ => port.copied(CopyOutcome::PoolFailed(fault)),
        }
        self.fail(PoolHealth::Failed(fault), port);
        self.go_on(port);
    }
}

impl Layer for Snapshot {
    fn begin(&mut self, operation: Operation, port: &mut Port<'_>) {
        let Some(extent) = operation.op.changes() else { return self.pass(operation, port) };
        let chunks = self.chunks.touched(operation.leg.volume, extent);
        self.ahead.reach(chunks.end);
        let waits = self.is_cutting() || chunks.clone().any(|chunk| self.is_unpreserved(chunk));
        if !waits || planted(Plant::OverwriteUnpreserved) {
            self.pass(operation, port);
        } else if self.pool != PoolHealth::Works && !self.is_expendable() {
            port.end(operation.io, Outcome::Refused(Shortage::FAILED));
        } else {
            self.parked.push_back(Parked { operation, chunks });
        }
        if self.pool == PoolHealth::Works {
            self.preserve(port);
        } else if self.is_expendable() {
            self.refuse(Shortage::FAILED, port);
        }
    }

    /// The ledger says that the copy is over: changes pass, and the pool gives its room back.
    fn recorded(&mut self, ok: bool, port: &mut Port<'_>) {
        self.work = Work::Idle;
        if !ok {
            // Nothing can say that it is over: from now on it is required.
            if let Copy::Held(class, _) = &mut self.copy {
                *class = CopyClass::Required;
            }
            self.refuse(Shortage::FAILED, port);
            return self.go_on(port);
        }
        self.copy = Copy::None;
        self.let_go(port);
        match self.pool {
            // A member failed, and the pool did not: it can preserve the next copy.
            PoolHealth::Works | PoolHealth::Unread(_) => {
                self.pool = PoolHealth::Works;
                self.work = Work::Ending { asked: false };
                port.pool(PoolOp::End);
            }
            PoolHealth::Failed(_) => self.go_on(port),
        }
    }

    fn ended(&mut self, Tag(tag): Tag, outcome: Outcome, port: &mut Port<'_>) {
        match tag % KINDS {
            OWN => self.own_ended(tag / KINDS, outcome, port),
            kind => {
                port.end(Io::new(tag / KINDS), outcome);
                self.changing -= u32::from(kind == CHANGES);
                self.drained(port);
            }
        }
    }

    fn copy(&mut self, op: CopyOp, port: &mut Port<'_>) -> Option<CopyOp> {
        self.asked = Some(op);
        self.go_on(port);
        None
    }

    fn bound(&mut self, most: Option<Bytes>) {
        self.room.bound(most);
    }

    fn pool_ended(&mut self, outcome: PoolOutcome, port: &mut Port<'_>) {
        match (mem::replace(&mut self.work, Work::Idle), outcome) {
            (work, PoolOutcome::Failed(fault)) => self.pool_failed(work, fault, port),
            (Work::Reserving { room, then }, PoolOutcome::Done) => self.reserved(room, then, port),
            (Work::Reserving { room, then }, PoolOutcome::NoRoom { free }) => {
                let least = match then {
                    For::Parked => self.preserved() + self.missing().len() as u64,
                    For::Cut(..) | For::Asked => room,
                };
                if least < room && Room::fits(least, free) {
                    return self.reserve(least, then, port);
                }
                self.no_room(Room::shortage(least, free), then, port);
            }
            (Work::Beginning(class), PoolOutcome::Done) => {
                self.copy = Copy::Held(class, ChunkSet::default());
                self.over(CopyOutcome::Done, port);
            }
            (Work::Appending { chunks, payloads }, PoolOutcome::Done) => {
                payloads.into_iter().for_each(|payload| port.release(payload));
                if let Copy::Held(_, held) = &mut self.copy {
                    chunks.into_iter().for_each(|chunk| _ = held.insert(chunk));
                }
                self.go_on(port);
            }
            (Work::Checking, PoolOutcome::Done) => {
                self.work = Work::Loading { next: 0 };
                port.pool(PoolOp::Load { first: 0, most: LOADED_AT_ONCE });
            }
            (Work::Checking, PoolOutcome::Damaged) => self.damaged(0, port),
            (Work::Loading { next }, PoolOutcome::Damaged) => self.damaged(next, port),
            (Work::Loading { next }, PoolOutcome::Loaded(rows)) => self.loaded(next, rows, port),
            (Work::Ending { asked }, PoolOutcome::Done) => {
                self.copy = Copy::None;
                self.room.reserve(0);
                if asked {
                    port.copied(CopyOutcome::Done);
                }
                self.go_on(port);
            }
            (work, outcome) => panic!("the pool ended {work:?} as {outcome:?}"),
        }
    }

    fn abandon(&mut self, port: &mut Port<'_>) {
        self.copy = Copy::None;
        self.let_go(port);
    }

    fn preserves(&self) -> Option<CopyStatus> {
        let preserved = Bytes(self.preserved() * CHUNK_BYTES);
        Some(CopyStatus { preserved, pool: self.pool })
    }

    fn rests(&self) -> bool {
        matches!((&self.copy, &self.work), (Copy::None, Work::Idle))
            && self.asked.is_none()
            && self.parked.is_empty()
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
