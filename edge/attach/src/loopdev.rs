// SPDX-License-Identifier: Apache-2.0
//! Loop devices: direct I/O always.
#![allow(unsafe_code)]

use crate::AttachError;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/loop-control";
const GET_FREE: libc::Ioctl = 0x4C82_u32 as libc::Ioctl;
const CONFIGURE: libc::Ioctl = 0x4C0A_u32 as libc::Ioctl;
const CLEAR: libc::Ioctl = 0x4C01_u32 as libc::Ioctl;
const GET_STATUS: libc::Ioctl = 0x4C05_u32 as libc::Ioctl;

const READ_ONLY: u32 = 1;
const DIRECT_IO: u32 = 16;

/// What the kernel calls `loop_info64`: the file's device and inode at 0 and 8, flags at 52, its name in 64 bytes from 56 on.
const INFO_BYTES: usize = 232;
const INFO_DEVICE: usize = 0;
const INFO_INODE: usize = 8;
const INFO_FLAGS: usize = 52;
const INFO_NAME: usize = 56;
const NAME_BYTES: usize = 64;
/// `loop_config`: descriptor u32, block size u32, the above, 64 bytes of nothing.
const CONFIG_BYTES: usize = 8 + INFO_BYTES + 64;
/// What the kernel calls a loop device's file whose mount is gone.
pub(crate) const HIDDEN: &str = "/";
/// Others look for a free one at the same time.
const TRIES: u32 = 64;

/// A loop device on a file. Nobody here keeps it open: the kernel writes what is cached of a device when its last user
/// closes it, and where that is the dying process that would have to answer, it would wait for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    path: PathBuf,
    backing: PathBuf,
    /// The device and inode of the file. They stay while the kernel names the file otherwise, as it does once it is unmounted.
    identity: Option<[u64; 2]>,
}

impl LoopDevice {
    /// Makes one on the file at `backing`. Direct I/O is not a wish: without it what writes to the device would wait for
    /// memory that only its own writes can free.
    ///
    /// # Errors
    /// There are no loop devices here, or the kernel refuses.
    pub fn on(backing: &Path, block: u32, read_only: bool) -> Result<Self, AttachError> {
        let mut options = File::options();
        options.read(true).write(!read_only);
        let file = options.open(backing).map_err(AttachError::at(backing))?;
        let control = Path::new(CONTROL);
        let desk = File::options().read(true).write(true).open(control);
        let desk = desk.map_err(no_loop(control))?;
        for _ in 0..TRIES {
            let number = call(&desk, GET_FREE, 0).map_err(no_loop(control))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = options.open(&path).map_err(no_loop(&path))?;
            let config = config(file.as_raw_fd(), backing, block, read_only);
            match call(&device, CONFIGURE, config.as_ptr() as usize) {
                Ok(_) => {
                    return Self::at(path, backing).checked(&device);
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(AttachError::Io { path, error }),
            }
        }
        let error = io::Error::other("every free loop device was taken by another program");
        Err(AttachError::Io { path: control.to_owned(), error })
    }

    /// One that was made on a file, by another process or by a kernel other than this one.
    #[must_use]
    pub fn at(path: PathBuf, backing: &Path) -> Self {
        Self { path, backing: backing.to_owned(), identity: None }
    }

    /// One whose file was unmounted while it was in use.
    #[must_use]
    pub fn hidden(path: PathBuf) -> Self {
        Self::at(path, Path::new(HIDDEN))
    }

    /// The same, on the file with that device and inode.
    pub(crate) fn with_identity(self, identity: Option<[u64; 2]>) -> Self {
        Self { identity, ..self }
    }

    /// The device and inode of its file, if they are known.
    pub(crate) const fn identity(&self) -> Option<[u64; 2]> {
        self.identity
    }

    /// Those on files below a folder, which their daemon may have left behind when it died. A file whose mount is gone counts if the
    /// path of the folder has at most 61 bytes.
    #[must_use]
    pub fn below(folder: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let paths = entries.map(|entry| Path::new("/dev").join(entry.file_name()));
        let found = paths.filter_map(|path| {
            let backing = backing_file(&path)?;
            // Once its mount is gone, a file is known by what its loop device was told of it.
            let hidden = backing == Path::new(HIDDEN);
            let file = if hidden { told_of(&path).ok()? } else { backing.clone() };
            is_below(&file, folder).then(|| Self::at(path, &backing))
        });
        found.collect()
    }

    fn checked(self, device: &File) -> Result<Self, AttachError> {
        let info = info(device).map_err(AttachError::at(&self.path))?;
        let flags = info[INFO_FLAGS..].first_chunk().map_or(0, |b| u32::from_ne_bytes(*b));
        if flags & DIRECT_IO == 0 {
            let _the_error_matters = call(device, CLEAR, 0);
            let error = io::Error::other("the kernel does not do direct I/O on this file");
            return Err(AttachError::Io { path: self.path, error });
        }
        Ok(self.with_identity(Some(file_of(&info))))
    }

    /// Its node.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that it was made on.
    #[must_use]
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// Whether it is still on its file.
    pub(crate) fn is_there(&self) -> bool {
        backing_file(&self.path).is_some_and(|file| file == self.backing)
    }

    /// Gives it free as soon as nobody has it open, whatever it is used for.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        if backing_file(&self.path).is_none() {
            return Ok(());
        }
        let device = File::options().read(true).open(&self.path)?;
        // Its number may be another program's by now.
        let same = || {
            self.identity.is_some() && info(&device).ok().map(|it| file_of(&it)) == self.identity
        };
        if self.is_there() || same() { clear(&device) } else { Ok(()) }
    }
}

/// What the kernel says of a loop device.
fn info(device: &File) -> io::Result<[u8; INFO_BYTES]> {
    let mut info = [0u8; INFO_BYTES];
    call(device, GET_STATUS, info.as_mut_ptr() as usize)?;
    Ok(info)
}

/// Whether a path, which may be cut off, lies below a folder. The folder itself does not: the rest of its name may be what was cut off.
fn is_below(path: &Path, folder: &Path) -> bool {
    path.strip_prefix(folder).is_ok_and(|rest| !rest.as_os_str().is_empty())
}

/// The file that a loop device was made on, as far as there was room for its path.
fn told_of(path: &Path) -> io::Result<PathBuf> {
    let device = File::options().read(true).open(path)?;
    Ok(name_of(&info(&device)?))
}

fn name_of(info: &[u8; INFO_BYTES]) -> PathBuf {
    let name = &info[INFO_NAME..INFO_NAME + NAME_BYTES];
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    PathBuf::from(OsStr::from_bytes(&name[..length]))
}

/// The device and inode of the file of a loop device.
fn file_of(info: &[u8; INFO_BYTES]) -> [u64; 2] {
    [INFO_DEVICE, INFO_INODE]
        .map(|at| info[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}

/// Gives a loop device free that nobody else has open; who has keeps it until he closes it.
pub(crate) fn clear(device: &File) -> io::Result<()> {
    call(device, CLEAR, 0).map(drop)
}

/// The file behind a loop device, as the kernel names it now; none where the device is free.
#[must_use]
pub fn backing_file(device: &Path) -> Option<PathBuf> {
    let name = device.file_name()?;
    let entry = Path::new("/sys/block").join(name).join("loop/backing_file");
    let text = std::fs::read_to_string(entry).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

fn no_loop(culprit: &Path) -> impl FnOnce(io::Error) -> AttachError {
    let culprit = culprit.display().to_string();
    move |error| AttachError::NoLoop { culprit, error }
}

fn config(backing: RawFd, name: &Path, block: u32, read_only: bool) -> [u8; CONFIG_BYTES] {
    let mut config = [0; CONFIG_BYTES];
    config[..4].copy_from_slice(&backing.to_ne_bytes());
    config[4..8].copy_from_slice(&block.to_ne_bytes());
    let flags = DIRECT_IO | if read_only { READ_ONLY } else { 0 };
    config[8 + INFO_FLAGS..][..4].copy_from_slice(&flags.to_ne_bytes());
    // The name stays when the file is unmounted; one byte of zero must stay behind it.
    let bytes = name.as_os_str().as_bytes();
    let length = bytes.len().min(NAME_BYTES - 1);
    config[8 + INFO_NAME..][..length].copy_from_slice(&bytes[..length]);
    config
}

/// One ioctl, whose argument is nothing or the address of as many bytes as the request takes.
fn call(on: &File, request: libc::Ioctl, argument: usize) -> io::Result<u32> {
    // SAFETY: the four requests of this file read or write at most what their callers' arrays hold.
    let result = unsafe { libc::ioctl(on.as_raw_fd(), request, argument) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_loop_device_is_known_by_its_numbers() {
        let mut info = [0; INFO_BYTES];
        info[..8].copy_from_slice(&45_u64.to_ne_bytes());
        info[8..16].copy_from_slice(&1_u64.to_ne_bytes());
        assert_eq!(file_of(&info), [45, 1]);
    }

    #[test]
    fn a_path_that_was_cut_off_inside_the_name_of_a_folder_is_not_below_that() {
        let folder = Path::new("/state/attach");
        for (path, below) in [
            ("/state/attach/db/data", true),
            ("/state/attach/d", true),
            ("/state/attach/", false),
            ("/state/attach", false),
            ("/state/attached/db/data", false),
            ("/", false),
        ] {
            assert_eq!(is_below(Path::new(path), folder), below, "{path}");
        }
    }

    #[test]
    fn a_configuration_lies_where_the_kernel_looks_for_it() {
        let name = "x".repeat(100);
        let config = config(9, Path::new(&name), 4096, true);
        assert_eq!(config.len(), 304);
        assert_eq!(
            (&config[..4], &config[4..8]),
            (&9u32.to_ne_bytes()[..], &4096u32.to_ne_bytes()[..])
        );
        assert_eq!(config[60..64], (READ_ONLY | DIRECT_IO).to_ne_bytes());
        assert_eq!((config[64 + 62], config[64 + 63]), (b'x', 0), "the name ends within its place");
        let info = config[8..].first_chunk().expect("it lies in the configuration");
        assert_eq!(name_of(info), Path::new(&name[..63]));
    }
}
