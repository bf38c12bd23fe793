// SPDX-License-Identifier: Apache-2.0
//! The members of a desk: they hold stamps, lose what was not flushed with the power, and fail as they are told to.

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

    pub(super) fn are_equal(&self, pair: [helio_units::PayloadId; 2]) -> bool {
        let [one, other] = pair.map(|id| self.held.get(&id.0));
        assert!(one.is_some() && other.is_some(), "{pair:?} are compared after a release");
        one == other
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
    /// Operations that were given up, and may still be done.
    late: Vec<UnderWay>,
    /// Blocks that a failed flush lost: what they hold is not made durable by a later one.
    lost: BTreeSet<(usize, usize)>,
    /// Every stamp that ever reached a block.
    reached: BTreeSet<Stamp>,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fails {
    /// Nothing is done.
    Untouched,
    /// The first half of it is.
    Half,
    /// It is done all the same. A flush loses what was not durable.
    Lost,
}

impl Members {
    pub(super) fn new(volumes: &[usize]) -> Self {
        let live: Vec<Vec<Stamp>> = volumes.iter().map(|blocks| vec![0; *blocks]).collect();
        Self {
            durable: live.clone(),
            live,
            since: BTreeMap::new(),
            under_way: BTreeMap::new(),
            late: Vec::new(),
            lost: BTreeSet::new(),
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

    pub(super) fn op(&self, name: u64) -> Option<(VolumeIndex, StoreOp)> {
        self.under_way.get(&name).map(|it| (VolumeIndex(it.volume as u16), it.op))
    }

    pub(super) fn names(&self) -> Vec<u64> {
        self.under_way.keys().copied().collect()
    }

    pub(super) fn end(&mut self, name: u64, pool: &mut Payloads) -> Outcome {
        let under_way = self.take(name);
        let volume = under_way.volume;
        match under_way.op {
            StoreOp::Read { extent } => {
                Outcome::Read(pool.take(self.live[volume][blocks(extent)].to_vec()))
            }
            StoreOp::Map { extent } => {
                let empty = self.live[volume][blocks(extent)].iter().all(|stamp| *stamp == 0);
                Outcome::Mapped { empty }
            }
            op => {
                self.change(under_way, usize::MAX);
                if op.is_flush() {
                    self.flush(volume);
                }
                Outcome::Done
            }
        }
    }

    fn take(&mut self, name: u64) -> UnderWay {
        let Some(under_way) = self.under_way.remove(&name) else {
            panic!("operation {name} is not under way")
        };
        under_way
    }

    /// Does the first blocks of a change.
    fn change(&mut self, UnderWay { volume, op, mut stamps }: UnderWay, most: usize) {
        let Some(extent) = op.changes() else { return };
        stamps.resize(blocks(extent).len(), 0);
        stamps.truncate(most);
        self.put(volume, blocks(extent), &stamps);
    }

    /// An operation fails.
    pub(super) fn fail(&mut self, name: u64, how: Fails) {
        let under_way = self.take(name);
        let (volume, op) = (under_way.volume, under_way.op);
        match how {
            Fails::Untouched => {}
            Fails::Half => {
                let half = op.changes().map_or(0, |extent| blocks(extent).len() / 2);
                self.change(under_way, half);
            }
            Fails::Lost => self.change(under_way, usize::MAX),
        }
        if op.is_flush() {
            for (volume, block) in self.since.extract_if(.., |at, _| at.0 == volume).map(|it| it.0)
            {
                self.lost.insert((volume, block));
            }
        }
    }

    /// Everything under way on a volume is given up. Returns the names of it.
    pub(super) fn give_up(&mut self, volume: VolumeIndex) -> Vec<(u64, StoreOp)> {
        let of = |_: &u64, it: &mut UnderWay| it.volume == usize::from(volume.0);
        let taken: Vec<_> = self.under_way.extract_if(.., of).collect();
        let names = taken.iter().map(|(name, it)| (*name, it.op)).collect();
        self.late
            .extend(taken.into_iter().map(|(_, it)| it).filter(|it| it.op.changes().is_some()));
        names
    }

    /// Whether an operation on a volume that was given up has not ended.
    pub(super) fn is_late(&self, volume: VolumeIndex) -> bool {
        self.late.iter().any(|it| it.volume == usize::from(volume.0))
    }

    /// One that was given up on the volume is done after all.
    pub(super) fn land(&mut self, volume: VolumeIndex) {
        if let Some(at) = self.late.iter().position(|it| it.volume == usize::from(volume.0)) {
            let late = self.late.remove(at);
            self.change(late, usize::MAX);
        }
    }

    /// What failed flushes of a volume lost is made durable by the next one after all.
    pub(super) fn recover(&mut self, volume: usize) {
        for at in self.lost.extract_if(.., |(of, _)| *of == volume) {
            self.since.entry(at).or_default().push(self.live[at.0][at.1]);
        }
    }

    /// Another disk takes the place of the one of that volume, and holds this.
    pub(super) fn replace(&mut self, volume: usize, stamp: Stamp) {
        self.live[volume].fill(stamp);
        self.durable[volume].fill(stamp);
        self.since.retain(|(of, _), _| *of != volume);
        self.lost.retain(|(of, _)| *of != volume);
        self.late.retain(|it| it.volume != volume);
    }

    fn put(&mut self, volume: usize, range: core::ops::Range<usize>, stamps: &[Stamp]) {
        for (block, stamp) in range.zip(stamps) {
            self.reached.insert(*stamp);
            self.live[volume][block] = *stamp;
            self.lost.remove(&(volume, block));
            self.since.entry((volume, block)).or_default().push(*stamp);
        }
    }

    fn flush(&mut self, volume: usize) {
        for (block, stamp) in self.live[volume].iter().enumerate() {
            if !self.lost.contains(&(volume, block)) {
                self.durable[volume][block] = *stamp;
            }
        }
        self.since.retain(|(of, _), _| *of != volume);
    }

    /// The process ends, and maybe the power: what was under way may have reached any of its blocks. What was given up has landed, or
    /// never does, before another process uses the member. That process takes an exclusive lock of a file or device, and claims a
    /// device. A kernel holds both until every operation of the process that ended has ended, too (`edge/disk/src/lock.rs`).
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
        for late in core::mem::take(&mut self.late) {
            let most = dice.below(20) as usize;
            self.change(late, most);
        }
        if !power {
            return;
        }
        for (volume, block) in core::mem::take(&mut self.lost) {
            self.live[volume][block] = self.durable[volume][block];
        }
        for ((volume, block), versions) in core::mem::take(&mut self.since) {
            let at = dice.below(versions.len() as u64 + 1) as usize;
            let stamp = versions.get(at).copied().unwrap_or(self.durable[volume][block]);
            self.live[volume][block] = stamp;
            self.durable[volume][block] = stamp;
        }
    }
}
