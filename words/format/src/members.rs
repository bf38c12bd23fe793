// SPDX-License-Identifier: Apache-2.0
//! The body of the page of member states: what each member of each volume is worth.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0..3072 | 64 volumes of 6 members of 8 bytes: the state, and 7 bytes that tell its disk; 0 where nothing tells it |
//! | 3072..4064 | the epochs of the volumes and their members ([`crate::epochs`]) |
//!
//! | state | meaning |
//! |---|---|
//! | 0 | the volume has no such member |
//! | 1 | good: the member holds all of the volume |
//! | 2 | suspect: a flush of it failed, and its blocks were not written again since |
//! | 3 | copying: the member is written, and gets what its bitmap and the hot extents say that it lacks |
//! | 4 | removed: the member is not used; it lacks what its bitmap and the hot extents say, and nothing else |
//! | 5 | unproven: the member is not used; what it lacks is not known, so it lacks everything |
//! | 6 | failed: as unproven, and the member may hold data that is not durable, so it is not compared |
//! | 7 | withdrawn: as removed, by an administrator: only a command returns it |
//! | 8 | blank: as good, and in the regions of its bitmap nothing was ever written |
//!
//! The bitmap of a member that is good or suspect says where it may differ from other such members: readers see a region of it only once
//! these are equal there. If every member of the volume is blank, what they hold there does not count before the first read or write, so
//! nothing is compared before. If only some are, a blank one is good.
//!
//! A body is valid if and only if every state is as the table says, a member that the volume does not have tells no disk,
//! volumes that the group does not have have no members, and the epochs are valid. The page is written before any other page that changes with it, and flushed: what is built on
//! a member is never recorded before its state. Page, write order and version: [`crate::page`].

use crate::epochs::Epochs;
use crate::message::VOLUMES_MAX;
use crate::page::{BODY_BYTES, PageError};
use alloc::vec::Vec;
use core::fmt;

/// Most members of a volume.
pub const MEMBERS_MAX: usize = 6;
/// Bytes of one member.
const ENTRY: usize = 8;
/// Bytes of all members.
const ENTRIES: usize = VOLUMES_MAX * MEMBERS_MAX * ENTRY;

/// What a member is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHealth {
    /// It holds all of the volume.
    Good,
    /// A flush of it failed, and its blocks were not written again since.
    Suspect,
    /// It is written, and gets what its bitmap and the hot extents say that it lacks.
    Copying,
    /// It is not used; it lacks what its bitmap and the hot extents say.
    Removed,
    /// It is not used; what it lacks is not known.
    Unproven,
    /// The same, and it may hold data that is not durable.
    Failed,
    /// As removed, by an administrator: only a command returns it.
    Withdrawn,
    /// It holds all of the volume; in the regions of its bitmap nothing was ever written.
    Blank,
}

impl CopyHealth {
    /// The member holds all of the volume.
    #[must_use]
    pub const fn is_full(self) -> bool {
        matches!(self, Self::Good | Self::Suspect | Self::Blank)
    }
}

/// Every state with its code; a member that the volume does not have has code zero.
const CODES: [(CopyHealth, u8); 8] = [
    (CopyHealth::Good, 1),
    (CopyHealth::Suspect, 2),
    (CopyHealth::Copying, 3),
    (CopyHealth::Removed, 4),
    (CopyHealth::Unproven, 5),
    (CopyHealth::Failed, 6),
    (CopyHealth::Withdrawn, 7),
    (CopyHealth::Blank, 8),
];

/// The members of a volume, by their number.
pub type VolumeMembers = [Option<CopyHealth>; MEMBERS_MAX];

/// Which disk a member lies on: 56 bits of what tells it, so that another disk in its place is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskMark(u64);

impl DiskMark {
    /// Nothing tells the disk.
    pub const UNKNOWN: Self = Self(0);
    const MASK: u64 = (1 << 56) - 1;

    /// The disk of that identity; 0 where nothing tells it.
    #[must_use]
    pub const fn of(identity: u128) -> Self {
        match (identity, identity as u64 & Self::MASK) {
            (0, _) => Self::UNKNOWN,
            (_, 0) => Self(1),
            (_, mark) => Self(mark),
        }
    }

    /// With a byte below it, as it is stored and sent.
    pub(crate) const fn beside(self, byte: u8) -> u64 {
        self.0 << 8 | byte as u64
    }

    /// From what [`Self::beside`] made.
    pub(crate) const fn split(word: u64) -> (Self, u8) {
        (Self(word >> 8), word as u8)
    }
}

impl fmt::Display for DiskMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("unknown"),
            mark => write!(f, "{mark:014x}"),
        }
    }
}

/// A member as the page has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// What it is worth.
    pub health: CopyHealth,
    /// Its disk.
    pub disk: DiskMark,
}

/// The members of a volume as the page has them, by their number.
pub type VolumeEntries = [Option<MemberEntry>; MEMBERS_MAX];

/// The body of the page for these volumes.
///
/// # Panics
/// On more volumes than a group has, or an epoch without a set id.
#[must_use]
pub fn encode(volumes: &[VolumeEntries], epochs: &Epochs) -> [u8; BODY_BYTES] {
    assert!(volumes.len() <= VOLUMES_MAX, "a group of {} volumes", volumes.len());
    let mut body = [0; BODY_BYTES];
    for (entry, member) in body.chunks_exact_mut(ENTRY).zip(volumes.iter().flatten()) {
        let Some(member) = member else { continue };
        let code = CODES.iter().find(|(state, _)| *state == member.health);
        let code = code.map_or(0, |(_, code)| *code);
        entry.copy_from_slice(&member.disk.beside(code).to_le_bytes());
    }
    epochs.encode(&mut body);
    body
}

/// Reads the members of a group that has that many volumes, and their epochs.
///
/// # Errors
/// A byte of it is not as the tables say.
pub fn decode(
    body: &[u8; BODY_BYTES],
    volumes: usize,
) -> Result<(Vec<VolumeEntries>, Epochs), PageError> {
    let mut found = Vec::from_iter((0..volumes).map(|_| [None; MEMBERS_MAX]));
    let mut members = found.iter_mut().flatten();
    for bytes in body[..ENTRIES].chunks_exact(ENTRY) {
        let mut word = [0; ENTRY];
        word.copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        let state = CODES.iter().find(|(_, known)| u64::from(*known) == word & 0xFF);
        let entry =
            state.map(|(health, _)| MemberEntry { health: *health, disk: DiskMark::split(word).0 });
        match (entry, members.next()) {
            (None, _) if word != 0 => return Err(PageError::Damaged),
            (None, _) => {}
            (entry, Some(member)) => *member = entry,
            (Some(_), None) => return Err(PageError::Damaged),
        }
    }
    Ok((found, Epochs::decode(body, volumes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(volumes: usize) -> Epochs {
        Epochs::none(volumes)
    }

    const fn entry(health: CopyHealth, identity: u128) -> Option<MemberEntry> {
        Some(MemberEntry { health, disk: DiskMark::of(identity) })
    }

    #[test]
    fn members_come_back_and_stand_where_the_table_says() {
        let mut volumes = [[None; MEMBERS_MAX]; VOLUMES_MAX];
        volumes[0][0] = entry(CopyHealth::Good, 0);
        volumes[1][5] = entry(CopyHealth::Suspect, 0x0102_0304_0506_0708_090A);
        volumes[63][5] = entry(CopyHealth::Good, u128::MAX);
        for (n, (state, code)) in CODES.iter().enumerate() {
            let (volume, member) = (2 + n / MEMBERS_MAX, n % MEMBERS_MAX);
            volumes[volume][member] = entry(*state, 0);
            assert_eq!(encode(&volumes, &none(64))[8 * (12 + n)], *code);
        }
        let body = encode(&volumes, &none(64));
        assert_eq!((body[0], body[3064], body[3072]), (1, 1, 0));
        assert_eq!(body[8 * 11..8 * 12], [2, 10, 9, 8, 7, 6, 5, 4]);
        assert_eq!(decode(&body, VOLUMES_MAX), Ok((volumes.to_vec(), none(64))));
    }

    #[test]
    fn what_the_tables_do_not_have_is_damage() {
        let two = [[entry(CopyHealth::Good, 7); MEMBERS_MAX], [None; MEMBERS_MAX]];
        let body = encode(&two, &none(2));
        assert!(decode(&body, 2).is_ok());
        let whole = encode(&[two[0]; 2], &none(2));
        let other = decode(&whole, 1);
        assert_eq!(other, Err(PageError::Damaged), "a volume that the group does not have");
        for (at, value) in [(0, 9), (0, 255), (0, 0), (49, 1), (3080, 1), (BODY_BYTES - 1, 1)] {
            let mut odd = body;
            odd[at] = value;
            assert_eq!(decode(&odd, 2), Err(PageError::Damaged), "byte {at}");
        }
    }

    #[test]
    fn a_flipped_byte_is_damage_or_another_member() {
        let mut members = [[None; MEMBERS_MAX]; 2];
        let all = members.iter_mut().flatten().zip(CODES.iter().cycle());
        all.for_each(|(member, (state, _))| *member = entry(*state, 9));
        let body = encode(&members, &none(2));
        for (at, flip) in (0..BODY_BYTES).flat_map(|at| [1, 2, 0x80, 0xFF].map(|flip| (at, flip))) {
            let mut odd = body;
            odd[at] ^= flip;
            assert_ne!(decode(&odd, 2), decode(&body, 2), "byte {at}");
            let again = decode(&odd, 2).map(|(found, epochs)| encode(&found, &epochs));
            assert_eq!(again.unwrap_or(odd), odd);
        }
    }

    #[test]
    fn a_disk_that_something_tells_is_never_unknown() {
        assert_eq!(DiskMark::of(0), DiskMark::UNKNOWN);
        assert_eq!(DiskMark::of(1 << 56), DiskMark::of(1));
        assert_ne!(DiskMark::of(1 << 80), DiskMark::UNKNOWN);
    }
}
