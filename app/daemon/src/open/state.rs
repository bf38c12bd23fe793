// SPDX-License-Identifier: Apache-2.0
//! The state directory: may it be used, and is another daemon using it.

use super::private;
use crate::patience::once_let_go;
use anyhow::{Context, Error, Result, anyhow, bail};
use helio_api::paths;
use helio_driver::Linux;
use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The state directory, held against other daemons for as long as this lives.
#[derive(Debug)]
pub(crate) struct StateDir {
    pub(crate) path: PathBuf,
    control: PathBuf,
    _lock: fs::File,
}

impl StateDir {
    /// Creates it if it is missing (mode 0700) and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let control = usable(path)?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(path.join("groups"))
            .with_context(|| format!("the state directory {} cannot be made", path.display()))?;
        let lock_path = path.join("lock");
        let mut options = private();
        let lock = options.create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(|error| denied(path, &lock_path, &error.into()))?;
        lock_alone(&lock, path)?;
        Ok(Self { path: path.to_owned(), control, _lock: lock })
    }

    /// Judges it as [`StateDir::open`] does, and leaves nothing behind.
    pub(crate) fn look(path: &Path) -> Result<()> {
        usable(path)?;
        match private().write(true).open(path.join("lock")) {
            Ok(lock) => lock_alone(&lock, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(denied(path, &path.join("lock"), &error.into())),
        }
    }

    /// Where NBD clients connect.
    pub(crate) fn nbd_socket(&self) -> PathBuf {
        self.path.join("nbd.sock")
    }

    /// Where operators connect.
    pub(crate) fn control_socket(&self) -> &Path {
        &self.control
    }
}

/// The directory is there and may be written to, or can be made. Returns where its control socket will be.
fn usable(path: &Path) -> Result<PathBuf> {
    let control = paths::control_socket(path).map_err(Error::msg)?;
    let groups = path.join("groups");
    // A file in the place of a folder, for one, is in the way; what is missing is made.
    let there = groups.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    if let Some(there) = there {
        writable(there).map_err(|errno| denied(path, there, &errno.into()))?;
    }
    Ok(control)
}

/// Whether files can be made in a folder.
pub(super) fn writable(folder: &Path) -> Result<(), Errno> {
    if folder.is_dir() {
        access(folder, Access::WRITE_OK | Access::EXEC_OK)
    } else {
        Err(if folder.exists() { Errno::NOTDIR } else { Errno::NOENT })
    }
}

fn denied(path: &Path, culprit: &Path, why: &Error) -> Error {
    let at = if path == culprit { String::new() } else { format!("{}: ", culprit.display()) };
    anyhow!(
        "the state directory {} cannot be used: {at}{why}\n  hint: name a directory with --state that the user of the \
         daemon can create or write",
        path.display()
    )
}

fn lock_alone(lock: &fs::File, path: &Path) -> Result<()> {
    // A check takes it for a moment.
    let take = || flock(lock, FlockOperation::NonBlockingLockExclusive);
    if once_let_go(&Linux::host(), take, |errno| *errno == Errno::WOULDBLOCK).is_err() {
        bail!(
            "another helio daemon uses the state directory {}\n  hint: stop it, or give this one its own --state",
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_daemon_that_starts_while_checks_run_is_not_refused() {
        let scratch = tempfile::tempdir().expect("there is room");
        let state = scratch.path().join("state");
        drop(StateDir::open(&state).expect("it is the first"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let starts = scope.spawn(|| {
                let mut refused = None;
                while refused.is_none() && !over.load(Ordering::Relaxed) {
                    refused = StateDir::open(&state).err();
                }
                refused
            });
            // Each may find the lock taken by the daemon, and then waits for it.
            for _ in 0..50_000 {
                let _found = StateDir::look(&state);
            }
            over.store(true, Ordering::Relaxed);
            let refused = starts.join().expect("it ends");
            assert!(refused.is_none(), "{refused:?}");
        });
    }
}
