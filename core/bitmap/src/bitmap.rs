// SPDX-License-Identifier: Apache-2.0
//! The bitmap against one peer: which regions may differ from its copy.
//!
//! A region may differ for one of two reasons. They are separate because they end differently:
//! * *dirty*: order was lost there, and only the copier can end it (a bit per region);
//! * *pending*: items in the queue touch it. It ends when the peer has the last of them durable (a count per touched
//!   region, in a table that is as large as the queue, not as the volume).
//!
//! While the peer may restore its image from before an update, a region that it received in the update is saved as dirty
//! (`bitmap/update.rs`).
//!
//! So a region knows its position while streaming (rule 6): the position of the last pending item. When the queue is
//! dropped, pending becomes dirty.
//!
//! Dirty bits are in pages, which the ledger saves (2 KiB for a GiB at 64 KiB a region). A page that changed is *unsaved*
//! until it is durable. A bit that was cleared may stay on disk for a while: it only costs a comparison. A bit that was
//! set is covered by its hot extent until its page is durable (`hot.rs`).

use crate::counts::Counts;
use crate::grid::{Grid, add_run};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use helio_format::copying::{PAGE_WORDS, PageBits};
use helio_format::marks::REGIONS_PER_PAGE;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, VolumeIndex};

mod cut;
mod update;

use cut::Cut;

/// Regions one page are_all_dirty.
pub const PAGE_REGIONS: u64 = REGIONS_PER_PAGE as u64;

/// A region of a group: volumes lie one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(pub u64);

/// A page of dirty bits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Page {
    /// No bit is set; needs no memory.
    Clear,
    /// Every bit is set; needs none either.
    Full,
    Bits(PageBits),
}

/// The bitmap described above.
#[derive(Clone, Debug)]
pub struct Bitmap {
    /// Of regions.
    grid: Grid,
    pages: Vec<Page>,
    dirty_count: u64,
    /// Pages that changed since they were saved.
    unsaved: BTreeSet<u32>,
    /// Behind the page that was taken to be saved last: every unsaved page has its turn, however fast the first ones change.
    next: u32,
    /// For each page, the tick at which it was taken to be saved last; zero if that failed, or a region was received since.
    saved_at: Vec<u64>,
    /// Pages that are being saved; few, where there are millions in `saved_at`.
    saving: BTreeSet<u32>,
    /// Being copied, and still dirty: cleared when durable on the peer, unless set again since. As few as are in flight.
    copying: BTreeSet<u64>,
    pending: Counts,
    /// While a cut is copied.
    cut: Option<Box<Cut>>,
    /// While the peer may restore its image from before an update: what it received since (`bitmap/update.rs`).
    update: Option<Box<Self>>,
}

impl Bitmap {
    /// An empty one. `region`: bytes in a region.
    #[must_use]
    pub fn new(sizes: &[Bytes], region: Bytes) -> Self {
        Self::of(Grid::new(sizes, region))
    }

    /// An empty one of these regions.
    fn of(grid: Grid) -> Self {
        let pages = grid.count().div_ceil(PAGE_REGIONS) as usize;
        Self {
            grid,
            pages: vec![Page::Clear; pages],
            dirty_count: 0,
            unsaved: BTreeSet::new(),
            next: 0,
            saved_at: vec![0; pages],
            saving: BTreeSet::new(),
            copying: BTreeSet::new(),
            pending: Counts::default(),
            cut: None,
            update: None,
        }
    }

    /// The volumes, divided into regions.
    #[must_use]
    #[inline]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The regions of a page that exist; the last page may have fewer.
    fn page_regions(&self, page: usize) -> u64 {
        (self.grid.count() - page as u64 * PAGE_REGIONS).min(PAGE_REGIONS)
    }

    /// Which volume and extent a region is.
    #[must_use]
    pub fn place(&self, region: Region) -> (VolumeIndex, Extent) {
        self.grid.place(region.0)
    }

    fn is_set(&self, region: u64) -> bool {
        let at = region % PAGE_REGIONS;
        match &self.pages[(region / PAGE_REGIONS) as usize] {
            Page::Clear => false,
            Page::Full => true,
            Page::Bits(bits) => bits[at as usize / 64] & (1 << (at % 64)) != 0,
        }
    }

    /// The bits of a page, to change them.
    fn bits_mut(&mut self, page: usize) -> &mut PageBits {
        if !matches!(self.pages[page], Page::Bits(_)) {
            let full = self.pages[page] == Page::Full;
            let bits = if full { full_page(self.page_regions(page)) } else { empty_page() };
            self.pages[page] = Page::Bits(bits);
        }
        let Page::Bits(bits) = &mut self.pages[page] else { panic!("a page without bits") };
        bits
    }

    /// Bitmap every region of every volume; whole pages at once, since a large volume has millions of regions.
    pub fn set_all(&mut self) {
        if let Some(cut) = &mut self.cut {
            cut.since_mut().set_all();
        }
        for page in 0..self.pages.len() {
            self.pages[page] = Page::Full;
            self.unsaved.insert(page as u32);
        }
        self.copying.clear();
        self.dirty_count = self.grid.count();
    }

    /// Bitmap the regions of an extent until the copier has been there.
    pub fn set(&mut self, volume: VolumeIndex, extent: Extent) {
        let regions = self.grid.touched(volume, extent);
        let mut at = regions.start;
        while at < regions.end {
            let page = (at / PAGE_REGIONS) as usize;
            let behind = at + self.page_regions(page);
            if at.is_multiple_of(PAGE_REGIONS) && behind <= regions.end {
                self.set_page(page);
                at = behind;
            } else {
                self.set_one(at);
                at += 1;
            }
        }
    }

    /// Bitmap every region of a page at once.
    fn set_page(&mut self, page: usize) {
        if let Some(cut) = &mut self.cut {
            cut.since_mut().set_page(page);
        }
        let begin = page as u64 * PAGE_REGIONS;
        let end = begin + self.page_regions(page);
        self.copying.retain(|region| !(begin..end).contains(region));
        if self.pages[page] != Page::Full {
            self.dirty_count += end - begin - self.dirty_between(begin..end);
            self.pages[page] = Page::Full;
            self.unsaved.insert(page as u32);
        }
    }

    fn set_one(&mut self, region: u64) {
        if let Some(cut) = &mut self.cut {
            cut.since_mut().set_one(region);
        }
        self.copying.remove(&region);
        if self.is_set(region) {
            return;
        }
        let (page, at) = ((region / PAGE_REGIONS) as usize, region % PAGE_REGIONS);
        self.bits_mut(page)[at as usize / 64] |= 1 << (at % 64);
        self.unsaved.insert(page as u32);
        self.dirty_count += 1;
    }

    /// Sets the bits of a mask in a word of a page; each stands for a region that there is.
    fn set_word(&mut self, page: usize, word: usize, mask: u64) {
        if let Some(cut) = &mut self.cut {
            cut.since_mut().set_word(page, word, mask);
        }
        let base = page as u64 * PAGE_REGIONS + word as u64 * 64;
        self.copying_of(base, mask).for_each(|region| _ = self.copying.remove(&region));
        let new = mask & !self.word(page, word as u64 * 64);
        if new != 0 {
            self.bits_mut(page)[word] |= new;
            self.unsaved.insert(page as u32);
            self.dirty_count += u64::from(new.count_ones());
        }
    }

    /// The regions of a mask at `base` that are being copied.
    fn copying_of(&self, base: u64, mask: u64) -> impl Iterator<Item = u64> + use<> {
        let of = self.copying.range(base..base + 64).copied();
        of.filter(|region| mask & (1 << (region - base)) != 0).collect::<Vec<_>>().into_iter()
    }

    /// Clears the regions that an extent touches, but for those that are being copied; `of`: only those that are dirty in that bitmap of
    /// the same regions.
    pub fn clear_extent(&mut self, volume: VolumeIndex, extent: Extent, of: Option<&Self>) {
        let regions = self.grid.touched(volume, extent);
        self.clear_words(regions, |page, within| of.map_or(u64::MAX, |of| of.word(page, within)));
    }

    /// Clears the regions that are not dirty in `kept`, a bitmap of the same regions, but for those that are being copied.
    pub fn clear_beside(&mut self, kept: &Self) {
        self.clear_words(0..self.grid.count(), |page, within| !kept.word(page, within));
    }

    /// Clears the regions of a range that are in the mask of their word, but for those that are being copied.
    fn clear_words(&mut self, regions: core::ops::Range<u64>, mask: impl Fn(usize, u64) -> u64) {
        let mut at = regions.start;
        while at < regions.end {
            let page = (at / PAGE_REGIONS) as usize;
            let base = page as u64 * PAGE_REGIONS;
            let end = regions.end.min(base + self.page_regions(page));
            if self.pages[page] != Page::Clear {
                self.clear_in_page(page, at - base..end - base, &mask);
            }
            at = end;
        }
    }

    fn clear_in_page(
        &mut self,
        page: usize,
        within: core::ops::Range<u64>,
        mask: impl Fn(usize, u64) -> u64,
    ) {
        let base = page as u64 * PAGE_REGIONS;
        let mut cleared = 0;
        for word in within.start / 64..within.end.div_ceil(64) {
            let mask = mask(page, word * 64) & mask_of(word, within.start, within.end);
            let copying = self.copying_of(base + word * 64, mask);
            let stay = copying.fold(0, |stay, region| stay | 1 << (region % 64));
            let gone = self.word(page, word * 64) & mask & !stay;
            if gone != 0 {
                self.bits_mut(page)[word as usize] &= !gone;
                cleared += u64::from(gone.count_ones());
            }
        }
        if cleared > 0 {
            self.dirty_count -= cleared;
            self.unsaved.insert(page as u32);
            self.drop_empty(page);
        }
    }

    /// A page without a bit needs no memory.
    fn drop_empty(&mut self, page: usize) {
        if let Page::Bits(bits) = &self.pages[page]
            && bits.iter().all(|word| *word == 0)
        {
            self.pages[page] = Page::Clear;
        }
    }

    /// An item that touches the extent entered the queue.
    #[inline]
    pub fn pend(&mut self, volume: VolumeIndex, extent: Extent) {
        for region in self.grid.touched(volume, extent) {
            self.pending.add(region);
        }
    }

    /// The peer has that item durable.
    #[inline]
    pub fn unpend(&mut self, volume: VolumeIndex, extent: Extent) {
        for region in self.grid.touched(volume, extent) {
            self.pending.remove(region);
        }
        if self.update.is_some() {
            self.received_by_peer(self.grid.touched(volume, extent));
        }
    }

    /// The next region the copier should fetch at or behind `from`, wrapping once; it counts as being copied.
    #[inline]
    pub fn begin_copy(&mut self, from: Region) -> Option<Region> {
        match self.begin_copy_of_cut(from) {
            Some(of_cut) => of_cut,
            None => self.begin(from, None),
        }
    }

    /// As [`Bitmap::begin_copy`], of the regions that are not dirty in `other`, a bitmap of the same regions.
    pub fn begin_copy_beside(&mut self, from: Region, other: &Self) -> Option<Region> {
        self.begin(from, Some(other))
    }

    /// As [`Bitmap::begin_copy`], or [`Bitmap::begin_copy_beside`], of that region only.
    pub fn begin_copy_at(&mut self, region: Region, beside: Option<&Self>) -> Option<Region> {
        let end = self.grid.count().min(region.0 + 1);
        let found = self.next_open(region.0, end, beside)?;
        self.copying.insert(found);
        Some(region)
    }

    fn begin(&mut self, from: Region, beside: Option<&Self>) -> Option<Region> {
        if self.copying.len() as u64 == self.dirty_count {
            return None;
        }
        let (from, end) = (if from.0 < self.grid.count() { from.0 } else { 0 }, self.grid.count());
        let found =
            self.next_open(from, end, beside).or_else(|| self.next_open(0, from, beside))?;
        self.copying.insert(found);
        Some(Region(found))
    }

    /// As [`Bitmap::begin_copy`], of one volume.
    pub fn begin_copy_of(&mut self, volume: VolumeIndex, from: Region) -> Option<Region> {
        let core::ops::Range { start, end } = self.grid.volume(volume);
        let from = if (start..end).contains(&from.0) { from.0 } else { start };
        let found =
            self.next_open(from, end, None).or_else(|| self.next_open(start, from, None))?;
        self.copying.insert(found);
        Some(Region(found))
    }

    /// The bits of 64 regions of a page.
    fn word(&self, page: usize, within: u64) -> u64 {
        match &self.pages[page] {
            Page::Clear => 0,
            Page::Full => u64::MAX,
            Page::Bits(bits) => bits[within as usize / 64],
        }
    }

    /// The first region of a range that is dirty, not being copied, and not dirty in `beside`.
    fn next_open(&self, mut at: u64, end: u64, beside: Option<&Self>) -> Option<u64> {
        while at < end {
            let (page, within) = ((at / PAGE_REGIONS) as usize, at % PAGE_REGIONS);
            let other = beside.map_or(0, |other| other.word(page, within));
            let bits = self.word(page, within) & !other & (u64::MAX << (within % 64));
            let word_end = (at - within % 64 + 64).min((page as u64 + 1) * PAGE_REGIONS);
            if bits != 0 {
                let word = at - within % 64;
                let open = (0..64).map(|bit| (bit, word + bit)).find(|(bit, region)| {
                    bits & (1 << bit) != 0 && *region < end && !self.copying.contains(region)
                });
                if let Some((_, region)) = open {
                    return Some(region);
                }
            }
            let is_done = |bitmap: &Self, page: usize| bitmap.pages[page] == Page::Full;
            let none =
                self.pages[page] == Page::Clear || beside.is_some_and(|it| is_done(it, page));
            at = if none { (page as u64 + 1) * PAGE_REGIONS } else { word_end };
        }
        None
    }

    /// The peer has the copier's item of this region durable: it is clean, unless it was set again since.
    pub fn end_copy(&mut self, region: Region) {
        let of_cut = self.end_copy_of_cut(region);
        if of_cut.unwrap_or_else(|| self.copying.remove(&region.0)) {
            self.received_by_peer(region.0..region.0 + 1);
            self.clear_one(region.0);
        }
    }

    fn clear_one(&mut self, region: u64) {
        let (page, at) = ((region / PAGE_REGIONS) as usize, region % PAGE_REGIONS);
        self.bits_mut(page)[at as usize / 64] &= !(1 << (at % 64));
        self.drop_empty(page);
        self.unsaved.insert(page as u32);
        self.dirty_count -= 1;
    }

    /// A copy of this region could not be read; it must be tried again.
    pub fn abandon_copy(&mut self, region: Region) {
        self.copying.remove(&region.0);
        self.abandon_copies_of_cut(Some(region));
    }

    /// No copy is under way any more; what was, must be copied again.
    pub fn abandon_copies(&mut self) {
        self.copying.clear();
        self.abandon_copies_of_cut(None);
    }

    /// The queue is gone: what was pending is dirty.
    pub fn pending_to_dirty(&mut self) {
        let pending = core::mem::take(&mut self.pending);
        for region in pending.keys() {
            self.set_one(region);
        }
    }

    /// Whether every region of the extent waits for the copier.
    pub fn are_all_dirty(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.grid.touched(volume, extent).all(|region| self.is_set(region))
    }

    /// Whether any region of the extent waits for the copier.
    #[inline]
    pub fn any_dirty(&self, volume: VolumeIndex, extent: Extent) -> bool {
        let regions = self.grid.touched(volume, extent);
        self.dirty_count > 0 && self.next_dirty(regions.start, regions.end).is_some()
    }

    /// Whether an item of the queue touches the extent, those at the places `but` apart.
    #[inline]
    pub fn is_pending(
        &self,
        volume: VolumeIndex,
        extent: Extent,
        but: &[(VolumeIndex, Extent)],
    ) -> bool {
        let apart = |region: u64| {
            but.iter().filter(|(v, e)| self.grid.touched(*v, *e).contains(&region)).count()
        };
        self.grid
            .touched(volume, extent)
            .any(|region| self.pending.count(region) as usize > apart(region))
    }

    /// The stream ended: what its queue still touched is dirty, and nothing is being copied.
    pub fn end_stream(&mut self) {
        self.pending_to_dirty();
        self.copying.clear();
        self.end_cut();
    }

    /// Nothing differs any more, whatever was dirty; with no queue and no copy.
    pub fn clear(&mut self) {
        for (page, bits) in self.pages.iter_mut().enumerate() {
            if *bits != Page::Clear {
                *bits = Page::Clear;
                self.unsaved.insert(page as u32);
            }
        }
        self.copying.clear();
        self.end_cut();
        self.end_update();
        self.dirty_count = 0;
    }

    /// Bytes in dirty regions, counted by whole regions.
    #[inline]
    pub fn dirty_bytes(&self) -> Bytes {
        self.grid.unit() * self.dirty_count
    }

    /// Bytes in regions that are being copied, counted by whole regions.
    #[inline]
    pub fn copying_bytes(&self) -> Bytes {
        self.grid.unit() * self.copying.len() as u64
    }

    /// The same as [`Self::dirty_bytes`], as an upper bound, where all of the volumes in that set, a bit each, count as well; and,
    /// with `received`, what the peer received in an update that has not ended.
    #[inline]
    pub fn dirty_bytes_with(&self, volumes: u64, received: bool) -> Bytes {
        let whole = self.grid.volumes().enumerate().filter(|(v, _)| volumes & (1 << v) != 0);
        let whole: u64 = whole.map(|(_, regions)| regions.end - regions.start).sum();
        let received = if received { self.received_count() } else { 0 };
        self.grid.unit() * (self.dirty_count + received + whole).min(self.grid.count())
    }

    /// Whether nothing waits for the copier.
    #[inline]
    pub fn none_dirty(&self) -> bool {
        self.dirty_count == 0
    }

    /// Whether nothing is being copied, and every dirty region is dirty in `other`, too, a bitmap of the same regions.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let open = |bitmap: &Self| bitmap.next_open(0, bitmap.grid.count(), Some(other)).is_some();
        self.dirty_count <= other.dirty_count && self.copying.is_empty() && !open(self)
    }

    /// Whether the region at that place may differ, for either reason.
    #[inline]
    pub fn may_differ(&self, volume: VolumeIndex, offset: u64) -> bool {
        let region = self.grid.volume(volume).start + offset / self.grid.unit().0;
        self.is_set(region) || self.pending.has(region)
    }

    /// Bytes of one volume that may differ, for either reason, counted by whole regions.
    pub fn differing_bytes(&self, volume: VolumeIndex) -> Bytes {
        let range = self.grid.volume(volume);
        let pending =
            self.pending.keys().filter(|r| range.contains(r) && !self.is_set(*r)).count() as u64;
        self.grid.unit() * (self.dirty_between(range) + pending)
    }

    pub(crate) fn dirty_between(&self, range: core::ops::Range<u64>) -> u64 {
        let mut count = 0;
        let mut at = range.start;
        while at < range.end {
            let page = (at / PAGE_REGIONS) as usize;
            let end = ((page as u64 + 1) * PAGE_REGIONS).min(range.end);
            let base = page as u64 * PAGE_REGIONS;
            count += match &self.pages[page] {
                Page::Clear => 0,
                Page::Full => end - at,
                Page::Bits(bits) => ones_between(bits, at - base, end - base),
            };
            at = end;
        }
        count
    }

    /// Dirty regions, joined to runs where they are side by side.
    pub fn dirty_runs(&self) -> Vec<(VolumeIndex, Extent)> {
        let mut runs: Vec<(VolumeIndex, Extent)> = Vec::new();
        let mut at = 0;
        while let Some(region) = self.next_dirty(at, self.grid.count()) {
            let (volume, extent) = self.place(Region(region));
            add_run(&mut runs, volume, extent);
            at = region + 1;
        }
        runs
    }

    /// Everything that may differ, as runs; what is only pending behind what is dirty.
    pub fn differing_runs(&self) -> Vec<(VolumeIndex, Extent)> {
        let mut runs = self.dirty_runs();
        let pending = self.pending.keys().filter(|region| !self.is_set(*region));
        runs.extend(pending.map(|region| self.place(Region(region))));
        runs
    }

    /// The first dirty region of a range.
    #[inline]
    fn next_dirty(&self, mut at: u64, end: u64) -> Option<u64> {
        while at < end {
            let (page, within) = (at / PAGE_REGIONS, at % PAGE_REGIONS);
            let behind = (page + 1) * PAGE_REGIONS;
            let bits = self.word(page as usize, within) >> (within % 64);
            if bits != 0 {
                return Some(at + u64::from(bits.trailing_zeros())).filter(|found| *found < end);
            }
            let is_clear = self.pages[page as usize] == Page::Clear;
            at = if is_clear { behind } else { at - within % 64 + 64 };
        }
        None
    }

    // Pages, as the ledger saves them and the peer receives them.

    /// Adds the bits of a page to ours. Returns whether there is such a page.
    #[must_use]
    pub fn join(&mut self, page: u32, bits: Option<&PageBits>) -> bool {
        if page as usize >= self.pages.len() {
            return false;
        }
        let at = page as usize;
        let Some(bits) = bits else {
            self.set_page(at);
            return true;
        };
        let regions = self.page_regions(at);
        if ones_between(bits, 0, regions) == regions {
            self.set_page(at);
            return true;
        }
        for (word, bits) in bits.iter().enumerate().take(regions.div_ceil(64) as usize) {
            self.set_word(at, word, bits & mask_of(word as u64, 0, regions));
        }
        true
    }

    /// Adds the bits of `other`, a bitmap of the same regions, to ours.
    pub fn join_all(&mut self, other: &Self) {
        for (page, bits) in (0u32..).zip(&other.pages) {
            let known = match bits {
                Page::Clear => true,
                Page::Full => self.join(page, None),
                Page::Bits(bits) => self.join(page, Some(bits)),
            };
            debug_assert!(known, "the bitmaps are of different regions");
        }
    }

    /// Adds the bits of a page that is durable already: as [`Bitmap::join`], but the page does not have to be saved.
    pub fn load(&mut self, page: u32, bits: &PageBits) {
        if page > 0 && planted(Plant::OnePageRead) {
            return;
        }
        let known = self.join(page, Some(bits));
        assert!(known, "page {page} was stored for a bitmap of another size");
        self.unsaved.remove(&page);
    }

    /// The bits of a page.
    pub fn page_bits(&self, page: u32) -> PageBits {
        match &self.pages[page as usize] {
            Page::Clear => empty_page(),
            Page::Full => full_page(self.page_regions(page as usize)),
            Page::Bits(bits) => bits.clone(),
        }
    }

    /// The pages with any bit set.
    pub fn dirty_pages(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.pages).filter(|(_, page)| **page != Page::Clear).map(|(n, _)| n)
    }

    /// An unsaved page that is not being saved already, to be saved as it is now, at `tick`.
    #[inline]
    pub fn take_unsaved(&mut self, tick: u64) -> Option<u32> {
        let turns = self.unsaved.range(self.next..).chain(self.unsaved.range(..self.next));
        let page = turns.copied().find(|page| !self.saving.contains(page))?;
        self.next = page + 1;
        self.unsaved.remove(&page);
        self.saving.insert(page);
        self.saved_at[page as usize] = tick;
        Some(page)
    }

    /// The saving of a page ended.
    pub fn page_saved(&mut self, page: u32, ok: bool) {
        self.saving.remove(&page);
        if !ok {
            self.saved_at[page as usize] = 0;
            self.unsaved.insert(page);
        }
    }

    /// Whether a page waits to be saved.
    #[inline]
    pub fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// Whether every page is durable as it is.
    #[inline]
    pub fn is_saved(&self) -> bool {
        self.unsaved.is_empty() && self.saving.is_empty()
    }

    /// Whether the bits of an extent, as they were at `tick`, are durable.
    pub fn is_saved_since(&self, tick: u64, volume: VolumeIndex, extent: Extent) -> bool {
        self.pages_of(volume, extent).all(|page| {
            let as_now = !self.unsaved.contains(&page) || self.saved_at[page as usize] >= tick;
            as_now && !self.saving.contains(&page)
        })
    }

    /// The same of all volumes.
    #[must_use]
    pub fn is_all_saved_since(&self, tick: u64) -> bool {
        self.saving.is_empty()
            && self.unsaved.iter().all(|page| self.saved_at[*page as usize] >= tick)
    }

    /// The pages that cover an extent.
    fn pages_of(&self, volume: VolumeIndex, extent: Extent) -> core::ops::RangeInclusive<u32> {
        let regions = self.grid.touched(volume, extent);
        (regions.start / PAGE_REGIONS) as u32..=((regions.end - 1) / PAGE_REGIONS) as u32
    }
}

fn empty_page() -> PageBits {
    Box::new([0; PAGE_WORDS])
}

fn full_page(regions: u64) -> PageBits {
    let mut bits = empty_page();
    for (word, n) in bits.iter_mut().zip(0u64..) {
        let left = regions.saturating_sub(n * 64);
        *word = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
    }
    bits
}

/// The bits of a word of a page that stand for regions of a range within it.
const fn mask_of(word: u64, from: u64, to: u64) -> u64 {
    let begin = if word == from / 64 { u64::MAX << (from % 64) } else { u64::MAX };
    let end = if word == to / 64 { (1 << (to % 64)) - 1 } else { u64::MAX };
    begin & end
}

fn ones_between(bits: &PageBits, from: u64, to: u64) -> u64 {
    (from / 64..to.div_ceil(64))
        .map(|word| {
            let mask = mask_of(word, from, to);
            u64::from((bits[word as usize] & mask).count_ones())
        })
        .sum()
}

#[cfg(test)]
#[path = "bitmap_tests.rs"]
mod tests;
