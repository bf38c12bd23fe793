// SPDX-License-Identifier: Apache-2.0
//! The shard's clock: the only place that reads one for the engines.

use helio_units::{Moment, WallTime};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic moments since the shard's start, and what they are on the calendar: by its reading at the start, so that
/// one moment is always shown as the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_wall: WallTime,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), start_wall: Self::wall_now() }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The calendar's time now.
    pub(crate) fn wall_now() -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The calendar's time at a moment of this clock.
    pub(crate) fn wall(&self, at: Moment) -> WallTime {
        WallTime(self.start_wall.0 + at.0 / 1_000_000)
    }
}
