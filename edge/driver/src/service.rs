// SPDX-License-Identifier: Apache-2.0
//! Where the operations on a file are performed: by the thread of the shard, which must never wait, or aside, by worker threads.
//!
//! ```text
//!   block device, file system of the list ──> Here ──calls of the shard took long──> Slow
//!   any other file system ──> Aside
//! ```
//! A file server that is gone, or a daemon behind FUSE that sleeps, keeps the calling thread until it answers, also if the request
//! goes through a ring. So only block devices and the file systems of a list are trusted.

use rustix::fs::{FileType, fstat, fstatfs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// A call of the shard that takes longer is slow.
pub(crate) const LONGEST_CALL: Duration = Duration::from_millis(50);

/// The numbers of the file systems that take a request without waiting for another host or process (statfs(2)): ext2 to ext4, XFS, Btrfs,
/// tmpfs, ramfs, overlayfs (whose upper layer is on this host as a rule), and the kernel's own proc and sysfs.
const TRUSTED: [u64; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x8584_58F6, 0x794C_7630, 0x9FA0, 0x6265_6572];

/// Where operations on a file are performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// By the thread of the shard, or through its ring.
    Here,
    /// On threads: its file system is not in the list of those that do not keep the caller waiting.
    Aside,
    /// On threads until the file is opened again: three calls of the shard took longer than 50 ms each.
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

/// So many slow calls move a file aside: a busy host may take the CPU away for as long, but hardly so often.
const SLOW_CALLS: u8 = 3;
const ASIDE: u8 = u8::MAX;

/// The same, shared by all clones of the file: the slow calls so far, or [`ASIDE`].
#[derive(Debug)]
pub(crate) struct Shown(AtomicU8);

impl Shown {
    pub(crate) const fn new(service: Service) -> Self {
        Self(AtomicU8::new(match service {
            Service::Here => 0,
            Service::Slow => SLOW_CALLS,
            Service::Aside => ASIDE,
        }))
    }

    pub(crate) fn get(&self) -> Service {
        match self.0.load(Relaxed) {
            ASIDE => Service::Aside,
            SLOW_CALLS.. => Service::Slow,
            _ => Service::Here,
        }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.0.load(Relaxed) < SLOW_CALLS
    }

    /// A call of the shard took that long.
    pub(crate) fn called(&self, took: Duration) {
        if took > LONGEST_CALL {
            let more = |calls| (calls < SLOW_CALLS).then(|| calls + 1);
            let _is_moved = self.0.fetch_update(Relaxed, Relaxed, more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_slow_call_moves_a_file_and_one_that_is_aside_is_not_called_slow() {
        let [here, aside] = [Service::Here, Service::Aside].map(Shown::new);
        let slow = LONGEST_CALL + Duration::from_nanos(1);
        let calls = [LONGEST_CALL, slow, LONGEST_CALL, slow, LONGEST_CALL];
        for took in calls {
            here.called(took);
            aside.called(took);
        }
        assert!(here.is_here() && here.get() == Service::Here && !aside.is_here());
        for shown in [&here, &aside] {
            shown.called(slow);
            shown.called(slow);
        }
        assert_eq!((here.get(), aside.get()), (Service::Slow, Service::Aside));
        assert!(!here.is_here());
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
