// SPDX-License-Identifier: Apache-2.0
//! The mark map against one peer: which regions may differ from its copy.
//!
//! A region is marked for one of two reasons, kept apart because they end differently:
//! * *stale*: order was lost there, and only the copier can end it (a bit per region);
//! * *pending*: items in the queue touch it, and it ends when the peer has the last of them durable (a count per
//!   touched region, in a table that is as large as the queue, not as the volume).
//!
//! So a mark knows its position while streaming (rule 6): the position of the last pending item. When the queue is
//! dropped, pending becomes stale.
//!
//! Stale bits lie in pages, the ones the ledger keeps (2 KiB for a GiB at 64 KiB a region). A page that changed is
//! *dirty* until it was kept. A mark that ended may stay on disk for a while: it only costs a comparison. A mark that
//! began is covered by its hot extent until its page was kept (`cover.rs`).

use crate::pending::Counts;
use crate::plant::{Plant, planted};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use helio_format::copying::{PAGE_WORDS, PageBits};
use helio_format::marks::REGIONS_PER_PAGE;
use helio_units::{Bytes, Extent, VolumeIndex};

/// Regions one page covers.
pub(crate) const PAGE_REGIONS: u64 = REGIONS_PER_PAGE as u64;

/// A region of a group: volumes lie one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Region(pub(crate) u64);

/// A page of stale bits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Page {
    /// No bit is set; needs no memory.
    Clear,
    /// Every bit is set; needs none either.
    Full,
    Bits(PageBits),
}

/// The map drawn above.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// Bytes a region covers.
    grain: Bytes,
    /// First region of each volume, and the count of all at the end.
    starts: Vec<u64>,
    sizes: Vec<Bytes>,
    pages: Vec<Page>,
    stale_count: u64,
    /// Pages that say something else than the ones kept.
    dirty: BTreeSet<u32>,
    /// Behind the page that was taken to be kept last: every dirty page has its turn, however fast the first ones change.
    next: u32,
    /// For each page, the tick its last keeping was taken at; zero where that failed.
    kept: Vec<u64>,
    /// Pages whose keeping is under way; few, where there are millions in `kept`.
    keeping: BTreeSet<u32>,
    /// Being copied, and still stale: cleared when durable at the peer, unless staled again meanwhile. As few as are
    /// in flight.
    copying: BTreeSet<u64>,
    pending: Counts,
}

impl Marks {
    pub(crate) fn new(sizes: &[Bytes], grain: Bytes) -> Self {
        let mut starts = vec![0];
        for size in sizes {
            starts.push(starts[starts.len() - 1] + size.0.div_ceil(grain.0));
        }
        let pages = starts[starts.len() - 1].div_ceil(PAGE_REGIONS) as usize;
        Self {
            grain,
            starts,
            sizes: sizes.to_vec(),
            pages: vec![Page::Clear; pages],
            stale_count: 0,
            dirty: BTreeSet::new(),
            next: 0,
            kept: vec![0; pages],
            keeping: BTreeSet::new(),
            copying: BTreeSet::new(),
            pending: Counts::default(),
        }
    }

    /// Bytes one region covers.
    pub(crate) fn grain(&self) -> Bytes {
        self.grain
    }

    /// The regions of each volume.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = core::ops::Range<u64>> + '_ {
        self.starts.windows(2).map(|pair| pair[0]..pair[1])
    }

    fn total(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// The regions of a page that exist; the last page may have fewer.
    fn page_regions(&self, page: usize) -> u64 {
        (self.total() - page as u64 * PAGE_REGIONS).min(PAGE_REGIONS)
    }

    /// The regions an extent touches.
    pub(crate) fn regions(&self, volume: VolumeIndex, extent: Extent) -> core::ops::Range<u64> {
        let start = self.starts[usize::from(volume.0)];
        start + extent.offset / self.grain.0..start + extent.end().div_ceil(self.grain.0)
    }

    /// Which volume and extent a region is; the last one of a volume may be shorter.
    pub(crate) fn place(&self, region: Region) -> (VolumeIndex, Extent) {
        let volume = self.starts.partition_point(|s| *s <= region.0) - 1;
        let offset = (region.0 - self.starts[volume]) * self.grain.0;
        let length = (self.sizes[volume].0 - offset).min(self.grain.0);
        (VolumeIndex(volume as u16), Extent::new(offset, length))
    }

    fn is_stale(&self, region: u64) -> bool {
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

    /// Marks every region of every volume; whole pages at once, since a large volume has millions of regions.
    pub(crate) fn stale_all(&mut self) {
        for page in 0..self.pages.len() {
            self.pages[page] = Page::Full;
            self.dirty.insert(page as u32);
        }
        self.copying.clear();
        self.stale_count = self.total();
    }

    /// Marks the regions of an extent until the copier has been there.
    pub(crate) fn stale(&mut self, volume: VolumeIndex, extent: Extent) {
        let regions = self.regions(volume, extent);
        let mut at = regions.start;
        while at < regions.end {
            let page = (at / PAGE_REGIONS) as usize;
            let behind = at + self.page_regions(page);
            if at.is_multiple_of(PAGE_REGIONS) && behind <= regions.end {
                self.stale_page(page);
                at = behind;
            } else {
                self.stale_one(at);
                at += 1;
            }
        }
    }

    /// Marks every region of a page at once.
    fn stale_page(&mut self, page: usize) {
        let begin = page as u64 * PAGE_REGIONS;
        let end = begin + self.page_regions(page);
        self.copying.retain(|region| !(begin..end).contains(region));
        if self.pages[page] != Page::Full {
            self.stale_count += end - begin - self.stale_between(begin..end);
            self.pages[page] = Page::Full;
            self.dirty.insert(page as u32);
        }
    }

    fn stale_one(&mut self, region: u64) {
        self.copying.remove(&region);
        if self.is_stale(region) {
            return;
        }
        let (page, at) = ((region / PAGE_REGIONS) as usize, region % PAGE_REGIONS);
        self.bits_mut(page)[at as usize / 64] |= 1 << (at % 64);
        self.dirty.insert(page as u32);
        self.stale_count += 1;
    }

    /// An item that touches the extent entered the queue.
    pub(crate) fn pend(&mut self, volume: VolumeIndex, extent: Extent) {
        for region in self.regions(volume, extent) {
            self.pending.add(region);
        }
    }

    /// The peer has that item durable.
    pub(crate) fn unpend(&mut self, volume: VolumeIndex, extent: Extent) {
        for region in self.regions(volume, extent) {
            self.pending.remove(region);
        }
    }

    /// The next region the copier should fetch at or behind `from`, wrapping once; it counts as being copied.
    pub(crate) fn begin_copy(&mut self, from: Region) -> Option<Region> {
        if self.copying.len() as u64 == self.stale_count {
            return None;
        }
        let from = if from.0 < self.total() { from.0 } else { 0 };
        let found = self.next_open(from, self.total()).or_else(|| self.next_open(0, from))?;
        self.copying.insert(found);
        Some(Region(found))
    }

    /// As [`Marks::begin_copy`], of one volume.
    pub(crate) fn begin_copy_of(&mut self, volume: VolumeIndex, from: Region) -> Option<Region> {
        let at = usize::from(volume.0);
        let (start, end) = (self.starts[at], self.starts[at + 1]);
        let from = if (start..end).contains(&from.0) { from.0 } else { start };
        let found = self.next_open(from, end).or_else(|| self.next_open(start, from))?;
        self.copying.insert(found);
        Some(Region(found))
    }

    /// The first region of a range that is stale and not being copied.
    fn next_open(&self, mut at: u64, end: u64) -> Option<u64> {
        while at < end {
            let (page, within) = ((at / PAGE_REGIONS) as usize, at % PAGE_REGIONS);
            let bits = match &self.pages[page] {
                Page::Clear => 0,
                Page::Full => u64::MAX,
                Page::Bits(bits) => bits[within as usize / 64],
            } & (u64::MAX << (within % 64));
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
            at = if matches!(self.pages[page], Page::Clear) {
                (page as u64 + 1) * PAGE_REGIONS
            } else {
                word_end
            };
        }
        None
    }

    /// The peer has the copier's item of this region durable: the mark ends, unless it was set again meanwhile.
    pub(crate) fn end_copy(&mut self, region: Region) {
        if self.copying.remove(&region.0) {
            let (page, at) = ((region.0 / PAGE_REGIONS) as usize, region.0 % PAGE_REGIONS);
            let bits = self.bits_mut(page);
            bits[at as usize / 64] &= !(1 << (at % 64));
            if bits.iter().all(|word| *word == 0) {
                self.pages[page] = Page::Clear;
            }
            self.dirty.insert(page as u32);
            self.stale_count -= 1;
        }
    }

    /// A copy of this region could not be read; it must be tried again.
    pub(crate) fn abandon_copy(&mut self, region: Region) {
        self.copying.remove(&region.0);
    }

    /// No copy is under way any more; what was, must be copied again.
    pub(crate) fn abandon_copies(&mut self) {
        self.copying.clear();
    }

    /// The queue is gone: what was pending is stale.
    pub(crate) fn pending_to_stale(&mut self) {
        let pending = core::mem::take(&mut self.pending);
        for region in pending.keys() {
            self.stale_one(region);
        }
    }

    /// Whether every region of the extent waits for the copier.
    pub(crate) fn covers(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.regions(volume, extent).all(|region| self.is_stale(region))
    }

    /// Whether any region of the extent waits for the copier.
    pub(crate) fn any_stale(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.stale_count > 0 && self.regions(volume, extent).any(|region| self.is_stale(region))
    }

    /// Whether an item of the queue touches the extent, those at the places `but` apart.
    pub(crate) fn is_pending(
        &self,
        volume: VolumeIndex,
        extent: Extent,
        but: &[(VolumeIndex, Extent)],
    ) -> bool {
        let apart = |region: u64| {
            but.iter().filter(|(v, e)| self.regions(*v, *e).contains(&region)).count()
        };
        self.regions(volume, extent)
            .any(|region| self.pending.count(region) as usize > apart(region))
    }

    /// The line is laid down: what its queue still touched is stale, and nothing is being copied.
    pub(crate) fn lay_down(&mut self) {
        self.pending_to_stale();
        self.copying.clear();
    }

    /// Nothing differs any more, whatever was marked; with no queue and no copy.
    pub(crate) fn clear(&mut self) {
        for (page, bits) in self.pages.iter_mut().enumerate() {
            if *bits != Page::Clear {
                *bits = Page::Clear;
                self.dirty.insert(page as u32);
            }
        }
        self.copying.clear();
        self.stale_count = 0;
    }

    /// Bytes in stale regions, counted by whole regions.
    pub(crate) fn stale_bytes(&self) -> Bytes {
        self.grain * self.stale_count
    }

    /// The same, as an upper bound, where all of the volumes in that set, a bit each, count as well.
    pub(crate) fn stale_bytes_with(&self, volumes: u64) -> Bytes {
        let whole = self.starts.windows(2).enumerate().filter(|(v, _)| volumes & (1 << v) != 0);
        let whole: u64 = whole.map(|(_, ends)| ends[1] - ends[0]).sum();
        let all = self.starts.last().copied().unwrap_or(0);
        self.grain * (self.stale_count + whole).min(all)
    }

    /// Whether nothing waits for the copier.
    pub(crate) fn none_stale(&self) -> bool {
        self.stale_count == 0
    }

    /// Whether the region at that place is marked, for either reason.
    pub(crate) fn is_marked(&self, volume: VolumeIndex, offset: u64) -> bool {
        let region = self.starts[usize::from(volume.0)] + offset / self.grain.0;
        self.is_stale(region) || self.pending.has(region)
    }

    /// Marked bytes of one volume, counted by whole regions, for either reason.
    pub(crate) fn marked_bytes(&self, volume: VolumeIndex) -> Bytes {
        let at = usize::from(volume.0);
        let range = self.starts[at]..self.starts[at + 1];
        let pending =
            self.pending.keys().filter(|r| range.contains(r) && !self.is_stale(*r)).count() as u64;
        self.grain * (self.stale_between(range) + pending)
    }

    fn stale_between(&self, range: core::ops::Range<u64>) -> u64 {
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

    /// Stale regions, joined to runs where they lie side by side.
    pub(crate) fn stale_runs(&self) -> Vec<(VolumeIndex, Extent)> {
        let mut runs: Vec<(VolumeIndex, Extent)> = Vec::new();
        let mut at = 0;
        while let Some(region) = self.next_stale(at) {
            let (volume, extent) = self.place(Region(region));
            match runs.last_mut() {
                Some((v, run)) if *v == volume && run.end() == extent.offset => {
                    run.length += extent.length;
                }
                _ => runs.push((volume, extent)),
            }
            at = region + 1;
        }
        runs
    }

    /// Everything marked for either reason, as runs; what is only pending behind what is stale.
    pub(crate) fn marked_runs(&self) -> Vec<(VolumeIndex, Extent)> {
        let mut runs = self.stale_runs();
        let pending = self.pending.keys().filter(|region| !self.is_stale(*region));
        runs.extend(pending.map(|region| self.place(Region(region))));
        runs
    }

    fn next_stale(&self, mut at: u64) -> Option<u64> {
        while at < self.total() {
            if matches!(self.pages[(at / PAGE_REGIONS) as usize], Page::Clear) {
                at = (at / PAGE_REGIONS + 1) * PAGE_REGIONS;
            } else if self.is_stale(at) {
                return Some(at);
            } else {
                at += 1;
            }
        }
        None
    }

    // Pages, as the ledger keeps them and the peer hears of them.

    /// Adds the bits of a page to ours.
    ///
    /// # Errors
    /// There is no such page.
    pub(crate) fn join(&mut self, page: u32, bits: Option<&PageBits>) -> Result<(), ()> {
        if page as usize >= self.pages.len() {
            return Err(());
        }
        let (base, regions) = (u64::from(page) * PAGE_REGIONS, self.page_regions(page as usize));
        for at in 0..regions {
            if bits.is_none_or(|bits| bits[at as usize / 64] & (1 << (at % 64)) != 0) {
                self.stale_one(base + at);
            }
        }
        Ok(())
    }

    /// A page as it was kept: as [`Marks::join`], and not dirty by that.
    pub(crate) fn load(&mut self, page: u32, bits: &PageBits) {
        if page > 0 && planted(Plant::OnePageRead) {
            return;
        }
        let known = self.join(page, Some(bits));
        assert!(known.is_ok(), "page {page} was stored for a bitmap of another size");
        self.dirty.remove(&page);
    }

    /// The bits of a page.
    pub(crate) fn page_bits(&self, page: u32) -> PageBits {
        match &self.pages[page as usize] {
            Page::Clear => empty_page(),
            Page::Full => full_page(self.page_regions(page as usize)),
            Page::Bits(bits) => bits.clone(),
        }
    }

    /// The pages with any bit set.
    pub(crate) fn marked_pages(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.pages).filter(|(_, page)| **page != Page::Clear).map(|(n, _)| n)
    }

    /// A dirty page that is not being kept already, to be kept as it is now, at `tick`.
    pub(crate) fn take_dirty(&mut self, tick: u64) -> Option<u32> {
        let turns = self.dirty.range(self.next..).chain(self.dirty.range(..self.next));
        let page = turns.copied().find(|page| !self.keeping.contains(page))?;
        self.next = page + 1;
        self.dirty.remove(&page);
        self.keeping.insert(page);
        self.kept[page as usize] = tick;
        Some(page)
    }

    /// The keeping of a page ended.
    pub(crate) fn page_kept(&mut self, page: u32, ok: bool) {
        self.keeping.remove(&page);
        if !ok {
            self.kept[page as usize] = 0;
            self.dirty.insert(page);
        }
    }

    /// Whether a page waits to be kept.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether every page says what was kept of it.
    pub(crate) fn is_kept(&self) -> bool {
        self.dirty.is_empty() && self.keeping.is_empty()
    }

    /// Whether the marks of an extent, as they were at `tick`, are kept.
    pub(crate) fn is_kept_since(&self, tick: u64, volume: VolumeIndex, extent: Extent) -> bool {
        self.pages_of(volume, extent).all(|page| {
            let as_now = !self.dirty.contains(&page) || self.kept[page as usize] >= tick;
            as_now && !self.keeping.contains(&page)
        })
    }

    /// The same, of all volumes, which have these sizes.
    pub(crate) fn are_all_kept_since(&self, tick: u64, sizes: &[Bytes]) -> bool {
        let volumes = (0..).map(VolumeIndex).zip(sizes).filter(|(_, size)| size.0 > 0);
        let mut extents = volumes.map(|(volume, size)| (volume, Extent::new(0, size.0)));
        extents.all(|(volume, extent)| self.is_kept_since(tick, volume, extent))
    }

    /// The pages that cover an extent.
    fn pages_of(&self, volume: VolumeIndex, extent: Extent) -> core::ops::RangeInclusive<u32> {
        let regions = self.regions(volume, extent);
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

fn ones_between(bits: &PageBits, from: u64, to: u64) -> u64 {
    (from / 64..to.div_ceil(64))
        .map(|word| {
            let mut mask = u64::MAX;
            if word == from / 64 {
                mask &= u64::MAX << (from % 64);
            }
            if word == to / 64 {
                mask &= (1 << (to % 64)) - 1;
            }
            u64::from((bits[word as usize] & mask).count_ones())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::REGION;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        /// The slow, obvious twin is a set of regions.
        #[test]
        fn the_paged_map_agrees_with_a_set(
            steps in prop::collection::vec((0u8..5, 0u64..70_000, 1u64..200), 1..60)
        ) {
            let grain = Bytes::kib(4);
            let size = grain * 70_300;
            let mut marks = Marks::new(&[size], grain);
            let mut twin: BTreeSet<u64> = BTreeSet::new();
            let volume = VolumeIndex(0);
            for (what, at, n) in steps {
                match what {
                    0 | 1 => {
                        // Whole pages are marked at once.
                        let n = if what == 1 { (n * 200).min(70_300 - at) } else { n };
                        marks.stale(volume, Extent::new(at * grain.0, n * grain.0));
                        twin.extend(at..at + n);
                    }
                    2 => for _ in 0..n {
                        let found = marks.begin_copy(Region(at));
                        let slow = twin.range(at..).next().or_else(|| twin.iter().next()).copied();
                        prop_assert_eq!(found.map(|r| r.0), slow);
                        if let Some(region) = found {
                            marks.end_copy(region);
                            twin.remove(&region.0);
                        }
                    },
                    3 if n == 7 => {
                        marks.stale_all();
                        twin = (0..70_300).collect();
                    }
                    3 if n == 8 => {
                        marks.clear();
                        twin.clear();
                    }
                    _ => {
                        let mut other = Marks::new(&[size], grain);
                        for page in marks.marked_pages() {
                            other.load(page, &marks.page_bits(page));
                        }
                        prop_assert_eq!(other.stale_runs(), marks.stale_runs());
                        prop_assert!(!other.is_dirty());
                    }
                }
                prop_assert_eq!(marks.stale_bytes(), grain * twin.len() as u64);
                prop_assert_eq!(marks.marked_bytes(volume), grain * twin.len() as u64);
                let at = at.min(70_299);
                prop_assert_eq!(marks.is_marked(volume, at * grain.0), twin.contains(&at));
            }
        }
    }

    fn two_volumes() -> Marks {
        Marks::new(&[Bytes::kib(100), Bytes::mib(8)], REGION)
    }

    #[test]
    fn regions_that_lie_side_by_side_are_shown_as_one_run_and_never_across_volumes() {
        let (first, second) = (VolumeIndex(0), VolumeIndex(1));
        let mut marks = two_volumes();
        let ends = [
            (first, Extent::new(REGION.0, Bytes::kib(100).0 - REGION.0)),
            (second, Extent::new(0, 2 * REGION.0)),
            (second, Extent::new(5 * REGION.0, REGION.0)),
        ];
        for (volume, extent) in ends {
            marks.stale(volume, extent);
        }
        assert_eq!(marks.stale_runs(), ends);
    }

    #[test]
    fn the_last_region_of_a_volume_may_be_short() {
        let marks = two_volumes();
        assert_eq!(marks.place(Region(1)), (VolumeIndex(0), Extent::new(65536, 36864)));
        assert_eq!(marks.place(Region(2)), (VolumeIndex(1), Extent::new(0, 65536)));
    }

    #[test]
    fn a_region_staled_while_it_is_copied_stays_stale() {
        let mut marks = two_volumes();
        marks.stale(VolumeIndex(1), Extent::new(0, 1));
        let region = marks.begin_copy(Region(0)).expect("one is stale");
        marks.stale(VolumeIndex(1), Extent::new(512, 1));
        marks.end_copy(region);
        assert!(!marks.none_stale(), "the late acknowledgement cleared a newer mark");
        assert_eq!(marks.begin_copy(Region(0)), Some(region));
        marks.end_copy(region);
        assert!(marks.none_stale());
    }

    #[test]
    fn the_copier_visits_every_region_once_and_wraps() {
        let mut marks = two_volumes();
        marks.stale_all();
        assert_eq!(marks.stale_bytes(), REGION * 130);
        let mut seen: Vec<u64> = Vec::new();
        let mut at = Region(77);
        while let Some(region) = marks.begin_copy(at) {
            seen.push(region.0);
            at = Region(region.0 + 1);
        }
        assert_eq!((seen[0], seen.len()), (77, 130));
        seen.sort_unstable();
        assert_eq!(seen, (0..130).collect::<Vec<_>>());
    }

    #[test]
    fn there_is_nothing_to_find_while_every_mark_is_being_copied() {
        let mut marks = two_volumes();
        marks.stale(VolumeIndex(1), Extent::new(0, 1));
        let region = marks.begin_copy(Region(0)).expect("one is stale");
        assert_eq!(marks.begin_copy(Region(0)), None);
        marks.abandon_copy(region);
        assert_eq!(marks.begin_copy(Region(0)), Some(region));
    }

    #[test]
    fn a_page_of_which_everything_is_marked_has_a_bit_for_every_region_that_there_is() {
        let mut marks = two_volumes();
        marks.stale_all();
        let bits = marks.page_bits(0);
        assert_eq!(bits[..4], [u64::MAX, u64::MAX, 0b11, 0], "130 regions");
        assert!(bits[4..].iter().all(|word| *word == 0));
    }

    #[test]
    fn every_dirty_page_has_its_turn_however_often_the_first_one_changes() {
        let sizes = [Bytes(REGION.0 * 3 * PAGE_REGIONS)];
        let mut marks = Marks::new(&sizes, REGION);
        marks.stale_all();
        let mut turns = Vec::new();
        while let Some(page) = marks.take_dirty(1) {
            marks.page_kept(page, true);
            turns.push(page);
            if turns.len() < 4 {
                marks.clear();
                marks.stale_all();
            }
        }
        assert_eq!(turns[..4], [0, 1, 2, 0]);
    }

    #[test]
    fn a_dropped_queue_turns_what_was_pending_into_stale() {
        let mut marks = two_volumes();
        marks.pend(VolumeIndex(1), Extent::new(0, 70_000));
        marks.pend(VolumeIndex(1), Extent::new(0, 512));
        marks.unpend(VolumeIndex(1), Extent::new(0, 512));
        assert!(marks.none_stale() && marks.is_marked(VolumeIndex(1), 65_536));
        marks.pending_to_stale();
        assert_eq!(marks.marked_bytes(VolumeIndex(1)), Bytes::kib(128));
        assert!(!marks.is_marked(VolumeIndex(0), 0));
    }
}
