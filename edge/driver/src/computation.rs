// SPDX-License-Identifier: Apache-2.0
//! Work that would keep the thread of a shard too long, although it waits for nothing: a thread of the driver does it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, sync_channel};

/// The work of an [`Op::Compute`](crate::Op::Compute).
pub struct Computation(Box<dyn FnOnce() + Send>);

/// Where the result of a [`Computation`] is found.
#[derive(Debug)]
pub struct Answer<T>(Receiver<T>);

impl Computation {
    /// Work to be done, and its answer.
    pub fn new<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Self, Answer<T>) {
        let (tell, told) = sync_channel(1);
        // An answer that is dropped is not wanted any more.
        (Self(Box::new(move || _ = tell.send(work()))), Answer(told))
    }

    /// Does it, on the calling thread. If it panics, there is no answer, and the thread goes on.
    pub fn perform(self) {
        // What it worked on is dropped with it.
        let _told_by_the_hook = catch_unwind(AssertUnwindSafe(self.0));
    }
}

impl<T> Answer<T> {
    /// The result; `None` before the operation has ended, or if it panicked.
    #[must_use]
    pub fn take(&self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl fmt::Debug for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Computation")
    }
}
