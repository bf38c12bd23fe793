// SPDX-License-Identifier: Apache-2.0
//! Ctrl-C and its kin, for those who have something to clear away first.

use anyhow::Result;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP, which no longer end the process by themselves.
pub(crate) struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn catch() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hangup = signal(SignalKind::hangup())?;
        drop(guard);
        Ok(Self { runtime, interrupt, terminate, hangup })
    }

    /// Waits for the first of them, and returns its number.
    pub(crate) fn wait(mut self) -> i32 {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => 2,
                _ = self.terminate.recv() => 15,
                _ = self.hangup.recv() => 1,
            }
        })
    }
}
