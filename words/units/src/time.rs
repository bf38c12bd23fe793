// SPDX-License-Identifier: Apache-2.0
//! Moments. Spans of time are `core::time::Duration`.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A reading of one node's monotonic clock, in nanoseconds since a start that means nothing elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The clock's start.
    pub const ZERO: Self = Self(0);
    /// Later than any reading.
    pub const NEVER: Self = Self(u64::MAX);

    /// The span from `earlier` to here, zero where `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// A reading of the calendar clock, in milliseconds since 1970-01-01 UTC. For people, and for what they schedule: replication
/// decides nothing by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

impl WallTime {
    /// The time that long before, and 1970 if it was earlier.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time of day alone, to the second, with `Z` for UTC.
    #[must_use]
    pub fn time(self) -> TimeOfDay {
        TimeOfDay(self)
    }
}

/// The time of day of an instant.
#[derive(Clone, Copy, Debug)]
pub struct TimeOfDay(WallTime);

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.0 / 1000;
        let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{h:02}:{m:02}:{s:02}Z")
    }
}

/// Prints as `2026-11-20 20:15:04Z`; with a precision of 3, as `2026-11-20 20:15:04.989Z`.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        let (year, month, day) = civil_from_days(seconds / 86_400);
        let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}")?;
        match f.precision() {
            Some(3) => write!(f, ".{:03}Z", self.0 % 1000),
            _ => f.write_str("Z"),
        }
    }
}

/// The Gregorian date of a day counted from 1970-01-01, by walking 400-year eras that start on 1 March.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn calendar_dates_are_right_around_leap_days() {
        assert_eq!(WallTime(0).to_string(), "1970-01-01 00:00:00Z");
        assert_eq!(WallTime(951_782_400_000).to_string(), "2000-02-29 00:00:00Z");
        assert_eq!(WallTime(1_795_205_704_000).to_string(), "2026-11-20 20:15:04Z");
        let precise = alloc::format!("{:.3}", WallTime(1_795_205_704_089));
        assert_eq!(precise, "2026-11-20 20:15:04.089Z");
    }

    #[test]
    fn moments_never_run_backwards_past_zero() {
        assert_eq!(Moment(5).since(Moment(9)), Duration::ZERO);
        assert_eq!(Moment(9) - Moment(5), Duration::from_nanos(4));
        assert_eq!(Moment::NEVER + Duration::from_secs(1), Moment::NEVER);
    }
}
