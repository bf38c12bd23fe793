// SPDX-License-Identifier: Apache-2.0
//! ZFS: labels of 256 KiB, two at each end of the disk; each holds a list of names and values 16 KiB behind its beginning.
//!
//! ```text
//!   list:  1 (XDR), three bytes; version, flags (u32); pairs, ended by two zeros (u32)
//!   pair:  its size here, in memory (u32); name: length (u32), letters up to a multiple of four; type, count (u32); value
//! ```
//! Numbers are big-endian. `name` and `pool_guid` name the pool; `vdev_children` and the children of `vdev_tree` tell that
//! it has several disks.

use super::{Disk, DiskSet, SetKind, name_in};

const LABEL: u64 = 256 << 10;
const LIST_AT: u64 = 16 << 10;
const LIST: usize = 112 << 10;
const NUMBER: u32 = 8;
const TEXT: u32 = 9;
const LISTED: u32 = 19;
const LISTS: u32 = 20;

pub(super) fn look(disk: &mut Disk<'_, '_>) -> Option<DiskSet> {
    let end = disk.size & !(LABEL - 1);
    let places = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    places.into_iter().flatten().find_map(|at| pool(&disk.bytes(at.checked_add(LIST_AT)?, LIST)?))
}

fn pool(list: &[u8]) -> Option<DiskSet> {
    if *list.first()? != 1 {
        return None;
    }
    let (mut id, mut name, mut disks) = (None, None, 1);
    for Pair { name: key, kind, value, .. } in Pairs(list.get(12..)?) {
        match (key, kind) {
            (b"pool_guid", NUMBER) => id = number(value),
            (b"name", TEXT) => name = text(value).and_then(name_in),
            (b"vdev_children", NUMBER) => disks = disks.max(number(value)?),
            (b"vdev_tree", LISTED) => {
                let children =
                    Pairs(value.get(8..)?).find(|p| p.name == b"children" && p.kind == LISTS);
                disks = disks.max(children.map_or(1, |children| u64::from(children.count)));
            }
            _ => {}
        }
    }
    Some(DiskSet { kind: SetKind::Zfs, id: id?.to_string(), name, disks })
}

struct Pair<'a> {
    name: &'a [u8],
    kind: u32,
    count: u32,
    value: &'a [u8],
}

/// The pairs of a list.
struct Pairs<'a>(&'a [u8]);

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        let size = word(self.0, 0)? as usize;
        // Every pair is longer than its own fixed parts.
        let pair = self.0.get(..size).filter(|pair| pair.len() >= 20)?;
        self.0 = self.0.get(size..)?;
        let length = word(pair, 8)? as usize;
        let name = pair.get(12..12_usize.checked_add(length)?)?;
        let at = 12_usize.checked_add(length.checked_next_multiple_of(4)?)?;
        let (kind, count) = (word(pair, at)?, word(pair, at + 4)?);
        Some(Pair { name, kind, count, value: pair.get(at + 8..)? })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.get(..8)?.try_into().ok()?))
}

fn text(value: &[u8]) -> Option<&[u8]> {
    value.get(4..4_usize.checked_add(word(value, 0)? as usize)?)
}
