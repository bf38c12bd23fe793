// SPDX-License-Identifier: Apache-2.0
//! A layer that has something to do where a crash left extents hot, as a set of several disks has: it reads in each, one after
//! the other, and lets it cool then. An extent that cools before is found by the engine's own assertion.

use core::time::Duration;
use helio_stack::{Io, Layer, Leg, Outcome, Port, StoreOp, Tag};
use helio_twin::BLOCK;
use helio_units::{Extent, Moment, VolumeIndex};
use std::collections::VecDeque;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Merges {
    /// Between one extent and the next.
    pause: Duration,
    next: Moment,
    left: VecDeque<(VolumeIndex, Extent)>,
    reads: bool,
}

impl Merges {
    pub(crate) const fn new(pause: Duration) -> Self {
        Self { pause, next: Moment::ZERO, left: VecDeque::new(), reads: false }
    }
}

/// The tag of its own read: no operation has that number.
const OWN: Tag = Tag(u64::MAX);

impl Layer for Merges {
    fn found_hot(&mut self, volume: VolumeIndex, extent: Extent) -> bool {
        self.left.push_back((volume, extent));
        true
    }

    fn ended(&mut self, tag: Tag, outcome: Outcome, port: &mut Port<'_>) {
        if tag != OWN {
            return port.end(Io::new(tag.0), outcome);
        }
        if let Outcome::Read(payload) = outcome {
            port.release(payload.id);
        }
        if let Some((volume, extent)) = self.left.pop_front() {
            port.let_cool(volume, extent);
        }
        (self.reads, self.next) = (false, port.now() + self.pause);
    }

    fn rests(&self) -> bool {
        self.left.is_empty()
    }

    fn deadline(&self) -> Moment {
        if self.reads || self.left.is_empty() { Moment::NEVER } else { self.next }
    }

    fn tick(&mut self, port: &mut Port<'_>) {
        if let Some((volume, extent)) = self.left.front() {
            self.reads = true;
            let extent = Extent::new(extent.offset, BLOCK.0);
            port.issue(Leg::whole(*volume), StoreOp::Read { extent }, OWN);
        }
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
