// SPDX-License-Identifier: Apache-2.0
//! Progress that the follower has not reported to the primary yet, and when it is due.

use alloc::collections::VecDeque;
use core::time::Duration;
use helio_format::message::Ranges;
use helio_units::{Moment, Sequence};

/// News nobody waits for is told after that long at most, in one message with what came meanwhile: each message of its
/// own would wake the primary for nothing.
pub(super) const TELL_AFTER: Duration = Duration::from_millis(10);

/// When the primary must be told how far we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// It knows.
    No,
    /// By then.
    By(Moment),
    /// With this batch.
    Now,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct News {
    /// Items that ended and were not told.
    ended: VecDeque<Sequence>,
    due: Due,
}

impl News {
    pub(super) const fn new() -> Self {
        Self { ended: VecDeque::new(), due: Due::No }
    }

    /// There is news that can wait until `by`, or cannot.
    pub(super) fn add(&mut self, by: Option<Moment>) {
        self.due = match (self.due, by) {
            (Due::Now, _) | (_, None) => Due::Now,
            (Due::No, Some(by)) => Due::By(by),
            (Due::By(earlier), Some(by)) => Due::By(earlier.min(by)),
        };
    }

    /// An item ended.
    pub(super) fn ended(&mut self, at: Sequence) {
        self.ended.push_back(at);
    }

    /// Only these items are to be told, and that at once.
    pub(super) fn restart(&mut self, ended: impl Iterator<Item = Sequence>) {
        self.ended.clear();
        self.ended.extend(ended);
        self.due = Due::Now;
    }

    /// Somebody waits for what there is.
    pub(super) fn hurry(&mut self) {
        if self.due != Due::No {
            self.due = Due::Now;
        }
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        match self.due {
            Due::No => false,
            Due::By(by) => now >= by,
            Due::Now => true,
        }
    }

    /// When it falls due by time.
    pub(super) const fn deadline(&self) -> Moment {
        if let Due::By(by) = self.due { by } else { Moment::NEVER }
    }

    /// Gives out what one message carries of the items beyond `completed`; the rest is due at once.
    pub(super) fn take(&mut self, completed: Sequence) -> Ranges {
        let mut ranges = Ranges::default();
        self.due = Due::No;
        while let Some(at) = self.ended.pop_front() {
            if at > completed && !ranges.push(at) {
                self.ended.push_front(at);
                self.due = Due::Now;
                break;
            }
        }
        ranges
    }
}
