// SPDX-License-Identifier: Apache-2.0
//! Which operations of a set pass at once: changes pass beside each other, and a piece that is copied or merged excludes what
//! overlaps it. What waits passes in the order in which it came.
//!
//! The engine's gate (`core/engine/src/stream/gate.rs`) lets one of two overlapping extents pass, so it is a sorted list. Here extents
//! inside may overlap, and reads ask which changes overlap theirs.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use helio_units::Extent;

/// What passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// A change: the engine never has two that overlap.
    Shared,
    /// A piece of a copy or of a merge.
    Alone,
}

/// See the module. Operations are named by numbers of the set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    changes: BTreeMap<u64, Extent>,
    pieces: BTreeMap<u64, Extent>,
    waiting: VecDeque<(u64, Extent, Pass)>,
}

fn meets(inside: &BTreeMap<u64, Extent>, extent: Extent) -> bool {
    inside.values().any(|other| other.overlaps(extent))
}

impl Gate {
    /// An operation comes. Returns whether it passes at once; otherwise [`Self::leave`] says when.
    pub(crate) fn enter(&mut self, id: u64, extent: Extent, pass: Pass) -> bool {
        let waits = self.waiting.iter().any(|(_, other, of)| {
            (pass == Pass::Alone || *of == Pass::Alone) && other.overlaps(extent)
        });
        let passes = !waits && self.admits(extent, pass);
        if passes {
            self.inside(pass).insert(id, extent);
        } else {
            self.waiting.push_back((id, extent, pass));
        }
        passes
    }

    fn admits(&self, extent: Extent, pass: Pass) -> bool {
        !meets(&self.pieces, extent) && (pass == Pass::Shared || !meets(&self.changes, extent))
    }

    fn inside(&mut self, pass: Pass) -> &mut BTreeMap<u64, Extent> {
        match pass {
            Pass::Shared => &mut self.changes,
            Pass::Alone => &mut self.pieces,
        }
    }

    /// An operation that had passed has ended. Returns those that pass now.
    pub(crate) fn leave(&mut self, id: u64) -> Vec<(u64, Pass)> {
        let found = self.changes.remove(&id).or_else(|| self.pieces.remove(&id));
        debug_assert!(found.is_some(), "operation {id} had not passed");
        let mut passed = Vec::new();
        for (id, extent, pass) in core::mem::take(&mut self.waiting) {
            if self.enter(id, extent, pass) {
                passed.push((id, pass));
            }
        }
        passed
    }

    /// The changes inside that overlap an extent.
    pub(crate) fn changing(&self, extent: Extent) -> impl Iterator<Item = u64> + '_ {
        let over = move |entry: &(&u64, &Extent)| entry.1.overlaps(extent);
        self.changes.iter().filter(over).map(|(id, _)| *id)
    }

    /// The pieces inside that overlap an extent.
    pub(crate) fn pieces(&self, extent: Extent) -> impl Iterator<Item = u64> + '_ {
        let over = move |entry: &(&u64, &Extent)| entry.1.overlaps(extent);
        self.pieces.iter().filter(over).map(|(id, _)| *id)
    }

    /// Where changes inside are.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Extent> + '_ {
        self.changes.values().copied()
    }

    /// Nothing is inside or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.changes.is_empty() && self.pieces.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(offset: u64, length: u64) -> Extent {
        Extent::new(offset, length)
    }

    #[test]
    fn changes_pass_beside_each_other_and_a_piece_waits_for_those_that_it_overlaps() {
        let mut gate = Gate::default();
        assert!(gate.enter(1, at(0, 8), Pass::Shared) && gate.enter(2, at(8, 8), Pass::Shared));
        assert!(!gate.enter(3, at(4, 8), Pass::Alone));
        assert!(gate.enter(4, at(16, 8), Pass::Alone));
        assert_eq!(gate.leave(1), []);
        assert_eq!(gate.leave(2), [(3, Pass::Alone)]);
        assert_eq!(gate.changing(at(0, 99)).count(), 0);
    }

    #[test]
    fn changes_behind_a_piece_that_waits_do_not_overtake_it() {
        let mut gate = Gate::default();
        assert!(gate.enter(1, at(0, 8), Pass::Shared));
        assert!(!gate.enter(2, at(0, 16), Pass::Alone));
        assert!(!gate.enter(3, at(8, 8), Pass::Shared) && !gate.enter(4, at(9, 1), Pass::Shared));
        assert!(gate.enter(5, at(16, 8), Pass::Shared));
        assert_eq!(gate.leave(1), [(2, Pass::Alone)]);
        assert_eq!(gate.leave(2), [(3, Pass::Shared), (4, Pass::Shared)]);
        for id in 3..6 {
            gate.leave(id);
        }
        assert!(gate.is_idle());
    }
}
