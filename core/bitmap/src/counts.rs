// SPDX-License-Identifier: Apache-2.0
//! How many items of the queue touch a region, for the few regions that any touches.

use alloc::vec;
use alloc::vec::Vec;

/// Counts per region, for the few regions that have one: open addressing with linear probing, deletion by moving
/// the followers back. Slots hold region + 1, so that zero means free.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    slots: Vec<(u64, u32)>,
    used: usize,
}

impl Counts {
    fn home(&self, region: u64) -> usize {
        (region.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.slots.len() - 1)
    }

    fn find(&self, region: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(region);
        while self.slots[at].0 != 0 {
            if self.slots[at].0 == region + 1 {
                return Some(at);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    #[inline]
    pub(crate) fn has(&self, region: u64) -> bool {
        self.find(region).is_some()
    }

    /// How many items touch the region.
    #[inline]
    pub(crate) fn count(&self, region: u64) -> u32 {
        self.find(region).map_or(0, |at| self.slots[at].1)
    }

    #[inline]
    pub(crate) fn add(&mut self, region: u64) {
        if let Some(at) = self.find(region) {
            self.slots[at].1 += 1;
            return;
        }
        if self.used * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        self.insert(region, 1);
    }

    fn insert(&mut self, region: u64, count: u32) {
        let mut at = self.home(region);
        while self.slots[at].0 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (region + 1, count);
        self.used += 1;
    }

    fn grow(&mut self) {
        let larger = vec![(0, 0); (self.slots.len() * 2).max(1024)];
        let old = core::mem::replace(&mut self.slots, larger);
        self.used = 0;
        for (key, count) in old.into_iter().filter(|s| s.0 != 0) {
            self.insert(key - 1, count);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, region: u64) {
        let Some(at) = self.find(region) else { panic!("region {region} was not pending") };
        self.slots[at].1 -= 1;
        if self.slots[at].1 == 0 {
            self.vacate(at);
        }
    }

    /// Frees a slot and moves back every follower whose probe passed over it.
    fn vacate(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut at = (hole + 1) & mask;
        while self.slots[at].0 != 0 {
            let home = self.home(self.slots[at].0 - 1);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[hole] = (0, 0);
        self.used -= 1;
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().filter(|s| s.0 != 0).map(|s| s.0 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_agree_with_an_ordinary_map(steps in prop::collection::vec((0u64..3000, any::<bool>()), 0..4000)) {
            let (mut fast, mut twin) = (Counts::default(), BTreeMap::new());
            for (region, add) in steps {
                if add || !twin.contains_key(&region) {
                    fast.add(region);
                    *twin.entry(region).or_insert(0u32) += 1;
                } else {
                    fast.remove(region);
                    let count = twin.entry(region).or_insert(0);
                    *count -= 1;
                    if *count == 0 {
                        twin.remove(&region);
                    }
                }
            }
            let mut keys: Vec<u64> = fast.keys().collect();
            keys.sort_unstable();
            prop_assert_eq!(keys, twin.keys().copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_table_does_not_grow_by_what_comes_and_goes() {
        let mut counts = Counts::default();
        let lengths = [10, 10_000].map(|rounds| {
            for region in 0..rounds {
                counts.add(region);
                counts.remove(region);
            }
            counts.slots.len()
        });
        assert_eq!(lengths[0], lengths[1]);
    }
}
