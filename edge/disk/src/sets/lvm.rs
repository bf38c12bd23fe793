// SPDX-License-Identifier: Apache-2.0
//! LVM2: a label in one of the first four sectors, and a text that tells the whole volume group.
//!
//! ```text
//!   label:   "LABELONE", 12 bytes, offset of the header (u32), "LVM2 001"
//!   header:  id (32 letters), size (u64), data areas, text areas: pairs of offset and size (u64), each list ended by zeros
//!   area:    checksum (u32), " LVM2 x[5A%r0N*>", version (u32), start, size (u64); the text: offset, size (u64)
//!   text:    NAME { id = "..."  ...  physical_volumes { pv0 { id = "..." ... } pv1 { ... } }  ... }
//! ```
//! The area is a ring behind its first 512 bytes, so that a text may go on there.

use super::{Disk, DiskSet, SetKind, clean, u32_at, u64_at};

const SECTOR: usize = 512;
const LONGEST_TEXT: u64 = 1 << 20;
const AREAS_MOST: usize = 16;

pub(super) fn look(disk: &mut Disk<'_, '_>) -> Option<DiskSet> {
    let start = disk.bytes(0, 4 * SECTOR)?;
    let is_label = |s: &&[u8]| s.starts_with(b"LABELONE") && s.get(24..32) == Some(b"LVM2 001");
    let label = start.chunks(SECTOR).find(is_label)?;
    let header = label.get(u32_at(label, 20)? as usize..)?;
    let (_data, used) = pairs(header, 40)?;
    let (areas, _) = pairs(header, used)?;
    areas.into_iter().find_map(|(at, _)| group(&text(disk, at)?))
}

/// Pairs of numbers up to one of zeros, and where the next list begins.
fn pairs(header: &[u8], mut at: usize) -> Option<(Vec<(u64, u64)>, usize)> {
    let mut found = Vec::new();
    loop {
        let pair = (u64_at(header, at)?, u64_at(header, at + 8)?);
        at += 16;
        if pair == (0, 0) || found.len() == AREAS_MOST {
            return Some((found, at));
        }
        found.push(pair);
    }
}

fn text(disk: &mut Disk<'_, '_>, area: u64) -> Option<String> {
    let head = disk.bytes(area, SECTOR)?;
    if head.get(4..20)? != b" LVM2 x[5A%r0N*>" {
        return None;
    }
    let (size, offset, length) = (u64_at(&head, 32)?, u64_at(&head, 40)?, u64_at(&head, 48)?);
    if length > LONGEST_TEXT || offset >= size {
        return None;
    }
    let first = length.min(size - offset);
    let mut text = disk.bytes(area.checked_add(offset)?, first as usize)?;
    text.extend(disk.bytes(area.checked_add(SECTOR as u64)?, (length - first) as usize)?);
    String::from_utf8(text).ok()
}

fn group(text: &str) -> Option<DiskSet> {
    let (name, rest) = text.split_once('{')?;
    let (_, id) = rest.split_once("id = \"")?;
    let (id, _) = id.split_once('"')?;
    let (_, disks) = rest.split_once("physical_volumes {")?;
    let disks = disks.split("logical_volumes {").next().unwrap_or(disks);
    let disks = disks.lines().filter(|line| line.trim_start().starts_with("id = \"")).count();
    let name = Some(clean(name.trim())).filter(|name| !name.is_empty());
    Some(DiskSet { kind: SetKind::Lvm, id: clean(id), name, disks: disks as u64 })
}
