// SPDX-License-Identifier: Apache-2.0
//! A node whose daemon was of the build before: its metadata becomes what that build would have written.
//!
//! That build knew one metadata file of version 2, one member of each volume, and no epochs. If the metadata of a group says more, it
//! stays as it is.

use super::act::Order;
use super::luck::STARTS;
use super::node::Node;
use super::run::Run;
use super::scenario::GroupShape;
use super::watch::Until;
use crate::coverage::Met;
use helio_disk::STAMP;
use helio_driver::{Errno, File, Machine, Mode, OFlags};
use helio_format::members::CopyHealth;
use helio_format::page::{self, BODY_BYTES, Kind, Place, VERSION_BEFORE};
use helio_format::{hot, marks};
use helio_ledger::{Found, Ledger, Opened};
use std::path::{Path, PathBuf};

/// The folder of the metadata files.
pub(super) const FOLDER: &str = "/state/groups";
/// The folder of the second metadata files.
pub(super) const SECOND: &str = "/second";

impl Node {
    /// Gives the metadata of a group the format before, if it says nothing that the build before could not have written. Returns
    /// whether it did.
    ///
    /// # Errors
    /// The simulated disk refuses.
    pub(super) fn date_back(&self, group: &GroupShape, node: usize) -> Result<bool, Errno> {
        let path = PathBuf::from(format!("{FOLDER}/{}.meta", group.name));
        let bytes = match self.machine.content(&path) {
            Err(Errno::NOENT) => return Ok(false),
            content => content?,
        };
        let second = PathBuf::from(format!("{SECOND}/{}.meta", group.name));
        let has_second = self.machine.content(&second).is_ok();
        let owner = (group.name, self.name);
        let Some(older) = older(&bytes, owner).filter(|_| !has_second) else { return Ok(false) };
        let new = PathBuf::from(format!("{FOLDER}/{}.meta.older", group.name));
        self.write(&new, &older)?;
        let paths = group.volumes.iter().flat_map(|volume| volume.paths(group.name, node));
        let open = |path: PathBuf| self.machine.open(&path, OFlags::RDWR, Mode::empty());
        let members = paths.map(open).collect::<Result<Vec<_>, _>>()?;
        // A flush that is to fail does so before anything changes.
        members.iter().try_for_each(|member| member.body().sync_all())?;
        self.machine.rename(&new, &path)?;
        self.sync(Path::new(FOLDER))?;
        // One that stays is of no set that this metadata knows.
        members.iter().for_each(unstamp);
        Ok(true)
    }

    /// The operator takes the stamps off the members of a group, as the refusal of an adoption says.
    pub(super) fn unstamp(&self, group: &GroupShape, node: usize) {
        let paths = group.volumes.iter().flat_map(|volume| volume.paths(group.name, node));
        let open = |path: PathBuf| self.machine.open(&path, OFlags::RDWR, Mode::empty());
        paths.filter_map(|path| open(path).ok()).for_each(|member| unstamp(&member));
    }
}

/// Takes the stamp off a member, unless its disk refuses.
fn unstamp(member: &File) {
    let _stays = member.body().remove_attribute(STAMP);
    let _not_durable = member.body().sync_all();
}

impl Run {
    /// A node that is about to start had a daemon of the build before, if the operator upgrades it.
    pub(super) fn date_back(&mut self, node: usize) {
        if !std::mem::take(&mut self.nodes[node].is_older) {
            return;
        }
        let (name, mut any) = (self.nodes[node].name, false);
        let unjudged = |group: &usize| self.nodes[node].images.is_unjudged(*group);
        // A daemon has to have judged what was put back: older metadata has no stamps.
        for group in (0..self.groups.len()).filter(|group| !unjudged(group)) {
            let group = &self.groups[group];
            let older = self.nodes[node].date_back(&group.shape, node);
            any |= older == Ok(true);
            let group = group.shape.name;
            let told = match older {
                Ok(true) => "is of the build before".to_owned(),
                Ok(false) => "stays as it is".to_owned(),
                Err(errno) => format!("stays as it is: {errno}"),
            };
            self.world.tell(format_args!("{name}: the metadata of {group} {told}"));
        }
        if any {
            self.fire(Order::Upgrade);
            self.follow(Met::Order(Order::Upgrade), Until::Passed(self.world.now() + STARTS));
        }
    }
}

/// What a metadata file of this build says; none if it is not valid.
pub(super) fn found(bytes: &[u8], owner: (&str, &str)) -> Option<Box<(Ledger, Found)>> {
    match Ledger::open(bytes, owner, helio_link::checksum) {
        Ok(Opened::Found(found)) => Some(found),
        _ => None,
    }
}

/// The file of version 2 that says what a file says; none if no such file could.
fn older(bytes: &[u8], owner: (&str, &str)) -> Option<Vec<u8>> {
    let (ledger, Found { superblock, hot, marks, others, .. }) = *found(bytes, owner)?;
    let is_recorded = |volume: usize| superblock.suspect >> volume & 1 == 1;
    let one = ledger.members().iter().enumerate().all(|(volume, members)| {
        let known = |health| match health {
            CopyHealth::Good => true,
            CopyHealth::Suspect => is_recorded(volume),
            _ => false,
        };
        members[0].as_ref().is_some_and(|member| known(member.health))
            && members[1..].iter().all(Option::is_none)
    });
    if !one || !others.is_empty() || superblock.reported.is_some() {
        return None;
    }
    let layout = ledger.layout();
    let mut file = Vec::new();
    let sequence = ledger.sequence();
    let mut pair = |kind, index, body: Option<[u8; BODY_BYTES]>| {
        let place = Place { version: VERSION_BEFORE, kind, index, map: 0 };
        let owner = page::owner(owner.0, owner.1, helio_link::checksum);
        let header = page::Header { place, owner, sequence };
        let page = match body {
            Some(body) => page::encode(&header, &body, helio_link::checksum),
            None => vec![0; page::PAGE_BYTES],
        };
        file.extend_from_slice(&page);
        file.extend_from_slice(&page);
    };
    pair(Kind::Superblock, 0, Some(superblock.encode()));
    for index in 0..layout.hot_pages() {
        let mut slots = [0; hot::SLOTS_PER_PAGE];
        let of_page = hot.iter().skip(index as usize * hot::SLOTS_PER_PAGE);
        slots.iter_mut().zip(of_page).for_each(|(slot, extent)| *slot = extent + 1);
        pair(Kind::Hot, index, Some(hot::encode(&slots)));
    }
    for index in 0..layout.mark_pages() {
        let bits = marks.iter().find(|(page, _)| *page == index).map(|(_, bits)| bits);
        pair(Kind::Marks, index, bits.map(|bits| marks::encode(bits)));
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::superblock::Superblock;
    use helio_ledger::{Change, Layout, MetadataEffect};

    const OWNER: (&str, &str) = ("db", "paris");

    /// The file of a ledger that has kept these changes.
    fn kept(ledger: &mut Ledger, changes: Vec<Change>, mut file: Vec<u8>) -> Vec<u8> {
        for change in changes {
            assert_eq!(ledger.keep(change), None);
            while !ledger.is_idle() {
                let mut effects = Vec::new();
                ledger.next(&mut effects);
                for effect in effects {
                    let _kept = match effect {
                        MetadataEffect::Write { offset, bytes } => {
                            file[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                            ledger.written(true)
                        }
                        MetadataEffect::Flush => ledger.flushed(true),
                    };
                }
            }
        }
        file
    }

    #[test]
    fn what_the_build_before_would_have_written_is_read_as_that_and_says_the_same() {
        let record = Superblock::new(OWNER.0, OWNER.1, vec![64 << 20]);
        let mut ledger = Ledger::fresh(Layout::of(&record), OWNER, helio_link::checksum);
        let hot = Change::Hot { ticket: 0, add: vec![3, 7], remove: Vec::new() };
        let new = vec![0; ledger.layout().bytes() as usize];
        let file = kept(&mut ledger, vec![Change::Superblock(Box::new(record.clone())), hot], new);
        let same = older(&file, OWNER).expect("that build could have written it");
        match Ledger::open(&same[..], OWNER, helio_link::checksum) {
            Ok(Opened::Older(found)) => {
                assert_eq!((found.1.superblock, found.1.hot), (record.clone(), vec![3, 7]));
                assert_eq!(found.1.repaired, Vec::<String>::new());
            }
            other => panic!("{other:?}"),
        }
        let newer = Superblock { reported: Some(5), ..record };
        let file = kept(&mut ledger, vec![Change::Superblock(Box::new(newer))], file);
        assert!(older(&file, OWNER).is_none(), "it did not know that field");
    }
}
