// SPDX-License-Identifier: Apache-2.0
//! The members of a desk: they hold stamps, lose what was not flushed with the power, and never fail by themselves.

use super::{Stamp, blocks};
use helio_netmodel::Dice;
use helio_stack::{Outcome, StoreOp};
use helio_units::{Payload, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// One operation under way.
#[derive(Clone, Debug)]
struct UnderWay {
    volume: usize,
    op: StoreOp,
    stamps: Vec<Stamp>,
}

/// Payloads by name.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    held: BTreeMap<u64, Vec<Stamp>>,
    named: u64,
}

impl Payloads {
    pub(super) fn take(&mut self, stamps: Vec<Stamp>) -> Payload {
        self.named += 1;
        let length = (stamps.len() as u64 * super::BLOCK) as u32;
        self.held.insert(self.named, stamps);
        Payload { id: helio_units::PayloadId(self.named), length }
    }

    pub(super) fn stamps(&self, payload: Payload) -> &[Stamp] {
        match self.held.get(&payload.id.0) {
            Some(stamps) => stamps,
            None => panic!("payload {} is used after its release", payload.id.0),
        }
    }

    pub(super) fn release(&mut self, id: helio_units::PayloadId) {
        assert!(self.held.remove(&id.0).is_some(), "payload {} was released twice", id.0);
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    pub(super) fn forget(&mut self) {
        self.held.clear();
    }
}

/// All volumes.
#[derive(Debug)]
pub(super) struct Members {
    live: Vec<Vec<Stamp>>,
    durable: Vec<Vec<Stamp>>,
    /// What blocks held since, oldest first.
    since: BTreeMap<(usize, usize), Vec<Stamp>>,
    under_way: BTreeMap<u64, UnderWay>,
    /// Every stamp that ever reached a block.
    reached: BTreeSet<Stamp>,
}

impl Members {
    pub(super) fn new(volumes: &[usize]) -> Self {
        let live: Vec<Vec<Stamp>> = volumes.iter().map(|blocks| vec![0; *blocks]).collect();
        Self {
            durable: live.clone(),
            live,
            since: BTreeMap::new(),
            under_way: BTreeMap::new(),
            reached: BTreeSet::new(),
        }
    }

    pub(super) fn live(&self) -> &[Vec<Stamp>] {
        &self.live
    }

    pub(super) fn is_durable(&self) -> bool {
        self.live == self.durable
    }

    pub(super) fn has_reached(&self, stamp: Stamp) -> bool {
        self.reached.contains(&stamp)
    }

    pub(super) fn begin(&mut self, name: u64, volume: VolumeIndex, op: StoreOp, pool: &Payloads) {
        let stamps = match op {
            StoreOp::Write { payload, .. } => pool.stamps(payload).to_vec(),
            _ => Vec::new(),
        };
        let under_way = UnderWay { volume: usize::from(volume.0), op, stamps };
        assert!(self.under_way.insert(name, under_way).is_none(), "operation {name} twice");
    }

    /// Changes under way.
    pub(super) fn changes(&self) -> usize {
        self.under_way.values().filter(|under_way| under_way.op.changes().is_some()).count()
    }

    pub(super) fn names(&self) -> Vec<u64> {
        self.under_way.keys().copied().collect()
    }

    pub(super) fn end(&mut self, name: u64, pool: &mut Payloads) -> Outcome {
        let Some(UnderWay { volume, op, stamps }) = self.under_way.remove(&name) else {
            panic!("operation {name} is not under way")
        };
        match op {
            StoreOp::Read { extent } => {
                return Outcome::Read(pool.take(self.live[volume][blocks(extent)].to_vec()));
            }
            StoreOp::Map { extent } => {
                let empty = self.live[volume][blocks(extent)].iter().all(|stamp| *stamp == 0);
                return Outcome::Mapped { empty };
            }
            StoreOp::Flush => self.flush(volume),
            StoreOp::Write { extent, .. } => self.put(volume, blocks(extent), &stamps),
            StoreOp::Zero { extent, .. } | StoreOp::Discard { extent, .. } => {
                let zeros = vec![0; blocks(extent).len()];
                self.put(volume, blocks(extent), &zeros);
            }
        }
        if op.is_flush() {
            self.flush(volume);
        }
        Outcome::Done
    }

    fn put(&mut self, volume: usize, range: core::ops::Range<usize>, stamps: &[Stamp]) {
        for (block, stamp) in range.zip(stamps) {
            self.reached.insert(*stamp);
            self.live[volume][block] = *stamp;
            self.since.entry((volume, block)).or_default().push(*stamp);
        }
    }

    fn flush(&mut self, volume: usize) {
        self.durable[volume].clone_from(&self.live[volume]);
        self.since.retain(|(of, _), _| *of != volume);
    }

    /// The process ends, and maybe the power: what was under way may have reached any of its blocks.
    pub(super) fn crash(&mut self, power: bool, dice: &mut Dice) {
        for (_, UnderWay { volume, op, stamps }) in core::mem::take(&mut self.under_way) {
            let Some(extent) = op.changes() else { continue };
            for (n, block) in blocks(extent).enumerate() {
                if dice.chance(1, 2) {
                    let stamp = stamps.get(n).copied().unwrap_or(0);
                    self.put(volume, block..block + 1, &[stamp]);
                }
            }
        }
        if !power {
            return;
        }
        for ((volume, block), versions) in core::mem::take(&mut self.since) {
            let at = dice.below(versions.len() as u64 + 1) as usize;
            let stamp = versions.get(at).copied().unwrap_or(self.durable[volume][block]);
            self.live[volume][block] = stamp;
            self.durable[volume][block] = stamp;
        }
    }
}
