// SPDX-License-Identifier: Apache-2.0
//! Chunks of all volumes, numbered in one row: the unit in which before-images are preserved.

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

    /// How many volumes there are.
    pub(crate) const fn volumes(&self) -> u16 {
        self.sizes.len() as u16
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
