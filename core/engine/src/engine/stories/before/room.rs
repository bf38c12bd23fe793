// SPDX-License-Identifier: Apache-2.0
//! Stories of a want of room for what is kept.

use super::*;

#[test]
fn without_room_nothing_is_adopted_and_the_source_hears_why() {
    let mut desk = Desk::new(None);
    desk.meet();
    desk.start(true);
    desk.pool(PoolOutcome::NoRoom { free: Bytes(4096) });
    assert_eq!(desk.no_room(), Some((2 * RECORD_BYTES, 4096)));
    desk.zero(21, 1);
    assert!(desk.saves.is_empty() && desk.ios.is_empty() && !desk.gone);
    desk.start(false);
    assert!(!desk.save().consistent, "given up, it goes on without");
}

#[test]
fn without_room_for_one_more_chunk_applying_stops_and_the_source_hears_how_much_is_wanted() {
    let mut desk = Desk::keeping();
    for (sequence, chunk) in [(21, 3), (22, 5)] {
        desk.zero(sequence, chunk);
        desk.preserve();
    }
    desk.store_all();
    desk.zero(23, 7);
    let refused = desk.pool(PoolOutcome::NoRoom { free: Bytes(2 * RECORD_BYTES) });
    assert_eq!(refused, PoolOp::Reserve { records: 3 });
    assert!(!desk.changes(), "what is refused is not applied");
    assert_eq!(desk.pools, [], "there is no smaller room that would do");
    assert_eq!(desk.no_room(), Some((3 * RECORD_BYTES, 2 * RECORD_BYTES)));
}

#[test]
fn a_bound_is_a_want_of_room_too() {
    let bound = Bytes(RECORD_BYTES);
    let mut desk = Desk::new(Some(bound));
    desk.meet();
    desk.start(true);
    assert_eq!(desk.no_room(), Some((2 * RECORD_BYTES, bound.0)));
    assert!(desk.pools.is_empty() && desk.saves.is_empty());
}

#[test]
fn a_bound_that_is_changed_counts_from_the_next_item_on() {
    for (before, after) in [(3, 2), (2, 3)] {
        let bound = |chunks| Some(Bytes(chunks * RECORD_BYTES));
        let mut desk = Desk::keeping_of(record(true), bound(before));
        for (sequence, chunk) in [(21, 3), (22, 5)] {
            desk.zero(sequence, chunk);
            desk.preserve();
        }
        desk.bound(bound(after));
        desk.zero(23, 7);
        assert_eq!(desk.no_room().is_some(), after == 2, "{before}, then {after}");
    }
}

#[test]
fn a_stream_that_goes_on_behind_items_let_go_for_want_of_room_is_not_taken_up() {
    for (missed, consistent) in [(0, true), (2, true), (2, false)] {
        let mut desk = Desk::short();
        (0..missed).for_each(|n| desk.zero(29 + n, 7));
        assert!(!desk.gone);
        desk.go_on(29 + missed, consistent);
        assert!(desk.gone, "{missed} items were let go");
        assert!(desk.saves.is_empty());
    }
}

#[test]
fn a_source_that_went_on_in_order_before_the_room_ran_out_is_met_again() {
    let mut desk = Desk::bounded();
    desk.go_on(29, true);
    (0..2).for_each(|_| _ = desk.preserve());
    desk.store_all();
    assert!(desk.no_room().is_some() && desk.gone);
}

#[test]
fn an_update_that_begins_anew_after_a_want_of_room_is_taken() {
    let mut desk = Desk::short();
    desk.zero(29, 7);
    desk.go_on(40, false);
    assert!(!desk.gone);
}

#[test]
fn items_that_wait_for_room_count_as_what_the_image_may_hold() {
    let mut parked = Desk::keeping();
    (1..8).for_each(|n| parked.zero(20 + n, n));
    for (first, desk) in [(2, Desk::short()), (1, parked)] {
        let Engine { standing, record, local, .. } = &desk.engine;
        let places = standing.unsettled(record, local);
        for waits in first..8 {
            let place = (VolumeIndex(0), Extent::new(waits * CHUNK_BYTES, 4096));
            assert!(places.contains(&place), "chunk {waits} of {places:?}");
        }
    }
}

#[test]
fn a_follower_full_of_items_that_wait_for_room_hears_that_the_kept_image_is_given_up() {
    let mut desk = Desk::bounded();
    desk.engine.bound_received(4);
    desk.zero(29, 7);
    assert!(desk.paused, "it holds more than four");
    (0..2).for_each(|_| _ = desk.preserve());
    desk.store_all();
    assert!(desk.no_room().is_some() && !desk.paused, "what it reads now is let go");
    desk.start_at(40, true);
    assert!(!desk.paused, "there is no room for this one either");
    desk.start_at(50, false);
    assert!(desk.paused, "what comes behind this one is taken");
    desk.unlist(PoolOutcome::Done);
    desk.store_all();
    assert!(!desk.paused, "what waited for room is applied");
    // Its flush falls due.
    (0..50).for_each(|_| desk.tell(Event::Tick));
    desk.store_all();
    assert!(!desk.save().consistent && !desk.gone, "it goes on without");
}
