// SPDX-License-Identifier: Apache-2.0
//! A look at the system calls of a daemon's shard, with strace, which can also delay them.

use crate::{Daemon, eventually, say_skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long strace may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// strace, which looks at the thread of a shard until this is dropped.
#[derive(Debug)]
pub struct Traced {
    strace: Child,
    told: PathBuf,
}

impl Traced {
    /// Looks at the shard of a daemon, with these arguments of strace, and has written to `told` what it saw. None where processes may not be
    /// traced, which it says. strace must be installed.
    ///
    /// # Panics
    /// If the daemon has no shard, or strace cannot be started.
    #[must_use]
    #[track_caller]
    pub fn shard(daemon: &Daemon, arguments: &[&str], told: &Path) -> Option<Self> {
        let threads = fs::read_dir(format!("/proc/{}/task", daemon.id())).expect("it runs");
        let mut threads = threads.flatten().map(|thread| thread.path());
        let is_shard = |thread: &PathBuf| {
            fs::read_to_string(thread.join("comm")).is_ok_and(|name| name == "shard-0\n")
        };
        let shard = threads.find(is_shard).expect("there is a shard");
        let mut strace = Command::new("strace");
        strace.args(arguments).arg("-o").arg(told).arg("-p");
        strace.arg(shard.file_name().expect("a number")).stderr(Stdio::null());
        let mut strace = strace.spawn().expect("it is installed");
        let tracer = format!("TracerPid:\t{}", strace.id());
        let looks = eventually(PATIENCE, "strace to look", || {
            if strace.try_wait().expect("it is ours").is_some() {
                return Some(false);
            }
            let status = fs::read_to_string(shard.join("status")).unwrap_or_default();
            status.lines().any(|line| line == tracer).then_some(true)
        });
        if !looks {
            say_skipped("strace that may look at a daemon");
        }
        looks.then(|| Self { strace, told: told.to_owned() })
    }

    /// What it has written so far.
    #[must_use]
    pub fn told(&self) -> String {
        fs::read_to_string(&self.told).unwrap_or_default()
    }

    /// Ends it, and returns what it has written. A process that is looked at has not ended before this.
    #[must_use]
    pub fn end(mut self) -> String {
        self.stop();
        self.told()
    }

    fn stop(&mut self) {
        let _ended = self.strace.kill().and_then(|()| self.strace.wait());
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.stop();
    }
}
