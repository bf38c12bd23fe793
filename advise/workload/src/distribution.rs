// SPDX-License-Identifier: Apache-2.0
//! How values are spread: by powers of two, or value by value if there are few different ones.

use alloc::vec::Vec;

/// Up to so many different values are counted one by one, as IBM's HADR simulator does.
const FEW: usize = 8;
/// One count of zeros, and one for every power of two.
const POWERS: usize = 65;

/// A count of values by size. The unit of the values is the caller's to know. Its memory does not grow with what it
/// counts, and counting allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    /// Each value with its count, in ascending order; none if there were ever more than [`FEW`].
    values: Option<Vec<(u64, u64)>>,
    /// The first counts zeros, the next the values from 2^n to 2^(n+1) - 1.
    powers: [u64; POWERS],
}

impl Default for Distribution {
    fn default() -> Self {
        let values = Some(Vec::with_capacity(FEW));
        Self { count: 0, sum: 0, min: 0, max: 0, values, powers: [0; POWERS] }
    }
}

/// A row of a distribution: the values from `from` to `to`.
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
        self.extend_range(value, value);
        self.count += 1;
        self.sum += u128::from(value);
        self.powers[64 - value.leading_zeros() as usize] += 1;
        self.add_single(value, 1);
    }

    /// Counts every value that the other counted.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.extend_range(other.min, other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.powers.iter_mut().zip(other.powers).for_each(|(own, more)| *own += more);
        match &other.values {
            Some(values) => values.iter().for_each(|&(value, times)| self.add_single(value, times)),
            None => self.values = None,
        }
    }

    /// Extends smallest and largest; must come before the new values are in `count`.
    fn extend_range(&mut self, min: u64, max: u64) {
        self.min = if self.count == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(max);
    }

    /// Counts a value by itself, while there are few different ones.
    fn add_single(&mut self, value: u64, times: u64) {
        let Some(values) = &mut self.values else { return };
        match values.binary_search_by_key(&value, |(known, _)| *known) {
            Ok(at) => values[at].1 += times,
            Err(at) if values.len() < FEW => values.insert(at, (value, times)),
            Err(_) => self.values = None,
        }
    }

    /// How many values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest; 0 if there is none.
    #[must_use]
    pub const fn min(&self) -> u64 {
        self.min
    }

    /// The largest; 0 if there is none.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The mean, rounded down; 0 if there is none.
    #[must_use]
    pub fn mean(&self) -> u64 {
        // A mean is no larger than the largest value.
        self.sum.checked_div(self.count.into()).unwrap_or(0) as u64
    }

    /// Whether every bucket stands for one value: there are at most eight different ones.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.values.is_some()
    }

    /// Values one by one if there are at most eight different ones, otherwise by powers of two; none is empty.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        if let Some(values) = &self.values {
            let exactly = |&(value, count): &(u64, u64)| Bucket { from: value, to: value, count };
            return values.iter().map(exactly).collect();
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
    use proptest::prelude::*;

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
        assert!(eight.is_exact());
        let nine = of(0..=8);
        assert!(!nine.is_exact());
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

    #[test]
    fn a_sum_beyond_64_bits_and_its_mean_are_exact() {
        let mut all = of([u64::MAX; 3]);
        all.merge(&of([u64::MAX - 4]));
        assert_eq!(all.sum(), 4 * u128::from(u64::MAX) - 4);
        assert_eq!(all.mean(), u64::MAX - 1);
    }

    proptest! {
        #[test]
        fn counting_apart_and_together_is_the_same(
            one in prop::collection::vec(0u64..5000, 0..40),
            other in prop::collection::vec(0u64..12, 0..40),
        ) {
            let together = of(one.iter().chain(&other).copied());
            let (mut merged, mut reversed) = (of(one.clone()), of(other.clone()));
            merged.merge(&of(other));
            reversed.merge(&of(one));
            prop_assert_eq!(&merged, &together);
            prop_assert_eq!(&reversed, &together);
        }
    }
}
