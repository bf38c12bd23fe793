// SPDX-License-Identifier: Apache-2.0
//! Which page lies where in a metadata file: the fixed pages, and the maps that the directory names.
//!
//! A map is a run of pairs. It gets the first gap that is long enough, or the end of the file, and an id that no map of the
//! file had before. The place of a removed map is given away only once the directory without it is durable; until then a
//! crash may bring the old map back.

use crate::error::PageName;
use crate::layout::Layout;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use helio_format::directory::{ENTRIES_PER_PAGE, Entries, Entry, MapOwner};
use helio_format::hot::EXTENT_BYTES;
use helio_format::page::{Kind, Place, VERSION, VERSION_BEFORE};

/// The pair of the member states.
pub(crate) const MEMBERS_AT: u32 = 1;
/// The pair that says which of two files counts.
pub(crate) const FILES_AT: u32 = 2;
/// The pairs of the directory.
pub(crate) const DIRECTORY_AT: Range<u32> = 3..7;
/// The first pair of maps.
pub(crate) const MAPS_AT: u32 = DIRECTORY_AT.end;

/// The directory of one file.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    version: u16,
    /// The lowest id that was never used.
    next: u32,
    /// Every entry of every page.
    slots: Vec<Option<Entry>>,
    by_owner: BTreeMap<MapOwner, usize>,
    /// By the number of the first pair.
    by_place: BTreeMap<u32, usize>,
    /// Removed maps that the file may still have, and the directory page of each.
    leaving: Vec<(u32, Entry)>,
}

impl Directory {
    fn empty(version: u16) -> Self {
        Self {
            version,
            next: 1,
            slots: vec![None; DIRECTORY_AT.len() * ENTRIES_PER_PAGE],
            by_owner: BTreeMap::new(),
            by_place: BTreeMap::new(),
            leaving: Vec::new(),
        }
    }

    /// Of a new file: hot extents, and the bitmap of the peer.
    pub(crate) fn standing(layout: &Layout) -> Self {
        let mut new = Self::empty(VERSION);
        new.make(MapOwner::Engine, EXTENT_BYTES, layout);
        new.make(MapOwner::Peer(0), u64::from(layout.granularity()), layout);
        new
    }

    /// Of a file of the version before, which has no directory: the same maps behind the superblock, without ids.
    pub(crate) fn before(layout: &Layout) -> Self {
        let mut old = Self::empty(VERSION_BEFORE);
        let (hot, marks) = (layout.hot_pages(), layout.mark_pages());
        let engine =
            Entry { owner: MapOwner::Engine, id: 0, first: 1, pairs: hot, unit: EXTENT_BYTES };
        let unit = u64::from(layout.granularity());
        let peer = Entry { owner: MapOwner::Peer(0), first: 1 + hot, pairs: marks, unit, ..engine };
        old.insert(0, engine);
        old.insert(1, peer);
        old
    }

    /// As the pages of a file say. None if they contradict each other or the superblock.
    pub(crate) fn found(pages: Vec<Entries>, layout: &Layout) -> Option<Self> {
        let mut found = Self::empty(VERSION);
        for (page, entries) in pages.into_iter().enumerate() {
            found.next = found.next.max(entries.next);
            for (at, entry) in entries.slots.into_iter().enumerate() {
                let Some(entry) = entry else { continue };
                let fits = layout.pages(entry.owner, entry.unit) == Some(entry.pairs)
                    && entry.first >= MAPS_AT
                    && found.is_free(&entry.range())
                    && !found.by_owner.contains_key(&entry.owner);
                if !fits {
                    return None;
                }
                found.insert(page * ENTRIES_PER_PAGE + at, entry);
            }
        }
        let unit = |owner| found.entry(owner).map(|entry| entry.unit);
        let stands = unit(MapOwner::Engine) == Some(EXTENT_BYTES)
            && unit(MapOwner::Peer(0)) == Some(u64::from(layout.granularity()));
        stands.then_some(found)
    }

    fn insert(&mut self, slot: usize, entry: Entry) {
        self.slots[slot] = Some(entry);
        self.by_owner.insert(entry.owner, slot);
        if entry.pairs > 0 {
            self.by_place.insert(entry.first, slot);
        }
    }

    /// A map's entry.
    pub(crate) fn entry(&self, owner: MapOwner) -> Option<&Entry> {
        self.slots[*self.by_owner.get(&owner)?].as_ref()
    }

    /// The entry of a map that every file has, or that the caller made.
    ///
    /// # Panics
    /// There is no such map.
    pub(crate) fn map(&self, owner: MapOwner) -> &Entry {
        self.entry(owner).unwrap_or_else(|| panic!("there is no map of {owner}"))
    }

    /// The number of a map's page.
    pub(crate) fn number(&self, owner: MapOwner, index: u32) -> u32 {
        let entry = self.map(owner);
        assert!(index < entry.pairs, "the map of {owner} has no page {index}");
        entry.first + index
    }

    fn at(&self, number: u32) -> Option<&Entry> {
        let (_, slot) = self.by_place.range(..=number).next_back()?;
        self.slots[*slot].as_ref().filter(|entry| entry.range().contains(&number))
    }

    /// The page whose pair has that number; none where no map lies.
    pub(crate) fn place(&self, number: u32) -> Option<Place> {
        let fixed = |kind, index| Some(Place { version: self.version, kind, index, map: 0 });
        match number {
            0 => fixed(Kind::Superblock, 0),
            MEMBERS_AT if self.version == VERSION => fixed(Kind::Members, 0),
            FILES_AT if self.version == VERSION => fixed(Kind::Files, 0),
            _ if self.version == VERSION && DIRECTORY_AT.contains(&number) => {
                fixed(Kind::Directory, number - DIRECTORY_AT.start)
            }
            _ => self.at(number).map(|entry| Place {
                version: self.version,
                kind: if entry.owner == MapOwner::Engine { Kind::Hot } else { Kind::Marks },
                index: number - entry.first,
                map: entry.id,
            }),
        }
    }

    /// The page at a place, for people.
    pub(crate) fn name(&self, number: u32) -> Option<PageName> {
        let Place { kind, index, .. } = self.place(number)?;
        Some(PageName { kind, index, owner: self.at(number).map(|entry| entry.owner) })
    }

    /// The maps in the order of their places.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &Entry> {
        self.by_place.values().filter_map(|slot| self.slots[*slot].as_ref())
    }

    /// How many pairs the file has.
    pub(crate) fn end(&self) -> u32 {
        let first = if self.version == VERSION { MAPS_AT } else { 1 };
        self.maps().last().map_or(first, |entry| entry.range().end)
    }

    fn is_free(&self, range: &Range<u32>) -> bool {
        let apart = |entry: &Entry| entry.range().end <= range.start || range.end <= entry.first;
        self.maps().all(apart) && self.leaving.iter().all(|(_, entry)| apart(entry))
    }

    /// Where a new map of so many pairs goes: its slot and its first pair. None if the directory is full.
    pub(crate) fn room(&self, pairs: u32) -> Option<(usize, u32)> {
        let slot = self.slots.iter().position(Option::is_none)?;
        let taken = self.maps().chain(self.leaving.iter().map(|(_, entry)| entry));
        let mut starts = Vec::from([MAPS_AT]);
        starts.extend(taken.map(|entry| entry.range().end));
        starts.sort_unstable();
        let fits =
            |first: &u32| first.checked_add(pairs).is_some_and(|end| self.is_free(&(*first..end)));
        starts.into_iter().find(fits).map(|first| (slot, first))
    }

    /// Makes a map. Returns the directory page that is to be written.
    ///
    /// # Panics
    /// The owner has one, the group has no place for it, or the directory is full.
    pub(crate) fn make(&mut self, owner: MapOwner, unit: u64, layout: &Layout) -> u32 {
        assert!(!self.by_owner.contains_key(&owner), "the map of {owner} exists");
        let pairs = layout.pages(owner, unit);
        let pairs = pairs.unwrap_or_else(|| panic!("the group has no map of {owner} in {unit} B"));
        let room = self.room(pairs);
        let (slot, first) = room.unwrap_or_else(|| panic!("no room for the map of {owner}"));
        self.insert(slot, Entry { owner, id: self.next, first, pairs, unit });
        self.next += 1;
        (slot / ENTRIES_PER_PAGE) as u32
    }

    /// Removes a map. Returns the directory page that is to be written, and the pairs that it had.
    ///
    /// # Panics
    /// There is none, or every file has it.
    pub(crate) fn remove(&mut self, owner: MapOwner) -> (u32, Range<u32>) {
        let standing = matches!(owner, MapOwner::Engine | MapOwner::Peer(0));
        let slot = self.by_owner.remove(&owner).filter(|_| !standing);
        let slot = slot.unwrap_or_else(|| panic!("the map of {owner} cannot be removed"));
        let Some(entry) = self.slots[slot].take() else { panic!("{owner} has an empty entry") };
        self.by_place.remove(&entry.first);
        let page = (slot / ENTRIES_PER_PAGE) as u32;
        self.leaving.push((page, entry));
        (page, entry.range())
    }

    /// The file says of a directory page what memory says.
    pub(crate) fn settled(&mut self, page: u32) {
        self.leaving.retain(|(of, _)| *of != page);
    }

    /// What a directory page is to say.
    pub(crate) fn page(&self, index: u32) -> Entries {
        let first = index as usize * ENTRIES_PER_PAGE;
        Entries { next: self.next, slots: self.slots[first..first + ENTRIES_PER_PAGE].to_vec() }
    }
}
