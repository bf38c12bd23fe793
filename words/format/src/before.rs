// SPDX-License-Identifier: Apache-2.0
//! The before-image file: what a secondary's last consistent image held where an update has overwritten it since.
//!
//! Two header slots of 4096 bytes, then records of one stride each: a record header of 4096 bytes and the bytes of one
//! chunk. A header is written to the slot the current one is *not* in and flushed, so a torn one leaves the older
//! whole; opening takes the valid slot with the higher sequence. Records are only appended; those of another keeping
//! than the header's are garbage. Behind the flush of a batch of records a header of the same keeping tells how many there
//! are, without a flush of its own: should it be lost, the header before it is there, and the last batch counts as unfinished
//! where it is not whole. Below what header and records tell, whatever is not whole is damage.
//!
//! Header, magic `HLBI`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..6 | format version (1) |
//! | 6 | state: 1 empty, 2 keeping |
//! | 7 | zero |
//! | 8..12 | owner: CRC-32C of group, a zero byte, node |
//! | 12..16 | zero |
//! | 16..24 | sequence of this header: 1 for the first, then counting up |
//! | 24..32 | the keeping: the sequence of the header that began it; zero where empty |
//! | 32..40 | head: the last position in the kept image |
//! | 40 | exact: the image holds nothing beyond `head` |
//! | 41 | wrote: the image holds writes that its node accepted as primary in its generation |
//! | 42 | alone: answers were given there that no other node need have |
//! | 43..48 | zero |
//! | 48..56 | when the keeping began, milliseconds since 1970 |
//! | 56..457 | lineage of the kept image: as in the superblock |
//! | 457..464 | zero |
//! | 464..472 | durable: records of this keeping below this number were stable before this header was written |
//! | 472..4092 | zero |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |
//!
//! Record header, magic `HLBR`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..6 | format version (1) |
//! | 6..8 | zero |
//! | 8..12 | owner |
//! | 12..16 | CRC-32C of the chunk's bytes |
//! | 16..24 | the keeping |
//! | 24..32 | number of this record, from zero |
//! | 32..40 | durable: every record below this number was stable before this one was written |
//! | 40..42 | volume |
//! | 42..48 | zero |
//! | 48..56 | offset on the volume |
//! | 56..64 | length |
//! | 64..4092 | zero |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |
//!
//! A page is valid if and only if magic, version, checksum, every zero and every enumerated byte are right.

use crate::Checksum;
use crate::cursor::{Reader, Short, Writer};
use crate::lineage::Lineage;
use alloc::vec::Vec;
use core::fmt;
use helio_units::{Extent, Sequence, VolumeIndex, WallTime};

/// Bytes of a header slot, and of a record's header.
pub const PAGE_BYTES: usize = 4096;
/// How many header slots there are.
pub const SLOTS: usize = 2;
/// Bytes of volume one record keeps; the last one of a volume may be shorter.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// The format this build writes.
pub const VERSION: u16 = 1;
const HEADER_MAGIC: [u8; 4] = *b"HLBI";
const RECORD_MAGIC: [u8; 4] = *b"HLBR";
const LINEAGE_AT: usize = 56;
const DURABLE_AT: usize = 464;
const CRC_AT: usize = PAGE_BYTES - 4;

/// One page of the file.
pub type Page = [u8; PAGE_BYTES];

/// Which image is kept.
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
    /// When the keeping began.
    pub at: WallTime,
}

/// A header slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts headers.
    pub sequence: u64,
    /// The keeping and its image, or none where nothing is kept.
    pub keeping: Option<(u64, KeptImage)>,
    /// Records of the keeping below this number were stable before.
    pub durable: u64,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which keeping it belongs to.
    pub keeping: u64,
    /// Its number, from zero.
    pub number: u64,
    /// Every record below this number was stable before this one was written.
    pub durable: u64,
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

impl Header {
    /// The slot's bytes.
    #[must_use]
    pub fn encode(&self, owner: u32, checksum: Checksum) -> Vec<u8> {
        page(HEADER_MAGIC, checksum, |w| {
            w.u8(if self.keeping.is_some() { 2 } else { 1 });
            w.u8(0);
            w.u32(owner);
            w.u32(0);
            w.u64(self.sequence);
            let (keeping, image) = self.keeping.unwrap_or_default();
            w.u64(keeping);
            w.sequence(image.head);
            w.flag(image.exact);
            w.flag(image.wrote);
            w.flag(image.alone);
            w.0.resize(48, 0);
            w.u64(image.at.0);
            image.lineage.encode(w);
            w.0.resize(DURABLE_AT, 0);
            w.u64(self.durable);
        })
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(slot: &Page, owner: u32, checksum: Checksum) -> Result<Self, PageError> {
        let mut r = open(slot, HEADER_MAGIC, checksum)?;
        let (header, found) = Self::fields(&mut r).map_err(|_: Short| PageError::Damaged)?;
        if found == owner { Ok(header) } else { Err(PageError::Owner) }
    }

    fn fields(r: &mut Reader<'_>) -> Result<(Self, u32), Short> {
        let kept = match (r.u8()?, r.u8()?) {
            (1, 0) => false,
            (2, 0) => true,
            _ => return Err(Short),
        };
        let owner = r.u32()?;
        zeros(r, 4)?;
        let (sequence, keeping, head) = (r.u64()?, r.u64()?, r.sequence()?);
        let (exact, wrote, alone) = (r.flag()?, r.flag()?, r.flag()?);
        zeros(r, 5)?;
        let at = WallTime(r.u64()?);
        let before = r.0.len();
        let lineage = Lineage::decode(r)?;
        let rest = DURABLE_AT - LINEAGE_AT - (before - r.0.len());
        zeros(r, rest)?;
        let durable = r.u64()?;
        zeros(r, CRC_AT - DURABLE_AT - 8)?;
        let image = KeptImage { lineage, head, exact, wrote, alone, at };
        let blank = keeping == 0 && durable == 0 && image == KeptImage::default();
        if kept == (keeping == 0) || !(kept || blank) {
            return Err(Short);
        }
        Ok((Self { sequence, keeping: kept.then_some((keeping, image)), durable }, owner))
    }
}

impl Record {
    /// The record header's bytes.
    #[must_use]
    pub fn encode(&self, owner: u32, checksum: Checksum) -> Vec<u8> {
        page(RECORD_MAGIC, checksum, |w| {
            w.u16(0);
            w.u32(owner);
            w.u32(self.data);
            w.u64(self.keeping);
            w.u64(self.number);
            w.u64(self.durable);
            w.u16(self.volume.0);
            w.0.resize(48, 0);
            w.u64(self.extent.offset);
            w.u64(self.extent.length);
        })
    }

    /// Reads a record header.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(page: &Page, owner: u32, checksum: Checksum) -> Result<Self, PageError> {
        let mut r = open(page, RECORD_MAGIC, checksum)?;
        let (record, found) = Self::fields(&mut r).map_err(|_: Short| PageError::Damaged)?;
        if found == owner { Ok(record) } else { Err(PageError::Owner) }
    }

    fn fields(r: &mut Reader<'_>) -> Result<(Self, u32), Short> {
        zeros(r, 2)?;
        let (owner, data) = (r.u32()?, r.u32()?);
        let (keeping, number, durable) = (r.u64()?, r.u64()?, r.u64()?);
        let volume = VolumeIndex(r.u16()?);
        zeros(r, 6)?;
        let extent = Extent::new(r.u64()?, r.u64()?);
        zeros(r, CRC_AT - 64)?;
        let whole = (1..=CHUNK_BYTES).contains(&extent.length)
            && extent.offset.is_multiple_of(CHUNK_BYTES)
            && extent.offset.checked_add(extent.length).is_some();
        if !whole || durable > number {
            return Err(Short);
        }
        Ok((Self { keeping, number, durable, volume, extent, data }, owner))
    }
}

/// A page with magic, version and checksum around what `fill` writes.
fn page(magic: [u8; 4], checksum: Checksum, fill: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE_BYTES);
    out.extend_from_slice(&magic);
    let mut w = Writer(&mut out);
    w.u16(VERSION);
    fill(&mut w);
    w.0.resize(CRC_AT, 0);
    let crc = checksum(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Checks magic, checksum and version; what is between them and the checksum is to be read.
fn open(page: &Page, magic: [u8; 4], checksum: Checksum) -> Result<Reader<'_>, PageError> {
    if page.iter().all(|b| *b == 0) {
        return Err(PageError::Empty);
    }
    let stored = u32::from_le_bytes([page[4092], page[4093], page[4094], page[4095]]);
    if page[..4] != magic || stored != checksum(&page[..CRC_AT]) {
        return Err(PageError::Damaged);
    }
    let version = u16::from_le_bytes([page[4], page[5]]);
    if version != VERSION {
        return Err(PageError::Version { found: version });
    }
    Ok(Reader(&page[6..CRC_AT]))
}

fn zeros(r: &mut Reader<'_>, n: usize) -> Result<(), Short> {
    if r.take(n)?.iter().all(|b| *b == 0) { Ok(()) } else { Err(Short) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow_crc32c;
    use helio_units::Generation;

    const OWNER: u32 = 0xA1B2_C3D4;

    fn header() -> Header {
        let generation = |n| Generation { number: n, tag: n * 3 };
        let lineage = Lineage::default().fork(generation(1), Sequence::ZERO);
        let lineage = lineage.fork(generation(2), Sequence(40));
        let (head, at) = (Sequence(77), WallTime(1_700_000_000_000));
        let image = KeptImage { lineage, head, exact: true, wrote: false, alone: true, at };
        Header { sequence: 9, keeping: Some((8, image)), durable: 3 }
    }

    fn record() -> Record {
        let extent = Extent::new(3 * CHUNK_BYTES, 4096);
        Record { keeping: 8, number: 5, durable: 4, volume: VolumeIndex(2), extent, data: 0xDEAD }
    }

    fn whole(bytes: &[u8]) -> Page {
        bytes.try_into().expect("one page")
    }

    #[test]
    fn pages_come_back_as_they_were_written() {
        let empty = Header { sequence: 1, keeping: None, durable: 0 };
        for header in [header(), empty] {
            let bytes = whole(&header.encode(OWNER, slow_crc32c));
            assert_eq!(Header::decode(&bytes, OWNER, slow_crc32c), Ok(header));
            assert_eq!(Header::decode(&bytes, OWNER + 1, slow_crc32c), Err(PageError::Owner));
        }
        let bytes = whole(&record().encode(OWNER, slow_crc32c));
        assert_eq!(Record::decode(&bytes, OWNER, slow_crc32c), Ok(record()));
        assert_eq!(Record::decode(&bytes, OWNER + 1, slow_crc32c), Err(PageError::Owner));
    }

    /// The bytes of the first release that has this file.
    #[test]
    fn the_tables_above_are_what_is_written() {
        let bytes = header().encode(OWNER, slow_crc32c);
        assert_eq!(bytes[..12], *b"HLBI\x01\0\x02\0\xD4\xC3\xB2\xA1");
        assert_eq!((bytes[16], bytes[24], bytes[32]), (9, 8, 77));
        assert_eq!(bytes[40..43], [1, 0, 1], "exact, wrote, alone");
        assert_eq!(bytes[48..56], 1_700_000_000_000_u64.to_le_bytes());
        assert_eq!((bytes[56], bytes[64], bytes[72]), (2, 6, 1), "generation, tag, ancestors");
        assert_eq!((bytes[463], bytes[464], bytes[465]), (0, 3, 0), "records that are durable");
        assert_eq!(bytes[4092..], 0xD115_3D78_u32.to_le_bytes());
        let bytes = record().encode(OWNER, slow_crc32c);
        assert_eq!(bytes[..16], *b"HLBR\x01\0\0\0\xD4\xC3\xB2\xA1\xAD\xDE\0\0");
        assert_eq!((bytes[16], bytes[24], bytes[32], bytes[40]), (8, 5, 4, 2));
        assert_eq!((bytes[50], bytes[57]), (3, 16), "the offset and the length");
        assert_eq!(bytes[4092..], 0x924E_6F88_u32.to_le_bytes());
    }

    #[test]
    fn every_flipped_byte_is_seen() {
        let header = whole(&header().encode(OWNER, slow_crc32c));
        let record = whole(&record().encode(OWNER, slow_crc32c));
        for at in 0..PAGE_BYTES {
            for mut page in [header, record] {
                page[at] ^= 0x10;
                assert!(Header::decode(&page, OWNER, slow_crc32c).is_err(), "header byte {at}");
                assert!(Record::decode(&page, OWNER, slow_crc32c).is_err(), "record byte {at}");
            }
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut bytes = header().encode(OWNER, slow_crc32c);
        bytes[4] = 2;
        let crc = slow_crc32c(&bytes[..CRC_AT]).to_le_bytes();
        bytes[CRC_AT..].copy_from_slice(&crc);
        let error = Header::decode(&whole(&bytes), OWNER, slow_crc32c);
        assert_eq!(error, Err(PageError::Version { found: 2 }));
    }
}
