// SPDX-License-Identifier: Apache-2.0
//! What clients write to branches.

use super::*;

const BRANCH: CopyView = CopyView::Branch(CopyNumber(1));
/// What a client writes: its payload is not the layer's to release.
const WRITTEN: Payload = Payload { id: PayloadId(1000), length: 4096 };

impl Desk {
    /// A client does something with the branch of copy 1.
    fn branch(&mut self, name: u64, op: StoreOp) {
        self.stack.begin_on_copy(CopyIo { name, on: BRANCH, volume: V, op }, self.now);
        self.drain();
    }

    /// A client writes the first bytes of a chunk.
    fn writes(&mut self, name: u64, number: u64, fua: bool) {
        let extent = Extent::new(number * CHUNK_BYTES, 4096);
        self.branch(name, StoreOp::Write { extent, payload: WRITTEN, fua });
    }

    /// What is preserved is laid over what was read for the branch. Returns which chunks.
    fn lays_over(&mut self) -> Vec<(Slot, Chunk)> {
        let Some(PoolOp::Overlay { base, .. }) = self.pools.front() else {
            panic!("nothing is laid over anything: {:?}", self.pools)
        };
        let (volume, extent) = (base.volume, base.extent);
        let row = Row { volume, extent, payload: self.payload(extent) };
        let PoolOp::Overlay { records, .. } = self.pool(PoolOutcome::Loaded(vec![row])) else {
            unreachable!("it was one before")
        };
        records
    }

    /// It overwrites these chunks, which lie there.
    fn amends(&mut self) -> Vec<(u32, u64)> {
        let PoolOp::Amend { records, .. } = self.done() else { panic!("nothing is amended") };
        let place = |(slot, (_, extent)): (Slot, Chunk)| (slot.0, extent.offset / CHUNK_BYTES);
        records.into_iter().map(place).collect()
    }
}

#[test]
fn a_chunk_of_a_branch_begins_as_what_the_copy_holds_and_is_overwritten_in_place() {
    let mut desk = Desk::finding(&[0]);
    let extent = Extent::new(4096, 2 * CHUNK_BYTES);
    desk.branch(1, StoreOp::Write { extent, payload: WRITTEN, fua: false });
    assert!(matches!(desk.done(), PoolOp::Reserve { .. }));
    assert_eq!(desk.read(), Extent::new(0, 3 * CHUNK_BYTES));
    assert_eq!(desk.lays_over(), records(&[(0, 0)]), "chunk 0 was overwritten since the cut");
    assert_eq!(desk.append(), (BRANCH, vec![(1, 0), (2, 1), (3, 2)]));
    assert!(desk.ended.is_empty());
    assert_eq!(desk.amends(), [(1, 0), (2, 1), (3, 2)]);
    desk.writes(2, 1, false);
    assert_eq!(desk.amends(), [(2, 1)], "the branch has it");
    assert_eq!(desk.ended, [(1, Outcome::Done), (2, Outcome::Done)]);
    assert!(desk.everything_is_released() && desk.nothing_is_asked());
    let [copy] = desk.stack.copies()[..] else { panic!("one copy") };
    let chunks = [copy.changed, copy.preserved, copy.branch].map(|bytes| bytes.0 / CHUNK_BYTES);
    assert_eq!(chunks, [1, 1, 3]);
}

#[test]
fn what_is_written_to_a_branch_is_seen_in_it_and_nowhere_else() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[]), (held(2, REQUIRED), &[])]);
    desk.writes(1, 0, false);
    assert!(matches!(desk.done(), PoolOp::Reserve { .. }));
    desk.append();
    desk.amends();
    let copies = [1, 2].map(|number| CopyView::Cut(CopyNumber(number)));
    for (name, on, seen) in [(2, BRANCH, true), (3, copies[0], false), (4, copies[1], false)] {
        desk.stack.begin_on_copy(CopyIo { name, on, volume: V, op: read(0) }, desk.now);
        desk.drain();
        desk.read();
        assert_eq!(desk.pools.pop_front().is_some(), seen, "copy {on}");
        if seen {
            let outcome = PoolOutcome::Failed(StoreFault::Io);
            desk.stack.pool_ended(outcome, desk.now);
            desk.drain();
        }
    }
    desk.begin(5, zero(0));
    assert!(matches!(desk.done(), PoolOp::Reserve { .. }));
    assert_eq!(desk.preserve().0, 2, "the copies lack what the volume holds there");
}

#[test]
fn a_flush_of_a_branch_is_one_of_the_pool_and_fua_is_that_too() {
    let mut desk = Desk::finding(&[]);
    desk.branch(1, StoreOp::Flush);
    assert_eq!(desk.done(), PoolOp::Flush);
    desk.writes(2, 0, true);
    assert!(matches!(desk.done(), PoolOp::Reserve { .. }));
    desk.append();
    desk.amends();
    assert_eq!(desk.ended, [(1, Outcome::Done)]);
    assert_eq!(desk.done(), PoolOp::Flush);
    assert_eq!(desk.ended.len(), 2);
    desk.branch(3, StoreOp::Flush);
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.ended[2], (3, Outcome::Unsure(StoreFault::Io)));
    assert_eq!(desk.health(), PoolHealth::Failed(StoreFault::Io));
    desk.writes(4, 0, false);
    assert_eq!(desk.ended[3], (4, FAILED), "nothing is written any more");
}

#[test]
fn without_room_a_write_to_a_branch_fails_and_no_copy_yields() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[0]), (held(2, EXPENDABLE), &[1])]);
    desk.stack.bound(Some(Bytes(2 * RECORD_BYTES)));
    desk.writes(1, 2, false);
    assert_eq!(desk.ended, [(1, Outcome::Failed(StoreFault::NoSpace))]);
    desk.stack.bound(None);
    desk.writes(2, 2, false);
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free: Bytes(2 * RECORD_BYTES) }), reserve(3));
    assert_eq!(desk.ended[1], (2, Outcome::Failed(StoreFault::NoSpace)));
    assert_eq!(desk.stack.held().len(), 2);
    assert!(desk.nothing_is_asked());
}

#[test]
fn what_a_branch_leaves_is_used_again_and_what_a_required_copy_was_promised_is_not() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[0]), (held(2, EXPENDABLE), &[])]);
    desk.writes(1, 1, false);
    assert_eq!(desk.done(), reserve(2));
    assert_eq!(desk.append().1, [(1, 1)]);
    desk.amends();
    desk.copy(drop_of(1));
    assert!(matches!(desk.done(), PoolOp::List { .. }));
    desk.stack.begin_on_copy(
        CopyIo { name: 2, on: CopyView::Branch(CopyNumber(2)), volume: V, op: zero(3) },
        desk.now,
    );
    desk.drain();
    assert_eq!(
        desk.append(),
        (CopyView::Branch(CopyNumber(2)), vec![(0, 3)]),
        "nothing is reserved"
    );
    desk.amends();
    // With all that is free promised to a resync, there has to be more.
    let mut desk = Desk::holding_of(Bytes(2 * CHUNK_BYTES), None);
    let PoolOp::Reserve { records } = ({
        desk.writes(1, 1, false);
        desk.done()
    }) else {
        panic!("there is no more room")
    };
    assert!(records > 2, "{records}");
}

#[test]
fn what_cannot_be_overwritten_fails_that_change_alone() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[])]);
    desk.writes(1, 1, false);
    desk.done();
    desk.append();
    desk.pool(PoolOutcome::Failed(StoreFault::NoSpace));
    assert_eq!(desk.ended, [(1, Outcome::Failed(StoreFault::NoSpace))]);
    desk.writes(2, 1, false);
    assert_eq!(desk.amends(), [(0, 1)]);
    assert_eq!((desk.ended[1], desk.health()), ((2, Outcome::Done), PoolHealth::Works));
}

#[test]
fn a_long_change_is_done_in_turn_with_others() {
    let sizes = [Bytes(100 * CHUNK_BYTES)];
    let found = found(&[(held(1, REQUIRED), &[])]);
    let mut desk = Desk::starts(&sizes, &found, 0);
    let extent = Extent::new(0, 100 * CHUNK_BYTES);
    desk.branch(1, StoreOp::Zero { extent, punch: false, fua: false });
    desk.writes(2, 99, false);
    let mut steps = 0;
    while desk.ended.is_empty() {
        steps += 1;
        match desk.members.front() {
            Some((_, _, StoreOp::Read { .. })) => _ = desk.read(),
            _ => _ = desk.done(),
        }
    }
    assert_eq!(desk.ended, [(2, Outcome::Done)], "behind {steps} steps");
    desk.settle();
    assert_eq!(desk.ended[1], (1, Outcome::Done));
}

#[test]
fn what_goes_on_for_a_branch_ends_with_its_copy() {
    let mut desk = Desk::finding(&[]);
    desk.writes(1, 0, false);
    assert!(matches!(desk.done(), PoolOp::Reserve { .. }));
    desk.copy(drop_of(1));
    assert_eq!(desk.append().0, BRANCH);
    let PoolOp::List { copies, freed } = desk.done() else { panic!("it is dropped") };
    assert_eq!((copies, freed), (vec![], fingerprint(Slot(0), V, 0)), "with its branch");
    assert_eq!(desk.ended, [(1, FAILED)]);
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    desk.writes(2, 0, false);
    assert_eq!(desk.ended[1], (2, FAILED));
    assert!(desk.stack.rests() && desk.everything_is_released());
}

#[test]
fn what_cannot_be_read_for_a_branch_fails_the_write_alone() {
    let mut desk = Desk::finding(&[0]);
    desk.writes(1, 1, false);
    assert!(matches!(desk.done(), PoolOp::Reserve { .. }));
    desk.member(FAILED);
    desk.writes(2, 0, false);
    desk.read();
    desk.pool(PoolOutcome::Damaged);
    assert_eq!(desk.ended, [(1, FAILED), (2, FAILED)]);
    assert_eq!(desk.health(), PoolHealth::Works);
    desk.stack.begin_on_copy(
        CopyIo { name: 3, on: CopyView::Cut(CopyNumber(1)), volume: V, op: zero(0) },
        desk.now,
    );
    desk.drain();
    assert_eq!(desk.ended[2], (3, FAILED), "nothing changes the copy itself");
}
