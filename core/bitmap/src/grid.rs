// SPDX-License-Identifier: Apache-2.0
//! Volumes one behind the other, divided into units of one size: regions of a bitmap, or extents.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use helio_units::{Bytes, Extent, VolumeIndex};

/// Every volume begins with a unit of its own; its last unit may be shorter.
#[derive(Clone, Debug)]
pub struct Grid {
    unit: Bytes,
    /// First unit of each volume, and the count of all at the end.
    starts: Vec<u64>,
    sizes: Vec<Bytes>,
}

impl Grid {
    /// Of volumes with these sizes.
    #[must_use]
    pub fn new(sizes: &[Bytes], unit: Bytes) -> Self {
        let mut starts = vec![0];
        for size in sizes {
            starts.push(starts[starts.len() - 1] + size.0.div_ceil(unit.0));
        }
        Self { unit, starts, sizes: sizes.to_vec() }
    }

    /// Bytes in a unit.
    #[must_use]
    pub fn unit(&self) -> Bytes {
        self.unit
    }

    /// How many units there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// The units of each volume.
    pub fn volumes(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.starts.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// The units of one volume.
    #[inline]
    #[must_use]
    pub fn volume(&self, volume: VolumeIndex) -> Range<u64> {
        let at = usize::from(volume.0);
        self.starts[at]..self.starts[at + 1]
    }

    /// The units that an extent touches.
    #[inline]
    #[must_use]
    pub fn touched(&self, volume: VolumeIndex, extent: Extent) -> Range<u64> {
        let start = self.starts[usize::from(volume.0)];
        start + extent.offset / self.unit.0..start + extent.end().div_ceil(self.unit.0)
    }

    /// Where a unit begins within its volume, in bytes.
    #[inline]
    #[must_use]
    pub fn offset(&self, volume: VolumeIndex, number: u64) -> u64 {
        (number - self.starts[usize::from(volume.0)]) * self.unit.0
    }

    /// Where a unit is.
    #[must_use]
    pub fn place(&self, number: u64) -> (VolumeIndex, Extent) {
        let at = self.starts.partition_point(|start| *start <= number) - 1;
        let volume = VolumeIndex(at as u16);
        let offset = self.offset(volume, number);
        let length = (self.sizes[at].0 - offset).min(self.unit.0);
        (volume, Extent::new(offset, length))
    }

    /// All of each volume that is not empty.
    pub fn whole(&self) -> impl Iterator<Item = (VolumeIndex, Extent)> + '_ {
        let volumes = (0..).map(VolumeIndex).zip(&self.sizes).filter(|(_, size)| size.0 > 0);
        volumes.map(|(volume, size)| (volume, Extent::new(0, size.0)))
    }
}

/// Adds an extent behind runs, joined to the last one if it begins where that ends.
pub fn add_run(runs: &mut Vec<(VolumeIndex, Extent)>, volume: VolumeIndex, extent: Extent) {
    match runs.last_mut() {
        Some((last, run)) if *last == volume && run.end() == extent.offset => {
            run.length += extent.length;
        }
        _ => runs.push((volume, extent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_one_place_and_is_touched_there() {
        let grid = Grid::new(&[Bytes(10), Bytes(0), Bytes(8)], Bytes(4));
        assert_eq!(grid.count(), 5);
        let places = [(0, 0, 4), (0, 4, 4), (0, 8, 2), (2, 0, 4), (2, 4, 4)];
        for (number, (volume, offset, length)) in (0..).zip(places) {
            let place = (VolumeIndex(volume), Extent::new(offset, length));
            assert_eq!(grid.place(number), place);
            assert_eq!(grid.touched(place.0, place.1), number..number + 1);
            assert!(grid.volume(place.0).contains(&number));
        }
        let whole = [(VolumeIndex(0), Extent::new(0, 10)), (VolumeIndex(2), Extent::new(0, 8))];
        assert_eq!(grid.whole().collect::<Vec<_>>(), whole);
    }

    #[test]
    fn an_extent_touches_every_unit_that_it_has_a_byte_in() {
        let grid = Grid::new(&[Bytes(64)], Bytes(4));
        for (offset, length, touched) in [(0, 1, 0..1), (3, 2, 0..2), (4, 8, 1..3), (7, 0, 1..2)] {
            assert_eq!(grid.touched(VolumeIndex(0), Extent::new(offset, length)), touched);
        }
    }
}
