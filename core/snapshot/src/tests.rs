// SPDX-License-Identifier: Apache-2.0
//! The layer in a stack: what it asks of members and pool lies in trays, and ends when a test says so.

mod branches;
mod cuts;
mod preserving;
mod reads;
mod restores;
mod room;
mod several;
mod world;

use crate::Snapshot;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use helio_format::before::{
    CHUNK_BYTES, CopyClass, CopyNumber, CopyOwner, CopyStage, CopyView, KeptCopy, KeptImage,
    PAGE_BYTES, Slot, fingerprint,
};
use helio_ledger::{BeforeFound, BeforeRecord, Chunk};
use helio_stack::{
    CopyIo, CopyOp, CopyOutcome, CopyRecord, Layer, LayerRecord, MemberFault, Out, Outcome,
    PoolHealth, PoolOp, PoolOutcome, Row, Shortage, Stack, StoreFault, StoreOp,
};
use helio_units::{Bytes, Extent, Moment, Payload, PayloadId, VolumeIndex};

/// Four chunks, and two and a short one.
const SIZES: [Bytes; 2] = [Bytes(4 * CHUNK_BYTES), Bytes(2 * CHUNK_BYTES + 4096)];
const ALL: Bytes = Bytes(6 * CHUNK_BYTES + 4096);
const RECORD_BYTES: u64 = CHUNK_BYTES + PAGE_BYTES as u64;
const V: VolumeIndex = VolumeIndex(0);
const FAILED: Outcome = Outcome::Failed(StoreFault::Io);
const REQUIRED: CopyClass = CopyClass::Required;
const EXPENDABLE: CopyClass = CopyClass::Expendable;

struct Desk {
    stack: Stack,
    now: Moment,
    members: VecDeque<(u64, VolumeIndex, StoreOp)>,
    pools: VecDeque<PoolOp>,
    ended: Vec<(u64, Outcome)>,
    copied: Vec<CopyOutcome>,
    released: Vec<PayloadId>,
    payloads: u64,
    records: Vec<LayerRecord>,
    /// A cut that is ready waits for its moment, and how many did.
    no_moment: bool,
    ready: usize,
    /// Copies that were over for want of room.
    over: Vec<u64>,
    flushes_failed: Vec<(VolumeIndex, StoreFault)>,
}

fn chunk(number: u64) -> Extent {
    Extent::new(number * CHUNK_BYTES, CHUNK_BYTES)
}

/// What makes the first bytes of a chunk zero.
fn zero(number: u64) -> StoreOp {
    let extent = Extent::new(number * CHUNK_BYTES, 4096);
    StoreOp::Zero { extent, punch: false, fua: false }
}

/// What makes two chunks zero.
fn zero_two(number: u64) -> StoreOp {
    let extent = Extent::new(number * CHUNK_BYTES, 2 * CHUNK_BYTES);
    StoreOp::Zero { extent, punch: false, fua: false }
}

fn read(number: u64) -> StoreOp {
    StoreOp::Read { extent: chunk(number) }
}

fn cut_of(class: CopyClass, overwritten: Bytes) -> CopyOp {
    CopyOp::Cut { class, owner: CopyOwner::Resync, overwritten }
}

fn cut(overwritten: Bytes) -> CopyOp {
    cut_of(REQUIRED, overwritten)
}

fn restore(number: u64) -> CopyOp {
    CopyOp::Restore(CopyNumber(number))
}

fn drop_of(number: u64) -> CopyOp {
    CopyOp::Drop(CopyNumber(number))
}

fn is_cut(number: u64) -> Option<CopyOutcome> {
    Some(CopyOutcome::Cut(CopyNumber(number)))
}

const fn failed(volumes: u64, volume: u16, fault: StoreFault) -> MemberFault {
    MemberFault { volumes, volume: VolumeIndex(volume), fault }
}

const fn lacking(needed: u64, free: u64) -> Shortage {
    Shortage { needed: Bytes(needed * RECORD_BYTES), free: Bytes(free * RECORD_BYTES) }
}

const fn reserve(records: u64) -> PoolOp {
    PoolOp::Reserve { records }
}

fn held(number: u64, class: CopyClass) -> KeptCopy {
    let image = KeptImage::default();
    let (number, stage, owner) = (CopyNumber(number), CopyStage::Held, CopyOwner::Resync);
    KeptCopy { number, class, stage, owner, image }
}

fn coming(number: u64, class: CopyClass) -> KeptCopy {
    KeptCopy { stage: CopyStage::Coming, ..held(number, class) }
}

/// The list becomes these copies, and the records of these chunks, in their slots, count no more.
fn list(copies: &[KeptCopy], freed: &[(u32, u64)]) -> PoolOp {
    let marks =
        freed.iter().map(|(slot, number)| fingerprint(Slot(*slot), V, number * CHUNK_BYTES));
    PoolOp::List { copies: copies.to_vec(), freed: marks.fold(0, u64::wrapping_add) }
}

/// Slots, and chunks of the first volume in them.
fn records(of: &[(u32, u64)]) -> Vec<(Slot, Chunk)> {
    of.iter().map(|(slot, number)| (Slot(*slot), (V, chunk(*number)))).collect()
}

fn check(of: &[(u32, u64)]) -> PoolOp {
    PoolOp::Check { records: records(of) }
}

fn load(of: &[(u32, u64)]) -> PoolOp {
    PoolOp::Load { records: records(of) }
}

/// A pool with these copies, and chunks of the first volume for each, which lie in slots in this order.
fn found(copies: &[(KeptCopy, &[u64])]) -> BeforeFound {
    let of = |(copy, chunks): &(KeptCopy, &[u64])| {
        let of = CopyView::Cut(copy.number);
        chunks.iter().map(move |number| (of, (V, chunk(*number)))).collect::<Vec<_>>()
    };
    let chunks = copies.iter().flat_map(of);
    let records: Vec<BeforeRecord> = (0..)
        .map(Slot)
        .zip(chunks)
        .map(|(slot, (of, chunk))| BeforeRecord { slot, of, chunk })
        .collect();
    BeforeFound {
        copies: copies.iter().map(|(copy, _)| *copy).collect(),
        last: copies.last().map_or(CopyNumber(0), |(copy, _)| copy.number),
        slots: records.len() as u32,
        records,
        ..BeforeFound::default()
    }
}

impl Desk {
    fn new(layers: Vec<Box<dyn Layer>>) -> Self {
        Self {
            stack: Stack::new(layers),
            now: Moment::ZERO,
            members: VecDeque::new(),
            pools: VecDeque::new(),
            ended: Vec::new(),
            copied: Vec::new(),
            released: Vec::new(),
            payloads: 0,
            records: Vec::new(),
            no_moment: false,
            ready: 0,
            over: Vec::new(),
            flushes_failed: Vec::new(),
        }
    }

    /// The process begins, and the pool holds that.
    fn starts(sizes: &[Bytes], found: &BeforeFound, over: u64) -> Self {
        Self::new(vec![Snapshot::new(sizes, found, CopyNumber(over), None).boxed()])
    }

    fn empty() -> Self {
        Self::starts(&SIZES, &BeforeFound::default(), 0)
    }

    /// It holds copy 1, with room for one chunk of those that will be overwritten.
    fn holding() -> Self {
        Self::holding_of(Bytes(CHUNK_BYTES), None)
    }

    fn holding_of(overwritten: Bytes, most: Option<Bytes>) -> Self {
        let mut desk = Self::empty();
        desk.stack.bound(most);
        desk.copy(cut(overwritten));
        desk.cut_ends();
        assert_eq!(desk.copied(), is_cut(1));
        desk
    }

    /// Copies, and what the pool held for each when the process began.
    fn finding_of(copies: &[(KeptCopy, &[u64])]) -> Self {
        Self::starts(&SIZES, &found(copies), 0)
    }

    /// Copy 1, and what the pool held for it.
    fn finding(chunks: &[u64]) -> Self {
        Self::finding_of(&[(held(1, REQUIRED), chunks)])
    }

    /// It preserves an expendable copy, and may preserve no chunk.
    fn expendable() -> Self {
        let mut desk = Self::finding_of(&[(held(1, EXPENDABLE), &[])]);
        desk.stack.bound(Some(Bytes::ZERO));
        desk
    }

    fn recorded(&mut self, over: u64, ok: bool) {
        self.ledger(CopyRecord::Over(CopyNumber(over)), ok);
    }

    fn ledger(&mut self, record: CopyRecord, ok: bool) {
        assert_eq!(self.records.split_off(0), [LayerRecord::Copies(record)]);
        self.stack.recorded(ok, self.now);
        self.drain();
    }

    fn tick(&mut self) {
        self.now = self.now.max(self.stack.deadline());
        self.stack.tick(self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(out) = self.stack.next(self.now) {
            match out {
                Out::Member { name, leg, op } => self.members.push_back((name, leg.volume, op)),
                Out::Ended { name, outcome } => self.ended.push((name, outcome)),
                Out::Pool(op) => self.pools.push_back(op),
                Out::Copied(outcome) => self.copied.push(outcome),
                Out::CutReady if self.no_moment => self.ready += 1,
                Out::CutReady => self.stack.cut(Some(KeptImage::default()), self.now),
                Out::Over(copy) => self.over.push(copy.number.0),
                Out::Record(record) => self.records.push(record),
                Out::LetCool { .. } => panic!("no layer here owns a hot extent"),
                Out::FlushFailed(volume, fault) => self.flushes_failed.push((volume, fault)),
                Out::Release(payload) => self.released.push(payload),
                other => panic!("it has no members of its own: {other:?}"),
            }
        }
    }

    fn begin(&mut self, name: u64, op: StoreOp) {
        self.stack.begin(name, V, op);
        self.drain();
    }

    fn copy(&mut self, op: CopyOp) {
        self.stack.copy(op, self.now);
        self.drain();
    }

    fn abandon(&mut self, number: u64) {
        self.stack.abandon(CopyNumber(number), self.now);
        self.drain();
    }

    /// A member ends the operation that was issued first.
    fn member(&mut self, outcome: Outcome) -> StoreOp {
        let (name, _, op) = self.members.pop_front().expect("a member has something to do");
        self.stack.member_ended(name, outcome);
        self.drain();
        op
    }

    /// A member reads where that was asked for first.
    fn read(&mut self) -> Extent {
        let (_, _, StoreOp::Read { extent }) = self.members[0] else {
            panic!("{:?} came first", self.members)
        };
        let payload = self.payload(extent);
        self.member(Outcome::Read(payload));
        extent
    }

    fn payload(&mut self, extent: Extent) -> Payload {
        self.payloads += 1;
        Payload { id: PayloadId(self.payloads), length: extent.length as u32 }
    }

    /// The pool ends what it was asked for.
    fn pool(&mut self, outcome: PoolOutcome) -> PoolOp {
        let op = self.pools.pop_front().expect("the pool has something to do");
        self.stack.pool_ended(outcome, self.now);
        self.drain();
        op
    }

    /// The pool does what it was asked for.
    fn done(&mut self) -> PoolOp {
        self.pool(PoolOutcome::Done)
    }

    /// The pool ends a load with these chunks of the first volume.
    fn loads(&mut self, chunks: &[u64]) -> PoolOp {
        let row = |number: &u64| {
            let extent = chunk(*number);
            Row { volume: V, extent, payload: self.payload(extent) }
        };
        let rows = chunks.iter().map(row).collect();
        self.pool(PoolOutcome::Loaded(rows))
    }

    /// What was loaded is written back.
    fn writes_back(&mut self) -> Extent {
        match self.member(Outcome::Done) {
            StoreOp::Write { extent, .. } => extent,
            other => panic!("{other:?} came first"),
        }
    }

    /// All volumes are flushed.
    fn flushed(&mut self) {
        for _ in SIZES {
            assert_eq!(self.member(Outcome::Done), StoreOp::Flush);
        }
    }

    /// Everything that was read is preserved: for which copy, and where which chunk goes.
    fn preserve(&mut self) -> (u64, Vec<(u32, u64)>) {
        match self.append() {
            (CopyView::Cut(copy), chunks) => (copy.0, chunks),
            (of @ CopyView::Branch(_), _) => panic!("it is appended to the branch of copy {of}"),
        }
    }

    /// Everything that was read is appended: to what, and where which chunk goes.
    fn append(&mut self) -> (CopyView, Vec<(u32, u64)>) {
        while matches!(self.members.front(), Some((_, _, StoreOp::Read { .. }))) {
            self.read();
        }
        let PoolOp::Append { of, rows, slots } = self.done() else { panic!("it is appended") };
        let chunks = rows.iter().flat_map(|row| row.extent.offset..row.extent.end());
        let chunks = chunks.step_by(CHUNK_BYTES as usize).map(|at| at / CHUNK_BYTES);
        (of, slots.iter().map(|slot| slot.0).zip(chunks).collect())
    }

    /// A cut is done in all its steps, and no change is on its way.
    fn cut_ends(&mut self) {
        assert!(matches!(self.done(), PoolOp::Reserve { .. }));
        let PoolOp::List { copies, .. } = self.done() else { panic!("it is listed as coming") };
        assert_eq!(copies.last().map(|copy| copy.stage), Some(CopyStage::Coming));
        self.flushed();
        let PoolOp::List { copies, .. } = self.done() else { panic!("it is listed as held") };
        assert_eq!(copies.last().map(|copy| copy.stage), Some(CopyStage::Held));
    }

    /// Everything that is asked of members and pool is done.
    fn settle(&mut self) {
        loop {
            match self.members.front() {
                Some((_, _, StoreOp::Read { .. })) => _ = self.read(),
                Some(_) => _ = self.member(Outcome::Done),
                None if self.pools.is_empty() => return,
                None => _ = self.done(),
            }
        }
    }

    /// The chunks of the first volume that changed since a copy, if it is held.
    fn changed(&self, number: u64) -> Option<Vec<u64>> {
        let all = (V, Extent::new(0, SIZES[0].0));
        let parts = self.stack.changed(CopyView::Cut(CopyNumber(number)), all)?;
        let chunks = parts.iter().flat_map(|part| part.offset..part.end());
        Some(chunks.step_by(CHUNK_BYTES as usize).map(|at| at / CHUNK_BYTES).collect())
    }

    /// How the group's operation ended, once.
    fn copied(&mut self) -> Option<CopyOutcome> {
        assert!(self.copied.len() < 2, "{:?}", self.copied);
        self.copied.pop()
    }

    fn ops(&self) -> Vec<StoreOp> {
        self.members.iter().map(|(.., op)| *op).collect()
    }

    fn nothing_is_asked(&self) -> bool {
        self.members.is_empty() && self.pools.is_empty() && self.records.is_empty()
    }

    fn health(&self) -> PoolHealth {
        self.stack.preserves().expect("a layer preserves copies").pool
    }

    fn everything_is_released(&self) -> bool {
        let mut released = self.released.clone();
        released.sort_unstable_by_key(|payload| payload.0);
        released == (1..=self.payloads).map(PayloadId).collect::<Vec<_>>()
    }
}
