// SPDX-License-Identifier: Apache-2.0
//! A node's metadata file: the ledger's own state machine, over sectors that tear.

use crate::checksum::crc32c;
use core::time::Duration;
use helio_engine::{Config, Durable, Leg};
use helio_format::copying::PageBits;
use helio_format::members::{CopyHealth, DiskMark, MemberEntry, VolumeEntries};
use helio_format::superblock::Superblock;
use helio_ledger::{Change, EXTENT_BYTES, Found, Kept, Layout, Ledger, LedgerError, MapOwner};
use helio_ledger::{MetadataEffect, Opened};
use helio_netmodel::Dice;
use helio_units::{Moment, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What a disk writes whole or not at all.
const SECTOR: usize = helio_units::SECTOR as usize;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataFault {
    /// The next write of a page.
    Write,
    /// The next flush.
    Flush,
}

/// The bytes of a metadata file.
#[derive(Clone, Debug, Default)]
pub struct MetadataBytes {
    /// What readers see.
    live: Vec<u8>,
    /// What survives the loss of power.
    durable: Vec<u8>,
    /// Sectors whose flush failed: readers see them, and no later flush writes them, until they are written again.
    dropped: BTreeSet<usize>,
}

/// What the file durably says beside the superblock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    hot: BTreeSet<u64>,
    marks: BTreeMap<u32, PageBits>,
    /// Changes asked for and not kept yet, by what they will be told as.
    asked: BTreeMap<u64, (Vec<u64>, Vec<u64>)>,
    pages: BTreeMap<u32, PageBits>,
    /// Of members and their bitmaps, as the file was found.
    members: Vec<VolumeEntries>,
    lacks: BTreeMap<(MapOwner, u32), PageBits>,
}

/// The metadata file of one node.
#[derive(Clone, Debug)]
pub struct Metadata {
    bytes: MetadataBytes,
    layout: Layout,
    owner: (String, String),
    ledger: Option<Ledger>,
    /// The batch under way: writes, then perhaps a flush.
    batch: Vec<MetadataEffect>,
    /// Changes that a poisoned ledger refused, and did not say so yet.
    refused: Vec<Kept>,
    scheduled: bool,
    told: Told,
    fault: Option<MetadataFault>,
    /// The file has holes, and its file system has no room for them.
    full: bool,
    latency: Duration,
    dice: Dice,
}

impl Metadata {
    /// A file that was never written.
    #[must_use]
    pub fn new(
        owner: (&str, &str),
        volumes: &[helio_units::Bytes],
        (granularity, hot): (u32, u32),
        latency: Duration,
        dice: Dice,
    ) -> Self {
        let sizes: Vec<u64> = volumes.iter().map(|size| size.0).collect();
        Self {
            bytes: MetadataBytes::default(),
            layout: Layout::new(&sizes, granularity, hot),
            owner: (owner.0.to_owned(), owner.1.to_owned()),
            ledger: None,
            batch: Vec::new(),
            refused: Vec::new(),
            scheduled: false,
            told: Told::default(),
            fault: None,
            full: false,
            latency,
            dice,
        }
    }

    /// Removes the file: the state directory is lost.
    pub fn remove(&mut self) {
        self.bytes = MetadataBytes::default();
        self.told = Told::default();
    }

    /// Every byte of the file reads as zero.
    pub fn zero(&mut self) {
        self.bytes.live.fill(0);
        self.bytes.durable.fill(0);
        self.told = Told::default();
    }

    /// Whether there is no file.
    pub(crate) const fn is_missing(&self) -> bool {
        self.bytes.live.is_empty()
    }

    /// Whether the file holds a record.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.says().is_some()
    }

    /// Writes a new file that holds that record, as an administrator does while the daemon is stopped.
    pub(crate) fn create(&mut self, record: Superblock) {
        let mut ledger = self.fresh(record);
        self.write_out(&mut ledger);
    }

    /// The ledger of a new file that is to hold that record.
    fn fresh(&mut self, record: Superblock) -> Ledger {
        self.bytes.live = vec![0; self.layout.bytes() as usize];
        let owner = (self.owner.0.as_str(), self.owner.1.as_str());
        let mut ledger = Ledger::fresh(self.layout.clone(), owner, crc32c);
        let refused = ledger.keep(Change::Superblock(Box::new(record)));
        assert!(refused.is_none(), "a new ledger refuses a change");
        ledger
    }

    /// Writes everything that a ledger wants written, durably, while no process uses the file.
    fn write_out(&mut self, ledger: &mut Ledger) {
        let mut effects = Vec::new();
        while !ledger.is_idle() {
            ledger.next(&mut effects);
            assert!(!effects.is_empty(), "a ledger waits for nothing");
            for effect in effects.drain(..) {
                match effect {
                    MetadataEffect::Write { offset, bytes } => {
                        let at = offset as usize;
                        self.bytes.live[at..at + bytes.len()].copy_from_slice(&bytes);
                        ledger.written(true);
                    }
                    MetadataEffect::Flush => {
                        ledger.flushed(true);
                    }
                }
            }
        }
        self.bytes.dropped.clear();
        self.bytes.durable.clone_from(&self.bytes.live);
        self.look();
    }

    /// The file has the members of these volumes with their disks, and a bitmap of every member: what it lacks of that is written
    /// before a process uses it. A member that it does not have is a new one.
    pub(crate) fn equip(
        &mut self,
        config: &Config,
        members: &[(Leg, DiskMark)],
    ) -> Result<(), LedgerError> {
        self.bytes.reopen();
        let mut ledger = match self.read()? {
            Opened::Older(_) => panic!("no node of this build writes the version before"),
            Opened::Fresh => self.fresh(new_superblock(config)),
            Opened::Found(found) => found.0,
        };
        self.write_out(&mut ledger);
        let mut entries = ledger.members().to_vec();
        for (leg, disk) in members {
            let entry = &mut entries[usize::from(leg.volume.0)][usize::from(leg.member.0)];
            entry.get_or_insert(MemberEntry { health: CopyHealth::Unproven, disk: *disk });
        }
        if entries != ledger.members() {
            let refused = ledger.keep(Change::Members(entries));
            assert!(refused.is_none(), "a ledger that works refuses a change");
        }
        let first = members.iter().map(|(leg, _)| Leg::whole(leg.volume));
        for Leg { volume, member } in members.iter().map(|(leg, _)| *leg).chain(first) {
            let (owner, unit) =
                (MapOwner::Member { volume, member: member.0 }, config.granularity.0);
            if ledger.has_map(owner) {
                continue;
            }
            let length = ledger.length_with(&[(owner, unit)]);
            let length = length.unwrap_or_else(|| panic!("no room for a map of {owner}"));
            let longer = self.bytes.live.len().max(length as usize);
            self.bytes.live.resize(longer, 0);
            let refused = ledger.keep(Change::Make { owner, unit });
            assert!(refused.is_none(), "a ledger that works refuses a change");
        }
        self.write_out(&mut ledger);
        Ok(())
    }

    /// The members of every volume, as the file was found.
    pub(crate) fn members(&self) -> &[VolumeEntries] {
        &self.told.members
    }

    /// The pages of their bitmaps.
    pub(crate) const fn lacks(&self) -> &BTreeMap<(MapOwner, u32), PageBits> {
        &self.told.lacks
    }

    /// Whether a file that tells this tells of a member that it calls so that it may lack a block.
    pub(crate) fn tells_of(
        &self,
        told: &Told,
        (leg, health): (Leg, CopyHealth),
        block: u32,
        grain: u64,
    ) -> bool {
        let offset = u64::from(block) * crate::BLOCK.0;
        let hot = self.layout.extent_start(leg.volume) + offset / EXTENT_BYTES;
        let pages = u64::from(helio_ledger::REGIONS_PER_PAGE);
        let (page, bit) = ((offset / grain / pages) as u32, offset / grain % pages);
        let owner = MapOwner::Member { volume: leg.volume, member: leg.member.0 };
        let set = |bits: &PageBits| bits[bit as usize / 64] & 1 << (bit % 64) != 0;
        let lacks = match health {
            CopyHealth::Good | CopyHealth::Suspect | CopyHealth::Blank => false,
            CopyHealth::Copying | CopyHealth::Removed | CopyHealth::Withdrawn => {
                told.lacks.get(&(owner, page)).is_some_and(set)
            }
            CopyHealth::Unproven | CopyHealth::Failed => true,
        };
        lacks || told.hot.contains(&hot)
    }

    /// The file as it lies there, for a backup.
    #[must_use]
    pub fn backup(&self) -> MetadataBytes {
        self.bytes.clone()
    }

    /// Puts an older file in its place.
    pub fn restore(&mut self, bytes: MetadataBytes) {
        self.bytes = bytes;
        self.look();
    }

    /// The next operation of that kind fails.
    pub fn fail_next(&mut self, fault: MetadataFault) {
        self.fault = Some(fault);
    }

    /// A write of a page that was never written fails from now on, as in a file with holes on a full file system.
    pub fn fill_up(&mut self) {
        self.full = true;
    }

    /// Nothing is made to fail any more.
    pub fn mend(&mut self) {
        self.fault = None;
        self.full = false;
    }

    fn read(&self) -> Result<Opened, LedgerError> {
        let (group, node) = (self.owner.0.as_str(), self.owner.1.as_str());
        Ledger::open(self.bytes.live.as_slice(), (group, node), crc32c)
    }

    /// What lies in the file, as a starting daemon reads it: behind a flush, since what a process before wrote may
    /// not be durable yet. Nothing, where it was never written.
    ///
    /// # Errors
    /// It cannot be used.
    pub(crate) fn open(&mut self) -> Result<Option<Durable>, LedgerError> {
        self.bytes.reopen();
        match self.read()? {
            Opened::Older(_) => panic!("no node of this build writes the version before"),
            Opened::Fresh => {
                self.bytes.live = vec![0; self.layout.bytes() as usize];
                self.bytes.durable.clone_from(&self.bytes.live);
                let owner = (self.owner.0.as_str(), self.owner.1.as_str());
                self.ledger = Some(Ledger::fresh(self.layout.clone(), owner, crc32c));
                self.told = Told::default();
                Ok(None)
            }
            Opened::Found(found) => {
                let (ledger, found) = *found;
                let sequence = ledger.sequence();
                self.told = Told::found(&ledger, &found);
                self.ledger = Some(ledger);
                let Found { superblock, hot, marks, .. } = found;
                Ok(Some(Durable { hot, marks, sequence, ..Durable::new(superblock) }))
            }
        }
    }

    /// What it would tell a process that starts now. What it told the one that runs is older.
    pub(crate) fn tells_now(&self) -> Told {
        match self.read() {
            Ok(Opened::Found(found)) => Told::found(&found.0, &found.1),
            Ok(Opened::Fresh | Opened::Older(_)) | Err(_) => Told::default(),
        }
    }

    /// Reads the file again.
    fn look(&mut self) {
        self.told = self.tells_now();
    }

    /// The superblock that a process which starts now would find, unless power goes first.
    #[must_use]
    pub fn says(&self) -> Option<Superblock> {
        match self.read() {
            Ok(Opened::Found(found)) => Some(found.1.superblock),
            Ok(Opened::Fresh | Opened::Older(_)) | Err(_) => None,
        }
    }

    /// Whether writes are under way, or a refusal has not been reported yet.
    pub(crate) const fn is_busy(&self) -> bool {
        self.scheduled || !self.batch.is_empty() || !self.refused.is_empty()
    }

    /// How often the file was durably changed.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.ledger.as_ref().map_or(0, Ledger::sequence)
    }

    /// Whether the file tells that this place may differ from the other node's: by a hot extent or a mark.
    #[must_use]
    pub fn tells(&self, volume: VolumeIndex, offset: u64) -> bool {
        let grain = u64::from(self.layout.granularity());
        let region = self.layout.region_start(volume) + offset / grain;
        let page_regions = u64::from(helio_ledger::REGIONS_PER_PAGE);
        let (page, bit) = ((region / page_regions) as u32, region % page_regions);
        let set = |bits: &PageBits| bits[bit as usize / 64] & (1 << (bit % 64)) != 0;
        let extent = self.layout.extent_start(volume) + offset / EXTENT_BYTES;
        self.told.marks.get(&page).is_some_and(set) || self.told.hot.contains(&extent)
    }

    /// Asks for a change. Returns when the next step ends, where one begins by that.
    pub(crate) fn keep(&mut self, now: Moment, change: Change) -> Option<Moment> {
        let Some(ledger) = &mut self.ledger else { panic!("a change before the file was opened") };
        match &change {
            Change::Hot { ticket, add, remove } => {
                self.told.asked.insert(*ticket, (add.clone(), remove.clone()));
            }
            Change::Marks { owner: MapOwner::Peer(_), page, bits } => {
                self.told.pages.insert(*page, bits.clone());
            }
            Change::Superblock(_)
            | Change::Members(_)
            | Change::Epochs(_)
            | Change::Marks { .. }
            | Change::Make { .. }
            | Change::Remove { .. } => {}
        }
        self.refused.extend(ledger.keep(change));
        self.begin(now)
    }

    fn begin(&mut self, now: Moment) -> Option<Moment> {
        let ledger = self.ledger.as_mut().filter(|_| !self.scheduled)?;
        if self.batch.is_empty() {
            ledger.next(&mut self.batch);
        }
        self.scheduled = !self.batch.is_empty() || !self.refused.is_empty();
        self.scheduled.then(|| now + self.latency)
    }

    /// A step ends: one batch of writes, or a flush. Returns what is kept now, or refused, and when the next step ends.
    pub(crate) fn step(&mut self, now: Moment) -> (Vec<Kept>, Option<Moment>) {
        self.scheduled = false;
        let mut kept = core::mem::take(&mut self.refused);
        let flush = self.batch.first() == Some(&MetadataEffect::Flush);
        let writes = self.batch.iter().position(|effect| *effect == MetadataEffect::Flush);
        let now_due: Vec<MetadataEffect> = if flush {
            self.batch.drain(..1).collect()
        } else {
            self.batch.drain(..writes.unwrap_or(self.batch.len())).collect()
        };
        for effect in now_due {
            kept.extend(self.perform(effect));
        }
        for kept in &kept {
            self.told.note(kept);
        }
        (kept, self.begin(now))
    }

    fn perform(&mut self, effect: MetadataEffect) -> Vec<Kept> {
        let wanted = match effect {
            MetadataEffect::Write { .. } => MetadataFault::Write,
            MetadataEffect::Flush => MetadataFault::Flush,
        };
        let ok = self.fault.take_if(|fault| *fault == wanted).is_none();
        let mut ok = ok;
        match &effect {
            MetadataEffect::Write { offset, bytes } => {
                let page = *offset as usize..*offset as usize + bytes.len();
                if self.full && self.bytes.live[page].iter().all(|byte| *byte == 0) {
                    ok = false;
                } else {
                    let whole = ok || self.dice.chance(1, 4);
                    self.put(*offset as usize, bytes, whole);
                }
            }
            MetadataEffect::Flush if ok => self.bytes.flush(),
            MetadataEffect::Flush => self.drop_some(),
        }
        let Some(ledger) = &mut self.ledger else { panic!("a step of a file that is not open") };
        match effect {
            MetadataEffect::Write { .. } => ledger.written(ok),
            MetadataEffect::Flush => ledger.flushed(ok),
        }
    }

    /// A flush failed: some of what it was to write is called clean, and never written.
    fn drop_some(&mut self) {
        let MetadataBytes { live, durable, dropped } = &mut self.bytes;
        for (n, (live, durable)) in live.chunks(SECTOR).zip(durable.chunks(SECTOR)).enumerate() {
            if live != durable && self.dice.chance(1, 2) {
                dropped.insert(n);
            }
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8], whole: bool) {
        for (n, sector) in bytes.chunks(SECTOR).enumerate() {
            if whole || self.dice.chance(1, 2) {
                let from = at + n * SECTOR;
                self.bytes.dropped.remove(&(from / SECTOR));
                self.bytes.live[from..from + sector.len()].copy_from_slice(sector);
            }
        }
    }

    /// The process is gone; with the power, too, every sector that was not flushed is the new or the old one.
    pub(crate) fn crash(&mut self, power: bool) {
        for effect in core::mem::take(&mut self.batch) {
            if let MetadataEffect::Write { offset, bytes } = effect
                && self.dice.chance(1, 2)
            {
                let whole = self.dice.chance(1, 3);
                self.put(offset as usize, &bytes, whole);
            }
        }
        self.ledger = None;
        self.refused.clear();
        self.scheduled = false;
        if power {
            let MetadataBytes { live, durable, dropped } = &mut self.bytes;
            for n in core::mem::take(dropped) {
                let sector = n * SECTOR..(n + 1) * SECTOR;
                live[sector.clone()].copy_from_slice(&durable[sector]);
            }
            for (live, durable) in live.chunks_mut(SECTOR).zip(durable.chunks(SECTOR)) {
                if live != durable && self.dice.chance(1, 2) {
                    live.copy_from_slice(durable);
                }
            }
            durable.clone_from(live);
        }
        self.look();
    }
}

impl MetadataBytes {
    fn flush(&mut self) {
        let Self { live, durable, dropped } = self;
        durable.resize(live.len(), 0);
        for (n, (live, durable)) in live.chunks(SECTOR).zip(durable.chunks_mut(SECTOR)).enumerate()
        {
            if live != durable && !dropped.contains(&n) {
                durable.copy_from_slice(live);
            }
        }
    }

    /// As a starting daemon reads it: flushed, and past the page cache.
    fn reopen(&mut self) {
        self.flush();
        self.dropped.clear();
        self.live.clone_from(&self.durable);
    }
}

impl Told {
    fn found(ledger: &Ledger, found: &Found) -> Self {
        let page =
            |(owner, page, bits): &(MapOwner, u32, PageBits)| ((*owner, *page), bits.clone());
        Self {
            hot: found.hot.iter().copied().collect(),
            marks: found.marks.iter().cloned().collect(),
            members: ledger.members().to_vec(),
            lacks: found.others.iter().map(page).collect(),
            ..Self::default()
        }
    }

    /// The members of every volume.
    pub(crate) fn members(&self) -> &[VolumeEntries] {
        &self.members
    }

    fn note(&mut self, kept: &Kept) {
        match kept {
            Kept::Hot { ticket, ok: true } => {
                let (add, remove) = self.asked.remove(ticket).unwrap_or_default();
                for number in remove {
                    self.hot.remove(&number);
                }
                self.hot.extend(add);
            }
            Kept::Marks { owner: MapOwner::Peer(_), page, ok: true } => {
                if let Some(bits) = self.pages.remove(page) {
                    self.marks.insert(*page, bits);
                }
            }
            _ => {}
        }
    }
}

/// A superblock of a node that has none yet.
pub(crate) fn new_superblock(config: &helio_engine::Config) -> Superblock {
    let sizes = config.volumes.iter().map(|v| v.0).collect();
    let mut superblock = Superblock::new(&config.group, &config.node, sizes);
    superblock.granularity = config.granularity.0 as u32;
    superblock.hot_slots = config.hot_extents;
    superblock
}
