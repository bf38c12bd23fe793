// SPDX-License-Identifier: Apache-2.0
//! Keeping changes so that a crash at any moment leaves, of every page, the state before or the state after.
//!
//! ```text
//!  a page:    changed        written        flushed           written       flushed
//!    level ──────────> first ──────────────────────> lags ────────────> twin ──────> level
//!                      copy A                kept: told      copy B
//!
//!  the file:  idle ──next──> writing ──all written──> written ──next──> flushing ──flushed──> idle
//!                               └─ nothing needs it ─────────────────────────────────────────> idle
//!                any write or flush failed ──> poisoned
//! ```
//! The superblock of a new file is durable before anything else is written. Later, member states that change are durable
//! before any other page of their batch is written, and so are changes of the directory: what a page of a map says counts
//! only in a file whose directory has the map.
//!
//! A change is told as kept once copy A is durable. Copy B needs no flush of its own: the next one makes it durable,
//! and only where its page is to be written again one is made for it. What is queued while writes or a flush are
//! under way goes into the next batch together (group commit). An extent that turns hot goes to a page that can be
//! written at once, so it waits for no twin.
//!
//! After a failed write or flush nobody knows what the disk holds: every change is told as not kept until the file is
//! opened again.

use crate::directory::{DIRECTORY_AT, Directory, MAPS_AT, MEMBERS_AT};
use crate::files::record_page;
use crate::hot::Hot;
use crate::layout::Layout;
use crate::members::Members;
use crate::tickets::Tickets;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use helio_format::directory::{self, MapOwner};
use helio_format::epochs::Epochs;
use helio_format::files::FileRecord;
use helio_format::members::VolumeEntries;
use helio_format::page::{self, Header, Kind, PAGE_BYTES, PAIR_BYTES, Place, Words};
use helio_format::superblock::Superblock;
use helio_format::{Checksum, hot, marks};

/// Most pages written in one batch, so that what turns hot in the meantime does not wait for all marks.
const BATCH_MOST: usize = 256;

/// What the owner of the metadata file must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataEffect {
    /// Write these bytes at this byte offset, then call [`Ledger::written`]. Several may be under way at once.
    Write {
        /// Byte offset in the metadata file.
        offset: u64,
        /// One page.
        bytes: Vec<u8>,
    },
    /// Make the file durable, then call [`Ledger::flushed`]. No write is under way.
    Flush,
}

/// What is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new superblock in place of the old one.
    Superblock(Box<Superblock>),
    /// New members of every volume in place of the old ones. In a volume that the superblock calls suspect, all that are
    /// good become suspect.
    Members(Vec<VolumeEntries>),
    /// New epochs of every volume and its members in place of the old ones.
    Epochs(Epochs),
    /// Extents that turn hot and extents that are not hot any more.
    Hot {
        /// The caller's name for this change.
        ticket: u64,
        /// Extents that turn hot. One that is hot already stays so, and is waited for.
        add: Vec<u64>,
        /// Extents that are not hot any more. One that is not hot is passed over.
        remove: Vec<u64>,
    },
    /// New bits of a page of a bitmap in place of the old ones.
    Marks {
        /// Whose bitmap.
        owner: MapOwner,
        /// Which page of it.
        page: u32,
        /// Its bits.
        bits: Box<Words>,
    },
    /// A bitmap without a bit set is added. The file already has the length that [`Ledger::length_with`] says, all of it
    /// allocated.
    Make {
        /// Whose bitmap. It has none yet.
        owner: MapOwner,
        /// How many bytes a bit stands for, a power of two.
        unit: u64,
    },
    /// A bitmap is removed. No change of it is under way.
    Remove {
        /// Whose bitmap. The one of peer 0 stays.
        owner: MapOwner,
    },
}

/// What became of a change. Every change is told exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Of a superblock.
    Superblock {
        /// It is durable.
        ok: bool,
    },
    /// Of the members.
    Members {
        /// It is durable.
        ok: bool,
    },
    /// Of their epochs.
    Epochs {
        /// It is durable.
        ok: bool,
    },
    /// Of hot extents.
    Hot {
        /// Which change.
        ticket: u64,
        /// It is durable.
        ok: bool,
    },
    /// Of a page of a bitmap.
    Marks {
        /// Whose bitmap.
        owner: MapOwner,
        /// Which page.
        page: u32,
        /// It is durable.
        ok: bool,
    },
    /// Of a bitmap that is made or removed.
    Map {
        /// Whose bitmap.
        owner: MapOwner,
        /// It is durable.
        ok: bool,
    },
}

/// Who waits for a page.
#[derive(Clone, Copy, Debug)]
enum Waiter {
    Superblock,
    Members,
    Epochs,
    /// A key of [`Tickets`].
    Hot(u64),
    Marks {
        owner: MapOwner,
        page: u32,
    },
    Map(MapOwner),
}

/// What a page is to say.
#[derive(Clone, Debug)]
enum Queued {
    Superblock(Box<Superblock>),
    /// Hot slots, member states or entries as they are when it is written.
    AsItIs,
    Marks(Box<Words>),
}

/// How the two copies stand.
#[derive(Clone, Debug, Default)]
enum Copies {
    /// Both durable and the same.
    #[default]
    Level,
    /// Copy A is being written.
    First { sequence: u64, bytes: Vec<u8>, waiting: Vec<Waiter> },
    /// One is durable; this one (0 A, 1 B) is to be made like it.
    Lags { copy: u64, bytes: Vec<u8> },
    /// One is durable; the other was made like it, which the next flush makes durable.
    Twin,
}

/// A page about which there is something to do.
#[derive(Clone, Debug, Default)]
struct Page {
    queued: Option<Queued>,
    waiting: Vec<Waiter>,
    copies: Copies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Writing { left: usize, flush: bool },
    Written,
    Flushing,
    Poisoned,
}

/// Whose file it is, and what proves it.
#[derive(Clone, Debug)]
struct Whose {
    group: String,
    node: String,
    /// The mark on every page.
    owner: u32,
    checksum: Checksum,
}

/// The state machine drawn above, over the metadata file of one group.
#[derive(Clone, Debug)]
pub struct Ledger {
    whose: Whose,
    layout: Layout,
    stage: Stage,
    /// The last sequence given to a page.
    issued: u64,
    /// The highest one that is durable. None in a file without a superblock: nothing else is written before that.
    durable: Option<u64>,
    hot: Hot,
    members: Members,
    directory: Directory,
    /// Pages with something to do, by the number of their pair.
    pages: BTreeMap<u32, Page>,
    /// Where the next batch begins among the pages of bitmaps.
    turn: u32,
    tickets: Tickets,
}

impl Ledger {
    /// Of a new file, which is all zeros and has the layout's length. The first change must be its superblock.
    #[must_use]
    pub fn fresh(layout: Layout, (group, node): (&str, &str), checksum: Checksum) -> Self {
        let owner = page::owner(group, node, checksum);
        Self::of(layout, (group, node), owner, checksum)
    }

    /// With this owner's mark on its pages.
    pub(crate) fn of(
        layout: Layout,
        (group, node): (&str, &str),
        owner: u32,
        checksum: Checksum,
    ) -> Self {
        Self {
            whose: Whose { group: group.into(), node: node.into(), owner, checksum },
            stage: Stage::Idle,
            issued: 0,
            durable: None,
            hot: Hot::new(layout.hot_pages()),
            members: Members::none(layout.volumes()),
            directory: Directory::standing(&layout),
            pages: BTreeMap::new(),
            turn: 0,
            tickets: Tickets::default(),
            layout,
        }
    }

    /// What lies where.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The owner's mark on its pages.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.whose.owner
    }

    /// The page of a record of this file; see [`record_page`].
    pub(crate) fn record_page(&self, record: FileRecord) -> Vec<u8> {
        record_page(record, self.whose.owner, self.whose.checksum)
    }

    /// Gives the group or the node another name: the next superblock has it. Its pages keep their mark.
    pub fn rename(&mut self, (group, node): (&str, &str)) {
        (self.whose.group, self.whose.node) = (group.into(), node.into());
    }

    /// The *metadata sequence*: the highest one that is durable. It never goes back, unless the file was.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.durable.unwrap_or(0)
    }

    /// Whether nothing is queued or being written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let at_rest = |page: &Page| {
            page.queued.is_none() && matches!(page.copies, Copies::Level | Copies::Twin)
        };
        matches!(self.stage, Stage::Idle | Stage::Poisoned)
            && !self.tickets.has_loose()
            && self.pages.values().all(at_rest)
    }

    /// Whether a write or flush failed: nothing is kept any more until the file is opened again.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.stage == Stage::Poisoned
    }

    /// What the file has beyond the members of the volumes and one peer, for people. Who uses these alone must refuse the
    /// file: another peer may be owed writes that only its bitmap records.
    #[must_use]
    pub fn beyond(&self) -> Option<String> {
        let known =
            |owner| matches!(owner, MapOwner::Engine | MapOwner::Peer(0) | MapOwner::Member { .. });
        let map = self.directory.maps().map(|entry| entry.owner).find(|owner| !known(*owner));
        map.map(|owner| format!("a bitmap of {owner}"))
    }

    /// Whether the file has that map.
    #[must_use]
    pub fn has_map(&self, owner: MapOwner) -> bool {
        self.directory.entry(owner).is_some()
    }

    /// The members of every volume, as they are to be recorded.
    #[must_use]
    pub fn members(&self) -> &[VolumeEntries] {
        self.members.entries()
    }

    /// The epochs of every volume, as they are to be recorded.
    #[must_use]
    pub const fn epochs(&self) -> &Epochs {
        self.members.epochs()
    }

    /// Queues a change; then call [`Ledger::next`]. Its end is told by [`Ledger::written`] or [`Ledger::flushed`], or at
    /// once where it cannot be kept any more.
    ///
    /// # Panics
    /// On what the caller can know is wrong: another layout or owner, an extent or region the group does not have, more
    /// hot extents than slots, anything before a new file's superblock.
    #[must_use = "a change that cannot be stored is reported here"]
    pub fn keep(&mut self, change: Change) -> Option<Kept> {
        if self.is_poisoned() {
            return Some(match change {
                Change::Superblock(_) => Kept::Superblock { ok: false },
                Change::Members(_) => Kept::Members { ok: false },
                Change::Epochs(_) => Kept::Epochs { ok: false },
                Change::Hot { ticket, .. } => Kept::Hot { ticket, ok: false },
                Change::Marks { owner, page, .. } => Kept::Marks { owner, page, ok: false },
                Change::Make { owner, .. } | Change::Remove { owner } => {
                    Kept::Map { owner, ok: false }
                }
            });
        }
        self.check(&change);
        match change {
            Change::Superblock(superblock) => {
                if self.durable.is_none() && !self.pages.contains_key(&0) {
                    self.rewrite(DIRECTORY_AT.start);
                }
                if self.members.set_suspect(superblock.suspect, superblock.sizes.len()) {
                    self.rewrite(MEMBERS_AT);
                }
                self.queue(0, Queued::Superblock(superblock), Waiter::Superblock);
            }
            Change::Members(members) => {
                self.members.set_entries(members);
                self.queue(MEMBERS_AT, Queued::AsItIs, Waiter::Members);
            }
            Change::Epochs(epochs) => {
                self.members.set_epochs(epochs);
                self.queue(MEMBERS_AT, Queued::AsItIs, Waiter::Epochs);
            }
            Change::Hot { ticket, add, remove } => self.keep_hot(ticket, &add, &remove),
            Change::Marks { owner, page, bits } => {
                let number = self.directory.number(owner, page);
                self.queue(number, Queued::Marks(bits), Waiter::Marks { owner, page });
            }
            Change::Make { owner, unit } => {
                let page = self.directory.make(owner, unit, &self.layout);
                self.queue(DIRECTORY_AT.start + page, Queued::AsItIs, Waiter::Map(owner));
            }
            Change::Remove { owner } => self.remove(owner),
        }
        None
    }

    fn check(&self, change: &Change) {
        match change {
            Change::Superblock(b) => {
                let Whose { group, node, .. } = &self.whose;
                assert_eq!((&b.group, &b.node), (group, node), "another's superblock");
                assert_eq!(Layout::of(b), self.layout, "one file has one layout");
                return;
            }
            Change::Members(members) => {
                assert_eq!(members.len(), self.layout.volumes(), "members of every volume");
            }
            Change::Epochs(epochs) => {
                assert_eq!(epochs.volumes.len(), self.layout.volumes(), "epochs of every volume");
            }
            Change::Hot { add, .. } => {
                let there = |extent: &u64| *extent < self.layout.extents();
                assert!(add.iter().all(there), "an extent beyond the volumes' end");
            }
            Change::Marks { owner, page, bits } => {
                let map = self.directory.map(*owner);
                assert!(*page < map.pairs, "there is no bitmap page {page}");
                let regions = self.layout.bits_in(*owner, map.unit, *page);
                assert!(marks::within(bits, regions), "a mark beyond the volumes' end");
            }
            Change::Make { .. } | Change::Remove { .. } => {}
        }
        let begun = self.durable.is_some() || self.pages.contains_key(&0);
        assert!(begun, "the first change of a new file is its superblock");
    }

    /// The length in bytes that the file must have before these bitmaps can be made in this order, for each its unit. One that
    /// the file has is passed over. None if there is no room for an entry, or the group cannot have it.
    #[must_use]
    pub fn length_with(&self, maps: &[(MapOwner, u64)]) -> Option<u64> {
        let mut directory = self.directory.clone();
        for (owner, unit) in maps {
            if directory.entry(*owner).is_none() {
                directory.room(self.layout.pages(*owner, *unit)?)?;
                directory.make(*owner, *unit, &self.layout);
            }
        }
        Some(u64::from(directory.end()) * PAIR_BYTES as u64)
    }

    fn remove(&mut self, owner: MapOwner) {
        let (page, range) = self.directory.remove(owner);
        for (_, gone) in self.pages.range_mut(range) {
            let in_flight = match &gone.copies {
                Copies::First { waiting, .. } => waiting.len(),
                Copies::Level | Copies::Lags { .. } | Copies::Twin => 0,
            };
            assert_eq!(gone.waiting.len() + in_flight, 0, "the map of {owner} is being changed");
            gone.queued = None;
            if matches!(gone.copies, Copies::Lags { .. }) {
                gone.copies = Copies::Level;
            }
        }
        self.queue(DIRECTORY_AT.start + page, Queued::AsItIs, Waiter::Map(owner));
    }

    fn queue(&mut self, number: u32, queued: Queued, waiter: Waiter) {
        let page = self.pages.entry(number).or_default();
        page.queued = Some(queued);
        page.waiting.push(waiter);
    }

    /// Has a page written although nobody asked: what the file says of it is not what it should say.
    pub(crate) fn rewrite(&mut self, number: u32) {
        let place = self.directory.place(number);
        let queued = match place.map(|place| place.kind) {
            Some(Kind::Marks) => Queued::Marks(Box::new([0; page::BODY_WORDS])),
            _ => Queued::AsItIs,
        };
        self.pages.entry(number).or_default().queued = Some(queued);
    }

    fn rewrite_hot(&mut self, index: u32) {
        self.rewrite(self.hot_at(index));
    }

    /// The number of a hot page.
    fn hot_at(&self, index: u32) -> u32 {
        self.directory.number(MapOwner::Engine, index)
    }

    /// Has one copy of a page (0 A, 1 B) made like the other, which was found in the file.
    pub(crate) fn mend(&mut self, number: u32, copy: u64, bytes: Vec<u8>) {
        self.pages.entry(number).or_default().copies = Copies::Lags { copy, bytes };
    }

    /// Takes over a hot page found in the file.
    pub(crate) fn found_hot(&mut self, index: u32, slots: Box<Words>) {
        if self.hot.found(index, slots) {
            self.rewrite_hot(index);
        }
    }

    /// Takes over what was found in the file of the members.
    pub(crate) fn found_members(&mut self, members: Members) {
        self.members = members;
    }

    /// Takes over the directory found in the file.
    pub(crate) fn found_directory(&mut self, directory: Directory) {
        self.directory = directory;
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The hot extents, ascending.
    pub(crate) fn hot_extents(&self) -> Vec<u64> {
        self.hot.extents()
    }

    /// Goes on from the count of a file that this one takes the place of.
    pub(crate) fn continue_from(&mut self, sequence: u64) {
        self.issued = sequence;
    }

    /// Takes over a sequence found in the file. A file with one has a superblock.
    pub(crate) fn found_sequence(&mut self, sequence: u64) {
        self.issued = self.issued.max(sequence);
        self.durable = Some(self.issued);
    }

    fn keep_hot(&mut self, ticket: u64, add: &[u64], remove: &[u64]) {
        let mut touched = Vec::new();
        for extent in remove {
            for index in self.hot.remove(*extent) {
                self.rewrite_hot(index);
                touched.push(index);
            }
            // It may have been in another page before, which waits longer to be written than this one.
            touched.extend(self.hot.left(*extent));
        }
        for extent in add {
            let index = match self.hot.page_of(*extent) {
                Some(index) => index,
                None => {
                    let (pages, stage) = (&self.pages, self.stage);
                    let first = self.directory.number(MapOwner::Engine, 0);
                    let rank = |index| rank(pages.get(&(first + index)), stage);
                    let index = self.hot.add(*extent, rank);
                    self.rewrite_hot(index);
                    index
                }
            };
            touched.push(index);
        }
        touched.sort_unstable();
        touched.dedup();
        let key = self.tickets.next_key();
        let mut waits = 0;
        for index in touched {
            let number = self.hot_at(index);
            // A page with nothing queued and nothing in flight says it durably already.
            let waiting = match self.pages.get_mut(&number) {
                Some(Page { queued: Some(_), waiting, .. }) => waiting,
                Some(Page { copies: Copies::First { waiting, .. }, .. }) => waiting,
                _ => continue,
            };
            waiting.push(Waiter::Hot(key));
            waits += 1;
        }
        self.tickets.add(ticket, waits);
    }

    /// Appends what is to be done next; nothing while something is under way, or where there is nothing to do. Call it
    /// after [`Ledger::keep`], [`Ledger::written`] and [`Ledger::flushed`].
    pub fn next(&mut self, out: &mut Vec<MetadataEffect>) {
        match self.stage {
            Stage::Idle => self.begin(out),
            Stage::Written => {
                self.stage = Stage::Flushing;
                out.push(MetadataEffect::Flush);
            }
            Stage::Writing { .. } | Stage::Flushing | Stage::Poisoned => {}
        }
    }

    /// The pages that the next batch may write, in order.
    fn order(&self) -> Vec<u32> {
        if self.durable.is_none() {
            return self.pages.range(..1).map(|(number, _)| *number).collect();
        }
        for first in [MEMBERS_AT..MEMBERS_AT + 1, DIRECTORY_AT] {
            let changed = self.pages.range(first).filter(|(_, page)| page.queued.is_some());
            let changed: Vec<u32> = changed.map(|(number, _)| *number).collect();
            if !changed.is_empty() {
                return changed;
            }
        }
        let hot = self.directory.map(MapOwner::Engine).range();
        let early = |number: &u32| *number < MAPS_AT || hot.contains(number);
        let (mut order, mut marks): (Vec<u32>, Vec<u32>) =
            self.pages.keys().partition(|n| early(n));
        let turn = marks.partition_point(|number| *number < self.turn);
        marks.rotate_left(turn);
        order.extend(marks);
        order
    }

    /// Begins a batch.
    fn begin(&mut self, out: &mut Vec<MetadataEffect>) {
        let order = self.order();
        let (mut left, mut flush) = (0, self.tickets.has_loose());
        for number in order {
            if left == BATCH_MOST {
                self.turn = number;
                break;
            }
            let Some(page) = self.pages.get_mut(&number) else { continue };
            match mem::take(&mut page.copies) {
                Copies::Level => {
                    let Some(queued) = page.queued.take() else { continue };
                    let waiting = mem::take(&mut page.waiting);
                    let (sequence, bytes) = self.encode(number, &queued);
                    out.push(write(number, 0, bytes.clone()));
                    let copies = Copies::First { sequence, bytes, waiting };
                    self.pages.entry(number).or_default().copies = copies;
                    flush = true;
                    left += 1;
                }
                Copies::Lags { copy, bytes } => {
                    out.push(write(number, copy, bytes));
                    page.copies = Copies::Twin;
                    flush |= page.queued.is_some();
                    left += 1;
                }
                Copies::Twin => {
                    page.copies = Copies::Twin;
                    flush |= page.queued.is_some();
                }
                Copies::First { .. } => unreachable!("a batch begins when the last one has ended"),
            }
        }
        self.stage = match (left, flush) {
            (0, false) => Stage::Idle,
            (0, true) => {
                out.push(MetadataEffect::Flush);
                Stage::Flushing
            }
            _ => Stage::Writing { left, flush },
        };
    }

    fn encode(&mut self, number: u32, queued: &Queued) -> (u64, Vec<u8>) {
        self.issued += 1;
        let place = self.directory.place(number);
        let place = place.unwrap_or_else(|| panic!("no page lies at pair {number}"));
        let Place { kind, index, .. } = place;
        let body = match (queued, kind) {
            (Queued::Superblock(superblock), _) => superblock.encode(),
            (Queued::Marks(bits), _) => marks::encode(bits),
            (Queued::AsItIs, Kind::Members) => self.members.encode(),
            (Queued::AsItIs, Kind::Directory) => directory::encode(&self.directory.page(index)),
            (Queued::AsItIs, _) => hot::encode(self.hot.slots(index)),
        };
        let header = Header { place, owner: self.whose.owner, sequence: self.issued };
        (self.issued, page::encode(&header, &body, self.whose.checksum))
    }

    /// One write ended. Returns what cannot be kept because of it.
    pub fn written(&mut self, ok: bool) -> Vec<Kept> {
        match self.stage {
            // The others of a batch of which one failed.
            Stage::Poisoned => Vec::new(),
            Stage::Writing { .. } if !ok => self.poison(),
            Stage::Writing { left, flush } => {
                self.stage = match (left - 1, flush) {
                    (0, true) => Stage::Written,
                    (0, false) => Stage::Idle,
                    (left, _) => Stage::Writing { left, flush },
                };
                Vec::new()
            }
            Stage::Idle | Stage::Written | Stage::Flushing => {
                panic!("a write ended that was not requested")
            }
        }
    }

    /// The flush ended. Returns what is kept now, or cannot be.
    pub fn flushed(&mut self, ok: bool) -> Vec<Kept> {
        assert_eq!(self.stage, Stage::Flushing, "a flush ended that was not requested");
        if !ok {
            return self.poison();
        }
        self.stage = Stage::Idle;
        let loose = self.tickets.take_loose().into_iter();
        let mut kept: Vec<Kept> = loose.map(|ticket| Kept::Hot { ticket, ok: true }).collect();
        let mut told = Vec::new();
        for (number, page) in &mut self.pages {
            let place = self.directory.place(*number);
            match mem::take(&mut page.copies) {
                Copies::First { sequence, bytes, waiting } => {
                    self.durable = self.durable.max(Some(sequence));
                    told.extend(waiting);
                    // The map of the page can have been removed since.
                    let Some(place) = place else { continue };
                    page.copies = Copies::Lags { copy: 1, bytes };
                    match place.kind {
                        _ if page.queued.is_some() => {}
                        Kind::Hot => self.hot.settled(place.index),
                        Kind::Directory => self.directory.settled(place.index),
                        Kind::Superblock | Kind::Marks | Kind::Members | Kind::Files => {}
                    }
                }
                Copies::Twin => {}
                other => page.copies = other,
            }
        }
        self.pages.retain(|_, p| p.queued.is_some() || !matches!(p.copies, Copies::Level));
        for waiter in told {
            kept.extend(self.told(waiter));
        }
        kept
    }

    /// A page that somebody waits for is durable.
    fn told(&mut self, waiter: Waiter) -> Option<Kept> {
        match waiter {
            Waiter::Superblock => Some(Kept::Superblock { ok: true }),
            Waiter::Members => Some(Kept::Members { ok: true }),
            Waiter::Epochs => Some(Kept::Epochs { ok: true }),
            Waiter::Marks { owner, page } => Some(Kept::Marks { owner, page, ok: true }),
            Waiter::Map(owner) => Some(Kept::Map { owner, ok: true }),
            Waiter::Hot(key) => {
                let ticket = self.tickets.count_durable(key)?;
                Some(Kept::Hot { ticket, ok: true })
            }
        }
    }

    /// Everything that was to be kept is not.
    fn poison(&mut self) -> Vec<Kept> {
        self.stage = Stage::Poisoned;
        let mut lost = Vec::new();
        for page in mem::take(&mut self.pages).into_values() {
            let in_flight = match page.copies {
                Copies::First { waiting, .. } => waiting,
                Copies::Level | Copies::Lags { .. } | Copies::Twin => Vec::new(),
            };
            for waiter in in_flight.into_iter().chain(page.waiting) {
                match waiter {
                    Waiter::Superblock => lost.push(Kept::Superblock { ok: false }),
                    Waiter::Members => lost.push(Kept::Members { ok: false }),
                    Waiter::Epochs => lost.push(Kept::Epochs { ok: false }),
                    Waiter::Marks { owner, page } => {
                        lost.push(Kept::Marks { owner, page, ok: false });
                    }
                    Waiter::Map(owner) => lost.push(Kept::Map { owner, ok: false }),
                    // Told below, once.
                    Waiter::Hot(_) => {}
                }
            }
        }
        let waiting = self.tickets.take_waiting();
        lost.extend(waiting.map(|ticket| Kept::Hot { ticket, ok: false }));
        // These were durable before; only that nobody had been told.
        let loose = self.tickets.take_loose().into_iter();
        lost.extend(loose.map(|ticket| Kept::Hot { ticket, ok: true }));
        lost
    }
}

/// How well an extent that turns hot is put into a page: one that the next batch can write, rather one that it writes
/// anyway.
fn rank(page: Option<&Page>, stage: Stage) -> (bool, bool) {
    let Some(page) = page else { return (true, false) };
    let flushes = match stage {
        Stage::Writing { flush, .. } => flush,
        Stage::Written | Stage::Flushing => true,
        Stage::Idle | Stage::Poisoned => false,
    };
    let ready = match page.copies {
        Copies::Level => true,
        Copies::Twin => flushes,
        Copies::First { .. } | Copies::Lags { .. } => false,
    };
    (ready, page.queued.is_some())
}

fn write(number: u32, copy: u64, bytes: Vec<u8>) -> MetadataEffect {
    let offset = u64::from(number) * PAIR_BYTES as u64 + copy * PAGE_BYTES as u64;
    MetadataEffect::Write { offset, bytes }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
