// SPDX-License-Identifier: Apache-2.0
//! The state directory: may it be used, and is another daemon using it.

use super::private;
use crate::patience::lock_once_let_go;
use anyhow::{Context, Error, Result, anyhow, bail};
use helio_api::paths;
use helio_driver::{Errno, File, FileType, Host, Mode, OFlags};
use std::path::{Path, PathBuf};

/// The state directory, held against other daemons for as long as this lives.
#[derive(Debug)]
pub(crate) struct StateDir {
    /// The machine that it is on.
    pub(crate) host: Host,
    pub(crate) path: PathBuf,
    control: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Creates it if it is missing (mode 0700) and locks it.
    pub(crate) fn open(host: &Host, path: &Path) -> Result<Self> {
        let control = usable(host, path)?;
        Self::make(host, path)
            .with_context(|| format!("the state directory {} cannot be made", path.display()))?;
        let lock = Self::lock_file(host, path);
        let lock = lock.map_err(|error| denied(path, &path.join("lock"), &error.into()))?;
        lock_alone(host, &lock, path)?;
        Ok(Self { host: Host::clone(host), path: path.to_owned(), control, _lock: lock })
    }

    /// Makes the folders that are missing, and makes the names of all of them durable: a process before may have been killed between the
    /// two.
    pub(crate) fn make(host: &Host, path: &Path) -> std::io::Result<()> {
        let groups = path.join("groups");
        let missing: Vec<_> = groups.ancestors().take_while(|it| !host.is_folder(it)).collect();
        host.make_folders(&groups, Mode::RWXU)?;
        host.sync_folder(path)?;
        for above in missing.iter().chain(&[path]).filter_map(|it| it.parent()) {
            match host.sync_folder(above) {
                // A folder that was there before may not be readable by the user of the daemon.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    tracing::debug!(%error, folder = %above.display(), "was not flushed");
                }
                synced => synced?,
            }
        }
        Ok(())
    }

    /// The file that a process locks while it uses the directory.
    pub(crate) fn lock_file(host: &Host, path: &Path) -> Result<File, Errno> {
        private(host, &path.join("lock"), OFlags::WRONLY | OFlags::CREATE)
    }

    /// Judges it as [`StateDir::open`] does, and leaves nothing behind.
    pub(crate) fn look(host: &Host, path: &Path) -> Result<()> {
        usable(host, path)?;
        match private(host, &path.join("lock"), OFlags::WRONLY) {
            Ok(lock) => lock_alone(host, &lock, path),
            Err(Errno::NOENT) => Ok(()),
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
fn usable(host: &Host, path: &Path) -> Result<PathBuf> {
    let control = paths::control_socket(path).map_err(Error::msg)?;
    let groups = path.join("groups");
    // A file in the place of a folder, for one, is in the way; what is missing is made.
    let there = groups.ancestors().find(|folder| host.is_named(folder));
    if let Some(there) = there {
        writable(host, there).map_err(|errno| denied(path, there, &errno.into()))?;
    }
    Ok(control)
}

/// Whether files can be made in a folder.
pub(super) fn writable(host: &Host, folder: &Path) -> Result<(), Errno> {
    match host.facts(folder, true) {
        Ok(facts) if facts.kind == FileType::Directory => host.may_create_in(folder),
        Ok(_) => Err(Errno::NOTDIR),
        Err(errno) => Err(errno),
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

fn lock_alone(host: &Host, lock: &File, path: &Path) -> Result<()> {
    // A check takes it for a moment.
    if lock_once_let_go(host, lock).is_err() {
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
    use crate::offline::lock_state;
    use helio_driver::Linux;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_command_that_locks_the_directory_and_a_daemon_exclude_each_other() {
        let (host, scratch) = (Linux::host(), tempfile::tempdir().expect("there is room"));
        let daemon = StateDir::open(&host, scratch.path()).expect("it is the first");
        assert!(lock_state(scratch.path()).expect("it is there").is_none());
        drop(daemon);
        let command = lock_state(scratch.path()).expect("it is there");
        let refused = StateDir::open(&host, scratch.path()).expect_err("it is in use").to_string();
        assert!(refused.contains("another helio daemon uses the state directory"), "{refused}");
        drop(command.expect("no daemon uses it"));
        StateDir::open(&host, scratch.path()).expect("nothing uses it");
    }

    #[test]
    fn a_daemon_that_starts_while_checks_run_is_not_refused() {
        let scratch = tempfile::tempdir().expect("there is room");
        let state = scratch.path().join("state");
        let host = Linux::host();
        drop(StateDir::open(&host, &state).expect("it is the first"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let starts = scope.spawn(|| {
                let mut refused = None;
                while refused.is_none() && !over.load(Ordering::Relaxed) {
                    refused = StateDir::open(&host, &state).err();
                }
                refused
            });
            // Each may find the lock taken by the daemon, and then waits for it.
            for _ in 0..50_000 {
                let _found = StateDir::look(&host, &state);
            }
            over.store(true, Ordering::Relaxed);
            let refused = starts.join().expect("it ends");
            assert!(refused.is_none(), "{refused:?}");
        });
    }
}
