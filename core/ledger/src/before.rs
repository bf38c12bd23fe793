// SPDX-License-Identifier: Apache-2.0
//! The before-image store: which copies of a group count, and where what they need lies.
//!
//! ```text
//!   list: header, flush        append: record, record, … flush, note        list: header without a copy, flush
//! ```
//! A record is durable before the first overwrite of its chunk is issued; so whatever a crash tears off the last batch was not needed.
//! A record of a branch is overwritten in place, behind the note.
//! What counts, and how that is proven, the format tells (`words/format/src/before.rs`). A file in which something is lost that was
//! durable is damaged, and none of its copies is ever restored.
//!
//! The owner performs what is returned here, in order, and says [`BeforeStore::flushed`] when the file is durable. It chooses the slots.
//! The length of a chunk's bytes in the file is the owner's choice, so that a model of a disk can use short ones.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use helio_format::Checksum;
use helio_format::before::{
    AREA_PAGES, CopyNumber, CopyStage, CopyView, Header, KeptCopy, PAGE_BYTES, Page, PageError,
    Record, Slot, fingerprint, first,
};
use helio_format::superblock::Superblock;
use helio_units::{Bytes, Extent, VolumeIndex, WallTime};

/// Bytes of a header area.
const AREA_BYTES: u64 = AREA_PAGES as u64 * PAGE_BYTES as u64;

/// A place whose bytes are kept: a chunk, or what a volume's end leaves of one.
pub type Chunk = (VolumeIndex, Extent);

/// A record that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeforeRecord {
    /// Where it lies.
    pub slot: Slot,
    /// The copy of the list that it belongs to, or the branch.
    pub of: CopyView,
    /// What it keeps.
    pub chunk: Chunk,
}

/// What lies in a before-image file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeforeFound {
    /// The copies, by number.
    pub copies: Vec<KeptCopy>,
    /// The highest number that a copy ever had.
    pub last: CopyNumber,
    /// The records that count.
    pub records: Vec<BeforeRecord>,
    /// How many slots the file has.
    pub slots: u32,
    /// Something that was durable is lost: no copy can be restored.
    pub damaged: bool,
    /// Pages, by offset, of headers and records that were never finished. The owner fills them with zeros, durably, before it uses the store.
    pub torn: Vec<u64>,
}

/// Why the file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeError<E> {
    /// It could not be read.
    Read(E),
    /// Neither header can be used; what each one shows.
    Unreadable([PageError; 2]),
    /// It has a copy, in the format of version 1.
    First,
}

impl BeforeFound {
    /// The rollback of that number, if it is listed, everything that it needs is there, and the copy to which it goes: which that is.
    #[must_use]
    pub fn rollback(&self, number: CopyNumber) -> Option<CopyNumber> {
        let copy = self.copies.iter().find(|copy| copy.number == number && !self.damaged)?;
        let CopyStage::Rollback(to) = copy.stage else { return None };
        let held = |it: &KeptCopy| it.number == to && it.stage == CopyStage::Held;
        self.copies.iter().any(held).then_some(to)
    }

    /// What the rollback that it lists, or does not, is to the record of the node.
    #[must_use]
    pub fn standing(&self, record: &Superblock) -> RollbackStanding {
        let rolls = |copy: &&KeptCopy| matches!(copy.stage, CopyStage::Rollback(_));
        let listed = self.copies.iter().rfind(rolls).map(|copy| copy.number);
        let recorded = record.rollback.filter(|by| *by > record.copies_over(self.last));
        match (recorded, listed) {
            (Some(by), _) if self.rollback(by).is_some() => RollbackStanding::GoesOn,
            (Some(by), _) if listed == Some(by) || self.last < by => RollbackStanding::Lost,
            (_, Some(by)) if by > record.copies_over.max(record.rollbacks_over) => {
                RollbackStanding::Unrecorded(by)
            }
            (_, Some(_)) => RollbackStanding::Over,
            (_, None) => RollbackStanding::Nothing,
        }
    }
}

/// What a rollback is to the record of its node. It is recorded before it is listed, and listed before a member holds anything of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackStanding {
    /// None is under way.
    Nothing,
    /// Everything that the volumes need is there.
    GoesOn,
    /// It is of no use any more: it has ended, or its list came too late to begin it; the volumes lie on other disks since, or an operator
    /// discarded them.
    Over,
    /// The volumes need what was preserved to be what they were rolled back to, and it is not there.
    Lost,
    /// That one is listed, and the record does not know it: the metadata is new or older than the file, or the file is an older one.
    /// What the volumes hold is not known.
    Unrecorded(CopyNumber),
}

impl RollbackStanding {
    /// For programs, and for those who look it up.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::GoesOn => "goes-on",
            Self::Over => "over",
            Self::Lost => "lost",
            Self::Unrecorded(_) => "unrecorded",
        }
    }
}

impl<E: fmt::Display> fmt::Display for BeforeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot be read: {error}"),
            Self::Unreadable([a, b]) => {
                write!(f, "neither header can be used: header 0 {a}; header 1 {b}")
            }
            Self::First => {
                f.write_str("has a copy in format version 1, which this build does not read")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for BeforeError<E> {}

/// Bytes to write at a place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeWrite {
    /// Byte offset in the file.
    pub offset: u64,
    /// Pages. A chunk's bytes follow them where they head a record.
    pub bytes: Vec<u8>,
}

/// How the newest header stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newest {
    /// It is durable.
    Durable,
    /// It is written, and only tells the sum: nothing waits for it.
    Noted,
    /// It is written, and changes the list.
    Lists,
}

/// The list that the newest header has, and where the next one goes.
#[derive(Clone, Debug)]
struct Listing {
    copies: Vec<KeptCopy>,
    last: CopyNumber,
    newest: Newest,
    /// Which area the next header goes to.
    next: u64,
}

/// Sums over the records that count.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// All that are durable.
    durable: u64,
    /// What the newest header tells.
    told: u64,
    /// Those of the batch that is being written.
    batch: u64,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub struct BeforeStore {
    checksum: Checksum,
    owner: u32,
    /// Bytes of a chunk in the file.
    chunk: u64,
    /// That of the newest header or batch.
    sequence: u64,
    listing: Listing,
    sums: Sums,
}

/// Reads bytes of the file into the whole of a buffer; behind the end of the file lie zeros.
pub type ReadAt<'a, E> = dyn FnMut(u64, &mut [u8]) -> Result<(), E> + 'a;

/// The newest header and its area, and pages of torn ones.
type FoundHeader = (Option<(Header, u64)>, Vec<u64>);

/// A record that belongs to a copy of the list. Whether it counts is decided later.
#[derive(Clone, Copy)]
struct Found {
    slot: Slot,
    of: CopyView,
    record: Record,
}

/// What the newest header or record says of those that are older: their sum.
struct Proof {
    before: u64,
    sum: u64,
}

impl Found {
    fn fingerprint(&self) -> u64 {
        fingerprint(self.slot, self.record.volume, self.record.extent.offset)
    }
}

impl Proof {
    fn of(header: &Header, found: &[Found]) -> Self {
        let newest = found.iter().max_by_key(|found| found.record.sequence);
        let newest = newest.filter(|found| found.record.sequence > header.sequence);
        let newest = newest.map(|found| (found.record.sequence, found.record.sum));
        let (before, sum) = newest.unwrap_or((header.sequence, header.sum));
        Self { before, sum }
    }

    /// It says something of that record.
    const fn covers(&self, found: &Found) -> bool {
        found.record.sequence < self.before
    }

    /// The difference between the recorded sum and the sum over the records that it covers: zero if all of them are there.
    fn missing(&self, counted: &[Found]) -> u64 {
        let covered = counted.iter().filter(|found| self.covers(found));
        self.sum.wrapping_sub(covered.map(Found::fingerprint).fold(0, u64::wrapping_add))
    }
}

impl BeforeStore {
    /// Reads a file of `length` bytes whose chunks are `chunk` bytes long. One without a header is new. The caller has flushed the file
    /// since it was last written.
    ///
    /// # Errors
    /// It cannot be read, or neither header can be used although one was written.
    pub fn open<E>(
        read: &mut ReadAt<'_, E>,
        length: u64,
        chunk: Bytes,
        owner: u32,
        checksum: Checksum,
    ) -> Result<(Self, BeforeFound), BeforeError<E>> {
        let (copies, last, newest) = (Vec::new(), CopyNumber(0), Newest::Durable);
        let listing = Listing { copies, last, newest, next: 0 };
        let (chunk, sums) = (chunk.0, Sums::default());
        let mut store = Self { checksum, owner, chunk, sequence: 0, listing, sums };
        let (header, mut torn) = store.newest_header(read, length)?;
        let Some((header, area)) = header else {
            return Ok((store, BeforeFound { torn, ..BeforeFound::default() }));
        };
        store.take_up(&header, area);
        let found = store.find_records(read, length)?;
        let proof = Proof::of(&header, &found);
        let mut counted = Vec::new();
        for found in found {
            store.sequence = store.sequence.max(found.record.sequence);
            // The last batch may be torn although its pages are whole.
            if proof.covers(&found) || store.is_whole(&found, read)? {
                counted.push(found);
            } else {
                torn.push(store.record_at(found.slot));
            }
        }
        let place = |f: &Found| (f.of, f.record.volume, f.record.extent.offset);
        counted.sort_unstable_by_key(|f| (place(f), f.record.of, f.record.sequence));
        counted.dedup_by_key(|f| place(f));
        // The difference stays in the sum: the file is damaged until its list is empty.
        let missing = proof.missing(&counted);
        store.sums.durable =
            counted.iter().map(Found::fingerprint).fold(missing, u64::wrapping_add);
        let chunk = |found: &Found| (found.record.volume, found.record.extent);
        let record = |f: &Found| BeforeRecord { slot: f.slot, of: f.of, chunk: chunk(f) };
        let found = BeforeFound {
            copies: store.listing.copies.clone(),
            last: store.listing.last,
            records: counted.iter().map(record).collect(),
            slots: store.slots_in(length),
            damaged: missing != 0,
            torn,
        };
        Ok((store, found))
    }

    /// The newest header, and in which area it lies, or none in a new file; and pages of the other one that are to be filled with zeros:
    /// a header that was torn must not be completed by what a later one has in common with it.
    fn newest_header<E>(
        &self,
        read: &mut ReadAt<'_, E>,
        length: u64,
    ) -> Result<FoundHeader, BeforeError<E>> {
        let area = usize::from(AREA_PAGES) * PAGE_BYTES;
        let mut bytes = vec![0; 2 * area];
        let there = (length as usize).min(bytes.len());
        read(0, &mut bytes[..there]).map_err(BeforeError::Read)?;
        let header =
            |from: usize| Header::decode(&bytes[from..from + area], self.owner, self.checksum);
        let torn = |header: &Result<Header, PageError>, at: usize| match header {
            Err(PageError::Damaged) => vec![at as u64],
            _ => Vec::new(),
        };
        let (a, b) = (header(0), header(area));
        let newer = |error: PageError| matches!(error, PageError::Version { found } if found != 1);
        let pages = [torn(&a, 0), torn(&b, area)].concat();
        match (a, b) {
            (Err(a), Ok(_)) if newer(a) => Err(BeforeError::Unreadable([a, PageError::Empty])),
            (Ok(_), Err(b)) if newer(b) => Err(BeforeError::Unreadable([PageError::Empty, b])),
            (Ok(a), Ok(b)) if a.sequence > b.sequence => Ok((Some((a, 0)), pages)),
            (_, Ok(b)) => Ok((Some((b, 1)), pages)),
            (Ok(a), Err(_)) => Ok((Some((a, 0)), pages)),
            (Err(a), Err(b)) => self.no_header([a, b], pages, &bytes[..2 * PAGE_BYTES]),
        }
    }

    /// No header of this version is there. A file of version 1 without a copy counts as new.
    fn no_header<E>(
        &self,
        errors: [PageError; 2],
        torn: Vec<u64>,
        start: &[u8],
    ) -> Result<FoundHeader, BeforeError<E>> {
        let (pages, _) = start.as_chunks::<PAGE_BYTES>();
        let first = |page| first::Header::decode(page, self.owner, self.checksum).ok();
        let newest = pages.iter().filter_map(first).max_by_key(|header| header.sequence);
        let written = (0..).step_by(PAGE_BYTES).zip(pages);
        let written = written.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
        match (newest, errors) {
            (Some(first::Header { copy: Some(_), .. }), _) => Err(BeforeError::First),
            (Some(_), _) => {
                let behind = torn.into_iter().filter(|at| *at >= start.len() as u64);
                Ok((None, written.map(|(at, _)| at).chain(behind).collect()))
            }
            // The first header ever was torn: nothing was kept under it.
            (None, [PageError::Damaged, PageError::Empty]) => Ok((None, vec![0])),
            (None, [PageError::Empty, PageError::Empty]) => Ok((None, Vec::new())),
            (None, errors) => Err(BeforeError::Unreadable(errors)),
        }
    }

    /// Goes on where that header, which lies in that area, ended.
    fn take_up(&mut self, header: &Header, area: u64) {
        self.sequence = header.sequence;
        self.listing.next = 1 - area;
        self.listing.copies.clone_from(&header.copies);
        self.listing.last = header.last;
        self.sums.told = header.sum;
    }

    /// The records that belong to copies of the list.
    fn find_records<E>(
        &self,
        read: &mut ReadAt<'_, E>,
        length: u64,
    ) -> Result<Vec<Found>, BeforeError<E>> {
        let mut all = Vec::new();
        let mut page: Page = [0; PAGE_BYTES];
        let slots = if self.listing.copies.is_empty() { 0 } else { self.slots_in(length) };
        for slot in (0..slots).map(Slot) {
            read(self.record_at(slot), &mut page).map_err(BeforeError::Read)?;
            let Ok(record) = Record::decode(&page, self.owner, self.checksum) else { continue };
            if let Some(of) = self.owner_of(record.of) {
                all.push(Found { slot, of, record });
            }
        }
        Ok(all)
    }

    /// The copy of the list that such a record belongs to, or its branch.
    fn owner_of(&self, of: CopyView) -> Option<CopyView> {
        let mut copies = self.listing.copies.iter().map(|copy| copy.number);
        match of {
            CopyView::Cut(number) => {
                copies.take_while(|copy| *copy <= number).last().map(CopyView::Cut)
            }
            CopyView::Branch(number) => copies.any(|copy| copy == number).then_some(of),
        }
    }

    /// Whether the bytes of a record are those that its header names.
    fn is_whole<E>(&self, found: &Found, read: &mut ReadAt<'_, E>) -> Result<bool, BeforeError<E>> {
        let mut data = vec![0; self.chunk as usize];
        let at = self.record_at(found.slot) + PAGE_BYTES as u64;
        read(at, &mut data).map_err(BeforeError::Read)?;
        Ok(found.record.data == (self.checksum)(&data))
    }

    /// What a record keeps of the volume from the start of that chunk on, or none where it is not what was kept of it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load<E>(
        &self,
        slot: Slot,
        chunk: Chunk,
        read: &mut ReadAt<'_, E>,
    ) -> Result<Option<(Chunk, Vec<u8>)>, BeforeError<E>> {
        let mut bytes = vec![0; self.stride() as usize];
        read(self.record_at(slot), &mut bytes).map_err(BeforeError::Read)?;
        let chunk = self.check(chunk, &bytes);
        bytes.drain(..PAGE_BYTES);
        Ok(chunk.map(|chunk| (chunk, bytes)))
    }

    /// What a record, read whole, keeps, if it is what was kept from the start of that chunk on. A volume that has grown since may
    /// have a longer chunk there. A branch's bytes are what clients made of them, whatever its length was.
    #[must_use]
    pub fn check(&self, (volume, extent): Chunk, bytes: &[u8]) -> Option<Chunk> {
        let (page, data) = bytes.split_first_chunk::<PAGE_BYTES>()?;
        let record = Record::decode(page, self.owner, self.checksum).ok()?;
        let ours = (record.volume, record.extent.offset) == (volume, extent.offset);
        let written = matches!(record.of, CopyView::Branch(_));
        match written {
            true => ours.then_some((volume, extent)),
            false if ours && record.data == (self.checksum)(data) => {
                Some((record.volume, record.extent))
            }
            false => None,
        }
    }

    /// Bytes of a record in the file.
    #[must_use]
    pub fn stride(&self) -> u64 {
        PAGE_BYTES as u64 + self.chunk
    }

    /// Where the records begin, in bytes.
    #[must_use]
    pub const fn header_bytes(&self) -> u64 {
        2 * AREA_BYTES
    }

    /// Where a record lies.
    #[must_use]
    pub fn record_at(&self, slot: Slot) -> u64 {
        self.header_bytes() + u64::from(slot.0) * self.stride()
    }

    /// How many records fit in a file of that length.
    #[must_use]
    pub fn slots_in(&self, length: u64) -> u32 {
        let slots = length.saturating_sub(self.header_bytes()) / self.stride();
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// The copies of the newest list.
    #[must_use]
    pub fn copies(&self) -> &[KeptCopy] {
        &self.listing.copies
    }

    /// The copies that count from now on, and what records add to the sum that count no more: write this, flush, say
    /// [`Self::flushed`]; then their slots may be used again. Without copies no record counts. A copy without a time was cut now,
    /// unless the list has it already.
    ///
    /// # Panics
    /// If there are more than [`helio_format::before::COPIES_MOST`]: our own mistake.
    pub fn list(&mut self, mut copies: Vec<KeptCopy>, freed: u64, now: WallTime) -> BeforeWrite {
        for copy in copies.iter_mut().filter(|copy| copy.image.at == WallTime::default()) {
            let listed = self.listing.copies.iter().find(|listed| listed.number == copy.number);
            copy.image.at = listed.map_or(now, |listed| listed.image.at);
        }
        let youngest = copies.last().map_or(CopyNumber(0), |copy| copy.number);
        self.listing.last = self.listing.last.max(youngest);
        self.sums.durable = match copies.is_empty() {
            true => 0,
            false => self.sums.durable.wrapping_sub(freed),
        };
        self.listing.copies = copies;
        self.write_header(Newest::Lists)
    }

    /// Tells the sum, where the newest header does not: write this behind [`Self::flushed`], before anything else is written. No
    /// flush is needed: it tells damage from what was never finished. In a file that was just opened it comes first, too: records of
    /// a branch may have been found unproven, and are to be overwritten.
    pub fn note(&mut self) -> Option<BeforeWrite> {
        let news = self.sums.durable != self.sums.told;
        news.then(|| self.write_header(Newest::Noted))
    }

    /// The sequence is to be above `least` from now on: write this, flush, and say [`Self::flushed`], before anything else is written. A
    /// copy of the file from before has a lower one.
    pub fn raise(&mut self, least: u64) -> BeforeWrite {
        self.sequence = self.sequence.max(least);
        self.write_header(Newest::Noted)
    }

    /// That of the newest header or batch.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The file is an older copy of itself: it counts as damaged until its list is empty, also after a restart, since the sum is another.
    pub const fn distrust(&mut self) {
        self.sums.durable = self.sums.durable.wrapping_add(1);
    }

    fn write_header(&mut self, newest: Newest) -> BeforeWrite {
        self.sequence += 1;
        self.sums.told = self.sums.durable;
        let Listing { copies, last, next, .. } = &self.listing;
        let (copies, last, offset) = (copies.clone(), *last, next * AREA_BYTES);
        let header = Header { sequence: self.sequence, last, sum: self.sums.told, copies };
        self.listing.newest = newest;
        BeforeWrite { offset, bytes: header.encode(self.owner, self.checksum) }
    }

    /// A batch of records begins.
    pub const fn begin_batch(&mut self) {
        self.sequence += 1;
    }

    /// Keeps a chunk: write this page and, right behind it, `data`; flush, say [`Self::flushed`]; then the chunk may be
    /// overwritten.
    ///
    /// # Panics
    /// Where there is no such copy, or the bytes are not as long as a chunk's: our own mistakes.
    pub fn record(&mut self, of: CopyView, slot: Slot, chunk: Chunk, data: &[u8]) -> BeforeWrite {
        assert_eq!(data.len() as u64, self.chunk, "bytes of a chunk");
        let listed = self.listing.copies.iter().any(|listed| listed.number == of.copy());
        assert!(listed, "a chunk is kept for copy {of}, which is not in the list");
        let (volume, extent) = chunk;
        let mark = fingerprint(slot, volume, extent.offset);
        self.sums.batch = self.sums.batch.wrapping_add(mark);
        let (data, sum, sequence) = ((self.checksum)(data), self.sums.durable, self.sequence);
        let record = Record { of, sequence, sum, volume, extent, data };
        let bytes = record.encode(self.owner, self.checksum);
        BeforeWrite { offset: self.record_at(slot), bytes }
    }

    /// Everything written before the flush that just ended is durable.
    pub fn flushed(&mut self) {
        // A note that lies in the same area as a header behind it was written over by that one.
        if self.listing.newest != Newest::Durable {
            self.listing.next = 1 - self.listing.next;
        }
        self.listing.newest = Newest::Durable;
        self.sums.durable = self.sums.durable.wrapping_add(core::mem::take(&mut self.sums.batch));
    }
}

#[cfg(test)]
#[path = "before_tests.rs"]
mod tests;
