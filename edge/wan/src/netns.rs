// SPDX-License-Identifier: Apache-2.0
//! Named network namespaces, kept where `ip netns` keeps them, so that `ip netns exec NAME …` works with them.
//!
//! A namespace made here under a name of our own choosing carries a lock for as long as its maker lives. One whose
//! maker was killed is thus known by its free lock, and is [swept](sweep) away by the next emulator.
#![allow(unsafe_code)]

use crate::emulator::{Doing as _, EmulatorError};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where namespaces have names.
const FOLDER: &str = "/run/netns";
/// How the names we choose begin.
const OURS: &str = "helio-wan";
/// The most emulators at a time that may leave the choice of names to us.
const MOST: u32 = 99;

/// A network namespace with a name. One that was made here is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
    /// Keeps it alive, and carries the lock of one that was made here.
    fd: OwnedFd,
    made: bool,
}

impl Namespace {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it was made here.
    pub(crate) fn made(&self) -> bool {
        self.made
    }

    /// Runs `work` inside, on a thread of its own. What it opens there belongs to the namespace wherever it is used.
    pub(crate) fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        on_a_thread(|| {
            move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        })
    }

    /// Makes one, or opens the one of that name. The folder's lock must be held.
    fn at(name: &str) -> Result<Self, EmulatorError> {
        let file = path(name);
        if file.exists() {
            let fd = open_file(&file).doing(|| format!("open the network namespace {name}"))?;
            return Ok(Self { name: name.to_owned(), fd, made: false });
        }
        let locked = make(&file).and_then(|()| {
            let fd = open_file(&file)?;
            flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
            Ok(fd)
        });
        if locked.is_err() {
            // The failure is what matters.
            let _ = remove(&file);
        }
        let fd = locked.doing(|| format!("make the network namespace {name}"))?;
        Ok(Self { name: name.to_owned(), fd, made: true })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.made {
            let _folder = folder();
            // Somebody may have removed it already, as with `ip netns del`.
            let _ = remove(&path(&self.name));
        }
    }
}

/// The namespaces of the two ends. One that has a name is opened, and made where there is none of it; one without
/// is made, under a name that nobody uses.
///
/// # Errors
/// A name is no name, both are the same, or the kernel refuses.
pub(crate) fn pair(
    left: Option<&str>,
    right: Option<&str>,
) -> Result<[Namespace; 2], EmulatorError> {
    for name in [left, right].into_iter().flatten() {
        check(name)?;
    }
    if left.is_some() && left == right {
        return Err(EmulatorError::Same(left.unwrap_or_default().to_owned()));
    }
    let folder = folder().doing(|| format!("prepare {FOLDER}"))?;
    sweep();
    let free = (1..=MOST).map(|n| [own_name(n, "left"), own_name(n, "right")]);
    let own = free.into_iter().find(|names| names.iter().all(|name| !path(name).exists()));
    let [own_left, own_right] = own.ok_or(EmulatorError::Crowded(MOST))?;
    let left = Namespace::at(left.unwrap_or(&own_left));
    let right = Namespace::at(right.unwrap_or(&own_right));
    // Before either may be dropped, which takes the lock again.
    drop(folder);
    Ok([left?, right?])
}

fn own_name(n: u32, side: &str) -> String {
    format!("{OURS}{n}-{side}")
}

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// A name is the name of a file and an argument of other programs.
fn check(name: &str) -> Result<(), EmulatorError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain = name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if plain && name.chars().all(fits) { Ok(()) } else { Err(EmulatorError::Name(name.to_owned())) }
}

/// Opens the folder and locks it, as `ip netns` does, and makes it a place whose mounts are seen by every mount
/// namespace, as it expects.
fn folder() -> io::Result<OwnedFd> {
    fs::create_dir_all(FOLDER)?;
    let folder = open(FOLDER, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    flock(&folder, FlockOperation::LockExclusive)?;
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match mount_change(FOLDER, shared) {
        // It is no mount of its own yet.
        Err(Errno::INVAL) => {
            mount_bind_recursive(FOLDER, FOLDER)?;
            mount_change(FOLDER, shared)?;
        }
        other => other?,
    }
    Ok(folder)
}

fn open_file(file: &Path) -> io::Result<OwnedFd> {
    Ok(open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Removes the namespaces with names of ours whose makers are gone. What cannot be removed stays, and its name is
/// not used.
fn sweep() {
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(OURS) {
            continue;
        }
        let file = entry.path();
        let Ok(fd) = open_file(&file) else { continue };
        if flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = remove(&file);
        }
    }
}

/// Makes a namespace and gives it this name. It is of use once its loopback is up, which comes with it.
fn make(file: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(file)?;
    let named = on_a_thread(|| {
        // SAFETY: descriptors stay shared: only the network namespace of this thread changes, and it ends here.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        crate::tun::loopback_up()?;
        Ok(mount_bind("/proc/thread-self/ns/net", file)?)
    });
    if named.is_err() {
        // The failure is what matters.
        let _ = fs::remove_file(file);
    }
    named
}

fn remove(file: &Path) -> io::Result<()> {
    match unmount(file, UnmountFlags::DETACH) {
        // A maker killed between file and mount leaves the file alone.
        Ok(()) | Err(Errno::INVAL) => fs::remove_file(file),
        Err(errno) => Err(errno.into()),
    }
}

/// A thread of its own, since a namespace once entered is not easily left.
fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("helio-netns".into());
        let work = thread.spawn_scoped(scope, work)?;
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_file_name() {
        for name in ["a", "lyon", "helio-wan1-left", "x.y_z", "0"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "-n", "a/b", "../etc", "a b", "ä", &"x".repeat(65)] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn two_ends_are_two_namespaces() {
        let same = pair(Some("a"), Some("a")).expect_err("it cannot be both");
        assert!(same.to_string().contains("both ends"), "{same}");
    }
}
