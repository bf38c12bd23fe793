// SPDX-License-Identifier: Apache-2.0
//! btrfs: the superblock at 64 KiB.
//!
//! | bytes | what |
//! |---|---|
//! | 32..48 | the file system's id |
//! | 64..72 | `_BHRfS_M` |
//! | 136..144 | how many devices |
//! | 299..555 | its label |

use super::{Disk, DiskSet, SetKind, name_in, u64_at, uuid_at};

const AT: u64 = 64 << 10;

pub(super) fn look(disk: &mut Disk<'_, '_>) -> Option<DiskSet> {
    let block = disk.bytes(AT, 4096)?;
    if block.get(64..72)? != b"_BHRfS_M" {
        return None;
    }
    let name = name_in(block.get(299..555)?);
    Some(DiskSet {
        kind: SetKind::Btrfs,
        id: uuid_at(&block, 32)?,
        name,
        disks: u64_at(&block, 136)?,
    })
}
