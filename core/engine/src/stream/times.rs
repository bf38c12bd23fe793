// SPDX-License-Identifier: Apache-2.0
//! How long answers took: a histogram whose memory does not grow with what it counts. Counting is an addition.
//!
//! Absent on purpose: what is done about it; `helio advise` holds it against a forecast.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;
use helio_format::message::ItemKind;

/// Every power of two of microseconds is cut in so many: a time is told right to a thirty-second of it.
const CUTS: u64 = 32;
/// From here on times are not told apart: 18 minutes.
const LONGEST: u64 = (1 << 30) - 1;
/// The first [`CUTS`] microseconds one by one, and [`CUTS`] for every power of two behind them.
const BUCKETS: usize = index(LONGEST) + 1;

/// Times, counted.
#[derive(Clone, Debug)]
struct Times {
    counts: Box<[u64]>,
    count: u64,
    most: Duration,
}

/// What is told of times that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimesStatus {
    /// How many there are.
    pub count: u64,
    /// What half of them do not exceed; zero where there are none.
    pub median: Duration,
    /// What 99 of 100 do not exceed.
    pub p99: Duration,
    /// The longest.
    pub most: Duration,
}

/// How long answers took, from acceptance on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerTimes {
    /// Of writes, zeroes and discards that were done.
    pub writes: TimesStatus,
    /// Of flushes that were done.
    pub flushes: TimesStatus,
}

/// The times of one primary's answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    writes: Times,
    flushes: Times,
}

impl Answers {
    /// A request of this kind was done.
    pub(crate) fn add(&mut self, kind: ItemKind, took: Duration) {
        let of = if kind == ItemKind::Flush { &mut self.flushes } else { &mut self.writes };
        of.add(took);
    }

    pub(crate) fn status(&self) -> AnswerTimes {
        AnswerTimes { writes: self.writes.status(), flushes: self.flushes.status() }
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.flushes.clear();
    }
}

const fn index(micros: u64) -> usize {
    if micros < CUTS {
        return micros as usize;
    }
    let shift = micros.ilog2() - CUTS.ilog2();
    (CUTS * shift as u64 + (micros >> shift)) as usize
}

/// The largest time that is counted there.
const fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < CUTS {
        return index;
    }
    let shift = index / CUTS - 1;
    ((index - CUTS * shift + 1) << shift) - 1
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), count: 0, most: Duration::ZERO }
    }
}

impl Times {
    /// Counts one.
    fn add(&mut self, took: Duration) {
        let micros =
            took.as_secs().saturating_mul(1_000_000).saturating_add(took.subsec_micros().into());
        self.counts[index(micros.min(LONGEST))] += 1;
        self.count += 1;
        self.most = self.most.max(took);
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.most) = (0, Duration::ZERO);
    }

    fn status(&self) -> TimesStatus {
        let (count, most) = (self.count, self.most);
        TimesStatus { count, median: self.at(50), p99: self.at(99), most }
    }

    /// What so many percent do not exceed.
    fn at(&self, percent: u64) -> Duration {
        let wanted =
            (self.count / 100 * percent + (self.count % 100 * percent).div_ceil(100)).max(1);
        let mut seen = 0;
        let reached = |counted: &u64| {
            seen += counted;
            seen >= wanted
        };
        match self.counts.iter().position(reached) {
            // Nothing took longer than what took longest, whatever else is counted with it.
            Some(at) if at < BUCKETS - 1 => Duration::from_micros(upper(at)).min(self.most),
            _ => self.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn of(all: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::default();
        all.into_iter().for_each(|n| times.add(micros(n)));
        times
    }

    #[test]
    fn every_time_has_one_place_and_places_are_in_order() {
        for at in 0..BUCKETS {
            assert_eq!(index(upper(at)), at);
            assert!(at + 1 == BUCKETS || index(upper(at) + 1) == at + 1, "{at}");
        }
        assert_eq!(upper(BUCKETS - 1), LONGEST);
        assert_eq!(BUCKETS, 832, "what a primary spends on it, twice");
    }

    #[test]
    fn one_of_a_hundred_may_take_longer_and_two_may_not() {
        let p99 = |slow| of((slow..100).map(|_| 10).chain((0..slow).map(|_| 9000))).status().p99;
        assert_eq!(p99(0), micros(10));
        assert_eq!(p99(1), micros(10));
        assert_eq!(p99(2), micros(9000), "nothing took longer");
    }

    #[test]
    fn nothing_is_told_of_nothing_and_what_takes_for_ever_is_told_by_the_longest() {
        let mut times = of([]);
        assert_eq!(times.status(), TimesStatus::default());
        times.add(Duration::MAX);
        times.add(Duration::from_secs(7200));
        let told = times.status();
        assert_eq!((told.count, told.median, told.p99), (2, Duration::MAX, Duration::MAX));
        times.clear();
        assert_eq!(times.status(), TimesStatus::default());
    }

    proptest! {
        #[test]
        fn what_is_told_is_right_to_a_thirty_second(
            mut all in prop::collection::vec(0u64..2_000_000, 1..400),
        ) {
            let told = of(all.iter().copied()).status();
            all.sort_unstable();
            for (percent, found) in [(50, told.median), (99, told.p99)] {
                let exact = all[(all.len() * percent).div_ceil(100) - 1];
                let found = found.as_micros() as u64;
                prop_assert!(found >= exact && found <= exact + exact / CUTS, "{found} for {exact}");
            }
        }
    }
}
