// SPDX-License-Identifier: Apache-2.0
//! Reads of copies.

use super::*;

impl Desk {
    /// A client reads that chunk of a copy.
    fn reads(&mut self, name: u64, copy: u64, number: u64) {
        let (op, on) = (StoreOp::Read { extent: chunk(number) }, CopyView::Cut(CopyNumber(copy)));
        self.stack.begin_on_copy(CopyIo { name, on, volume: V, op }, self.now);
        self.drain();
    }

    /// What is preserved is laid over what was read of the volume. Returns which chunks.
    fn overlays(&mut self) -> Vec<(Slot, Chunk)> {
        let Some(PoolOp::Overlay { base, .. }) = self.pools.front() else {
            panic!("nothing is laid over anything: {:?}", self.pools)
        };
        let row = Row { payload: Payload { id: PayloadId(900), ..base.payload }, ..*base };
        let PoolOp::Overlay { records, .. } = self.pool(PoolOutcome::Loaded(vec![row])) else {
            unreachable!("it was one before")
        };
        records
    }

    fn read_ended(&mut self) -> Vec<(u64, bool)> {
        let ended = self.ended.split_off(0).into_iter();
        ended.map(|(name, outcome)| (name, matches!(outcome, Outcome::Read(_)))).collect()
    }
}

#[test]
fn what_is_preserved_while_the_volume_is_read_comes_from_the_pool() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[]), (held(2, REQUIRED), &[])]);
    desk.reads(7, 1, 0);
    desk.begin(1, zero(0));
    assert_eq!(desk.done(), reserve(1));
    let (later, first) = (desk.members.pop_back().expect("two"), desk.members.pop_front());
    desk.members.push_back(later);
    assert_eq!(desk.preserve(), (2, vec![(0, 0)]));
    desk.members.push_front(first.expect("the read for the copy"));
    desk.read();
    assert_eq!(desk.overlays(), records(&[(0, 0)]), "copy 2 has it for copy 1, too");
    assert_eq!(desk.read_ended(), [(7, true)]);
    desk.reads(8, 1, 5);
    desk.members.rotate_left(1);
    desk.read();
    assert_eq!(desk.read_ended(), [(8, true)], "no change touched that chunk");
}

#[test]
fn readers_and_changes_take_turns_at_the_pool() {
    let mut desk = Desk::finding(&[0]);
    for name in [7, 8] {
        desk.reads(name, 1, 0);
    }
    (0..2).for_each(|_| _ = desk.read());
    desk.begin(1, zero(1));
    assert_eq!(desk.overlays(), records(&[(0, 0)]));
    assert_eq!(desk.done(), reserve(2), "the change waits no longer than for one reader");
    assert_eq!(desk.overlays(), records(&[(0, 0)]));
    assert_eq!(desk.read_ended(), [(7, true), (8, true)]);
    assert_eq!(desk.preserve(), (1, vec![(1, 1)]));
}

#[test]
fn a_read_of_a_copy_that_goes_fails_and_so_does_one_that_a_member_or_the_pool_fails() {
    let mut desk = Desk::finding(&[0]);
    desk.copy(drop_of(1));
    (0..2).for_each(|chunk| desk.reads(7 + chunk, 1, chunk));
    (0..2).for_each(|_| _ = desk.read());
    assert_eq!(desk.read_ended(), [(8, true)], "it is still there");
    desk.done();
    assert_eq!(desk.read_ended(), [(7, false)]);
    desk.reads(9, 1, 0);
    assert_eq!(desk.read_ended(), [(9, false)]);
    assert_eq!(desk.released.len(), 1, "what was read for the first one");
    assert!(desk.stack.rests() && desk.nothing_is_asked());

    let mut desk = Desk::finding(&[0]);
    desk.reads(7, 1, 0);
    desk.member(Outcome::Failed(StoreFault::Io));
    for outcome in [PoolOutcome::Damaged, PoolOutcome::Failed(StoreFault::Io)] {
        desk.reads(8, 1, 0);
        desk.read();
        desk.pool(outcome);
    }
    assert_eq!(desk.read_ended(), [(7, false), (8, false), (8, false)]);
    assert_eq!(desk.health(), PoolHealth::Works, "it may still be added to");
}

#[test]
fn a_drop_waits_no_longer_than_for_one_reader() {
    let mut desk = Desk::finding(&[0]);
    for name in [7, 8, 9] {
        desk.reads(name, 1, 0);
    }
    (0..3).for_each(|_| _ = desk.read());
    desk.copy(drop_of(1));
    assert_eq!(desk.overlays(), records(&[(0, 0)]));
    assert_eq!(desk.done(), list(&[], &[(0, 0)]));
    assert_eq!(desk.read_ended(), [(7, true), (8, false), (9, false)]);
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
}
