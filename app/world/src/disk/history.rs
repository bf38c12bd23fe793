// SPDX-License-Identifier: Apache-2.0
//! One value on a disk that loses what was not flushed: what is durable, and every value written since.

use helio_netmodel::Dice;

/// Versions of one value that are kept between flushes; more of them would not make a power cut crueller.
const VERSIONS: usize = 8;

/// A number that grows with every change of a disk, so that a flush can name the changes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

#[derive(Clone, Debug)]
struct Version<T> {
    stamp: Stamp,
    value: T,
    /// A failed flush dropped it: it can be read until the cache drops it, and no later flush makes it durable.
    lost: bool,
}

/// A value with what becomes of it in a power cut.
#[derive(Clone, Debug)]
pub(crate) struct History<T> {
    durable: T,
    /// Written since, in order.
    later: Vec<Version<T>>,
}

impl<T: Clone> History<T> {
    pub(crate) const fn new(durable: T) -> Self {
        Self { durable, later: Vec::new() }
    }

    /// What a read returns.
    pub(crate) fn current(&self) -> &T {
        self.later.last().map_or(&self.durable, |version| &version.value)
    }

    /// What the disk has without the cache.
    pub(crate) fn on_disk(&self) -> &T {
        let kept = self.later.iter().rfind(|version| !version.lost);
        kept.map_or(&self.durable, |version| &version.value)
    }

    /// Whether a power cut leaves it as it is.
    pub(crate) fn is_settled(&self) -> bool {
        self.later.is_empty()
    }

    /// Writes it. `flushes` are the stamps up to which flushes under way must make changes durable.
    pub(crate) fn put(&mut self, stamp: Stamp, value: T, flushes: &[Stamp]) {
        self.later.push(Version { stamp, value, lost: false });
        if self.later.len() > VERSIONS {
            let needed = |pair: &[Version<T>]| {
                flushes.iter().any(|upto| (pair[0].stamp..pair[1].stamp).contains(upto))
            };
            if let Some(spare) = self.later.windows(2).position(|pair| !needed(pair)) {
                self.later.remove(spare);
            }
        }
    }

    /// Makes the last change up to `upto` durable.
    pub(crate) fn flush(&mut self, upto: Stamp) {
        let kept = |version: &Version<T>| version.stamp <= upto && !version.lost;
        if let Some(last) = self.later.iter().rposition(kept) {
            let version = self.later.drain(..=last).next_back();
            self.durable = version.map_or(self.durable.clone(), |version| version.value);
            // A disk has many values, most of them settled.
            if self.later.is_empty() {
                self.later = Vec::new();
            }
        }
    }

    /// A flush failed: no later one makes the changes up to `upto` durable that can be lost.
    pub(crate) fn lose(&mut self, upto: Stamp, can_be: impl Fn(&T) -> bool) {
        for version in self.later.iter_mut().filter(|version| version.stamp <= upto) {
            version.lost |= can_be(&version.value);
        }
    }

    /// The cache is dropped: what no flush can save is read from the disk again.
    pub(crate) fn drop_cache(&mut self) {
        if self.later.last().is_some_and(|version| version.lost) {
            let kept = self.later.iter().rposition(|version| !version.lost);
            self.later.truncate(kept.map_or(0, |last| last + 1));
        }
    }

    /// The power is cut: one of the values since the last flush is left.
    pub(crate) fn cut(&mut self, dice: &mut Dice) {
        let which = dice.below(self.later.len() as u64 + 1) as usize;
        if let Some(version) = which.checked_sub(1).map(|at| self.later.swap_remove(at)) {
            self.durable = version.value;
        }
        self.later.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_written_before_it_began() {
        let mut value = History::new(0);
        value.put(Stamp(1), 1, &[]);
        value.put(Stamp(2), 2, &[Stamp(1)]);
        value.flush(Stamp(1));
        assert_eq!((value.durable, *value.current()), (1, 2));
        value.flush(Stamp(2));
        assert!(value.is_settled());
    }

    #[test]
    fn a_flush_under_way_finds_its_version_however_many_follow() {
        let mut value = History::new(0);
        for n in 1..100 {
            value.put(Stamp(n), n, &[Stamp(20)]);
        }
        assert!(value.later.len() <= VERSIONS);
        value.flush(Stamp(20));
        assert_eq!((value.durable, *value.current()), (20, 99));
    }

    #[test]
    fn what_a_failed_flush_lost_is_read_until_the_cache_drops_it() {
        let mut value = History::new(0);
        value.put(Stamp(1), 1, &[]);
        value.lose(Stamp(1), |_| true);
        value.flush(Stamp(1));
        assert_eq!((value.durable, *value.current(), *value.on_disk()), (0, 1, 0));
        value.drop_cache();
        assert_eq!(*value.current(), 0);
    }

    #[test]
    fn a_power_cut_leaves_any_value_since_the_last_flush() {
        let left: std::collections::BTreeSet<u64> = (0..100)
            .map(|seed| {
                let mut value = History::new(0);
                for n in 1..4 {
                    value.put(Stamp(n), n, &[]);
                }
                value.flush(Stamp(1));
                value.cut(&mut Dice::new(seed));
                *value.current()
            })
            .collect();
        assert_eq!(left.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }
}
