// SPDX-License-Identifier: Apache-2.0
//! Which disk a member is, whatever its path and whatever lies on it: so that another one in its place is noticed.
//!
//! A block device has what its maker, or who built it, gave it. A file gets a random name, kept with it in the extended
//! attribute `user.heliograph`: a copy made without attributes (`cp`) is another file, one made with them (`cp -a`) is
//! not. Where the file system keeps no such attributes, its inode and when that was made tell it; the number of the
//! device does not, for that may change with every start of the machine.
//!
//! Beside its name a file can have a stamp, bytes that tell when it was last one of several members: an attribute of its own,
//! so that a copy made with attributes has an old one.

use crate::identity::DeviceNumber;
use crate::surroundings::{LoopFile, loop_file};
use rustix::fs::{
    AtFlags, Stat, StatxFlags, XattrFlags, fgetxattr, fsetxattr, fsync, getxattr, removexattr,
    statx,
};
use rustix::io::Errno;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Where a file's name is kept.
const ATTRIBUTE: &str = "user.heliograph";
/// Where its stamp is.
pub(crate) const STAMP: &str = "user.heliograph.set";
/// The longest stamp that is read.
const STAMP_BYTES: usize = 64;
/// A name's random bytes.
const NAME_BYTES: usize = 16;

/// What tells a file from every other one.
pub(crate) fn of_file(fd: &OwnedFd) -> Option<String> {
    attribute(fd).or_else(|| inode(fd, "").map(|(name, _)| name))
}

fn attribute(fd: &OwnedFd) -> Option<String> {
    let mut name = [0; NAME_BYTES];
    match fgetxattr(fd, ATTRIBUTE, &mut name) {
        Ok(NAME_BYTES) => return Some(shown(&name)),
        // Nobody of ours wrote that, or there is nothing.
        Ok(_) | Err(Errno::NODATA | Errno::RANGE) => {}
        Err(_) => return None,
    }
    fs::File::open("/dev/urandom").ok()?.read_exact(&mut name).ok()?;
    fsetxattr(fd, ATTRIBUTE, &name, XattrFlags::empty()).ok()?;
    // What is recorded of it elsewhere must not outlive it.
    fsync(fd).ok()?;
    Some(shown(&name))
}

/// The stamp of a file, where it has one; what is too long is none of ours.
pub(crate) fn stamp_of(fd: &OwnedFd) -> Option<Vec<u8>> {
    let mut stamp = [0; STAMP_BYTES];
    fgetxattr(fd, STAMP, &mut stamp).ok().map(|length| stamp[..length].to_vec())
}

/// Gives a file a stamp, durably.
pub(crate) fn set_stamp(fd: impl AsFd, stamp: &[u8]) -> Result<(), Errno> {
    fsetxattr(&fd, STAMP, stamp, XattrFlags::empty())?;
    fsync(fd)
}

/// Whether a file has a name of ours; a device never does.
#[must_use]
pub fn is_named(path: &Path) -> bool {
    let mut name = [0; NAME_BYTES];
    matches!(getxattr(path, ATTRIBUTE, &mut name), Ok(NAME_BYTES))
}

/// Takes the name of ours off a file, where it has one, and its stamp.
///
/// # Errors
/// It is there and cannot be removed.
pub fn forget_name(path: &Path) -> std::io::Result<()> {
    if !is_named(path) {
        return Ok(());
    }
    match removexattr(path, STAMP) {
        Ok(()) | Err(Errno::NODATA) => Ok(removexattr(path, ATTRIBUTE)?),
        Err(errno) => Err(errno.into()),
    }
}

fn shown(name: &[u8]) -> String {
    let digits: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("file {digits}")
}

/// The inode of a file and when it was made, and whether the file system knows the latter.
fn inode(fd: impl AsFd, path: &str) -> Option<(String, bool)> {
    let flags = if path.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
    let facts = statx(fd, path, flags, StatxFlags::INO | StatxFlags::BTIME).ok()?;
    let is_born = facts.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = facts.stx_btime;
    let name = format!("inode {} made at {}.{:09}", facts.stx_ino, born.tv_sec, born.tv_nsec);
    Some((name, is_born))
}

/// What tells a block device from every other one, where the kernel knows anything that lasts.
pub(crate) fn of_device(facts: &Stat) -> Option<String> {
    let number = DeviceNumber::of(facts.st_rdev);
    let sysfs = number.sysfs();
    if number.is_partition() {
        let start = told(&sysfs, "start")?;
        let disk = of_disk(&fs::canonicalize(&sysfs).ok()?.join(".."))?;
        return Some(format!("{disk}, partition at sector {start}"));
    }
    of_disk(&sysfs)
}

fn of_disk(sysfs: &Path) -> Option<String> {
    let sources = ["dm/uuid", "md/uuid", "wwid", "device/wwid", "nguid", "serial", "device/serial"];
    let known = sources.iter().find_map(|source| Some((source, told(sysfs, source)?)));
    if let Some((source, identity)) = known {
        return Some(format!("{} {identity}", source.replace('/', " ")));
    }
    of_loop(loop_file(sysfs)?)
}

/// The file below a loop device, and from which byte on. Inodes of two file systems can be equal, so where nothing says when the file was
/// made, its path is part of it.
fn of_loop(LoopFile { path, offset }: LoopFile) -> Option<String> {
    let path = path.to_str()?;
    let (name, is_born) = inode(rustix::fs::CWD, path)?;
    let place = if is_born { String::new() } else { format!(" at {path}") };
    let from = if offset == 0 { String::new() } else { format!(", from byte {offset}") };
    Some(format!("loop on {name}{place}{from}"))
}

fn told(sysfs: &Path, source: &str) -> Option<String> {
    let text = fs::read_to_string(sysfs.join(source)).ok()?;
    let text = text.trim().trim_matches('\0');
    let says_something = text.bytes().any(|byte| byte.is_ascii_alphanumeric() && byte != b'0');
    says_something.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};

    #[test]
    fn a_file_keeps_its_name_and_a_copy_of_its_bytes_has_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, b"bytes").expect("a file");
        let name = |path: &Path| {
            let fd = open(path, OFlags::RDWR, Mode::empty()).expect("it opens");
            of_file(&fd).expect("it has a name")
        };
        let first = name(&one);
        assert_eq!(name(&one), first);
        fs::write(&two, b"bytes").expect("a copy");
        assert_ne!(name(&two), first);
        fs::rename(&two, &one).expect("the copy takes its place");
        assert_ne!(name(&one), first);
        let fd = open(&one, OFlags::RDWR, Mode::empty()).expect("it opens");
        assert_eq!(stamp_of(&fd), None);
        set_stamp(&fd, &[7; 28]).expect("it has a name, so it can have a stamp");
        assert_eq!(stamp_of(&fd), Some(vec![7; 28]));
        forget_name(&one).expect("its owner may");
        assert!(!is_named(&one) && stamp_of(&fd).is_none());
    }
}
