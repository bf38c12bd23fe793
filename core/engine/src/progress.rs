// SPDX-License-Identifier: Apache-2.0
//! How far an update is, how fast, when it ends, and whether it ever will.

use alloc::collections::VecDeque;
use core::time::Duration;
use helio_units::{Bytes, Moment, Rate};

/// One look per second is kept for as long as the rate looks back.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOKS: usize = 11;

/// What a look saw.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Moment,
    copied: Bytes,
    /// Marked, or written by clients and not at the peer.
    left: Bytes,
}

/// The figures of one update.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) to_copy: Bytes,
    /// Compared or sent, and durable at the peer.
    pub(crate) copied: Bytes,
    /// Bytes that had to be sent for it.
    pub(crate) shipped: Bytes,
    pub(crate) since: Moment,
    looks: VecDeque<Look>,
}

impl Progress {
    pub(crate) fn begin(&mut self, to_copy: Bytes, now: Moment) {
        *self = Self { to_copy, since: now, ..Self::default() };
    }

    /// Whether another look is due.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.looks.back().is_none_or(|last| now - last.at >= LOOK_EVERY)
    }

    pub(crate) fn look(&mut self, left: Bytes, now: Moment) {
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(Look { at: now, copied: self.copied, left });
    }

    /// Bytes per second over the last seconds.
    pub(crate) fn rate(&self, now: Moment) -> Rate {
        let (at, copied) =
            self.looks.front().map_or((self.since, Bytes::ZERO), |look| (look.at, look.copied));
        let seconds = (now - at).as_secs_f64();
        if seconds <= 0.0 {
            return Rate(0);
        }
        Rate(((self.copied - copied).0 as f64 / seconds) as u64)
    }

    /// When it ends, at this rate.
    pub(crate) fn eta(&self, now: Moment) -> Option<Duration> {
        let rate = self.rate(now);
        let left = self.to_copy.saturating_sub(self.copied);
        (rate.0 > 0).then(|| rate.time_for(left))
    }

    /// Whether what is left becomes less. Clients' writes travel in order among the copies, so it does, unless they
    /// write faster than both are sent.
    pub(crate) fn converges(&self) -> bool {
        let (Some(first), Some(last)) = (self.looks.front(), self.looks.back()) else {
            return true;
        };
        self.looks.len() < LOOKS || last.left == Bytes::ZERO || last.left < first.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_grows_as_fast_as_marks_end_never_ends() {
        let mut progress = Progress::default();
        progress.begin(Bytes::mib(100), Moment::ZERO);
        for second in 0..20 {
            let now = Moment::ZERO + LOOK_EVERY * second;
            assert!(progress.is_due(now));
            progress.copied = Bytes::mib(1) * u64::from(second);
            progress.look(Bytes::mib(100 + u64::from(second)), now);
        }
        let now = Moment::ZERO + LOOK_EVERY * 19;
        assert!(!progress.converges());
        assert_eq!(progress.rate(now), Rate(1 << 20));
        assert_eq!(progress.eta(now), Some(Duration::from_secs(81)));
        for second in 20..40 {
            progress.look(Bytes::mib(150 - second), Moment::ZERO + LOOK_EVERY * second as u32);
        }
        assert!(progress.converges());
    }
}
