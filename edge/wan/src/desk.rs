// SPDX-License-Identifier: Apache-2.0
//! Where a thread of this crate is given its orders, and where it leaves its numbers.

use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Orders that may wait for the thread; whoever gives one more waits to give it.
const MOST_ORDERS: usize = 16;

/// An order, and where to say that it was carried out.
pub(crate) struct Told<O> {
    pub(crate) order: O,
    pub(crate) done: SyncSender<()>,
}

/// The end that gives orders `O` and reads numbers `S`: cheap to clone, usable from any thread.
pub(crate) struct Desk<O, S> {
    orders: SyncSender<Told<O>>,
    bell: Arc<OwnedFd>,
    stats: Arc<Mutex<S>>,
}

/// The end that obeys.
pub(crate) struct Duty<O, S> {
    pub(crate) orders: Receiver<Told<O>>,
    /// An eventfd that wakes the thread to look for orders.
    pub(crate) bell: Arc<OwnedFd>,
    stats: Arc<Mutex<S>>,
}

/// Both ends.
///
/// # Errors
/// The process has no descriptor left.
pub(crate) fn desk<O, S: Default>() -> io::Result<(Desk<O, S>, Duty<O, S>)> {
    let (sender, orders) = sync_channel(MOST_ORDERS);
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let stats = Arc::default();
    let duty = Duty { orders, bell: Arc::clone(&bell), stats: Arc::clone(&stats) };
    Ok((Desk { orders: sender, bell, stats }, duty))
}

impl<O, S: Copy> Desk<O, S> {
    /// Gives an order and returns when it has been carried out; false where the thread has ended.
    pub(crate) fn order(&self, order: O) -> bool {
        let (done, carried_out) = sync_channel(1);
        if self.orders.send(Told { order, done }).is_err() {
            return false;
        }
        // A full counter means the bell is ringing already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        carried_out.recv().is_ok()
    }

    /// What the thread published last.
    pub(crate) fn stats(&self) -> S {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O, S> Duty<O, S> {
    /// Makes these the numbers that [`Desk::stats`] returns.
    pub(crate) fn publish(&self, stats: S) {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }

    /// Makes the bell ring anew for the next order.
    pub(crate) fn silence(&self) {
        // It is nonblocking: a bell that did not ring has nothing to read, and that is fine.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }
}

impl<O, S> Clone for Desk<O, S> {
    fn clone(&self) -> Self {
        let (bell, stats) = (Arc::clone(&self.bell), Arc::clone(&self.stats));
        Self { orders: self.orders.clone(), bell, stats }
    }
}

impl<O, S: fmt::Debug> fmt::Debug for Desk<O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("stats", &self.stats).finish_non_exhaustive()
    }
}
