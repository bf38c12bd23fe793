// SPDX-License-Identifier: Apache-2.0
//! Ctrl-C and its kin: the stage is cleared before the process ends.

use super::stage::Props;
use crate::signals::Signals;
use anyhow::Result;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells the listener that a signal is how this is meant to end.
pub(super) struct Listener {
    welcome: Arc<AtomicBool>,
}

impl Listener {
    /// Listens for SIGINT, SIGTERM and SIGHUP from now on.
    pub(super) fn start(props: Arc<Props>) -> Result<Self> {
        let mut signals = Signals::catch()?;
        let welcome = Arc::new(AtomicBool::new(false));
        let expected = Arc::clone(&welcome);
        let hear = move || {
            let number = signals.wait();
            end(&props, number, expected.load(Ordering::Relaxed));
        };
        std::thread::Builder::new().name("helio-signals".into()).spawn(hear)?;
        Ok(Self { welcome })
    }

    /// A signal is welcome from now on: the process then ends well.
    pub(super) fn welcome(&self) {
        self.welcome.store(true, Ordering::Relaxed);
    }
}

/// Clears the stage and ends the process.
fn end(props: &Props, number: i32, welcome: bool) -> ! {
    props.clear();
    // Held to the end: what the story would still say of processes that vanished is no news.
    let mut out = std::io::stdout().lock();
    let folder = "the daemons are stopped and the directory is removed";
    let word = if welcome { "Done" } else { "Interrupted" };
    // Nobody may be reading any more, which is no reason to stay.
    let _ = writeln!(out, "\n{word}: {folder}.");
    let _ = out.flush();
    std::process::exit(if welcome { 0 } else { 128 + number })
}
