// SPDX-License-Identifier: Apache-2.0
//! Spinning before sleep, where waits have been short enough for it to pay off.

use std::time::{Duration, Instant};

/// Short waits in a row after which spinning is sure to go on, and the mark from which it begins.
const SURE: u8 = 8;
const LIKELY: u8 = 4;
/// Giving way and getting the CPU back takes this long where somebody else has work of their own for it.
const CROWDED: Duration = Duration::from_micros(500);
/// How long spinning then stays off: who sleeps is let in again sooner than who gave way.
const REST: Duration = Duration::from_millis(100);

/// How long to look for work before sleeping: for the cap, as long as most waits are shorter than it; not at all
/// otherwise. So an idle shard sleeps at once, and so does one whose store takes longer than anybody would spin.
#[derive(Debug)]
pub(crate) struct Spin {
    cap: Duration,
    /// How much speaks for spinning, up to [`SURE`].
    trust: u8,
    /// Until when the CPU counts as crowded.
    resting: Option<Instant>,
}

impl Spin {
    /// A zero `cap` switches spinning off.
    pub(crate) const fn new(cap: Duration) -> Self {
        Self { cap, trust: LIKELY, resting: None }
    }

    /// When to stop a spin that begins at `now`, `limit` being all the time there is. `None`: do not begin.
    pub(crate) fn until(&self, now: Instant, limit: Option<Duration>) -> Option<Instant> {
        let span = limit.map_or(self.cap, |limit| limit.min(self.cap));
        let rested = self.resting.is_none_or(|until| now >= until);
        (self.trust >= LIKELY && rested && !span.is_zero()).then(|| now + span)
    }

    /// Learns from one look that came `gap` after the last; says whether to go on.
    pub(crate) fn looked(&mut self, now: Instant, gap: Duration) -> bool {
        if gap >= CROWDED {
            self.resting = Some(now + REST);
        }
        gap < CROWDED
    }

    /// Learns from a wait that ended with work after `span`, spinning and sleep together.
    pub(crate) fn waited(&mut self, span: Duration) {
        self.trust = if span <= self.cap {
            (self.trust + 1).min(SURE)
        } else {
            // Spinning in vain costs more than a sleep too soon.
            self.trust.saturating_sub(2)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_stops_when_it_does_not_pay_and_resumes_when_it_would() {
        let now = Instant::now();
        let cap = Duration::from_micros(200);
        let mut spin = Spin::new(cap);
        assert_eq!(spin.until(now, None), Some(now + cap));
        (0..10).for_each(|_| spin.waited(Duration::from_millis(50)));
        assert_eq!(spin.until(now, None), None);
        (0..3).for_each(|_| spin.waited(Duration::from_micros(80)));
        assert_eq!(spin.until(now, None), None, "a few short waits prove nothing");
        spin.waited(Duration::from_micros(80));
        assert_eq!(spin.until(now, None), Some(now + cap));
        let near = Duration::from_micros(5);
        assert_eq!(spin.until(now, Some(near)), Some(now + near));
        assert_eq!(spin.until(now, Some(Duration::ZERO)), None);
    }

    #[test]
    fn a_crowded_cpu_is_left_to_the_others_for_a_while() {
        let (mut spin, now) = (Spin::new(Duration::from_micros(200)), Instant::now());
        assert!(spin.looked(now, Duration::from_micros(20)), "a peer's turn is short");
        assert!(spin.until(now, None).is_some());
        assert!(!spin.looked(now, Duration::from_millis(3)));
        assert_eq!(spin.until(now + REST / 2, None), None);
        assert!(spin.until(now + REST, None).is_some());
    }

    #[test]
    fn one_long_wait_among_short_ones_changes_nothing() {
        let mut spin = Spin::new(Duration::from_micros(200));
        (0..20).for_each(|_| spin.waited(Duration::from_micros(50)));
        spin.waited(Duration::from_secs(1));
        assert!(spin.until(Instant::now(), None).is_some());
    }
}
