// SPDX-License-Identifier: Apache-2.0
//! Why a member cannot be used, and what the operator can do about it.

use helio_driver::Errno;
use helio_units::Bytes;
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A member that was not opened. Prints as what is wrong, and a hint on a line of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// What the store was to be, in the words of the configuration (`member of db/data`).
    pub role: String,
    /// Where it was looked for.
    pub path: PathBuf,
    /// What is wrong.
    pub refusal: Refusal,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(
            f,
            "{} {path}: {}\n  hint: {}",
            self.role,
            self.refusal,
            self.refusal.hint(&self.path)
        )
    }
}

impl std::error::Error for OpenError {}

/// What is wrong with a member.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing is there.
    #[error("it does not exist")]
    Missing {
        /// How large it should be.
        size: Bytes,
    },
    /// Nothing is there, where the system keeps its devices.
    #[error("this device does not exist")]
    NoDevice,
    /// It is neither a regular file nor a block device.
    #[error("it is a {found}, not a file or a block device")]
    WrongKind {
        /// What it is.
        found: &'static str,
    },
    /// It is smaller than the volume.
    #[error("it has {found}, the volume is configured with {configured}")]
    TooSmall {
        /// Its size.
        found: Bytes,
        /// The volume's.
        configured: Bytes,
    },
    /// It is a file larger than the volume. (A larger block device is used in part.)
    #[error("the file has {found}, the volume is configured with {configured}")]
    TooLarge {
        /// Its size.
        found: Bytes,
        /// The volume's.
        configured: Bytes,
    },
    /// The volume's size is zero or not a whole number of the store's blocks.
    #[error("a volume of {size} is not a whole number of blocks of {block}")]
    UnevenSize {
        /// The volume's size.
        size: Bytes,
        /// The store's block.
        block: Bytes,
    },
    /// Its blocks are larger than any that are supported.
    #[error("its blocks are of {block}, and the largest supported are of {most}")]
    LargeBlocks {
        /// The store's block.
        block: Bytes,
        /// The largest supported.
        most: Bytes,
    },
    /// It, or the file system it is on, cannot be written.
    #[error("it is read-only")]
    ReadOnly,
    /// This user may not write it.
    #[error("permission denied")]
    Denied,
    /// It, a partition on it or the disk around it is mounted.
    #[error("it is mounted at {}", at.display())]
    Mounted {
        /// Where.
        at: PathBuf,
    },
    /// The file is what a loop device shows.
    #[error("it is the backing file of {}", device.display())]
    BacksLoop {
        /// Which.
        device: PathBuf,
    },
    /// Something else on this machine has claimed the device.
    #[error("it is in use{}", by(holders))]
    InUse {
        /// Devices built on it, where there are any.
        holders: Vec<String>,
    },
    /// Another daemon (or this one, under another name) has locked it.
    #[error("another program holds the lock on it, most likely another helio daemon")]
    Held,
    /// Another process has the file open for writing.
    #[error("{who} has it open for writing")]
    Written {
        /// Its name and number.
        who: String,
    },
    /// The file system cannot do direct I/O.
    #[error("its file system refuses direct I/O")]
    NoDirectIo,
    /// There is no room to allocate the file.
    #[error("there is not enough space to allocate {size}")]
    NoSpace {
        /// The volume's size.
        size: Bytes,
    },
    /// Its file system, most likely on another host, does not respond.
    #[error("{step}: its file system does not respond")]
    NoAnswer {
        /// What was asked.
        step: &'static str,
    },
    /// The kernel says something else.
    #[error("{step}: {errno}")]
    Kernel {
        /// What was tried.
        step: &'static str,
        /// What came of it.
        errno: Errno,
    },
}

impl Refusal {
    /// What the operator can do, as a sentence.
    #[must_use]
    pub fn hint(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Missing { size } => format!(
                "create it with `fallocate -l {0} {path}` (or `truncate -s {0} {path}` and `sparse = true`)",
                size.0
            ),
            Self::NoDevice => "attach or activate the device, or correct the path".into(),
            Self::WrongKind { .. } => "name a regular file or a block device".into(),
            Self::TooSmall { configured, .. } => {
                format!("enlarge it to {} bytes, or configure a smaller volume", configured.0)
            }
            Self::TooLarge { found, .. } => format!(
                "configure the volume with {} bytes, or name another file: this one may hold something else",
                found.0
            ),
            Self::UnevenSize { block, .. } => {
                format!("configure a size that is a multiple of {} bytes", block.0)
            }
            Self::LargeBlocks { most, .. } => {
                format!(
                    "name a file or device with blocks of {most} or less; for a file, `io = \"buffered\"` is sufficient"
                )
            }
            Self::ReadOnly => {
                "make it writable (`blockdev --setrw`, or mount its file system read-write)".into()
            }
            Self::Denied => {
                "run the daemon as a user that may write it, or change its owner".into()
            }
            Self::Mounted { at } => {
                format!("unmount it first: `umount {}`", at.display())
            }
            Self::BacksLoop { device } => format!(
                "detach it first: `losetup -d {0}`; or name {0} as the member",
                device.display()
            ),
            Self::InUse { .. } => {
                "stop what uses it (see `lsblk` and `swapon --show`), or name another device".into()
            }
            Self::Held => {
                "stop the other program, or name another file or device: each member needs its own"
                    .into()
            }
            Self::Written { .. } => {
                "stop that process, or name another file or device: two writers destroy the data"
                    .into()
            }
            Self::NoDirectIo => "set `io = \"buffered\"` for it, or move it".into(),
            Self::NoSpace { .. } => {
                "make room, or set `sparse = true` and watch the file system".into()
            }
            Self::NoAnswer { .. } => {
                "check the server or the program that provides the file system; then `helio apply`, or start the daemon again".into()
            }
            Self::Kernel { .. } => "read the kernel's log: `dmesg`".into(),
        }
    }
}

fn by(holders: &[String]) -> String {
    if holders.is_empty() { String::new() } else { format!(" by {}", holders.join(", ")) }
}
