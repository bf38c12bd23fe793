// SPDX-License-Identifier: Apache-2.0
//! An update of a peer that keeps its image of before: until the update ends the peer may go back to that, and lack again whatever it
//! got since, though it had it durable.
//!
//! ```text
//!   dirty or pending ──durable at the peer──> clear, and got ──the update ends──> clear
//!                                                  └── this process ends ──> dirty
//! ```
//! What the peer got is not copied again in this process. It counts in what is saved, and in what this node says its peer may lack.

use super::{Bitmap, PAGE_REGIONS};
use alloc::boxed::Box;
use core::ops::Range;
use helio_format::copying::PageBits;
use helio_plant::{Plant, planted};

impl Bitmap {
    /// An update of the peer begins, or goes on. `anew`: the peer keeps the image that it has now.
    pub fn begin_update(&mut self, anew: bool) {
        if anew {
            self.end_update();
        }
        if self.update.is_none() {
            self.update = Some(Box::new(Self::of(self.grid.clone())));
        }
    }

    /// The peer keeps no image of before any more.
    pub fn end_update(&mut self) {
        if let Some(got) = self.update.take() {
            self.unsaved.extend(got.dirty_pages());
        }
    }

    /// The peer has these regions durable.
    pub(super) fn peer_got(&mut self, regions: Range<u64>) {
        if planted(Plant::UpdateForgotten) {
            return;
        }
        let Some(mut got) = self.update.take() else { return };
        for region in regions {
            let (page, new) = ((region / PAGE_REGIONS) as u32, !got.is_set(region));
            got.set_one(region);
            // What was dirty is recorded, or has yet to be saved as that.
            if new && !self.is_set(region) {
                self.unsaved.insert(page);
                self.saved_at[page as usize] = 0;
            }
        }
        self.update = Some(got);
    }

    /// The bits of a page as they are saved: dirty, or got in an update that has not ended.
    #[must_use]
    pub fn recorded_bits(&self, page: u32) -> PageBits {
        let mut bits = self.page_bits(page);
        if let Some(got) = &self.update {
            let got = got.page_bits(page);
            bits.iter_mut().zip(got.iter()).for_each(|(bits, got)| *bits |= got);
        }
        bits
    }

    /// How many regions are not dirty, and the peer lacks them again if it goes back.
    pub(super) fn got_count(&self) -> u64 {
        let Some(got) = &self.update else { return 0 };
        let clear = |page: u32| {
            let words = (0..PAGE_REGIONS).step_by(64);
            let clear = words.map(|at| got.word(page as usize, at) & !self.word(page as usize, at));
            clear.map(|word| u64::from(word.count_ones())).sum::<u64>()
        };
        got.dirty_pages().map(clear).sum()
    }

    /// Whether the peer lacks anything again if it goes back.
    #[must_use]
    pub fn has_got(&self) -> bool {
        self.update.as_ref().is_some_and(|got| !got.none_dirty())
    }

    /// Adds everything to ours that is recorded of `other`, a bitmap of the same regions.
    pub fn join_recorded(&mut self, other: &Self) {
        self.join_all(other);
        if let Some(got) = &other.update {
            self.join_all(got);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Region;
    use super::*;
    use alloc::vec::Vec;
    use helio_units::{Bytes, Extent, VolumeIndex};

    const UNIT: Bytes = Bytes::kib(64);
    const DATA: VolumeIndex = VolumeIndex(0);

    fn region(n: u64) -> Extent {
        Extent::new(n * UNIT.0, UNIT.0)
    }

    /// What another process reads of it.
    fn saved(marks: &Bitmap) -> Vec<u64> {
        let mut again = Bitmap::new(&[UNIT * 8], UNIT);
        again.load(0, &marks.recorded_bits(0));
        let mut ours = Bitmap::new(&[UNIT * 8], UNIT);
        ours.join_recorded(marks);
        assert_eq!(ours.dirty_runs(), again.dirty_runs());
        (0..8).filter(|n| again.any_dirty(DATA, region(*n))).collect()
    }

    /// In how much the peer would lack more than what is dirty.
    fn got(marks: &Bitmap) -> Bytes {
        marks.dirty_bytes_with(0, true) - marks.dirty_bytes()
    }

    fn copy_next(marks: &mut Bitmap) {
        let region = marks.begin_copy(Region(0)).expect("one is dirty");
        marks.end_copy(region);
    }

    #[test]
    fn what_the_peer_got_in_an_update_is_recorded_until_that_ends_and_not_copied_again() {
        let mut marks = Bitmap::new(&[UNIT * 8], UNIT);
        marks.set(DATA, region(1));
        marks.set(DATA, region(2));
        marks.begin_update(true);
        copy_next(&mut marks);
        // A write in order, and one of two that overlap.
        marks.pend(DATA, region(5));
        marks.unpend(DATA, region(5));
        marks.pend(DATA, region(6));
        marks.pend(DATA, region(6));
        marks.unpend(DATA, region(6));
        assert_eq!(saved(&marks), [1, 2, 5, 6]);
        assert_eq!(got(&marks), UNIT * 3, "one is not copied yet");
        marks.set(DATA, region(5));
        assert_eq!(got(&marks), UNIT * 2, "one is to be copied again");
        assert_eq!(marks.dirty_bytes(), UNIT * 2, "two are left to copy");
        // The connection breaks, and the update goes on.
        marks.end_stream();
        marks.begin_update(false);
        copy_next(&mut marks);
        copy_next(&mut marks);
        assert_eq!(saved(&marks), [1, 2, 5, 6]);
        while marks.take_unsaved(1).is_some() {}
        marks.page_saved(0, true);
        marks.end_update();
        assert_eq!(saved(&marks), [6]);
        assert!(marks.has_unsaved(), "the record still has them");
    }

    #[test]
    fn an_update_of_an_image_that_is_consistent_keeps_that_one() {
        let mut marks = Bitmap::new(&[UNIT * 8], UNIT);
        for n in 0..2 {
            marks.set(DATA, region(n));
            marks.begin_update(true);
            copy_next(&mut marks);
            assert_eq!(saved(&marks), [n]);
        }
        marks.clear();
        assert_eq!(saved(&marks), []);
    }
}
