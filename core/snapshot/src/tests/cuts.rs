// SPDX-License-Identifier: Apache-2.0
//! How copies are cut and dropped.

use super::*;
use helio_format::before::COPIES_MOST;
use helio_units::Sequence;

#[test]
fn a_cut_waits_for_older_changes_and_stops_no_later_one() {
    let mut desk = Desk::empty();
    desk.begin(1, zero(1));
    desk.copy(cut(Bytes(2 * CHUNK_BYTES)));
    assert_eq!(desk.done(), reserve(2));
    assert_eq!(desk.done(), list(&[coming(1, REQUIRED)], &[]));
    desk.begin(2, zero(1));
    assert_eq!(desk.ops(), [zero(1)], "the older change touches that chunk");
    desk.begin(3, zero(2));
    assert_eq!(desk.ops(), [zero(1), read(2)]);
    desk.members.rotate_left(1);
    assert_eq!(desk.preserve(), (1, vec![(0, 2)]));
    assert_eq!(desk.ops(), [zero(1), zero(2)], "it passes during the cut");
    assert!(desk.pools.is_empty(), "the copy is not held before the older change has ended");
    desk.member(Outcome::Done);
    assert_eq!(desk.ops(), [zero(2), StoreOp::Flush, StoreOp::Flush, read(1)]);
    desk.member(Outcome::Done);
    desk.flushed();
    assert_eq!(desk.preserve(), (1, vec![(1, 1)]));
    assert_eq!(desk.ops(), [zero(1)]);
    assert_eq!(desk.copied(), None);
    assert_eq!(desk.done(), list(&[held(1, REQUIRED)], &[]));
    assert_eq!(desk.copied(), is_cut(1));
}

#[test]
fn a_change_that_waits_at_the_moment_of_a_cut_is_older() {
    let mut desk = Desk::holding_of(Bytes(3 * CHUNK_BYTES), None);
    desk.copy(cut(Bytes::ZERO));
    desk.begin(1, zero(1));
    assert_eq!(desk.done(), reserve(3));
    let both = [held(1, REQUIRED), coming(2, REQUIRED)];
    assert_eq!(desk.done(), list(&both, &[]));
    desk.begin(2, zero(1));
    assert_eq!(desk.preserve(), (1, vec![(0, 1)]), "what it overwrites belongs to copy 1");
    assert_eq!(desk.ops(), [zero(1)], "the later one waits");
    desk.member(Outcome::Done);
    assert_eq!(desk.ended, [(1, Outcome::Done)]);
    desk.flushed();
    assert_eq!(desk.preserve(), (2, vec![(1, 1)]), "what the first one wrote belongs to copy 2");
    assert_eq!(desk.ops(), [zero(1)]);
    assert_eq!(desk.done(), list(&[held(1, REQUIRED), held(2, REQUIRED)], &[]));
    assert_eq!(desk.copied(), is_cut(2));
}

#[test]
fn an_older_change_that_is_refused_holds_up_no_cut() {
    let mut desk = Desk::finding(&[]);
    desk.copy(cut(Bytes::ZERO));
    desk.begin(1, zero(1));
    assert_eq!(desk.done(), reserve(0));
    desk.done();
    assert_eq!(desk.pool(PoolOutcome::NoRoom { free: Bytes::ZERO }), reserve(1));
    assert_eq!(desk.ended, [(1, Outcome::Refused(lacking(1, 0)))]);
    desk.flushed();
    desk.done();
    assert_eq!(desk.copied(), is_cut(2));
}

#[test]
fn a_read_does_not_wait_for_a_cut() {
    let mut desk = Desk::empty();
    desk.copy(cut(Bytes::ZERO));
    desk.begin(1, read(0));
    assert_eq!(desk.ops(), [read(0)]);
    desk.done();
    desk.begin(2, read(1));
    assert_eq!(desk.ops(), [read(0), read(1)]);
}

#[test]
fn a_cut_whose_flush_failed_reports_why_and_lets_parked_changes_go() {
    let mut desk = Desk::empty();
    desk.copy(cut(Bytes(CHUNK_BYTES)));
    desk.done();
    desk.done();
    (0..2).for_each(|_| _ = desk.member(Outcome::Unsure(StoreFault::Silent)));
    desk.begin(1, zero(1));
    assert_eq!((desk.ops(), desk.copied()), (vec![], None), "it is listed still");
    assert_eq!(desk.done(), list(&[], &[]));
    let failed = failed(0b11, 0, StoreFault::Silent);
    assert_eq!(desk.copied(), Some(CopyOutcome::FlushFailed(failed)));
    assert_eq!(desk.ops(), [zero(1)], "nothing is preserved");
    desk.member(Outcome::Done);
    assert!(desk.stack.rests());
}

#[test]
fn a_cut_fails_with_a_disk_from_its_moment_on_until_it_has_ended() {
    let gone = failed(1, 0, StoreFault::Io);
    for listing in [false, true] {
        let mut desk = Desk::empty();
        desk.copy(cut_of(EXPENDABLE, Bytes::ZERO));
        desk.done();
        desk.stack.fail_cut(gone, Moment::ZERO);
        assert_eq!(desk.stack.cutting(), None, "its moment comes");
        desk.done();
        assert_eq!(desk.stack.cutting(), Some(CopyNumber(1)));
        if listing {
            desk.flushed();
        }
        desk.stack.fail_cut(gone, Moment::ZERO);
        desk.drain();
        if listing {
            assert_eq!(desk.done(), list(&[held(1, EXPENDABLE)], &[]));
            assert_eq!((desk.copied(), desk.stack.held()), (None, Vec::new()), "the pool lists it");
            assert_eq!(desk.stack.cutting(), Some(CopyNumber(1)));
        }
        assert_eq!(desk.done(), list(&[], &[]));
        assert_eq!(desk.copied(), Some(CopyOutcome::MemberFailed(gone)));
        assert_eq!(desk.stack.cutting(), None);
    }
}

#[test]
fn what_a_cut_that_failed_has_preserved_goes_to_the_copy_before() {
    let mut desk = Desk::holding_of(Bytes(2 * CHUNK_BYTES), None);
    desk.copy(cut(Bytes::ZERO));
    desk.done();
    desk.done();
    desk.begin(1, zero(1));
    desk.members.rotate_left(2);
    assert_eq!(desk.preserve(), (2, vec![(0, 1)]));
    (0..2).for_each(|_| _ = desk.member(Outcome::Unsure(StoreFault::Io)));
    assert_eq!(desk.done(), list(&[held(1, REQUIRED)], &[]), "its record still counts");
    desk.copied();
    desk.begin(2, zero(1));
    assert_eq!(desk.ops(), [zero(1), zero(1)]);
    desk.copy(restore(1));
    assert_eq!(desk.done(), check(&[(0, 1)]));
}

#[test]
fn a_cut_whose_pool_failed_reports_that_and_lets_parked_changes_go() {
    for steps in 0..3 {
        let mut desk = Desk::empty();
        desk.copy(cut(Bytes(CHUNK_BYTES)));
        for step in 0..steps {
            desk.done();
            (0..step * 2).for_each(|_| _ = desk.member(Outcome::Done));
        }
        if steps == 2 {
            desk.begin(1, zero(1));
            assert_eq!(desk.ops(), []);
        }
        desk.pool(PoolOutcome::Failed(StoreFault::NoSpace));
        assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::NoSpace)));
        desk.begin(2, zero(1));
        assert!(desk.ops().ends_with(&[zero(1)]), "nothing is preserved: step {steps}");
        assert!(desk.ended.is_empty());
    }
}

#[test]
fn numbers_count_up_and_are_never_used_again() {
    let mut desk = Desk::holding();
    desk.copy(drop_of(1));
    desk.done();
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    desk.copy(cut(Bytes::ZERO));
    desk.cut_ends();
    assert_eq!(desk.copied(), is_cut(2));
    let seen = BeforeFound { last: CopyNumber(9), ..BeforeFound::default() };
    let mut desk = Desk::starts(&SIZES, &seen, 0);
    desk.copy(cut(Bytes::ZERO));
    desk.cut_ends();
    assert_eq!(desk.copied(), is_cut(10));
}

#[test]
fn a_drop_lets_parked_changes_go() {
    let mut desk = Desk::holding();
    desk.copy(drop_of(1));
    desk.begin(1, zero(1));
    assert!(desk.members.is_empty(), "it counts until the pool recorded its end");
    assert_eq!(desk.done(), list(&[], &[]));
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    assert_eq!(desk.ops(), [zero(1)]);
    desk.member(Outcome::Done);
    assert!(desk.stack.rests(), "it costs nothing any more");
    desk.copy(cut(Bytes::ZERO));
    assert_eq!(desk.pools, [reserve(0)], "its room was given back");
}

#[test]
fn a_copy_that_is_not_there_is_dropped_at_once() {
    let mut desk = Desk::holding();
    desk.copy(drop_of(7));
    assert_eq!(desk.copied(), Some(CopyOutcome::Done));
    assert!(desk.nothing_is_asked());
}

#[test]
fn a_copy_whose_cut_did_not_end_is_dropped_when_the_process_starts() {
    let copies: [(KeptCopy, &[u64]); 2] =
        [(held(1, REQUIRED), &[0]), (coming(2, REQUIRED), &[0, 1])];
    let mut desk = Desk::finding_of(&copies);
    assert_eq!(desk.stack.deadline(), Moment::ZERO);
    desk.tick();
    assert_eq!(desk.pools, [list(&[held(1, REQUIRED)], &[(1, 0)])]);
    assert_eq!(desk.stack.deadline(), Moment::NEVER, "it is on its way");
    desk.begin(1, zero(2));
    desk.done();
    assert_eq!(desk.preserve(), (1, vec![(1, 2)]), "its slot is used again");
    desk.begin(2, zero(1));
    assert_eq!(desk.ops(), [zero(2), zero(1)], "copy 1 has what it left");
}

#[test]
fn copies_that_are_over_by_the_ledger_are_dropped_when_the_process_starts() {
    let copies: [(KeptCopy, &[u64]); 3] =
        [(held(1, EXPENDABLE), &[0]), (held(2, REQUIRED), &[1]), (held(3, EXPENDABLE), &[])];
    let mut desk = Desk::starts(&SIZES, &found(&copies), 2);
    desk.copy(restore(1));
    let left = [held(2, REQUIRED), held(3, EXPENDABLE)];
    assert_eq!(desk.done(), list(&left, &[(0, 0)]));
    assert_eq!(desk.copied(), Some(CopyOutcome::Over));
}

#[test]
fn what_is_abandoned_holds_up_nothing() {
    let mut desk = Desk::holding();
    desk.begin(1, zero(1));
    desk.abandon(1);
    assert_eq!(desk.ops(), [read(1), zero(1)]);
    assert_eq!(desk.preserve(), (1, vec![(0, 1)]));
    desk.begin(2, zero(2));
    assert_eq!(desk.ops(), [zero(1), zero(2)]);
    assert_eq!(desk.done(), list(&[], &[(0, 1)]), "its room is given back");
    assert_eq!(desk.copied(), None, "it was not asked for");
}

#[test]
fn what_an_abandoned_copy_has_is_not_read_again_for_an_older_one() {
    let copies: [(KeptCopy, &[u64]); 2] = [(held(1, REQUIRED), &[]), (held(2, REQUIRED), &[1])];
    let mut desk = Desk::finding_of(&copies);
    desk.copy(cut(Bytes::ZERO));
    assert_eq!(desk.done(), reserve(1));
    desk.abandon(2);
    desk.begin(1, zero(1));
    desk.settle();
    desk.copied();
    desk.copy(restore(1));
    assert_eq!(desk.done(), check(&[(0, 1)]), "the chunk was overwritten since copy 2 has it");
}

#[test]
fn a_copy_more_than_the_list_has_places_for_is_refused() {
    let full: Vec<_> =
        (1..=COPIES_MOST as u64).map(|number| (held(number, REQUIRED), &[][..])).collect();
    let mut desk = Desk::finding_of(&full);
    desk.copy(cut(Bytes(CHUNK_BYTES)));
    assert_eq!((desk.copied(), desk.pools.len()), (Some(CopyOutcome::TooMany), 0));
    let mut desk = Desk::finding_of(&full[1..]);
    desk.copy(cut(Bytes(CHUNK_BYTES)));
    assert_eq!((desk.copied(), desk.pools.len()), (None, 1));
}

#[test]
fn expendable_copies_leave_one_place_to_a_required_one() {
    let full: Vec<_> =
        (1..COPIES_MOST as u64).map(|number| (held(number, EXPENDABLE), &[][..])).collect();
    for (class, copied) in [(EXPENDABLE, Some(CopyOutcome::TooMany)), (REQUIRED, None)] {
        let mut desk = Desk::finding_of(&full);
        desk.copy(cut_of(class, Bytes::ZERO));
        assert_eq!(desk.copied(), copied);
    }
}

#[test]
fn changes_go_on_as_before_until_the_moment_of_a_cut_comes() {
    let mut desk = Desk::finding(&[]);
    desk.no_moment = true;
    desk.copy(cut(Bytes::ZERO));
    (0..2).for_each(|_| _ = desk.done());
    assert_eq!((desk.ready, desk.copied()), (1, None));
    desk.begin(1, zero(1));
    desk.done();
    assert_eq!(desk.preserve(), (1, vec![(0, 1)]), "it is preserved for the copy that is held");
    desk.member(Outcome::Done);
    desk.stack.cut(Some(KeptImage { head: Sequence(9), ..KeptImage::default() }), desk.now);
    desk.drain();
    desk.begin(2, zero(1));
    desk.flushed();
    assert_eq!(desk.done(), reserve(2));
    let PoolOp::List { copies, .. } = desk.done() else { panic!("it is listed as held") };
    assert_eq!(copies[1].image.head, Sequence(9));
    assert_eq!(desk.copied(), is_cut(2));
    assert_eq!(desk.preserve(), (2, vec![(1, 1)]), "and for the new one since");
}

#[test]
fn a_cut_without_a_moment_leaves_nothing() {
    let mut desk = Desk::empty();
    desk.no_moment = true;
    desk.copy(cut(Bytes::ZERO));
    (0..2).for_each(|_| _ = desk.done());
    desk.stack.cut(None, desk.now);
    desk.drain();
    assert_eq!(desk.done(), list(&[], &[]));
    assert_eq!(desk.copied(), Some(CopyOutcome::Cancelled));
    desk.begin(1, zero(1));
    assert_eq!(desk.ops(), [zero(1)]);
    desk.copy(cut(Bytes::ZERO));
    (0..2).for_each(|_| _ = desk.done());
    assert_eq!(desk.ready, 2);
}

#[test]
fn a_flush_that_fails_while_a_cut_is_under_way_fails_the_cut() {
    let unsure = Outcome::Unsure(StoreFault::Io);
    for stage in 0..4 {
        let mut desk = Desk::empty();
        desk.no_moment = true;
        desk.copy(cut(Bytes::ZERO));
        desk.begin(9, StoreOp::Flush);
        (0..2).for_each(|_| _ = desk.done());
        let (flush, ..) = desk.members.pop_front().expect("a flush");
        if stage > 0 {
            desk.stack.cut(Some(KeptImage::default()), desk.now);
            desk.drain();
        }
        let ends = |desk: &mut Desk| {
            desk.stack.member_ended(flush, unsure);
            desk.drain();
        };
        if stage < 2 {
            ends(&mut desk);
        }
        if stage > 0 {
            desk.flushed();
        }
        if stage == 2 {
            ends(&mut desk);
        }
        if stage > 1 {
            assert_eq!(desk.done(), list(&[held(1, REQUIRED)], &[]), "it is being listed");
        }
        if stage == 3 {
            assert_eq!(desk.copied(), is_cut(1), "a flush that fails later says nothing of it");
            ends(&mut desk);
            assert!(desk.nothing_is_asked());
            continue;
        }
        assert_eq!(desk.done(), list(&[], &[]));
        assert_eq!(desk.copied(), Some(CopyOutcome::FlushFailed(failed(1, 0, StoreFault::Io))));
    }
}

#[test]
fn an_expendable_cut_that_may_be_listed_as_held_is_over_before_anything_is_overwritten() {
    let mut desk = Desk::empty();
    desk.copy(cut_of(EXPENDABLE, Bytes::ZERO));
    (0..2).for_each(|_| _ = desk.done());
    desk.flushed();
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    desk.begin(1, zero(1));
    assert_eq!(desk.ops(), [], "the list may say that the copy is held");
    assert!(desk.stack.held().is_empty() && desk.stack.copies().is_empty(), "its cut failed");
    desk.recorded(1, true);
    assert_eq!(desk.ops(), [zero(1)]);
    assert_eq!(desk.over, [], "the engine never heard that it was held");
}

#[test]
fn a_cut_that_never_had_a_moment_is_no_copy_where_the_pool_fails() {
    let mut desk = Desk::finding_of(&[(held(1, EXPENDABLE), &[])]);
    desk.no_moment = true;
    desk.copy(cut_of(EXPENDABLE, Bytes::ZERO));
    (0..2).for_each(|_| _ = desk.done());
    desk.stack.cut(None, desk.now);
    desk.drain();
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.copied(), Some(CopyOutcome::PoolFailed(StoreFault::Io)));
    assert!(desk.records.is_empty(), "the copy before is over once something is overwritten");
    assert_eq!(desk.stack.held().len(), 1);
    desk.begin(1, zero(1));
    desk.recorded(1, true);
    assert_eq!(desk.ops(), [zero(1)]);
}
