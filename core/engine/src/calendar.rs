// SPDX-License-Identifier: Apache-2.0
//! What time it is for people.

use core::time::Duration;
use helio_units::{Moment, WallTime};

/// What the calendar showed, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calendar {
    told: Option<(Moment, WallTime)>,
}

impl Calendar {
    pub(crate) fn told(now: Moment, shows: WallTime) -> Self {
        Self { told: Some((now, shows)) }
    }

    /// A moment in ms since 1970; 0 where that is unknown.
    pub(crate) fn at(self, moment: Moment) -> u64 {
        let Some((told, shows)) = self.told else { return 0 };
        let millis = |span: Duration| span.as_millis() as u64;
        (shows.0 + millis(moment - told)).saturating_sub(millis(told - moment))
    }
}
