// SPDX-License-Identifier: Apache-2.0
//! A range cut so that every part has as many clean regions as any other one.

use crate::bitmap::{Bitmap, PAGE_REGIONS};
use alloc::vec::Vec;
use core::ops::Range;

impl Bitmap {
    /// Cuts a range of regions into at most that many stretches with equal numbers of regions that are not dirty, or one more. With no more
    /// such regions than stretches, each gets one of its own.
    #[must_use]
    pub fn stretches(&self, range: Range<u64>, most: u64) -> Vec<Range<u64>> {
        let clean = self.clean_between(range.clone());
        let count = clean.min(most);
        let mut stretches = Vec::new();
        let (mut from, mut at, mut seen) = (range.start, range.start, 0);
        while (stretches.len() as u64) < count {
            let end = ((at / PAGE_REGIONS + 1) * PAGE_REGIONS).min(range.end);
            let here = self.clean_between(at..end);
            // Up to the end of the next stretch.
            let wanted = clean * (stretches.len() as u64 + 1) / count;
            if seen + here < wanted {
                (at, seen) = (end, seen + here);
                continue;
            }
            let behind = self.behind_clean(at..end, wanted - seen);
            stretches.push(from..behind);
            (from, at, seen) = (behind, behind, wanted);
        }
        stretches
    }

    fn clean_between(&self, range: Range<u64>) -> u64 {
        range.end - range.start - self.dirty_between(range)
    }

    /// The end of the shortest part of a range, from its start on, with so many regions that are not dirty.
    fn behind_clean(&self, range: Range<u64>, count: u64) -> u64 {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.clean_between(range.start..middle) < count {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use helio_units::{Bytes, Extent, VolumeIndex};

    /// Two volumes of three pages and a bit, regions of one byte, these of the second one dirty.
    fn marked(dirty: &[Range<u64>]) -> (Bitmap, Range<u64>) {
        let size = Bytes(3 * PAGE_REGIONS + 7);
        let mut bitmap = Bitmap::new(&[size, size], Bytes(1));
        for run in dirty {
            bitmap.set(VolumeIndex(1), Extent::new(run.start, run.end - run.start));
        }
        let range = bitmap.grid().volume(VolumeIndex(1));
        (bitmap, range)
    }

    #[test]
    fn every_stretch_has_as_many_clean_regions_as_any_other_or_one_more() {
        let all = 3 * PAGE_REGIONS + 7;
        let cases =
            [vec![], vec![0..PAGE_REGIONS + 5, 2 * PAGE_REGIONS..all - 100], vec![9..10, 20..21]];
        for dirty in cases {
            let (bitmap, range) = marked(&dirty);
            let clean = bitmap.clean_between(range.clone());
            let stretches = bitmap.stretches(range.clone(), 64);
            assert_eq!(stretches.len(), 64);
            assert!(stretches.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(stretches[0].start == range.start && stretches[63].end <= range.end);
            let counts = stretches.iter().map(|it| bitmap.clean_between(it.clone()));
            let counts: Vec<u64> = counts.collect();
            assert_eq!(counts.iter().sum::<u64>(), clean);
            assert!(counts.iter().all(|count| *count == clean / 64 || *count == clean / 64 + 1));
        }
    }

    #[test]
    fn each_of_few_clean_regions_has_a_stretch_of_its_own() {
        let all = 3 * PAGE_REGIONS + 7;
        let (bitmap, range) = marked(&[0..5, 6..2 * PAGE_REGIONS, 2 * PAGE_REGIONS + 1..all - 1]);
        let stretches = bitmap.stretches(range.clone(), 64);
        let ends: Vec<u64> = stretches.iter().map(|it| it.end - range.start).collect();
        assert_eq!(ends, [6, 2 * PAGE_REGIONS + 1, all]);
        let (bitmap, range) = marked(&[0..5, 5..all]);
        assert_eq!(bitmap.stretches(range, 64), []);
    }
}
