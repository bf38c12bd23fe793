// SPDX-License-Identifier: Apache-2.0
//! Mounting the file: a FUSE file system whose root is a regular file, over a regular file.

use crate::{AttachError, Channel};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What such mounts are called in /proc/self/mountinfo.
const KIND: &str = "fuse.helio";

/// A mounted file.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts at `path`, whose folder must be there; `name` is shown as what is mounted. Nothing is answered before
    /// the channel is read, so nobody should look at the path before.
    ///
    /// # Errors
    /// FUSE is not to be had, or the place is not.
    pub fn new(path: &Path, name: &str) -> Result<(Self, Channel), AttachError> {
        let mut place = fs::File::options();
        place.write(true).create(true).truncate(false).mode(0o600);
        drop(place.open(path).map_err(AttachError::at(path))?);
        let opened = Channel::open().map_err(|error| no_fuse("/dev/fuse", error));
        let mounted = opened.and_then(|(channel, file)| {
            let options = format!(
                "fd={},rootmode={:o},user_id=0,group_id=0,default_permissions,max_read={}",
                file.as_raw_fd(),
                libc::S_IFREG,
                crate::MAX_WRITE
            );
            let options =
                CString::new(options).map_err(|error| no_fuse("options", error.into()))?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
            mount(name, path, KIND, flags, &*options)
                .map_err(|error| no_fuse("mount", error.into()))?;
            Ok(channel)
        });
        match mounted {
            Ok(channel) => Ok((Self { path: path.to_owned() }, channel)),
            Err(error) => {
                // Only the empty file that was to be mounted over; the error is what matters.
                let _left = fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// One that a kernel other than this one made.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it away. Who has the file open keeps it where `lazily`, and is in the way otherwise.
    ///
    /// # Errors
    /// Somebody has it open, or the kernel refuses.
    pub fn remove(self, lazily: bool) -> Result<(), (Self, io::Error)> {
        let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        match unmount(&self.path, flags) {
            Ok(()) => {
                // It is empty, and of no more use.
                let _gone = fs::remove_file(&self.path);
                Ok(())
            }
            Err(errno) => Err((self, errno.into())),
        }
    }

    /// Mounts of ours below a folder, which their daemon may have left behind when it died.
    ///
    /// # Errors
    /// The list of mounts cannot be read.
    pub fn below(folder: &Path) -> io::Result<Vec<Self>> {
        let table = fs::read("/proc/self/mountinfo")?;
        let table = String::from_utf8_lossy(&table);
        let ours = table.lines().filter_map(Line::read).filter(|line| line.kind == KIND);
        let places = ours.map(|line| line.place).filter(|place| place.starts_with(folder));
        Ok(places.map(|path| Self { path }).collect())
    }
}

fn no_fuse(culprit: &str, error: io::Error) -> AttachError {
    AttachError::NoFuse { culprit: culprit.to_owned(), error }
}

/// What matters of one line of mountinfo.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Major and minor number, as `7:0`.
    pub(crate) device: &'a str,
    pub(crate) place: PathBuf,
    pub(crate) kind: &'a str,
    pub(crate) source: PathBuf,
}

impl<'a> Line<'a> {
    pub(crate) fn read(line: &'a str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(2);
        let device = front.next()?;
        let place = plain(front.nth(1)?);
        let mut back = back.split(' ');
        let (kind, source) = (back.next()?, plain(back.next()?));
        Some(Self { device, place, kind, source })
    }
}

/// Spaces and their kin are written as a backslash and three octal digits.
fn plain(escaped: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_mount_table_is_read_with_its_blanks() {
        let line =
            r"98 28 7:3 / /mnt/my\040disk rw,relatime shared:1 master:2 - ext4 /dev/loop3 rw";
        let read = Line::read(line).expect("a line");
        assert_eq!((read.device, read.kind), ("7:3", "ext4"));
        assert_eq!(read.place, Path::new("/mnt/my disk"));
        assert_eq!(read.source, Path::new("/dev/loop3"));
        assert_eq!(Line::read("nonsense"), None);
    }
}
