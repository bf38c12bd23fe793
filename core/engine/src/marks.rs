// SPDX-License-Identifier: Apache-2.0
//! The mark map against one peer: which regions may differ from its copy.
//!
//! A region is marked for one of two reasons, kept apart because they end differently:
//! * *stale*: order was lost there, and only the copier can end it (a bit per region);
//! * *pending*: items in the queue touch it, and it ends when the peer has the last of them durable (a count per
//!   touched region, in a table that is as large as the queue, not as the volume).
//!
//! So a mark knows its position while streaming (rule 6): the position of the last pending item. When the queue is
//! dropped, pending becomes stale. The map is in memory; the durable pages of the ledger come behind it.

use crate::config::REGION;
use alloc::vec;
use alloc::vec::Vec;
use helio_units::{Bytes, Extent, VolumeIndex};

/// A region of a group: volumes lie one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Region(pub(crate) u64);

/// The map drawn above.
#[derive(Debug)]
pub(crate) struct Marks {
    /// First region of each volume, and the count of all at the end.
    starts: Vec<u64>,
    sizes: Vec<Bytes>,
    stale: Vec<u64>,
    /// Being copied: cleared from `stale` when durable at the peer, unless staled again meanwhile.
    copying: Vec<u64>,
    stale_count: u64,
    pending: Counts,
}

impl Marks {
    pub(crate) fn new(sizes: &[Bytes]) -> Self {
        let mut starts = vec![0];
        for size in sizes {
            starts.push(starts[starts.len() - 1] + size.0.div_ceil(REGION.0));
        }
        let words = starts[starts.len() - 1].div_ceil(64) as usize;
        Self {
            starts,
            sizes: sizes.to_vec(),
            stale: vec![0; words],
            copying: vec![0; words],
            stale_count: 0,
            pending: Counts::default(),
        }
    }

    fn total(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    fn regions(&self, volume: VolumeIndex, extent: Extent) -> core::ops::Range<u64> {
        let start = self.starts[usize::from(volume.0)];
        start + extent.offset / REGION.0..start + extent.end().div_ceil(REGION.0)
    }

    /// Which volume and extent a region is; the last one of a volume may be shorter.
    pub(crate) fn place(&self, region: Region) -> (VolumeIndex, Extent) {
        let volume = self.starts.partition_point(|s| *s <= region.0) - 1;
        let offset = (region.0 - self.starts[volume]) * REGION.0;
        let length = (self.sizes[volume].0 - offset).min(REGION.0);
        (VolumeIndex(volume as u16), Extent::new(offset, length))
    }

    /// Marks every region of every volume; a whole map at once, since a large volume has millions.
    pub(crate) fn stale_all(&mut self) {
        let total = self.total();
        self.stale.fill(u64::MAX);
        if let Some(last) = self.stale.last_mut()
            && !total.is_multiple_of(64)
        {
            *last = (1 << (total % 64)) - 1;
        }
        self.copying.fill(0);
        self.stale_count = total;
    }

    /// Marks the regions of an extent until the copier has been there.
    pub(crate) fn stale(&mut self, volume: VolumeIndex, extent: Extent) {
        for region in self.regions(volume, extent) {
            self.stale_one(region);
        }
    }

    fn stale_one(&mut self, region: u64) {
        let (word, bit) = (region as usize / 64, 1 << (region % 64));
        self.stale_count += u64::from(self.stale[word] & bit == 0);
        self.stale[word] |= bit;
        self.copying[word] &= !bit;
    }

    /// An item that touches the extent entered the queue.
    pub(crate) fn pend(&mut self, volume: VolumeIndex, extent: Extent) {
        for region in self.regions(volume, extent) {
            self.pending.add(region);
        }
    }

    /// The peer has that item durable.
    pub(crate) fn unpend(&mut self, volume: VolumeIndex, extent: Extent) {
        for region in self.regions(volume, extent) {
            self.pending.remove(region);
        }
    }

    /// The next region the copier should fetch at or behind `from`, wrapping once; it counts as being copied.
    pub(crate) fn begin_copy(&mut self, from: Region) -> Option<Region> {
        let words = self.stale.len();
        let first = (from.0 / 64) as usize % words.max(1);
        for step in 0..=words {
            let word = (first + step) % words.max(1);
            let mut open = self.stale.get(word)? & !self.copying[word];
            if step == 0 {
                open &= u64::MAX << (from.0 % 64);
            }
            if open != 0 {
                let bit = open.trailing_zeros();
                self.copying[word] |= 1 << bit;
                return Some(Region(word as u64 * 64 + u64::from(bit)));
            }
        }
        None
    }

    /// The peer has the copier's item of this region durable: the mark ends, unless it was set again meanwhile.
    pub(crate) fn end_copy(&mut self, region: Region) {
        let (word, bit) = (region.0 as usize / 64, 1 << (region.0 % 64));
        if self.copying[word] & bit != 0 {
            self.copying[word] &= !bit;
            self.stale[word] &= !bit;
            self.stale_count -= 1;
        }
    }

    /// A copy of this region could not be read; it must be tried again.
    pub(crate) fn abandon_copy(&mut self, region: Region) {
        self.copying[region.0 as usize / 64] &= !(1 << (region.0 % 64));
    }

    /// No copy is under way any more; what was, must be copied again.
    pub(crate) fn abandon_copies(&mut self) {
        self.copying.fill(0);
    }

    /// The queue is gone: what was pending is stale.
    pub(crate) fn pending_to_stale(&mut self) {
        let pending = core::mem::take(&mut self.pending);
        for region in pending.keys() {
            self.stale_one(region);
        }
    }

    /// Bytes in stale regions, counted by whole regions.
    pub(crate) fn stale_bytes(&self) -> Bytes {
        REGION * self.stale_count
    }

    /// Whether nothing waits for the copier.
    pub(crate) fn none_stale(&self) -> bool {
        self.stale_count == 0
    }

    /// Whether the region at that place is marked, for either reason.
    pub(crate) fn is_marked(&self, volume: VolumeIndex, offset: u64) -> bool {
        let region = self.starts[usize::from(volume.0)] + offset / REGION.0;
        self.stale[region as usize / 64] & (1 << (region % 64)) != 0 || self.pending.has(region)
    }

    /// Marked bytes of one volume, counted by whole regions, for either reason.
    pub(crate) fn marked_bytes(&self, volume: VolumeIndex) -> Bytes {
        let at = usize::from(volume.0);
        let range = self.starts[at]..self.starts[at + 1];
        let stale =
            range.clone().filter(|r| self.stale[*r as usize / 64] & (1 << (r % 64)) != 0).count();
        let is_stale = |r: &u64| self.stale[*r as usize / 64] & (1 << (r % 64)) != 0;
        let pending = self.pending.keys().filter(|r| range.contains(r) && !is_stale(r)).count();
        REGION * (stale + pending) as u64
    }
}

/// Counts per region, for the few regions that have one: open addressing with linear probing, deletion by moving
/// the followers back. Slots hold region + 1, so that zero means free.
#[derive(Debug, Default)]
struct Counts {
    slots: Vec<(u64, u32)>,
    used: usize,
}

impl Counts {
    fn home(&self, region: u64) -> usize {
        (region.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.slots.len() - 1)
    }

    fn find(&self, region: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(region);
        while self.slots[at].0 != 0 {
            if self.slots[at].0 == region + 1 {
                return Some(at);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    fn has(&self, region: u64) -> bool {
        self.find(region).is_some()
    }

    fn add(&mut self, region: u64) {
        if let Some(at) = self.find(region) {
            self.slots[at].1 += 1;
            return;
        }
        if self.used * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        self.insert(region, 1);
    }

    fn insert(&mut self, region: u64, count: u32) {
        let mut at = self.home(region);
        while self.slots[at].0 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (region + 1, count);
        self.used += 1;
    }

    fn grow(&mut self) {
        let larger = vec![(0, 0); (self.slots.len() * 2).max(1024)];
        let old = core::mem::replace(&mut self.slots, larger);
        self.used = 0;
        for (key, count) in old.into_iter().filter(|s| s.0 != 0) {
            self.insert(key - 1, count);
        }
    }

    fn remove(&mut self, region: u64) {
        let Some(at) = self.find(region) else { panic!("region {region} was not pending") };
        self.slots[at].1 -= 1;
        if self.slots[at].1 == 0 {
            self.vacate(at);
        }
    }

    /// Frees a slot and moves back every follower whose probe passed over it.
    fn vacate(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut at = (hole + 1) & mask;
        while self.slots[at].0 != 0 {
            let home = self.home(self.slots[at].0 - 1);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[hole] = (0, 0);
        self.used -= 1;
    }

    fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().filter(|s| s.0 != 0).map(|s| s.0 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_agree_with_an_ordinary_map(steps in prop::collection::vec((0u64..3000, any::<bool>()), 0..4000)) {
            let (mut fast, mut twin) = (Counts::default(), BTreeMap::new());
            for (region, add) in steps {
                if add || !twin.contains_key(&region) {
                    fast.add(region);
                    *twin.entry(region).or_insert(0u32) += 1;
                } else {
                    fast.remove(region);
                    let count = twin.entry(region).or_insert(0);
                    *count -= 1;
                    if *count == 0 {
                        twin.remove(&region);
                    }
                }
            }
            let mut keys: Vec<u64> = fast.keys().collect();
            keys.sort_unstable();
            prop_assert_eq!(keys, twin.keys().copied().collect::<Vec<_>>());
        }
    }

    fn two_volumes() -> Marks {
        Marks::new(&[Bytes::kib(100), Bytes::mib(8)])
    }

    #[test]
    fn the_last_region_of_a_volume_may_be_short() {
        let marks = two_volumes();
        assert_eq!(marks.place(Region(1)), (VolumeIndex(0), Extent::new(65536, 36864)));
        assert_eq!(marks.place(Region(2)), (VolumeIndex(1), Extent::new(0, 65536)));
    }

    #[test]
    fn a_region_staled_while_it_is_copied_stays_stale() {
        let mut marks = two_volumes();
        marks.stale(VolumeIndex(1), Extent::new(0, 1));
        let region = marks.begin_copy(Region(0)).expect("one is stale");
        marks.stale(VolumeIndex(1), Extent::new(512, 1));
        marks.end_copy(region);
        assert!(!marks.none_stale(), "the late acknowledgement cleared a newer mark");
        assert_eq!(marks.begin_copy(Region(0)), Some(region));
        marks.end_copy(region);
        assert!(marks.none_stale());
    }

    #[test]
    fn the_copier_visits_every_region_once_and_wraps() {
        let mut marks = two_volumes();
        marks.stale_all();
        assert_eq!(marks.stale_bytes(), REGION * 130);
        let mut seen: Vec<u64> = Vec::new();
        let mut at = Region(77);
        while let Some(region) = marks.begin_copy(at) {
            seen.push(region.0);
            at = Region(region.0 + 1);
        }
        assert_eq!((seen[0], seen.len()), (77, 130));
        seen.sort_unstable();
        assert_eq!(seen, (0..130).collect::<Vec<_>>());
    }

    #[test]
    fn a_dropped_queue_turns_what_was_pending_into_stale() {
        let mut marks = two_volumes();
        marks.pend(VolumeIndex(1), Extent::new(0, 70_000));
        marks.pend(VolumeIndex(1), Extent::new(0, 512));
        marks.unpend(VolumeIndex(1), Extent::new(0, 512));
        assert!(marks.none_stale() && marks.is_marked(VolumeIndex(1), 65_536));
        marks.pending_to_stale();
        assert_eq!(marks.marked_bytes(VolumeIndex(1)), Bytes::kib(128));
        assert!(!marks.is_marked(VolumeIndex(0), 0));
    }
}
