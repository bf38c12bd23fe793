// SPDX-License-Identifier: Apache-2.0
//! Which blocks differ between the two copies, a bit each.

use crate::BLOCK;
use helio_units::{Extent, VolumeIndex};
use std::collections::HashMap;

/// Words of a page: 4,096 blocks, 16 MiB of a volume.
const WORDS: usize = 64;

/// Where the copies differ; pages exist where anything was ever written.
#[derive(Debug, Default)]
pub(super) struct Differing {
    pages: HashMap<(VolumeIndex, u64), Box<[u64; WORDS]>>,
}

impl Differing {
    /// One side has something new there.
    pub(super) fn set(&mut self, volume: VolumeIndex, extent: Extent) {
        for block in blocks(extent) {
            let (page, word, bit) = place(block);
            let page = self.pages.entry((volume, page)).or_insert_with(|| Box::new([0; WORDS]));
            page[word] |= bit;
        }
    }

    /// The other side has it too.
    pub(super) fn clear(&mut self, volume: VolumeIndex, extent: Extent) {
        for block in blocks(extent) {
            let (page, word, bit) = place(block);
            if let Some(page) = self.pages.get_mut(&(volume, page)) {
                page[word] &= !bit;
            }
        }
    }

    /// Whether any block of it differs.
    pub(super) fn any(&self, volume: VolumeIndex, extent: Extent) -> bool {
        blocks(extent).any(|block| {
            let (page, word, bit) = place(block);
            self.pages.get(&(volume, page)).is_some_and(|page| page[word] & bit != 0)
        })
    }

    /// How many blocks differ.
    pub(super) fn count(&self) -> u64 {
        self.pages.values().flat_map(|page| page.iter()).map(|w| u64::from(w.count_ones())).sum()
    }
}

fn blocks(extent: Extent) -> core::ops::Range<u64> {
    extent.offset / BLOCK.0..extent.end().div_ceil(BLOCK.0)
}

fn place(block: u64) -> (u64, usize, u64) {
    let bits = WORDS as u64 * 64;
    (block / bits, (block % bits / 64) as usize, 1 << (block % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_differs_until_it_is_cleared() {
        let mut differing = Differing::default();
        let volume = VolumeIndex(1);
        differing.set(volume, Extent::new(4095, 2));
        assert_eq!(differing.count(), 2, "a write over a boundary touches both blocks");
        assert!(
            differing.any(volume, Extent::new(0, 1)) && differing.any(volume, Extent::new(8191, 9))
        );
        assert!(!differing.any(VolumeIndex(0), Extent::new(0, 1 << 30)));
        differing.set(volume, Extent::new(1 << 30, 64 << 20));
        differing.clear(volume, Extent::new(1 << 30, 32 << 20));
        assert_eq!(differing.count(), 2 + (32 << 20) / 4096);
    }
}
