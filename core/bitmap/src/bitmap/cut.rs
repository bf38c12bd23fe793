// SPDX-License-Identifier: Apache-2.0
//! A cut: what is copied is what differed at one moment, while more becomes dirty.
//!
//! ```text
//!   dirty ──the moment──> left ──begin_copy, end_copy──> shipped ──not dirty since──> clear
//!             └── later: since ────────────────────────────┴─────────────────────────> stays dirty
//! ```
//! The bitmap itself goes on to list both, so what is saved of it always covers every difference. The other two sets are in memory
//! alone: a new process begins with another cut.

use super::{Bitmap, Region};
use alloc::boxed::Box;
use helio_plant::{Plant, planted};
use helio_units::Bytes;

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Dirty at the moment, and not copied.
    left: Bitmap,
    /// Dirty since.
    since: Bitmap,
}

impl Cut {
    /// What is dirty since, to add to it.
    pub(super) fn since_mut(&mut self) -> &mut Bitmap {
        &mut self.since
    }
}

impl Bitmap {
    /// This is the moment of a cut: until it ends, what is copied is what is dirty now.
    pub fn begin_cut(&mut self) {
        self.copying.clear();
        let mut left = Self::of(self.grid.clone());
        left.pages.clone_from(&self.pages);
        left.dirty_count = self.dirty_count;
        self.cut = Some(Box::new(Cut { left, since: Self::of(self.grid.clone()) }));
    }

    /// Every dirty region is to be copied as it is, again.
    pub fn end_cut(&mut self) {
        self.cut = None;
    }

    /// Whether anything became dirty since the moment of the cut.
    #[must_use]
    pub fn is_dirty_since_cut(&self) -> bool {
        self.cut.as_ref().is_none_or(|cut| !cut.since.none_dirty())
    }

    /// Bytes that wait for the copier, counted by whole regions.
    #[must_use]
    pub fn bytes_to_copy(&self) -> Bytes {
        self.cut.as_ref().map_or(self.dirty_bytes(), |cut| cut.left.dirty_bytes())
    }

    /// The next region of the cut that the copier should fetch; none outside of a cut.
    pub(super) fn begin_copy_of_cut(&mut self, from: Region) -> Option<Option<Region>> {
        self.cut.as_mut().map(|cut| cut.left.begin_copy(from))
    }

    /// The peer has the content of the cut of this region durable. Returns whether it is clean with that; none outside of a cut.
    pub(super) fn end_copy_of_cut(&mut self, region: Region) -> Option<bool> {
        let cut = self.cut.as_mut()?;
        let was_copied = cut.left.copying.remove(&region.0);
        if was_copied {
            cut.left.clear_one(region.0);
        }
        Some(was_copied && (!cut.since.is_set(region.0) || planted(Plant::CutForgotten)))
    }

    /// Copies of the cut, of that region or of all, are not under way any more.
    pub(super) fn abandon_copies_of_cut(&mut self, region: Option<Region>) {
        let Some(cut) = &mut self.cut else { return };
        match region {
            Some(region) => cut.left.abandon_copy(region),
            None => cut.left.abandon_copies(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use helio_units::{Extent, VolumeIndex};

    pub(in super::super) const UNIT: Bytes = Bytes::kib(64);
    pub(in super::super) const DATA: VolumeIndex = VolumeIndex(0);

    pub(in super::super) fn region(n: u64) -> Extent {
        Extent::new(n * UNIT.0, UNIT.0)
    }

    #[test]
    fn what_is_dirty_since_a_cut_stays_dirty_when_the_cut_was_copied() {
        let mut marks = Bitmap::new(&[UNIT * 8], UNIT);
        [1, 2, 3].into_iter().for_each(|n| marks.set(DATA, region(n)));
        marks.begin_cut();
        assert!(!marks.is_dirty_since_cut());
        // One before it is copied, one while it is copied, and one that is not in the cut.
        marks.set(DATA, region(1));
        let copied: alloc::vec::Vec<_> =
            core::iter::from_fn(|| marks.begin_copy(Region(0))).collect();
        assert_eq!(copied, [Region(1), Region(2), Region(3)]);
        marks.set(DATA, region(2));
        marks.set(DATA, region(6));
        marks.abandon_copy(Region(3));
        assert_eq!(marks.begin_copy(Region(0)), Some(Region(3)), "it is tried again");
        copied.into_iter().for_each(|region| marks.end_copy(region));
        assert_eq!((marks.bytes_to_copy(), marks.dirty_bytes()), (Bytes::ZERO, UNIT * 3));
        assert!(marks.is_dirty_since_cut());
        marks.end_cut();
        let dirty: alloc::vec::Vec<_> = marks.dirty_runs();
        let run = |n, count| (DATA, Extent::new(n * UNIT.0, UNIT.0 * count));
        assert_eq!(dirty, [run(1, 2), run(6, 1)]);
        assert_eq!(marks.bytes_to_copy(), UNIT * 3, "everything dirty is copied again");
    }

    #[test]
    fn whole_pages_that_become_dirty_stay_so() {
        let mut marks = Bitmap::new(&[UNIT * 8], UNIT);
        marks.set(DATA, region(5));
        marks.begin_cut();
        marks.set_all();
        assert_eq!(marks.begin_copy(Region(0)), Some(Region(5)));
        assert_eq!(marks.begin_copy(Region(0)), None);
        marks.end_copy(Region(5));
        assert_eq!(marks.dirty_bytes(), UNIT * 8);
    }
}
