// SPDX-License-Identifier: Apache-2.0
//! The layer in a stack: what it asks of members and pool lies in trays, and ends when a test says so.

use crate::Snapshot;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use helio_format::before::{CHUNK_BYTES, KeptImage, PAGE_BYTES};
use helio_ledger::BeforeKept;
use helio_stack::{
    CopyClass, CopyOp, CopyOutcome, Faults, Layer, LayerRecord, MemberFault, Odds, Out, Outcome,
    PoolHealth, PoolOp, PoolOutcome, Row, Shortage, Stack, StoreFault, StoreOp,
};
use helio_units::{Bytes, Extent, Moment, Payload, PayloadId, VolumeIndex};

/// Four chunks, and two and a short one.
const SIZES: [Bytes; 2] = [Bytes(4 * CHUNK_BYTES), Bytes(2 * CHUNK_BYTES + 4096)];
const ALL: Bytes = Bytes(6 * CHUNK_BYTES + 4096);
const RECORD_BYTES: u64 = CHUNK_BYTES + PAGE_BYTES as u64;
const V: VolumeIndex = VolumeIndex(0);
/// From then on nothing fails by seed.
const QUIET: Moment = Moment(50_000_000);
const FAILED: Outcome = Outcome::Failed(StoreFault::Io);

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
}

fn chunk(number: u64) -> Extent {
    Extent::new(number * CHUNK_BYTES, CHUNK_BYTES)
}

/// What makes the first bytes of a chunk zero.
fn zero(number: u64) -> StoreOp {
    let extent = Extent::new(number * CHUNK_BYTES, 4096);
    StoreOp::Zero { extent, punch: false, fua: false }
}

fn cut(overwritten: Bytes) -> CopyOp {
    CopyOp::Cut { class: CopyClass::Required, label: Box::new(KeptImage::default()), overwritten }
}

const fn failed(volumes: u64, volume: u16, fault: StoreFault) -> MemberFault {
    MemberFault { volumes, volume: VolumeIndex(volume), fault }
}

const fn lacking(needed: u64, free: u64) -> Shortage {
    Shortage { needed: Bytes(needed * RECORD_BYTES), free: Bytes(free * RECORD_BYTES) }
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
        }
    }

    fn empty() -> Self {
        Self::new(vec![Snapshot::new(&SIZES, None).boxed()])
    }

    /// It holds a copy, with room for one chunk of those that will be overwritten.
    fn holding() -> Self {
        Self::holding_of(Bytes(CHUNK_BYTES), None)
    }

    fn holding_of(overwritten: Bytes, most: Option<Bytes>) -> Self {
        let mut desk = Self::empty();
        desk.stack.bound(most);
        desk.copy(cut(overwritten));
        desk.pool(PoolOutcome::Done);
        (0..SIZES.len()).for_each(|_| _ = desk.member(Outcome::Done));
        assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Begin { .. }));
        assert_eq!(desk.copied(), Some(CopyOutcome::Done));
        desk
    }

    /// The pool held these chunks of the first volume when the process began.
    fn finding(chunks: &[u64]) -> Self {
        let chunks = chunks.iter().map(|number| (V, chunk(*number))).collect();
        let found = BeforeKept { image: KeptImage::default(), chunks, damaged: false };
        Self::new(vec![Snapshot::new(&SIZES, Some(&found)).boxed()])
    }

    /// It preserves an expendable copy, whose pool takes no further chunk.
    fn expendable() -> Self {
        let found = BeforeKept { image: KeptImage::default(), chunks: Vec::new(), damaged: false };
        let snapshot = Snapshot::new(&SIZES, Some(&found)).of_class(CopyClass::Expendable);
        let mut desk = Self::new(vec![snapshot.boxed()]);
        desk.stack.bound(Some(Bytes::ZERO));
        desk
    }

    fn recorded(&mut self, ok: bool) {
        assert_eq!(self.records.split_off(0), [LayerRecord::CopyOver]);
        self.stack.recorded(ok, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(out) = self.stack.next(self.now) {
            match out {
                Out::Member { name, leg, op } => self.members.push_back((name, leg.volume, op)),
                Out::Ended { name, outcome } => self.ended.push((name, outcome)),
                Out::Pool(op) => self.pools.push_back(op),
                Out::Copied(outcome) => self.copied.push(outcome),
                Out::Record(record) => self.records.push(record),
                Out::LetCool { .. } => panic!("no layer here owns a hot extent"),
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

    /// The pool ends a load with these chunks of the first volume, each for itself.
    fn load(&mut self, chunks: &[u64]) -> PoolOp {
        let row = |number: &u64| {
            let extent = chunk(*number);
            Row { volume: V, extent, payload: self.payload(extent) }
        };
        let rows = chunks.iter().map(row).collect();
        self.pool(PoolOutcome::Loaded(rows))
    }

    /// Everything that was read is appended.
    fn preserve(&mut self) {
        while !self.members.is_empty() {
            self.read();
        }
        assert!(matches!(self.pool(PoolOutcome::Done), PoolOp::Append { .. }));
    }

    /// How the group's operation ended, once.
    fn copied(&mut self) -> Option<CopyOutcome> {
        assert!(self.copied.len() < 2, "{:?}", self.copied);
        self.copied.pop()
    }

    fn ops(&self) -> Vec<StoreOp> {
        self.members.iter().map(|(.., op)| *op).collect()
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

#[test]
fn a_cut_waits_for_changes_under_way_and_parks_later_ones() {
    let mut desk = Desk::empty();
    desk.begin(1, zero(1));
    desk.copy(cut(Bytes(CHUNK_BYTES)));
    desk.begin(2, zero(2));
    assert!(desk.pools.is_empty() && desk.ops() == [zero(1)], "a change is under way");
    desk.member(Outcome::Done);
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { chunks: 1 });
    assert_eq!(desk.ops(), [StoreOp::Flush; 2]);
    desk.begin(3, StoreOp::Read { extent: chunk(0) });
    assert_eq!(desk.members.len(), 3, "a read does not wait");
    (0..2).for_each(|_| _ = desk.member(Outcome::Done));
    desk.read();
    assert_eq!(desk.ops(), [], "a change passed while the copy was being cut");
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Begin { .. }));
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    assert_eq!(desk.read(), chunk(2), "what came behind the cut is preserved first");
    let PoolOp::Append { rows } = desk.pool(PoolOutcome::Done) else { panic!("it is appended") };
    assert_eq!(
        rows.iter().map(|row| (row.volume, row.extent)).collect::<Vec<_>>(),
        [(V, chunk(2))]
    );
    assert_eq!(desk.ops(), [zero(2)]);
}

#[test]
fn a_cut_that_fails_reports_why_and_lets_parked_changes_go() {
    let silent = StoreFault::Silent;
    let flush_failed = CopyOutcome::FlushFailed(failed(0b11, 0, silent));
    let pool_failed = CopyOutcome::PoolFailed(StoreFault::NoSpace);
    for (flush, begun, ended) in [
        (Outcome::Unsure(silent), None, flush_failed),
        (Outcome::Done, Some(PoolOutcome::Failed(StoreFault::NoSpace)), pool_failed),
    ] {
        let mut desk = Desk::empty();
        desk.copy(cut(Bytes(CHUNK_BYTES)));
        desk.begin(1, zero(1));
        desk.pool(PoolOutcome::Done);
        (0..2).for_each(|_| _ = desk.member(flush));
        begun.into_iter().for_each(|begun| _ = desk.pool(begun));
        assert_eq!(desk.copied(), Some(ended));
        assert_eq!(desk.ops(), [zero(1)], "nothing is preserved: {ended:?}");
    }
}

#[test]
fn a_chunk_is_preserved_once() {
    let mut desk = Desk::holding();
    desk.begin(1, zero(2));
    desk.begin(2, zero(2));
    assert_eq!(desk.ops(), [StoreOp::Read { extent: chunk(2) }]);
    desk.preserve();
    desk.begin(3, zero(2));
    assert_eq!(desk.ops(), [zero(2); 3]);
    let preserved = desk.stack.preserves().map(|copy| copy.preserved);
    assert_eq!(preserved, Some(Bytes(CHUNK_BYTES)));
    assert!(desk.everything_is_released());
}

#[test]
fn what_the_pool_held_is_not_preserved_again() {
    let mut desk = Desk::finding(&[2]);
    desk.begin(1, zero(2));
    assert_eq!(desk.ops(), [zero(2)]);
    desk.begin(2, zero(3));
    assert_eq!(desk.pools, [PoolOp::Reserve { chunks: 2 }]);
}

#[test]
fn without_room_a_change_is_refused_and_no_member_was_asked_for_it() {
    for bound in [Some(Bytes(2 * RECORD_BYTES - 1)), None] {
        let mut desk = Desk::holding_of(Bytes(CHUNK_BYTES), bound);
        desk.begin(1, zero(1));
        desk.preserve();
        desk.member(Outcome::Done);
        desk.ended.clear();
        desk.begin(2, zero(2));
        let free = bound.unwrap_or(Bytes(RECORD_BYTES));
        if bound.is_none() {
            let asked = desk.pool(PoolOutcome::NoRoom { free });
            assert_eq!(asked, PoolOp::Reserve { chunks: 2 });
        }
        let shortage = Shortage { free, ..lacking(2, 0) };
        assert_eq!(desk.ended, [(2, Outcome::Refused(shortage))]);
        assert!(desk.members.is_empty() && desk.pools.is_empty());
        desk.begin(3, zero(1));
        assert_eq!(desk.ops(), [zero(1)], "what is preserved already needs no room");
        assert_eq!(desk.health(), PoolHealth::Works);
    }
}

#[test]
fn without_room_an_expendable_copy_is_over_before_anything_is_overwritten() {
    let mut desk = Desk::expendable();
    desk.begin(1, zero(1));
    desk.begin(2, zero(2));
    assert!(desk.members.is_empty() && desk.ended.is_empty(), "both wait for the ledger");
    desk.recorded(true);
    assert_eq!(desk.ops(), [zero(1), zero(2)]);
    assert_eq!(desk.pools, [PoolOp::End], "its room is given back");
    desk.pool(PoolOutcome::Done);
    assert_eq!(desk.copied(), None, "nobody asked for that");
    desk.copy(CopyOp::Restore);
    assert_eq!(desk.copied(), Some(CopyOutcome::Over));
}

#[test]
fn an_expendable_copy_that_cannot_be_read_is_over_and_the_next_one_is_preserved() {
    let found = BeforeKept { image: KeptImage::default(), chunks: Vec::new(), damaged: false };
    let snapshot = Snapshot::new(&SIZES, Some(&found)).of_class(CopyClass::Expendable);
    let mut desk = Desk::new(vec![snapshot.boxed()]);
    desk.begin(1, zero(1));
    desk.pool(PoolOutcome::Done);
    desk.member(FAILED);
    desk.recorded(true);
    assert_eq!((desk.ops(), desk.pools.len()), (vec![zero(1)], 1));
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::End);
    assert_eq!(desk.health(), PoolHealth::Works);
    assert_eq!(desk.member(Outcome::Done), zero(1));
    desk.copy(cut(Bytes(CHUNK_BYTES)));
    assert!(matches!(desk.pools[0], PoolOp::Reserve { .. }));
}

#[test]
fn an_expendable_copy_whose_end_cannot_be_recorded_refuses_what_needs_it() {
    let mut desk = Desk::expendable();
    desk.begin(1, zero(1));
    desk.recorded(false);
    assert_eq!(desk.ended, [(1, Outcome::Refused(Shortage::FAILED))]);
    desk.begin(2, zero(2));
    assert!(desk.members.is_empty() && desk.records.is_empty(), "it is not asked again");
}

#[test]
fn a_bound_is_heeded_from_the_next_change_on_also_by_what_the_pool_held() {
    let mut desk = Desk::finding(&[0]);
    for (bound, name) in [(1, 1), (2, 2)] {
        desk.stack.bound(Some(Bytes(bound * RECORD_BYTES)));
        desk.begin(name, zero(1));
        let refused = (name, Outcome::Refused(lacking(2, bound)));
        assert_eq!(desk.ended.last() == Some(&refused), bound < 2, "{:?}", desk.ended);
    }
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { chunks: 2 });
    desk.preserve();
    desk.member(Outcome::Done);
    desk.copy(CopyOp::Drop);
    desk.pool(PoolOutcome::Done);
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    desk.copy(cut(ALL));
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(7, 2))), "it outlives the copy");
}

#[test]
fn refused_room_leaves_everything_as_it_was() {
    let mut desk = Desk::empty();
    desk.stack.bound(Some(Bytes(RECORD_BYTES)));
    desk.copy(cut(ALL));
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(7, 1))));
    assert!(desk.stack.rests());
    let mut desk = Desk::holding();
    desk.copy(CopyOp::Reserve { overwritten: Bytes(2 * CHUNK_BYTES) });
    let free = Bytes(RECORD_BYTES);
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free }), PoolOp::Reserve { chunks: 2 });
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(2, 1))));
    desk.begin(1, zero(1));
    assert_eq!(desk.ops(), [StoreOp::Read { extent: chunk(1) }], "there is room for one chunk");
}

#[test]
fn a_read_that_failed_ahead_of_any_change_fails_nothing() {
    let mut desk = Desk::holding_of(ALL, None);
    assert_eq!(desk.members.len(), 2, "the chunks of each volume are read ahead");
    desk.read();
    desk.member(FAILED);
    assert!(desk.pools.is_empty() && desk.everything_is_released());
    assert_eq!(desk.health(), PoolHealth::Works);
    desk.begin(1, zero(1));
    assert_eq!(desk.ops(), [StoreOp::Read { extent: chunk(1) }], "nothing is read ahead any more");
    desk.preserve();
    assert_eq!(desk.ops(), [zero(1)]);
}

#[test]
fn a_change_does_not_suffer_from_a_read_ahead_of_it_that_failed() {
    let mut desk = Desk::holding_of(ALL, None);
    desk.begin(1, zero(1));
    desk.read();
    desk.member(FAILED);
    assert_eq!(desk.ops(), [StoreOp::Read { extent: chunk(1) }], "its own chunk is read again");
    desk.preserve();
    assert_eq!(desk.ops(), [zero(1)]);
}

#[test]
fn chunks_are_preserved_ahead_of_changes_that_need_not_wait() {
    const MANY: u64 = 4 * 256 + 1;
    let sizes = [Bytes(MANY * CHUNK_BYTES)];
    let mut desk = Desk::new(vec![Snapshot::new(&sizes, None).boxed()]);
    desk.copy(cut(sizes[0]));
    desk.pool(PoolOutcome::Done);
    desk.member(Outcome::Done);
    desk.pool(PoolOutcome::Done);
    (0..4).for_each(|_| desk.preserve());
    assert!(desk.members.is_empty() && desk.pools.is_empty(), "four batches are ahead");
    desk.begin(1, zero(0));
    assert_eq!(desk.ops(), [zero(0), StoreOp::Read { extent: chunk(MANY - 1) }]);
}

#[test]
fn a_change_whose_chunk_cannot_be_read_is_refused() {
    let mut desk = Desk::holding();
    desk.begin(1, zero(1));
    desk.member(Outcome::Failed(StoreFault::Silent));
    assert_eq!(desk.ended, [(1, Outcome::Refused(Shortage::FAILED))]);
    let unread = failed(0b1, 0, StoreFault::Silent);
    assert_eq!(desk.health(), PoolHealth::Unread(unread), "the pool did not fail");
    assert!(desk.members.is_empty() && desk.pools.is_empty());
    desk.copy(CopyOp::Drop);
    assert_eq!(desk.copied(), Some(CopyOutcome::MemberFailed(unread)));
}

#[test]
fn a_pool_that_failed_refuses_what_needs_it_and_is_restored_from_all_the_same() {
    let mut desk = Desk::finding(&[0]);
    desk.begin(1, zero(1));
    desk.pool(PoolOutcome::Done);
    desk.read();
    desk.begin(2, zero(2));
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    desk.begin(3, zero(3));
    let refused = Outcome::Refused(Shortage::FAILED);
    assert_eq!(desk.ended, [(1, refused), (2, refused), (3, refused)]);
    assert!(desk.members.is_empty() && desk.everything_is_released());
    for op in [cut(ALL), CopyOp::Drop] {
        desk.copy(op);
        assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    }
    desk.begin(4, zero(0));
    assert_eq!(desk.ops(), [zero(0)], "what is preserved may be overwritten");
    desk.copy(CopyOp::Restore);
    assert_eq!(desk.pools, [PoolOp::Check]);
}

#[test]
fn a_restore_checks_everything_writes_it_back_and_flushes() {
    let mut desk = Desk::finding(&[1, 3]);
    desk.copy(CopyOp::Restore);
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::Check);
    assert_eq!(desk.load(&[1, 3]), PoolOp::Load { first: 0, most: 32 });
    for number in [1, 3] {
        let StoreOp::Write { extent, .. } = desk.member(Outcome::Done) else {
            panic!("it is written back")
        };
        assert_eq!(extent, chunk(number));
    }
    assert!(desk.everything_is_released());
    assert_eq!(desk.load(&[]), PoolOp::Load { first: 2, most: 32 });
    assert_eq!(desk.ops(), [StoreOp::Flush; 2]);
    desk.member(Outcome::Done);
    assert_eq!(desk.copied(), None);
    desk.member(Outcome::Done);
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
}

#[test]
fn a_restore_counts_the_chunks_of_a_row() {
    let mut desk = Desk::finding(&[0, 1, 2]);
    desk.copy(CopyOp::Restore);
    desk.pool(PoolOutcome::Done);
    let extent = Extent::new(0, 3 * CHUNK_BYTES);
    let payload = desk.payload(extent);
    desk.pool(PoolOutcome::Loaded(vec![Row { volume: V, extent, payload }]));
    desk.member(Outcome::Done);
    assert_eq!(desk.pools, [PoolOp::Load { first: 3, most: 32 }]);
}

#[test]
fn a_restore_whose_flush_failed_reports_of_which_volume() {
    let mut desk = Desk::finding(&[]);
    desk.copy(CopyOp::Restore);
    desk.pool(PoolOutcome::Done);
    desk.load(&[]);
    desk.member(Outcome::Done);
    desk.member(Outcome::Unsure(StoreFault::Io));
    let failed = failed(0b10, 1, StoreFault::Io);
    assert_eq!(desk.copied(), Some(CopyOutcome::FlushFailed(failed)));
}

#[test]
fn a_restore_that_finds_less_than_was_preserved_is_none() {
    let mut desk = Desk::finding(&[1, 3]);
    desk.copy(CopyOp::Restore);
    desk.pool(PoolOutcome::Done);
    desk.load(&[]);
    assert_eq!(desk.copied(), Some(CopyOutcome::Damaged));
    assert!(desk.members.is_empty() && desk.everything_is_released());
}

#[test]
fn a_restore_that_put_a_part_back_does_not_say_that_nothing_was() {
    for behind in [&[][..], &[100]] {
        let mut desk = Desk::finding(&[1, 3]);
        desk.copy(CopyOp::Restore);
        desk.pool(PoolOutcome::Done);
        desk.load(&[1]);
        desk.member(Outcome::Done);
        desk.load(behind);
        let outcome = desk.copied();
        assert_eq!(outcome, Some(CopyOutcome::PoolFailed(StoreFault::Io)), "{behind:?}");
        assert!(desk.members.is_empty() && desk.everything_is_released());
    }
}

#[test]
fn a_restore_of_what_is_damaged_writes_nothing() {
    let mut desk = Desk::finding(&[1]);
    desk.copy(CopyOp::Restore);
    desk.pool(PoolOutcome::Damaged);
    assert_eq!(desk.copied(), Some(CopyOutcome::Damaged));
    assert!(desk.members.is_empty());
}

#[test]
fn a_restore_that_failed_may_be_repeated() {
    let mut desk = Desk::finding(&[1]);
    desk.copy(CopyOp::Restore);
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    assert_eq!(desk.health(), PoolHealth::Works, "it was read, and may still be added to");
    desk.copy(CopyOp::Restore);
    desk.pool(PoolOutcome::Done);
    desk.load(&[1]);
    desk.member(Outcome::Failed(StoreFault::NoSpace));
    let failed = failed(0b1, 0, StoreFault::NoSpace);
    assert_eq!(desk.copied(), Some(CopyOutcome::MemberFailed(failed)));
    assert!(desk.everything_is_released());
    desk.copy(CopyOp::Restore);
    desk.pool(PoolOutcome::Done);
    desk.load(&[1]);
    desk.member(Outcome::Done);
    desk.pool(PoolOutcome::Damaged);
    let outcome = desk.copied();
    assert_eq!(outcome, Some(CopyOutcome::PoolFailed(StoreFault::Io)), "a part was put back");
}

#[test]
fn a_drop_lets_parked_changes_go() {
    let mut desk = Desk::holding();
    desk.copy(CopyOp::Drop);
    desk.begin(1, zero(1));
    assert!(desk.members.is_empty(), "it counts until the pool recorded its end");
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::End);
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    assert_eq!(desk.ops(), [zero(1)]);
    desk.member(Outcome::Done);
    assert!(desk.stack.rests(), "it costs nothing any more");
}

#[test]
fn what_is_abandoned_holds_up_nothing() {
    let mut desk = Desk::holding();
    desk.begin(1, zero(1));
    desk.stack.abandon(desk.now);
    desk.drain();
    assert_eq!(desk.ops(), [StoreOp::Read { extent: chunk(1) }, zero(1)]);
    desk.read();
    desk.pool(PoolOutcome::Done);
    desk.begin(2, zero(2));
    assert!(desk.ops().contains(&zero(2)));
}

/// Members and a pool of bytes: of each block what was written last.
struct World {
    desk: Desk,
    blocks: BTreeMap<(VolumeIndex, u64), u64>,
    /// What lies in payloads, block by block.
    bytes: BTreeMap<PayloadId, Vec<u64>>,
    pool: Vec<(VolumeIndex, Extent, Vec<u64>)>,
    /// What the members held when the copy began to count.
    image: BTreeMap<(VolumeIndex, u64), u64>,
    dice: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let odds = Odds { reads: 20, untouched: 50, short: 50, lost: 50, flush: 50, ..Odds::NONE };
        let odds = Odds { waits: 200, changes_wait: 200, until: QUIET, ..odds };
        let odds = Odds { longest: Duration::from_millis(3), ..odds };
        let faults = Faults::new(seed, odds, Bytes(4096)).boxed();
        Self {
            desk: Desk::new(vec![Snapshot::new(&SIZES, None).boxed(), faults]),
            blocks: BTreeMap::new(),
            bytes: BTreeMap::new(),
            pool: Vec::new(),
            image: BTreeMap::new(),
            dice: seed,
        }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.dice >> 33) % below
    }

    fn places(volume: VolumeIndex, extent: Extent) -> impl Iterator<Item = (VolumeIndex, u64)> {
        (extent.offset / 4096..extent.end() / 4096).map(move |block| (volume, block))
    }

    fn held(&self, volume: VolumeIndex, extent: Extent) -> Vec<u64> {
        let held = |place| self.blocks.get(&place).copied().unwrap_or(0);
        Self::places(volume, extent).map(held).collect()
    }

    fn put(&mut self, volume: VolumeIndex, extent: Extent, bytes: impl IntoIterator<Item = u64>) {
        self.blocks.extend(Self::places(volume, extent).zip(bytes));
    }

    fn payload(&mut self, extent: Extent, bytes: Vec<u64>) -> Payload {
        let payload = self.desk.payload(extent);
        self.bytes.insert(payload.id, bytes);
        payload
    }

    /// One write, of a few blocks with its own name in them.
    fn write(&mut self, name: u64) {
        let volume = VolumeIndex(self.roll(2) as u16);
        let most = SIZES[usize::from(volume.0)].0 / 4096;
        let (first, count) = (self.roll(most), 1 + self.roll(20));
        let extent = Extent::new(first * 4096, count.min(most - first) * 4096);
        let payload = Payload { id: PayloadId(1 << 32 | name), length: extent.length as u32 };
        let fua = self.roll(8) == 0;
        self.bytes.insert(payload.id, vec![name; (extent.length / 4096) as usize]);
        self.desk.stack.begin(name, volume, StoreOp::Write { extent, payload, fua });
        self.desk.drain();
    }

    /// A member or the pool does one thing, in any order, or time goes on. Returns whether anything was left to do.
    fn step(&mut self) -> bool {
        let ops = self.desk.members.len() as u64;
        if ops > 0 && (self.desk.pools.is_empty() || self.roll(3) > 0) {
            let chosen = self.roll(ops);
            self.desk.members.swap(0, chosen as usize);
            let (_, volume, op) = self.desk.members[0];
            let outcome = self.perform(volume, op);
            self.desk.member(outcome);
        } else if let Some(op) = self.desk.pools.front().cloned() {
            let outcome = self.keep(op);
            self.desk.pool(outcome);
        } else if self.desk.stack.deadline() < Moment::NEVER {
            self.desk.now = self.desk.now.max(self.desk.stack.deadline());
            self.desk.stack.tick(self.desk.now);
            self.desk.drain();
        } else {
            return false;
        }
        true
    }

    fn perform(&mut self, volume: VolumeIndex, op: StoreOp) -> Outcome {
        match op {
            StoreOp::Read { extent } => {
                let bytes = self.held(volume, extent);
                Outcome::Read(self.payload(extent, bytes))
            }
            StoreOp::Write { extent, payload, .. } => {
                let bytes = self.bytes[&payload.id].clone();
                self.put(volume, extent, bytes);
                Outcome::Done
            }
            _ => Outcome::Done,
        }
    }

    fn keep(&mut self, op: PoolOp) -> PoolOutcome {
        match op {
            PoolOp::Begin { .. } => {
                (self.image, self.pool) = (self.blocks.clone(), Vec::new());
                PoolOutcome::Done
            }
            PoolOp::Append { rows } => {
                let row = |row: &Row| (row.volume, row.extent, self.bytes[&row.payload.id].clone());
                self.pool.extend(rows.iter().map(row));
                PoolOutcome::Done
            }
            PoolOp::Load { first: 0, .. } => {
                let rows = self.pool.clone();
                PoolOutcome::Loaded(
                    rows.into_iter()
                        .map(|(volume, extent, bytes)| Row {
                            volume,
                            extent,
                            payload: self.payload(extent, bytes),
                        })
                        .collect(),
                )
            }
            PoolOp::Load { .. } => PoolOutcome::Loaded(Vec::new()),
            PoolOp::Reserve { .. } | PoolOp::Check | PoolOp::End => PoolOutcome::Done,
        }
    }

    fn settle(&mut self) {
        while self.step() {}
    }
}

#[test]
fn over_a_layer_of_faults_everything_ends_once_and_a_restore_brings_the_cut_back() {
    let (mut failed, mut refused, mut preserved) = (0, 0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        (0..10).for_each(|name| world.write(name));
        let overwritten = if seed % 2 == 0 { ALL } else { Bytes(CHUNK_BYTES) };
        while world.desk.copied.last() != Some(&CopyOutcome::Done) {
            world.desk.copied.clear();
            world.desk.copy(cut(overwritten));
            world.settle();
        }
        for name in 10..40 {
            world.write(name);
            (0..world.roll(6)).for_each(|_| _ = world.step());
        }
        world.settle();
        world.desk.now = world.desk.now.max(QUIET);
        let mut names: Vec<u64> = world.desk.ended.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(names, (0..40).collect::<Vec<_>>(), "seed {seed}");
        for (_, outcome) in &world.desk.ended {
            failed += u32::from(matches!(outcome, Outcome::Failed(_) | Outcome::Unsure(_)));
            refused += u32::from(matches!(outcome, Outcome::Refused(_)));
        }
        preserved += world.pool.len();
        world.desk.copied.clear();
        world.desk.copy(CopyOp::Restore);
        world.settle();
        assert_eq!(world.desk.copied(), Some(CopyOutcome::Done), "seed {seed}");
        for (volume, size) in (0..).map(VolumeIndex).zip(SIZES) {
            let all = Extent::new(0, size.0);
            let image = |place| world.image.get(&place).copied().unwrap_or(0);
            let image: Vec<u64> = World::places(volume, all).map(image).collect();
            assert_eq!(world.held(volume, all), image, "seed {seed}, volume {}", volume.0);
        }
        assert!(world.desk.everything_is_released(), "seed {seed}");
    }
    assert!(failed > 100 && refused > 100 && preserved > 100, "{failed} {refused} {preserved}");
}
