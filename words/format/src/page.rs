// SPDX-License-Identifier: Apache-2.0
//! A page of a metadata file: 4096 bytes that say what they are and prove it.
//!
//! A group's metadata file is a row of *pairs*: every page lies twice, copy A and right behind it copy B, so that one
//! damaged copy at rest is named and repaired from the other. Pair number `n` begins at byte `n * 8192`.
//!
//! | pair | page |
//! |---|---|
//! | 0 | the superblock ([`crate::superblock`]) |
//! | 1 | the states of all members ([`crate::members`]) |
//! | 2 | which of two files counts ([`crate::files`]) |
//! | 3..7 | the directory ([`crate::directory`]): which map lies where |
//! | from 7 | pages of maps: hot extents ([`crate::hot`]) and bitmaps ([`crate::marks`]) |
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `HLMD` |
//! | 4..6 | format version (3) |
//! | 6 | kind: 1 superblock, 2 hot extents, 3 bitmap, 4 member states, 5 directory, 6 files |
//! | 7 | zero |
//! | 8..12 | index of the page among those of its kind, or of its map, from 0 |
//! | 12..16 | owner: CRC-32C of the group's name, a zero byte, the node's name |
//! | 16..24 | sequence: one counter for the whole file, raised with every page that changes; both copies carry the same |
//! | 24..28 | map: the id of the map that the page is part of; zero in pages of no map |
//! | 28..32 | CRC-32C of the whole page with these four bytes zero |
//! | 32..4096 | the body, by kind |
//!
//! All numbers little-endian. A page is valid if and only if magic, version, checksum, kind and zeros are right,
//! index, kind, map and owner are those of its place, and its body is valid by its own table. A page that is all zeros was
//! never written. Map ids are never used twice in a file: a page with a lower map id than its place has was left by an
//! earlier map there, and counts as never written.
//!
//! Write order: copy A, flush, copy B; B is durable before A is written again. So while one copy is being written the
//! other is whole, and a write torn at any sector leaves the state before it, whose dependants were not told
//! anything. Of two valid copies the one with the higher sequence holds.
//!
//! Version 2 had no directory: behind the superblock lay the hot pages, behind these the pages of the one bitmap, all with
//! map 0. It is read and converted, never written. Version 1 was the superblock alone, in two slots of its own (magic
//! `HELIOSB1`, CRC-32C in the last four bytes). It is recognised and named, not read.

use crate::Checksum;
use crate::cursor::{Short, Writer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Size of a page in bytes.
pub const PAGE_BYTES: usize = 4096;
/// Size of a page's header in bytes.
pub const HEADER_BYTES: usize = 32;
/// Size of a page's body in bytes.
pub const BODY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// How many words of 64 bits a body holds.
pub const BODY_WORDS: usize = BODY_BYTES / 8;
/// Both copies of a page in bytes.
pub const PAIR_BYTES: usize = 2 * PAGE_BYTES;
/// The format this build writes.
pub const VERSION: u16 = 3;
/// The format before, which this build reads and converts.
pub const VERSION_BEFORE: u16 = 2;

const MAGIC: [u8; 4] = *b"HLMD";
const MAGIC_1: [u8; 8] = *b"HELIOSB1";
const CRC_AT: usize = HEADER_BYTES - 4;

/// A body as words.
pub type Words = [u64; BODY_WORDS];

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The superblock.
    Superblock,
    /// Hot extents.
    Hot,
    /// Marks.
    Marks,
    /// The states of all members.
    Members,
    /// Entries of the directory.
    Directory,
    /// Which of two files counts.
    Files,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Superblock, Self::Hot, Self::Marks, Self::Members, Self::Directory, Self::Files];

    fn code(self) -> u8 {
        match self {
            Self::Superblock => 1,
            Self::Hot => 2,
            Self::Marks => 3,
            Self::Members => 4,
            Self::Directory => 5,
            Self::Files => 6,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether pages of this kind are parts of maps.
    fn is_mapped(self) -> bool {
        matches!(self, Self::Hot | Self::Marks)
    }

    /// Whether a page of that version can be of this kind and carry this map id.
    fn fits(self, version: u16, map: u32) -> bool {
        if version == VERSION_BEFORE {
            map == 0 && !matches!(self, Self::Members | Self::Directory | Self::Files)
        } else {
            self.is_mapped() == (map != 0)
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Superblock => "superblock",
            Self::Hot => "hot page",
            Self::Marks => "bitmap page",
            Self::Members => "member states",
            Self::Directory => "directory page",
            Self::Files => "file record",
        })
    }
}

/// Which page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The format of the file.
    pub version: u16,
    /// What the page holds.
    pub kind: Kind,
    /// Which of its kind, or of its map.
    pub index: u32,
    /// The id of the map it is part of; 0 none, and in version 2.
    pub map: u32,
}

impl Place {
    /// A page of no map, in this version.
    #[must_use]
    pub const fn fixed(kind: Kind, index: u32) -> Self {
        Self { version: VERSION, kind, index, map: 0 }
    }
}

/// What a page says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which page it is.
    pub place: Place,
    /// Whose it is; see [`owner`].
    pub owner: u32,
    /// When it changed, in the file's own count.
    pub sequence: u64,
}

/// The owner's mark of the metadata that `node` keeps of `group`.
#[must_use]
pub fn owner(group: &str, node: &str, checksum: Checksum) -> u32 {
    checksum(&[group.as_bytes(), &[0], node.as_bytes()].concat())
}

/// The page's bytes.
#[must_use]
pub fn encode(header: &Header, body: &[u8; BODY_BYTES], checksum: Checksum) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE_BYTES);
    out.extend_from_slice(&MAGIC);
    let mut w = Writer(&mut out);
    w.u16(header.place.version);
    w.u8(header.place.kind.code());
    w.u8(0);
    w.u32(header.place.index);
    w.u32(header.owner);
    w.u64(header.sequence);
    w.u32(header.place.map);
    w.u32(0);
    out.extend_from_slice(body);
    let crc = checksum(&out).to_le_bytes();
    out[CRC_AT..HEADER_BYTES].copy_from_slice(&crc);
    out
}

/// Reads a page's header and shows its body.
///
/// # Errors
/// Says whether the page was never written, is damaged, or is of another version. Whether it is the page that belongs
/// where it lies, [`Header::belongs`] says.
pub fn decode(
    page: &[u8; PAGE_BYTES],
    checksum: Checksum,
) -> Result<(Header, &[u8; BODY_BYTES]), PageError> {
    if *page == [0; PAGE_BYTES] {
        return Err(PageError::Empty);
    }
    if page[..8] == MAGIC_1 {
        let whole = checksum(&page[..PAGE_BYTES - 4]).to_le_bytes() == page[PAGE_BYTES - 4..];
        return Err(if whole { PageError::Version { found: 1 } } else { PageError::Damaged });
    }
    let mut covered = *page;
    covered[CRC_AT..HEADER_BYTES].fill(0);
    if page[..4] != MAGIC || page[CRC_AT..HEADER_BYTES] != checksum(&covered).to_le_bytes() {
        return Err(PageError::Damaged);
    }
    let version = u16::from_le_bytes([page[4], page[5]]);
    if version != VERSION && version != VERSION_BEFORE {
        return Err(PageError::Version { found: version });
    }
    let kind = Kind::of_code(page[6]).ok_or(PageError::Damaged)?;
    let (_, rest) = page.split_at(8);
    let place = Place { version, kind, index: u32_at(rest, 0), map: u32_at(rest, 16) };
    if page[7] != 0 || !kind.fits(version, place.map) {
        return Err(PageError::Damaged);
    }
    let header = Header {
        place,
        owner: u32_at(rest, 4),
        sequence: u64::from(u32_at(rest, 8)) | u64::from(u32_at(rest, 12)) << 32,
    };
    let body = page.last_chunk().ok_or(PageError::Damaged)?;
    Ok((header, body))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Header {
    /// Whether the page is the one its place is for.
    ///
    /// # Errors
    /// It is another node's, was left by an earlier map, is of another version, or is another page of this file.
    pub fn belongs(&self, place: Place, owner: u32) -> Result<(), PageError> {
        let Place { version, kind, index, map } = self.place;
        if self.owner != owner {
            Err(PageError::Owner { found: self.owner })
        } else if version != place.version {
            Err(PageError::Version { found: version })
        } else if map != 0 && map < place.map {
            Err(PageError::EarlierMap)
        } else if self.place != place {
            Err(PageError::Misplaced { kind, index })
        } else {
            Ok(())
        }
    }
}

/// A body of words.
pub(crate) fn of_words(words: &Words) -> [u8; BODY_BYTES] {
    let mut body = [0; BODY_BYTES];
    for (bytes, word) in body.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    body
}

/// The words of a body.
pub(crate) fn words(body: &[u8; BODY_BYTES]) -> Box<Words> {
    let mut words = Box::new([0; BODY_WORDS]);
    for (bytes, word) in body.chunks_exact(8).zip(words.iter_mut()) {
        let mut array = [0; 8];
        array.copy_from_slice(bytes);
        *word = u64::from_le_bytes(array);
    }
    words
}

/// Why a page cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// All zeros: never written.
    Empty,
    /// Torn, flipped, or not ours.
    Damaged,
    /// Written by a build with another format.
    Version {
        /// Which format.
        found: u16,
    },
    /// Whole, but of another group or node.
    Owner {
        /// The owner's mark on it.
        found: u32,
    },
    /// Whole, and left by a map that lay there before: this map never wrote it.
    EarlierMap,
    /// Whole and of this file, but it lies where another page belongs.
    Misplaced {
        /// What it holds.
        kind: Kind,
        /// Which of its kind.
        index: u32,
    },
}

impl From<Short> for PageError {
    fn from(_: Short) -> Self {
        Self::Damaged
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("never written"),
            Self::Damaged => f.write_str("damaged (magic, checksum or a field is wrong)"),
            Self::Version { found } => {
                write!(f, "format version {found}, this build reads {VERSION_BEFORE} and {VERSION}")
            }
            Self::Owner { found } => write!(f, "of another group or node (mark {found:08x})"),
            Self::EarlierMap => f.write_str("of an earlier map"),
            Self::Misplaced { kind, index } => {
                write!(f, "{kind} {index} in another page's place")
            }
        }
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
