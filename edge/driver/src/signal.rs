// SPDX-License-Identifier: Apache-2.0
//! Ending the reactor's sleep from another thread, with a system call only where it does sleep.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What a driver sleeps beside.
pub trait Wake: fmt::Debug + Send + Sync {
    /// Ends the driver's sleep, or its next one.
    fn wake(&self);
}

/// Wakes a driver from any thread. Calls between two wake-ups count as one.
#[derive(Clone, Debug)]
pub struct Waker {
    signal: Arc<dyn Wake>,
}

impl Waker {
    /// The handle on what a driver sleeps beside.
    #[must_use]
    pub fn new(signal: Arc<dyn Wake>) -> Self {
        Self { signal }
    }

    /// Ends the driver's sleep, or its next one. What was written to memory before the call is seen by the
    /// woken thread.
    pub fn wake(&self) {
        self.signal.wake();
    }
}

impl Wake for Signal {
    fn wake(&self) {
        // A flag already up belongs to a call whose own ring covers this one.
        if !self.woken.swap(true, SeqCst) {
            self.ring();
        }
    }
}

/// The bell between a reactor and everyone else.
///
/// Sleeper: raise `asleep`, look once more for work, sleep. Waker: put the work down, then look at `asleep`.
/// All of it sequentially consistent, so at least one of the two sees the other.
#[derive(Debug)]
pub(crate) struct Signal {
    bell: OwnedFd,
    asleep: AtomicBool,
    woken: AtomicBool,
}

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell, asleep: AtomicBool::new(false), woken: AtomicBool::new(false) })
    }

    /// Rings if the reactor sleeps or is about to. Only the first of many callers pays for it.
    pub(crate) fn ring(&self) {
        if self.asleep.load(SeqCst) && self.asleep.swap(false, SeqCst) {
            // It fails only when the counter is full, and then the bell rings anyway.
            let _ = write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Whether a waker was called since the last look.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.load(SeqCst) && self.woken.swap(false, SeqCst)
    }

    /// Whether a waker was called; the call stays to be taken.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(SeqCst)
    }

    /// Says that the reactor is about to sleep; it must look for work once more before it does.
    pub(crate) fn lie_down(&self) {
        self.asleep.store(true, SeqCst);
    }

    /// Says that it no longer sleeps.
    pub(crate) fn get_up(&self) {
        self.asleep.store(false, SeqCst);
    }

    /// Silences a bell that rang.
    pub(crate) fn silence(&self) {
        // Nothing to read means that it has been silenced already.
        let _ = read(&self.bell, &mut [0u8; 8]);
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
