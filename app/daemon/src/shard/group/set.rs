// SPDX-License-Identifier: Apache-2.0
//! The members of a group's volumes: which number a disk gets, and when one is closed.

use super::Group;
use crate::epochs::is_used;
use crate::open;
use crate::shard::CommandReply;
use crate::shard::plan::{MemberPlan, MemberStore, VolumePlan};
use crate::shard::set::{Adding, Removal, RemovedMember};
use helio_engine::{CommandId, Done, Duty, Leg, MergeRecord, Refusal, SetOp};
use helio_format::members::{CopyHealth, DiskMark, MEMBERS_MAX, VolumeEntries, VolumeMembers};
use helio_ledger::{Ledger, MapOwner};
use helio_shadow::REGION;
use helio_units::{MemberIndex, VolumeIndex};

/// A volume has as many members as it can have.
pub(crate) fn many(group: &str, volume: &str) -> Refusal {
    let text = format!(
        "the metadata records {MEMBERS_MAX} members of {group}/{volume}, the maximum; removed members count"
    );
    let hint =
        "restart the daemon: it drops recorded members that the configuration file does not name";
    Refusal::new("too-many-members", text, hint)
}

/// What the metadata has of the members of each volume.
#[derive(Debug)]
pub(crate) struct Recorded {
    durable: Vec<VolumeMembers>,
    /// The record under way.
    asked: Vec<VolumeMembers>,
}

impl Recorded {
    pub(super) fn of(ledger: &Ledger) -> Self {
        let states = |volume: &VolumeEntries| volume.map(|entry| entry.map(|entry| entry.health));
        Self { durable: ledger.members().iter().map(states).collect(), asked: Vec::new() }
    }

    /// A record begins.
    pub(super) fn asked(&mut self, members: Vec<VolumeMembers>) {
        self.asked = members;
    }

    /// It is durable. Returns what was before.
    fn kept(&mut self) -> Vec<VolumeMembers> {
        let asked = std::mem::take(&mut self.asked);
        std::mem::replace(&mut self.durable, asked)
    }

    /// A start would not use the member.
    fn is_unused(&self, Leg { volume, member }: Leg) -> bool {
        let state = self.durable[usize::from(volume.0)][usize::from(member.0)];
        use CopyHealth::{Blank, Copying, Failed, Good, Removed, Suspect, Unproven, Withdrawn};
        match state {
            None | Some(Removed | Failed | Withdrawn) => true,
            // A copy that had hardly begun begins again at a start.
            Some(Good | Suspect | Blank | Copying | Unproven) => false,
        }
    }
}

/// Commands to merge.
#[derive(Debug, Default)]
pub(crate) struct Merges {
    /// The engine has not answered them.
    asked: Vec<(CommandId, VolumeIndex)>,
    /// It has, and they are not recorded yet.
    unrecorded: Vec<(VolumeIndex, CommandReply, Done)>,
}

impl Merges {
    /// The engine is asked.
    pub(super) fn asked(&mut self, id: CommandId, volume: VolumeIndex) {
        self.asked.push((id, volume));
    }

    /// It answered that command, of whatever kind. Returns what can be answered at once.
    pub(super) fn begun(
        &mut self,
        id: CommandId,
        reply: CommandReply,
        result: Result<Done, Refusal>,
    ) -> Option<(CommandReply, Result<Done, Refusal>)> {
        let merge = self.asked.extract_if(.., |(asked, _)| *asked == id).next();
        match (merge, result) {
            (Some((_, volume)), Ok(done)) => {
                self.unrecorded.push((volume, reply, done));
                None
            }
            (_, result) => Some((reply, result)),
        }
    }

    /// None is answered by the group any more.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = CommandReply> + '_ {
        self.unrecorded.drain(..).map(|(_, reply, _)| reply)
    }
}

/// Whether the member left, and may return.
const fn is_away(state: Option<CopyHealth>) -> bool {
    matches!(state, Some(CopyHealth::Removed | CopyHealth::Withdrawn))
}

const fn word(state: CopyHealth) -> &'static str {
    match state {
        CopyHealth::Good | CopyHealth::Suspect | CopyHealth::Blank => "full",
        CopyHealth::Copying => "copying",
        CopyHealth::Removed => "removed",
        CopyHealth::Unproven => "unproven",
        CopyHealth::Failed => "failed",
        CopyHealth::Withdrawn => "withdrawn",
    }
}

impl Group {
    /// What layers asked to be recorded of members is durable: the log says what is new, and those that are not used are closed.
    /// Returns the volumes whose members changed, and the members that left.
    pub(super) fn members_recorded(&mut self) -> Vec<(VolumeIndex, Vec<usize>)> {
        let before = self.recorded.kept();
        let pairs = before.iter().zip(&self.recorded.durable).zip(&self.volumes);
        let (mut copied, mut changed) = (Vec::new(), Vec::new());
        for (at, ((before, now), volume)) in (0..).map(VolumeIndex).zip(pairs) {
            if before != now {
                let left = |n: &usize| before[*n].is_some_and(is_used) && is_away(now[*n]);
                changed.push((at, (0..MEMBERS_MAX).filter(left).collect()));
            }
            for ((before, now), member) in before.iter().zip(now).zip(&volume.members) {
                let path = member.as_ref().map_or("", |member| member.path.as_str());
                let is_full = matches!(*now, Some(CopyHealth::Good | CopyHealth::Blank));
                if *before == Some(CopyHealth::Copying) && is_full {
                    copied.push(at);
                }
                let was = before.map_or("new", word);
                if let Some(state) = now.filter(|now| word(*now) != was) {
                    tracing::warn!(group = %self.name, volume = %volume.name, member = path, "{was} -> {}", word(state));
                }
            }
        }
        copied.dedup();
        copied.into_iter().for_each(|at| self.measure_anew(at));
        changed
    }

    /// Answers commands to merge that are recorded, or cannot be.
    pub(super) fn answer_merges(&mut self) {
        for (volume, reply, done) in std::mem::take(&mut self.merges.unrecorded) {
            let set = self.engine.view().set_status(volume);
            let answer = match set.map(|set| set.merge) {
                Some(MergeRecord::UnderWay) => {
                    self.merges.unrecorded.push((volume, reply, done));
                    continue;
                }
                Some(MergeRecord::Failed) => {
                    let name = &self.volumes[usize::from(volume.0)].name;
                    let text = format!(
                        "the merge of volume {name} started, but the metadata file of {} cannot be written: a restart ends the merge",
                        self.name
                    );
                    let hint = "repair the file system of the metadata, restart the daemon, then repeat the command";
                    Err(Refusal::new("metadata-failed", text, hint))
                }
                Some(MergeRecord::Durable) | None => Ok(done),
            };
            // An asker that has gone wants no answer.
            let _gone = reply.send(answer);
        }
    }

    /// The group is released: no merge is recorded any more.
    pub(crate) fn refuse_merges(&mut self) {
        let text = format!("group {} was released before the merge was recorded", self.name);
        let hint = "run `helio adopt`, then repeat the command";
        for reply in self.merges.take() {
            // An asker that has gone wants no answer.
            let _gone = reply.send(Err(Refusal::new("unknown-group", text.clone(), hint)));
        }
    }

    /// The length that each metadata file needs for bitmaps of these members. None if there is no room for one.
    pub(crate) fn length_with(
        &self,
        volume: VolumeIndex,
        numbers: impl Iterator<Item = usize>,
    ) -> Option<u64> {
        let owner = |member: usize| MapOwner::Member { volume, member: member as u8 };
        let maps: Vec<_> = numbers.map(|member| (owner(member), REGION.0)).collect();
        self.metadata.ledger().length_with(&maps)
    }

    /// The number of a disk among the members: the one it had, or one that nobody has.
    pub(crate) fn place_for(&self, at: VolumeIndex, new: &MemberPlan) -> Result<usize, Refusal> {
        let volume = &self.volumes[usize::from(at.0)];
        let name = format!("{}/{}", self.name, volume.name);
        let untold = |member: &&MemberPlan| member.mark == DiskMark::UNKNOWN;
        let all = volume.members.iter().flatten().chain([new]);
        if let Some(member) = all.into_iter().find(untold) {
            let (text, hint) = open::untold(&member.path, &name);
            return Err(Refusal::new("no-identity", text, hint));
        }
        let same =
            |member: &Option<MemberPlan>| member.as_ref().is_some_and(|it| it.mark == new.mark);
        let number = volume.members.iter().position(same);
        let used =
            number.and_then(|n| volume.members[n].as_ref()).filter(|it| it.store().is_some());
        if let Some(used) = used {
            let (text, hint) = open::same(&new.path, &used.path, &name);
            return Err(Refusal::new("same-disk", text, hint));
        }
        let number = number.or_else(|| volume.members.iter().position(Option::is_none));
        number.ok_or_else(|| many(&self.name, &volume.name))
    }

    /// Whether the disk at that path may become a member, as far as that can be told without it.
    pub(crate) fn may_add(&self, at: VolumeIndex, path: &str) -> Result<(), Refusal> {
        let volume = &self.volumes[usize::from(at.0)];
        let set = self.engine.view().set_status(at);
        let name = format!("{}/{}", self.name, volume.name);
        let unnamed = |n: usize| {
            volume.members[n].is_none() && set.as_ref().is_some_and(|set| set.members[n].is_some())
        };
        if (0..MEMBERS_MAX).any(unnamed) {
            // What is recorded of it is about the disk before.
            let text =
                format!("{name} has a recorded member that the configuration file does not name");
            let hint = format!(
                "restart the daemon of {}, which drops it, then repeat the command",
                self.config.node
            );
            return Err(Refusal::new("obsolete-member", text, hint));
        }
        let open = |(_, member): &(usize, &Option<MemberPlan>)| {
            member.as_ref().is_some_and(|it| it.path == path && it.store().is_some())
        };
        let Some((number, _)) = volume.members.iter().enumerate().find(open) else { return Ok(()) };
        let duty = set.and_then(|set| set.members[number]).map(|member| member.duty);
        if matches!(duty, Some(Duty::Removed { .. })) {
            let text = format!(
                "{path} has not completed all operations from before its removal from {name}"
            );
            let hint = "wait until its disk responds, then repeat the command";
            return Err(Refusal::later("member-late", text, hint));
        }
        let hint = format!("`helio status {}` shows the members", self.name);
        Err(Refusal::new("member-used", format!("{path} is a member of {name} already"), hint))
    }

    /// Whether what the metadata has of that member allows to add it in this way.
    pub(crate) fn check_adding(
        &self,
        at: VolumeIndex,
        number: usize,
        how: Adding,
    ) -> Result<(), Refusal> {
        let set = self.engine.view().set_status(at);
        let duty = set.and_then(|set| (*set.members.get(number)?)?.duty.into());
        let name = format!("{}/{}", self.name, self.volumes[usize::from(at.0)].name);
        match (how, duty) {
            (Adding::Any, _) => Ok(()),
            (_, None | Some(Duty::Removed { lacks: None, .. })) => {
                let text = format!("the metadata has no bitmap of the disk for {name}");
                let hint =
                    "`helio member add` without `--require-minicopy` compares or copies all of it";
                Err(Refusal::new("no-bitmap", text, hint))
            }
            (Adding::Returning(wanted), _) if usize::from(wanted) != number => {
                let text = format!("another disk is at the path of member {wanted} of {name}");
                let hint = "to use this disk in place of the member, run `helio member add`, which overwrites it";
                Err(Refusal::new("disk-refused", text, hint))
            }
            (Adding::Returning(_), Some(Duty::Removed { withdrawn: true, .. })) => {
                let text = format!("a command removed member {number} of {name}");
                Err(Refusal::new("member-unused", text, "`helio member add` returns it"))
            }
            (Adding::ByBitmap | Adding::Returning(_), Some(_)) => Ok(()),
        }
    }

    /// Members that were removed after an error, are closed, and have a bitmap. A path that another disk took over since is left out: it
    /// may be that of a backup.
    pub(crate) fn removed(&mut self) -> Vec<RemovedMember> {
        let several = |volume: &VolumePlan| volume.members.iter().flatten().count() > 1;
        let wait = self.settings.member_return.filter(|_| self.volumes.iter().any(several));
        let Some(wait) = wait else { return Vec::new() };
        // One that was late may have completed its operations since.
        self.close_unused();
        let mut removed = Vec::new();
        for (at, volume) in (0..).map(VolumeIndex).zip(&self.volumes) {
            let closed = |member: &Option<MemberPlan>| {
                member.as_ref().is_some_and(|member| member.store().is_none())
            };
            if !volume.members.iter().any(closed) {
                continue;
            }
            let Some(set) = self.engine.view().set_status(at) else { continue };
            for (number, (member, status)) in (0..).zip(volume.members.iter().zip(&set.members)) {
                let duty = status.map(|status| status.duty);
                if let Some(Duty::Removed { lacks: Some(_), withdrawn: false }) = duty
                    && let Some(plan) = member.as_ref().filter(|_| closed(member))
                    && volume.paths().filter(|path| *path == plan.path).count() == 1
                {
                    let (group, volume) = (self.name.clone(), volume.name.clone());
                    let path = plan.path.clone();
                    removed.push(RemovedMember { group, volume, number, path, wait });
                }
            }
        }
        removed
    }

    /// Whether the volume has more than one member.
    fn has_another(&self, at: VolumeIndex) -> Result<(), Refusal> {
        let volume = &self.volumes[usize::from(at.0)];
        if volume.members.iter().flatten().count() > 1 {
            return Ok(());
        }
        let node = &self.config.node;
        let text = format!("{}/{} has only one member on {node}", self.name, volume.name);
        let hint = "name another member in the configuration file, then run `helio apply`";
        Err(Refusal::new("one-member", text, hint))
    }

    pub(crate) fn merge(&self, at: VolumeIndex) -> Result<SetOp, Refusal> {
        self.has_another(at).map(|()| SetOp::Merge(at))
    }

    pub(crate) fn removal(
        &self,
        at: VolumeIndex,
        path: &str,
        how: Removal,
    ) -> Result<SetOp, Refusal> {
        let volume = &self.volumes[usize::from(at.0)];
        let Some(number) = volume.at_path(path) else {
            let text = format!("{path} is no member of {}/{}", self.name, volume.name);
            let hint = format!("`helio status {}` shows the members", self.name);
            return Err(Refusal::new("unknown-member", text, hint));
        };
        self.has_another(at)?;
        let view = self.engine.view();
        let duty = view.set_status(at).and_then(|set| Some(set.members[number]?.duty));
        if how == Removal::ForBackup && duty != Some(Duty::Full) {
            let text = format!("{path} does not hold all of {}/{}", self.name, volume.name);
            let hint = format!("wait until `helio status {}` shows it as full", self.name);
            return Err(Refusal::new("not-full", text, hint));
        }
        if how == Removal::ForBackup {
            view.refuse_unfit(at)?;
        }
        if how == Removal::ForBackup && !view.words().consistent {
            let text = format!("the copy of {} on {} is inconsistent", self.name, self.config.node);
            let hint = format!("wait until `helio status {}` shows it as consistent", self.name);
            return Err(Refusal::new("not-consistent", text, hint));
        }
        let leg = Leg { volume: at, member: MemberIndex(number as u8) };
        Ok(SetOp::Remove { leg, force: how == Removal::Forced })
    }

    /// Closes members that are not used, and durably so, once nothing is under way on them. Forgets disks that never were used.
    pub(crate) fn close_unused(&mut self) {
        for (at, volume) in (0..).map(VolumeIndex).zip(&mut self.volumes) {
            let Some(set) = self.engine.view().set_status(at) else { continue };
            for (number, member) in (0..).map(MemberIndex).zip(&mut volume.members) {
                let leg = Leg { volume: at, member: number };
                let status = set.members[usize::from(number.0)];
                let is_used =
                    status.is_some_and(|status| !matches!(status.duty, Duty::Removed { .. }));
                // Operations that wait for their extents count, too.
                let waits = status.is_some_and(|status| status.depth > 0);
                let is_busy = waits
                    || self.stamps.are_under_way(leg)
                    || self.stamps.are_owed(leg)
                    || self.ios.iter().flatten().any(|io| io.leg == leg);
                if is_used
                    || is_busy
                    || self.adding.iter().any(|(_, adding)| *adding == leg)
                    || !self.recorded.is_unused(leg)
                {
                    continue;
                }
                self.stamps.forget(leg);
                match member {
                    Some(plan) if status.is_some() && plan.store().is_some() => {
                        plan.store = MemberStore::Closed(String::from("it is not in use"));
                    }
                    Some(plan) if plan.store().is_some() => *member = None,
                    _ => {}
                }
            }
        }
    }
}
