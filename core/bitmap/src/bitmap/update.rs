// SPDX-License-Identifier: Apache-2.0
//! An update of a peer that preserves its image from before the update. Until the update ends, the peer may restore that image. It then
//! lacks everything that it received in the update, although that was durable.
//!
//! ```text
//!   dirty or pending ──durable at the peer──> received ──the update ends──> clear
//!                                                └── this process ends ──> dirty
//! ```
//! This process does not copy a received region again. The region counts as dirty in the metadata file, and in what this node reports
//! that its peer may lack.

use super::{Bitmap, PAGE_REGIONS};
use alloc::boxed::Box;
use core::ops::Range;
use helio_format::copying::PageBits;
use helio_plant::{Plant, planted};

impl Bitmap {
    /// An update of the peer begins, or continues. `anew`: the peer preserves the image that it has now, and not one from before.
    pub fn begin_update(&mut self, anew: bool) {
        if anew {
            self.end_update();
        }
        if self.update.is_none() {
            self.update = Some(Box::new(Self::of(self.grid.clone())));
        }
    }

    /// The peer can restore no image from before any more.
    pub fn end_update(&mut self) {
        if let Some(received) = self.update.take() {
            self.unsaved.extend(received.dirty_pages());
        }
    }

    /// These regions are durable at the peer.
    pub(super) fn received_by_peer(&mut self, regions: Range<u64>) {
        if planted(Plant::UpdateForgotten) {
            return;
        }
        let Some(mut received) = self.update.take() else { return };
        for region in regions {
            let (page, new) = ((region / PAGE_REGIONS) as u32, !received.is_set(region));
            received.set_one(region);
            // What was dirty is recorded, or has yet to be saved as that.
            if new && !self.is_set(region) {
                self.unsaved.insert(page);
                self.saved_at[page as usize] = 0;
            }
        }
        self.update = Some(received);
    }

    /// The bits of a page as they are saved: dirty, or received in an update that has not ended.
    #[must_use]
    pub fn recorded_bits(&self, page: u32) -> PageBits {
        let mut bits = self.page_bits(page);
        if let Some(received) = &self.update {
            let received = received.page_bits(page);
            bits.iter_mut().zip(received.iter()).for_each(|(bits, received)| *bits |= received);
        }
        bits
    }

    /// How many regions that are not dirty the peer lacks if it restores its image from before the update.
    pub(super) fn received_count(&self) -> u64 {
        let Some(received) = &self.update else { return 0 };
        let clear = |page: u32| {
            let words = (0..PAGE_REGIONS).step_by(64);
            let clear =
                words.map(|at| received.word(page as usize, at) & !self.word(page as usize, at));
            clear.map(|word| u64::from(word.count_ones())).sum::<u64>()
        };
        received.dirty_pages().map(clear).sum()
    }

    /// Whether the peer lacks any region if it restores that image.
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.update.as_ref().is_some_and(|received| !received.none_dirty())
    }

    /// Adds everything to ours that is recorded of `other`, a bitmap of the same regions.
    pub fn join_recorded(&mut self, other: &Self) {
        self.join_all(other);
        if let Some(received) = &other.update {
            self.join_all(received);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Region;
    use super::super::cut::tests::{DATA, UNIT, region};
    use super::*;
    use alloc::vec::Vec;
    use helio_units::Bytes;

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
    fn received(marks: &Bitmap) -> Bytes {
        marks.dirty_bytes_with(0, true) - marks.dirty_bytes()
    }

    fn copy_next(marks: &mut Bitmap) {
        let region = marks.begin_copy(Region(0)).expect("one is dirty");
        marks.end_copy(region);
    }

    #[test]
    fn what_the_peer_received_in_an_update_is_recorded_until_it_ends_and_not_copied_again() {
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
        assert_eq!(received(&marks), UNIT * 3, "one is not copied yet");
        marks.set(DATA, region(5));
        assert_eq!(received(&marks), UNIT * 2, "one is to be copied again");
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
    fn a_copied_region_that_is_recorded_as_dirty_keeps_no_extent_hot() {
        let mut marks = Bitmap::new(&[UNIT * 8], UNIT);
        marks.set(DATA, region(1));
        let page = marks.take_unsaved(5).expect("it changed");
        marks.page_saved(page, true);
        marks.begin_update(true);
        copy_next(&mut marks);
        assert!(marks.is_saved_since(5, DATA, region(7)));
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
