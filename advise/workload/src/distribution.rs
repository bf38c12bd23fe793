// SPDX-License-Identifier: Apache-2.0
//! How values are spread: by powers of two, or value by value where there are few.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Up to so many different values are told one by one, as IBM's HADR simulator does.
const FEW: usize = 8;

/// A count of values by size. What the values are in is the caller's to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    /// One more than [`FEW`] says that there are more.
    values: BTreeMap<u64, u64>,
    /// The first counts zeros, the next the values from 2^n to 2^(n+1) - 1.
    powers: [u64; 65],
}

impl Default for Distribution {
    fn default() -> Self {
        Self { count: 0, sum: 0, min: 0, max: 0, values: BTreeMap::new(), powers: [0; 65] }
    }
}

/// A line of a distribution: the values from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value it counts.
    pub from: u64,
    /// The largest.
    pub to: u64,
    /// How many there were.
    pub count: u64,
}

impl Distribution {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.powers[64 - value.leading_zeros() as usize] += 1;
        if self.values.len() <= FEW {
            *self.values.entry(value).or_default() += 1;
        }
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest; 0 where there is none.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The largest; 0 where there is none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, rounded down; 0 where there is none.
    #[must_use]
    pub fn mean(&self) -> u64 {
        // A mean is no larger than the largest value.
        self.sum.checked_div(self.count.into()).unwrap_or(0) as u64
    }

    /// Values one by one where there are at most eight different ones, otherwise by powers of two; none is empty.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        if self.values.len() <= FEW {
            let exactly =
                |(value, count): (&u64, &u64)| Bucket { from: *value, to: *value, count: *count };
            return self.values.iter().map(exactly).collect();
        }
        let power = |n: usize| match n {
            0 => (0, 0),
            _ => (1 << (n - 1), u64::MAX >> (64 - n)),
        };
        let filled = self.powers.iter().enumerate().filter(|(_, count)| **count > 0);
        filled
            .map(|(n, count)| Bucket { from: power(n).0, to: power(n).1, count: *count })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut all = Distribution::default();
        values.into_iter().for_each(|value| all.add(value));
        all
    }

    #[test]
    fn eight_values_are_told_exactly_and_nine_by_powers_of_two() {
        let eight = of((1..=8).chain(1..=8));
        assert_eq!(eight.buckets().len(), 8);
        assert!(eight.buckets().iter().all(|b| b.from == b.to && b.count == 2));
        let nine = of(0..=8);
        let told: Vec<_> = nine.buckets().iter().map(|b| (b.from, b.to, b.count)).collect();
        assert_eq!(told, [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 4), (8, 15, 1)]);
        assert_eq!(
            (nine.count(), nine.sum(), nine.min(), nine.max(), nine.mean()),
            (9, 36, 0, 8, 4)
        );
    }

    #[test]
    fn the_largest_values_have_a_place() {
        let all = of((0..9).map(|n| u64::MAX - n));
        assert_eq!(all.buckets(), [Bucket { from: 1 << 63, to: u64::MAX, count: 9 }]);
        assert_eq!(of([]).buckets(), []);
    }
}
