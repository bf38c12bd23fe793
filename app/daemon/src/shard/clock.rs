// SPDX-License-Identifier: Apache-2.0
//! The shard's clock: the only place that reads one for the engines.
//!
//! It counts since the boot, and while the machine sleeps, too: a lease must not outlive a sleep that its other side does
//! not share.

use core::time::Duration;
use helio_units::{Moment, WallTime};
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Monotonic moments since the shard's start, and what they are on the calendar: by its reading at the start, so that
/// one moment is always shown as the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Duration,
    start_wall: WallTime,
}

/// What the boot's clock shows.
fn since_boot() -> Duration {
    let shown = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(shown.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(shown.tv_nsec).unwrap_or_default())
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: since_boot(), start_wall: Self::wall_now() }
    }

    pub(crate) fn now(&self) -> Moment {
        let elapsed = since_boot().saturating_sub(self.start);
        Moment(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The calendar's time now.
    pub(crate) fn wall_now() -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The calendar's time so long before a moment of this clock, which may have been before its start.
    pub(crate) fn before(&self, at: Moment, age: Duration) -> WallTime {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        WallTime(self.wall(at).0.saturating_sub(age))
    }

    /// The calendar's time at a moment of this clock.
    pub(crate) fn wall(&self, at: Moment) -> WallTime {
        WallTime(self.start_wall.0 + at.0 / 1_000_000)
    }
}
