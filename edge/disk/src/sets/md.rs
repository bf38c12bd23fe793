// SPDX-License-Identifier: Apache-2.0
//! md arrays: a superblock at the disk's end (0.90, 1.0), its beginning (1.1), or 4 KiB behind that (1.2).
//!
//! | version 1, bytes | what | version 0.90, bytes |
//! |---|---|---|
//! | 0..4 | 0xa92b4efc | 0..4 |
//! | 4..8 | major version | 4..8 |
//! | 16..32 | the array's id | 20..24, 52..64 |
//! | 32..64 | its name | |
//! | 92..96 | disks of the array | 40..44 |

use super::{Disk, DiskSet, SetKind, name_in, u32_at, uuid_at};

const MAGIC: u32 = 0xa92b_4efc;
const SECTOR: u64 = 512;
const OLD: u64 = 64 << 10;

pub(super) fn look(disk: &mut Disk<'_, '_>) -> Option<DiskSet> {
    let last = (disk.size / SECTOR).checked_sub(16).map(|sectors| (sectors & !7) * SECTOR);
    let new = [Some(4096), Some(0), last];
    let found = new.into_iter().flatten().find_map(|at| version_1(&disk.bytes(at, 256)?));
    found.or_else(|| {
        let at = (disk.size & !(OLD - 1)).checked_sub(OLD)?;
        version_0(&disk.bytes(at, 256)?)
    })
}

fn version_1(block: &[u8]) -> Option<DiskSet> {
    if (u32_at(block, 0)?, u32_at(block, 4)?) != (MAGIC, 1) {
        return None;
    }
    let name = name_in(block.get(32..64)?);
    let disks = u64::from(u32_at(block, 92)?);
    Some(DiskSet { kind: SetKind::Md, id: uuid_at(block, 16)?, name, disks })
}

fn version_0(block: &[u8]) -> Option<DiskSet> {
    if (u32_at(block, 0)?, u32_at(block, 4)?, u32_at(block, 8)?) != (MAGIC, 0, 90) {
        return None;
    }
    let mut id = block.get(20..24)?.to_vec();
    id.extend_from_slice(block.get(52..64)?);
    let disks = u64::from(u32_at(block, 40)?);
    Some(DiskSet { kind: SetKind::Md, id: uuid_at(&id, 0)?, name: None, disks })
}
