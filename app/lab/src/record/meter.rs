// SPDX-License-Identifier: Apache-2.0
//! The arithmetic of a recording: what bursts say of a rate, and probes of everything else.

use super::socket::When;
use super::wire::MOST_BURST;
use helio_netmodel::{Ppm, Weather};
use std::time::{Duration, Instant};

/// A burst takes about so long on the line: enough for jitter and hosts that are busy, little for whoever else is there.
const AIM: u64 = 50_000_000;
/// The fewest datagrams in a burst, and what the first one has.
pub(crate) const LEAST_BURST: u32 = 8;

/// So often nothing was there yet in the course of a burst that tells something.
const LEAST_WAITS: usize = 3;

/// What comes of a burst where it arrives.
#[derive(Clone, Debug, Default)]
pub(crate) struct BurstMeter {
    /// Which burst.
    pub(crate) id: u64,
    /// Which of it came, in their order, and when.
    came: Vec<(u32, When)>,
}

impl BurstMeter {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, came: Vec::new() }
    }

    /// One came.
    pub(crate) fn heard(&mut self, number: u32, when: When) {
        let next = self.came.last().is_none_or(|(last, _)| *last < number);
        if next && number < MOST_BURST {
            self.came.push((number, when));
        }
    }

    /// The last that came, and when.
    pub(crate) fn last(&self) -> Option<(u32, Instant)> {
        self.came.last().map(|(number, when)| (*number, when.at))
    }

    /// How many datagrams of `count` the line served between the first and the last, and in how many nanoseconds. Those
    /// that were lost on the way took their time on the line, those that found a full queue did not: the time between
    /// their neighbours tells. The first quarter does not count: who waits for it wakes late, and on a line that keeps
    /// order a late one holds up the others, which only evens out after a while. Nothing is told where this end was
    /// away meanwhile: how fast it took what had come is not how fast that came.
    pub(crate) fn served(&self, count: u32) -> (u32, u64) {
        let gaps = |(one, other): (&(u32, When), &(u32, When))| {
            (other.0 - one.0, nanos(other.1.at.duration_since(one.1.at)))
        };
        let settled = self.came.partition_point(|(number, _)| *number < count / 4);
        let came = &self.came[settled..];
        if came.iter().filter(|(_, when)| when.waited_for).count() < LEAST_WAITS {
            return (0, 0);
        }
        let gaps: Vec<(u32, u64)> = came.iter().zip(came.iter().skip(1)).map(gaps).collect();
        let pairs = gaps.iter().filter(|(ahead, _)| *ahead == 1);
        let (pairs, between) = pairs.fold((0, 0), |(n, sum), (_, gap)| (n + 1, sum + gap));
        let Some(each) = u64::checked_div(between, pairs).filter(|each| *each > 0) else {
            return (0, 0);
        };
        let served = |&(ahead, gap): &(u32, u64)| {
            let fit = (gap + each / 2) / each;
            u32::try_from(fit).unwrap_or(ahead).clamp(1, ahead)
        };
        (gaps.iter().map(served).sum(), gaps.iter().map(|(_, gap)| gap).sum())
    }
}

/// A span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How many datagrams the next burst has, after one of `count` of which so many were served in so long.
pub(crate) fn next_burst(count: u32, served: u32, nanos: u64) -> u32 {
    let each = (nanos / u64::from(served.max(1))).max(1);
    if (AIM / 2..=AIM * 2).contains(&each.saturating_mul(count.into())) {
        return count;
    }
    let fits = AIM.div_ceil(each).clamp(LEAST_BURST.into(), MOST_BURST.into());
    // The first of few are as often late as not: not too far at once.
    u32::try_from(fits).unwrap_or(MOST_BURST).min(count.saturating_mul(8))
}

/// What datagrams of so many bytes say of the rate, in bytes per second; none where they are too few.
pub(crate) fn rate(count: u32, served: u32, nanos: u64, size: u64) -> Option<u64> {
    let enough = served >= (count / 8).max(3);
    let bytes = u128::from(served) * u128::from(size) * 1_000_000_000;
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
    fn what_was_lost_on_the_way_took_its_time_and_what_found_a_full_queue_did_not() {
        let begun = Instant::now();
        let mut meter = BurstMeter::new(1);
        // A millisecond each; 3 was lost on the way and 6 to 8 never got into the queue; the first woke somebody late.
        for (number, at) in
            [(0, 9), (1, 10), (2, 11), (4, 13), (5, 14), (9, 15), (10, 16), (10, 17)]
        {
            meter.heard(number, When { at: begun + millis(at), waited_for: true });
        }
        assert_eq!(meter.last(), Some((10, begun + millis(16))), "one that comes twice came once");
        assert_eq!(meter.served(0), (7, 7_000_000));
        assert_eq!(meter.served(8), (5, 5_000_000), "behind the first quarter");
        assert_eq!(rate(11, 7, 7_000_000, 1400), Some(1_400_000));
        assert_eq!(rate(11, 2, 3_000_000, 1400), None, "too few");
        assert_eq!(rate(40, 4, 4_000_000, 1400), None, "most are missing");
        assert_eq!(rate(8, 7, 0, 1400), None);
        let mut apart = BurstMeter::new(2);
        let now = When { at: begun, waited_for: true };
        [0, 2, 4].iter().for_each(|number| apart.heard(*number, now));
        assert_eq!((apart.served(5), BurstMeter::default().served(8)), ((0, 0), (0, 0)));
        (0..2 * MOST_BURST).for_each(|number| apart.heard(number, now));
        assert!(apart.came.len() <= MOST_BURST as usize, "it is bounded");
        let mut away = BurstMeter::new(3);
        for number in 0..64_u32 {
            let at = begun + Duration::from_micros(number.into());
            away.heard(number, When { at, waited_for: number < 17 });
        }
        assert_eq!(away.served(64), (0, 0), "all of it was there when this end looked");
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
        assert_eq!(next_burst(8, 7, 7 * 560_000), 64);
        assert_eq!(next_burst(64, 63, 63 * 560_000), 64);
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
