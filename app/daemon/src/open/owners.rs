// SPDX-License-Identifier: Apache-2.0
//! Whose disks the members of a group are, where the group has no metadata: a disk that took part in a group is no new one.
//!
//! A file has a name of Heliograph's. A block device has none, but the metadata files beside the missing one name their disks: if one of
//! them names a disk of this group, the group was renamed, or took the disk of another one.

use super::mirror::Places;
use crate::config::GroupView;
use crate::digest;
use crate::offline::OnDisk;
use anyhow::{Result, bail};
use helio_driver::{Host, Mode, OFlags};
use helio_format::members::{DiskMark, MemberEntry};
use helio_ledger::{Ledger, Opened, describe};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The members of a group on this node.
pub(super) struct Members<'a> {
    host: &'a Host,
    paths: Vec<&'a Path>,
    /// The groups of the configuration: which of them gets a disk is settled without their metadata.
    groups: &'a BTreeSet<String>,
}

impl<'a> Members<'a> {
    #[cfg(test)]
    pub(super) const fn none(host: &'a Host) -> Self {
        static NONE: BTreeSet<String> = BTreeSet::new();
        Self { host, paths: Vec::new(), groups: &NONE }
    }

    pub(super) fn of(
        host: &'a Host,
        view: &GroupView<'a>,
        node: &str,
        groups: &'a BTreeSet<String>,
    ) -> Self {
        let members = view.group.volumes.values().flat_map(|volume| volume.members_on(node));
        Self { host, paths: members.map(PathBuf::as_path).collect(), groups }
    }

    /// Those that carry an identity of Heliograph's. Block devices never do.
    pub(super) fn named(&self) -> impl Iterator<Item = &'a Path> {
        self.paths.iter().copied().filter(|path| helio_disk::is_named(self.host, path))
    }

    /// A group without metadata is new only if no member of it took part before.
    pub(super) fn not_lost(&self, places: &Places, engine: &helio_engine::Config) -> Result<()> {
        let (group, node) = (&engine.group, &engine.node);
        self.not_claimed(places, group)?;
        if let Some(member) = self.named().next() {
            bail!(
                "{} has an identity of Heliograph, and {} has no metadata of {group}: the metadata is lost, or this is \
                 another state directory. Nothing was changed\n  hint: check --state and its mount. If {1} is lost for \
                 good: `helio metadata create {group} --node {node}` discards the copy of {group} on this node",
                member.display(),
                places.first.display(),
            );
        }
        Ok(())
    }

    /// No metadata file of a group that the configuration does not name has a disk of this one.
    pub(super) fn not_claimed(&self, places: &Places, group: &str) -> Result<()> {
        let folders: BTreeSet<&Path> = places.all().filter_map(|path| path.parent()).collect();
        if let Some((member, other, file)) = self.claimed(&folders, group) {
            bail!(
                "{} is a disk of group {other}, by {}, and {group} has no metadata: {other} was renamed, or {group} names a disk of \
                 it. Nothing was changed\n  hint: give the group its name {other} again, on both nodes. If the data of {other} is no \
                 longer needed, move {1} away, and repeat",
                member.display(),
                file.display(),
            );
        }
        Ok(())
    }

    /// A member that a metadata file in one of these folders names as a disk of another group: with that group, and the file.
    fn claimed(
        &self,
        folders: &BTreeSet<&Path>,
        group: &str,
    ) -> Option<(&'a Path, String, PathBuf)> {
        let files = folders.iter().flat_map(|folder| {
            let names = self.host.list(folder).unwrap_or_default();
            names.into_iter().map(|name| folder.join(name))
        });
        let disks: Vec<(&Path, u128)> = self
            .paths
            .iter()
            .filter_map(|path| {
                let name = helio_disk::nameplate_at(self.host, path)?;
                Some((*path, digest::name(name.as_bytes())))
            })
            .collect();
        files.filter(|file| file.extension().is_some_and(|it| it == "meta")).find_map(|file| {
            let is_gone = |other: &String| other != group && !self.groups.contains(other);
            let (other, named) = disks_of(self.host, &file).filter(|(other, _)| is_gone(other))?;
            let (member, _) = disks.iter().find(|(_, disk)| named.contains(disk))?;
            Some((*member, other, file))
        })
    }
}

/// The disks that a metadata file names.
struct Disks {
    single: Vec<u128>,
    of_sets: Vec<DiskMark>,
}

impl Disks {
    fn contains(&self, disk: &u128) -> bool {
        let mark = DiskMark::of(*disk);
        self.single.contains(disk) || mark != DiskMark::UNKNOWN && self.of_sets.contains(&mark)
    }
}

/// Of which group a metadata file is, and the disks that it names; none if it cannot be read.
fn disks_of(host: &Host, file: &Path) -> Option<(String, Disks)> {
    let file = host.open(file, OFlags::RDONLY, Mode::empty()).ok()?;
    let on_disk = OnDisk::of(file).ok()?;
    let record = describe(&on_disk, helio_link::checksum).superblock?;
    let owner = (record.group.as_str(), record.node.as_str());
    let of_sets = match Ledger::open(&on_disk, owner, helio_link::checksum) {
        Ok(Opened::Found(found)) => {
            let entries = found.0.members().iter().flatten().flatten();
            entries.map(|MemberEntry { disk, .. }| *disk).collect()
        }
        // The superblock tells of single members.
        Ok(Opened::Older(_) | Opened::Fresh) | Err(_) => Vec::new(),
    };
    let single = record.members.iter().copied().filter(|disk| *disk != 0).collect();
    Some((record.group, Disks { single, of_sets }))
}
