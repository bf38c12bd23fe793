// SPDX-License-Identifier: Apache-2.0
//! What maps of changed regions cost: ours by volume and granularity, and OpenVMS's write bitmaps by their rule.

use helio_engine::REGION;
use helio_format::copying::PAGE_WORDS;
use helio_units::{Bytes, SECTOR};

/// Granularities of mark maps, the finest first, with who uses them.
pub const GRAINS: [(Bytes, &str); 5] = [
    (Bytes::kib(4), "DRBD"),
    (Bytes::kib(32), "Sun remote mirror"),
    (SHADOW_GRAIN, "OpenVMS write bitmap"),
    (REGION, "Heliograph, default"),
    (Bytes::mib(1), "Heliograph, maximum"),
];
/// What a bit of an OpenVMS write bitmap covers: 127 blocks.
pub const SHADOW_GRAIN: Bytes = Bytes(127 * SECTOR);
/// What a page of our map takes in memory, unless its regions are all clear or all marked.
const PAGE: Bytes = Bytes(PAGE_WORDS as u64 * 8);

/// A mark map: one bit for each region of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// Regions of the volume; the last may be cut short.
    pub regions: u64,
    /// The bits alone.
    pub bits: Bytes,
    /// The most our map takes in memory: whole pages. A page that is all clear or all marked takes none.
    pub most: Bytes,
}

/// The map of a volume, for one peer. Nothing where a region would have no size.
#[must_use]
pub fn map(volume: Bytes, grain: Bytes) -> Option<Map> {
    let regions = volume.0.checked_next_multiple_of(grain.0)? / grain.0;
    let bits = Bytes(regions.div_ceil(8));
    Some(Map { regions, bits, most: PAGE * bits.0.div_ceil(PAGE.0) })
}

/// The most a copier can have to send for `writes` scattered over a volume, each within one region.
#[must_use]
pub fn most_copied(writes: u64, grain: Bytes, volume: Bytes) -> Bytes {
    Bytes(writes.saturating_mul(grain.0)).min(volume)
}

/// What OpenVMS asks of each node for its write bitmaps: 24 KB, 4.5 KB for each shadow set, 2.1 KB for each gigabyte of
/// them all (KB of 1000 bytes).
#[must_use]
pub fn shadow_memory(sets: u64, gigabytes: u64) -> Bytes {
    Bytes(24_000) + Bytes(4_500) * sets + Bytes(2_100) * gigabytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_needs_two_kibibytes_of_bits() {
        let told = map(Bytes::gib(1), REGION).expect("regions have a size");
        assert_eq!((told.regions, told.bits, told.most), (16_384, Bytes::kib(2), Bytes(4064)));
        let odd = map(Bytes(REGION.0 + 1), REGION).expect("regions have a size");
        assert_eq!((odd.regions, odd.bits), (2, Bytes(1)));
        assert_eq!(map(Bytes::gib(1), Bytes(0)), None);
        assert_eq!(map(Bytes(u64::MAX), REGION), None);
    }

    #[test]
    fn scattered_writes_mark_a_region_each_until_all_is_marked() {
        assert_eq!(most_copied(1000, REGION, Bytes::gib(1)), Bytes(65_536_000));
        assert_eq!(most_copied(u64::MAX, REGION, Bytes::gib(1)), Bytes::gib(1));
    }
}
