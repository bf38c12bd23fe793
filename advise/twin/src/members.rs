// SPDX-License-Identifier: Apache-2.0
//! Volumes with several members: the disks of a node behind the first one, and what its metadata file says of them.
//!
//! What happens to a first member is told in the journal, and oracles judge it. The others count by what readers see.

use crate::Stamp;
use crate::disk::Disk;
use crate::node::Node;
use crate::stamps::Stamps;
use helio_format::members::{CopyHealth, DiskMark, MEMBERS_MAX, MemberEntry, VolumeMembers};
use helio_ledger::{Change, LedgerError, MapOwner};
use helio_shadow::Shadow;
use helio_stack::{Layer, LayerRecord, Leg};
use helio_units::{MemberIndex, VolumeIndex};

impl Node<Stamps> {
    /// All its disks: the first members of all volumes, the second ones, and so on.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        core::iter::once(&self.disk).chain(&self.mirrors)
    }

    /// The same, to change.
    pub fn disks_mut(&mut self) -> impl Iterator<Item = &mut Disk> {
        core::iter::once(&mut self.disk).chain(&mut self.mirrors)
    }

    pub(crate) fn disk_of(&mut self, leg: Leg) -> &mut Disk {
        match usize::from(leg.member.0) {
            0 => &mut self.disk,
            n => &mut self.mirrors[n - 1],
        }
    }

    /// Operations under way on its disks.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.disks().map(Disk::under_way).sum()
    }

    /// Its volumes with the members that they have behind the first one.
    pub fn legs(&self) -> impl Iterator<Item = Leg> + use<> {
        let (volumes, mirrors) = (self.config.volumes.len() as u16, self.mirrors.len() as u8);
        let of = move |volume| {
            (1..=mirrors).map(move |member| Leg { volume, member: MemberIndex(member) })
        };
        (0..volumes).map(VolumeIndex).flat_map(of)
    }

    fn mark(&self, leg: Leg) -> DiskMark {
        let disk = self.disks().nth(usize::from(leg.member.0));
        let identity = disk.and_then(|disk| disk.identities.get(usize::from(leg.volume.0)));
        identity.map_or(DiskMark::UNKNOWN, |identity| DiskMark::of(*identity))
    }

    /// Its metadata file has everything that its members need, before a process uses it.
    pub(crate) fn equip(&mut self) -> Result<(), LedgerError> {
        if self.mirrors.is_empty() {
            return Ok(());
        }
        let members: Vec<_> = self.legs().map(|leg| (leg, self.mark(leg))).collect();
        self.metadata.equip(&self.config, &members)
    }

    /// The layer that keeps its members alike, as its metadata file and its disks say.
    pub(crate) fn shadow(&self) -> Box<dyn Layer> {
        let health = |member: Option<MemberEntry>| member.map(|member| member.health);
        let found = self.metadata.members();
        let states: Vec<VolumeMembers> = found.iter().map(|of| of.map(health)).collect();
        let mut shadow = Shadow::new(&self.config.volumes, self.config.granularity, &states);
        for ((owner, page), bits) in self.metadata.lacks() {
            if let MapOwner::Member { volume, member } = *owner {
                shadow.load(Leg { volume, member: MemberIndex(member) }, *page, bits);
            }
        }
        for leg in self.legs() {
            let entry = found[usize::from(leg.volume.0)][usize::from(leg.member.0)];
            let known = entry.is_some_and(|entry| entry.disk == self.mark(leg));
            if !known {
                assert!(shadow.distrust(leg), "the first member holds all of its volume");
            }
        }
        shadow.boxed()
    }

    /// The members that are new, or of which a copy had hardly begun: a daemon adds them at its start.
    pub(crate) fn new_members(&self) -> impl Iterator<Item = Leg> + use<'_> {
        let found = self.metadata.members();
        let entry = move |leg: &Leg| found[usize::from(leg.volume.0)][usize::from(leg.member.0)];
        self.legs().filter(move |leg| {
            let is_new = |it: MemberEntry| it.health == CopyHealth::Unproven;
            entry(leg).is_some_and(|it| is_new(it) && it.disk == self.mark(*leg))
        })
    }

    /// What a layer records, as the metadata file has it.
    pub(crate) fn change(&self, record: LayerRecord) -> Change {
        let entries = |(volume, members): (u16, VolumeMembers)| {
            let mut entries = [None; MEMBERS_MAX];
            for ((n, entry), health) in (0u8..).zip(&mut entries).zip(members) {
                let leg = Leg { volume: VolumeIndex(volume), member: MemberIndex(n) };
                *entry = health.map(|health| MemberEntry { health, disk: self.mark(leg) });
            }
            entries
        };
        match record {
            LayerRecord::Members(all) => Change::Members((0..).zip(all).map(entries).collect()),
            LayerRecord::Page { leg: Leg { volume, member }, page, bits } => {
                let owner = MapOwner::Member { volume, member: member.0 };
                Change::Marks { owner, page, bits }
            }
            LayerRecord::Copies(_) => unreachable!("the engine has that in its superblock"),
        }
    }

    /// Where a member of a volume reads as something else than the first one, by their blocks.
    pub fn strays(&self, leg: Leg) -> impl Iterator<Item = u32> + '_ {
        let first = self.disk.live(leg.volume).iter();
        let other: &[Stamp] =
            self.disks().nth(usize::from(leg.member.0)).map_or(&[], |disk| disk.live(leg.volume));
        let pairs = (0u32..).zip(first.zip(other));
        pairs.filter(|(_, (one, other))| one != other).map(|(block, _)| block)
    }

    /// Whether a process that starts now would read a member of a volume there although it reads as something else than the first
    /// one: the metadata file neither says that it lacks that block nor that the members may differ there.
    #[must_use]
    pub fn forgot(&self, leg: Leg) -> Option<u32> {
        let told = self.metadata.tells_now();
        let entries = told.members().get(usize::from(leg.volume.0))?;
        let entry = entries[usize::from(leg.member.0)]?;
        let known = entry.disk == self.mark(leg);
        // Of a suspect volume everything is compared and copied.
        let suspect = entries.iter().flatten().any(|it| it.health == CopyHealth::Suspect);
        let judged = known && !suspect;
        let mut strays = self.strays(leg).filter(|_| judged);
        let grain = self.config.granularity.0;
        strays.find(|block| !self.metadata.tells_of(&told, (leg, entry.health), *block, grain))
    }
}
