// SPDX-License-Identifier: Apache-2.0
//! What an administrator can do to a node that is down, behind the daemon's back: put an older image of its machine in its place,
//! restore one file of it from a backup, swap a disk.

use crate::cluster::Cluster;
use crate::disk::Disk;
use crate::happening::Happening;
use crate::metadata::{MetadataBytes, new_superblock};
use crate::node::Side;
use crate::{Place, Stamp};
use helio_engine::{Command, CommandId};
use helio_format::superblock::Superblock;
use helio_units::VolumeIndex;

/// Disk, metadata and before-images of a node at one moment, as an image of its machine holds them.
#[derive(Clone, Debug)]
pub struct MachineImage {
    disk: Vec<Vec<Stamp>>,
    mirrors: Vec<Vec<Vec<Stamp>>>,
    /// Of all disks of a volume.
    identities: Vec<u128>,
    metadata: MetadataBytes,
    before: Vec<u8>,
    changes: u64,
}

impl MachineImage {
    /// How often the metadata had durably changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// What of an image is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// The machine: all of it.
    Machine,
    /// The metadata file alone. What the before-image file keeps belongs to the bytes on the disk, and stays with them:
    /// a record that says consistent ends it, and one that does not finds the image it can give back.
    Metadata,
    /// The disks, as they were before others took their place (`Cluster::swap_disk`).
    Disks,
}

impl Cluster {
    /// What lies on a node now; it may run meanwhile.
    #[must_use]
    pub fn machine_image(&self, side: Side) -> MachineImage {
        let node = self.node(side);
        MachineImage {
            disk: node.disk.contents(),
            mirrors: node.mirrors.iter().map(Disk::contents).collect(),
            identities: node.disk.identities.clone(),
            metadata: node.metadata.backup(),
            before: node.before.backup(),
            changes: node.metadata.sequence(),
        }
    }

    /// Puts an image back, or a part of it. The node is down.
    pub fn restore(&mut self, side: Side, image: &MachineImage, what: Restore) {
        assert!(!self.node(side).is_up(), "{side} runs while its files are replaced");
        self.content.journal.push(Happening::Restored { side, alone: what == Restore::Metadata });
        if what == Restore::Disks {
            self.content.journal.push(Happening::PutBack { side });
        } else {
            self.node_mut(side).metadata.restore(image.metadata.clone());
        }
        if what != Restore::Metadata {
            self.put_disk(side, &image.disk);
            let node = self.node_mut(side);
            for (mirror, contents) in node.mirrors.iter_mut().zip(&image.mirrors) {
                mirror.put_back(contents, &mut Vec::new());
            }
            node.disks_mut().for_each(|disk| disk.identities.clone_from(&image.identities));
        }
        if what == Restore::Machine {
            self.node_mut(side).before.put_back(image.before.clone());
        }
    }

    /// Puts other disks of the same sizes in the place of a node's, all alike. The node is down.
    pub fn swap_disk(&mut self, side: Side, mut content: impl FnMut(Place) -> Stamp) {
        assert!(!self.node(side).is_up(), "{side} runs while its disk is swapped");
        self.content.journal.push(Happening::Restored { side, alone: false });
        self.content.journal.push(Happening::Swapped { side });
        for disk in self.node_mut(side).disks_mut() {
            disk.identities.iter_mut().for_each(|identity| *identity += 1);
        }
        let mut disk = self.node(side).disk.contents();
        for (volume, blocks) in (0u16..).map(helio_units::VolumeIndex).zip(&mut disk) {
            for (block, stamp) in (0u32..).zip(blocks) {
                *stamp = content(Place { volume, block });
            }
        }
        self.put_disk(side, &disk);
        let mirrors = &mut self.node_mut(side).mirrors;
        mirrors.iter_mut().for_each(|mirror| mirror.put_back(&disk, &mut Vec::new()));
    }

    /// Puts another disk in the place of one volume's that is lost, and commands the running node to take it. Returns
    /// whether it would.
    pub fn replace_disk(
        &mut self,
        side: Side,
        volume: VolumeIndex,
        command: CommandId,
        mut content: impl FnMut(Place) -> Stamp,
    ) -> bool {
        let engine = self.node(side).engine.as_ref();
        let refuses = engine.is_none_or(|engine| engine.view().may_replace(volume).is_err());
        if refuses || self.node(side).hangs(self.now()) {
            return false;
        }
        self.content.journal.push(Happening::Swapped { side });
        let disk = &mut self.node_mut(side).disk;
        disk.lose(volume, false);
        let identity = &mut disk.identities[usize::from(volume.0)];
        *identity += 1;
        let identity = *identity;
        let mut contents = disk.contents();
        for (block, stamp) in (0u32..).zip(&mut contents[usize::from(volume.0)]) {
            *stamp = content(Place { volume, block });
        }
        let mut changes = Vec::new();
        disk.put_one_back(volume, &contents[usize::from(volume.0)], &mut changes);
        self.changed(side, changes);
        let block = self.node(side).disk.block();
        self.command(side, command, Command::Replace { volume, identity, block });
        true
    }

    /// `helio metadata create`: what the node holds counts for nothing, and it joins as new. The node is down.
    pub fn discard(&mut self, side: Side) {
        assert!(!self.node(side).is_up(), "{side} runs while its metadata is replaced");
        let node = self.node_mut(side);
        // Other metadata does not make a cache forget what a failed flush left in it.
        let all = (1 << node.config.volumes.len()) - 1;
        let unread = if node.metadata.is_missing() { 0 } else { all };
        let suspect = node.metadata.says().map_or(unread, |record| record.suspect);
        let record = Superblock { discarded: true, suspect, ..new_superblock(&node.config) };
        node.metadata.create(record);
        self.content.journal.push(Happening::Discarded { side });
    }

    /// A node's metadata is lost, by a state directory that is not there or a file of zeros. The node is down.
    pub fn lose_metadata(&mut self, side: Side, zeroed: bool) {
        assert!(!self.node(side).is_up(), "{side} runs while its metadata is lost");
        let metadata = &mut self.node_mut(side).metadata;
        if zeroed {
            metadata.zero()
        } else {
            metadata.remove()
        }
        self.content.journal.push(Happening::MetadataLost { side });
    }

    /// A node's before-image file is lost: it is not there, or reads as zeros. The node is down.
    pub fn lose_before(&mut self, side: Side, zeroed: bool) {
        assert!(!self.node(side).is_up(), "{side} runs while its before-images are lost");
        let before = &mut self.node_mut(side).before;
        let length = if zeroed { before.backup().len() } else { 0 };
        before.put_back(vec![0; length]);
        self.content.journal.push(Happening::BeforeLost { side });
    }

    /// The state directory is back as it was. The node is down.
    pub fn find_metadata(&mut self, side: Side, bytes: MetadataBytes) {
        assert!(!self.node(side).is_up(), "{side} runs while its metadata is replaced");
        self.node_mut(side).metadata.restore(bytes);
        self.content.journal.push(Happening::MetadataFound { side });
    }

    /// Puts a disk in place beside metadata that knows nothing, as on a node that is set up anew. The node is down.
    pub fn set_up_with(&mut self, side: Side, content: impl FnMut(Place) -> Stamp) {
        self.swap_disk(side, content);
        let node = self.node_mut(side);
        node.metadata.remove();
        node.before.put_back(Vec::new());
    }

    pub(crate) fn put_disk(&mut self, side: Side, disk: &[Vec<Stamp>]) {
        let mut changes = Vec::new();
        self.node_mut(side).disk.put_back(disk, &mut changes);
        self.changed(side, changes);
    }
}
