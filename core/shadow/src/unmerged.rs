// SPDX-License-Identifier: Apache-2.0
//! Regions in which full members may differ, and those in which one is to be repaired.
//!
//! Some of them are *blank*: nothing was ever written there, so what the members hold counts only from the first read or write on. No
//! piece merges a blank region before an operation touches it. From then on it is as any other.

use crate::delay::MergeDelay;
use crate::member::ONE;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use helio_bitmap::{Bitmap, EXTENT, Region};
use helio_copy::{Claim, Walk};
use helio_format::copying::PageBits;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Moment};

/// Most regions that wait to be repaired; a later read finds what is beyond.
const MOST_REPAIRS: usize = 256;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Unmerged {
    regions: Bitmap,
    /// Those of them that are blank.
    blank: Bitmap,
    walk: Walk<()>,
    /// Hot extents that are to stay hot, by their numbers in the volume.
    owned: BTreeSet<u64>,
    /// Regions that an operation waits for.
    urgent: BTreeSet<Region>,
    /// Regions that a full member failed to read.
    repairs: BTreeSet<Region>,
    /// None is claimed before, but for what an operation waits for.
    again: Moment,
    /// Nor, but for repairs, before its pause ends.
    delay: MergeDelay,
}

impl Unmerged {
    pub(crate) fn new(size: Bytes, region: Bytes) -> Self {
        Self {
            regions: Bitmap::new(&[size], region),
            blank: Bitmap::new(&[size], region),
            walk: Walk::default(),
            owned: BTreeSet::new(),
            urgent: BTreeSet::new(),
            repairs: BTreeSet::new(),
            again: Moment::ZERO,
            delay: MergeDelay::new(),
        }
    }

    fn place(&self, region: Region) -> Extent {
        self.regions.place(region).1
    }

    /// Those regions.
    pub(crate) const fn regions(&self) -> &Bitmap {
        &self.regions
    }

    /// Those of them that are blank.
    pub(crate) const fn blank(&self) -> &Bitmap {
        &self.blank
    }

    /// A page of the bitmap of a full member, as the ledger has it. `blank`: of a volume all of whose members are blank.
    pub(crate) fn load(&mut self, page: u32, bits: &PageBits, blank: bool) {
        self.regions.load(page, bits);
        if blank {
            self.blank.load(page, bits);
        }
    }

    /// An operation touches that: nothing in it is blank any more. Returns whether something was.
    pub(crate) fn touch(&mut self, extent: Extent) -> bool {
        let was = self.blank.any_dirty(ONE, extent);
        if was {
            self.blank.clear_extent(ONE, extent, None);
        }
        was
    }

    /// No region is blank any more.
    pub(crate) fn touch_all(&mut self) {
        self.blank.clear();
    }

    /// The regions that lie in an extent as a whole, if one of them is blank.
    pub(crate) fn whole_blank(&self, extent: Extent) -> Option<Extent> {
        let (unit, size) = (self.regions.grid().unit().0, self.size());
        let begin = extent.offset.next_multiple_of(unit);
        let end = if extent.end() < size { extent.end() / unit * unit } else { size };
        let whole = Extent::new(begin, end.checked_sub(begin).filter(|length| *length > 0)?);
        self.blank.any_dirty(ONE, whole).then_some(whole)
    }

    /// Full members are equal in the blank regions of an extent: they are unmerged no more.
    pub(crate) fn equal(&mut self, extent: Extent) {
        self.regions.clear_extent(ONE, extent, Some(&self.blank));
        self.blank.clear_extent(ONE, extent, None);
    }

    /// Bytes of the volume.
    fn size(&self) -> u64 {
        self.regions.grid().whole().next().map_or(0, |(_, whole)| whole.length)
    }

    /// No full member could read one of them: none is claimed until then, but for what an operation waits for.
    pub(crate) const fn wait(&mut self, until: Moment) {
        self.again = until;
    }

    /// When the next one may be claimed.
    pub(crate) fn again(&self) -> Moment {
        self.again.max(self.delay.until())
    }

    /// Whether one may be claimed at that time, but for a pause.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        !self.is_empty() && now >= self.again
    }

    pub(crate) const fn delay(&mut self) -> &mut MergeDelay {
        &mut self.delay
    }

    /// Full members may differ there.
    pub(crate) fn set(&mut self, extent: Extent) {
        self.regions.set(ONE, extent);
        self.touch(extent);
    }

    pub(crate) fn set_all(&mut self) {
        self.regions.set_all();
        self.blank.clear();
    }

    pub(crate) fn has(&self, extent: Extent) -> bool {
        let blank = || self.blank.are_all_dirty(ONE, extent);
        self.regions.any_dirty(ONE, extent) && !(planted(Plant::ReadBlank) && blank())
    }

    /// Whether a region there is unmerged and not blank.
    fn is_left(&self, extent: Extent) -> bool {
        let grid = self.regions.grid();
        let offsets = grid.touched(ONE, extent).map(|region| grid.offset(ONE, region));
        let mut left = offsets.filter(|offset| self.regions.may_differ(ONE, *offset));
        left.any(|offset| !self.blank.may_differ(ONE, offset))
    }

    /// No region is unmerged but for blank ones.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == Bytes::ZERO
    }

    /// Bytes in regions that are unmerged and not blank.
    pub(crate) fn bytes(&self) -> Bytes {
        debug_assert!(self.blank.dirty_bytes() <= self.regions.dirty_bytes(), "blank, and merged");
        self.regions.dirty_bytes().saturating_sub(self.blank.dirty_bytes())
    }

    /// A hot extent is to stay hot. Returns false if it was to before.
    pub(crate) fn own(&mut self, number: u64) -> bool {
        self.owned.insert(number)
    }

    /// An operation waits for what is unmerged and not blank there.
    pub(crate) fn hurry(&mut self, extent: Extent) {
        let regions = self.regions.grid().touched(ONE, extent).map(Region);
        let left: Vec<Region> =
            regions.filter(|region| self.is_left(self.place(*region))).collect();
        self.urgent.extend(left);
    }

    /// A change waits until one of the extents that are to stay hot may cool. What could not be read is not tried again at once.
    pub(crate) fn hurry_owned(&mut self, now: Moment) {
        if now < self.again || !self.urgent.is_empty() {
            return;
        }
        let (owned, size): (Vec<u64>, _) = (self.owned.iter().copied().collect(), self.size());
        owned.into_iter().for_each(|number| self.hurry(hot_extent(number, size)));
    }

    /// A full member failed to read there.
    pub(crate) fn repair(&mut self, extent: Extent) {
        let regions = self.regions.grid().touched(ONE, extent).map(Region);
        let room = MOST_REPAIRS.saturating_sub(self.repairs.len());
        self.repairs.extend(regions.take(room));
    }

    /// Claims a region that an operation waits for, for the piece of that number.
    pub(crate) fn claim_urgent(&mut self, number: u64) -> Option<Extent> {
        while let Some(urgent) = self.urgent.pop_first() {
            let regions = &mut self.regions;
            let claim = self.walk.claim(number, (), |_| regions.begin_copy_at(urgent, None));
            if claim.is_some() {
                return Some(self.place(urgent));
            }
        }
        None
    }

    /// Claims one that is to be repaired.
    pub(crate) fn claim_repair(&mut self, now: Moment) -> Option<Extent> {
        if now < self.again { None } else { self.repairs.pop_first().map(|it| self.place(it)) }
    }

    /// Claims the next one.
    pub(crate) fn claim(&mut self, number: u64, now: Moment) -> Option<Extent> {
        // Blank regions are not copied: nothing is left if all others are.
        if now < self.again() || self.bytes() <= self.regions.copying_bytes() {
            return None;
        }
        let Self { regions, blank, walk, .. } = self;
        let claim = walk.claim(number, (), |from| regions.begin_copy_beside(from, blank))?;
        Some(self.place(claim.region))
    }

    /// A piece ended; `merged`: full members are equal in it. Returns the hot extent that may cool.
    pub(crate) fn end(&mut self, extent: Extent, number: u64, merged: bool) -> Option<u64> {
        let region = Region(self.regions.grid().touched(ONE, extent).start);
        let claim = Claim { region, number };
        let touched = self.walk.is_touched(claim);
        if !self.walk.end(claim) {
            return None;
        }
        if !merged || touched {
            self.regions.abandon_copy(region);
            return None;
        }
        debug_assert!(!self.blank.any_dirty(ONE, extent), "{extent:?} was merged, and stays blank");
        self.regions.end_copy(region);
        let number = extent.offset / EXTENT.0;
        let hot = hot_extent(number, self.size());
        (!self.is_left(hot) && self.owned.remove(&number)).then_some(number)
    }

    /// One full member is left: it differs from none. Blank regions stay: another member may return that was full. Returns the hot
    /// extents that may cool.
    pub(crate) fn clear(&mut self) -> BTreeSet<u64> {
        self.regions.abandon_copies();
        self.regions.clear_beside(&self.blank);
        self.walk.end_all();
        self.urgent.clear();
        self.repairs.clear();
        core::mem::take(&mut self.owned)
    }
}

/// Where a hot extent of a volume of that size is.
pub(crate) fn hot_extent(number: u64, size: u64) -> Extent {
    let offset = number * EXTENT.0;
    Extent::new(offset, EXTENT.0.min(size - offset))
}
