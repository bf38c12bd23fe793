// SPDX-License-Identifier: Apache-2.0
//! The walk over the dirty regions of a bitmap: which region is next, and which are being copied.
//!
//! A region may be written, or become dirty again, while it is copied. Then its claim counts as touched: what was read
//! lacks that write, so the owner must not clear the region's bit when the copy ends.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::RangeBounds;
use helio_bitmap::Region;

/// A region that is being copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where it is.
    pub region: Region,
    /// Differs from earlier and later claims of the region, where an answer to one of those may still come.
    pub number: u64,
}

#[derive(Clone, Copy, Debug)]
struct State<T> {
    number: u64,
    data: T,
}

/// The walk described above. `T`: what the owner keeps of each claim.
#[derive(Clone, Debug, Default)]
pub struct Walk<T> {
    next: Region,
    claims: BTreeMap<Region, State<T>>,
    /// Regions of claims that are touched.
    touched: BTreeSet<Region>,
}

impl<T> Walk<T> {
    /// Claims the next dirty region that is not claimed. `begin` returns the next one from the given region on, which
    /// then counts as being copied in the bitmap.
    pub fn claim(
        &mut self,
        number: u64,
        data: T,
        mut begin: impl FnMut(Region) -> Option<Region>,
    ) -> Option<Claim> {
        loop {
            let region = begin(self.next)?;
            self.next = Region(region.0 + 1);
            match self.claims.entry(region) {
                // It became dirty again while it is copied: what is under way does not end that.
                Entry::Occupied(_) => {
                    self.touched.insert(region);
                }
                Entry::Vacant(free) => {
                    free.insert(State { number, data });
                    return Some(Claim { region, number });
                }
            }
        }
    }

    /// Those regions were written: claims of them are touched.
    pub fn touch(&mut self, regions: impl RangeBounds<Region>) {
        self.touched.extend(self.claims.range(regions).map(|(region, _)| *region));
    }

    /// Whether the region's bit must stay set: it was touched since, or the claim has ended.
    pub fn is_touched(&self, claim: Claim) -> bool {
        let state = self.claims.get(&claim.region);
        state.is_none_or(|state| state.number != claim.number)
            || self.touched.contains(&claim.region)
    }

    /// What the owner keeps of a claim, until it ends.
    pub fn data_mut(&mut self, claim: Claim) -> Option<&mut T> {
        let state = self.claims.get_mut(&claim.region);
        state.filter(|state| state.number == claim.number).map(|state| &mut state.data)
    }

    /// Ends a claim. Returns false if it had ended before.
    pub fn end(&mut self, claim: Claim) -> bool {
        match self.claims.entry(claim.region) {
            Entry::Occupied(state) if state.get().number == claim.number => {
                state.remove();
                self.touched.remove(&claim.region);
                true
            }
            _ => false,
        }
    }

    /// Ends every claim. The walk goes on where it was.
    pub fn end_all(&mut self) {
        self.claims.clear();
        self.touched.clear();
    }

    /// Every claim, in the order of the regions.
    pub fn claims(&self) -> impl Iterator<Item = Claim> + '_ {
        self.claims.iter().map(|(region, state)| Claim { region: *region, number: state.number })
    }

    /// Whether no region is claimed.
    pub fn is_idle(&self) -> bool {
        self.claims.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use helio_bitmap::Bitmap;
    use helio_units::{Bytes, Extent, VolumeIndex};
    use proptest::prelude::*;

    const UNIT: Bytes = Bytes::kib(64);

    fn dirty(regions: u64) -> Bitmap {
        let mut marks = Bitmap::new(&[UNIT * regions], UNIT);
        marks.set_all();
        marks
    }

    fn set(marks: &mut Bitmap, region: u64) {
        marks.set(VolumeIndex(0), Extent::new(region * UNIT.0, UNIT.0));
    }

    fn next<T>(walk: &mut Walk<T>, number: u64, data: T, marks: &mut Bitmap) -> Option<Claim> {
        walk.claim(number, data, |from| marks.begin_copy(from))
    }

    #[test]
    fn regions_come_in_turn_and_what_is_dirty_again_comes_again() {
        let (mut walk, mut marks) = (Walk::default(), dirty(3));
        let all: Vec<u64> = core::iter::from_fn(|| next(&mut walk, 0, (), &mut marks))
            .map(|claim| claim.region.0)
            .collect();
        assert_eq!(all, [0, 1, 2]);
        let first = Claim { region: Region(0), number: 0 };
        assert!(walk.end(first) && !walk.end(first));
        marks.abandon_copy(first.region);
        assert_eq!(next(&mut walk, 0, (), &mut marks), Some(first));
        walk.end_all();
        assert!(walk.is_idle());
    }

    #[test]
    fn a_region_that_is_dirty_again_while_it_is_copied_is_touched_and_not_claimed_twice() {
        let (mut walk, mut marks) = (Walk::default(), dirty(1));
        let claim = next(&mut walk, 1, (), &mut marks).expect("one is dirty");
        assert!(!walk.is_touched(claim));
        set(&mut marks, 0);
        assert_eq!(next(&mut walk, 2, (), &mut marks), None);
        assert!(walk.is_touched(claim));
        assert_eq!(walk.claims().collect::<Vec<_>>(), [claim]);
    }

    #[test]
    fn a_late_answer_to_an_earlier_claim_changes_nothing() {
        let (mut walk, mut marks) = (Walk::default(), dirty(1));
        let early = next(&mut walk, 1, 1, &mut marks).expect("one is dirty");
        walk.end(early);
        marks.abandon_copy(early.region);
        let late = next(&mut walk, 2, 5, &mut marks).expect("it is still dirty");
        assert!(walk.is_touched(early) && !walk.is_touched(late));
        assert!(walk.data_mut(early).is_none() && !walk.end(early));
        assert_eq!(walk.data_mut(late), Some(&mut 5));
    }

    #[test]
    fn a_write_touches_the_regions_it_changes() {
        let (mut walk, mut marks) = (Walk::default(), dirty(4));
        while next(&mut walk, 0, (), &mut marks).is_some() {}
        let touched = |walk: &Walk<()>| {
            walk.claims().filter(|c| walk.is_touched(*c)).map(|c| c.region.0).collect::<Vec<_>>()
        };
        walk.touch(Region(1)..Region(3));
        assert_eq!(touched(&walk), [1, 2]);
        walk.touch(..);
        assert_eq!(touched(&walk), [0, 1, 2, 3]);
    }

    proptest! {
        /// A claim reads the source at once; a write meanwhile touches it by the walk or by the bitmap.
        #[test]
        fn whatever_is_written_meanwhile_both_copies_are_the_same_in_the_end(
            steps in prop::collection::vec((0..4_u8, 0..8_u64, any::<bool>()), 0..200),
        ) {
            let (mut walk, mut marks) = (Walk::default(), dirty(8));
            let (mut source, mut target) = ([0; 8], [u64::MAX; 8]);
            let rest = (0..40).flat_map(|n| [(0, 0, false), (1, n % 8, false)]);
            for (number, (what, region, by_walk)) in (1..).zip(steps.into_iter().chain(rest)) {
                let at = region as usize;
                let open = walk.claims().find(|claim| claim.region.0 == region);
                match (what, open) {
                    (0, _) => {
                        if let Some(claim) = next(&mut walk, number, 0, &mut marks)
                            && let Some(read) = walk.data_mut(claim)
                        {
                            *read = source[claim.region.0 as usize];
                        }
                    }
                    (1, Some(claim)) => {
                        let (touched, read) = (walk.is_touched(claim), walk.data_mut(claim).copied());
                        prop_assert!(walk.end(claim));
                        if touched {
                            marks.abandon_copy(claim.region);
                        } else {
                            target[at] = read.expect("it was open");
                            marks.end_copy(claim.region);
                        }
                    }
                    (2, open) => {
                        source[at] = number;
                        if by_walk && open.is_some() {
                            walk.touch(Region(region)..Region(region + 1));
                        } else {
                            set(&mut marks, region);
                        }
                    }
                    (3, _) => {
                        walk.end_all();
                        marks.abandon_copies();
                    }
                    _ => {}
                }
            }
            prop_assert!(walk.is_idle() && marks.none_dirty());
            prop_assert_eq!(source, target);
        }
    }
}
