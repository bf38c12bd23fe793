// SPDX-License-Identifier: Apache-2.0
//! The overlap gate: of two overlapping extents of a volume, one is let through at a time, first come first served.
//!
//! ```text
//!   enter ──no overlap with a holder or an earlier waiter──> held ──leave──> gone
//!     └───────────overlap──────────> waiting ──next_ready──> held
//! ```
//! Holders of one volume never overlap, so they are kept sorted in a flat vector: a lookup is a binary search, an
//! insertion moves a few bytes, and nothing is allocated once the vector has grown.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use helio_plant::{Plant, planted};
use helio_units::{Extent, VolumeIndex};

#[derive(Clone, Copy, Debug)]
struct Waiter<T> {
    ticket: T,
    volume: VolumeIndex,
    extent: Extent,
}

/// The gate of one group. `T` names who entered.
#[derive(Clone, Debug)]
pub(crate) struct Gate<T> {
    held: Vec<Vec<Extent>>,
    waiting: VecDeque<Waiter<T>>,
}

impl<T: Copy> Gate<T> {
    pub(crate) fn new(volumes: usize) -> Self {
        Self { held: (0..volumes).map(|_| Vec::new()).collect(), waiting: VecDeque::new() }
    }

    /// Lets the extent through at once (true), or makes it wait its turn.
    pub(crate) fn enter(&mut self, ticket: T, volume: VolumeIndex, extent: Extent) -> bool {
        if planted(Plant::SkipGate) {
            return true;
        }
        let behind = |w: &Waiter<T>| w.volume == volume && w.extent.overlaps(extent);
        if self.is_held(volume, extent) || self.waiting.iter().any(behind) {
            self.waiting.push_back(Waiter { ticket, volume, extent });
            return false;
        }
        self.hold(volume, extent);
        true
    }

    /// Gives an extent back that was let through.
    pub(crate) fn leave(&mut self, volume: VolumeIndex, extent: Extent) {
        if planted(Plant::SkipGate) {
            return;
        }
        let held = &mut self.held[usize::from(volume.0)];
        let at = held.partition_point(|h| h.offset < extent.offset);
        assert_eq!(held.get(at), Some(&extent), "an extent left the gate that never passed it");
        held.remove(at);
    }

    /// The first waiter that may pass now, if any; it passes.
    pub(crate) fn next_ready(&mut self) -> Option<T> {
        let ready = (0..self.waiting.len()).find(|&n| {
            let w = self.waiting[n];
            let behind = |e: &Waiter<T>| e.volume == w.volume && e.extent.overlaps(w.extent);
            !self.is_held(w.volume, w.extent) && !self.waiting.iter().take(n).any(behind)
        })?;
        let waiter = self.waiting.remove(ready)?;
        self.hold(waiter.volume, waiter.extent);
        Some(waiter.ticket)
    }

    /// Whether anybody waits.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether nobody holds or waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.iter().all(Vec::is_empty)
    }

    fn is_held(&self, volume: VolumeIndex, extent: Extent) -> bool {
        let held = &self.held[usize::from(volume.0)];
        // Holders do not overlap, so only the last one that begins before our end can reach into us.
        let at = held.partition_point(|h| h.offset < extent.end());
        at > 0 && held[at - 1].overlaps(extent)
    }

    fn hold(&mut self, volume: VolumeIndex, extent: Extent) {
        let held = &mut self.held[usize::from(volume.0)];
        let at = held.partition_point(|h| h.offset < extent.offset);
        held.insert(at, extent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow, obvious twin: a list of everybody in order of arrival, those let through flagged.
    #[derive(Clone, Default)]
    struct Twin(Vec<(u32, Extent, bool)>);

    impl Twin {
        fn settle(&mut self) -> Vec<u32> {
            let mut passed = Vec::new();
            for n in 0..self.0.len() {
                let (name, extent, through) = self.0[n];
                let held = self.0.iter().any(|o| o.2 && o.1.overlaps(extent));
                let behind = self.0[..n].iter().any(|o| o.1.overlaps(extent));
                if !through && !held && !behind {
                    self.0[n].2 = true;
                    passed.push(name);
                }
            }
            passed
        }
    }

    proptest! {
        #[test]
        fn the_gate_lets_through_whom_its_slow_twin_lets_through(
            steps in prop::collection::vec((0u64..40, 1u64..12, any::<bool>(), any::<prop::sample::Index>()), 1..120)
        ) {
            let (mut gate, mut twin) = (Gate::new(1), Twin::default());
            let volume = VolumeIndex(0);
            for (name, (offset, length, leave, who)) in steps.into_iter().enumerate() {
                let name = name as u32;
                let mut passed = Vec::new();
                let through: Vec<_> = twin.0.iter().filter(|o| o.2).map(|o| (o.0, o.1)).collect();
                if leave && !through.is_empty() {
                    let (gone, extent) = through[who.index(through.len())];
                    twin.0.retain(|o| o.0 != gone);
                    gate.leave(volume, extent);
                    while let Some(next) = gate.next_ready() {
                        passed.push(next);
                    }
                } else {
                    let extent = Extent::new(offset, length);
                    twin.0.push((name, extent, false));
                    if gate.enter(name, volume, extent) {
                        passed.push(name);
                    }
                }
                prop_assert_eq!(passed, twin.settle());
            }
        }
    }

    #[test]
    fn a_waiter_is_not_overtaken_by_a_later_overlap() {
        let (mut gate, v) = (Gate::new(1), VolumeIndex(0));
        assert!(gate.enter('a', v, Extent::new(0, 10)));
        assert!(!gate.enter('b', v, Extent::new(5, 10)));
        assert!(!gate.enter('c', v, Extent::new(12, 10)), "c overlaps b, who came first");
        assert!(gate.enter('d', v, Extent::new(30, 5)));
        gate.leave(v, Extent::new(0, 10));
        assert_eq!(gate.next_ready(), Some('b'));
        assert_eq!(gate.next_ready(), None);
    }
}
