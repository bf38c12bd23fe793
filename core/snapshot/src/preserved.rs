// SPDX-License-Identifier: Apache-2.0
//! Which chunks are preserved, and where: four bytes for each, and 512 for each 4096 chunks of which one is.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};
use helio_format::before::Slot;

const PAGE_CHUNKS: u64 = 4096;

/// Chunks of a page: a bit for each, and the slots in their order.
#[derive(Clone, Debug)]
struct Page {
    bits: Box<[u64; 64]>,
    slots: Vec<Slot>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preserved {
    pages: BTreeMap<u64, Page>,
    count: u64,
}

/// Chunks that are in any of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Union {
    pages: BTreeMap<u64, Box<[u64; 64]>>,
    count: u64,
}

impl Union {
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn add(&mut self, preserved: &Preserved) {
        self.add_pages(preserved, 0..=u64::MAX);
    }

    /// At least those of that range, which is not empty.
    pub(crate) fn add_of(&mut self, preserved: &Preserved, range: &Range<u64>) {
        self.add_pages(preserved, range.start / PAGE_CHUNKS..=(range.end - 1) / PAGE_CHUNKS);
    }

    fn add_pages(&mut self, preserved: &Preserved, pages: RangeInclusive<u64>) {
        for (number, page) in preserved.pages.range(pages) {
            let bits = self.pages.entry(*number).or_insert_with(|| Box::new([0; 64]));
            for (word, more) in bits.iter_mut().zip(page.bits.iter()) {
                self.count += u64::from((more & !*word).count_ones());
                *word |= more;
            }
        }
    }

    pub(crate) fn remove(&mut self, preserved: &Preserved) {
        for (number, page) in &preserved.pages {
            let Some(bits) = self.pages.get_mut(number) else { continue };
            for (word, less) in bits.iter_mut().zip(page.bits.iter()) {
                self.count -= u64::from((*word & less).count_ones());
                *word &= !less;
            }
        }
    }

    pub(crate) fn has(&self, chunk: u64) -> bool {
        let at = chunk % PAGE_CHUNKS;
        let page = self.pages.get(&(chunk / PAGE_CHUNKS));
        page.is_some_and(|bits| bits[(at / 64) as usize] & (1 << (at % 64)) != 0)
    }

    /// How many there are from that one on.
    pub(crate) fn count_from(&self, chunk: u64) -> u64 {
        let (first, at) = (chunk / PAGE_CHUNKS, (chunk % PAGE_CHUNKS) as usize);
        let counted = |number: u64, bits: &[u64; 64]| {
            let words = (0..).zip(bits.iter()).map(|(n, word): (usize, &u64)| match n * 64 {
                start if number > first || start >= at => *word,
                start if start + 64 <= at => 0,
                start => word & (u64::MAX << (at - start)),
            });
            words.map(|word| u64::from(word.count_ones())).sum::<u64>()
        };
        self.pages.range(first..).map(|(number, bits)| counted(*number, bits)).sum()
    }
}

impl Page {
    fn has(&self, at: u64) -> bool {
        self.bits[(at / 64) as usize] & (1 << (at % 64)) != 0
    }

    /// How many come before that one.
    fn rank(&self, at: u64) -> usize {
        let (words, word) = self.bits.split_at((at / 64) as usize);
        let before = words.iter().map(|word| word.count_ones()).sum::<u32>();
        (before + (word[0] & ((1 << (at % 64)) - 1)).count_ones()) as usize
    }

    /// The first one from there on.
    fn next_from(&self, at: u64) -> Option<u64> {
        (at / 64..64).find_map(|n| {
            let mask = if n == at / 64 { u64::MAX << (at % 64) } else { u64::MAX };
            let word = self.bits[n as usize] & mask;
            (word != 0).then(|| n * 64 + u64::from(word.trailing_zeros()))
        })
    }

    fn iter(&self) -> impl Iterator<Item = (u64, Slot)> + '_ {
        let set = (0..PAGE_CHUNKS).filter(|at| self.has(*at));
        set.zip(self.slots.iter().copied())
    }
}

impl Preserved {
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn has(&self, chunk: u64) -> bool {
        self.pages.get(&(chunk / PAGE_CHUNKS)).is_some_and(|page| page.has(chunk % PAGE_CHUNKS))
    }

    pub(crate) fn slot(&self, chunk: u64) -> Option<Slot> {
        let (page, at) = (self.pages.get(&(chunk / PAGE_CHUNKS))?, chunk % PAGE_CHUNKS);
        page.has(at).then(|| page.slots[page.rank(at)])
    }

    /// The chunk is preserved there. One that is preserved already stays where it is.
    pub(crate) fn insert(&mut self, chunk: u64, slot: Slot) {
        let empty = || Page { bits: Box::new([0; 64]), slots: Vec::new() };
        let page = self.pages.entry(chunk / PAGE_CHUNKS).or_insert_with(empty);
        let at = chunk % PAGE_CHUNKS;
        if !page.has(at) {
            page.slots.insert(page.rank(at), slot);
            page.bits[(at / 64) as usize] |= 1 << (at % 64);
            self.count += 1;
        }
    }

    /// The first one from that chunk on.
    pub(crate) fn next_from(&self, chunk: u64) -> Option<(u64, Slot)> {
        self.pages.range(chunk / PAGE_CHUNKS..).find_map(|(number, page)| {
            let from = if *number == chunk / PAGE_CHUNKS { chunk % PAGE_CHUNKS } else { 0 };
            let at = page.next_from(from)?;
            Some((number * PAGE_CHUNKS + at, page.slots[page.rank(at)]))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Slot)> + '_ {
        let chunk = |number: u64| move |(at, slot)| (number * PAGE_CHUNKS + at, slot);
        self.pages.iter().flat_map(move |(number, page)| page.iter().map(chunk(*number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_union_counts_each_chunk_once(chunks in prop::collection::vec((0..3_usize, 0..9_000_u64), 0..200), from in 0..9_000_u64) {
            let (mut maps, mut union) = ([(); 3].map(|()| Preserved::default()), Union::default());
            let all: BTreeMap<u64, ()> = chunks.iter().map(|(_, chunk)| (*chunk, ())).collect();
            chunks.iter().for_each(|(map, chunk)| maps[*map].insert(*chunk, Slot(0)));
            maps.iter().for_each(|map| union.add(map));
            prop_assert_eq!(union.count(), all.len() as u64);
            prop_assert_eq!(union.count_from(from), all.range(from..).count() as u64);
            let (mut part, range) = (Union::default(), from..from + 2_000);
            maps.iter().for_each(|map| part.add_of(map, &range));
            prop_assert!(range.clone().all(|chunk| part.has(chunk) == all.contains_key(&chunk)));
            union.remove(&maps[0]);
            let rest: Vec<u64> = all.into_keys().filter(|chunk| !maps[0].has(*chunk)).collect();
            prop_assert_eq!(union.count(), rest.len() as u64);
            prop_assert_eq!(union.count_from(from), rest.iter().filter(|it| **it >= from).count() as u64);
        }

        #[test]
        fn it_is_a_map(chunks in prop::collection::vec(0..20_000_u64, 0..200), from in 0..20_000_u64) {
            let (mut map, mut twin) = (Preserved::default(), BTreeMap::new());
            for (slot, chunk) in (0..).map(Slot).zip(chunks) {
                map.insert(chunk, slot);
                twin.entry(chunk).or_insert(slot);
                prop_assert_eq!(map.count(), twin.len() as u64);
            }
            prop_assert!(map.iter().eq(twin.iter().map(|(chunk, slot)| (*chunk, *slot))));
            prop_assert!((0..20_000).all(|chunk| map.slot(chunk) == twin.get(&chunk).copied()));
            let next = twin.range(from..).next().map(|(chunk, slot)| (*chunk, *slot));
            prop_assert_eq!(map.next_from(from), next);
        }
    }
}
