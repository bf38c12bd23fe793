// SPDX-License-Identifier: Apache-2.0
//! How far an update is, how fast, when it ends, and whether it ever will.

use alloc::collections::VecDeque;
use core::time::Duration;
use helio_units::{Bytes, Moment, Rate};

/// One look per second is kept for as long as the rate may look back.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOKS: usize = 11;
/// The rate is that of so much time, or of more if nothing was copied in it. Longer, and comparing equal regions at first
/// would still count while different ones travel over a slow link.
const RATE_OVER: Duration = Duration::from_secs(3);

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
pub struct Progress {
    to_copy: Bytes,
    copied: Bytes,
    shipped: Bytes,
    since: Moment,
    looks: VecDeque<Look>,
}

impl Progress {
    /// Starts from zero.
    pub fn begin(&mut self, to_copy: Bytes, now: Moment) {
        *self = Self { to_copy, since: now, ..Self::default() };
    }

    /// A region of that many bytes was copied.
    pub fn count_copied(&mut self, bytes: Bytes) {
        self.copied += bytes;
    }

    /// That many bytes travelled.
    pub fn count_shipped(&mut self, bytes: Bytes) {
        self.shipped += bytes;
    }

    /// What there was to copy at its begin.
    pub fn to_copy(&self) -> Bytes {
        self.to_copy
    }

    /// Compared or sent, and durable where it was copied to.
    pub fn copied(&self) -> Bytes {
        self.copied
    }

    /// Bytes that had to travel for it.
    pub fn shipped(&self) -> Bytes {
        self.shipped
    }

    /// For how long it has been running.
    pub fn running(&self, now: Moment) -> Duration {
        now - self.since
    }

    /// Whether another look is due.
    #[inline]
    pub fn is_due(&self, now: Moment) -> bool {
        self.looks.back().is_none_or(|last| now - last.at >= LOOK_EVERY)
    }

    /// Takes a look: so much is left.
    pub fn look(&mut self, left: Bytes, now: Moment) {
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(Look { at: now, copied: self.copied, left });
    }

    /// Bytes per second over the last seconds.
    pub fn rate(&self, now: Moment) -> Rate {
        let counts = |look: &&Look| now - look.at >= RATE_OVER && look.copied < self.copied;
        let from = self.looks.iter().rev().find(counts).or(self.looks.front());
        let (at, copied) = from.map_or((self.since, Bytes::ZERO), |look| (look.at, look.copied));
        let seconds = (now - at).as_secs_f64();
        if seconds <= 0.0 {
            return Rate(0);
        }
        Rate(((self.copied - copied).0 as f64 / seconds) as u64)
    }

    /// When what is left now ends, at this rate.
    pub fn eta(&self, now: Moment) -> Option<Duration> {
        let rate = self.rate(now);
        let left = self.looks.back().map_or(self.to_copy.saturating_sub(self.copied), |look| {
            look.left.saturating_sub(self.copied - look.copied)
        });
        (rate.0 > 0).then(|| rate.time_for(left))
    }

    /// Whether what is left becomes less. Clients' writes travel in order among the copies, so it does, unless they
    /// write faster than both are sent.
    pub fn converges(&self) -> bool {
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
        assert_eq!(progress.eta(now), Some(Duration::from_secs(119)));
        for second in 20..40 {
            progress.look(Bytes::mib(150 - second), Moment::ZERO + LOOK_EVERY * second as u32);
        }
        assert!(progress.converges());
    }

    #[test]
    fn an_estimate_follows_a_rate_that_drops() {
        let mut progress = Progress::default();
        progress.begin(Bytes::mib(1060), Moment::ZERO);
        // Equal regions are compared fast, then different ones travel slowly.
        let copied = |second: u64| Bytes::mib(if second < 2 { 500 * second } else { 998 + second });
        let at = |second: u64| Moment::ZERO + LOOK_EVERY * second as u32;
        for second in 0..=6 {
            progress.copied = copied(second);
            progress.look(progress.to_copy - progress.copied, at(second));
        }
        assert_eq!(progress.rate(at(6)), Rate(1 << 20));
        assert_eq!(progress.eta(at(6)), Some(Duration::from_secs(56)));
        // What was copied since the last look is not left any more.
        progress.copied += Bytes::mib(1);
        assert_eq!(progress.eta(at(6) + LOOK_EVERY), Some(Duration::from_secs(55)));
    }

    #[test]
    fn a_rate_of_less_than_a_region_in_three_seconds_looks_back_further() {
        let mut progress = Progress::default();
        progress.begin(Bytes::mib(1), Moment::ZERO);
        for second in 0..=9 {
            progress.copied = Bytes::kib(if second < 5 { 0 } else { 64 });
            progress.look(progress.to_copy - progress.copied, Moment::ZERO + LOOK_EVERY * second);
        }
        let now = Moment::ZERO + LOOK_EVERY * 9;
        // 64 KiB since the look after four seconds.
        assert_eq!(progress.eta(now).map(|eta| eta.as_secs()), Some(75));
    }
}
