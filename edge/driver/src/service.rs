// SPDX-License-Identifier: Apache-2.0
//! Where the operations on a file may be performed: by the thread that asks, which must never wait, or aside, on threads that may.
//!
//! ```text
//!   a file system that is known to take a request without waiting ──> Here ──a call of the asking thread took long──> Slow
//!   every other one ──> Aside
//! ```
//! A file server that is gone, or a daemon behind FUSE that sleeps, keeps whoever hands it a request until it answers, also where the
//! request goes through a ring. So only file systems of this list, and block devices, are trusted.

use rustix::fs::{FileType, fstat, fstatfs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// A call of the asking thread that takes longer moves the file aside.
pub(crate) const LONGEST_CALL: Duration = Duration::from_millis(50);

/// The numbers of the file systems whose requests wait for nobody: ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, overlayfs (whose upper layer
/// is never on another host), and the kernel's own proc and sysfs (statfs(2)).
const TRUSTED: [u64; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x8584_58F6, 0x794C_7630, 0x9FA0, 0x6265_6572];

/// Where operations on a file are performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    /// By the thread that asks, or through its ring.
    Here,
    /// On threads: its file system is not one of those that are known not to keep the caller waiting.
    Aside,
    /// On threads: a call of the asking thread took longer than 50 ms once.
    Slow,
}

impl Service {
    /// What the kernel says of an open file.
    pub(crate) fn of(fd: &OwnedFd) -> Self {
        let is_file = fstat(fd).is_ok_and(|facts| {
            let kind = FileType::from_raw_mode(facts.st_mode);
            matches!(kind, FileType::RegularFile | FileType::Directory)
        });
        if is_file { Self::on(fstatfs(fd).ok().map(|it| it.f_type as u64)) } else { Self::Here }
    }

    /// A file on the file system of that number, if the kernel tells it.
    fn on(file_system: Option<u64>) -> Self {
        let is_trusted = file_system.is_some_and(|number| TRUSTED.contains(&number));
        if is_trusted { Self::Here } else { Self::Aside }
    }
}

/// The same, shared by everyone who holds the file.
#[derive(Debug)]
pub(crate) struct Shown(AtomicU8);

impl Shown {
    pub(crate) const fn new(service: Service) -> Self {
        Self(AtomicU8::new(service as u8))
    }

    pub(crate) fn get(&self) -> Service {
        match self.0.load(Relaxed) {
            0 => Service::Here,
            1 => Service::Aside,
            _ => Service::Slow,
        }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.0.load(Relaxed) == Service::Here as u8
    }

    /// A call took long.
    pub(crate) fn move_aside(&self) {
        let _was_aside = self.0.compare_exchange(0, Service::Slow as u8, Relaxed, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_slow_stays_aside_and_one_that_is_aside_is_not_called_slow() {
        let [here, aside] = [Service::Here, Service::Aside].map(Shown::new);
        assert!(here.is_here() && !aside.is_here());
        for shown in [&here, &aside] {
            shown.move_aside();
        }
        assert_eq!((here.get(), aside.get()), (Service::Slow, Service::Aside));
    }

    #[test]
    fn files_of_known_file_systems_are_served_here_and_others_aside() {
        let shared = std::fs::File::open("/dev/shm").expect("it is there");
        assert_eq!(Service::of(&shared.into()), Service::Here);
        let (pipe, _) = std::io::pipe().expect("a pipe");
        assert_eq!(Service::of(&pipe.into()), Service::Here, "it has no file system");
        let fuse = 0x6573_5546;
        assert_eq!([Some(fuse), None].map(Service::on), [Service::Aside; 2]);
    }
}
