// SPDX-License-Identifier: Apache-2.0
//! Whose disks the members of a group are, where the group has no metadata: a disk that took part in a group is no new one.
//!
//! A file has a name of Heliograph's. A block device has none, but the metadata files beside the missing one name their disks: if one of
//! them names a disk of this group, the group was renamed, or took the disk of another one.

use super::mirror::{Places, metadata_in};
use crate::config::GroupView;
use crate::digest;
use crate::offline::OnDisk;
use anyhow::{Result, bail};
use helio_driver::{Host, Mode, OFlags};
use helio_format::members::{DiskMark, MemberEntry};
use helio_ledger::{Ledger, Opened, describe, renamed};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The members of a group on this node.
pub(super) struct Members<'a> {
    host: &'a Host,
    node: &'a str,
    paths: Vec<&'a Path>,
    /// The groups of the configuration: which of them gets a disk is settled without their metadata.
    groups: &'a BTreeSet<String>,
}

impl<'a> Members<'a> {
    #[cfg(test)]
    pub(super) const fn none(host: &'a Host) -> Self {
        static NONE: BTreeSet<String> = BTreeSet::new();
        Self { host, node: "", paths: Vec::new(), groups: &NONE }
    }

    pub(super) fn of(
        host: &'a Host,
        view: &GroupView<'a>,
        node: &'a str,
        groups: &'a BTreeSet<String>,
    ) -> Self {
        let members = view.group.volumes.values().flat_map(|volume| volume.members_on(node));
        Self { host, node, paths: members.map(PathBuf::as_path).collect(), groups }
    }

    /// Those that carry an identity of Heliograph's, or may. Block devices never do.
    pub(super) fn named(&self) -> impl Iterator<Item = &'a Path> {
        let may_be = |path: &&Path| helio_disk::is_named(self.host, path).unwrap_or(true);
        self.paths.iter().copied().filter(may_be)
    }

    /// A group without metadata is new only if no member of it took part before.
    pub(super) fn not_lost(&self, places: &Places, engine: &helio_engine::Config) -> Result<()> {
        let (group, node) = (&engine.group, &engine.node);
        self.not_claimed(places, group)?;
        for member in &self.paths {
            match helio_disk::is_named(self.host, member) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(errno) => bail!(
                    "{} has no metadata of {group}, and {} cannot be examined: {}\n  hint: repair access to this member first: it may \
                     have belonged to the group",
                    places.first.display(),
                    member.display(),
                    std::io::Error::from(errno)
                ),
            }
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
        let Some(Claim { member, owner, file }) = self.claimed(places, group) else {
            return Ok(());
        };
        let (member, shown, node) = (member.display(), file.display(), self.node);
        bail!(
            "{member} is a disk of group {0}, by {shown}, and {group} has no metadata: {0} was renamed, or {group} names a disk of it. \
             Nothing was changed\n  hint: {1}. To keep the old name, give the group its name {0} again, on both nodes. If {group} names \
             this disk by mistake, correct its members. If the data of {0} is no longer needed, move {shown} away, and repeat",
            owner.0,
            renamed((&owner.0, &owner.1), (group, node)),
        )
    }

    /// A member that a metadata file beside those of this group names as a disk of a group that the configuration does not name.
    fn claimed(&self, places: &Places, group: &str) -> Option<Claim<'a>> {
        let disks: Vec<(&Path, u128)> = self
            .paths
            .iter()
            .filter_map(|path| {
                let name = helio_disk::nameplate_at(self.host, path)?;
                Some((*path, digest::name(name.as_bytes())))
            })
            .collect();
        let is_gone = |other: &str| other != group && !self.groups.contains(other);
        places.neighbours().into_iter().find_map(|file| claim(self.host, file, &disks, is_gone))
    }
}

/// A metadata file that names a disk of a group that has no metadata.
pub(crate) struct Claim<'a> {
    member: &'a Path,
    /// The group and the node of the file.
    pub(crate) owner: (String, String),
    pub(crate) file: PathBuf,
}

/// What a metadata file claims of these disks, if it is of such a group.
fn claim<'a>(
    host: &Host,
    file: PathBuf,
    disks: &[(&'a Path, u128)],
    is_meant: impl Fn(&str) -> bool,
) -> Option<Claim<'a>> {
    let (owner, named) = disks_of(host, &file).filter(|it| is_meant(&it.0.0))?;
    let (member, _) = disks.iter().find(|(_, disk)| named.contains(disk))?;
    Some(Claim { member, owner, file })
}

/// The metadata file of a state directory that names the disk at that path, if it is of such a group.
pub(crate) fn owner_of<'a>(
    (host, state): (&Host, &Path),
    path: &'a Path,
    is_meant: impl Fn(&str) -> bool,
) -> Option<Claim<'a>> {
    let disk = digest::name(helio_disk::nameplate_at(host, path)?.as_bytes());
    metadata_in(host, &state.join("groups"))
        .find_map(|file| claim(host, file, &[(path, disk)], &is_meant))
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

/// Of which group and node a metadata file is, and the disks that it names; none if it cannot be read.
fn disks_of(host: &Host, file: &Path) -> Option<((String, String), Disks)> {
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
    Some(((record.group, record.node), Disks { single, of_sets }))
}
