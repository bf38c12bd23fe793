// SPDX-License-Identifier: Apache-2.0
//! What happened when: a run cut into at most [`SLOTS`] slots of equal length. Where a run is longer than they reach,
//! neighbours become one and the slots twice as long, so that its memory does not grow with the run.

use serde::Serialize;
use std::time::Duration;

/// The most slots.
pub(crate) const SLOTS: usize = 128;
/// How long a slot is at first.
const FIRST_SLOT: Duration = Duration::from_millis(10);

/// One slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    count: u64,
    bytes: u64,
    sum: Duration,
    least: Duration,
    most: Duration,
}

/// A run over time.
#[derive(Clone, Debug)]
pub struct Series {
    width: Duration,
    slots: Vec<Slot>,
}

/// One slot as JSON has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Where it begins, since the run did.
    pub at_ms: f64,
    /// Flushes that ended in it.
    pub flushes: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Their least latency; 0 where there was none.
    pub min_us: u64,
    /// The mean.
    pub mean_us: u64,
    /// The most.
    pub max_us: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self { width: FIRST_SLOT, slots: Vec::with_capacity(SLOTS) }
    }
}

impl Slot {
    fn join(&mut self, other: &Self) {
        let least = match (self.count, other.count) {
            (0, _) => other.least,
            (_, 0) => self.least,
            _ => self.least.min(other.least),
        };
        *self = Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            sum: self.sum.saturating_add(other.sum),
            least,
            most: self.most.max(other.most),
        };
    }
}

impl Series {
    /// Something of `bytes` ended at `at` since the beginning and had taken `took`.
    pub fn add(&mut self, at: Duration, bytes: u64, took: Duration) {
        let n = self.reach(at);
        self.slots[n].join(&Slot { count: 1, bytes, sum: took, least: took, most: took });
    }

    /// The slot of a moment, made where it is missing.
    fn reach(&mut self, at: Duration) -> usize {
        let slot = |width: Duration| usize::try_from(at.as_nanos() / width.as_nanos().max(1));
        while slot(self.width).is_ok_and(|n| n >= SLOTS) {
            self.coarsen();
        }
        let n = slot(self.width).unwrap_or(SLOTS - 1).min(SLOTS - 1);
        if self.slots.len() <= n {
            self.slots.resize(n + 1, Slot::default());
        }
        n
    }

    fn coarsen(&mut self) {
        self.width *= 2;
        let pairs = self.slots.chunks(2).map(|pair| {
            let mut both = pair[0];
            pair.iter().skip(1).for_each(|slot| both.join(slot));
            both
        });
        self.slots = pairs.collect();
    }

    /// Adds another's slots: of streams that ran at the same time.
    pub fn merge(&mut self, mut other: Self) {
        while self.width < other.width {
            self.coarsen();
        }
        while other.width < self.width {
            other.coarsen();
        }
        self.slots.resize(self.slots.len().max(other.slots.len()), Slot::default());
        self.slots.iter_mut().zip(&other.slots).for_each(|(own, more)| own.join(more));
    }

    /// Bytes that came in the later half of the slots, and how long that half is: without a connection's slow start.
    /// The last slot is left out, since the run ended in it. All of it where there are too few slots to tell.
    #[must_use]
    pub fn later_half(&self) -> (u64, Duration) {
        let end = self.slots.len().saturating_sub(1);
        let from = end / 2;
        let bytes = self.slots[from..end].iter().map(|slot| slot.bytes).sum();
        (bytes, self.width * u32::try_from(end - from).unwrap_or(u32::MAX))
    }

    /// As JSON has it.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let point = |(n, slot): (usize, &Slot)| Point {
            at_ms: self.width.as_secs_f64() * 1e3 * n as f64,
            flushes: slot.count,
            bytes: slot.bytes,
            min_us: micros(slot.least),
            mean_us: micros(slot.sum) / slot.count.max(1),
            max_us: micros(slot.most),
        };
        self.slots.iter().enumerate().map(point).collect()
    }

    /// How long a slot is.
    #[must_use]
    pub const fn width(&self) -> Duration {
        self.width
    }
}

/// Whole microseconds.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_long_run_has_longer_slots_and_loses_nothing() {
        let mut series = Series::default();
        (0..10_000).for_each(|n| series.add(ms(n), 10, Duration::from_micros(n)));
        let points = series.points();
        assert!((SLOTS / 2..=SLOTS).contains(&points.len()), "{}", points.len());
        assert_eq!(points.iter().map(|p| p.flushes).sum::<u64>(), 10_000);
        assert_eq!((points[0].min_us, points[0].max_us), (0, 79), "eight slots became one");
        let (bytes, span) = series.later_half();
        assert_eq!(bytes as f64 / span.as_secs_f64(), 10_000.0, "10 bytes a millisecond");
    }

    #[test]
    fn an_empty_run_has_nothing_to_show() {
        assert_eq!(Series::default().later_half(), (0, Duration::ZERO));
        assert!(Series::default().points().is_empty());
    }

    proptest! {
        #[test]
        fn apart_and_together_is_the_same(
            one in prop::collection::vec((0u64..5000, 1u64..9), 1..50),
            other in prop::collection::vec((0u64..100, 1u64..9), 1..50),
        ) {
            let of = |events: &[(u64, u64)]| {
                let mut series = Series::default();
                events.iter().for_each(|(at, took)| series.add(ms(*at), *took, ms(*took)));
                series
            };
            let mut merged = of(&one);
            merged.merge(of(&other));
            let all: Vec<(u64, u64)> = one.into_iter().chain(other).collect();
            prop_assert_eq!(merged.points(), of(&all).points());
        }
    }
}
