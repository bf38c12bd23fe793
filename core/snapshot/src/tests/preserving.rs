// SPDX-License-Identifier: Apache-2.0
//! What is preserved, when, and what happens where that fails.

use super::*;

#[test]
fn a_change_is_reported_once_its_chunk_is_preserved_whatever_it_writes() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[3]), (held(2, EXPENDABLE), &[])]);
    desk.begin(1, zero(1));
    assert_eq!((desk.changed(1), desk.changed(2)), (Some(vec![3]), Some(vec![])));
    desk.done();
    desk.preserve();
    assert_eq!(desk.ops(), [zero(1)], "it has not changed anything yet");
    assert_eq!((desk.changed(1), desk.changed(2)), (Some(vec![1, 3]), Some(vec![1])));
    assert_eq!(desk.changed(3), None);
    desk.member(Outcome::Done);
    desk.copy(drop_of(2));
    desk.done();
    assert_eq!((desk.changed(1), desk.changed(2)), (Some(vec![1, 3]), None));
}

#[test]
fn a_chunk_is_preserved_once() {
    let mut desk = Desk::holding();
    desk.begin(1, zero(2));
    desk.begin(2, zero(2));
    assert_eq!(desk.ops(), [read(2)]);
    assert_eq!(desk.preserve(), (1, vec![(0, 2)]));
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
    assert_eq!(desk.pools, [reserve(2)]);
}

#[test]
fn neighbours_are_read_and_appended_in_one_row() {
    let mut desk = Desk::holding_of(Bytes(2 * CHUNK_BYTES), None);
    desk.begin(1, zero_two(1));
    assert_eq!(desk.read(), Extent::new(CHUNK_BYTES, 2 * CHUNK_BYTES));
    let PoolOp::Append { of, rows, slots } = desk.done() else { panic!("it is appended") };
    assert_eq!((of.copy(), slots), (CopyNumber(1), vec![Slot(0), Slot(1)]));
    assert_eq!((rows.len(), rows[0].volume), (1, V));
    assert_eq!(desk.ops(), [zero_two(1)]);
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
    assert_eq!(desk.ops(), [read(1)], "nothing is read ahead any more");
    desk.preserve();
    assert_eq!(desk.ops(), [zero(1)]);
}

#[test]
fn a_change_does_not_suffer_from_a_read_ahead_of_it_that_failed() {
    let mut desk = Desk::holding_of(ALL, None);
    desk.begin(1, zero(1));
    desk.read();
    desk.member(FAILED);
    assert_eq!(desk.ops(), [read(1)], "its own chunk is read again");
    desk.preserve();
    assert_eq!(desk.ops(), [zero(1)]);
}

#[test]
fn chunks_are_preserved_ahead_of_changes_that_need_not_wait() {
    const MANY: u64 = 4 * 256 + 1;
    let sizes = [Bytes(MANY * CHUNK_BYTES)];
    let mut desk = Desk::starts(&sizes, &BeforeFound::default(), 0);
    desk.copy(cut(sizes[0]));
    desk.done();
    desk.done();
    assert_eq!(desk.member(Outcome::Done), StoreOp::Flush);
    assert!(desk.members.is_empty(), "nothing is preserved ahead before the copy is held");
    desk.done();
    (0..4).for_each(|_| _ = desk.preserve());
    assert!(desk.nothing_is_asked(), "four batches are ahead");
    desk.begin(1, zero(0));
    assert_eq!(desk.ops(), [zero(0), read(MANY - 1)]);
}

#[test]
fn a_change_whose_chunk_cannot_be_read_is_refused() {
    let mut desk = Desk::holding();
    desk.begin(1, zero(1));
    desk.member(Outcome::Failed(StoreFault::Silent));
    assert_eq!(desk.ended, [(1, Outcome::Refused(Shortage::FAILED))]);
    let unread = failed(0b1, 0, StoreFault::Silent);
    assert_eq!(desk.health(), PoolHealth::Unread(unread), "the pool did not fail");
    assert!(desk.nothing_is_asked());
    desk.copy(drop_of(1));
    assert_eq!(desk.copied(), Some(CopyOutcome::MemberFailed(unread)));
}

#[test]
fn expendable_copies_that_cannot_be_read_go_and_the_next_one_is_preserved() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[]), (held(2, EXPENDABLE), &[])]);
    desk.begin(1, zero(1));
    desk.done();
    desk.member(FAILED);
    assert!(desk.members.is_empty() && desk.ended.is_empty(), "it waits for the list");
    assert_eq!(desk.done(), list(&[], &[]));
    assert_eq!(desk.ops(), [zero(1)]);
    assert_eq!(desk.health(), PoolHealth::Works);
    desk.copy(cut(Bytes(CHUNK_BYTES)));
    assert_eq!(desk.pools, [reserve(1)]);
}

#[test]
fn a_pool_that_failed_refuses_what_needs_it_and_is_restored_from_all_the_same() {
    let mut desk = Desk::finding(&[0]);
    desk.begin(1, zero(1));
    desk.done();
    desk.read();
    desk.begin(2, zero(2));
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    desk.begin(3, zero(3));
    let refused = Outcome::Refused(Shortage::FAILED);
    assert_eq!(desk.ended, [(1, refused), (2, refused), (3, refused)]);
    assert!(desk.members.is_empty() && desk.everything_is_released());
    for op in [cut(ALL), drop_of(1)] {
        desk.copy(op);
        assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    }
    desk.begin(4, zero(0));
    assert_eq!(desk.ops(), [zero(0)], "what is preserved may be overwritten");
    desk.copy(restore(1));
    assert_eq!(desk.pools, [check(&[(0, 0)])]);
}

/// An expendable copy, and a change that waits for the ledger, since the pool failed.
fn pool_failed() -> Desk {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[])]);
    desk.begin(1, zero(1));
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    desk.begin(2, zero(2));
    assert!(desk.members.is_empty() && desk.ended.is_empty(), "both wait for the ledger");
    desk
}

#[test]
fn without_a_pool_the_ledger_says_that_an_expendable_copy_is_over() {
    let mut desk = pool_failed();
    desk.recorded(1, true);
    assert_eq!(desk.ops(), [zero(1), zero(2)]);
    assert!(desk.pools.is_empty(), "the pool is asked for nothing");
    desk.copy(restore(1));
    assert_eq!(desk.copied(), Some(CopyOutcome::Over));
}

#[test]
fn an_expendable_copy_whose_end_cannot_be_recorded_refuses_what_needs_it() {
    let mut desk = pool_failed();
    desk.recorded(1, false);
    let refused = Outcome::Refused(Shortage::FAILED);
    assert_eq!(desk.ended, [(1, refused), (2, refused)]);
    desk.begin(3, zero(3));
    assert!(desk.nothing_is_asked(), "the ledger is not asked again");
}

#[test]
fn without_a_pool_a_required_copy_refuses_what_it_needs() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[0]), (held(2, EXPENDABLE), &[])]);
    desk.begin(1, zero(0));
    desk.begin(2, zero(1));
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    desk.recorded(2, true);
    assert_eq!(desk.ops(), [zero(0)], "copy 1 has that chunk");
    assert_eq!(desk.ended, [(2, Outcome::Refused(Shortage::FAILED))]);
}
