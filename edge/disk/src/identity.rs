// SPDX-License-Identifier: Apache-2.0
//! Which bytes a member is, so that the same bytes are not used twice under two names.

use crate::surroundings::{LoopFile, loop_file};
use helio_driver::{Facts, FileType, Host};
use helio_units::{Bytes, Extent, SECTOR};
use rustix::fs::{major, minor};
use std::fmt;
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
    pub(crate) fn is_partition(self, host: &Host) -> bool {
        host.exists(&self.sysfs().join("partition"))
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
        /// Where these bytes lie in the file below a loop device.
        below: Option<InFile>,
    },
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InFile {
    /// The device its file system is on.
    pub device: DeviceNumber,
    /// The number of the file there.
    pub inode: u64,
    /// The first byte.
    pub offset: u64,
}

impl MemberIdentity {
    /// The identity of what is at `path` now.
    ///
    /// # Errors
    /// Where the path leads nowhere, or to neither a file nor a block device (`InvalidInput`).
    pub fn of_path(host: &Host, path: &Path) -> io::Result<Self> {
        Self::of_facts(host, &host.facts(path, true)?)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    pub(crate) fn of_facts(host: &Host, facts: &Facts) -> Option<Self> {
        match facts.kind {
            FileType::RegularFile => {
                Some(Self::File { device: DeviceNumber::of(facts.device), inode: facts.inode })
            }
            FileType::BlockDevice => {
                Some(Self::of_device(host, DeviceNumber::of(facts.represents)))
            }
            _ => None,
        }
    }

    pub(crate) fn of_device(host: &Host, number: DeviceNumber) -> Self {
        let sysfs = number.sysfs();
        let sectors = |name: &str| {
            let text = host.read_text(&sysfs.join(name)).ok()?;
            text.trim().parse::<u64>().ok().map(|count| Bytes(count.saturating_mul(SECTOR)))
        };
        // Without sysfs (some containers) a device is taken for a disk of unknown size, all of itself.
        let length = sectors("size").unwrap_or(Bytes(u64::MAX)).0;
        let partition = || Some((sectors("start")?.0, parse_number(host, &sysfs.join("../dev"))?));
        let (start, disk) =
            number.is_partition(host).then(partition).flatten().unwrap_or((0, number));
        let below = in_file(host, disk, start);
        Self::Device { number, disk, extent: Extent::new(start, length), below }
    }

    /// Whether writing to one can change the other: the same file, the same device, a partition and the disk (or another,
    /// overlapping partition) around it, or two loop devices on the same bytes of a file.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { .. }, Self::File { .. }) => self == other,
            (
                Self::Device { number, disk, extent, below },
                Self::Device {
                    number: other_number,
                    disk: other_disk,
                    extent: other_extent,
                    below: other_below,
                },
            ) => {
                let in_one_file = || {
                    below.zip(*other_below).is_some_and(|(one, other)| {
                        let run = |at: InFile, length| Extent::new(at.offset, length);
                        (one.device, one.inode) == (other.device, other.inode)
                            && run(one, extent.length).overlaps(run(other, other_extent.length))
                    })
                };
                number == other_number
                    || (disk == other_disk && extent.overlaps(*other_extent))
                    || (disk != other_disk && in_one_file())
            }
            _ => false,
        }
    }
}

/// Where a byte of a disk lies in the file below it, if the disk is a loop device.
fn in_file(host: &Host, disk: DeviceNumber, byte: u64) -> Option<InFile> {
    let LoopFile { path, offset } = loop_file(host, &disk.sysfs())?;
    match MemberIdentity::of_path(host, &path).ok()? {
        MemberIdentity::File { device, inode } => {
            Some(InFile { device, inode, offset: offset.saturating_add(byte) })
        }
        MemberIdentity::Device { .. } => None,
    }
}

/// A device number as sysfs writes it.
fn parse_number(host: &Host, path: &Path) -> Option<DeviceNumber> {
    parse_device(host.read_text(path).ok()?.trim())
}

/// `259:1`.
pub(crate) fn parse_device(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;

    fn device(minor: u32, start: Bytes, length: Bytes) -> MemberIdentity {
        MemberIdentity::Device {
            number: DeviceNumber { major: 8, minor },
            disk: DeviceNumber { major: 8, minor: 0 },
            extent: Extent::new(start.0, length.0),
            below: None,
        }
    }

    #[test]
    fn loop_devices_overlap_where_their_bytes_of_one_file_do() {
        let on = |minor: u32, inode: u64, offset: Bytes| MemberIdentity::Device {
            number: DeviceNumber { major: 7, minor },
            disk: DeviceNumber { major: 7, minor },
            extent: Extent::new(0, 1 << 20),
            below: Some(InFile {
                device: DeviceNumber { major: 8, minor: 1 },
                inode,
                offset: offset.0,
            }),
        };
        let first = on(0, 12, Bytes::ZERO);
        assert!(first.overlaps(&on(1, 12, Bytes::kib(1023))));
        assert!(!first.overlaps(&on(1, 12, Bytes::mib(1))));
        assert!(!first.overlaps(&on(1, 13, Bytes::ZERO)), "another file");
        assert!(!first.overlaps(&device(0, Bytes::ZERO, Bytes::gib(10))));
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
        let host = Linux::host();
        let identity = |path: &Path| MemberIdentity::of_path(&host, path).expect("an identity");
        assert!(identity(&one).overlaps(&identity(&two)));
        fs::remove_file(&two).expect("gone");
        fs::write(&two, b"y").expect("another file");
        assert!(!identity(&one).overlaps(&identity(&two)));
        assert!(MemberIdentity::of_path(&host, folder.path()).is_err());
    }
}
