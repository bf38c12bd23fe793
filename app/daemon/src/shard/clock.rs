// SPDX-License-Identifier: Apache-2.0
//! The shard's clock: the only place that reads one of the machine for the engines.
//!
//! It counts since the boot, and while the machine sleeps, too: a lease must not outlive a sleep that its other side does
//! not share.

use core::time::Duration;
use helio_driver::Host;
use helio_units::{Moment, WallTime};

/// A calendar that is further than this from the time counted was set. Less is shown as it is counted, so that one moment is
/// always shown as the same time.
const SET_BEYOND_MS: i64 = 1000;
/// Both clocks are read within this, unless the process stood still in between.
const READ_WITHIN: Duration = Duration::from_millis(100);

/// Monotonic moments since the shard's start, and what they are on the calendar.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    host: Host,
    start: Duration,
    /// The calendar's time at moment zero, in ms since 1970: negative if the calendar was set back to before the start.
    zero: i64,
}

impl Clock {
    pub(crate) fn new(host: &Host) -> Self {
        let zero = calendar(host).0 as i64;
        Self { host: Host::clone(host), start: host.since_boot(), zero }
    }

    pub(crate) fn now(&self) -> Moment {
        let elapsed = self.host.since_boot().saturating_sub(self.start);
        Moment(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The calendar's time now.
    pub(crate) fn wall_now(&self) -> WallTime {
        calendar(&self.host)
    }

    /// The calendar's time so long before a moment of this clock, which may have been before its start.
    pub(crate) fn before(&self, at: Moment, age: Duration) -> WallTime {
        self.wall(at).before(age)
    }

    /// The calendar's time at a moment of this clock.
    pub(crate) fn wall(&self, at: Moment) -> WallTime {
        WallTime(u64::try_from(self.zero + millis(at)).unwrap_or_default())
    }

    /// Follows the calendar if it was set, and returns whether it was. Moments are then shown as if it had always been so:
    /// ages stay right. A calendar before 1970 is not followed.
    pub(crate) fn follow(&mut self) -> bool {
        let (before, shows) = (self.now(), self.wall_now());
        // A process that stood still between the two readings compares a later calendar with an earlier moment.
        let now = self.now();
        now - before < READ_WITHIN && self.follow_to(now, shows)
    }

    fn follow_to(&mut self, now: Moment, shows: WallTime) -> bool {
        let zero = shows.0 as i64 - millis(now);
        let set = shows != WallTime(0) && (zero - self.zero).abs() > SET_BEYOND_MS;
        if set {
            self.zero = zero;
        }
        set
    }
}

/// What the calendar of a machine shows.
pub(crate) fn calendar(host: &Host) -> WallTime {
    WallTime(u64::try_from(host.calendar().as_millis()).unwrap_or(u64::MAX))
}

const fn millis(at: Moment) -> i64 {
    (at.0 / 1_000_000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;

    #[test]
    fn a_calendar_that_was_set_moves_every_time_shown_and_no_age() {
        let mut clock = Clock::new(&Linux::host());
        let (began, now) = (Moment::ZERO, clock.now());
        let age = |clock: &Clock| clock.wall(now).0 - clock.wall(began).0;
        let (before, real) = (age(&clock), clock.wall(now));
        assert!(!clock.follow_to(now, WallTime(real.0 + 500)), "it drifts, and was not set");
        for shows in [real.0 + 18_000_000, real.0 - 18_000_000, 100_000] {
            assert!(clock.follow_to(now, WallTime(shows)));
            assert_eq!(clock.wall(now), WallTime(shows));
            assert_eq!(age(&clock), before);
        }
        assert!(!clock.follow_to(now, WallTime(0)), "this shows no time");
    }

    #[test]
    fn a_moment_before_1970_is_shown_as_1970() {
        let host = Linux::host();
        let start = host.since_boot().saturating_sub(Duration::from_secs(3600));
        let mut clock = Clock { host, start, zero: 0 };
        assert!(clock.follow_to(clock.now(), WallTime(1)));
        assert_eq!(clock.wall(Moment::ZERO), WallTime(0));
    }
}
