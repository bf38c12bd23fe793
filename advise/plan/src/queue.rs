// SPDX-License-Identifier: Apache-2.0
//! Queues: how fast they fill and drain, when they are full, and when they are too small.
//!
//! Sun's arithmetic (remote mirror 3.1, appendix A), with what it drains by, one call per round trip, beside what a
//! stream drains by, the link.

use helio_units::{Bytes, Rate, SECTOR};
use std::time::Duration;

/// How often something happens in a second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PerSecond(pub f64);

impl PerSecond {
    /// One at a time, each as long as `span`: "IOPs … are computed as 1/(latency in seconds)".
    #[must_use]
    pub fn one_at_a_time(span: Duration) -> Self {
        Self(1.0 / span.as_secs_f64())
    }

    /// How long each takes where they come one at a time.
    #[must_use]
    pub fn span(self) -> Duration {
        Duration::try_from_secs_f64(1.0 / self.0).unwrap_or(Duration::MAX)
    }

    /// Bytes per second where each carries `size`: the fill rate of a queue.
    #[must_use]
    pub fn of(self, size: Bytes) -> Rate {
        Rate((self.0 * size.0 as f64).round() as u64)
    }
}

/// The most Sun's remote mirror sends in one call.
pub const CALL: Bytes = Bytes::kib(32);
/// How long a write of Sun's remote mirror waits each time it finds the queue full.
pub const THROTTLE: Duration = Duration::from_millis(2);
/// From this share of the bound on, in percent, Sun advises to keep an eye on the high-water mark.
pub const WATCH_PERCENT: u64 = 80;
/// Above this share of the bound, in percent, Sun advises a larger queue.
pub const ENLARGE_PERCENT: u64 = 85;

/// So many blocks of 512 bytes.
#[must_use]
pub fn blocks(count: u64) -> Bytes {
    Bytes(count.saturating_mul(SECTOR))
}

/// The first whole block at or above that share of a queue's bound.
#[must_use]
pub fn block_at(bound: Bytes, percent: u64) -> u64 {
    (bound.0 / SECTOR * percent).div_ceil(100)
}

/// The room each of `items` has where all of them share `bound`.
#[must_use]
pub fn room_each(bound: Bytes, items: u64) -> Bytes {
    Bytes(bound.0 / items.max(1))
}

/// How long writes have waited that found Sun's queue full `count` times.
#[must_use]
pub fn throttled(count: u32) -> Duration {
    THROTTLE * count
}

/// What a flusher drains that waits for each call of up to [`CALL`] before the next, times `flushers` (one in Sun's
/// remote mirror 3.1, two in 4.0).
#[must_use]
pub fn drain_by_calls(write: Bytes, rtt: Duration, flushers: u64) -> Rate {
    let calls = write.0.div_ceil(CALL.0).max(1);
    let one = PerSecond::one_at_a_time(rtt).0 / calls as f64;
    PerSecond(one * flushers as f64).of(write)
}

/// What goes into a queue, and what comes out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Written by the application.
    pub fill: Rate,
    /// Taken by the link.
    pub drain: Rate,
}

impl Flow {
    /// How long until so much room is used up; nothing where it never is, since as much drains as comes.
    #[must_use]
    pub fn time_to_full(self, room: Bytes) -> Option<Duration> {
        let growth = self.fill.0.checked_sub(self.drain.0).filter(|growth| *growth > 0)?;
        Some(Rate(growth).time_for(room))
    }

    /// How long until so much that has piled up is gone; nothing where it never is, since more comes than drains.
    #[must_use]
    pub fn time_to_empty(self, held: Bytes) -> Option<Duration> {
        let shrink = self.drain.0.checked_sub(self.fill.0).filter(|shrink| *shrink > 0)?;
        Some(Rate(shrink).time_for(held))
    }

    /// What piles up in `span`.
    #[must_use]
    pub fn piled_up(self, span: Duration) -> Bytes {
        self.fill.bytes_in(span).saturating_sub(self.drain.bytes_in(span))
    }
}

/// What a high-water mark says about a queue's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighWater {
    /// Below [`WATCH_PERCENT`].
    Fine,
    /// From there up to [`ENLARGE_PERCENT`].
    Watch,
    /// Above: "increase the queue size".
    Enlarge,
}

/// Judges a high-water mark by Sun's rule: "if the HWM … frequently reaches 80 to 85 percent, then increase the queue
/// size".
#[must_use]
pub fn high_water(mark: Bytes, bound: Bytes) -> HighWater {
    let share = u128::from(mark.0) * 100;
    let reaches = |percent: u64| share >= u128::from(bound.0) * u128::from(percent);
    match (reaches(WATCH_PERCENT), reaches(ENLARGE_PERCENT)) {
        (false, _) => HighWater::Fine,
        (true, false) => HighWater::Watch,
        (true, true) => HighWater::Enlarge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    #[test]
    fn a_queue_fills_by_what_does_not_drain() {
        let flow = Flow { fill: Rate(400 << 10), drain: Rate(160 << 10) };
        let full = flow.time_to_full(Bytes::mib(8)).expect("it fills");
        assert_eq!(full.as_millis(), 34_133);
        let twice = flow.time_to_full(Bytes::mib(16)).expect("it fills");
        assert_eq!(twice.as_millis(), 68_266);
        assert_eq!(flow.time_to_empty(Bytes::mib(8)), None);
        let level = Flow { fill: Rate(160 << 10), drain: Rate(160 << 10) };
        assert_eq!((level.time_to_full(Bytes(1)), level.time_to_empty(Bytes(1))), (None, None));
    }

    #[test]
    fn an_outage_piles_up_all_that_comes_and_a_burst_what_does_not_drain() {
        let flow = Flow { fill: Rate(3_000_000), drain: Rate(0) };
        assert_eq!(flow.piled_up(Duration::from_secs(10)), Bytes(30_000_000));
        let burst = Flow { drain: Rate(1_000_000), ..flow };
        assert_eq!(burst.piled_up(Duration::from_secs(10)), Bytes(20_000_000));
    }

    #[test]
    fn large_writes_take_several_calls() {
        let kib = |n: u64| Rate(n << 10);
        assert_eq!(drain_by_calls(Bytes::kib(8), RTT, 1), kib(160));
        assert_eq!(drain_by_calls(Bytes::kib(32), RTT, 1), kib(640));
        assert_eq!(drain_by_calls(Bytes::kib(64), RTT, 1), kib(640));
        assert_eq!(drain_by_calls(Bytes::kib(64), RTT, 2), kib(1280));
    }

    #[test]
    fn a_high_water_mark_is_judged_at_eighty_and_eighty_five() {
        let bound = blocks(16_384);
        for (mark, says) in [
            (878, HighWater::Fine),
            (13_107, HighWater::Fine),
            (13_108, HighWater::Watch),
            (13_926, HighWater::Watch),
            (13_927, HighWater::Enlarge),
            (16_380, HighWater::Enlarge),
        ] {
            assert_eq!(high_water(blocks(mark), bound), says, "{mark}");
        }
    }
}
