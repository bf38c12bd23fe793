// SPDX-License-Identifier: Apache-2.0
//! Changes on their way: those that wait until their chunks are preserved, and those under way below. During a rollback what only
//! reads waits here, too.
//!
//! At the moment of a cut all of them are *older* than it: what they write belongs to the copy. A chunk that one of them touches is
//! not preserved for the copy before it has ended.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use helio_stack::Operation;

/// When a change came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// Before the moment of the cut that is under way.
    Older,
    /// Behind it, or without a cut.
    Later,
}

impl Age {
    pub(crate) const ALL: [Self; 2] = [Self::Older, Self::Later];
}

/// Those of one age.
#[derive(Clone, Debug, Default)]
struct Way {
    /// Those that wait, and the chunks that each touches.
    parked: VecDeque<(Operation, Range<u64>)>,
    /// The same of those under way below, by name.
    below: BTreeMap<u64, Range<u64>>,
}

impl Way {
    fn is_empty(&self) -> bool {
        self.parked.is_empty() && self.below.is_empty()
    }

    fn touches(&self, chunk: u64) -> bool {
        let parked = self.parked.iter().map(|(_, chunks)| chunks);
        parked.chain(self.below.values()).any(|chunks| chunks.contains(&chunk))
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    older: Way,
    later: Way,
}

impl Changes {
    const fn of(&self, age: Age) -> &Way {
        match age {
            Age::Older => &self.older,
            Age::Later => &self.later,
        }
    }

    const fn of_mut(&mut self, age: Age) -> &mut Way {
        match age {
            Age::Older => &mut self.older,
            Age::Later => &mut self.later,
        }
    }

    pub(crate) fn park(&mut self, operation: Operation, chunks: Range<u64>) {
        self.later.parked.push_back((operation, chunks));
    }

    /// The chunks that those that wait change, in their order.
    pub(crate) fn wanted(&self, age: Age) -> impl Iterator<Item = u64> {
        let changes = |(operation, _): &&(Operation, _)| operation.op.changes().is_some();
        self.of(age).parked.iter().filter(changes).flat_map(|(_, chunks)| chunks.clone())
    }

    /// The chunks that those that wait touch, and are not older than a cut, in their order.
    pub(crate) fn touched(&self) -> impl Iterator<Item = u64> {
        self.later.parked.iter().flat_map(|(_, chunks)| chunks.clone())
    }

    pub(crate) fn none_waits(&self) -> bool {
        Age::ALL.into_iter().all(|age| self.of(age).parked.is_empty())
    }

    /// Takes those that wait and touch chunks with which they are to go, in their order.
    pub(crate) fn take(
        &mut self,
        age: Age,
        goes: impl Fn(&Operation, &Range<u64>) -> bool,
    ) -> Vec<(Operation, Range<u64>)> {
        let parked = &mut self.of_mut(age).parked;
        let all = mem::take(parked).into_iter();
        let (gone, stay): (Vec<_>, Vec<_>) =
            all.partition(|(operation, chunks)| goes(operation, chunks));
        *parked = stay.into();
        gone
    }

    /// A change goes below.
    pub(crate) fn begins(&mut self, age: Age, io: u64, chunks: Range<u64>) {
        self.of_mut(age).below.insert(io, chunks);
    }

    /// A change has ended below. Returns the chunks that it touched.
    pub(crate) fn ended(&mut self, io: u64) -> Option<Range<u64>> {
        self.later.below.remove(&io).or_else(|| self.older.below.remove(&io))
    }

    /// A copy is cut: all that are on their way are older.
    pub(crate) fn cut(&mut self) {
        self.older = mem::take(&mut self.later);
    }

    /// The cut has ended, or failed.
    pub(crate) fn cut_ended(&mut self) {
        let Way { parked, below } = mem::take(&mut self.later);
        self.later = mem::take(&mut self.older);
        self.later.parked.extend(parked);
        self.later.below.extend(below);
    }

    /// Whether one is on its way that is older than the cut.
    pub(crate) fn has_older(&self) -> bool {
        !self.older.is_empty()
    }

    /// Whether one that is older than the cut touches that chunk.
    pub(crate) fn older_touches(&self, chunk: u64) -> bool {
        self.older.touches(chunk)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.older.is_empty() && self.later.is_empty()
    }
}
