// SPDX-License-Identifier: Apache-2.0
//! The shard's clock: the only place that reads one for the engines.

use helio_units::{Moment, WallTime};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic moments since the shard's start, and what they are on the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
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
        let ago = self.now() - at;
        WallTime(
            Self::wall_now().0.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}
