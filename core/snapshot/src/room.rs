// SPDX-License-Identifier: Apache-2.0
//! How much room is asked for.

use helio_format::before::{CHUNK_BYTES, PAGE_BYTES};
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

/// The room for before-images, in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    reserved: u64,
    /// The most that the pool may hold; none where nothing bounds it.
    most: Option<Bytes>,
}

impl Room {
    /// So much is in use.
    pub(crate) const fn of(reserved: u64) -> Self {
        Self { reserved, most: None }
    }

    pub(crate) const fn reserved(self) -> u64 {
        self.reserved
    }

    /// That much is there from now on.
    pub(crate) const fn reserve(&mut self, chunks: u64) {
        self.reserved = chunks;
    }

    pub(crate) const fn bound(&mut self, most: Option<Bytes>) {
        self.most = most;
    }

    /// Chunks to reserve where so many are preserved of so many, and so much will be overwritten.
    pub(crate) fn asked(overwritten: Bytes, preserved: u64, total: u64) -> u64 {
        let chunks = overwritten.0.div_ceil(CHUNK_BYTES);
        (preserved + chunks + chunks / MARGIN_PART + margin(total)).min(total)
    }

    /// Whether so many chunks are more than the pool may hold.
    pub(crate) fn forbids(self, chunks: u64) -> Option<Shortage> {
        let free = self.most.filter(|most| bytes(chunks) > *most)?;
        Some(Shortage { needed: bytes(chunks), free })
    }

    /// Chunks to reserve next, where so many are needed of so many: more than is needed, so that a long run of changes does not
    /// wait for the file system again every few chunks.
    pub(crate) fn grown(self, needed: u64, total: u64) -> u64 {
        let ample = (self.reserved + self.reserved / MARGIN_PART + margin(total)).min(total);
        let most = self.most.map_or(u64::MAX, |most| most.0 / RECORD_BYTES);
        ample.max(needed).min(most.max(needed))
    }

    /// `needed` chunks are required, and the pool can have `free` bytes.
    pub(crate) const fn shortage(needed: u64, free: Bytes) -> Shortage {
        Shortage { needed: bytes(needed), free }
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

    #[test]
    fn room_grows_by_an_eighth_at_a_time() {
        const ROOM: u64 = 80_000;
        let grown = Room::of(ROOM).grown(ROOM + 1, 100 * ROOM);
        assert!((ROOM + ROOM / 8..ROOM + ROOM / 4).contains(&grown), "{grown}");
    }

    #[test]
    fn room_does_not_grow_beyond_its_bound_unless_it_must() {
        let mut room = Room::of(10);
        room.bound(Some(bytes(20)));
        assert_eq!(room.grown(15, 1 << 20), 20);
        assert_eq!(room.forbids(20), None);
        assert_eq!(room.forbids(21), Some(Room::shortage(21, bytes(20))));
    }
}
