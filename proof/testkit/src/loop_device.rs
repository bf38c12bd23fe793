// SPDX-License-Identifier: Apache-2.0
//! Loop devices on files of a test.

use crate::process::leash;
use crate::{lacking, run, say_skipped};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A loop device on a file, detached when it is dropped, or when the test's process ends without that.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    leash: Child,
}

impl LoopDevice {
    /// Makes one, with more options of `losetup`. `None`, and it says so, if this user or this machine cannot have one.
    ///
    /// # Panics
    /// If there is no shell to watch over it.
    #[must_use]
    pub fn on(file: &Path, more: &[&str]) -> Option<Self> {
        if !lacking(&["losetup"]).is_empty() {
            say_skipped("losetup");
            return None;
        }
        let mut losetup = Command::new("losetup");
        let told = run(losetup.args(["--find", "--show"]).args(more).arg(file));
        if !told.status.success() {
            say_skipped("loop devices and the rights to use them");
            return None;
        }
        let path = PathBuf::from(told.stdout.trim());
        let leash = leash("losetup --detach \"$1\"", path.as_ref()).expect("there is a shell");
        Some(Self { path, leash })
    }

    /// The device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // The leash goes first: behind the end of the device it could detach one that has its number by then.
        let _ended = self.leash.kill().and_then(|()| self.leash.wait());
        let detached = Command::new("losetup").arg("--detach").arg(&self.path).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} is left behind", self.path.display());
        }
    }
}
