// SPDX-License-Identifier: Apache-2.0
//! How long the maps of a group are, and how a group's bytes are numbered in regions and extents.
//!
//! ```text
//!   pair 0       1               2             3 .. 7      7 ..
//!   superblock | member states | file record | directory | maps      a pair: copy A, copy B, 4096 bytes each
//! ```
//! A new file has two maps: hot extents, and behind them the bitmap of the peer. The directory says where maps lie.
//! Regions (one mark each) and extents (one hot slot each) are numbered through the group, the volumes one behind the
//! other, each volume beginning with a region and an extent of its own.

use crate::directory::MAPS_AT;
use alloc::vec::Vec;
use helio_format::directory::MapOwner;
use helio_format::hot::{EXTENT_BYTES, SLOTS_PER_PAGE};
use helio_format::marks::REGIONS_PER_PAGE;
use helio_format::members::MEMBERS_MAX;
use helio_format::page::PAIR_BYTES;
use helio_format::superblock::{
    BYTES_MAX, GRANULARITY_MAX, GRANULARITY_MIN, HOT_SLOTS_MAX, Superblock,
};
use helio_units::VolumeIndex;

/// The measures of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    sizes: Vec<u64>,
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
            sizes: sizes.into(),
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

    /// Length of a new file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(MAPS_AT + self.hot_pages() + self.mark_pages().max(1)) * PAIR_BYTES as u64
    }

    /// How many volumes the group has.
    pub(crate) fn volumes(&self) -> usize {
        self.sizes.len()
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

    /// How many pages the bitmap of the peer has.
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

    /// How many bits a bitmap has, each for `unit` bytes; every volume begins with a bit of its own. None if the group
    /// has no such bitmap.
    pub(crate) fn bits(&self, owner: MapOwner, unit: u64) -> Option<u64> {
        if unit == 0 {
            return None;
        }
        match owner {
            MapOwner::Engine => None,
            MapOwner::Peer(_) | MapOwner::Copy(_) => {
                Some(self.sizes.iter().map(|size| size.div_ceil(unit)).sum())
            }
            MapOwner::Member { volume, member } => {
                let size = self.sizes.get(usize::from(volume.0))?;
                (usize::from(member) < MEMBERS_MAX).then(|| size.div_ceil(unit))
            }
        }
    }

    /// How many pages a map has, at least one. None if the group has no such map.
    pub(crate) fn pages(&self, owner: MapOwner, unit: u64) -> Option<u32> {
        if owner == MapOwner::Engine {
            return (unit == EXTENT_BYTES).then(|| self.hot_pages());
        }
        let pages = self.bits(owner, unit)?.div_ceil(u64::from(REGIONS_PER_PAGE));
        u32::try_from(pages.max(1)).ok()
    }

    /// How many bits lie in a page of a bitmap: all it has room for, but in the last.
    pub(crate) fn bits_in(&self, owner: MapOwner, unit: u64, page: u32) -> u32 {
        let before = u64::from(page) * u64::from(REGIONS_PER_PAGE);
        let bits = self.bits(owner, unit).unwrap_or(0);
        bits.saturating_sub(before).min(u64::from(REGIONS_PER_PAGE)) as u32
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
        assert_eq!(layout.bytes(), (7 + 5) * 8192);
        let peer = MapOwner::Peer(0);
        assert_eq!([0, 1].map(|page| layout.bits_in(peer, 65536, page)), [16450, 0]);
        let member = |volume, member| MapOwner::Member { volume: VolumeIndex(volume), member };
        assert_eq!(layout.bits(member(2, 5), 65536), Some(16384));
        assert_eq!(
            (layout.bits(member(3, 0), 65536), layout.bits(member(0, 6), 65536)),
            (None, None)
        );
    }

    #[test]
    fn ten_tebibytes_take_forty_two_megabytes() {
        let layout = Layout::new(&[10 << 40], 65536, 2032);
        assert_eq!((layout.mark_pages(), layout.bytes()), (5161, 42_369_024));
    }
}
