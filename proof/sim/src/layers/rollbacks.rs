// SPDX-License-Identifier: Apache-2.0
//! Rollbacks of a desk: at a moment the volumes hold what a copy holds, whether or not it is put back, and with a crash all of it or
//! nothing.

use super::Stamp;
use super::story::{Desk, ensure};
use helio_format::before::{CopyNumber, CopyStage, KeptCopy};
use helio_units::VolumeIndex;

/// The moment of a rollback was.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Its number.
    pub(super) by: CopyNumber,
    /// What the copy gave to which the volumes go back.
    pub(super) image: Vec<Vec<Stamp>>,
}

impl Desk {
    /// To which copy the volumes go back, and from which moment on: what both the pool and the ledger say.
    pub(super) fn rolls_back(&self) -> Option<(CopyNumber, CopyNumber)> {
        self.pool.rollback().filter(|(_, by)| self.rollback == Some(*by))
    }

    /// What the volumes hold: what their members do, but for chunks that a rollback owes.
    pub(super) fn volumes(&self) -> Vec<Vec<Stamp>> {
        let mut volumes = self.members.live().to_vec();
        let Some((to, by)) = self.rolls_back() else { return volumes };
        for (volume, blocks) in volumes.iter_mut().enumerate() {
            for (block, stamp) in blocks.iter_mut().enumerate() {
                if self.pool.kept_block(by, volume, block).is_none() {
                    *stamp = self.pool.kept_block(to, volume, block).unwrap_or(*stamp);
                }
            }
        }
        volumes
    }

    /// A member that counts as the volume holds what the volume does.
    pub(super) fn judge_settled(&self) -> Result<(), String> {
        for (v, (volume, member)) in self.volumes().iter().zip(self.members.live()).enumerate() {
            let settled = self.stack.settled_member(VolumeIndex(v as u16));
            ensure(settled.is_err() || volume == member, || {
                format!(
                    "the member of volume {v} counts as the volume, and a rollback is not written to it"
                )
            })?;
        }
        Ok(())
    }

    /// Whether the moment of a rollback may come: nothing reads that would see one or the other, and what is asked has reached the layer.
    pub(super) fn may_turn(&self) -> bool {
        let delayed = self.kinds.iter().any(|kind| *kind > 1);
        let reads = self.asked.values().any(|asked| asked.op.reads().is_some());
        if delayed { self.asked.is_empty() } else { !reads }
    }

    /// The layer says that the volumes are rolled back, durably.
    pub(super) fn turned(&mut self, number: CopyNumber) -> Result<(), String> {
        let durable = self.rolls_back();
        ensure(durable.is_some_and(|(_, by)| by == number), || {
            format!("rollback {number} has begun, and what is durable is {durable:?}")
        })?;
        let Some(turn) = self.turn.take() else {
            return Err(format!("rollback {number} has begun without a moment"));
        };
        self.reference.is(&turn.image);
        Ok(())
    }

    /// A change is done: what its client relies on must not be undone by a rollback whose beginning was not told.
    pub(super) fn judge_turn(&self) -> Result<(), String> {
        let Some(turn) = &self.turn else { return Ok(()) };
        let may_hold = self.rolls_back().is_some_and(|(_, by)| by == turn.by);
        ensure(!may_hold, || format!("rollback {} may undo a change that is done", turn.by))
    }

    /// What is needed for a rollback stays listed.
    pub(super) fn judge_list(&self, copies: &[KeptCopy]) -> Result<(), String> {
        let Some((to, by)) = self.rolls_back() else { return Ok(()) };
        let has = |number: CopyNumber| copies.iter().any(|copy| copy.number == number);
        ensure(has(to) || !has(by), || format!("copy {to} goes, and rollback {by} needs it"))?;
        let over =
            |copy: &KeptCopy| copy.number != by || matches!(copy.stage, CopyStage::Rollback(_));
        ensure(copies.iter().all(over), || format!("rollback {by} is listed as a copy"))?;
        let turning = self.turn.as_ref().is_some_and(|turn| turn.by == by);
        let owed = self.volumes() != self.members.live();
        ensure(has(by) || turning || !owed, || {
            format!("rollback {by} ends, and something was not put back")
        })
    }
}
