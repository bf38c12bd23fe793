// SPDX-License-Identifier: Apache-2.0
//! What lies where in a metadata file, and how a group's bytes are numbered in regions and extents.
//!
//! ```text
//!   pair 0       1 .. 1+H        1+H .. 1+H+M
//!   superblock | hot pages     | mark pages          a pair: copy A, copy B, 4096 bytes each
//! ```
//! Regions (one mark each) and extents (one hot slot each) are numbered through the group, the volumes one behind the
//! other, each volume beginning with a region and an extent of its own.

use alloc::vec::Vec;
use helio_format::hot::{EXTENT_BYTES, SLOTS_PER_PAGE};
use helio_format::marks::REGIONS_PER_PAGE;
use helio_format::page::{Kind, PAIR_BYTES};
use helio_format::superblock::{
    BYTES_MAX, GRANULARITY_MAX, GRANULARITY_MIN, HOT_SLOTS_MAX, Superblock,
};
use helio_units::VolumeIndex;

/// The places of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    granularity: u32,
    hot_slots: u32,
    /// The first region of every volume, and behind the last one how many there are.
    regions: Vec<u64>,
    /// The same of extents.
    extents: Vec<u64>,
}

impl Layout {
    /// For volumes of these sizes in bytes, marks of `granularity` bytes, and `hot_slots` hot extents.
    ///
    /// # Panics
    /// On values that no superblock holds, which the configuration refuses.
    #[must_use]
    pub fn new(sizes: &[u64], granularity: u32, hot_slots: u32) -> Self {
        assert!(
            granularity.is_power_of_two()
                && (GRANULARITY_MIN..=GRANULARITY_MAX).contains(&granularity),
            "dirty regions of {granularity} bytes"
        );
        assert!((1..=HOT_SLOTS_MAX).contains(&hot_slots), "{hot_slots} hot extents");
        assert!(
            sizes.iter().fold(0u64, |sum, size| sum.saturating_add(*size)) <= BYTES_MAX,
            "volumes of {sizes:?} bytes"
        );
        let starts = |unit: u64| {
            let mut starts = Vec::from([0]);
            let mut next = 0;
            for size in sizes {
                next += size.div_ceil(unit);
                starts.push(next);
            }
            starts
        };
        Self {
            granularity,
            hot_slots,
            regions: starts(u64::from(granularity)),
            extents: starts(EXTENT_BYTES),
        }
    }

    /// Of the file that begins with this superblock.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        Self::new(&superblock.sizes, superblock.granularity, superblock.hot_slots)
    }

    /// Length of the file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.pairs()) * PAIR_BYTES as u64
    }

    /// Bytes per mark.
    #[must_use]
    pub fn granularity(&self) -> u32 {
        self.granularity
    }

    /// How many extents may be hot.
    #[must_use]
    pub fn hot_slots(&self) -> u32 {
        self.hot_slots
    }

    /// How many hot pages there are.
    #[must_use]
    pub fn hot_pages(&self) -> u32 {
        self.hot_slots.div_ceil(SLOTS_PER_PAGE as u32)
    }

    /// How many mark pages there are.
    #[must_use]
    pub fn mark_pages(&self) -> u32 {
        // 2^58 bytes in regions of 4 KiB are fewer than 2^32 pages.
        self.regions().div_ceil(u64::from(REGIONS_PER_PAGE)) as u32
    }

    /// How many regions the group has.
    #[must_use]
    pub fn regions(&self) -> u64 {
        self.regions.last().copied().unwrap_or(0)
    }

    /// How many extents the group has.
    #[must_use]
    pub fn extents(&self) -> u64 {
        self.extents.last().copied().unwrap_or(0)
    }

    /// The first region of a volume.
    #[must_use]
    pub fn region_start(&self, volume: VolumeIndex) -> u64 {
        self.regions[usize::from(volume.0)]
    }

    /// The first extent of a volume.
    #[must_use]
    pub fn extent_start(&self, volume: VolumeIndex) -> u64 {
        self.extents[usize::from(volume.0)]
    }

    /// How many regions lie in a mark page: all it has room for, but in the last.
    #[must_use]
    pub fn regions_in(&self, page: u32) -> u32 {
        let before = u64::from(page) * u64::from(REGIONS_PER_PAGE);
        self.regions().saturating_sub(before).min(u64::from(REGIONS_PER_PAGE)) as u32
    }

    /// How many pairs the file has.
    pub(crate) fn pairs(&self) -> u32 {
        1 + self.hot_pages() + self.mark_pages()
    }

    /// The number of a page's pair.
    pub(crate) fn number(&self, kind: Kind, index: u32) -> u32 {
        match kind {
            Kind::Superblock => 0,
            Kind::Hot => 1 + index,
            Kind::Marks => 1 + self.hot_pages() + index,
        }
    }

    /// The page whose pair has that number.
    pub(crate) fn page(&self, number: u32) -> (Kind, u32) {
        match number.checked_sub(1) {
            None => (Kind::Superblock, 0),
            Some(index) => match index.checked_sub(self.hot_pages()) {
                None => (Kind::Hot, index),
                Some(index) => (Kind::Marks, index),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_volume_begins_with_a_region_and_an_extent_of_its_own() {
        let layout = Layout::new(&[EXTENT_BYTES + 1, 512, 1 << 30], 65536, 2032);
        assert_eq!([0, 1, 2].map(|v| layout.region_start(VolumeIndex(v))), [0, 65, 66]);
        assert_eq!([0, 1, 2].map(|v| layout.extent_start(VolumeIndex(v))), [0, 2, 3]);
        assert_eq!((layout.regions(), layout.extents()), (66 + 16384, 3 + 256));
        assert_eq!((layout.hot_pages(), layout.mark_pages()), (4, 1));
        assert_eq!(layout.bytes(), 6 * 8192);
        assert_eq!((layout.regions_in(0), layout.regions_in(1)), (16450, 0));
    }

    #[test]
    fn ten_tebibytes_take_forty_two_megabytes() {
        let layout = Layout::new(&[10 << 40], 65536, 2032);
        assert_eq!((layout.mark_pages(), layout.bytes()), (5161, 42_319_872));
    }

    #[test]
    fn a_page_is_found_by_its_number() {
        let layout = Layout::new(&[4 << 30; 3], 4096, 509);
        assert_eq!((layout.hot_pages(), layout.mark_pages()), (2, 97));
        for number in 0..layout.pairs() {
            let (kind, index) = layout.page(number);
            assert_eq!(layout.number(kind, index), number);
        }
        assert_eq!(layout.page(2), (Kind::Hot, 1));
        assert_eq!(layout.page(3), (Kind::Marks, 0));
    }
}
