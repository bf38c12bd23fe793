// SPDX-License-Identifier: Apache-2.0
//! How long before something is due to stop sleeping and to watch the clock instead.

use std::time::Duration;

/// The least lead: a system call and a look at the clock.
const LEAST: Duration = Duration::from_micros(10);
/// The most, so that a machine that is always late does not cost a processor.
const MOST: Duration = Duration::from_micros(250);
/// One wake-up earlier than expected counts this little.
const FORGET: u32 = 8;

/// The lead: half as much again as the kernel woke us late of late. A processor that slept long wakes slowly, one
/// that is busy wakes at once, so a full line costs little watching, and an idle one is exact.
#[derive(Debug)]
pub(crate) struct Lead {
    span: Duration,
}

impl Lead {
    pub(crate) const fn new() -> Self {
        Self { span: MOST }
    }

    pub(crate) const fn span(&self) -> Duration {
        self.span
    }

    /// A sleep ended so late.
    pub(crate) fn learn(&mut self, late: Duration) {
        let wanted = (late * 3 / 2).clamp(LEAST, MOST);
        self.span = wanted.max(self.span - self.span.saturating_sub(wanted) / FORGET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_at_once_and_shrinks_by_and_by_within_its_bounds() {
        let mut lead = Lead::new();
        let mut after = |micros, times: u32| {
            (0..times).for_each(|_| lead.learn(Duration::from_micros(micros)));
            lead.span()
        };
        assert!(after(2, 100) < LEAST + LEAST / 2);
        assert_eq!(after(100, 1), Duration::from_micros(150));
        assert!(after(2, 1) > Duration::from_micros(130));
        assert_eq!(after(20_000, 1), MOST);
    }
}
