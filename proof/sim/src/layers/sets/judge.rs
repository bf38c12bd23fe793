// SPDX-License-Identifier: Apache-2.0
//! What is judged of sets, beside what is read.

use super::super::BLOCK;
use super::super::story::ensure;
use super::desk::{Asked, Desk};
use helio_format::marks::REGIONS_PER_PAGE;
use helio_format::members::CopyHealth;
use helio_stack::{Duty, Leg, SetStatus, StoreOp};
use helio_units::{MemberIndex, VolumeIndex};

impl Desk {
    /// Every member that the ledger calls full holds what was acknowledged; where nothing is hot, members are equal but for what
    /// bitmaps say.
    pub(super) fn judge_crash(&self, power: bool) -> Result<(), String> {
        for (v, volume) in self.volumes().enumerate() {
            let full = self.full(volume);
            ensure(!full.is_empty(), || format!("no member of volume {v} is full"))?;
            for member in &full {
                for (block, stamp) in self.disks[*member].live()[v].iter().enumerate() {
                    ensure(self.reference.allows(v, block, *stamp, power), || {
                        format!(
                            "after a crash block {block} of member {member} of volume {v} holds {stamp}"
                        )
                    })?;
                }
            }
            for member in 0..self.disks.len() {
                self.judge_cold(volume, member, full[0])?;
            }
        }
        Ok(())
    }

    fn judge_cold(&self, volume: VolumeIndex, member: usize, full: usize) -> Result<(), String> {
        let (v, leg) = (usize::from(volume.0), Leg { volume, member: MemberIndex(member as u8) });
        let by_bitmap = match self.ledger.state(leg) {
            Some(CopyHealth::Good) => false,
            Some(CopyHealth::Copying | CopyHealth::Removed | CopyHealth::Withdrawn) => true,
            _ => return Ok(()),
        };
        if self.foreign.contains(&leg) || self.believed.is_some() {
            return Ok(());
        }
        let pairs = self.disks[member].live()[v].iter().zip(&self.disks[full].live()[v]);
        for (block, (holds, wanted)) in pairs.enumerate() {
            let offset = block as u64 * BLOCK;
            let region = offset / self.region.0;
            let known = self.hot.is_hot(v, offset)
                || by_bitmap && self.ledger.has_bit(leg, region, u64::from(REGIONS_PER_PAGE));
            ensure(known || holds == wanted, || {
                format!(
                    "nothing says that block {block} of member {member} of volume {v} holds {holds}, not {wanted}"
                )
            })?;
        }
        Ok(())
    }

    /// An operation fails only where every full member failed something meanwhile, or nothing can be recorded.
    pub(super) fn judge_failure(&self, asked: &Asked) -> Result<(), String> {
        let changes = asked.op.changes().is_some() || asked.op == StoreOp::Flush;
        if changes && self.ledger.has_failed() {
            return Ok(());
        }
        let volume = VolumeIndex(asked.volume as u16);
        let full = |status: &SetStatus, n: usize| {
            status.members[n].is_some_and(|member| member.duty == Duty::Full)
        };
        let (Some(now), Some(before)) =
            (self.stack.set_status(volume), self.before.get(asked.volume))
        else {
            return Ok(());
        };
        for n in (0..self.disks.len()).filter(|n| full(&now, *n) && full(before, *n)) {
            let leg = Leg { volume, member: MemberIndex(n as u8) };
            let failed = self.failed_at.get(&leg).is_some_and(|at| *at >= asked.began);
            let of = |leg: &Leg| leg.volume == volume;
            let doubted = asked.op.is_flush() && self.unflushed.iter().any(of);
            ensure(failed || doubted, || {
                format!(
                    "{:?} failed, and member {n} of volume {} did not fail it",
                    asked.op, asked.volume
                )
            })?;
        }
        Ok(())
    }

    /// Counts what changed in this step.
    pub(super) fn observe(&mut self) {
        let now: Vec<SetStatus> =
            self.volumes().filter_map(|volume| self.stack.set_status(volume)).collect();
        for (volume, (before, now)) in self.before.iter().zip(&now).enumerate() {
            self.walked.merges += u64::from(before.unmerged.0 > 0 && now.unmerged.0 == 0);
            let pairs = before.members.iter().zip(&now.members).enumerate();
            for (n, (before, now)) in pairs {
                let (Some(before), Some(now)) = (before, now) else { continue };
                self.walked.repairs += now.repaired - before.repaired;
                let leg = Leg { volume: VolumeIndex(volume as u16), member: MemberIndex(n as u8) };
                match (before.duty, now.duty) {
                    (Duty::Full, Duty::Removed { .. }) => self.walked.removals += 1,
                    (Duty::Copying { .. }, Duty::Full) => {
                        self.walked.returns += 1;
                        let whole = self.whole.contains(&leg);
                        self.walked.copies += u64::from(whole);
                        self.walked.minicopies += u64::from(!whole);
                    }
                    _ => {}
                }
            }
        }
        self.before = now;
    }
}
