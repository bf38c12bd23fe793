// SPDX-License-Identifier: Apache-2.0
//! Signals as a flag, for those who look at it now and then.

use crate::signals::Signals;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What a second signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Second {
    /// Nothing: the process removes its files first.
    Waits,
    /// It ends the process, which may wait for a daemon that does not respond.
    Ends,
}

/// Set by the first signal.
pub(crate) struct Stopping(Arc<AtomicBool>);

impl Stopping {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn catch(second: Second) -> Result<Self> {
        let mut signals = Signals::catch()?;
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        thread::Builder::new().name("helio-signals".to_owned()).spawn(move || {
            signals.wait();
            set.store(true, Ordering::Relaxed);
            if second == Second::Ends {
                std::process::exit(128 + signals.wait());
            }
        })?;
        Ok(Self(flag))
    }

    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }
}
