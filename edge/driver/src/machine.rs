// SPDX-License-Identifier: Apache-2.0
//! What a daemon asks of its machine apart from the operations of a driver: files by name, sockets, clocks, chance, and work beside
//! the shard. [`crate::Linux`] is the machine of a product; the simulator is another one.

use crate::{Address, File, Socket};
use helio_units::Bytes;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A machine, shared by whatever runs on it.
pub type Host = Arc<dyn Machine>;

/// Work that may block.
pub type Blocking = Box<dyn FnOnce() + Send>;

/// What is at a path, or what a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// File, folder, block device or something else.
    pub kind: FileType,
    /// Length of a file.
    pub length: Bytes,
    /// Room that it has on its file system.
    pub held: Bytes,
    /// The number of the device that its file system is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// The number of the device that it is, if it is one.
    pub represents: u64,
    /// Its permissions.
    pub mode: Mode,
    /// The number of its owner.
    pub owner: u32,
    /// When its content changed last, since 1970.
    pub modified: Duration,
    /// When it was created: seconds since 1970, and nanoseconds. None if the file system does not record it.
    pub born: Option<(i64, u32)>,
}

/// Room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// For processes without privileges.
    pub free: Bytes,
    /// In all.
    pub size: Bytes,
}

/// The machine under a daemon.
pub trait Machine: fmt::Debug + Send + Sync {
    /// Time since the machine was started; it counts while the machine sleeps, too.
    fn since_boot(&self) -> Duration;

    /// What the calendar shows, since 1970.
    fn calendar(&self) -> Duration;

    /// How much memory this process may have: the least of what the machine has and what limits it.
    fn memory(&self) -> Bytes;

    /// How many descriptors this process may have open: now, and at most. None is no limit.
    fn descriptor_limits(&self) -> [Option<u64>; 2];

    /// Changes how many it may have open now.
    ///
    /// # Errors
    /// As of `setrlimit`.
    fn limit_descriptors(&self, most: u64) -> Result<(), Errno>;

    /// Fills a buffer with random bytes.
    ///
    /// # Errors
    /// The source of random bytes cannot be read.
    fn random(&self, into: &mut [u8]) -> io::Result<()>;

    /// Opens a file, or creates it with these permissions.
    ///
    /// # Errors
    /// As of `open`.
    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<File, Errno>;

    /// What is at a path. A symbolic link is followed, or described itself.
    ///
    /// # Errors
    /// As of `stat` and `lstat`.
    fn facts(&self, path: &Path, follow: bool) -> Result<Facts, Errno>;

    /// Room of the file system that a path is on.
    ///
    /// # Errors
    /// As of `statvfs`.
    fn room(&self, path: &Path) -> Result<Room, Errno>;

    /// Whether this process may create files in a folder.
    ///
    /// # Errors
    /// As of `access`.
    fn may_create_in(&self, folder: &Path) -> Result<(), Errno>;

    /// Names of what is in a folder, in no order.
    ///
    /// # Errors
    /// As of `opendir` and `readdir`.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Creates a folder. Its parent must exist.
    ///
    /// # Errors
    /// As of `mkdir`.
    fn make_folder(&self, path: &Path, mode: Mode) -> Result<(), Errno>;

    /// Renames; what has the new name is replaced.
    ///
    /// # Errors
    /// As of `rename`.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Errno>;

    /// Removes a file.
    ///
    /// # Errors
    /// As of `unlink`.
    fn remove(&self, path: &Path) -> Result<(), Errno>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// As of `rmdir`.
    fn remove_folder(&self, path: &Path) -> Result<(), Errno>;

    /// Removes a folder and everything in it. Symbolic links in it are removed, not followed.
    ///
    /// # Errors
    /// One of the names in it cannot be removed.
    fn remove_tree(&self, folder: &Path) -> io::Result<()>;

    /// The path without symbolic links.
    ///
    /// # Errors
    /// Nothing is there.
    fn real_path(&self, path: &Path) -> io::Result<PathBuf>;

    /// A fresh socket of the kind `address` needs, to be connected by [`crate::Op::Connect`].
    ///
    /// # Errors
    /// As of `socket`.
    fn stream_for(&self, address: &Address) -> io::Result<Socket>;

    /// A socket listening at `address`, with room for `backlog` connections not yet accepted. A TCP address
    /// may be taken over from connections that linger after a restart. A Unix path must not exist, and is made such
    /// that only its owner can connect.
    ///
    /// # Errors
    /// As of `bind` and `listen`.
    fn listen(&self, address: &Address, backlog: u16) -> io::Result<Socket>;

    /// Takes work that may block, and does it at a time of its own. A machine that has threads returns the work: its caller starts one.
    fn take_work(&self, name: &str, work: Blocking) -> Option<Blocking>;

    /// Does the same on several threads at once, and returns when all have done it.
    fn together(&self, threads: usize, work: &(dyn Fn() + Sync));

    /// Keeps the calling thread waiting for about so long.
    fn pause(&self, span: Duration);
}

impl dyn Machine {
    /// All bytes of a file.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.open(path, OFlags::RDONLY, Mode::empty())?.read_all()
    }

    /// All of a file as text.
    ///
    /// # Errors
    /// It cannot be opened or read, or it is no text (`InvalidData`).
    pub fn read_text(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(self.read(path)?)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
    }

    /// Whether something is at a path. True if the file system does not say: opening it then returns the error.
    #[must_use]
    pub fn exists(&self, path: &Path) -> bool {
        !is_missing(self.facts(path, true))
    }

    /// The same, of a symbolic link itself.
    #[must_use]
    pub fn is_named(&self, path: &Path) -> bool {
        !is_missing(self.facts(path, false))
    }

    /// The first path of a series at which nothing is.
    ///
    /// # Errors
    /// It cannot be told of one of them.
    pub fn first_free(&self, named: impl Fn(u32) -> PathBuf) -> Result<PathBuf, Errno> {
        for path in (1..=u32::MAX).map(named) {
            match self.facts(&path, false) {
                Ok(_) => {}
                Err(Errno::NOENT) => return Ok(path),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// Creates a folder and those above it that are missing.
    ///
    /// # Errors
    /// One of them cannot be created.
    pub fn make_folders(&self, path: &Path, mode: Mode) -> Result<(), Errno> {
        let make = || match self.make_folder(path, mode) {
            Err(_) if self.is_folder(path) => Ok(()),
            result => result,
        };
        let made = make();
        if made != Err(Errno::NOENT) {
            return made;
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        self.make_folders(above.ok_or(Errno::NOENT)?, mode)?;
        make()
    }

    /// Whether a folder is there.
    #[must_use]
    pub fn is_folder(&self, path: &Path) -> bool {
        self.facts(path, true).is_ok_and(|facts| facts.kind == FileType::Directory)
    }

    /// Makes the names in a folder durable. An empty path is the current folder.
    ///
    /// # Errors
    /// It cannot be opened or flushed.
    pub fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        self.open(folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?.sync_all()
    }

    /// A random value of so many bytes.
    ///
    /// # Errors
    /// As of [`Machine::random`].
    pub fn random_bytes<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.random(&mut bytes)?;
        Ok(bytes)
    }
}

const fn is_missing(found: Result<Facts, Errno>) -> bool {
    matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
}
