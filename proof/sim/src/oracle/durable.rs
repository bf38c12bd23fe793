// SPDX-License-Identifier: Apache-2.0
//! What a follower reports as durable is durable: of each block it received up to there, the disk would give back that
//! content or a later one if the power went now.

use super::Oracle;
use crate::promise::{Promise, Violation, hold};
use helio_twin::{Cluster, Place, Side, Stamp};
use helio_units::{Sequence, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a node received on this stream and has not reported as durable, by block, oldest first.
#[derive(Debug, Default)]
pub(super) struct Received {
    blocks: BTreeMap<Place, VecDeque<(Sequence, Stamp)>>,
    reported: Sequence,
    /// The first item received on this stream.
    first: Option<Sequence>,
    /// Blocks that items of the stream before may still change, until that first item is reported.
    waiting: BTreeSet<Place>,
}

impl Received {
    /// Another stream begins: its positions say nothing of what was received before.
    pub(super) fn stream_begins(&mut self) {
        let mut waiting = core::mem::take(&mut self.waiting);
        waiting.extend(core::mem::take(&mut self.blocks).into_keys());
        *self = Self { waiting, ..Self::default() };
    }

    /// The process ended, and forgets what it did not apply.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether it received that content and has not reported it as durable.
    pub(super) fn has(&self, content: Stamp) -> bool {
        self.blocks.values().flatten().any(|(_, stamp)| *stamp == content)
    }
}

impl Oracle {
    /// An item arrives. Without stamps it says that the blocks are equal as they are.
    pub(super) fn received(
        &mut self,
        side: Side,
        at: Sequence,
        (volume, first, blocks): (VolumeIndex, u32, u32),
        stamps: &[Stamp],
    ) {
        let image = &self.images[side.index()][usize::from(volume.0)];
        self.received[side.index()].first.get_or_insert(at);
        for n in 0..blocks {
            let place = Place { volume, block: first + n };
            let received = &mut self.received[side.index()];
            // It will be equal once what was received before is applied.
            if stamps.is_empty()
                && received.waiting.contains(&place)
                && !received.blocks.contains_key(&place)
            {
                continue;
            }
            let list = received.blocks.entry(place).or_default();
            let last = list.back().map_or(image[place.block as usize], |(_, stamp)| *stamp);
            list.push_back((at, stamps.get(n as usize).copied().unwrap_or(last)));
        }
    }

    /// A follower reports everything up to there as durable.
    pub(super) fn reported(
        &mut self,
        cluster: &Cluster,
        side: Side,
        durable: Sequence,
    ) -> Result<(), Violation> {
        let received = &mut self.received[side.index()];
        if durable <= received.reported {
            return Ok(());
        }
        received.reported = durable;
        if received.first.is_some_and(|first| first <= durable) {
            received.waiting.clear();
        }
        let disk = &cluster.node(side).disk;
        let mut broken = None;
        received.blocks.retain(|place, list| {
            let Some(last) = list.iter().rposition(|(at, _)| *at <= durable) else { return true };
            let content = disk.durable(place.volume)[place.block as usize];
            let holds = list.iter().skip(last).any(|(_, stamp)| *stamp == content);
            if !holds && !self.rotten.contains(place) && !self.lied_about.has(place) {
                broken = Some((*place, content, list[last]));
            }
            list.drain(..=last);
            !list.is_empty()
        });
        hold(broken.is_none(), Promise::DurableReported, || {
            format!("{side} reports item {durable} as durable, and may lose power: {broken:?}")
        })
    }
}
