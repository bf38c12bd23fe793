// SPDX-License-Identifier: Apache-2.0
//! Another disk in the place of one that is lost.

use crate::open;
use crate::shard::plan::VolumePlan;
use crate::shard::{CommandReply, Shard};
use helio_disk::{Held, MemberIdentity};
use helio_driver::Driver;
use helio_engine::{Command, Refusal};
use helio_units::{Bytes, Moment, VolumeIndex};

/// The place of a disk that is lost.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The one that is to go: it may be the same, mended.
    pub(crate) held: Held,
    /// Blocks that clients keep to.
    pub(crate) alignment: Bytes,
    /// What every other volume lies on.
    pub(crate) others: Vec<(MemberIdentity, String)>,
    /// Who fills another one.
    pub(crate) peer: String,
}

impl<D: Driver> Shard<D> {
    /// What another disk has to fit.
    pub(super) fn seat(&self, index: usize, volume: &str) -> Result<Seat, Refusal> {
        let at = self.volume(index, volume)?;
        let group = &self.groups[index];
        group.engine.view().may_replace(at)?;
        let member = &group.volumes[usize::from(at.0)].member;
        let held = member.held().map_err(|error| {
            let text = format!("the old disk cannot be closed: {error}");
            Refusal::new(
                "no-descriptors",
                text,
                "raise the limit of file descriptors of the daemon",
            )
        })?;
        let all = self.groups.iter().flat_map(|group| {
            let name = |volume: &VolumePlan| format!("{}/{}", group.name, volume.name);
            group.volumes.iter().map(move |volume| (volume.member.identity(), name(volume)))
        });
        let own = format!("{}/{volume}", group.name);
        let others = all.filter(|(_, name)| *name != own).collect();
        let alignment = group.engine.view().block(at);
        Ok(Seat { held, alignment, others, peer: group.peer.clone() })
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

    fn volume(&self, index: usize, volume: &str) -> Result<VolumeIndex, Refusal> {
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
            self.groups[index].engine.view().may_replace(at)?;
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
        let (identity, block) = (open::identity(&plan), plan.member.alignment().0 as u32);
        let group = &mut self.groups[index];
        tracing::warn!(group = %group.name, volume, member = %plan.path, "another disk");
        group.volumes[usize::from(at.0)] = plan;
        self.rota.stir(index);
        let command = Command::Replace { volume: at, identity, block };
        group.guarded(|group| group.command(now, command, reply));
    }
}
