// SPDX-License-Identifier: Apache-2.0
//! How copies are restored.

use super::*;
use helio_stack::{RollbackStatus, Unsettled};

/// More chunks than are loaded at once.
const MANY: u64 = 33;

/// A copy with many chunks, of which the first 32 were put back.
fn partly_put_back() -> Desk {
    let all: Vec<u64> = (0..MANY).collect();
    let places: Vec<(u32, u64)> = (0..).zip(all.clone()).collect();
    let sizes = [Bytes(40 * CHUNK_BYTES)];
    let mut desk = Desk::starts(&sizes, &found(&[(held(1, REQUIRED), &all)]), 0);
    desk.copy(restore(1));
    assert_eq!(desk.done(), check(&places));
    assert_eq!(desk.loads(&all[..32]), load(&places[..32]));
    (0..32).for_each(|number| assert_eq!(desk.writes_back(), chunk(number)));
    desk
}

#[test]
fn a_restore_checks_everything_writes_it_back_and_flushes() {
    let mut desk = Desk::finding(&[1, 3]);
    desk.copy(restore(1));
    assert_eq!(desk.done(), check(&[(0, 1), (1, 3)]));
    assert_eq!(desk.loads(&[1, 3]), load(&[(0, 1), (1, 3)]));
    assert_eq!([desk.writes_back(), desk.writes_back()], [chunk(1), chunk(3)]);
    assert!(desk.everything_is_released() && desk.pools.is_empty());
    assert_eq!(desk.ops(), [StoreOp::Flush; 2]);
    desk.member(Outcome::Done);
    assert_eq!(desk.copied(), None);
    desk.member(Outcome::Done);
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
}

#[test]
fn a_restore_goes_on_behind_what_it_has_put_back() {
    let mut desk = partly_put_back();
    assert_eq!(desk.loads(&[32]), load(&[(32, 32)]));
    assert_eq!(desk.writes_back(), chunk(32));
    assert_eq!(desk.ops(), [StoreOp::Flush]);
}

#[test]
fn a_copy_from_which_nothing_differs_is_restored_by_a_flush() {
    let mut desk = Desk::finding(&[]);
    desk.copy(restore(1));
    assert!(desk.pools.is_empty());
    desk.flushed();
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
}

#[test]
fn a_restore_whose_flush_failed_reports_of_which_volume() {
    let mut desk = Desk::finding(&[]);
    desk.copy(restore(1));
    desk.member(Outcome::Done);
    desk.member(Outcome::Unsure(StoreFault::Io));
    let failed = failed(0b10, 1, StoreFault::Io);
    assert_eq!(desk.copied(), Some(CopyOutcome::FlushFailed(failed)));
}

#[test]
fn a_restore_that_finds_less_than_was_preserved_is_none() {
    let mut desk = Desk::finding(&[1, 3]);
    desk.copy(restore(1));
    desk.done();
    desk.loads(&[]);
    assert_eq!(desk.copied(), Some(CopyOutcome::Damaged));
    assert!(desk.members.is_empty() && desk.everything_is_released());
}

#[test]
fn a_restore_that_put_a_part_back_does_not_say_that_nothing_was() {
    for behind in [Some(&[][..]), Some(&[100]), None] {
        let mut desk = partly_put_back();
        match behind {
            Some(chunks) => desk.loads(chunks),
            None => desk.pool(PoolOutcome::Damaged),
        };
        let outcome = desk.copied();
        assert_eq!(outcome, Some(CopyOutcome::PoolFailed(StoreFault::Io)), "{behind:?}");
        assert!(desk.members.is_empty() && desk.everything_is_released());
    }
}

#[test]
fn a_restore_of_what_is_damaged_writes_nothing() {
    let mut desk = Desk::finding(&[1]);
    desk.copy(restore(1));
    desk.pool(PoolOutcome::Damaged);
    assert_eq!(desk.copied(), Some(CopyOutcome::Damaged));
    assert!(desk.members.is_empty());
}

#[test]
fn a_restore_that_failed_may_be_repeated() {
    let mut desk = Desk::finding(&[1]);
    desk.copy(restore(1));
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    assert_eq!(desk.health(), PoolHealth::Works, "it was read, and may still be added to");
    desk.copy(restore(1));
    desk.done();
    desk.loads(&[1]);
    desk.member(Outcome::Failed(StoreFault::NoSpace));
    let failed = failed(0b1, 0, StoreFault::NoSpace);
    assert_eq!(desk.copied(), Some(CopyOutcome::MemberFailed(failed)));
    assert!(desk.everything_is_released());
    desk.copy(restore(1));
    desk.done();
    desk.loads(&[1]);
    desk.writes_back();
    desk.flushed();
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
}

#[test]
fn a_copy_that_is_not_held_is_not_restored() {
    for copies in [&[][..], &[(coming(1, REQUIRED), &[1][..])]] {
        let mut desk = Desk::finding_of(copies);
        desk.copy(restore(1));
        desk.pools.pop_front().into_iter().for_each(|op| {
            assert_eq!(op, list(&[], &[(0, 1)]));
            desk.stack.pool_ended(PoolOutcome::Done, desk.now);
        });
        desk.drain();
        assert_eq!(desk.copied(), Some(CopyOutcome::Over));
        assert!(desk.members.is_empty());
    }
}

#[test]
fn a_copy_that_is_abandoned_while_it_is_restored_is_restored_no_further() {
    let mut desk = Desk::finding(&[1]);
    desk.copy(restore(1));
    desk.abandon(1);
    desk.done();
    assert_eq!(desk.done(), list(&[], &[(0, 1)]));
    assert_eq!(desk.copied(), Some(CopyOutcome::Over), "nothing was put back");
    let mut desk = Desk::finding(&[1]);
    desk.copy(restore(1));
    desk.done();
    desk.loads(&[1]);
    desk.abandon(1);
    desk.writes_back();
    assert_eq!(desk.done(), list(&[], &[(0, 1)]));
    let outcome = desk.copied();
    assert_eq!(outcome, Some(CopyOutcome::PoolFailed(StoreFault::Io)), "a part was put back");
}

/// A process finds a rollback to copy 1, with two chunks of the first volume that it owes.
fn rolling_back() -> Desk {
    let by = KeptCopy { stage: CopyStage::Rollback(CopyNumber(1)), ..held(2, EXPENDABLE) };
    let found = found(&[(held(1, REQUIRED), &[1, 3]), (by, &[])]);
    let mut desk =
        Desk::new(vec![Snapshot::new(&SIZES, &found, CopyNumber(0), Some(CopyNumber(2))).boxed()]);
    desk.tick();
    desk
}

#[test]
fn members_are_not_the_volumes_while_a_rollback_that_failed_to_begin_may_have_begun() {
    let mut desk = Desk::finding_of(&[(held(1, REQUIRED), &[1, 3])]);
    desk.copy(CopyOp::Rollback(CopyNumber(1)));
    // What it needs is checked, and its moment is listed as coming.
    (0..2).for_each(|_| _ = desk.done());
    desk.flushed();
    let settled = |desk: &Desk| desk.stack.settled_member(VolumeIndex(0));
    assert!(settled(&desk).is_ok());
    desk.ledger(CopyRecord::Rollback(Some(CopyNumber(2))), true);
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    let why = RollbackStatus {
        to: CopyNumber(1),
        left: Bytes(2 * CHUNK_BYTES),
        failed: Some(StoreFault::Io),
    };
    assert_eq!(settled(&desk), Err(Unsettled::RollingBack(why)));
    desk.ledger(CopyRecord::Rollback(None), true);
    assert!(settled(&desk).is_ok(), "the ledger says that there is none");
}

/// What makes a rollback fail, with which fault, and how what waits for it ends.
type Failing = (fn(&mut Desk), StoreFault, StoreFault);

#[test]
fn what_waits_for_a_rollback_that_cannot_go_on_was_never_issued() {
    let of_a_disk = |desk: &mut Desk| {
        desk.loads(&[1, 3]);
        desk.begin(1, zero(3));
        desk.writes_back();
        desk.writes_back();
        // The other volume has nothing to put back, and fails the flush.
        desk.member(Outcome::Done);
        desk.member(Outcome::Unsure(StoreFault::Io));
    };
    let of_the_pool = |desk: &mut Desk| {
        desk.begin(1, zero(3));
        desk.pool(PoolOutcome::Failed(StoreFault::NoSpace));
    };
    let of_the_metadata = |desk: &mut Desk| {
        desk.loads(&[1, 3]);
        desk.begin(1, zero(3));
        desk.member(Outcome::Failed(StoreFault::Unrecorded));
        desk.member(Outcome::Done);
    };
    let cases: [Failing; 3] = [
        (of_a_disk, StoreFault::Io, StoreFault::Unissued),
        (of_the_pool, StoreFault::NoSpace, StoreFault::Unissued),
        (of_the_metadata, StoreFault::Unrecorded, StoreFault::Unrecorded),
    ];
    for (fails, fault, told) in cases {
        let mut desk = rolling_back();
        fails(&mut desk);
        desk.begin(2, read(1));
        let told = Outcome::Failed(told);
        assert_eq!(desk.ended, [(1, told), (2, told)], "{fault:?}");
        let status = desk.stack.rollback().expect("it is not over");
        assert_eq!(status.failed, Some(fault), "that is what is to be repaired");
    }
}
