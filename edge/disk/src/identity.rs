// SPDX-License-Identifier: Apache-2.0
//! Which bytes a member is, so that the same bytes are not used twice under two names.

use crate::surroundings::{LoopFile, loop_file};
use helio_units::{Bytes, Extent, SECTOR};
use rustix::fs::{FileType, Stat, major, minor, stat};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A device as the kernel numbers it; prints as `259:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl DeviceNumber {
    pub(crate) fn of(number: u64) -> Self {
        Self { major: major(number), minor: minor(number) }
    }

    /// Where the kernel tells about this block device.
    pub(crate) fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{self}"))
    }

    /// Whether the device is a partition of a disk.
    pub(crate) fn is_partition(self) -> bool {
        self.sysfs().join("partition").exists()
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What a member really is, whatever path led to it (links, device nodes with several names).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberIdentity {
    /// A regular file.
    File {
        /// The device its file system is on.
        device: DeviceNumber,
        /// Its number there.
        inode: u64,
    },
    /// A block device, as a run of bytes on a whole disk; a whole disk is all of itself.
    Device {
        /// The device itself.
        number: DeviceNumber,
        /// The whole disk it is on.
        disk: DeviceNumber,
        /// Which bytes of that disk.
        extent: Extent,
    },
}

impl MemberIdentity {
    /// The identity of what is at `path` now.
    ///
    /// # Errors
    /// Where the path leads nowhere, or to neither a file nor a block device (`InvalidInput`).
    pub fn of_path(path: &Path) -> io::Result<Self> {
        Self::of_stat(&stat(path)?).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    pub(crate) fn of_stat(facts: &Stat) -> Option<Self> {
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => {
                Some(Self::File { device: DeviceNumber::of(facts.st_dev), inode: facts.st_ino })
            }
            FileType::BlockDevice => Some(Self::of_device(DeviceNumber::of(facts.st_rdev))),
            _ => None,
        }
    }

    pub(crate) fn of_device(number: DeviceNumber) -> Self {
        let sysfs = number.sysfs();
        let sectors = |name: &str| {
            let text = fs::read_to_string(sysfs.join(name)).ok()?;
            text.trim().parse::<u64>().ok().map(|count| Bytes(count.saturating_mul(SECTOR)))
        };
        // Without sysfs (some containers) a device is taken for a disk of unknown size, all of itself.
        let length = sectors("size").unwrap_or(Bytes(u64::MAX)).0;
        let whole = Self::Device { number, disk: number, extent: Extent::new(0, length) };
        if !number.is_partition() {
            return whole;
        }
        match (sectors("start"), parse_number(&sysfs.join("../dev"))) {
            (Some(start), Some(disk)) => {
                Self::Device { number, disk, extent: Extent::new(start.0, length) }
            }
            _ => whole,
        }
    }

    /// Whether writing to one can change the other: the same file, the same device, a partition and the disk (or another,
    /// overlapping partition) around it, or two loop devices on the same bytes of a file. Reads sysfs.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { .. }, Self::File { .. }) => self == other,
            (
                Self::Device { number, disk, extent },
                Self::Device { number: other_number, disk: other_disk, extent: other_extent },
            ) if number == other_number || disk == other_disk => {
                number == other_number || extent.overlaps(*other_extent)
            }
            (
                Self::Device { disk, extent, .. },
                Self::Device { disk: other_disk, extent: other_extent, .. },
            ) => {
                let runs = run_of_file(*disk, *extent).zip(run_of_file(*other_disk, *other_extent));
                runs.is_some_and(|((file, run), (other_file, other_run))| {
                    file == other_file && run.overlaps(other_run)
                })
            }
            _ => false,
        }
    }
}

/// What these bytes of a loop device are in the file below it.
fn run_of_file(disk: DeviceNumber, extent: Extent) -> Option<(MemberIdentity, Extent)> {
    let LoopFile { path, offset } = loop_file(&disk.sysfs())?;
    let run = Extent::new(offset.saturating_add(extent.offset), extent.length);
    Some((MemberIdentity::of_path(&path).ok()?, run))
}

/// A device number as sysfs writes it.
fn parse_number(path: &Path) -> Option<DeviceNumber> {
    parse_device(fs::read_to_string(path).ok()?.trim())
}

/// `259:1`.
pub(crate) fn parse_device(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(minor: u32, start: Bytes, length: Bytes) -> MemberIdentity {
        MemberIdentity::Device {
            number: DeviceNumber { major: 8, minor },
            disk: DeviceNumber { major: 8, minor: 0 },
            extent: Extent::new(start.0, length.0),
        }
    }

    #[test]
    fn a_partition_overlaps_its_disk_but_not_its_neighbour() {
        let disk = device(0, Bytes::ZERO, Bytes::gib(10));
        let first = device(1, Bytes::mib(1), Bytes::gib(4));
        let second = device(2, Bytes::gib(5), Bytes::gib(4));
        assert!(disk.overlaps(&first) && second.overlaps(&disk) && first.overlaps(&first));
        assert!(!first.overlaps(&second));
    }

    #[test]
    fn a_file_is_itself_under_every_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, b"x").expect("a file");
        fs::hard_link(&one, &two).expect("a second name");
        let identity = |path: &Path| MemberIdentity::of_path(path).expect("an identity");
        assert!(identity(&one).overlaps(&identity(&two)));
        fs::remove_file(&two).expect("gone");
        fs::write(&two, b"y").expect("another file");
        assert!(!identity(&one).overlaps(&identity(&two)));
        assert!(MemberIdentity::of_path(folder.path()).is_err());
    }
}
