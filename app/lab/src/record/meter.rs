// SPDX-License-Identifier: Apache-2.0
//! The arithmetic of a recording: what bursts say of a rate, and probes of everything else.

use super::wire::MOST_BURST;
use helio_netmodel::{Ppm, Weather};
use std::time::{Duration, Instant};

/// A burst takes about so long on the line: enough for the clocks of both hosts, little for whoever else is there.
const AIM: u64 = 30_000_000;
/// The fewest datagrams in a burst, and what the first one has.
pub(crate) const LEAST_BURST: u32 = 8;

/// What comes of a burst where it arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BurstMeter {
    /// Which burst.
    pub(crate) id: u64,
    /// The last that came, and when.
    pub(crate) last: Option<(u32, Instant)>,
    /// How many followed each other,
    pub(crate) pairs: u32,
    /// and the time between those, in nanoseconds.
    pub(crate) nanos: u64,
}

impl BurstMeter {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, ..Self::default() }
    }

    /// One came. Where one between two was lost, at a queue or on the way, their time says nothing.
    pub(crate) fn heard(&mut self, number: u32, now: Instant) {
        if let Some((_, before)) = self.last.filter(|(last, _)| last.checked_add(1) == Some(number))
        {
            self.pairs = self.pairs.saturating_add(1);
            self.nanos = self.nanos.saturating_add(nanos(now.duration_since(before)));
        }
        self.last = Some((number, now));
    }
}

/// A span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How many datagrams the next burst has, after one of `count` of which so many pairs took so long.
pub(crate) fn next_burst(count: u32, pairs: u32, nanos: u64) -> u32 {
    let each = (nanos / u64::from(pairs.max(1))).max(1);
    if (AIM / 2..=AIM * 2).contains(&each.saturating_mul(count.into())) {
        return count;
    }
    let fits = AIM.div_ceil(each).clamp(LEAST_BURST.into(), MOST_BURST.into());
    // The first of few are as often late as not: not too far at once.
    u32::try_from(fits).unwrap_or(MOST_BURST).min(count.saturating_mul(8))
}

/// What pairs of datagrams of so many bytes say of the rate, in bytes per second; none where they are too few.
pub(crate) fn rate(count: u32, pairs: u32, nanos: u64, size: u64) -> Option<u64> {
    let enough = pairs >= (count / 4).max(4);
    let bytes = u128::from(pairs) * u128::from(size) * 1_000_000_000;
    // A clock that stood still tells nothing.
    let rate = (enough && nanos > 0).then(|| bytes / u128::from(nanos))?;
    u64::try_from(rate).ok().filter(|rate| *rate > 0)
}

/// The times of one way, in nanoseconds, of clocks that are a constant apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<i64>);

impl Times {
    pub(crate) fn add(&mut self, time: i64) {
        self.0.push(time);
    }

    /// The least of them, and the bound of a uniform draw that would spread them so: the place k of n in their order is,
    /// in the mean, k / (n + 1) of it above the first.
    pub(crate) fn least_and_jitter(mut self) -> Option<(i64, Duration)> {
        self.0.sort_unstable();
        let (least, n) = (*self.0.first()?, self.0.len());
        let k = (n - 1) * 9 / 10;
        let spread = self.0[k].saturating_sub(least).unsigned_abs();
        let bound = u128::from(spread) * (n as u128 + 1) / (k as u128).max(1);
        let bound = Duration::from_nanos(u64::try_from(bound).unwrap_or(u64::MAX));
        Some((least, bound.min(Weather::MOST_DELAY)))
    }
}

/// The share of `all` that did not come.
pub(crate) fn lost(all: usize, came: usize) -> Ppm {
    if all == 0 {
        return Ppm::NONE;
    }
    let share = all.saturating_sub(came) as u64 * u64::from(Ppm::ALL.0) / all as u64;
    Ppm(u32::try_from(share).unwrap_or(Ppm::ALL.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_netmodel::Dice;

    fn millis(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_rate_is_told_by_those_that_follow_each_other() {
        let begun = Instant::now();
        let mut meter = BurstMeter::new(1);
        // A millisecond each; 3 was lost on the way and 6 to 8 never got into the queue.
        for (number, at) in [(0, 0), (1, 1), (2, 2), (4, 4), (5, 5), (9, 6), (10, 7)] {
            meter.heard(number, begun + millis(at));
        }
        assert_eq!((meter.pairs, meter.nanos), (4, 4_000_000));
        assert_eq!(rate(11, meter.pairs, meter.nanos, 1400), Some(1_400_000));
        assert_eq!(rate(11, 3, 3_000_000, 1400), None, "too few");
        assert_eq!(rate(20, 4, 4_000_000, 1400), None, "most are missing");
        assert_eq!(rate(8, 7, 0, 1400), None);
    }

    #[test]
    fn bursts_grow_on_fast_links_and_shrink_on_slow_ones() {
        // A gigabit: 11.2 us each. Eight times as many at once, to the bound.
        assert_eq!(next_burst(8, 7, 7 * 11_200), 64);
        assert_eq!(next_burst(64, 63, 63 * 11_200), 512);
        assert_eq!(next_burst(512, 511, 511 * 11_200), 512);
        // T1: 7.25 ms each.
        assert_eq!(next_burst(512, 30, 30 * 7_254_000), 8);
        assert_eq!(next_burst(8, 7, 7 * 7_254_000), 8);
        // 20 Mbit/s: 0.56 ms each, and then it stays.
        assert_eq!(next_burst(8, 7, 7 * 560_000), 54);
        assert_eq!(next_burst(54, 53, 53 * 560_000), 54);
        assert_eq!(next_burst(8, 0, 0), 64, "nothing known");
    }

    #[test]
    fn jitter_is_the_bound_of_the_draw_whatever_the_clocks_say() {
        let mut dice = Dice::new(5);
        let mut sum = 0;
        for _ in 0..200 {
            let mut times = Times::default();
            (0..50).for_each(|_| times.add(-7_000_000_000 + dice.below(4_000_000) as i64));
            let (least, jitter) = times.least_and_jitter().expect("fifty");
            assert!((-7_000_000_000..-6_999_000_000).contains(&least));
            sum += jitter.as_nanos();
        }
        let mean = sum / 200;
        assert!((3_900_000..4_100_000).contains(&mean), "{mean}");
        let mut one = Times::default();
        one.add(3);
        assert_eq!(one.least_and_jitter(), Some((3, Duration::ZERO)));
        assert!(Times::default().least_and_jitter().is_none());
    }

    #[test]
    fn a_straggler_is_not_the_rule() {
        let mut times = Times::default();
        (0..99).for_each(|n| times.add(1_000 + n));
        times.add(50_000_000);
        let (_, jitter) = times.least_and_jitter().expect("a hundred");
        assert!(jitter < Duration::from_nanos(200), "{jitter:?}");
        assert_eq!((lost(0, 0), lost(8, 6), lost(3, 0)), (Ppm::NONE, Ppm(250_000), Ppm::ALL));
    }
}
