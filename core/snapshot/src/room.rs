// SPDX-License-Identifier: Apache-2.0
//! How much room is asked for.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use helio_format::before::{CHUNK_BYTES, CopyView, PAGE_BYTES, Slot};
use helio_stack::Shortage;
use helio_units::Bytes;

/// Clients write during a resync: beyond the room for what the resync overwrites, an eighth of that is reserved, ...
const MARGIN_PART: u64 = 8;
/// ... and that much more, at most that part of the volumes.
const MARGIN: Bytes = Bytes::mib(16);
const MARGIN_OF_ALL: u64 = 64;
/// Bytes of the pool that one chunk takes.
const RECORD_BYTES: u64 = CHUNK_BYTES + PAGE_BYTES as u64;

/// Bytes of the pool that so many chunks take.
const fn bytes(chunks: u64) -> Bytes {
    Bytes(chunks * RECORD_BYTES)
}

/// The room for before-images: slots of the pool, one for a chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    reserved: u64,
    /// Runs of slots that are reserved and free: where each begins, and its end.
    free: BTreeMap<u32, u32>,
    /// How many slots these are.
    unused: u64,
    /// So many of these are promised to a required copy: branches do not take them.
    promised: u64,
    /// The most that the pool may hold; none where nothing bounds it.
    most: Option<Bytes>,
}

impl Room {
    /// The pool has so many slots, of which these are in use.
    pub(crate) fn found(slots: u32, used: impl IntoIterator<Item = Slot>) -> Self {
        let mut used: Vec<u32> = used.into_iter().map(|slot| slot.0).collect();
        used.sort_unstable();
        let mut room = Self { reserved: u64::from(slots), ..Self::default() };
        let starts = core::iter::once(0).chain(used.iter().map(|slot| slot + 1));
        let ends = used.iter().copied().chain(core::iter::once(slots));
        starts.zip(ends).filter(|(start, end)| start < end).for_each(|(s, e)| room.give_run(s, e));
        room
    }

    /// How many slots are in use.
    pub(crate) const fn used(&self) -> u64 {
        self.reserved - self.unused
    }

    /// How many are free.
    pub(crate) const fn unused(&self) -> u64 {
        self.unused
    }

    /// How many branches may take.
    pub(crate) const fn for_branches(&self) -> u64 {
        self.unused.saturating_sub(self.promised)
    }

    /// How many slots there have to be in all for branches to take one more; none where there can be no more.
    pub(crate) const fn next_for_branches(&self) -> Option<u64> {
        let slots = self.used() + self.promised + 1;
        if slots > self.reserved && self.reserved < u32::MAX as u64 { Some(slots) } else { None }
    }

    /// All free slots are promised to a required copy, or none.
    pub(crate) const fn promise(&mut self, all: bool) {
        self.promised = if all { self.unused } else { 0 };
    }

    pub(crate) const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// That many slots are there from now on.
    pub(crate) fn reserve(&mut self, slots: u64) {
        let slots = slots.min(u64::from(u32::MAX));
        if slots > self.reserved {
            self.give_run(self.reserved as u32, slots as u32);
            self.reserved = slots;
        }
    }

    /// The pool gave everything back.
    pub(crate) fn clear(&mut self) {
        *self = Self { most: self.most, ..Self::default() };
    }

    /// A free slot for that.
    ///
    /// # Panics
    /// Where there is none.
    pub(crate) fn take(&mut self, of: CopyView) -> Slot {
        let Some((start, end)) = self.free.pop_first() else { panic!("no slot is free") };
        if start + 1 < end {
            self.free.insert(start + 1, end);
        }
        self.unused -= 1;
        if let CopyView::Cut(_) = of {
            self.promised = self.promised.saturating_sub(1);
        }
        Slot(start)
    }

    /// What lies there is needed no more.
    pub(crate) fn give(&mut self, Slot(slot): Slot) {
        self.give_run(slot, slot + 1);
    }

    fn give_run(&mut self, start: u32, end: u32) {
        self.unused += u64::from(end - start);
        let end = self.free.remove(&end).unwrap_or(end);
        match self.free.range_mut(..start).next_back() {
            Some((_, before)) if *before == start => *before = end,
            _ => _ = self.free.insert(start, end),
        }
    }

    pub(crate) const fn bound(&mut self, most: Option<Bytes>) {
        self.most = most;
    }

    /// Slots to reserve in all, where so much of so many chunks will be overwritten, of which so many are preserved already.
    pub(crate) fn asked(&self, overwritten: Bytes, preserved: u64, total: u64) -> u64 {
        let chunks = overwritten.0.div_ceil(CHUNK_BYTES);
        let more = (chunks + chunks / MARGIN_PART + margin(total)).min(total - preserved);
        self.used() + more
    }

    /// Whether so many chunks are more than the pool may hold.
    pub(crate) fn forbids(&self, chunks: u64) -> Option<Shortage> {
        let free = self.most.filter(|most| bytes(chunks) > *most)?;
        Some(Shortage { needed: bytes(chunks), free })
    }

    /// Slots to reserve next, where so many are needed, and the youngest copy can need so many of so many chunks: more than is needed,
    /// so that a long run of changes does not wait for the file system again every few chunks.
    pub(crate) fn grown(&self, needed: u64, preserved: u64, total: u64) -> u64 {
        let ample = self.reserved + self.reserved / MARGIN_PART + margin(total);
        let ample = ample.min(self.used() + (total - preserved));
        let most = self.most.map_or(u64::MAX, |most| most.0 / RECORD_BYTES);
        ample.max(needed).min(most.max(self.used() + 1))
    }

    /// `needed` chunks are required, and the pool can have `free` bytes.
    pub(crate) const fn shortage(needed: u64, free: Bytes) -> Shortage {
        Shortage { needed: bytes(needed), free }
    }

    /// Bytes of the pool that so many chunks take.
    pub(crate) const fn bytes(chunks: u64) -> Bytes {
        bytes(chunks)
    }

    /// Whether so many fit in `free`.
    pub(crate) fn fits(needed: u64, free: Bytes) -> bool {
        bytes(needed) <= free
    }
}

fn margin(total: u64) -> u64 {
    (MARGIN.0 / CHUNK_BYTES).min(total / MARGIN_OF_ALL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::before::CopyNumber;

    const BEFORE: CopyView = CopyView::Cut(CopyNumber(1));

    #[test]
    fn branches_take_what_is_free_and_not_promised() {
        let branch = CopyView::Branch(CopyNumber(1));
        let mut room = Room::found(3, [Slot(0)]);
        assert_eq!((room.for_branches(), room.next_for_branches()), (2, None));
        room.promise(true);
        assert_eq!((room.for_branches(), room.next_for_branches()), (0, Some(4)));
        room.reserve(4);
        assert_eq!((room.for_branches(), room.take(branch)), (1, Slot(1)));
        assert_eq!((room.for_branches(), room.unused()), (0, 2));
        assert_eq!(room.take(BEFORE), Slot(2));
        room.give(Slot(1));
        assert_eq!(room.for_branches(), 1, "what a branch leaves is free");
        room.promise(false);
        assert_eq!(room.for_branches(), 2);
    }

    #[test]
    fn room_grows_by_an_eighth_at_a_time() {
        const ROOM: u64 = 80_000;
        let grown =
            Room::found(ROOM as u32, (0..ROOM as u32).map(Slot)).grown(ROOM + 1, 0, 100 * ROOM);
        assert!((ROOM + ROOM / 8..ROOM + ROOM / 4).contains(&grown), "{grown}");
    }

    #[test]
    fn slots_are_taken_once_from_the_front_and_may_be_taken_again() {
        let mut room = Room::found(6, [Slot(1), Slot(4)]);
        let taken = [0, 2, 3, 5].map(Slot);
        assert_eq!([(); 4].map(|()| room.take(BEFORE)), taken);
        assert!(room.free.is_empty());
        [3, 1, 2].into_iter().for_each(|slot| room.give(Slot(slot)));
        assert_eq!(room.free, BTreeMap::from([(1, 4)]));
        room.reserve(8);
        assert_eq!((room.free.clone(), room.reserved()), (BTreeMap::from([(1, 4), (6, 8)]), 8));
    }

    #[test]
    fn room_does_not_grow_beyond_its_bound_unless_it_must() {
        let mut room = Room::found(10, (0..10).map(Slot));
        room.bound(Some(bytes(20)));
        assert_eq!(room.grown(15, 10, 1 << 20), 20);
        assert_eq!(room.forbids(20), None);
        assert_eq!(room.forbids(21), Some(Room::shortage(21, bytes(20))));
    }
}
