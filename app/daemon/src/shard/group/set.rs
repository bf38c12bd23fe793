// SPDX-License-Identifier: Apache-2.0
//! The members of a group's volumes: which number a disk gets, and when one is closed.

use super::Group;
use crate::shard::plan::{MemberPlan, MemberStore};
use crate::shard::set::Removal;
use helio_engine::{Duty, Leg, Refusal, SetOp};
use helio_format::members::{DiskMark, MEMBERS_MAX};
use helio_ledger::{Change, MapOwner};
use helio_shadow::REGION;
use helio_units::{Bytes, MemberIndex, VolumeIndex};

/// A volume has as many members as it can have.
pub(crate) fn many(group: &str, volume: &str) -> Refusal {
    let text = format!("{group}/{volume} has {MEMBERS_MAX} members");
    Refusal::new(
        "too-many-members",
        text,
        "restart the daemon: it forgets members that its file does not name",
    )
}

impl Group {
    /// The length that each metadata file needs for bitmaps of these members. None if there is no room for one.
    pub(crate) fn length_with(
        &self,
        volume: VolumeIndex,
        numbers: impl Iterator<Item = usize>,
    ) -> Option<u64> {
        let (mut ledger, unit) = (self.metadata.ledger().clone(), REGION.0);
        let mut length = 0;
        for owner in numbers.map(|member| MapOwner::Member { volume, member: member as u8 }) {
            if !ledger.is_poisoned() && !ledger.has_map(owner) {
                length = length.max(ledger.length_with(owner, unit)?);
                let refused = ledger.keep(Change::Make { owner, unit });
                debug_assert_eq!(refused, None, "it is not poisoned");
            }
        }
        Some(length)
    }

    /// The number of a disk among the members: the one it had, or one that nobody has.
    pub(crate) fn place_for(&self, at: VolumeIndex, new: &MemberPlan) -> Result<usize, Refusal> {
        let volume = &self.volumes[usize::from(at.0)];
        let name = format!("{}/{}", self.name, volume.name);
        let untold = |member: &&MemberPlan| member.mark == DiskMark::UNKNOWN;
        let all = volume.members.iter().flatten().chain([new]);
        if let Some(member) = all.into_iter().find(untold) {
            let text =
                format!("nothing tells {}, a member of {name}, from another disk", member.path);
            let hint = "several members need disks with a serial number, or files";
            return Err(Refusal::new("untold-disk", text, hint));
        }
        let same =
            |member: &Option<MemberPlan>| member.as_ref().is_some_and(|it| it.mark == new.mark);
        let number = volume.members.iter().position(same);
        let number = number.or_else(|| volume.members.iter().position(Option::is_none));
        number.ok_or_else(|| many(&self.name, &volume.name))
    }

    pub(crate) fn removal(
        &self,
        at: VolumeIndex,
        path: &str,
        how: Removal,
    ) -> Result<SetOp, Refusal> {
        let volume = &self.volumes[usize::from(at.0)];
        let named = |member: &Option<MemberPlan>| member.as_ref().is_some_and(|it| it.path == path);
        let Some(number) = volume.members.iter().position(named) else {
            let text = format!("{path} is no member of {}/{}", self.name, volume.name);
            let hint = format!("`helio status {}` shows the members", self.name);
            return Err(Refusal::new("unknown-member", text, hint));
        };
        let set = self.engine.view().set_status(at);
        let is_whole = set.is_some_and(|set| {
            let duty = set.members[number].map(|member| member.duty);
            duty == Some(Duty::Full) && set.unmerged == Bytes::ZERO
        });
        if how == Removal::ForBackup && !is_whole {
            let text = format!("{path} does not hold all of {}/{}", self.name, volume.name);
            let hint = format!("wait until `helio status {}` shows it as full", self.name);
            return Err(Refusal::new("not-full", text, hint));
        }
        let leg = Leg { volume: at, member: MemberIndex(number as u8) };
        Ok(SetOp::Remove { leg, force: how == Removal::Forced })
    }

    /// Closes members that are not used, once nothing is under way on them.
    pub(crate) fn close_unused(&mut self) {
        for (at, volume) in (0..).map(VolumeIndex).zip(&mut self.volumes) {
            let Some(set) = self.engine.view().set_status(at) else { continue };
            for (number, member) in (0..).map(MemberIndex).zip(volume.members.iter_mut().flatten())
            {
                let leg = Leg { volume: at, member: number };
                let status = set.members[usize::from(number.0)];
                let is_removed =
                    status.is_some_and(|status| matches!(status.duty, Duty::Removed { .. }));
                let is_busy = self.ios.iter().flatten().any(|io| io.leg == leg);
                if is_removed && !is_busy && member.store().is_some() {
                    member.store = MemberStore::Closed(String::from("it is not in use"));
                }
            }
        }
    }
}
