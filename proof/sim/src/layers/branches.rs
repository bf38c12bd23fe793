// SPDX-License-Identifier: Apache-2.0
//! What clients do with copies: they read them as they were cut, and use their branches as they use volumes.

use super::BLOCK;
use super::reference::Reference;
use super::story::{Desk, ensure};
use helio_stack::{CopyIo, CopyNumber, CopyView, Outcome, StoreFault, StoreOp};
use helio_units::{Extent, VolumeIndex};
use std::collections::BTreeMap;

/// See the module.
#[derive(Default)]
pub(super) struct Users {
    /// What is under way, and when each began, counted by the branch's reference.
    under_way: BTreeMap<u64, (CopyIo, u64)>,
    /// What each branch that was ever used may hold.
    branches: BTreeMap<CopyNumber, Reference>,
}

impl Users {
    /// That operation ended, if it was one on a copy.
    pub(super) fn ended(&mut self, name: u64) -> Option<(CopyIo, u64)> {
        self.under_way.remove(&name)
    }

    pub(super) fn rest(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(super) fn restart(&mut self) {
        self.under_way.clear();
    }

    /// Whether that overlaps something under way on the branch, and one of both changes it.
    fn is_busy(&self, io: &CopyIo) -> bool {
        let place = |op: StoreOp| op.changes().or(op.reads());
        self.under_way.values().any(|(other, _)| {
            let overlaps = place(io.op).zip(place(other.op)).is_some_and(|(a, b)| a.overlaps(b));
            let changes = io.op.changes().is_some() || other.op.changes().is_some();
            (io.on, io.volume) == (other.on, other.volume) && changes && overlaps
        })
    }
}

impl Desk {
    /// A client uses a copy, also while it is restored.
    pub(super) fn use_copy(&mut self) {
        let held: Vec<CopyNumber> = self.held().map(|copy| copy.number).collect();
        if held.is_empty() {
            return;
        }
        let copy = held[self.dice.below(held.len() as u64) as usize];
        let volume = self.dice.below(self.sizes.len() as u64) as usize;
        let total = self.sizes[volume].0 / BLOCK;
        let first = self.dice.below(total);
        let count = (1 + self.dice.below((total - first).min(60))).min(total - first);
        let extent = Extent::new(first * BLOCK, count * BLOCK);
        self.names += 1;
        let name = self.names;
        let (branch, fua) = (self.dice.chance(1, 2), self.dice.chance(1, 6));
        let op = match self.dice.below(if branch { 12 } else { 1 }) {
            0..4 => StoreOp::Read { extent },
            4 | 5 => StoreOp::Flush,
            6 => StoreOp::Zero { extent, punch: false, fua },
            _ => {
                let payload = self.payloads.take(vec![name; count as usize]);
                StoreOp::Write { extent, payload, fua }
            }
        };
        let on = if branch { CopyView::Branch(copy) } else { CopyView::Cut(copy) };
        let io = CopyIo { name, on, volume: VolumeIndex(volume as u16), op };
        if self.users.is_busy(&io) {
            return self.let_go(op);
        }
        let mut began = 0;
        if branch {
            let reference = self.branch(copy);
            began = reference.count();
            let stamp = if op.payload().is_some() { name } else { 0 };
            op.changes().into_iter().for_each(|extent| reference.begins(volume, extent, stamp));
        }
        self.users.under_way.insert(name, (io, began));
        self.stack.begin_on_copy(io, self.now);
    }

    /// What the branch of a copy may hold: at first what the copy gives.
    fn branch(&mut self, copy: CopyNumber) -> &mut Reference {
        if !self.users.branches.contains_key(&copy) {
            let volumes: Vec<usize> = self.sizes.iter().map(|it| (it.0 / BLOCK) as usize).collect();
            let mut reference = Reference::new(&volumes);
            reference.is(&self.given(copy));
            self.users.branches.insert(copy, reference);
        }
        let Some(branch) = self.users.branches.get_mut(&copy) else { panic!("it was just made") };
        branch
    }

    /// What was read of a copy is what was cut, or what was written to its branch. Something fails only where something failed, or where
    /// the copy is gone.
    pub(super) fn copy_ended(
        &mut self,
        (io, began): (CopyIo, u64),
        outcome: Outcome,
    ) -> Result<(), String> {
        let CopyIo { on, volume, op, .. } = io;
        let (copy, volume) = (on.copy(), usize::from(volume.0));
        let stamp = if op.payload().is_some() { io.name } else { 0 };
        self.let_go(op);
        if let Some(fault) = outcome.fault() {
            let faults = self.kinds.iter().any(|kind| *kind > 1) || self.pool.has_failed();
            let there = self.held().any(|held| held.number == copy);
            let full =
                fault == StoreFault::NoSpace && op.changes().is_some() && self.tight >= io.name;
            op.changes().into_iter().for_each(|it| self.branch(copy).failed(volume, it));
            return ensure(faults || !there || full, || format!("{io:?} ended as {outcome:?}"));
        }
        match (op, outcome, on) {
            (StoreOp::Read { extent }, Outcome::Read(payload), _) => {
                let stamps = self.payloads.stamps(payload).to_vec();
                let right = match on {
                    CopyView::Branch(_) => self.branch(copy).may_read(volume, extent, &stamps),
                    CopyView::Cut(_) => {
                        let may = &self.images[&copy].blocks[volume][super::blocks(extent)];
                        let pairs = may.iter().zip(&stamps);
                        may.len() == stamps.len() && { pairs }.all(|(may, it)| may.contains(it))
                    }
                };
                ensure(right, || {
                    format!("{extent} of volume {volume} of copy {on} is read as {stamps:?}")
                })?;
                self.walked.copy_reads += 1;
                self.payloads.release(payload.id);
            }
            (StoreOp::Flush, Outcome::Done, CopyView::Branch(_)) => {
                // What is flushed is the pool, with all volumes.
                let volumes = 0..self.sizes.len();
                volumes.for_each(|volume| self.branch(copy).flushed(volume, began));
                self.walked.branch_ios += 1;
            }
            (op, Outcome::Done, CopyView::Branch(_)) if let Some(extent) = op.changes() => {
                self.branch(copy).done(volume, extent, stamp, op.is_flush());
                self.walked.branch_ios += 1;
            }
            _ => return Err(format!("{io:?} ended as {outcome:?}")),
        }
        Ok(())
    }

    /// After a crash each branch holds what it may, over what its copy gives. A copy that is gone has none.
    pub(super) fn judge_branches(&mut self, power: bool) -> Result<(), String> {
        let held: Vec<CopyNumber> = self.held().map(|copy| copy.number).collect();
        self.users.branches.retain(|copy, _| held.contains(copy));
        for copy in held {
            let mut live = self.given(copy);
            for (volume, blocks) in live.iter_mut().enumerate() {
                for (block, stamp) in blocks.iter_mut().enumerate() {
                    *stamp = self.pool.branch_block(copy, volume, block).unwrap_or(*stamp);
                }
            }
            let Some(reference) = self.users.branches.get_mut(&copy) else {
                let unchanged = live == self.given(copy);
                ensure(unchanged, || {
                    format!(
                        "the branch of copy {copy} was never written, and differs from the copy"
                    )
                })?;
                continue;
            };
            if let Some((volume, block)) = reference.wrong(&live, power) {
                let holds = live[volume][block];
                let text = format!("the branch of copy {copy} holds {holds} in block {block}");
                return Err(format!("after a crash {text} of volume {volume}"));
            }
            reference.restarts(&live, power);
        }
        Ok(())
    }
}
