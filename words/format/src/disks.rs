// SPDX-License-Identifier: Apache-2.0
//! What a node tells of the disks of its volumes, so that no disk belongs to both nodes.
//!
//! | kind | body, in order |
//! |---|---|
//! | 34 disks | count u16, then for each: volume u8, whole flag in bit 7 of it, 7 bytes that tell the disk |
//!
//! It follows a hello that is accepted, before anything else, and whenever the members of a volume change; the last one counts. Integers
//! are as in [`crate::message`]. A disk is not zero.

use crate::cursor::{Reader, Short, Writer};
use crate::members::{DiskMark, MEMBERS_MAX};
use crate::message::VOLUMES_MAX;
use alloc::vec::Vec;
use helio_units::VolumeIndex;

/// Most of what tells disks: two for each member.
pub const DISKS_MAX: usize = VOLUMES_MAX * MEMBERS_MAX * 2;

/// In the byte of the volume: all of the disk is the sender's.
const WHOLE: u8 = 0x80;

/// One of the things that tell the disk of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The volume of the member.
    pub volume: VolumeIndex,
    /// What tells it.
    pub mark: DiskMark,
    /// The member is all of it, and not a partition or another part.
    pub whole: bool,
}

impl Disk {
    /// Whether bytes of one may be bytes of the other. Parts of one disk that are the same have a mark of their own.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        self.mark != DiskMark::UNKNOWN && self.mark == other.mark && (self.whole || other.whole)
    }
}

/// Writes them.
///
/// # Panics
/// On more than members have, or a volume that no group has.
pub(crate) fn encode(disks: &[Disk], w: &mut Writer<'_>) {
    assert!(disks.len() <= DISKS_MAX, "{} disks", disks.len());
    w.u16(disks.len() as u16);
    for disk in disks {
        assert!(usize::from(disk.volume.0) < VOLUMES_MAX, "volume {}", disk.volume.0);
        let volume = disk.volume.0 as u8 | if disk.whole { WHOLE } else { 0 };
        w.u64(disk.mark.beside(volume));
    }
}

pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Vec<Disk>, Short> {
    let count = usize::from(r.u16()?);
    if count > DISKS_MAX {
        return Err(Short);
    }
    let mut disks = Vec::with_capacity(count);
    for _ in 0..count {
        let (mark, volume) = DiskMark::split(r.u64()?);
        let (volume, whole) = (volume & !WHOLE, volume & WHOLE != 0);
        if mark == DiskMark::UNKNOWN || usize::from(volume) >= VOLUMES_MAX {
            return Err(Short);
        }
        disks.push(Disk { volume: VolumeIndex(volume.into()), mark, whole });
    }
    Ok(disks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_shared_if_it_is_all_of_what_a_member_of_the_other_node_is_or_is_on() {
        let disk = |mark, whole| Disk { volume: VolumeIndex(0), mark: DiskMark::of(mark), whole };
        for (one, other, shared) in [
            (disk(7, true), disk(7, true), true),
            (disk(7, true), disk(7, false), true),
            (disk(7, false), disk(7, false), false),
            (disk(7, true), disk(8, true), false),
            (disk(0, true), disk(0, true), false),
        ] {
            assert_eq!(one.is_shared_with(&other), shared, "{one:?} {other:?}");
            assert_eq!(other.is_shared_with(&one), shared, "{other:?} {one:?}");
        }
    }
}
