// SPDX-License-Identifier: Apache-2.0
//! Sets of disks that only make sense together, told by what lies on one of them: LVM volume groups, btrfs and ZFS over
//! several disks, md arrays. Their disks belong into one group, since order holds inside a group only.
//!
//! Bytes of strangers: whatever is read, nothing here fails, and what does not fit the format is no sign of a set.

mod btrfs;
mod lvm;
mod md;
mod zfs;

use std::fmt;

/// What makes a set of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetKind {
    /// An LVM volume group.
    Lvm,
    /// A btrfs file system.
    Btrfs,
    /// An md array.
    Md,
    /// A ZFS pool.
    Zfs,
}

/// The set a disk belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSet {
    /// What makes it one.
    pub kind: SetKind,
    /// Tells it from every other of its kind.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// Its disks; at least so many in a ZFS pool.
    pub disks: u64,
}

impl fmt::Display for DiskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SetKind::Lvm => "the LVM volume group",
            SetKind::Btrfs => "the btrfs file system",
            SetKind::Md => "the md array",
            SetKind::Zfs => "the ZFS pool",
        })?;
        match &self.name {
            Some(name) => write!(f, " {name} ({})", self.id),
            None => write!(f, " {}", self.id),
        }
    }
}

/// Reads bytes of a disk at an offset; false where that cannot be.
pub type Reading<'a> = dyn FnMut(u64, &mut [u8]) -> bool + 'a;

/// The sets a disk of `size` bytes belongs to; most belong to none.
pub fn sets(size: u64, read: &mut Reading<'_>) -> Vec<DiskSet> {
    let mut disk = Disk { size, read };
    let found =
        [lvm::look(&mut disk), btrfs::look(&mut disk), md::look(&mut disk), zfs::look(&mut disk)];
    found.into_iter().flatten().collect()
}

/// Most letters of a name that are told.
const LONGEST_NAME: usize = 128;

/// A disk that is looked at.
struct Disk<'a, 'b> {
    size: u64,
    read: &'a mut Reading<'b>,
}

impl Disk<'_, '_> {
    /// So many bytes at an offset, where they are inside.
    fn bytes(&mut self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let inside = offset.checked_add(length as u64).is_some_and(|end| end <= self.size);
        let mut bytes = vec![0; if inside { length } else { 0 }];
        (inside && (self.read)(offset, &mut bytes)).then_some(bytes)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Sixteen bytes as hexadecimal digits.
fn uuid_at(bytes: &[u8], at: usize) -> Option<String> {
    let bytes = bytes.get(at..at.checked_add(16)?)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Some(parts.join("-"))
}

/// A name that ends with its first zero; none where it is empty.
fn name_in(bytes: &[u8]) -> Option<String> {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = clean(&String::from_utf8_lossy(name));
    (!name.is_empty()).then_some(name)
}

/// What can be shown of a text, and no more than a line holds.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests;
