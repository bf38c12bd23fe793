// SPDX-License-Identifier: Apache-2.0
//! What tells the disks of a group to its peer.

use super::Group;
use crate::digest;
use crate::shard::plan::MemberPlan;
use helio_engine::{Event, OwnDisk, Refusal};
use helio_format::disks::Disk;
use helio_format::members::DiskMark;
use helio_units::{Moment, VolumeIndex};
use std::path::Path;

impl Group {
    /// A connection to the peer stands.
    pub(crate) fn connected(&mut self, now: Moment) {
        self.tell_disks(now);
        self.tell(now, Event::Connected);
    }

    /// Members were opened or closed, or are compared from now on.
    pub(crate) fn tell_disks(&mut self, now: Moment) {
        let mut disks = Vec::new();
        for (at, volume) in (0..).map(VolumeIndex).zip(&self.volumes) {
            disks.extend(volume.members.iter().flatten().flat_map(|it| self.disks_of(at, it)));
        }
        self.tell(now, Event::Disks(disks));
    }

    /// A disk is to become a member.
    ///
    /// # Errors
    /// It is a disk of the peer.
    pub(crate) fn may_use(&self, at: VolumeIndex, member: &MemberPlan) -> Result<(), Refusal> {
        self.engine.view().may_use(&self.disks_of(at, member))
    }

    /// What tells the disk of a member, if it is open and compared with those of the peer.
    fn disks_of(&self, at: VolumeIndex, member: &MemberPlan) -> Vec<OwnDisk> {
        let (volume, path) = (&self.volumes[usize::from(at.0)].name, &member.path);
        if self.costs.sets().is_own_disk(volume, &self.config.node, Path::new(path)) {
            return Vec::new();
        }
        let claims = member.store().map_or(&[][..], |store| store.claims());
        let disk = |claim: &helio_disk::Claim| {
            let mark = DiskMark::of(digest::name(claim.identity.as_bytes()));
            OwnDisk { disk: Disk { volume: at, mark, whole: claim.whole }, path: path.clone() }
        };
        claims.iter().map(disk).collect()
    }
}
