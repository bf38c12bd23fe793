// SPDX-License-Identifier: Apache-2.0
//! Members of a volume that come and go while it is served.

use crate::shard::group::many;
use crate::shard::plan::MemberPlan;
use crate::shard::{CommandReply, Shard};
use helio_disk::MemberIdentity;
use helio_driver::Driver;
use helio_engine::{Event, LayerSetting, Leg, Refusal, SetOp};
use helio_format::members::MEMBERS_MAX;
use helio_ledger::{Change, MapOwner};
use helio_shadow::REGION;
use helio_units::{Bytes, MemberIndex, Moment, VolumeIndex};
use std::path::PathBuf;
use std::time::Duration;

/// What a disk has to fit that is to become a member, and the room that its bitmap needs.
#[derive(Debug)]
pub(crate) struct Room {
    /// What every volume lies on, and its name.
    pub(crate) others: Vec<(MemberIdentity, String)>,
    /// Blocks that clients keep to.
    pub(crate) alignment: Bytes,
    /// The length in bytes that each metadata file must have first, all of it allocated.
    pub(crate) metadata: u64,
}

/// What is asked of one volume's members.
#[derive(Debug)]
pub(crate) enum SetAsk {
    /// This disk is to be a member.
    Add { member: Box<MemberPlan>, how: Adding, room: Box<Room> },
    /// The member at that path is to be used no more.
    Remove { path: String, how: Removal },
    /// The members are to be compared, and made equal.
    Merge,
}

/// How a member is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adding {
    /// Whether or not it has a bitmap.
    Any,
    /// Only if it has one.
    ByBitmap,
    /// As the member of that number, if an error removed it, no command did, and it has a bitmap.
    Returning(u8),
}

/// A member that was removed after an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemovedMember {
    pub(crate) group: String,
    pub(crate) volume: String,
    pub(crate) number: u8,
    pub(crate) path: String,
    /// How long the group leaves it alone at first.
    pub(crate) wait: Duration,
}

/// How a member is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Once its operations have ended.
    Ordinary,
    /// It must hold all of the volume, as it was at one moment.
    ForBackup,
    /// Also if it does not complete its operations.
    Forced,
}

impl<D: Driver> Shard<D> {
    /// What another member of that volume has to fit.
    pub(super) fn room(&mut self, index: usize, volume: &str, path: &str) -> Result<Room, Refusal> {
        let at = self.volume(index, volume)?;
        self.groups[index].close_unused();
        let group = &self.groups[index];
        group.may_add(at, path)?;
        let members = &group.volumes[usize::from(at.0)].members;
        let another = (0..MEMBERS_MAX).find(|n| members[*n].is_none());
        let numbers = (0..MEMBERS_MAX).filter(|n| members[*n].is_some()).chain(another);
        let alignment = group.engine.view().block(at);
        let metadata = group.length_with(at, numbers);
        Ok(Room {
            others: self.stores(),
            alignment,
            metadata: metadata.ok_or_else(|| many(&group.name, volume))?,
        })
    }

    /// Members of a volume are to change.
    pub(super) fn change_set(
        &mut self,
        index: usize,
        volume: &str,
        ask: SetAsk,
        reply: CommandReply,
        now: Moment,
    ) {
        let op = self.volume(index, volume).and_then(|at| match ask {
            SetAsk::Add { member, how, room } => self.add(index, at, *member, (how, &room), now),
            SetAsk::Remove { path, how } => self.groups[index].removal(at, &path, how),
            SetAsk::Merge => self.groups[index].merge(at),
        });
        match op {
            Ok(op) => {
                self.rota.stir(index);
                let group = &mut self.groups[index];
                group.guarded(|group| group.ask_set(now, op, reply));
            }
            Err(refusal) => {
                // An asker that has gone wants no answer.
                let _gone = reply.send(Err(refusal));
            }
        }
    }

    /// Puts a disk in its place among the members of a volume.
    fn add(
        &mut self,
        index: usize,
        at: VolumeIndex,
        member: MemberPlan,
        (how, room): (Adding, &Room),
        now: Moment,
    ) -> Result<SetOp, Refusal> {
        let group = &mut self.groups[index];
        group.may_use(at, &member)?;
        let number = group.place_for(at, &member)?;
        let members = &group.volumes[usize::from(at.0)].members;
        let numbers = (0..MEMBERS_MAX).filter(|n| members[*n].is_some() || *n == number);
        let numbers: Vec<usize> = numbers.collect();
        group.may_add(at, &member.path)?;
        group.check_adding(at, number, how)?;
        if group
            .length_with(at, numbers.iter().copied())
            .is_none_or(|length| length > room.metadata)
        {
            let text = format!("the metadata of {} is being changed", group.name);
            return Err(Refusal::new("busy", text, "repeat the command"));
        }
        let leg = Leg { volume: at, member: MemberIndex(number as u8) };
        let by_bitmap = group.judge_return(leg, &member, how, now)? && how != Adding::Any;
        for member in numbers {
            let owner = MapOwner::Member { volume: at, member: member as u8 };
            if !group.metadata.ledger().has_map(owner) {
                let unit = REGION.0;
                group.guarded(|group| {
                    group.keep(Change::Make { owner, unit }, now, &mut self.driver)
                });
            }
        }
        group.volumes[usize::from(at.0)].members[number] = Some(member);
        group.opened(at, number, now);
        Ok(SetOp::Add { leg, by_bitmap })
    }

    /// The latency of a member was measured.
    pub(super) fn measured(
        &mut self,
        index: usize,
        volume: &str,
        path: PathBuf,
        latency: Option<Duration>,
        now: Moment,
    ) {
        if let Ok(at) = self.volume(index, volume) {
            self.rota.stir(index);
            self.groups[index].guarded(|group| group.measured((at, path), latency, now));
        }
    }

    /// The configuration file names the member at that path no more.
    pub(super) fn unnamed(&mut self, index: usize, volume: &str, path: &str, now: Moment) {
        let Ok(at) = self.volume(index, volume) else { return };
        let group = &mut self.groups[index];
        let Some(number) = group.volumes[usize::from(at.0)].at_path(path) else { return };
        let leg = Leg { volume: at, member: MemberIndex(number as u8) };
        self.rota.stir(index);
        group.guarded(|group| group.tell(now, Event::Layers(LayerSetting::Unnamed(leg))));
    }

    /// Whether the member at that path is closed: nothing of this daemon reaches it any more.
    pub(super) fn is_closed(&mut self, index: usize, volume: &str, path: &str) -> bool {
        let Ok(at) = self.volume(index, volume) else { return true };
        let group = &mut self.groups[index];
        group.close_unused();
        let mut members = group.volumes[usize::from(at.0)].members.iter().flatten();
        !members.any(|member| member.path == path && member.store().is_some())
    }
}
