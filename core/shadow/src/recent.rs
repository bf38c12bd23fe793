// SPDX-License-Identifier: Apache-2.0
//! What was written to a set since the last flush that proves something, and which flushes do.
//!
//! A flush proves that what ended before it began is durable. Flushes that overlap one that failed prove nothing of the member that
//! failed it: a disk may tell the error to one of them and success to the other. So a flush counts as ended only when each
//! that was under way when it was done has ended as well; until then what it covers stays here.

use crate::unmerged::hot_extent;
use alloc::collections::{BTreeMap, BTreeSet};
use helio_bitmap::{EXTENT, Parts};
use helio_stack::StoreFault;
use helio_units::Extent;

/// What was written in one hot extent.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    parts: Parts,
    /// Flushes begun when the last change in it ended.
    done_in: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    written: BTreeMap<u64, Written>,
    /// Flushes begun.
    begun: u64,
    /// Flushes, and changes with FUA, that members work on.
    running: BTreeSet<u64>,
    /// Flushes up to this one prove nothing: all members failed one that they overlap, like that.
    unproven: (u64, StoreFault),
    /// Members that failed a flush which has not ended on the others: they may read as before what was written. A bit each.
    doubted: u8,
}

/// A flush whose members are done: those up to this number are to end before it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(u64);

impl Recent {
    pub(crate) const fn new() -> Self {
        Self {
            written: BTreeMap::new(),
            begun: 0,
            running: BTreeSet::new(),
            unproven: (0, StoreFault::Io),
            doubted: 0,
        }
    }

    /// Something was written.
    pub(crate) fn add(&mut self, extent: Extent) {
        for number in extent.offset / EXTENT.0..extent.end().div_ceil(EXTENT.0) {
            let written = self.written.entry(number).or_default();
            written.parts.touch(number * EXTENT.0, extent);
            written.done_in = self.begun;
        }
    }

    /// A flush begins, or a change with FUA. Returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.running.insert(self.begun);
        self.begun
    }

    /// Every member has ended it.
    pub(crate) fn done(&mut self, number: u64) -> Until {
        self.running.remove(&number);
        Until(self.begun)
    }

    /// Whether every flush that was under way then has ended.
    pub(crate) fn is_past(&self, Until(begun): Until) -> bool {
        self.running.first().is_none_or(|first| *first > begun)
    }

    /// A flush went well, and those that it overlaps have ended.
    pub(crate) fn prove(&mut self, number: u64) {
        self.written.retain(|_, written| written.done_in >= number);
    }

    /// All members failed a flush like that: those begun so far prove nothing.
    pub(crate) const fn distrust(&mut self, fault: StoreFault) {
        self.unproven = (self.begun, fault);
    }

    /// How all members failed a flush that the one of that number overlaps, if they did.
    pub(crate) fn overlapped(&self, number: u64) -> Option<StoreFault> {
        let (begun, fault) = self.unproven;
        (number <= begun).then_some(fault)
    }

    /// What was written before another member is used is flushed before that is full.
    pub(crate) fn forget(&mut self) {
        self.written.clear();
    }

    /// Members that failed a flush which has not ended on the others.
    pub(crate) const fn doubted(&self) -> u8 {
        self.doubted
    }

    pub(crate) const fn set_doubted(&mut self, members: u8) {
        self.doubted = members;
    }

    /// What was written, as runs.
    pub(crate) fn runs(&self, size: u64) -> impl Iterator<Item = Extent> + '_ {
        let written = self.written.iter();
        written.flat_map(move |(number, written)| written.parts.runs(hot_extent(*number, size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const PART: u64 = EXTENT.0 / 64;
    const SIZE: u64 = 2 * EXTENT.0 + 4096;

    fn runs(recent: &Recent) -> Vec<(u64, u64)> {
        recent.runs(SIZE).map(|run| (run.offset, run.length)).collect()
    }

    #[test]
    fn a_flush_proves_what_ended_before_it_began() {
        let mut recent = Recent::new();
        recent.add(Extent::new(PART - 1, 2));
        let flush = recent.begin();
        recent.add(Extent::new(2 * EXTENT.0, 4096));
        let until = recent.done(flush);
        assert!(recent.is_past(until));
        recent.prove(flush);
        assert_eq!(runs(&recent), [(2 * EXTENT.0, 4096)]);
    }

    #[test]
    fn an_extent_over_a_border_is_in_both_hot_extents() {
        let mut recent = Recent::new();
        recent.add(Extent::new(EXTENT.0 - 4096, 8192));
        assert_eq!(runs(&recent), [(EXTENT.0 - PART, PART), (EXTENT.0, PART)]);
        recent.add(Extent::new(0, EXTENT.0));
        assert_eq!(runs(&recent), [(0, EXTENT.0), (EXTENT.0, PART)]);
    }

    #[test]
    fn a_flush_counts_once_those_that_it_overlaps_have_ended_and_none_of_them_failed_everywhere() {
        let mut recent = Recent::new();
        recent.add(Extent::new(0, 512));
        let (early, late) = (recent.begin(), recent.begin());
        let until = recent.done(late);
        let behind = recent.begin();
        assert!(!recent.is_past(until));
        recent.done(early);
        assert!(recent.is_past(until), "flush {behind} began later");
        recent.distrust(StoreFault::Silent);
        assert_eq!(recent.overlapped(behind), Some(StoreFault::Silent));
        recent.done(behind);
        let next = recent.begin();
        assert_eq!(recent.overlapped(next), None);
        recent.prove(next);
        assert_eq!(runs(&recent), []);
    }
}
