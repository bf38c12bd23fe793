// SPDX-License-Identifier: Apache-2.0
//! The record beside the images of an exported snapshot: which snapshot it is, and where an image may differ from it.
//!
//! Magic `HLXS`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..6 | format version (1) |
//! | 6..8 | volumes, at least one and at most [`VOLUMES_MAX`] |
//! | 8..16 | bytes of the record, its checksum included |
//! | 16 | stage: 1 copying, 2 complete, 3 imported |
//! | 17 | consistent flag |
//! | 18..24 | zero |
//! | 24..32 | when the snapshot was created, milliseconds since 1970 |
//! | 32..40 | position |
//! | 40.. | names of group, snapshot, generation and node, and the identity of the snapshot, a text; then per volume its name, its size in bytes (u64), the modification time of its image (u64), the identity of that file or disk, a text, and a bit for each chunk of 64 KiB: bit `b` of byte `n` is chunk `8 * n + b`. A name is a length byte and UTF-8, a text two length bytes and UTF-8 |
//! | last 4 | CRC-32C of everything in front |
//!
//! Additions behind it, 24 bytes each: chunks of which the bits count as set, too.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | volume |
//! | 2..4 | zero |
//! | 4..8 | chunks, at least one |
//! | 8..16 | the first one |
//! | 16..20 | the checksum of the record |
//! | 20..24 | CRC-32C of bytes 0..20 |
//!
//! A record is valid if and only if checksum and length are right, every field can be, the names of its volumes differ and can be part of
//! the name of a file, and no bit behind the last chunk is set. Additions count up to the first one that is not valid.
//!
//! **Write order.** A record is written to a new file, which is flushed and renamed. While images are imported, an addition is written and
//! flushed before the first change of its chunks. So an addition that a crash tore covers nothing that was changed, and neither does what
//! is behind it. A bit is cleared by a new record, after the image was flushed that has the chunk.

use crate::Checksum;
use crate::cursor::{Reader, Short, Writer};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use helio_units::{Bytes, Extent, SECTOR, Sequence, WallTime};

/// The format this build writes.
pub const VERSION: u16 = 1;
/// What a record begins with.
pub const MAGIC: [u8; 4] = *b"HLXS";
/// Most volumes.
pub const VOLUMES_MAX: usize = 64;
/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// Bytes of an addition.
pub const ADDITION_BYTES: usize = 24;
/// The largest image, in bytes: no count of its chunks overflows.
const SIZE_MAX: u64 = 1 << 47;

/// Which snapshot was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// The generation of its data, as people see it.
    pub generation: String,
    /// The node that it was exported on.
    pub node: String,
    /// Snapshots of a group with the same identity hold the same.
    pub identity: String,
    /// The last item in it.
    pub position: Sequence,
    /// When it was created.
    pub at: WallTime,
    /// It was consistent.
    pub consistent: bool,
}

impl Exported {
    /// Whether both hold the same: also if they have other names, or another node has it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.group == other.group && self.identity == other.identity
    }
}

/// What is done with the images.
///
/// ```text
///   (none) ──> Copying ──> Complete <──> Imported
///                 └──────<─────┴──────<──────┘  another snapshot is exported
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportStage {
    /// The snapshot is copied: chunks that may differ from it are to be copied yet.
    Copying,
    /// They hold the snapshot, but for chunks that were changed since.
    Complete,
    /// The same, and they are served for reading and writing, or were when that process ended.
    Imported,
}

const STAGES: [ExportStage; 3] =
    [ExportStage::Copying, ExportStage::Complete, ExportStage::Imported];

/// The image of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedVolume {
    /// The name of the volume.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// Modification time of the file in nanoseconds since 1970; 0: unknown.
    pub written: u64,
    /// Identity of the file or disk; empty: unknown.
    pub image: String,
    /// Where it may differ from the snapshot.
    pub differs: ChunkSet,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRecord {
    /// Which snapshot.
    pub of: Exported,
    /// What is done with the images.
    pub stage: ExportStage,
    /// The volumes of the group, in its order.
    pub volumes: Vec<ExportedVolume>,
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportError {
    /// It is no such record.
    Foreign,
    /// Another build wrote it.
    Version {
        /// Its version.
        found: u16,
    },
    /// It is damaged.
    Damaged,
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is not the record of an exported snapshot"),
            Self::Version { found } => {
                write!(f, "it has version {found}, and this build reads version {VERSION}")
            }
            Self::Damaged => f.write_str("it is damaged"),
        }
    }
}

impl core::error::Error for ExportError {}

impl From<Short> for ExportError {
    fn from(_: Short) -> Self {
        Self::Damaged
    }
}

impl ExportRecord {
    /// Its bytes.
    ///
    /// # Panics
    /// It has no volume, more than [`VOLUMES_MAX`], or a name that is too long.
    #[must_use]
    pub fn encode(&self, checksum: Checksum) -> Vec<u8> {
        let Self { of, stage, volumes } = self;
        let count = volumes.len();
        assert!((1..=VOLUMES_MAX).contains(&count), "a record of {count} volumes");
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        w.0.extend_from_slice(&MAGIC);
        w.u16(VERSION);
        w.u16(count as u16);
        w.u64(0);
        w.u8(crate::cursor::code_of(&STAGES, Some(*stage)));
        w.flag(of.consistent);
        w.0.extend_from_slice(&[0; 6]);
        w.u64(of.at.0);
        w.sequence(of.position);
        [&of.group, &of.name, &of.generation, &of.node].into_iter().for_each(|name| w.name(name));
        w.text(&of.identity);
        for volume in volumes {
            w.name(&volume.name);
            w.u64(volume.size.0);
            w.u64(volume.written);
            w.text(&volume.image);
            w.0.extend_from_slice(&volume.differs.bits);
        }
        let length = bytes.len() as u64 + 4;
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a record with the additions behind it, which it has then.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(bytes: &[u8], checksum: Checksum) -> Result<Self, ExportError> {
        let mut r = Reader(bytes);
        if r.take(4).map_err(|_| ExportError::Foreign)? != MAGIC {
            return Err(ExportError::Foreign);
        }
        let found = r.u16()?;
        if found != VERSION {
            return Err(ExportError::Version { found });
        }
        let (count, length) = (usize::from(r.u16()?), r.u64()?);
        let length = usize::try_from(length).map_err(|_| Short)?;
        let (record, additions) = bytes.split_at_checked(length).ok_or(Short)?;
        let (fields, sum) = record.split_last_chunk::<4>().ok_or(Short)?;
        if checksum(fields).to_le_bytes() != *sum || !(1..=VOLUMES_MAX).contains(&count) {
            return Err(ExportError::Damaged);
        }
        let mut it = Self::fields(&mut Reader(fields.get(16..).ok_or(Short)?), count)?;
        let sum = u32::from_le_bytes(*sum);
        for addition in additions.chunks_exact(ADDITION_BYTES) {
            if it.add(addition, sum, checksum).is_err() {
                break;
            }
        }
        Ok(it)
    }

    fn fields(r: &mut Reader<'_>, count: usize) -> Result<Self, Short> {
        let stage = crate::cursor::from_code(&STAGES, r.u8()?)?.ok_or(Short)?;
        let consistent = r.flag()?;
        if r.take(6)? != [0; 6] {
            return Err(Short);
        }
        let (at, position) = (WallTime(r.u64()?), r.sequence()?);
        let (group, name, generation, node) = (r.name()?, r.name()?, r.name()?, r.name()?);
        let identity = r.text()?;
        let of = Exported { group, name, generation, node, identity, position, at, consistent };
        let mut volumes: Vec<ExportedVolume> = Vec::new();
        for _ in 0..count {
            let (name, size, written) = (r.name()?, Bytes(r.u64()?), r.u64()?);
            let image = r.text()?;
            let fits = (1..=SIZE_MAX).contains(&size.0) && size.0.is_multiple_of(SECTOR);
            // It is a part of the name of a file.
            let is_name = !name.is_empty() && !name.contains(['/', '\0']);
            if !fits || !is_name || volumes.iter().any(|volume| volume.name == name) {
                return Err(Short);
            }
            // The bytes are there before memory is taken for them.
            let chunks = size.0.div_ceil(CHUNK_BYTES);
            let bits = r.take(chunks.div_ceil(8) as usize)?.to_vec();
            let differs = ChunkSet { bits, chunks };
            if differs.has_beyond() {
                return Err(Short);
            }
            volumes.push(ExportedVolume { name, size, written, image, differs });
        }
        r.finished()?;
        Ok(Self { of, stage, volumes })
    }

    /// An addition that says that these chunks of a volume may differ, behind the record of these bytes.
    #[must_use]
    pub fn addition(
        record: &[u8],
        volume: u16,
        chunks: &Range<u64>,
        checksum: Checksum,
    ) -> [u8; ADDITION_BYTES] {
        let mut bytes = Vec::with_capacity(ADDITION_BYTES);
        let mut w = Writer(&mut bytes);
        w.u16(volume);
        w.u16(0);
        w.u32((chunks.end - chunks.start) as u32);
        w.u64(chunks.start);
        w.0.extend_from_slice(&record[record.len() - 4..]);
        let sum = checksum(w.0);
        w.u32(sum);
        bytes.try_into().unwrap_or_else(|_| unreachable!("the fields above are 24 bytes"))
    }

    fn add(&mut self, bytes: &[u8], record: u32, checksum: Checksum) -> Result<(), Short> {
        let (fields, sum) = bytes.split_last_chunk::<4>().ok_or(Short)?;
        let mut r = Reader(fields);
        let (volume, zero, count) = (r.u16()?, r.u16()?, u64::from(r.u32()?));
        let (first, of) = (r.u64()?, r.u32()?);
        r.finished()?;
        let end = first.checked_add(count).ok_or(Short)?;
        let volume = self.volumes.get_mut(usize::from(volume)).ok_or(Short)?;
        let is_valid = checksum(fields).to_le_bytes() == *sum && of == record && zero == 0;
        if !is_valid || count == 0 || end > volume.differs.chunks() {
            return Err(Short);
        }
        volume.differs.add(first..end);
        Ok(())
    }

    /// Names and sizes of the volumes.
    pub fn shape(&self) -> impl Iterator<Item = (&str, Bytes)> {
        self.volumes.iter().map(|volume| (volume.name.as_str(), volume.size))
    }

    /// How many chunks of all volumes may differ.
    #[must_use]
    pub fn differing(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.differs.count()).sum()
    }
}

/// Chunks of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkSet {
    bits: Vec<u8>,
    chunks: u64,
}

impl ChunkSet {
    /// None of a volume of that size.
    #[must_use]
    pub fn new(size: Bytes) -> Self {
        let chunks = size.0.div_ceil(CHUNK_BYTES);
        Self { bits: vec![0; chunks.div_ceil(8) as usize], chunks }
    }

    /// How many chunks the volume has.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// The chunks that an extent touches.
    #[must_use]
    pub const fn touched(extent: Extent) -> Range<u64> {
        extent.offset / CHUNK_BYTES..extent.end().div_ceil(CHUNK_BYTES)
    }

    fn has_beyond(&self) -> bool {
        let used = self.chunks % 8;
        used > 0 && self.bits.last().is_some_and(|last| last >> used != 0)
    }

    /// How many are in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bits.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Whether that one is in it.
    #[must_use]
    pub fn has(&self, chunk: u64) -> bool {
        self.bits.get((chunk / 8) as usize).is_some_and(|byte| byte >> (chunk % 8) & 1 == 1)
    }

    /// Adds these, as far as the volume has them.
    pub fn add(&mut self, chunks: Range<u64>) {
        for chunk in chunks.start..chunks.end.min(self.chunks) {
            self.bits[(chunk / 8) as usize] |= 1 << (chunk % 8);
        }
    }

    /// Adds all of the volume.
    pub fn add_all(&mut self) {
        self.add(0..self.chunks);
    }

    /// Adds those of another set of a volume of the same size.
    ///
    /// # Panics
    /// It has another size.
    pub fn add_set(&mut self, other: &Self) {
        assert_eq!(self.chunks, other.chunks, "sets of volumes of different sizes");
        self.bits.iter_mut().zip(&other.bits).for_each(|(byte, other)| *byte |= other);
    }

    /// Removes these.
    pub fn remove(&mut self, chunks: Range<u64>) {
        for chunk in chunks.start..chunks.end.min(self.chunks) {
            self.bits[(chunk / 8) as usize] &= !(1 << (chunk % 8));
        }
    }

    /// The first run of them from there on, at most that long.
    #[must_use]
    pub fn run_from(&self, from: u64, most: u64) -> Option<Range<u64>> {
        let mut at = from;
        while at < self.chunks && !self.has(at) {
            // A byte without any is passed over whole.
            let empty = at.is_multiple_of(8) && self.bits[(at / 8) as usize] == 0;
            at += if empty { 8 } else { 1 };
        }
        let end = (at..self.chunks.min(at.saturating_add(most))).find(|chunk| !self.has(*chunk));
        (at < self.chunks).then(|| at..end.unwrap_or(self.chunks.min(at.saturating_add(most))))
    }
}

#[cfg(test)]
#[path = "exported_tests.rs"]
mod tests;
