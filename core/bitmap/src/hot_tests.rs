// SPDX-License-Identifier: Apache-2.0

use super::*;

const V: VolumeIndex = VolumeIndex(0);
const MIB: u64 = 1 << 20;

fn cover(most: usize) -> HotExtents<()> {
    HotExtents::new(&[Bytes::mib(100)], most)
}

fn at(n: u64) -> Extent {
    Extent::new(n * EXTENT.0, 4096)
}

fn turn_hot(cover: &mut HotExtents<()>, n: u64) {
    assert!(!cover.enter(V, at(n), Some(Sequence(n + 1))));
    let change = cover.change().expect("something is wanted");
    assert!(cover.kept(&change).is_empty());
    cover.leave(V, at(n));
}

#[test]
fn a_cover_is_full_where_somebody_waits_for_a_slot_that_is_not_there() {
    let mut cover = cover(1);
    turn_hot(&mut cover, 0);
    assert!(!cover.is_full(), "nobody waits");
    assert!(!cover.enter(V, at(1), None));
    assert!(cover.is_full());
}

#[test]
fn an_extent_that_was_hot_when_the_process_before_ended_takes_up_a_slot() {
    let mut cover = cover(1);
    cover.load(0, 0);
    cover.load(0, 0);
    assert_eq!(cover.hot(), 1);
    assert!(!cover.enter(V, at(1), None));
    assert!(cover.change().is_none() && cover.is_full());
}

#[test]
fn changes_that_are_under_way_together_end_in_any_order() {
    let mut cover = cover(8);
    let changes = [0, 1].map(|n| {
        assert!(!cover.enter(V, at(n), None));
        cover.change().expect("an extent is wanted")
    });
    assert!(changes[0].ticket < changes[1].ticket);
    cover.kept(&changes[1]);
    assert!(cover.enter(V, at(1), None) && !cover.enter(V, at(0), None));
    cover.kept(&changes[0]);
    assert!(cover.enter(V, at(0), None));
}

#[test]
fn what_enters_a_cold_extent_waits_and_what_enters_a_hot_one_does_not() {
    let mut cover = cover(8);
    assert!(!cover.enter(V, Extent::new(3 * MIB, 2 * MIB), None), "two cold extents");
    cover.park(IoId(7), V, (), Extent::new(3 * MIB, 2 * MIB));
    let change = cover.change().expect("two extents are wanted");
    assert_eq!((change.add.len(), cover.hot()), (2, 2));
    assert!(!cover.enter(V, at(0), None), "kept is not asked for");
    cover.park(IoId(8), V, (), at(0));
    assert!(cover.change().is_none(), "it was asked for already");
    let ready: Vec<u64> = cover.kept(&change).iter().map(|p| p.io.0).collect();
    assert_eq!(ready, [7, 8]);
    assert!(cover.enter(V, at(1), None));
}

#[test]
fn an_extent_turns_cold_only_behind_a_flush_begun_after_its_last_operation() {
    let mut cover = cover(8);
    let early = cover.flush_begins(V);
    turn_hot(&mut cover, 0);
    cover.flush_ended(V, early, true);
    cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
    assert!(cover.change().is_none(), "the flush began before the write ended");
    let failed = cover.flush_begins(V);
    cover.distrust_flushes(V);
    cover.flush_ended(V, failed, false);
    cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
    assert!(cover.change().is_none(), "the flush failed");
    let late = cover.flush_begins(V);
    cover.flush_ended(V, late, true);
    cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
    let change = cover.change().expect("it may go now");
    assert_eq!(change.remove, [0]);
    assert!(!cover.enter(V, at(0), None), "nobody is let in while it goes");
    assert!(cover.kept(&change).is_empty());
    assert_eq!(cover.change().map(|c| c.add), Some(vec![0]), "and it comes back");
}

#[test]
fn extents_are_bounded_and_the_coldest_go_first() {
    let mut cover = cover(8);
    for n in 0..8 {
        turn_hot(&mut cover, n);
    }
    assert!(cover.is_short());
    assert!(!cover.enter(V, at(20), None));
    assert!(cover.change().is_none(), "there is no room");
    assert!(cover.wants_flush(V));
    let flush = cover.flush_begins(V);
    cover.flush_ended(V, flush, true);
    cover.evict(false, &[Cooling::Flushed], |slot, _, _, _| slot.last != Some(Sequence(1)));
    let change = cover.change().expect("two go, and a quarter is free");
    assert_eq!(change.remove, [1, 2], "the first may not go");
    cover.kept(&change);
    assert_eq!(cover.change().map(|c| c.add), Some(vec![20]));
}

#[test]
fn a_hold_makes_an_extent_hot_ahead_once_and_keeps_no_slot() {
    let mut cover = cover(4);
    (0..4).for_each(|n| cover.hold(V, at(n), Some(Sequence(9))));
    let change = cover.change().expect("there is room");
    assert_eq!(change.add, [0, 1, 2], "a quarter stays free");
    cover.kept(&change);
    assert!(cover.enter(V, at(1), None));
    let flush = cover.flush_begins(V);
    cover.flush_ended(V, flush, true);
    cover.evict(true, &[Cooling::Flushed], |slot, _, _, _| slot.last == Some(Sequence(9)));
    let change = cover.change().expect("nobody is in two of them");
    assert_eq!(change.remove, [0, 2]);
    cover.kept(&change);
    assert_eq!(cover.change(), None, "a hold wants nothing back");
}

#[test]
fn a_hold_names_the_item_to_what_enters() {
    let mut cover = cover(1);
    cover.hold(V, at(0), Some(Sequence(9)));
    assert_eq!(cover.change(), None, "nothing is to be kept for a hold");
    assert!(!cover.is_cold() && !cover.is_full());
    assert!(!cover.enter(V, at(0), None));
    let change = cover.change().expect("what enters wants the extent");
    cover.kept(&change);
    cover.leave(V, at(0));
    let flush = cover.flush_begins(V);
    cover.flush_ended(V, flush, true);
    cover.evict(true, &[Cooling::Flushed], |slot, _, _, _| slot.last == Some(Sequence(9)));
    let change = cover.change().expect("the extent turns cold under the hold");
    assert_eq!(change.remove, [0]);
    cover.kept(&change);
    assert_eq!(cover.change(), None, "and is not wanted back");
    cover.release(V, at(0));
    assert!(cover.is_cold());
    cover.enter(V, at(0), None);
    assert_eq!(cover.slots[&0].last, None, "the hold has ended");
}

#[test]
fn what_a_crash_left_stays_hot_until_every_layer_lets_it_cool() {
    let mut cover = cover(2);
    cover.load(0, 0b11);
    assert!(cover.is_cold(), "nobody waits for what layers own");
    let flush = cover.flush_begins(V);
    cover.flush_ended(V, flush, true);
    for layer in 0..2 {
        assert!(!cover.is_stuck() && !cover.wants_flush(V));
        cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
        assert_eq!(cover.change(), None);
        cover.let_cool(V, at(0), layer);
    }
    cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
    assert_eq!(cover.change(), None, "what was found equal is not durable yet");
    let flush = cover.flush_begins(V);
    cover.flush_ended(V, flush, true);
    cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
    assert_eq!(cover.change().map(|change| change.remove), Some(vec![0]));
}

#[test]
fn what_a_layer_owns_under_its_operation_stays_hot_behind_it() {
    let mut cover = cover(2);
    turn_hot(&mut cover, 0);
    cover.own(V, at(0), 3);
    let flush = cover.flush_begins(V);
    cover.flush_ended(V, flush, true);
    cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
    assert_eq!(cover.change(), None);
    cover.let_cool(V, at(0), 3);
    assert!(cover.wants_flush(V));
}

#[test]
fn one_owned_extent_does_not_hide_that_nothing_else_frees_a_slot() {
    let mut cover = cover(2);
    cover.load(0, 0b1);
    turn_hot(&mut cover, 1);
    cover.enter(V, at(2), None);
    assert!(cover.is_stuck(), "extent 1 is hot, and no layer will let it cool");
    assert!(!cover.waits_for_layers(), "it may cool behind a flush");
    cover.own(V, at(1), 0);
    assert!(cover.waits_for_layers());
    cover.let_cool(V, at(0), 0);
    assert!(!cover.waits_for_layers());
}

/// A flush covers everything that was written, and what it covers may turn cold.
fn flush_and_evict(cover: &mut HotExtents<()>) {
    let flush = cover.flush_begins(V);
    cover.flush_ended(V, flush, true);
    cover.evict(true, &[Cooling::Flushed], |_, _, _, _| true);
}

#[test]
fn a_layer_owns_no_extent_that_is_cold_or_turns_cold() {
    let mut cover = cover(2);
    turn_hot(&mut cover, 0);
    flush_and_evict(&mut cover);
    let change = cover.change().expect("it turns cold");
    for n in 0..2 {
        cover.own(V, at(n), 3);
    }
    cover.kept(&change);
    assert_eq!(cover.hot(), 0);
    (0..2).for_each(|n| cover.let_cool(V, at(n), 3));
    turn_hot(&mut cover, 1);
    flush_and_evict(&mut cover);
    assert_eq!(cover.change().map(|change| change.remove), Some(vec![1]), "nothing owns it");
}

#[test]
fn an_extent_that_an_operation_enters_while_it_turns_cold_stays_with_the_layer_that_owns_it() {
    let mut cover = cover(2);
    turn_hot(&mut cover, 0);
    flush_and_evict(&mut cover);
    let change = cover.change().expect("it turns cold");
    assert!(!cover.enter(V, at(0), None));
    cover.own(V, at(0), 3);
    cover.kept(&change);
    let change = cover.change().expect("it turns hot again");
    cover.kept(&change);
    cover.leave(V, at(0));
    flush_and_evict(&mut cover);
    assert_eq!(cover.change(), None);
}

#[test]
fn what_was_touched_is_known_to_a_64th() {
    let mut cover = cover(8);
    cover.enter(V, Extent::new(4 * MIB - 65536, 131_072), None);
    let touched = cover.touched(|_| true);
    assert_eq!(touched, [(V, Extent::new(4 * MIB - 65536, 131_072))], "two extents, one run");
    let mut loaded = HotExtents::<()>::new(&[Bytes::mib(5)], 8);
    loaded.load(1, 0);
    assert_eq!(loaded.touched(|s| s.last.is_none()), [(V, Extent::new(4 * MIB, MIB))]);
}

#[test]
fn places_with_untouched_parts_or_on_another_volume_between_are_not_joined() {
    let (other, part) = (VolumeIndex(1), 65536);
    let mut cover = HotExtents::<()>::new(&[Bytes::mib(4), Bytes::mib(4)], 8);
    let places = [
        (V, Extent::new(0, part)),
        (V, Extent::new(2 * part, part)),
        (V, Extent::new(4 * MIB - part, part)),
        (other, Extent::new(0, part)),
    ];
    for (volume, extent) in places {
        cover.enter(volume, extent, None);
    }
    assert_eq!(cover.touched(|_| true), places);
}
