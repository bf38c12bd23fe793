// SPDX-License-Identifier: Apache-2.0
//! What is judged of sets, beside what is read.

use super::super::BLOCK;
use super::super::story::ensure;
use super::desk::{Asked, Desk};
use helio_format::marks::REGIONS_PER_PAGE;
use helio_format::members::CopyHealth;
use helio_stack::{Duty, Leg, MergeRecord, SetStatus, StoreFault, StoreOp};
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
            Some(CopyHealth::Good | CopyHealth::Blank) => false,
            Some(CopyHealth::Copying | CopyHealth::Removed | CopyHealth::Withdrawn) => true,
            _ => return Ok(()),
        };
        if self.foreign.contains(&leg) || self.believed.is_some() {
            return Ok(());
        }
        let pairs = self.disks[member].live()[v].iter().zip(&self.disks[full].live()[v]);
        for (block, (holds, wanted)) in pairs.enumerate() {
            let other = Leg { volume, member: MemberIndex(full as u8) };
            let known = self.hot.is_hot(v, block as u64 * BLOCK)
                || self.has_bit(leg, block)
                || !by_bitmap && self.has_bit(other, block);
            ensure(known || holds == wanted, || {
                format!(
                    "nothing says that block {block} of member {member} of volume {v} holds {holds}, not {wanted}"
                )
            })?;
        }
        Ok(())
    }

    /// The bitmap of a member, as the ledger has it, says that it may differ in a block.
    pub(super) fn has_bit(&self, leg: Leg, block: usize) -> bool {
        let region = block as u64 * BLOCK / self.region.0;
        self.ledger.has_bit(leg, region, u64::from(REGIONS_PER_PAGE))
    }

    /// A process ends. Bytes of each volume that are to be merged, where it is acknowledged that a command asked for that.
    pub(super) fn owed_merges(&mut self) -> Vec<u64> {
        let status = |volume: VolumeIndex| {
            let asked = self.merges.contains(&volume);
            let set = self.stack.set_status(volume).filter(|_| asked);
            let set = set.filter(|set| set.merge == MergeRecord::Durable);
            set.map_or(0, |set| set.unmerged.0.saturating_sub(self.left_with_removed(volume)))
        };
        let to_merge: Vec<u64> = self.volumes().map(status).collect();
        self.merges.retain(|volume| to_merge[usize::from(volume.0)] > 0);
        to_merge
    }

    /// Bytes in regions of which only members that were removed have a bit on record. What a process before had merged stays unmerged for
    /// this one if the bit of one member was not cleared in time; with that member the bit is gone, too.
    fn left_with_removed(&self, volume: VolumeIndex) -> u64 {
        let legs = |full: bool| {
            let members = (0..self.disks.len()).map(|n| MemberIndex(n as u8));
            let legs = members.map(move |member| Leg { volume, member });
            legs.filter(move |leg| self.ledger.is_full(*leg) == full)
        };
        let size = self.sizes[usize::from(volume.0)].0;
        let places = (0..size).step_by(self.region.0 as usize).map(|at| (at / BLOCK) as usize);
        let has = |full: bool, block: usize| legs(full).any(|leg| self.has_bit(leg, block));
        let left = places.filter(|block| has(false, *block) && !has(true, *block)).count();
        self.region.0 * left as u64
    }

    /// A process starts behind another one, which had that to merge.
    pub(super) fn judge_merges(&self, to_merge: &[u64]) -> Result<(), String> {
        for (volume, before) in self.volumes().zip(to_merge) {
            let Some(set) = self.stack.set_status(volume) else { continue };
            let full = set.members.iter().flatten().filter(|member| member.duty == Duty::Full);
            ensure(full.count() < 2 || set.unmerged.0 >= *before, || {
                format!("{before} bytes of {volume:?} were to be merged, and {} are", set.unmerged)
            })?;
        }
        Ok(())
    }

    /// An operation fails as unrecorded only if no record can be saved, and otherwise only if each full member failed something since it
    /// began.
    pub(super) fn judge_failure(&self, asked: &Asked, fault: StoreFault) -> Result<(), String> {
        let changes = asked.op.changes().is_some() || asked.op == StoreOp::Flush;
        if fault == StoreFault::Unrecorded {
            return ensure(changes && self.ledger.has_failed(), || {
                format!("{:?} failed as unrecorded, and the ledger works", asked.op)
            });
        }
        let volume = VolumeIndex(asked.volume as u16);
        for leg in self.full_legs(volume) {
            let failed = self.failed_at.get(&leg).is_some_and(|at| *at >= asked.began);
            let of = |leg: &Leg| leg.volume == volume;
            let doubted = asked.op.is_flush() && self.unflushed.iter().any(of);
            ensure(failed || doubted, || {
                format!("{:?} failed, and {leg:?} did not fail it", asked.op)
            })?;
        }
        Ok(())
    }

    /// A layer reports a failed flush of its own only if every full member failed one.
    pub(super) fn judge_own_flush(&self, volume: VolumeIndex) -> Result<(), String> {
        for leg in self.full_legs(volume) {
            let failed = self.unflushed.contains(&leg);
            ensure(failed, || format!("a layer's flush failed, and {leg:?} did not fail it"))?;
        }
        Ok(())
    }

    /// The members that are full now, and were before this step.
    fn full_legs(&self, volume: VolumeIndex) -> Vec<Leg> {
        let full = |status: &SetStatus, n: usize| {
            status.members[n].is_some_and(|member| member.duty == Duty::Full)
        };
        let before = self.before.get(usize::from(volume.0));
        let (Some(now), Some(before)) = (self.stack.set_status(volume), before) else {
            return Vec::new();
        };
        let members = (0..self.disks.len()).filter(|n| full(&now, *n) && full(before, *n));
        members.map(|n| Leg { volume, member: MemberIndex(n as u8) }).collect()
    }

    /// A member that counts as the volume holds what may be read of it.
    pub(super) fn judge_settled(&self) -> Result<(), String> {
        for (v, volume) in self.volumes().enumerate() {
            let Ok(member) = self.stack.settled_member(volume) else { continue };
            let member = usize::from(member.0);
            for (block, stamp) in self.disks[member].live()[v].iter().enumerate() {
                ensure(self.reference.allows(v, block, *stamp, false), || {
                    format!(
                        "member {member} counts as volume {v}, and its block {block} holds {stamp}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Counts what changed in this step.
    pub(super) fn observe(&mut self) {
        let now: Vec<SetStatus> =
            self.volumes().filter_map(|volume| self.stack.set_status(volume)).collect();
        for (volume, (before, now)) in self.before.iter().zip(&now).enumerate() {
            if now.unmerged.0 == 0 {
                self.merges.remove(&VolumeIndex(volume as u16));
            }
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
