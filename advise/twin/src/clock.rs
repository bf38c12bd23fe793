// SPDX-License-Identifier: Apache-2.0
//! A node's own clock: monotonic, but with a speed of its own, and it may leap ahead.
//!
//! The cluster keeps the true time. An engine is told what its node's clock shows, and its deadlines are looked up in
//! the same clock.

use core::time::Duration;
use helio_units::Moment;

/// Parts in a million.
const MILLION: u128 = 1_000_000;

/// What shows a node the time. It never goes back while the node has power.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// At this true moment it showed `showed`.
    since: Moment,
    showed: Moment,
    /// What it counts in a million true nanoseconds.
    speed: u128,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Duration::ZERO, 0)
    }
}

impl Clock {
    /// A clock that is ahead by some time already, and too fast by `drift` parts in a million (or too slow).
    #[must_use]
    pub fn new(ahead: Duration, drift: i32) -> Self {
        let speed = MILLION.saturating_add_signed(i128::from(drift)).max(1);
        Self { since: Moment::ZERO, showed: Moment::ZERO + ahead, speed }
    }

    /// What it shows at a true moment.
    #[must_use]
    pub fn read(&self, now: Moment) -> Moment {
        let counted = u128::from(now.0.saturating_sub(self.since.0)) * self.speed / MILLION;
        Moment(self.showed.0.saturating_add(u64::try_from(counted).unwrap_or(u64::MAX)))
    }

    /// The first true moment at which it shows `shown` or more.
    #[must_use]
    pub fn when(&self, shown: Moment) -> Moment {
        if shown == Moment::NEVER {
            return Moment::NEVER;
        }
        let ahead = u128::from(shown.0.saturating_sub(self.showed.0)) * MILLION;
        let left = u64::try_from(ahead.div_ceil(self.speed)).unwrap_or(u64::MAX);
        Moment(self.since.0.saturating_add(left))
    }

    /// It stands still until `until`: the time of a pause that nothing on the machine counts.
    pub fn stand_still(&mut self, now: Moment, until: Moment) {
        (self.showed, self.since) = (self.read(now), until);
    }

    /// It leaps ahead.
    pub fn leap(&mut self, now: Moment, by: Duration) {
        (self.showed, self.since) = (self.read(now) + by, now);
    }

    /// The node has power again: the count begins somewhere else.
    pub fn begin_anew(&mut self, now: Moment, ahead: Duration) {
        (self.showed, self.since) = (Moment::ZERO + ahead, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_due_when_the_clock_shows_it_and_not_before() {
        for drift in [-10_000, -200, 0, 1, 10_000] {
            let mut clock = Clock::new(Duration::from_secs(3), drift);
            clock.leap(Moment(7_000_001), Duration::from_millis(5));
            for shown in [3_013_000_000, 3_100_000_007, 90_000_000_001].map(Moment) {
                let at = clock.when(shown);
                assert!(clock.read(at) >= shown && clock.read(Moment(at.0 - 1)) < shown, "{drift}");
            }
            assert_eq!(clock.when(Moment::NEVER), Moment::NEVER);
        }
    }
}
