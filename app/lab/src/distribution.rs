// SPDX-License-Identifier: Apache-2.0
//! How often which number came: exact while there are few different ones, in powers of two beyond. Its memory does not
//! grow with what it counts.

use serde::Serialize;

/// Up to so many different values are told one by one, as the HADR simulator does.
pub(crate) const EXACTLY: usize = 8;
/// One bucket for 0, and one for every power of two.
const BUCKETS: usize = 65;

/// Numbers, counted.
#[derive(Clone, Debug)]
pub struct Distribution {
    count: u64,
    sum: u64,
    least: u64,
    most: u64,
    /// The values seen, while there are at most [`EXACTLY`].
    exact: Vec<(u64, u64)>,
    buckets: [u64; BUCKETS],
}

/// One line of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The least value it stands for.
    pub from: u64,
    /// The largest.
    pub to: u64,
    /// How many there were.
    pub count: u64,
}

/// A distribution as JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many numbers.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The least; 0 where there is none.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The mean, rounded down.
    pub avg: u64,
    /// Values one by one where there are few, ranges otherwise.
    pub lines: Vec<Line>,
}

impl Default for Distribution {
    fn default() -> Self {
        let exact = Vec::with_capacity(EXACTLY + 1);
        Self { count: 0, sum: 0, least: u64::MAX, most: 0, exact, buckets: [0; BUCKETS] }
    }
}

fn bucket(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

impl Distribution {
    /// Counts one.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    fn add_many(&mut self, value: u64, times: u64) {
        self.count += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        self.buckets[bucket(value)] += times;
        if self.exact.len() > EXACTLY {
            return;
        }
        match self.exact.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += times,
            None => self.exact.push((value, times)),
        }
    }

    /// Counts what another counted.
    pub fn merge(&mut self, other: &Self) {
        let whole = self.exact.len() <= EXACTLY && other.exact.len() <= EXACTLY;
        if whole {
            other.exact.iter().for_each(|(value, times)| self.add_many(*value, *times));
            return;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.buckets.iter_mut().zip(other.buckets).for_each(|(own, more)| *own += more);
        // One value too many, whatever it is: no longer exact.
        self.exact.resize(EXACTLY + 1, (0, 0));
    }

    /// How many numbers there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Whether every value is known by itself.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact.len() <= EXACTLY
    }

    /// As it is printed.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut lines: Vec<Line> = if self.is_exact() {
            self.exact.iter().map(|&(v, count)| Line { from: v, to: v, count }).collect()
        } else {
            let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
            filled.map(|(n, &count)| Line { from: low(n), to: high(n), count }).collect()
        };
        lines.sort_unstable_by_key(|line| line.from);
        Summary {
            count: self.count,
            sum: self.sum,
            min: if self.count == 0 { 0 } else { self.least },
            max: self.most,
            avg: self.sum / self.count.max(1),
            lines,
        }
    }
}

/// The least value of a bucket.
fn low(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << (bucket - 1) }
}

/// Its largest.
fn high(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { (low(bucket) - 1).saturating_add(low(bucket)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let mut all = Distribution::default();
        values.iter().for_each(|value| all.add(*value));
        all
    }

    #[test]
    fn eight_values_are_told_one_by_one_and_nine_in_powers_of_two() {
        let eight = of(&[5, 1, 2, 3, 4, 5, 6, 7, 8]).summary();
        assert_eq!(eight.lines.len(), 8);
        assert_eq!(eight.lines[4], Line { from: 5, to: 5, count: 2 });
        let nine = of(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).summary();
        let line = |from, to, count| Line { from, to, count };
        assert_eq!(nine.lines, [line(1, 1, 1), line(2, 3, 2), line(4, 7, 4), line(8, 15, 2)]);
        assert_eq!((nine.count, nine.sum, nine.min, nine.max, nine.avg), (9, 45, 1, 9, 5));
    }

    #[test]
    fn the_ends_of_what_can_be_counted_have_a_line() {
        let mut wide = of(&[0, u64::MAX]);
        (1..9).for_each(|value| wide.add(value));
        let lines = wide.summary().lines;
        assert_eq!(lines.first(), Some(&Line { from: 0, to: 0, count: 1 }));
        assert_eq!(lines.last(), Some(&Line { from: 1 << 63, to: u64::MAX, count: 1 }));
        assert_eq!(Distribution::default().summary().lines, []);
        assert_eq!(Distribution::default().summary().min, 0);
    }

    proptest! {
        #[test]
        fn counting_apart_and_together_is_the_same(
            one in prop::collection::vec(0u64..5000, 0..40),
            other in prop::collection::vec(0u64..12, 0..40),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&other));
            let all: Vec<u64> = one.into_iter().chain(other).collect();
            prop_assert_eq!(merged.summary(), of(&all).summary());
        }
    }
}
