// SPDX-License-Identifier: Apache-2.0
//! The superblock: what one node durably knows of one group.
//!
//! It lives in two slots of 4096 bytes at the start of the group's metadata file. A save writes the slot the
//! current one is *not* in and flushes; so a torn save leaves the older slot whole. Opening takes the valid slot
//! with the higher save count.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic `HELIOSB1` |
//! | 8..12 | format version (1) |
//! | 12..16 | zero |
//! | 16..24 | save count: 1 for the first save, then counting up |
//! | 24 | role: 1 primary, 2 secondary |
//! | 25 | clean: the last stop was clean, `head` is exact |
//! | 26 | consistent: the image keeps the order promise |
//! | 27 | wrote: this node accepted writes as primary in its generation |
//! | 28 | equal: at the clean stop the peer's copy was durable up to `head` and nothing was marked |
//! | 29..32 | zero |
//! | 32..40 | head: last position in this node's image, exact where clean |
//! | 40..441 | lineage: generation u64 u64, count u8, per ancestor u64 u64 and fork u64; zeros behind the last |
//! | 441..506 | group name: length byte, UTF-8, zeros |
//! | 506..571 | node name: the same |
//! | 571..576 | zero |
//! | 576..578 | count of volumes |
//! | 578..1090 | sizes of the volumes in bytes, 8 each, zeros behind the last |
//! | 1090..4092 | zero |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |
//!
//! A slot is valid if and only if magic, version, checksum, every zero and every enumerated byte are right. One
//! slot is one write of 4096 bytes: on a disk with 512-byte sectors it may tear, which the checksum shows.

use crate::Checksum;
use crate::cursor::{Reader, Short, Writer};
use crate::lineage::Lineage;
use crate::message::VOLUMES_MAX;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use helio_units::{Role, Sequence};

/// Size of one slot in bytes.
pub const SLOT_BYTES: usize = 4096;
/// How many slots there are.
pub const SLOTS: usize = 2;
/// The format this build writes.
pub const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"HELIOSB1";
const GROUP_AT: usize = 441;
const NODE_AT: usize = 506;
const COUNT_AT: usize = 576;
const CRC_AT: usize = SLOT_BYTES - 4;

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Which save this is.
    pub saves: u64,
    /// The node's role.
    pub role: Role,
    /// The last stop was clean.
    pub clean: bool,
    /// The image keeps the order promise.
    pub consistent: bool,
    /// This node accepted writes as primary in its generation.
    pub wrote: bool,
    /// At the clean stop the peer was equal up to `head`.
    pub equal: bool,
    /// The generation written or followed, and its ancestors.
    pub lineage: Lineage,
    /// In its generation this node gave answers that its peer may know nothing of.
    pub alone: bool,
    /// Its generation began from an image that lacked nothing this node had ever confirmed.
    pub sure: bool,
    /// This node's marks prove nothing.
    pub marks_void: bool,
    /// The highest metadata count of the peer ever heard of.
    pub remembers: u64,
    /// Last position in the image.
    pub head: Sequence,
    /// The group.
    pub group: String,
    /// The node.
    pub node: String,
    /// Sizes of the volumes in bytes.
    pub sizes: Vec<u64>,
}

impl Superblock {
    /// Of a node that never took part in `group`.
    #[must_use]
    pub fn new(group: &str, node: &str, sizes: Vec<u64>) -> Self {
        Self {
            saves: 0,
            role: Role::Secondary,
            clean: true,
            consistent: true,
            wrote: false,
            equal: false,
            alone: false,
            sure: false,
            marks_void: true,
            remembers: 0,
            lineage: Lineage::default(),
            head: Sequence::ZERO,
            group: group.into(),
            node: node.into(),
            sizes,
        }
    }

    /// The slot's bytes.
    #[must_use]
    pub fn encode(&self, checksum: Checksum) -> Vec<u8> {
        let mut out = Vec::with_capacity(SLOT_BYTES);
        out.extend_from_slice(&MAGIC);
        let mut w = Writer(&mut out);
        w.u32(VERSION);
        w.u32(0);
        w.u64(self.saves);
        w.u8(match self.role {
            Role::Primary => 1,
            Role::Secondary => 2,
        });
        w.flag(self.clean);
        w.flag(self.consistent);
        w.flag(self.wrote);
        w.flag(self.equal);
        w.flag(self.alone);
        w.flag(self.marks_void);
        w.flag(self.sure);
        w.0.resize(32, 0);
        w.sequence(self.head);
        self.lineage.encode(&mut w);
        w.0.resize(GROUP_AT, 0);
        w.name(&self.group);
        w.0.resize(NODE_AT, 0);
        w.name(&self.node);
        w.0.resize(COUNT_AT, 0);
        assert!(self.sizes.len() <= VOLUMES_MAX, "a group of {} volumes", self.sizes.len());
        w.u16(self.sizes.len() as u16);
        for size in &self.sizes {
            w.u64(*size);
        }
        w.0.resize(1090, 0);
        w.u64(self.remembers);
        w.0.resize(CRC_AT, 0);
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// Says whether the slot was never written, is damaged, or is of another version.
    pub fn decode(slot: &[u8; SLOT_BYTES], checksum: Checksum) -> Result<Self, SlotError> {
        if slot.iter().all(|b| *b == 0) {
            return Err(SlotError::Empty);
        }
        let stored = u32::from_le_bytes([slot[4092], slot[4093], slot[4094], slot[4095]]);
        if slot[..8] != MAGIC || stored != checksum(&slot[..CRC_AT]) {
            return Err(SlotError::Damaged);
        }
        let version = u32::from_le_bytes([slot[8], slot[9], slot[10], slot[11]]);
        if version != VERSION {
            return Err(SlotError::Version { found: version });
        }
        Self::fields(slot).map_err(|_: Short| SlotError::Damaged)
    }

    fn fields(slot: &[u8; SLOT_BYTES]) -> Result<Self, Short> {
        let mut r = Reader(&slot[12..CRC_AT]);
        zeros(&mut r, 4)?;
        let saves = r.u64()?;
        let role = match r.u8()? {
            1 => Role::Primary,
            2 => Role::Secondary,
            _ => return Err(Short),
        };
        let (clean, consistent, wrote, equal) = (r.flag()?, r.flag()?, r.flag()?, r.flag()?);
        let (alone, marks_void, sure) = (r.flag()?, r.flag()?, r.flag()?);
        let head = r.sequence()?;
        let lineage = Lineage::decode(&mut r)?;
        zeros_to(&mut r, GROUP_AT)?;
        let group = r.name()?;
        zeros_to(&mut r, NODE_AT)?;
        let node = r.name()?;
        zeros_to(&mut r, COUNT_AT)?;
        let count = usize::from(r.u16()?);
        if count > VOLUMES_MAX {
            return Err(Short);
        }
        let sizes = (0..count).map(|_| r.u64()).collect::<Result<Vec<_>, _>>()?;
        zeros_to(&mut r, 1090)?;
        let remembers = r.u64()?;
        let rest = r.0.len();
        zeros(&mut r, rest)?;
        Ok(Self {
            saves,
            role,
            clean,
            consistent,
            wrote,
            equal,
            alone,
            marks_void,
            sure,
            remembers,
            lineage,
            head,
            group,
            node,
            sizes,
        })
    }
}

fn zeros(r: &mut Reader<'_>, n: usize) -> Result<(), Short> {
    if r.take(n)?.iter().all(|b| *b == 0) { Ok(()) } else { Err(Short) }
}

/// Everything from the reader's place to byte `at` of the slot must be zero.
fn zeros_to(r: &mut Reader<'_>, at: usize) -> Result<(), Short> {
    let here = CRC_AT - r.0.len();
    zeros(r, at.checked_sub(here).ok_or(Short)?)
}

/// Why a slot cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// All zeros: never written.
    Empty,
    /// Torn, flipped, or not ours.
    Damaged,
    /// Written by a build with another format.
    Version {
        /// Which format.
        found: u32,
    },
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("never written"),
            Self::Damaged => f.write_str("damaged (magic, checksum or a field is wrong)"),
            Self::Version { found } => {
                write!(f, "format version {found}, this build reads {VERSION}")
            }
        }
    }
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
mod tests;
