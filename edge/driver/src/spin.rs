// SPDX-License-Identifier: Apache-2.0
//! Spinning before sleep, as long as it has been paying off.

use std::time::{Duration, Instant};

/// Below this a spin is shorter than the sleep it should save; it is left out.
const FLOOR: Duration = Duration::from_micros(10);

/// How long to look for work before sleeping: up to a cap after a sleep that turned out shorter than the
/// cap, half as long after each spin in vain. An idle shard thus soon sleeps at once.
#[derive(Debug)]
pub(crate) struct Spin {
    cap: Duration,
    budget: Duration,
}

impl Spin {
    /// A zero `cap` switches spinning off.
    pub(crate) const fn new(cap: Duration) -> Self {
        Self { cap, budget: cap }
    }

    /// Whether spinning is on at all.
    pub(crate) const fn is_off(&self) -> bool {
        self.cap.is_zero()
    }

    /// When to stop a spin that begins at `now`, `limit` being all the time there is. `None`: do not begin.
    pub(crate) fn until(&self, now: Instant, limit: Option<Duration>) -> Option<Instant> {
        let span = limit.map_or(self.budget, |limit| limit.min(self.budget));
        (span >= FLOOR).then(|| now + span)
    }

    /// Learns from a spin that found nothing.
    pub(crate) fn in_vain(&mut self) {
        self.budget /= 2;
    }

    /// Learns from a sleep that work ended after `span`.
    pub(crate) fn slept(&mut self, span: Duration) {
        if span < self.cap {
            self.budget = self.cap;
        }
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
        for _ in 0..10 {
            spin.in_vain();
        }
        assert_eq!(spin.until(now, None), None);
        spin.slept(Duration::from_millis(50));
        assert_eq!(spin.until(now, None), None);
        spin.slept(Duration::from_micros(80));
        assert_eq!(spin.until(now, None), Some(now + cap));
        assert_eq!(spin.until(now, Some(Duration::from_micros(5))), None);
    }
}
