// SPDX-License-Identifier: Apache-2.0
//! Chunks of all volumes, numbered in one row: the unit in which before-images are preserved.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use helio_format::before::CHUNK_BYTES;
use helio_ledger::Chunk;
use helio_units::{Bytes, Extent, VolumeIndex};

/// Which number each chunk has.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    /// First chunk of each volume, and the count of all at the end.
    starts: Vec<u64>,
    sizes: Vec<Bytes>,
}

impl Chunks {
    pub(crate) fn new(sizes: &[Bytes]) -> Self {
        let mut starts = vec![0];
        for size in sizes {
            starts.push(starts[starts.len() - 1] + size.0.div_ceil(CHUNK_BYTES));
        }
        Self { starts, sizes: sizes.to_vec() }
    }

    /// How many there are.
    pub(crate) fn total(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// Bytes of all volumes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.sizes.iter().fold(Bytes::ZERO, |sum, size| sum + *size)
    }

    fn number(&self, volume: VolumeIndex, offset: u64) -> u64 {
        self.starts[usize::from(volume.0)] + offset / CHUNK_BYTES
    }

    /// The chunks that an extent touches.
    pub(crate) fn touched(&self, volume: VolumeIndex, extent: Extent) -> Range<u64> {
        self.number(volume, extent.offset)..self.number(volume, extent.end() - 1) + 1
    }

    /// The number of a chunk, if it lies inside its volume.
    pub(crate) fn find(&self, (volume, extent): Chunk) -> Option<u64> {
        let size = self.sizes.get(usize::from(volume.0))?;
        (extent.end() <= size.0).then(|| self.number(volume, extent.offset))
    }

    pub(crate) fn place(&self, chunk: u64) -> Chunk {
        let volume = self.starts.partition_point(|s| *s <= chunk) - 1;
        let offset = (chunk - self.starts[volume]) * CHUNK_BYTES;
        let length = (self.sizes[volume].0 - offset).min(CHUNK_BYTES);
        (VolumeIndex(volume as u16), Extent::new(offset, length))
    }
}

/// Chunks by number, in pages of 4096.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkSet {
    pages: BTreeMap<u64, Box<[u64; 64]>>,
    count: u64,
}

impl ChunkSet {
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn has(&self, chunk: u64) -> bool {
        let page = self.pages.get(&(chunk / 4096));
        page.is_some_and(|page| page[(chunk / 64 % 64) as usize] & (1 << (chunk % 64)) != 0)
    }

    /// Returns whether it is new.
    pub(crate) fn insert(&mut self, chunk: u64) -> bool {
        let page = self.pages.entry(chunk / 4096).or_insert_with(|| Box::new([0; 64]));
        let word = &mut page[(chunk / 64 % 64) as usize];
        let new = *word & (1 << (chunk % 64)) == 0;
        *word |= 1 << (chunk % 64);
        self.count += u64::from(new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_set_of_chunks_is_a_set(chunks in prop::collection::vec(0..20_000_u64, 0..200)) {
            let (mut set, mut twin) = (ChunkSet::default(), BTreeSet::new());
            for chunk in chunks {
                prop_assert_eq!(set.insert(chunk), twin.insert(chunk));
                prop_assert_eq!(set.count, twin.len() as u64);
            }
            prop_assert!((0..20_000).all(|chunk| set.has(chunk) == twin.contains(&chunk)));
        }
    }
}
