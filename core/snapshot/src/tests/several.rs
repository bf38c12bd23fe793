// SPDX-License-Identifier: Apache-2.0
//! Several copies, and what each needs of the others.

use super::*;

#[test]
fn a_chunk_is_preserved_for_the_youngest_copy_and_serves_older_ones() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[0]), (held(2, REQUIRED), &[])]);
    desk.begin(1, zero_two(0));
    assert_eq!(desk.done(), reserve(3));
    assert_eq!(desk.preserve(), (2, vec![(1, 0), (2, 1)]), "copy 1 has another chunk 0");
    desk.members.clear();
    desk.copy(restore(1));
    assert_eq!(desk.pools, [check(&[(0, 0), (2, 1)])]);
}

#[test]
fn an_older_copy_is_restored_once_what_younger_ones_need_is_preserved() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[1, 2]), (held(2, REQUIRED), &[2])]);
    desk.copy(restore(1));
    assert_eq!(desk.done(), check(&[(0, 1), (1, 2)]));
    assert_eq!(desk.done(), reserve(4));
    assert_eq!(desk.preserve(), (2, vec![(3, 1)]), "copy 2 has chunk 2 already");
    assert_eq!(desk.loads(&[1, 2]), load(&[(0, 1), (1, 2)]));
    assert_eq!([desk.writes_back(), desk.writes_back()], [chunk(1), chunk(2)]);
    desk.flushed();
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    desk.copy(restore(2));
    assert_eq!(desk.pools, [check(&[(3, 1), (2, 2)])], "both may be restored any time");
}

#[test]
fn a_restore_without_room_for_what_a_required_copy_needs_writes_nothing() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[1]), (held(2, REQUIRED), &[])]);
    desk.copy(restore(1));
    desk.done();
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free: Bytes(RECORD_BYTES) }), reserve(2));
    assert_eq!(desk.copied(), Some(CopyOutcome::NoRoom(lacking(2, 1))));
    assert!(desk.nothing_is_asked());
}

#[test]
fn a_restore_without_room_ends_expendable_copies_but_not_its_own() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[1]), (held(2, EXPENDABLE), &[])]);
    desk.copy(restore(1));
    desk.done();
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free: Bytes(RECORD_BYTES) }), reserve(2));
    assert_eq!(desk.done(), list(&[held(1, EXPENDABLE)], &[]));
    assert_eq!(desk.loads(&[1]), load(&[(0, 1)]));
    desk.writes_back();
    desk.flushed();
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
}

#[test]
fn a_restore_whose_volume_cannot_be_read_for_a_younger_copy_fails_and_nothing_else() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[1]), (held(2, REQUIRED), &[])]);
    desk.copy(restore(1));
    desk.done();
    desk.done();
    desk.member(FAILED);
    let unread = failed(0b1, 0, StoreFault::Io);
    assert_eq!(desk.copied(), Some(CopyOutcome::MemberFailed(unread)));
    assert_eq!(desk.health(), PoolHealth::Works);
    assert!(desk.nothing_is_asked());
}

#[test]
fn a_dropped_copy_frees_what_no_other_needs_and_its_slots_are_used_again() {
    let copies: [(KeptCopy, &[u64]); 3] =
        [(held(1, REQUIRED), &[0, 1]), (held(2, REQUIRED), &[1, 2]), (held(3, REQUIRED), &[2])];
    let mut desk = Desk::finding_of(&copies);
    desk.copy(drop_of(2));
    let left = [held(1, REQUIRED), held(3, REQUIRED)];
    assert_eq!(desk.done(), list(&left, &[(2, 1)]), "copy 1 lacks chunk 2");
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    desk.begin(1, zero(3));
    assert_eq!(desk.preserve(), (3, vec![(2, 3)]));
    assert_eq!(desk.ops(), [zero(3)]);
    desk.member(Outcome::Done);
    desk.copy(restore(1));
    assert_eq!(desk.done(), check(&[(0, 0), (1, 1), (3, 2), (2, 3)]));
}

#[test]
fn what_the_oldest_copy_leaves_is_free() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[0, 1]), (held(2, REQUIRED), &[1])]);
    desk.copy(drop_of(1));
    assert_eq!(desk.done(), list(&[held(2, REQUIRED)], &[(0, 0), (1, 1)]));
    desk.begin(1, zero_two(2));
    assert_eq!(desk.preserve(), (2, vec![(0, 2), (1, 3)]));
}

#[test]
fn what_lay_on_a_volume_that_is_gone_leaves_the_sum_with_its_copy() {
    let mut found = found(&[(held(1, REQUIRED), &[0]), (held(2, REQUIRED), &[])]);
    let gone = (VolumeIndex(5), chunk(3));
    found.records.push(BeforeRecord {
        slot: Slot(1),
        of: CopyView::Cut(CopyNumber(1)),
        chunk: gone,
    });
    found.slots = 2;
    let mut desk = Desk::starts(&SIZES, &found, 0);
    desk.copy(drop_of(1));
    let marks = [fingerprint(Slot(0), V, 0), fingerprint(Slot(1), gone.0, gone.1.offset)];
    let freed = marks[0].wrapping_add(marks[1]);
    assert_eq!(desk.pools, [PoolOp::List { copies: vec![held(2, REQUIRED)], freed }]);
}

#[test]
fn without_a_pool_no_change_passes_that_a_restored_copy_needs() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[]), (held(2, EXPENDABLE), &[0])]);
    desk.copy(CopyOp::Reserve { overwritten: ALL });
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    desk.copy(restore(2));
    desk.begin(1, zero(1));
    desk.done();
    desk.loads(&[0]);
    desk.writes_back();
    desk.recorded(1, true);
    // Copy 2 lacks chunk 1, and by the ledger it is not over.
    assert!(!desk.ops().contains(&zero(1)), "{:?}", desk.ops());
}

#[test]
fn the_figures_of_a_copy_tell_what_changed_since_and_what_is_preserved_for_it() {
    let desk = Desk::finding_of(&[
        (held(1, EXPENDABLE), &[0, 1]),
        (held(2, REQUIRED), &[1, 2]),
        (coming(3, REQUIRED), &[]),
    ]);
    let figures = desk.stack.copies();
    let figures = figures.iter().map(|it| (it.copy.number.0, it.changed.0, it.preserved.0));
    let [one, two] = [1, 2].map(|n| n * CHUNK_BYTES);
    assert!(figures.eq([(1, 3 * one, two), (2, two, two)]));
}
