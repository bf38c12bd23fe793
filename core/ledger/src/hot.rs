// SPDX-License-Identifier: Apache-2.0
//! Which slot of which hot page an extent has. Knows nothing of what is durable.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use helio_format::hot::SLOTS_PER_PAGE;
use helio_format::page::{BODY_WORDS, Words};

/// A page's slots and how many of them are free.
#[derive(Clone, Debug)]
struct HotPage {
    slots: Box<Words>,
    free: usize,
}

/// All slots.
#[derive(Clone, Debug)]
pub(crate) struct Hot {
    pages: Vec<HotPage>,
    /// Page and slot of every hot extent.
    at: BTreeMap<u64, (u32, usize)>,
    /// Extents found in a second page when the file was opened, and which: gone from the page in memory, not yet from
    /// the file.
    echoes: Vec<(u64, u32)>,
    /// Extents that left a page in memory, and which: the file may still have them there.
    left: Vec<(u64, u32)>,
}

impl Hot {
    /// So many pages of free slots.
    pub(crate) fn new(pages: u32) -> Self {
        let page = || HotPage { slots: Box::new([0; BODY_WORDS]), free: SLOTS_PER_PAGE };
        Self {
            pages: (0..pages).map(|_| page()).collect(),
            at: BTreeMap::new(),
            echoes: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Takes over a page found in the file. Returns whether an extent in it was hot already: its slot is free now, and
    /// the page is to be written.
    pub(crate) fn found(&mut self, index: u32, slots: Box<Words>) -> bool {
        let page = &mut self.pages[index as usize];
        page.slots = slots;
        let mut again = false;
        for (slot, value) in page.slots.iter_mut().enumerate() {
            let Some(extent) = value.checked_sub(1) else { continue };
            match self.at.entry(extent) {
                Entry::Vacant(place) => {
                    place.insert((index, slot));
                }
                Entry::Occupied(_) => {
                    *value = 0;
                    self.echoes.push((extent, index));
                    again = true;
                }
            }
        }
        page.free = page.slots.iter().filter(|slot| **slot == 0).count();
        again
    }

    /// The hot extents, ascending.
    pub(crate) fn extents(&self) -> Vec<u64> {
        self.at.keys().copied().collect()
    }

    pub(crate) fn slots(&self, page: u32) -> &Words {
        &self.pages[page as usize].slots
    }

    /// The page an extent is in.
    pub(crate) fn page_of(&self, extent: u64) -> Option<u32> {
        self.at.get(&extent).map(|(page, _)| *page)
    }

    /// Gives an extent a slot: in the page that comes highest by `rank`, then by free slots.
    pub(crate) fn add<R: Ord>(&mut self, extent: u64, rank: impl Fn(u32) -> R) -> u32 {
        let open = (0u32..).zip(&self.pages).filter(|(_, page)| page.free > 0);
        let best = open.max_by_key(|(index, page)| (rank(*index), page.free));
        let Some((index, _)) = best else { panic!("more extents hot than there are slots") };
        let page = &mut self.pages[index as usize];
        let slot = page.slots.iter().position(|slot| *slot == 0);
        let slot = slot.expect("a page with free slots has one");
        page.slots[slot] = extent + 1;
        page.free -= 1;
        self.at.insert(extent, (index, slot));
        index
    }

    /// Frees an extent's slots. Returns the pages that are to be written for it.
    pub(crate) fn remove(&mut self, extent: u64) -> Vec<u32> {
        let Some((index, slot)) = self.at.remove(&extent) else { return Vec::new() };
        let page = &mut self.pages[index as usize];
        page.slots[slot] = 0;
        page.free += 1;
        self.left.push((extent, index));
        let echoes = self.echoes.extract_if(.., |(echo, _)| *echo == extent);
        let mut pages: Vec<u32> = echoes.map(|(_, page)| page).collect();
        pages.push(index);
        pages
    }

    /// The pages that an extent left and that the file may still have it in.
    pub(crate) fn left(&self, extent: u64) -> impl Iterator<Item = u32> {
        self.left.iter().filter(move |(gone, _)| *gone == extent).map(|(_, page)| *page)
    }

    /// The file says of a page what memory says.
    pub(crate) fn settled(&mut self, index: u32) {
        self.left.retain(|(_, page)| *page != index);
    }
}
