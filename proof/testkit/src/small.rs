// SPDX-License-Identifier: Apache-2.0
//! Small file systems, to fill up.

use crate::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory, unmounted when it is dropped.
#[derive(Debug)]
pub struct SmallFs(PathBuf);

impl SmallFs {
    /// Mounts one of that size (`512k`) at a path that does not exist yet; none without the right to mount.
    ///
    /// # Panics
    /// If the path exists.
    #[must_use]
    pub fn at(point: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&point).expect("the name is free");
        let size = format!("size={size}");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &size, "helio-test"]).arg(&point);
        run(&mut command).status.success().then_some(Self(point))
    }

    /// A path inside.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Mounts it read-only from here on.
    pub fn read_only(&self) {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0)).expect_success();
    }
}

impl Drop for SmallFs {
    fn drop(&mut self) {
        // `run` panics, which would abort the process if the test failed already.
        let ended = Command::new("umount").arg(&self.0).status();
        if !ended.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.0.display());
        }
    }
}
