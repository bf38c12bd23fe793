// SPDX-License-Identifier: Apache-2.0
//! Another disk in the place of one that is lost.

use crate::open;
use crate::shard::plan::VolumePlan;
use crate::shard::{CommandReply, Shard};
use helio_disk::{Held, MemberIdentity};
use helio_driver::Driver;
use helio_engine::{Command, Refusal};
use helio_units::{Bytes, MemberIndex, Moment, VolumeIndex};

/// The place of a disk that is lost.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Which member it is.
    pub(crate) number: MemberIndex,
    /// The one that is to go: it may be the same, mended.
    pub(crate) held: Held,
    /// Blocks that clients keep to.
    pub(crate) alignment: Bytes,
    /// What every other volume lies on.
    pub(crate) others: Vec<(MemberIdentity, String)>,
    /// Who fills another one.
    pub(crate) peer: String,
    /// What is given up besides this copy, in words.
    pub(crate) lost: Option<String>,
}

impl<D: Driver> Shard<D> {
    /// What another disk has to fit.
    pub(super) fn seat(&self, index: usize, volume: &str) -> Result<Seat, Refusal> {
        let at = self.volume(index, volume)?;
        let group = &self.groups[index];
        group.engine.view().may_replace(at)?;
        let members = &group.volumes[usize::from(at.0)].members;
        let mut open = (0..).map(MemberIndex).zip(members);
        let mut open =
            std::iter::from_fn(|| open.find_map(|(n, member)| Some((n, member.as_ref()?))));
        let (Some((number, member)), None) = (open.next(), open.next()) else {
            let text = format!("{}/{volume} has several members", group.name);
            let hint = "`helio member remove` and `helio member add` exchange one of them";
            return Err(Refusal::new("several-members", text, hint));
        };
        let Some(store) = member.store() else {
            let text = format!("{} is not open", member.path);
            return Err(Refusal::new("busy", text, "restart the daemon"));
        };
        let held = store.held();
        let own = format!("{}/{volume}", group.name);
        let mut others = self.stores();
        others.retain(|(_, name)| *name != own);
        let alignment = group.engine.view().block(at);
        let (peer, lost) = (group.peer.clone(), group.engine.view().lost_with_disk());
        Ok(Seat { number, held, alignment, others, peer, lost })
    }

    /// What every volume of the node lies on.
    pub(super) fn stores(&self) -> Vec<(MemberIdentity, String)> {
        let mut all = Vec::new();
        for group in &self.groups {
            for volume in &group.volumes {
                let name = format!("{}/{}", group.name, volume.name);
                all.extend(volume.stores().map(|store| (store.identity(), name.clone())));
            }
        }
        all
    }

    /// A volume whose copy an operator may accept although a flush of it failed, and what may be lost.
    pub(super) fn suspect(
        &self,
        index: usize,
        volume: &str,
    ) -> Result<(VolumeIndex, String), Refusal> {
        let at = self.volume(index, volume)?;
        Ok((at, self.groups[index].engine.view().may_accept(at)?))
    }

    pub(super) fn volume(&self, index: usize, volume: &str) -> Result<VolumeIndex, Refusal> {
        let group = &self.groups[index];
        let at = group.volumes.iter().position(|known| known.name == volume);
        let at = at.ok_or_else(|| {
            let text = format!("group {} has no volume {volume}", group.name);
            Refusal::new("unknown-volume", text, "`helio status` lists them")
        })?;
        Ok(VolumeIndex(at as u16))
    }

    /// Gives the volume its new disk. The engine lets nothing reach it before its record says so.
    pub(super) fn replace(
        &mut self,
        index: usize,
        volume: &str,
        plan: VolumePlan,
        reply: CommandReply,
        now: Moment,
    ) {
        let ready = self.volume(index, volume).and_then(|at| {
            let group = &self.groups[index];
            group.engine.view().may_replace(at)?;
            let held = &group.volumes[usize::from(at.0)].members;
            let same = |(old, new): (&Option<_>, &Option<_>)| old.is_some() == new.is_some();
            if !held.iter().zip(&plan.members).all(same) || group.is_stamping(at) {
                let text = format!("the members of {}/{volume} are being changed", group.name);
                return Err(Refusal::new("busy", text, "repeat the command"));
            }
            plan.members.iter().flatten().try_for_each(|member| group.may_use(at, member))?;
            Ok(at)
        });
        let at = match ready {
            Ok(at) => at,
            Err(refusal) => {
                // An asker that has gone wants no answer.
                let _gone = reply.send(Err(refusal));
                return;
            }
        };
        let (identity, block) =
            (plan.stores().next().map_or(0, open::identity), plan.alignment().0 as u32);
        let group = &mut self.groups[index];
        let path = plan.paths().next().unwrap_or_default();
        tracing::warn!(group = %group.name, volume, member = path, "another disk");
        group.volumes[usize::from(at.0)] = plan;
        self.rota.stir(index);
        let command = Command::Replace { volume: at, identity, block };
        group.guarded(|group| {
            group.tell_disks(now);
            group.replacing(at);
            group.command(now, command, reply);
        });
    }
}
