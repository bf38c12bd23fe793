// SPDX-License-Identifier: Apache-2.0
//! The superblock: what one node durably knows of one group.
//!
//! It is the body of page 0 of the group's metadata file; the header before it, its checksum, the write order and what a
//! torn write leaves are [`crate::page`]'s.
//!
//! | bytes of the page | field |
//! |---|---|
//! | 32 | role: 1 primary, 2 secondary |
//! | 33 | clean: the last stop was clean, `head` is exact |
//! | 34 | consistent: the image keeps the order promise |
//! | 35 | wrote: this node accepted writes as primary in its generation |
//! | 36 | equal: at the clean stop the peer's copy was durable up to `head`, and it had everything: if this copy is consistent, nothing was marked; if not, what was marked was at the peer |
//! | 37 | alone: in its generation answers were given that the peer may not have |
//! | 38 | marks void: this node's marks and hot extents prove nothing |
//! | 39 | safe copy: 0 none, 1 kept, 2 given up |
//! | 40..48 | head: last position in this node's image, exact where clean |
//! | 48..56 | remembers: highest sequence ever heard of the peer's metadata file |
//! | 56..60 | granularity: bytes per mark, a power of two from 4 KiB to 1 MiB |
//! | 60..64 | hot slots: how many extents may be hot, 1 to 65024 |
//! | 64..465 | lineage: generation u64 u64, count u8, per ancestor u64 u64 and fork u64; zeros behind the last |
//! | 465..530 | group name: length byte, UTF-8, zeros |
//! | 530..595 | node name: the same |
//! | 595 | sure: its generation began from an image that lacked nothing this node had ever confirmed |
//! | 596 | discarded: an operator said that what this node holds of the group counts for nothing, and it has no history |
//! | 597..600 | zero |
//! | 600..602 | count of volumes |
//! | 602..608 | zero |
//! | 608..1120 | sizes of the volumes in bytes, 8 each, zeros behind the last; 2^58 in all at most |
//! | 1120..1632 | verified: per volume, 8 each, when it was last compared to its end, in ms since 1970; 0 never |
//! | 1632..2656 | members: per volume, 16 each, the identity of the store it lies on; 0 unknown |
//! | 2656..2660 | hold: a lease of so many ms at most may be out, granted by this node as primary; 0 none |
//! | 2660..2676 | the peer's metadata tells nothing since this generation: u64 u64; zeros where it does |
//! | 2676..2684 | seeding: since when a disk is being shipped to the peer, in ms since 1970; 0 none is |
//! | 2684..3196 | differed: per volume, 8 each, the bytes in which that comparison found it to differ |
//! | 3196..3204 | repaired: bit n where those of volume n were copied to the peer; zero behind the last volume |
//! | 3204..3212 | began: when this node began its generation, in ms since 1970; 0 unknown, or it did not |
//! | 3212..3220 | tenure: changes whenever this node takes the role of primary from being secondary; 0 it never did |
//! | 3220..3228 | suspect: bit n where a flush of volume n failed and its blocks were not written again since; zero behind the last volume |
//! | 3228..3236 | reported: the number of changes of the metadata that was last reported to the peer; 0 if every change is reported |
//! | 3236..3244 | copies over: expendable point-in-time copies up to this number are over, whatever the before-image file lists |
//! | 3244..3252 | rollback: the volumes hold what they are to hold only together with the point-in-time copy of this number, if the before-image file lists it as a rollback; 0 none |
//! | 3252..3260 | rollbacks over: rollbacks up to this number have ended, or never began, whatever the before-image file lists |
//! | 3260..3268 | first mark: 2^32 and the owner's mark that all pages have, and the before-image file; 0 if it is that of the names |
//! | 3268..3780 | names: per volume, 8 each, a digest of its name; 0 unknown |
//! | 3780..3788 | before sequence: that of the before-image file at the last start that found copies in it; a file with a lower one is older. 0 unknown |
//! | 3788..4032 | zero |
//! | 4032..4096 | block sizes: per volume, 1 each, the binary logarithm of the largest block of a member so far, here or at the peer, 9 to 12; 0 unknown |
//!
//! A body is valid if and only if every zero, every enumerated byte and every bound in the table holds. Sizes,
//! granularity and hot slots say where everything else in the file lies; they never change in one file. Nor does the owner's mark of its
//! pages: if the group or the node gets another name, only the superblock changes, and has the mark of the first names from then on.

use crate::Checksum;
use crate::before::CopyNumber;
use crate::cursor::{Reader, Short, Writer};
use crate::lineage::Lineage;
use crate::message::{VOLUMES_MAX, is_block};
use crate::page::{self, BODY_BYTES, HEADER_BYTES, PAGE_BYTES, PageError};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use helio_units::{Generation, Role, Sequence};

/// Fewest bytes per mark.
pub const GRANULARITY_MIN: u32 = 4 << 10;
/// Most bytes per mark.
pub const GRANULARITY_MAX: u32 = 1 << 20;
/// Bytes per mark where nothing else is said.
pub const GRANULARITY_DEFAULT: u32 = 64 << 10;
/// Most extents that may be hot.
pub const HOT_SLOTS_MAX: u32 = 65_024;
/// How many extents may be hot where nothing else is said: four pages, 8 GiB.
pub const HOT_SLOTS_DEFAULT: u32 = 2032;
/// Most bytes of all volumes of a group.
pub const BYTES_MAX: u64 = 1 << 58;

const GROUP_AT: usize = 465;
const NODE_AT: usize = 530;
const SURE_AT: usize = 595;
const COUNT_AT: usize = 600;
const SIZES_AT: usize = 608;
const VERIFIED_AT: usize = SIZES_AT + 8 * VOLUMES_MAX;
const MEMBERS_AT: usize = VERIFIED_AT + 8 * VOLUMES_MAX;
const HOLD_AT: usize = MEMBERS_AT + 16 * VOLUMES_MAX;
const SEEDING_AT: usize = HOLD_AT + 20;
const DIFFERED_AT: usize = SEEDING_AT + 8;
const REPAIRED_AT: usize = DIFFERED_AT + 8 * VOLUMES_MAX;
/// What is added to a first mark, so that one of 0 is not none.
const MARKED: u64 = 1 << 32;
const NAMES_AT: usize = REPAIRED_AT + 72;
const BEFORE_AT: usize = NAMES_AT + 8 * VOLUMES_MAX;
const BLOCKS_AT: usize = PAGE_BYTES - VOLUMES_MAX;

/// Whether the last consistent image can be brought back while an update runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SafeCopy {
    /// No update needs one.
    #[default]
    None,
    /// The before-image store holds what it takes.
    Kept,
    /// It was given up: an operator said so, or there was no room.
    GivenUp,
}

/// What a superblock holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The node's role.
    pub role: Role,
    /// The last stop was clean.
    pub clean: bool,
    /// The image keeps the order promise.
    pub consistent: bool,
    /// This node accepted writes as primary in its generation.
    pub wrote: bool,
    /// At the clean stop the peer had everything up to `head`. If this copy is consistent, the two were equal.
    pub equal: bool,
    /// In its generation answers were given that the peer may not have.
    pub alone: bool,
    /// Its generation began from an image that lacked nothing this node had ever confirmed.
    pub sure: bool,
    /// An operator said that what this node holds of the group counts for nothing: it has no history, and joins as new.
    pub discarded: bool,
    /// This node's marks and hot extents prove nothing: new, damaged, or seeded anew.
    pub marks_void: bool,
    /// Whether the last consistent image can be brought back.
    pub safe_copy: SafeCopy,
    /// The generation written or followed, and its ancestors.
    pub lineage: Lineage,
    /// Last position in the image.
    pub head: Sequence,
    /// Highest sequence ever heard of the peer's metadata file.
    pub remembers: u64,
    /// The number of changes of the metadata that was last reported to the peer; none if every change is reported.
    pub reported: Option<u64>,
    /// Bytes per mark.
    pub granularity: u32,
    /// How many extents may be hot.
    pub hot_slots: u32,
    /// The group.
    pub group: String,
    /// The node.
    pub node: String,
    /// Sizes of the volumes in bytes.
    pub sizes: Vec<u64>,
    /// When each volume was last compared to its end, in ms since 1970; 0 never.
    pub verified: Vec<u64>,
    /// The identity of the store each volume lies on; 0 unknown.
    pub members: Vec<u128>,
    /// A hold lease of so many ms at most may be out, granted by this node as primary; 0 none.
    pub hold: u32,
    /// The peer's metadata tells nothing of what it did since this generation; none where it does.
    pub peer_invalid: Generation,
    /// Since when a disk is being shipped to the peer, in ms since 1970; 0 none is. The marks tell what it may lack,
    /// and prove nothing against any other copy.
    pub seeding: u64,
    /// The bytes in which each volume's last comparison found it to differ.
    pub differed: Vec<u64>,
    /// Bit n where those of volume n were copied to the peer.
    pub repaired: u64,
    /// When this node began its generation, in ms since 1970; 0 unknown, or it did not.
    pub began: u64,
    /// Names this node's time as primary: another number whenever others may have written since it was primary last.
    /// Devices that outlive the daemon carry it. 0 before the first.
    pub tenure: u64,
    /// Bit n where this node's copy of volume n is suspect: a flush or FUA failed, so a block may read as it was written
    /// last and not be durable, and no later flush makes it so. The bit ends when the blocks were written again and
    /// flushed.
    pub suspect: u64,
    /// Expendable copies up to this number are over, whatever the before-image file lists.
    pub copies_over: CopyNumber,
    /// The volumes hold what they are to hold only together with that copy, if the before-image file lists it as a rollback; none if
    /// they do by themselves.
    pub rollback: Option<CopyNumber>,
    /// Rollbacks up to this number have ended, or never began, whatever the before-image file lists.
    pub rollbacks_over: CopyNumber,
    /// The owner's mark of all pages and of the before-image file, if group or node had another name when the file was begun.
    pub first_mark: Option<u32>,
    /// The sequence of the before-image file at the last start that found copies in it: a file with a lower one is older. 0 unknown.
    pub before_sequence: u64,
    /// A digest of the name of each volume; 0 unknown.
    pub names: Vec<u64>,
    /// The block size of each volume in bytes: the largest of its members so far, here and at the peer; 0 unknown.
    pub blocks: Vec<u32>,
}

impl Superblock {
    /// The node never took part in the group, or this metadata does not tell that it did.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.lineage.generation == Generation::NONE && !self.discarded
    }

    /// Up to which of the copies that the before-image file lists, of which the last one has that number, expendable ones are over. Of a
    /// node without a history nothing may tell on which disks they were cut, unless an operator said that a rollback among them is
    /// of these disks.
    #[must_use]
    pub fn copies_over(&self, last: CopyNumber) -> CopyNumber {
        let unknown = self.lineage.generation == Generation::NONE
            && self.members.contains(&0)
            && self.rollback.is_none();
        if unknown { last } else { self.copies_over }
    }

    /// The owner's mark of all pages, and of the before-image file.
    #[must_use]
    pub fn owner(&self, checksum: Checksum) -> u32 {
        self.first_mark.unwrap_or_else(|| page::owner(&self.group, &self.node, checksum))
    }

    /// The same under other names. What is marked as the owner's stays so.
    #[must_use]
    pub fn renamed(self, group: &str, node: &str, checksum: Checksum) -> Self {
        let first_mark = Some(self.owner(checksum));
        Self { first_mark, group: group.into(), node: node.into(), ..self }
    }

    /// Of a node that never took part in `group`.
    #[must_use]
    pub fn new(group: &str, node: &str, sizes: Vec<u64>) -> Self {
        Self {
            role: Role::Secondary,
            clean: true,
            consistent: true,
            wrote: false,
            equal: false,
            alone: false,
            sure: false,
            discarded: false,
            marks_void: true,
            safe_copy: SafeCopy::None,
            lineage: Lineage::default(),
            head: Sequence::ZERO,
            remembers: 0,
            reported: None,
            granularity: GRANULARITY_DEFAULT,
            hot_slots: HOT_SLOTS_DEFAULT,
            group: group.into(),
            node: node.into(),
            verified: vec![0; sizes.len()],
            members: vec![0; sizes.len()],
            differed: vec![0; sizes.len()],
            blocks: vec![0; sizes.len()],
            names: vec![0; sizes.len()],
            sizes,
            hold: 0,
            peer_invalid: Generation::NONE,
            seeding: 0,
            repaired: 0,
            began: 0,
            tenure: 0,
            suspect: 0,
            copies_over: CopyNumber::default(),
            rollback: None,
            rollbacks_over: CopyNumber::default(),
            first_mark: None,
            before_sequence: 0,
        }
    }

    /// The body's bytes.
    ///
    /// # Panics
    /// On values outside of the table's bounds, which the configuration refuses.
    #[must_use]
    pub fn encode(&self) -> [u8; BODY_BYTES] {
        assert!(self.sizes.len() <= VOLUMES_MAX, "a group of {} volumes", self.sizes.len());
        assert_eq!(self.sizes.len(), self.verified.len(), "a time for every volume");
        assert_eq!(self.sizes.len(), self.members.len(), "an identity for every volume");
        assert_eq!(self.sizes.len(), self.differed.len(), "a comparison for every volume");
        assert_eq!(self.sizes.len(), self.blocks.len(), "a block size for every volume");
        assert_eq!(self.sizes.len(), self.names.len(), "a name for every volume");
        assert!(self.fits(), "a superblock that cannot be: {self:?}");
        // The offsets of the table count from the page's start.
        let mut out = vec![0; HEADER_BYTES];
        let mut w = Writer(&mut out);
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
        w.u8(match self.safe_copy {
            SafeCopy::None => 0,
            SafeCopy::Kept => 1,
            SafeCopy::GivenUp => 2,
        });
        w.sequence(self.head);
        w.u64(self.remembers);
        w.u32(self.granularity);
        w.u32(self.hot_slots);
        self.lineage.encode(&mut w);
        w.0.resize(GROUP_AT, 0);
        w.name(&self.group);
        w.0.resize(NODE_AT, 0);
        w.name(&self.node);
        w.0.resize(SURE_AT, 0);
        w.flag(self.sure);
        w.flag(self.discarded);
        w.0.resize(COUNT_AT, 0);
        w.u16(self.sizes.len() as u16);
        for (at, values) in [(SIZES_AT, &self.sizes), (VERIFIED_AT, &self.verified)] {
            w.0.resize(at, 0);
            for value in values {
                w.u64(*value);
            }
        }
        w.0.resize(MEMBERS_AT, 0);
        for identity in &self.members {
            w.u64(*identity as u64);
            w.u64((*identity >> 64) as u64);
        }
        w.0.resize(HOLD_AT, 0);
        w.u32(self.hold);
        w.generation(self.peer_invalid);
        w.0.resize(SEEDING_AT, 0);
        w.u64(self.seeding);
        for bytes in &self.differed {
            w.u64(*bytes);
        }
        w.0.resize(REPAIRED_AT, 0);
        self.counts().iter().chain(&self.names).for_each(|value| w.u64(*value));
        w.0.resize(BEFORE_AT, 0);
        w.u64(self.before_sequence);
        w.0.resize(BLOCKS_AT, 0);
        for block in &self.blocks {
            w.u8(block.checked_ilog2().unwrap_or(0) as u8);
        }
        let mut body = [0; BODY_BYTES];
        body[..out.len() - HEADER_BYTES].copy_from_slice(&out[HEADER_BYTES..]);
        body
    }

    /// What stands one behind the other, 8 bytes each.
    fn counts(&self) -> [u64; 9] {
        let (reported, over) = (self.reported.unwrap_or(0), self.copies_over.0);
        let rollback = self.rollback.map_or(0, |number| number.0);
        let ended = self.rollbacks_over.0;
        let mark = self.first_mark.map_or(0, |mark| MARKED | u64::from(mark));
        [
            self.repaired,
            self.began,
            self.tenure,
            self.suspect,
            reported,
            over,
            rollback,
            ended,
            mark,
        ]
    }

    /// Reads a body.
    ///
    /// # Errors
    /// A byte of it is not as the table says.
    pub fn decode(body: &[u8; BODY_BYTES]) -> Result<Self, PageError> {
        let found = Self::fields(body)?;
        if found.fits() { Ok(found) } else { Err(PageError::Damaged) }
    }

    /// Whether granularity, hot slots and sizes are in their bounds.
    fn fits(&self) -> bool {
        let total = self.sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        self.granularity.is_power_of_two()
            && (GRANULARITY_MIN..=GRANULARITY_MAX).contains(&self.granularity)
            && (1..=HOT_SLOTS_MAX).contains(&self.hot_slots)
            && total.is_some_and(|total| total <= BYTES_MAX)
            && self.blocks.iter().all(|block| *block == 0 || is_block(*block))
    }

    fn fields(body: &[u8; BODY_BYTES]) -> Result<Self, Short> {
        let mut r = Reader(body);
        let role = role(&mut r)?;
        let [clean, consistent, wrote, equal, alone, marks_void] = flags(&mut r)?;
        let (safe_copy, head, remembers) = (safe_copy(&mut r)?, r.sequence()?, r.u64()?);
        let (granularity, hot_slots, lineage) = (r.u32()?, r.u32()?, Lineage::decode(&mut r)?);
        zeros_to(&mut r, GROUP_AT)?;
        let group = r.name()?;
        zeros_to(&mut r, NODE_AT)?;
        let node = r.name()?;
        zeros_to(&mut r, SURE_AT)?;
        let [sure, discarded] = flags(&mut r)?;
        zeros_to(&mut r, COUNT_AT)?;
        let count = Some(usize::from(r.u16()?));
        let count = count.filter(|count| *count <= VOLUMES_MAX).ok_or(Short)?;
        let mut per_volume = |from, to| {
            zeros_to(&mut r, from)?;
            let values = (0..count).map(|_| r.u64()).collect::<Result<Vec<_>, _>>()?;
            zeros_to(&mut r, to)?;
            Ok(values)
        };
        let sizes = per_volume(SIZES_AT, VERIFIED_AT)?;
        let verified = per_volume(VERIFIED_AT, MEMBERS_AT)?;
        let mut halves = || Ok(u128::from(r.u64()?) | u128::from(r.u64()?) << 64);
        let members = (0..count).map(|_| halves()).collect::<Result<Vec<_>, Short>>()?;
        zeros_to(&mut r, HOLD_AT)?;
        let (hold, peer_invalid, seeding) = (r.u32()?, r.generation()?, r.u64()?);
        let (differed, repaired) = compared(&mut r, count)?;
        let (began, tenure, suspect) = (r.u64()?, r.u64()?, volume_bits(&mut r, count)?);
        let [reported, copies_over, rollback, rollbacks_over, mark] = numbers(&mut r)?;
        let (names, before_sequence) = (names(&mut r, count)?, before_sequence(&mut r)?);
        Ok(Self {
            role,
            clean,
            consistent,
            wrote,
            equal,
            alone,
            sure,
            discarded,
            marks_void,
            safe_copy,
            lineage,
            head,
            remembers,
            reported,
            granularity,
            hot_slots,
            group,
            node,
            sizes,
            verified,
            members,
            hold,
            peer_invalid,
            seeding,
            differed,
            repaired,
            began,
            tenure,
            suspect,
            copies_over: CopyNumber(copies_over.unwrap_or(0)),
            rollback: rollback.map(CopyNumber),
            rollbacks_over: CopyNumber(rollbacks_over.unwrap_or(0)),
            first_mark: mark.map(first_mark).transpose()?,
            names,
            before_sequence,
            blocks: blocks(&mut r, count)?,
        })
    }
}

fn role(r: &mut Reader<'_>) -> Result<Role, Short> {
    match r.u8()? {
        1 => Ok(Role::Primary),
        2 => Ok(Role::Secondary),
        _ => Err(Short),
    }
}

/// Numbers, each of which may be none.
fn numbers<const N: usize>(r: &mut Reader<'_>) -> Result<[Option<u64>; N], Short> {
    let mut all = [None; N];
    for number in &mut all {
        *number = Some(r.u64()?).filter(|number| *number != 0);
    }
    Ok(all)
}

fn names(r: &mut Reader<'_>, count: usize) -> Result<Vec<u64>, Short> {
    zeros_to(r, NAMES_AT)?;
    (0..count).map(|_| r.u64()).collect()
}

fn before_sequence(r: &mut Reader<'_>) -> Result<u64, Short> {
    zeros_to(r, BEFORE_AT)?;
    r.u64()
}

fn first_mark(value: u64) -> Result<u32, Short> {
    u32::try_from(value ^ MARKED).map_err(|_| Short)
}

fn flags<const N: usize>(r: &mut Reader<'_>) -> Result<[bool; N], Short> {
    let mut all = [false; N];
    for flag in &mut all {
        *flag = r.flag()?;
    }
    Ok(all)
}

fn safe_copy(r: &mut Reader<'_>) -> Result<SafeCopy, Short> {
    match r.u8()? {
        0 => Ok(SafeCopy::None),
        1 => Ok(SafeCopy::Kept),
        2 => Ok(SafeCopy::GivenUp),
        _ => Err(Short),
    }
}

/// What the last comparison of each volume found, and where that was repaired.
fn compared(r: &mut Reader<'_>, count: usize) -> Result<(Vec<u64>, u64), Short> {
    let differed = (0..count).map(|_| r.u64()).collect::<Result<Vec<_>, _>>()?;
    zeros_to(r, REPAIRED_AT)?;
    Ok((differed, volume_bits(r, count)?))
}

/// A bit per volume, and none beyond the last one.
fn volume_bits(r: &mut Reader<'_>, count: usize) -> Result<u64, Short> {
    let bits = r.u64()?;
    let beyond = bits.checked_shr(count as u32).unwrap_or_default();
    if beyond == 0 { Ok(bits) } else { Err(Short) }
}

/// Everything from the reader's place to byte `at` of the page must be zero.
fn blocks(r: &mut Reader<'_>, count: usize) -> Result<Vec<u32>, Short> {
    zeros_to(r, BLOCKS_AT)?;
    let block = |shift: u8| match shift {
        0 => Ok(0),
        shift => 1u32.checked_shl(shift.into()).ok_or(Short),
    };
    let blocks = (0..count).map(|_| block(r.u8()?)).collect();
    zeros_to(r, PAGE_BYTES)?;
    blocks
}

fn zeros_to(r: &mut Reader<'_>, at: usize) -> Result<(), Short> {
    r.zeros_until(PAGE_BYTES - at)
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
mod tests;
