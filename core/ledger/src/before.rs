// SPDX-License-Identifier: Apache-2.0
//! The before-image store: a secondary's last consistent image, kept while an update overwrites it.
//!
//! ```text
//!          begin: header            record, record, … flush        end: header
//!   Empty ───────────────> Keeping ────────────────────────> … ──────────────> Empty
//! ```
//! A record is durable before the first overwrite of its chunk is issued; so whatever a crash tears off the end of the
//! file, was not needed. A record says how many before it were durable when it was written, so one that went bad later
//! is told from one that was never finished. A keeping in which one went bad is damaged, and never restored.
//!
//! The owner performs what is returned here, in order, and says [`BeforeStore::flushed`] when the file is durable. The
//! length of a chunk's bytes in the file is the owner's choice, so that a model of a disk can use short ones.

use alloc::vec::Vec;
use core::fmt;
use helio_format::Checksum;
use helio_format::before::{Header, KeptImage, PAGE_BYTES, Page, PageError, Record, SLOTS};
use helio_units::{Bytes, Extent, VolumeIndex};

/// Where the records begin, in bytes.
pub const BEFORE_HEADER_BYTES: u64 = (PAGE_BYTES * SLOTS) as u64;

/// A place whose bytes are kept: a chunk, or what a volume's end leaves of one.
pub type Chunk = (VolumeIndex, Extent);

/// What lies in a before-image file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeforeKept {
    /// The kept image.
    pub image: KeptImage,
    /// The chunks preserved so far.
    pub chunks: Vec<Chunk>,
    /// A record went bad after it was durable: the image cannot be restored.
    pub damaged: bool,
}

/// Why the file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeError<E> {
    /// It could not be read.
    Read(E),
    /// Neither header slot can be used; what each one shows.
    Unreadable([PageError; SLOTS]),
}

impl<E: fmt::Display> fmt::Display for BeforeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot be read: {error}"),
            Self::Unreadable([a, b]) => {
                write!(f, "neither header can be used: slot 0 {a}; slot 1 {b}")
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
    /// A page. A chunk's bytes follow it where it heads a record.
    pub bytes: Vec<u8>,
}

/// How the newest header stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newest {
    /// It is durable.
    Durable,
    /// It is written, and only tells how many records there are: nothing waits for it.
    Noted,
    /// It is written, and begins a keeping.
    Begins,
    /// It is written, and ends the keeping. Until it is durable, what is kept can be read.
    Ends,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub struct BeforeStore {
    checksum: Checksum,
    owner: u32,
    /// Bytes of a chunk in the file.
    chunk: u64,
    sequence: u64,
    next_slot: usize,
    newest: Newest,
    image: KeptImage,
    /// What the newest header tells of them.
    told: u64,
    keeping: u64,
    written: u64,
    durable: u64,
}

/// Reads bytes of the file into the whole of a buffer.
pub type ReadAt<'a, E> = dyn FnMut(u64, &mut [u8]) -> Result<(), E> + 'a;

impl BeforeStore {
    /// Reads a file of `length` bytes whose chunks are `chunk` bytes long. One shorter than its header is new. The
    /// caller has flushed the file since it was last written.
    ///
    /// # Errors
    /// It cannot be read, or neither header can be used although one was written.
    pub fn open<E>(
        read: &mut ReadAt<'_, E>,
        length: u64,
        chunk: Bytes,
        owner: u32,
        checksum: Checksum,
    ) -> Result<(Self, Option<BeforeKept>), BeforeError<E>> {
        let mut store = Self {
            checksum,
            owner,
            chunk: chunk.0,
            sequence: 0,
            next_slot: 0,
            newest: Newest::Durable,
            image: KeptImage::default(),
            told: 0,
            keeping: 0,
            written: 0,
            durable: 0,
        };
        if length < BEFORE_HEADER_BYTES {
            return Ok((store, None));
        }
        let mut slot = |n: usize| -> Result<Result<Header, PageError>, BeforeError<E>> {
            let mut page: Page = [0; PAGE_BYTES];
            read((n * PAGE_BYTES) as u64, &mut page).map_err(BeforeError::Read)?;
            Ok(Header::decode(&page, owner, checksum))
        };
        let (current, header) = match (slot(0)?, slot(1)?) {
            (Ok(a), Ok(b)) if a.sequence > b.sequence => (0, a),
            (_, Ok(b)) => (1, b),
            (Ok(a), Err(_)) => (0, a),
            (Err(PageError::Empty), Err(PageError::Empty)) => return Ok((store, None)),
            // The first header ever was torn: nothing was kept under it.
            (Err(PageError::Damaged), Err(PageError::Empty)) => return Ok((store, None)),
            (Err(a), Err(b)) => return Err(BeforeError::Unreadable([a, b])),
        };
        store.next_slot = 1 - current;
        store.sequence = header.sequence;
        let Some((keeping, image)) = header.keeping else { return Ok((store, None)) };
        (store.keeping, store.image, store.told) = (keeping, image, header.durable);
        store.durable = header.durable;
        let kept = store.scan(image, read, length)?;
        Ok((store, Some(kept)))
    }

    /// Finds the records of the keeping. What lies behind the last good one was never durable, unless a later one says
    /// so: then it went bad.
    fn scan<E>(
        &mut self,
        image: KeptImage,
        read: &mut ReadAt<'_, E>,
        length: u64,
    ) -> Result<BeforeKept, BeforeError<E>> {
        let mut kept = BeforeKept { image, chunks: Vec::new(), damaged: false };
        let mut page: Page = [0; PAGE_BYTES];
        let mut bad_from = None;
        for number in 0..length.saturating_sub(BEFORE_HEADER_BYTES) / self.stride() {
            read(self.record_at(number), &mut page).map_err(BeforeError::Read)?;
            let found = Record::decode(&page, self.owner, self.checksum).ok();
            let ours = found.filter(|r| r.keeping == self.keeping && r.number == number);
            match (ours, bad_from) {
                (Some(record), None) => {
                    self.durable = self.durable.max(record.durable);
                    kept.chunks.push((record.volume, record.extent));
                }
                (Some(record), Some(bad)) => kept.damaged |= record.durable > bad,
                (None, None) => bad_from = Some(number),
                (None, Some(bad)) if number > bad + LOOK_BEYOND => break,
                (None, Some(_)) => {}
            }
        }
        // Some that were stable are not there.
        kept.damaged |= (kept.chunks.len() as u64) < self.durable;
        self.check_tail(&mut kept, read)?;
        self.written = kept.chunks.len() as u64;
        self.durable = self.written;
        Ok(kept)
    }

    /// The bytes of the last batch may be torn though its headers are not: the rest is checked when it is restored.
    fn check_tail<E>(
        &mut self,
        kept: &mut BeforeKept,
        read: &mut ReadAt<'_, E>,
    ) -> Result<(), BeforeError<E>> {
        for number in self.durable..kept.chunks.len() as u64 {
            if self.load(number, read)?.is_none() {
                kept.chunks.truncate(number as usize);
                break;
            }
        }
        Ok(())
    }

    /// The chunk of a record and its bytes, or none where they are not what was kept.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load<E>(
        &self,
        number: u64,
        read: &mut ReadAt<'_, E>,
    ) -> Result<Option<(Chunk, Vec<u8>)>, BeforeError<E>> {
        let mut bytes = alloc::vec![0; self.stride() as usize];
        read(self.record_at(number), &mut bytes).map_err(BeforeError::Read)?;
        let chunk = self.check(number, &bytes);
        bytes.drain(..PAGE_BYTES);
        Ok(chunk.map(|chunk| (chunk, bytes)))
    }

    /// Whether a record, read whole, is what was kept, and which chunk it keeps.
    #[must_use]
    pub fn check(&self, number: u64, bytes: &[u8]) -> Option<Chunk> {
        let (page, data) = bytes.split_first_chunk::<PAGE_BYTES>()?;
        let record = Record::decode(page, self.owner, self.checksum).ok()?;
        let ours = record.keeping == self.keeping && record.number == number;
        (ours && record.data == (self.checksum)(data)).then_some((record.volume, record.extent))
    }

    /// Bytes of a record in the file.
    #[must_use]
    pub fn stride(&self) -> u64 {
        PAGE_BYTES as u64 + self.chunk
    }

    /// Where a record lies.
    #[must_use]
    pub fn record_at(&self, number: u64) -> u64 {
        BEFORE_HEADER_BYTES + number * self.stride()
    }

    /// How many records are durable.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.durable
    }

    /// Begins a keeping: write this, flush, say [`Self::flushed`]. Records of earlier ones are garbage from then on.
    pub fn begin(&mut self, image: KeptImage) -> BeforeWrite {
        self.keeping = self.sequence + 1;
        (self.written, self.durable, self.image) = (0, 0, image);
        self.header(Newest::Begins, Some((self.keeping, image)))
    }

    /// Ends the keeping: write this, flush, say [`Self::flushed`]; then the records' room may be given back.
    pub fn end(&mut self) -> BeforeWrite {
        self.header(Newest::Ends, None)
    }

    /// Tells how many records are durable, where the newest header does not: write this behind [`Self::flushed`], before
    /// anything else is written. No flush is needed: it tells damage from what was never finished, and no more.
    pub fn note(&mut self) -> Option<BeforeWrite> {
        let news = self.is_keeping() && self.durable > self.told;
        news.then(|| self.header(Newest::Noted, Some((self.keeping, self.image))))
    }

    /// A keeping has begun, durably, and its end is not on its way.
    fn is_keeping(&self) -> bool {
        self.keeping != 0 && matches!(self.newest, Newest::Durable | Newest::Noted)
    }

    fn header(&mut self, newest: Newest, keeping: Option<(u64, KeptImage)>) -> BeforeWrite {
        self.newest = newest;
        self.sequence += 1;
        self.told = if keeping.is_some() { self.durable } else { 0 };
        let header = Header { sequence: self.sequence, keeping, durable: self.told };
        let offset = (self.next_slot * PAGE_BYTES) as u64;
        BeforeWrite { offset, bytes: header.encode(self.owner, self.checksum) }
    }

    /// Keeps a chunk: write this page and, right behind it, `data`; flush, say [`Self::flushed`]; then the chunk may be
    /// overwritten.
    ///
    /// # Panics
    /// Where no keeping has begun, or the bytes are not as long as a chunk's: our own mistakes.
    pub fn record(&mut self, (volume, extent): Chunk, data: &[u8]) -> BeforeWrite {
        assert!(self.is_keeping(), "a chunk is kept before its keeping began");
        assert_eq!(data.len() as u64, self.chunk, "bytes of a chunk");
        let number = self.written;
        self.written += 1;
        let data = (self.checksum)(data);
        let (keeping, durable) = (self.keeping, self.durable);
        let record = Record { keeping, number, durable, volume, extent, data };
        BeforeWrite {
            offset: self.record_at(number),
            bytes: record.encode(self.owner, self.checksum),
        }
    }

    /// Everything written before the flush that just ended is durable.
    pub fn flushed(&mut self) {
        // A note that lies in the same slot as a header behind it was written over by that one.
        if self.newest != Newest::Durable {
            self.next_slot = 1 - self.next_slot;
        }
        if self.newest == Newest::Ends {
            (self.keeping, self.written) = (0, 0);
        }
        self.newest = Newest::Durable;
        self.durable = self.written;
    }
}

/// How far behind a bad record another of the same keeping is looked for: further than one batch reaches.
const LOOK_BEYOND: u64 = 1024;

#[cfg(test)]
#[path = "before_tests.rs"]
mod tests;
