// SPDX-License-Identifier: Apache-2.0
//! The before-image file: which copies of a group count, and what its volumes held where they were overwritten since.
//!
//! Two header areas, then records of one stride each, in *slots*: a record header of 4096 bytes and the bytes of one chunk. A header
//! is written to the area that the current one is *not* in and flushed, so a torn one leaves the older whole; opening takes the valid
//! one with the higher sequence. A record may lie in any slot. It belongs to the youngest copy of the list whose number is not above
//! its own; of two of one chunk that belong to one copy, the one with the lower number counts. All others mean nothing, and their
//! slots are free. A slot that counted is written again only after a header without it is durable.
//!
//! A record may also belong to the *branch* of the copy with exactly its number: what clients wrote to that copy. Its checksum is that
//! of what the copy holds there, with which the branch begins. Its bytes are overwritten in place once a header that proves the record is
//! written. If a power cut loses that header, nothing behind it was flushed: the record counts as torn, and the branch has what the copy
//! holds.
//!
//! Headers and batches of records are counted by one *sequence*. Each tells the sum over all records that counted before it
//! ([`fingerprint`]), so the newest of them proves everything that is older. Behind the flush of a batch follows a header with the sum,
//! without a flush of its own: should it be lost, the records of the last batch count as far as they are whole. If the sum of the
//! older ones is another, one of them was lost or damaged.
//!
//! Header, magic `HLBI`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..6 | format version (2) |
//! | 6..8 | how many copies the list has |
//! | 8..12 | owner: CRC-32C of group, a zero byte, node |
//! | 12..16 | zero |
//! | 16..24 | sequence: 1 for the first, then counting up |
//! | 24..32 | the highest number that a copy ever had |
//! | 32..40 | sum over the records that count and are older |
//! | 40..508 | zero |
//! | 508..512 | CRC-32C of bytes 0..508 and all copies |
//! | 512.. | the copies, by number, 512 bytes each; then zeros up to a whole page |
//!
//! A copy:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | number, counting up from 1; that of the records that were made while it was the youngest |
//! | 8 | class: 1 required, 2 expendable |
//! | 9 | state: 1 coming (its cut has not ended; the next start drops it), 2 held, 3 a rollback |
//! | 10 | exact: the image holds nothing beyond `head` |
//! | 11 | wrote: the image holds writes that its node accepted as primary in its generation |
//! | 12 | alone: answers were given there that no other node need have |
//! | 13 | consistent: the image keeps the order promise |
//! | 14 | owner: 1 a resync, 2 an operator |
//! | 15 | zero |
//! | 16..24 | head: the last position in the image |
//! | 24..32 | when it was cut, milliseconds since 1970 |
//! | 32..433 | lineage of the image: as in the superblock |
//! | 433..497 | name: length byte, ASCII, zeros; a resync's copy has none |
//! | 497..505 | rollback: the copy to which the volumes roll back, an older one of the list; else zero |
//! | 505..512 | id of an operator's copy; a resync's copy has zeros |
//!
//! Record header, magic `HLBR`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..6 | format version (2) |
//! | 6 | 0: a before-image, 1: of a branch |
//! | 7 | zero |
//! | 8..12 | owner |
//! | 12..16 | CRC-32C of the chunk's bytes |
//! | 16..24 | the number of the youngest copy when it was made, or that of the branch's copy |
//! | 24..32 | sequence of its batch |
//! | 32..40 | sum over the records that count and are older than the batch |
//! | 40..42 | volume |
//! | 42..48 | zero |
//! | 48..56 | offset on the volume |
//! | 56..64 | length |
//! | 64..4092 | zero |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |
//!
//! A header or record is valid if and only if magic, version, checksum, every zero and every enumerated byte are right.
//!
//! A header area whose header is not valid is filled with zeros before it is written: a later header has sectors in common with a torn
//! one, and could complete it.
//!
//! Version 1 had one copy and header areas of one page ([`first`]). A file of it that has a copy is refused.

pub mod first;

use crate::Checksum;
use crate::cursor::{Reader, Short, Writer};
use crate::lineage::Lineage;
use alloc::vec::Vec;
use core::fmt;
use helio_units::{CopyName, Extent, Sequence, VolumeIndex, WallTime};

/// Bytes of a page: the smallest header, and a record's header.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of volume one record keeps; the last one of a volume may be shorter.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// Pages of a header area.
pub const AREA_PAGES: u16 = 16;
/// The format this build writes.
pub const VERSION: u16 = 2;
/// Bytes of a copy in a header.
const COPY_BYTES: usize = 512;
/// Where its name lies, ...
const NAME_AT: usize = 433;
/// ... to which copy the volumes roll back, ...
const ROLLBACK_AT: usize = 497;
/// ... and what tells it from others of its name.
const ID_AT: usize = 505;
const HEADER_MAGIC: [u8; 4] = *b"HLBI";
const RECORD_MAGIC: [u8; 4] = *b"HLBR";
/// Where the checksum of a header lies; the copies follow.
const CRC_AT: usize = COPY_BYTES - 4;
/// Where that of a record's header lies.
const RECORD_CRC_AT: usize = PAGE_BYTES - 4;

/// One page of the file.
pub type Page = [u8; PAGE_BYTES];

/// The image of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptImage {
    /// Its generation, and the ancestors.
    pub lineage: Lineage,
    /// The last position in it.
    pub head: Sequence,
    /// It holds nothing beyond `head`.
    pub exact: bool,
    /// It holds writes that this node accepted as primary in that generation.
    pub wrote: bool,
    /// This node gave answers in that generation that no other need have.
    pub alone: bool,
    /// It keeps the order promise.
    pub consistent: bool,
    /// When it was cut.
    pub at: WallTime,
}

/// Whom a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOwner {
    /// A resync. Required: the safe copy, which holds the image that the resync overwrites. Expendable: the cut that it reads.
    Resync,
    /// An operator, who named it.
    Operator(CopyName, CopyId),
}

/// What tells a named copy from others of its name: 56 bits that are drawn when it is created. The copies that both nodes cut at one item have
/// the same; a refresh at an item keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyId(u64);

impl CopyId {
    /// Bytes of one.
    const BYTES: usize = COPY_BYTES - ID_AT;

    /// That of a number that was drawn.
    #[must_use]
    pub const fn of(drawn: u64) -> Self {
        Self(drawn & ((1 << (8 * Self::BYTES)) - 1))
    }

    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        w.0.extend_from_slice(&self.0.to_le_bytes()[..Self::BYTES]);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Short> {
        let mut bytes = [0; 8];
        bytes[..Self::BYTES].copy_from_slice(r.take(Self::BYTES)?);
        Ok(Self(u64::from_le_bytes(bytes)))
    }
}

impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:014x}", self.0)
    }
}

/// The number of a copy: it counts the cuts of a group on this node, from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyNumber(pub u64);

impl fmt::Display for CopyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A copy as it was cut, or with what clients wrote to it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyView {
    /// As it was cut: nothing changes it.
    Cut(CopyNumber),
    /// Its branch: what clients wrote, over the cut.
    Branch(CopyNumber),
}

impl CopyView {
    /// Of which copy.
    #[must_use]
    pub const fn copy(self) -> CopyNumber {
        match self {
            Self::Cut(copy) | Self::Branch(copy) => copy,
        }
    }
}

impl fmt::Display for CopyView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(copy) => copy.fmt(f),
            Self::Branch(copy) => write!(f, "{copy}{}", CopyName::BRANCH),
        }
    }
}

/// The place of a record in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// What happens where a before-image cannot be preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyClass {
    /// The change that needs it is refused.
    Required,
    /// The copy is over. That is durable before anything is overwritten.
    Expendable,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStage {
    /// Its cut has not ended. A process that finds it so drops it.
    Coming,
    /// It holds its image.
    Held,
    /// It is the moment at which the volumes were rolled back to that older copy. A chunk in which that one differs, and of which
    /// nothing is preserved since this moment, may still hold what it held before.
    Rollback(CopyNumber),
}

/// A copy of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptCopy {
    /// Its number.
    pub number: CopyNumber,
    /// What happens without room.
    pub class: CopyClass,
    /// How far it is.
    pub stage: CopyStage,
    /// Whom it is for.
    pub owner: CopyOwner,
    /// What it holds.
    pub image: KeptImage,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts headers and batches.
    pub sequence: u64,
    /// The highest number that a copy ever had.
    pub last: CopyNumber,
    /// The sum over the records that count and are older.
    pub sum: u64,
    /// The copies, by number.
    pub copies: Vec<KeptCopy>,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is part of: the youngest copy when it was made, or a branch.
    pub of: CopyView,
    /// That of its batch.
    pub sequence: u64,
    /// The sum over the records that count and are older than the batch.
    pub sum: u64,
    /// On which volume the bytes were.
    pub volume: VolumeIndex,
    /// Where.
    pub extent: Extent,
    /// Checksum of the bytes.
    pub data: u32,
}

/// Why a page cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// All zeros: never written.
    Empty,
    /// Something in it is wrong.
    Damaged,
    /// It was written by another version.
    Version {
        /// Which.
        found: u16,
    },
    /// It belongs to another group or node.
    Owner,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("was never written"),
            Self::Damaged => f.write_str("is damaged"),
            Self::Version { found } => {
                write!(f, "has format version {found}, this build reads {VERSION}")
            }
            Self::Owner => f.write_str("belongs to another group or node"),
        }
    }
}

/// What a record in that slot adds to the sum: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014) over slot and place.
#[must_use]
pub const fn fingerprint(Slot(slot): Slot, volume: VolumeIndex, offset: u64) -> u64 {
    let mut z = offset / CHUNK_BYTES;
    z ^= (slot as u64) << 32;
    z = z.wrapping_add((volume.0 as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How many copies a header can list.
pub const COPIES_MOST: usize = AREA_PAGES as usize * PAGE_BYTES / COPY_BYTES - 1;
/// Most expendable copies of a group: one place is left for a required one.
pub const EXPENDABLE_MOST: usize = COPIES_MOST - 1;

impl KeptCopy {
    /// The name that an operator gave to it.
    #[must_use]
    pub const fn name(&self) -> Option<CopyName> {
        match self.owner {
            CopyOwner::Resync => None,
            CopyOwner::Operator(name, _) => Some(name),
        }
    }

    /// What tells it from others of the name that an operator gave to it.
    #[must_use]
    pub const fn id(&self) -> Option<CopyId> {
        match self.owner {
            CopyOwner::Resync => None,
            CopyOwner::Operator(_, id) => Some(id),
        }
    }

    /// It holds the image that a resync overwrites.
    #[must_use]
    pub const fn is_safe_copy(&self) -> bool {
        matches!((self.owner, self.class), (CopyOwner::Resync, CopyClass::Required))
    }

    /// It is the cut that a resync reads.
    #[must_use]
    pub const fn is_shipped(&self) -> bool {
        matches!((self.owner, self.class), (CopyOwner::Resync, CopyClass::Expendable))
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let end = w.0.len() + COPY_BYTES;
        w.u64(self.number.0);
        w.u8(match self.class {
            CopyClass::Required => 1,
            CopyClass::Expendable => 2,
        });
        w.u8(match self.stage {
            CopyStage::Coming => 1,
            CopyStage::Held => 2,
            CopyStage::Rollback(_) => 3,
        });
        let KeptImage { lineage, head, exact, wrote, alone, consistent, at } = self.image;
        [exact, wrote, alone, consistent].into_iter().for_each(|flag| w.flag(flag));
        let (owner, name) = match &self.owner {
            CopyOwner::Resync => (1, ""),
            CopyOwner::Operator(name, _) => (2, name.as_str()),
        };
        w.u8(owner);
        w.u8(0);
        w.sequence(head);
        w.u64(at.0);
        lineage.encode(w);
        w.0.resize(end - COPY_BYTES + NAME_AT, 0);
        w.name(name);
        w.0.resize(end - COPY_BYTES + ROLLBACK_AT, 0);
        w.u64(match self.stage {
            CopyStage::Rollback(to) => to.0,
            CopyStage::Coming | CopyStage::Held => 0,
        });
        self.id().unwrap_or_default().encode(w);
        debug_assert_eq!(w.0.len(), end);
    }

    fn decode(bytes: &[u8]) -> Result<Self, Short> {
        let mut r = Reader(bytes);
        let number = CopyNumber(r.u64()?);
        let class = match r.u8()? {
            1 => CopyClass::Required,
            2 => CopyClass::Expendable,
            _ => return Err(Short),
        };
        let stage = r.u8()?;
        let (exact, wrote, alone, consistent) = (r.flag()?, r.flag()?, r.flag()?, r.flag()?);
        let owner = r.u8()?;
        zeros(&mut r, 1)?;
        let (head, at) = (r.sequence()?, WallTime(r.u64()?));
        let lineage = Lineage::decode(&mut r)?;
        r.zeros_until(COPY_BYTES - NAME_AT)?;
        let name = r.name()?;
        r.zeros_until(COPY_BYTES - ROLLBACK_AT)?;
        let stage = match (stage, r.u64()?) {
            (1, 0) => CopyStage::Coming,
            (2, 0) => CopyStage::Held,
            (3, to) if (1..number.0).contains(&to) => CopyStage::Rollback(CopyNumber(to)),
            _ => return Err(Short),
        };
        let owner = match (owner, name.as_str(), CopyId::decode(&mut r)?) {
            (1, "", CopyId(0)) => CopyOwner::Resync,
            (2, name, id) => CopyOwner::Operator(CopyName::new(name).ok_or(Short)?, id),
            _ => return Err(Short),
        };
        let image = KeptImage { lineage, head, exact, wrote, alone, consistent, at };
        Ok(Self { number, class, stage, owner, image })
    }
}

impl Header {
    /// The header's bytes: whole pages.
    ///
    /// # Panics
    /// Where the list has more copies than an area holds.
    #[must_use]
    pub fn encode(&self, owner: u32, checksum: Checksum) -> Vec<u8> {
        let count = self.copies.len();
        assert!(count <= COPIES_MOST, "{count} copies in one list");
        let mut out = Vec::with_capacity((count + 1) * COPY_BYTES);
        out.extend_from_slice(&HEADER_MAGIC);
        let mut w = Writer(&mut out);
        w.u16(VERSION);
        w.u16(count as u16);
        w.u32(owner);
        w.u32(0);
        w.u64(self.sequence);
        w.u64(self.last.0);
        w.u64(self.sum);
        w.0.resize(COPY_BYTES, 0);
        self.copies.iter().for_each(|copy| copy.encode(&mut w));
        let crc = header_checksum(&out, checksum);
        out[CRC_AT..COPY_BYTES].copy_from_slice(&crc.to_le_bytes());
        out.resize(out.len().next_multiple_of(PAGE_BYTES), 0);
        out
    }

    /// Reads a header from the start of its area.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(area: &[u8], owner: u32, checksum: Checksum) -> Result<Self, PageError> {
        if area.iter().all(|b| *b == 0) {
            return Err(PageError::Empty);
        }
        let version = version(area, HEADER_MAGIC)?;
        if version != VERSION {
            return Err(PageError::Version { found: version });
        }
        let count = usize::from(u16::from_le_bytes([area[6], area[7]]));
        let end = (count + 1) * COPY_BYTES;
        let whole = area.get(..end).ok_or(PageError::Damaged)?;
        let padding = area.get(end..end.next_multiple_of(PAGE_BYTES)).ok_or(PageError::Damaged)?;
        let crc = header_checksum(whole, checksum).to_le_bytes();
        if whole[CRC_AT..COPY_BYTES] != crc || padding.iter().any(|b| *b != 0) {
            return Err(PageError::Damaged);
        }
        let (header, found) = Self::fields(whole).map_err(|_: Short| PageError::Damaged)?;
        if found == owner { Ok(header) } else { Err(PageError::Owner) }
    }

    fn fields(whole: &[u8]) -> Result<(Self, u32), Short> {
        let mut r = Reader(&whole[8..CRC_AT]);
        let owner = r.u32()?;
        zeros(&mut r, 4)?;
        let (sequence, last, sum) = (r.u64()?, CopyNumber(r.u64()?), r.u64()?);
        r.zeros_until(0)?;
        let copies = whole[COPY_BYTES..].chunks(COPY_BYTES).map(KeptCopy::decode);
        let copies = copies.collect::<Result<Vec<_>, Short>>()?;
        let numbers = || copies.iter().map(|copy| copy.number.0);
        let ordered = core::iter::once(0).chain(numbers()).zip(numbers()).all(|(a, b)| a < b);
        let bounded = copies.last().is_none_or(|copy| copy.number <= last);
        let fits = copies.len() <= COPIES_MOST;
        if !ordered || !bounded || !fits || sequence == 0 {
            return Err(Short);
        }
        Ok((Self { sequence, last, sum, copies }, owner))
    }
}

/// The checksum over everything but itself.
fn header_checksum(whole: &[u8], checksum: Checksum) -> u32 {
    let mut covered = whole[..CRC_AT].to_vec();
    covered.extend_from_slice(&whole[COPY_BYTES..]);
    checksum(&covered)
}

impl Record {
    /// The record header's bytes.
    #[must_use]
    pub fn encode(&self, owner: u32, checksum: Checksum) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAGE_BYTES);
        out.extend_from_slice(&RECORD_MAGIC);
        let mut w = Writer(&mut out);
        w.u16(VERSION);
        w.u8(match self.of {
            CopyView::Cut(_) => 0,
            CopyView::Branch(_) => 1,
        });
        w.u8(0);
        w.u32(owner);
        w.u32(self.data);
        w.u64(self.of.copy().0);
        w.u64(self.sequence);
        w.u64(self.sum);
        w.u16(self.volume.0);
        w.0.resize(48, 0);
        w.u64(self.extent.offset);
        w.u64(self.extent.length);
        w.0.resize(RECORD_CRC_AT, 0);
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a record header.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(page: &Page, owner: u32, checksum: Checksum) -> Result<Self, PageError> {
        let found = sealed(page, RECORD_MAGIC, checksum)?;
        if found != VERSION {
            return Err(PageError::Version { found });
        }
        let (record, found) = Self::fields(page).map_err(|_: Short| PageError::Damaged)?;
        if found == owner { Ok(record) } else { Err(PageError::Owner) }
    }

    fn fields(page: &Page) -> Result<(Self, u32), Short> {
        let mut r = Reader(&page[6..RECORD_CRC_AT]);
        let of = match r.u8()? {
            0 => CopyView::Cut,
            1 => CopyView::Branch,
            _ => return Err(Short),
        };
        zeros(&mut r, 1)?;
        let (owner, data) = (r.u32()?, r.u32()?);
        let (copy, sequence, sum) = (CopyNumber(r.u64()?), r.u64()?, r.u64()?);
        let (volume, extent) = place(&mut r)?;
        if sequence == 0 || copy.0 == 0 {
            return Err(Short);
        }
        Ok((Self { of: of(copy), sequence, sum, volume, extent, data }, owner))
    }
}

/// Volume and extent of a record, and the zeros behind them.
fn place(r: &mut Reader<'_>) -> Result<(VolumeIndex, Extent), Short> {
    let volume = VolumeIndex(r.u16()?);
    zeros(r, 6)?;
    let extent = Extent::new(r.u64()?, r.u64()?);
    r.zeros_until(0)?;
    let whole = (1..=CHUNK_BYTES).contains(&extent.length)
        && extent.offset.is_multiple_of(CHUNK_BYTES)
        && extent.offset.checked_add(extent.length).is_some();
    if whole { Ok((volume, extent)) } else { Err(Short) }
}

/// The version that a page names.
fn version(page: &[u8], magic: [u8; 4]) -> Result<u16, PageError> {
    if page.len() < COPY_BYTES || page[..4] != magic {
        return Err(PageError::Damaged);
    }
    Ok(u16::from_le_bytes([page[4], page[5]]))
}

/// The version of a page whose checksum lies at its end, if that is right.
fn sealed(page: &Page, magic: [u8; 4], checksum: Checksum) -> Result<u16, PageError> {
    if page.iter().all(|b| *b == 0) {
        return Err(PageError::Empty);
    }
    if page[RECORD_CRC_AT..] != checksum(&page[..RECORD_CRC_AT]).to_le_bytes() {
        return Err(PageError::Damaged);
    }
    version(page, magic)
}

fn zeros(r: &mut Reader<'_>, n: usize) -> Result<(), Short> {
    if r.take(n)?.iter().all(|b| *b == 0) { Ok(()) } else { Err(Short) }
}

#[cfg(test)]
#[path = "before/tests.rs"]
mod tests;
