// SPDX-License-Identifier: Apache-2.0
//! What happens without room.

use super::*;

#[test]
fn without_room_a_change_is_refused_and_no_member_was_asked_for_it() {
    for bound in [Some(Bytes(2 * RECORD_BYTES - 1)), None] {
        let mut desk = Desk::holding_of(Bytes(CHUNK_BYTES), bound);
        desk.begin(1, zero(1));
        desk.preserve();
        desk.member(Outcome::Done);
        desk.ended.clear();
        desk.begin(2, zero_two(2));
        let free = bound.unwrap_or(Bytes(RECORD_BYTES));
        if bound.is_none() {
            assert_eq!(desk.pool(PoolOutcome::NoRoom { free }), reserve(3));
        }
        let shortage = Shortage { free, ..lacking(2, 0) };
        assert_eq!(desk.ended, [(2, Outcome::Refused(shortage))], "it takes one chunk at least");
        assert!(desk.nothing_is_asked());
        desk.begin(3, zero(1));
        assert_eq!(desk.ops(), [zero(1)], "what is preserved already needs no room");
        assert_eq!(desk.health(), PoolHealth::Works);
    }
}

#[test]
fn one_chunk_is_preserved_where_there_is_room_for_one_and_not_for_all() {
    let mut desk = Desk::finding(&[0]);
    desk.begin(1, zero_two(1));
    let free = Bytes(2 * RECORD_BYTES);
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free }), reserve(3));
    assert_eq!(desk.done(), reserve(2));
    assert_eq!(desk.preserve(), (1, vec![(1, 1)]));
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free }), reserve(3));
    assert_eq!(desk.ended, [(1, Outcome::Refused(lacking(3, 2)))]);
    assert!(desk.nothing_is_asked());
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
    assert_eq!(desk.done(), reserve(2));
    desk.preserve();
    desk.member(Outcome::Done);
    desk.copy(drop_of(1));
    desk.done();
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
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free }), reserve(2));
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(2, 1))));
    desk.begin(1, zero(1));
    assert_eq!(desk.ops(), [read(1)], "there is room for one chunk");
}

#[test]
fn room_is_made_for_what_will_be_overwritten_and_is_not_preserved() {
    let mut desk = Desk::finding(&[0, 1]);
    desk.copy(CopyOp::Reserve { overwritten: ALL });
    assert_eq!(desk.done(), reserve(7));
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    let mut desk = Desk::finding(&[0, 1]);
    desk.copy(cut(ALL));
    assert_eq!(desk.pools, [reserve(9)], "a new copy can need every chunk");
}

#[test]
fn without_room_an_expendable_copy_goes_before_anything_is_overwritten() {
    let mut desk = Desk::expendable();
    desk.begin(1, zero(1));
    desk.begin(2, zero(2));
    assert!(desk.members.is_empty() && desk.ended.is_empty(), "both wait for the list");
    assert_eq!(desk.changed(1), Some(Vec::new()));
    assert_eq!(desk.done(), list(&[], &[]), "its room is given back");
    assert_eq!(desk.changed(1), None, "what changes from now on is not known");
    assert_eq!(desk.ops(), [zero(1), zero(2)]);
    assert_eq!(desk.copied(), None, "it was not asked for");
    desk.copy(restore(1));
    assert_eq!(desk.copied(), Some(CopyOutcome::Over));
}

#[test]
fn without_room_the_oldest_expendable_copy_goes_first_and_the_change_passes() {
    let copies: [(KeptCopy, &[u64]); 3] =
        [(held(1, REQUIRED), &[]), (held(2, EXPENDABLE), &[0]), (held(3, EXPENDABLE), &[0])];
    let mut desk = Desk::finding_of(&copies);
    desk.stack.bound(Some(Bytes(2 * RECORD_BYTES)));
    desk.begin(1, zero(1));
    let left = [held(1, REQUIRED), held(3, EXPENDABLE)];
    assert_eq!(desk.done(), list(&left, &[]), "copy 1 needs what copy 2 has");
    assert_eq!(desk.done(), list(&[held(1, REQUIRED)], &[(1, 0)]), "and so copy 3 goes as well");
    assert_eq!(desk.preserve(), (1, vec![(1, 1)]));
    assert_eq!((desk.ops(), desk.ended.len()), (vec![zero(1)], 0));
}

#[test]
fn only_as_many_expendable_copies_go_as_the_change_needs() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[0]), (held(2, EXPENDABLE), &[0])]);
    desk.begin(1, zero(1));
    let free = Bytes(2 * RECORD_BYTES);
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free }), reserve(3));
    assert_eq!(desk.done(), list(&[held(2, EXPENDABLE)], &[(0, 0)]));
    assert_eq!(desk.preserve(), (2, vec![(0, 1)]));
    assert_eq!(desk.ops(), [zero(1)]);
    assert!(desk.pools.is_empty());
}

#[test]
fn an_expendable_cut_without_room_ends_with_that_and_no_copy_goes() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[0])]);
    desk.stack.bound(Some(Bytes(RECORD_BYTES)));
    desk.copy(cut_of(EXPENDABLE, Bytes(CHUNK_BYTES)));
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(2, 1))));
    assert!(desk.nothing_is_asked());
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[0])]);
    desk.copy(cut_of(EXPENDABLE, Bytes(CHUNK_BYTES)));
    desk.pool(PoolOutcome::NoRoom { free: Bytes(RECORD_BYTES) });
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(2, 1))));
    desk.copy(restore(1));
    assert_eq!(desk.pools, [check(&[(0, 0)])]);
}

#[test]
fn an_expendable_cut_that_has_no_room_for_a_later_change_ends_and_the_change_passes() {
    let mut desk = Desk::empty();
    desk.stack.bound(Some(Bytes::ZERO));
    desk.begin(1, zero(0));
    desk.copy(cut_of(EXPENDABLE, Bytes::ZERO));
    assert_eq!(desk.done(), reserve(0));
    assert_eq!(desk.done(), list(&[coming(1, EXPENDABLE)], &[]));
    desk.begin(2, zero(1));
    assert_eq!(desk.ops(), [zero(0)]);
    assert_eq!(desk.done(), list(&[], &[]));
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(1, 0))));
    assert_eq!(desk.ops(), [zero(0), zero(1)]);
    (0..2).for_each(|_| _ = desk.member(Outcome::Done));
    assert!(desk.stack.rests() && desk.nothing_is_asked());
}

#[test]
fn a_cut_waits_for_changes_that_were_older_than_one_that_failed() {
    let mut desk = Desk::empty();
    desk.stack.bound(Some(Bytes::ZERO));
    desk.begin(1, zero(0));
    desk.copy(cut_of(EXPENDABLE, Bytes::ZERO));
    desk.done();
    desk.done();
    desk.begin(2, zero(1));
    desk.done();
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(1, 0))));
    desk.copy(cut(Bytes::ZERO));
    desk.done();
    desk.done();
    desk.members.rotate_left(1);
    assert_eq!(desk.member(Outcome::Done), zero(1));
    assert_eq!(desk.ops(), [zero(0)], "it is older than both cuts");
    desk.member(Outcome::Done);
    desk.flushed();
    desk.done();
    assert_eq!(desk.copied(), is_cut(2));
}

impl Desk {
    /// A cut has ended for want of room, and its flushes are under way.
    fn cut_without_room() -> Self {
        let mut desk = Self::empty();
        desk.stack.bound(Some(Bytes::ZERO));
        desk.copy(cut_of(EXPENDABLE, Bytes::ZERO));
        (0..2).for_each(|_| _ = desk.done());
        desk.begin(1, zero(1));
        desk.done();
        assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(1, 0))));
        desk
    }
}

#[test]
fn a_flush_that_failed_although_its_cut_ended_before_is_reported() {
    let mut desk = Desk::cut_without_room();
    desk.member(Outcome::Done);
    desk.member(Outcome::Unsure(StoreFault::Io));
    assert_eq!(desk.flushes_failed, [(VolumeIndex(1), StoreFault::Io)]);
    assert_eq!(desk.copied(), None);
}

#[test]
fn a_cut_that_ended_without_room_leaves_its_flushes_to_end_before_the_next_one() {
    let mut desk = Desk::cut_without_room();
    desk.copy(cut(Bytes::ZERO));
    assert!(desk.pools.is_empty(), "the flushes of the first cut are under way");
    desk.flushed();
    assert_eq!(desk.member(Outcome::Done), zero(1));
    desk.cut_ends();
    assert_eq!(desk.copied(), is_cut(2));
}

#[test]
fn a_required_cut_without_room_ends_expendable_copies_and_then_succeeds() {
    let copies: [(KeptCopy, &[u64]); 3] =
        [(held(1, EXPENDABLE), &[0]), (held(2, REQUIRED), &[0]), (held(3, EXPENDABLE), &[0])];
    let mut desk = Desk::finding_of(&copies);
    desk.stack.bound(Some(Bytes(3 * RECORD_BYTES)));
    desk.copy(cut(Bytes(CHUNK_BYTES)));
    let left = [held(2, REQUIRED), held(3, EXPENDABLE)];
    assert_eq!(desk.done(), list(&left, &[(0, 0)]), "the oldest one goes first");
    assert_eq!(desk.copied(), None);
    assert_eq!(desk.pools, [reserve(3)]);
    desk.cut_ends();
    assert_eq!(desk.copied(), is_cut(4));
}

#[test]
fn a_required_cut_that_has_no_room_for_a_later_change_refuses_that() {
    let mut desk = Desk::empty();
    desk.stack.bound(Some(Bytes::ZERO));
    desk.copy(cut(Bytes::ZERO));
    desk.done();
    desk.done();
    desk.begin(1, zero(1));
    assert_eq!(desk.ended, [(1, Outcome::Refused(lacking(1, 0)))]);
    desk.flushed();
    desk.done();
    assert_eq!(desk.copied(), is_cut(1));
}
