// SPDX-License-Identifier: Apache-2.0

use super::*;
use alloc::collections::BTreeSet;
use proptest::prelude::*;

const REGION: Bytes = Bytes::kib(64);

/// Clears all regions but some, or those of an extent, or those of one that another bitmap has, too.
fn clear_some(what: u8, (bitmap, twin): (&mut Bitmap, &mut BTreeSet<u64>), at: u64, n: u64) {
    let (volume, grain) = (VolumeIndex(0), bitmap.grid().unit().0);
    let mut other = Bitmap::new(&[bitmap.grid().unit() * bitmap.grid().count()], Bytes(grain));
    let some = Extent::new(at * grain, n * grain);
    other.set(volume, some);
    match what {
        5 => {
            bitmap.clear_beside(&other);
            twin.retain(|region| (at..at + n).contains(region));
        }
        6 => {
            let before = Extent::new(0, (at + n / 2 + 1) * grain);
            bitmap.clear_extent(volume, before, Some(&other));
            twin.retain(|region| !(at..=at + n / 2).contains(region));
        }
        _ => {
            other.join_all(bitmap);
            bitmap.clear_extent(volume, some, None);
            twin.retain(|region| !(at..at + n).contains(region));
            let joined: BTreeSet<u64> = twin.iter().copied().chain(at..at + n).collect();
            assert_eq!(other.dirty_bytes(), Bytes(grain) * joined.len() as u64);
            other.clear_beside(bitmap);
            assert_eq!(other.dirty_runs(), bitmap.dirty_runs());
        }
    }
}

proptest! {
    /// The slow, obvious twin is a set of regions.
    #[test]
    fn the_paged_map_agrees_with_a_set(
        steps in prop::collection::vec((0u8..8, 0u64..70_000, 1u64..200), 1..60)
    ) {
        let grain = Bytes::kib(4);
        let size = grain * 70_300;
        let mut bitmap = Bitmap::new(&[size], grain);
        let mut twin: BTreeSet<u64> = BTreeSet::new();
        let volume = VolumeIndex(0);
        for (what, at, n) in steps {
            match what {
                0 | 1 => {
                    // Whole pages are set at once.
                    let n = if what == 1 { (n * 200).min(70_300 - at) } else { n };
                    bitmap.set(volume, Extent::new(at * grain.0, n * grain.0));
                    twin.extend(at..at + n);
                }
                2 => for _ in 0..n {
                    let found = bitmap.begin_copy(Region(at));
                    let slow = twin.range(at..).next().or_else(|| twin.iter().next()).copied();
                    prop_assert_eq!(found.map(|r| r.0), slow);
                    if let Some(region) = found {
                        bitmap.end_copy(region);
                        twin.remove(&region.0);
                    }
                },
                3 if n == 7 => {
                    bitmap.set_all();
                    twin = (0..70_300).collect();
                }
                5..8 => clear_some(what, (&mut bitmap, &mut twin), at, n),
                3 if n == 8 => {
                    bitmap.clear();
                    twin.clear();
                }
                _ => {
                    let mut other = Bitmap::new(&[size], grain);
                    for page in bitmap.dirty_pages() {
                        other.load(page, &bitmap.page_bits(page));
                    }
                    prop_assert_eq!(other.dirty_runs(), bitmap.dirty_runs());
                    prop_assert!(!other.has_unsaved());
                }
            }
            prop_assert_eq!(bitmap.dirty_bytes(), grain * twin.len() as u64);
            prop_assert_eq!(bitmap.differing_bytes(volume), grain * twin.len() as u64);
            let at = at.min(70_299);
            prop_assert_eq!(bitmap.may_differ(volume, at * grain.0), twin.contains(&at));
            let some = Extent::new(at * grain.0, 99.min(70_300 - at) * grain.0);
            prop_assert_eq!(bitmap.any_dirty(volume, some), twin.range(at..at + 99).next().is_some());
        }
    }
}

fn two_volumes() -> Bitmap {
    Bitmap::new(&[Bytes::kib(100), Bytes::mib(8)], REGION)
}

#[test]
fn regions_that_lie_side_by_side_are_shown_as_one_run_and_never_across_volumes() {
    let (first, second) = (VolumeIndex(0), VolumeIndex(1));
    let mut bitmap = two_volumes();
    let ends = [
        (first, Extent::new(REGION.0, Bytes::kib(100).0 - REGION.0)),
        (second, Extent::new(0, 2 * REGION.0)),
        (second, Extent::new(5 * REGION.0, REGION.0)),
    ];
    for (volume, extent) in ends {
        bitmap.set(volume, extent);
    }
    assert_eq!(bitmap.dirty_runs(), ends);
}

#[test]
fn the_last_region_of_a_volume_may_be_short() {
    let bitmap = two_volumes();
    assert_eq!(bitmap.place(Region(1)), (VolumeIndex(0), Extent::new(65536, 36864)));
    assert_eq!(bitmap.place(Region(2)), (VolumeIndex(1), Extent::new(0, 65536)));
}

#[test]
fn a_region_set_while_it_is_copied_stays_dirty() {
    let mut bitmap = two_volumes();
    bitmap.set(VolumeIndex(1), Extent::new(0, 1));
    let region = bitmap.begin_copy(Region(0)).expect("one is dirty");
    bitmap.set(VolumeIndex(1), Extent::new(512, 1));
    bitmap.end_copy(region);
    assert!(!bitmap.none_dirty(), "the late acknowledgement cleared a newer bit");
    assert_eq!(bitmap.begin_copy(Region(0)), Some(region));
    bitmap.end_copy(region);
    assert!(bitmap.none_dirty());
}

#[test]
fn a_region_that_is_being_copied_is_not_cleared_with_its_extent() {
    let mut bitmap = two_volumes();
    bitmap.set_all();
    let region = bitmap.begin_copy(Region(70)).expect("all are dirty");
    bitmap.clear_extent(VolumeIndex(1), Extent::new(0, Bytes::mib(8).0), None);
    bitmap.clear_beside(&two_volumes());
    assert_eq!((bitmap.dirty_bytes(), bitmap.is_saved()), (REGION, false));
    bitmap.end_copy(region);
    assert!(bitmap.none_dirty());
}

#[test]
fn the_copier_visits_every_region_once_and_wraps() {
    let mut bitmap = two_volumes();
    bitmap.set_all();
    assert_eq!(bitmap.dirty_bytes(), REGION * 130);
    let mut seen: Vec<u64> = Vec::new();
    let mut at = Region(77);
    while let Some(region) = bitmap.begin_copy(at) {
        seen.push(region.0);
        at = Region(region.0 + 1);
    }
    assert_eq!((seen[0], seen.len()), (77, 130));
    seen.sort_unstable();
    assert_eq!(seen, (0..130).collect::<Vec<_>>());
}

#[test]
fn there_is_nothing_to_find_while_every_dirty_region_is_being_copied() {
    let mut bitmap = two_volumes();
    bitmap.set(VolumeIndex(1), Extent::new(0, 1));
    let region = bitmap.begin_copy(Region(0)).expect("one is dirty");
    assert_eq!(bitmap.begin_copy(Region(0)), None);
    bitmap.abandon_copy(region);
    assert_eq!(bitmap.begin_copy(Region(0)), Some(region));
}

#[test]
fn a_full_page_has_a_bit_for_every_region_that_there_is() {
    let mut bitmap = two_volumes();
    bitmap.set_all();
    let bits = bitmap.page_bits(0);
    assert_eq!(bits[..4], [u64::MAX, u64::MAX, 0b11, 0], "130 regions");
    assert!(bits[4..].iter().all(|word| *word == 0));
}

#[test]
fn every_dirty_page_has_its_turn_however_often_the_first_one_changes() {
    let sizes = [Bytes(REGION.0 * 3 * PAGE_REGIONS)];
    let mut bitmap = Bitmap::new(&sizes, REGION);
    bitmap.set_all();
    let mut turns = Vec::new();
    while let Some(page) = bitmap.take_unsaved(1) {
        bitmap.page_saved(page, true);
        turns.push(page);
        if turns.len() < 4 {
            bitmap.clear();
            bitmap.set_all();
        }
    }
    assert_eq!(turns[..4], [0, 1, 2, 0]);
}

#[test]
fn a_dropped_queue_turns_what_was_pending_into_dirty() {
    let mut bitmap = two_volumes();
    bitmap.pend(VolumeIndex(1), Extent::new(0, 70_000));
    bitmap.pend(VolumeIndex(1), Extent::new(0, 512));
    bitmap.unpend(VolumeIndex(1), Extent::new(0, 512));
    assert!(bitmap.none_dirty() && bitmap.may_differ(VolumeIndex(1), 65_536));
    bitmap.pending_to_dirty();
    assert_eq!(bitmap.differing_bytes(VolumeIndex(1)), Bytes::kib(128));
    assert!(!bitmap.may_differ(VolumeIndex(0), 0));
}
