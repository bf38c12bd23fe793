// SPDX-License-Identifier: Apache-2.0
//! The exports as a connecting client sees them.
//!
//! `GROUP/VOLUME` is the volume, where the group is primary. `GROUP/VOLUME:ro` is to be read only, on either node: on
//! a secondary it is the copy as it stands, which changes as the primary writes. `GROUP/VOLUME@NAME` is the volume in a
//! point-in-time copy, to be read only, on either node; `GROUP/VOLUME@NAME:rw` is its branch, with what clients wrote to it.
//! `GROUP/VOLUME:alone` is the volume for one user: it is refused while another client or device uses a volume of the group, and
//! while it is open, they are refused.

use crate::shard::group::Group;
use crate::shard::requests::{Closed, LONGEST_EFFECT, Place, Target};
use crate::shard::show::called;
use helio_disk::Member;
use helio_engine::{CopyView, KeptCopy};
use helio_nbd::{Context, Contexts, ExportInfo, Exports, OpenRefusal};
use helio_units::{Bytes, CopyName, VolumeIndex};
use std::cell::Cell;

/// What an export to be read only is called beyond its volume.
const READ_ONLY: &str = ":ro";
/// What a volume is called beyond its name that is to be used alone.
const ALONE: &str = ":alone";
/// What the branch of a point-in-time copy is called beyond that. No name of a copy ends so.
const BRANCH: &str = CopyName::BRANCH;

/// Whether it is a volume in a point-in-time copy: no name of a volume has an `@`.
pub(crate) fn is_in_copy(volume: &str) -> bool {
    volume.contains('@')
}

/// What a volume is called among the exports for a device: of a snapshot it is the branch unless it is to be read only.
pub(crate) fn export_of(group: &str, volume: &str, read_only: bool) -> String {
    let suffix = match (is_in_copy(volume), read_only) {
        (false, true) => READ_ONLY,
        (true, false) => BRANCH,
        (false, false) | (true, true) => "",
    };
    format!("{group}/{volume}{suffix}")
}

/// The volumes of a shard's groups.
pub(crate) struct Catalogue<'a> {
    groups: &'a [Group],
    /// Whether as many clients as may use them do so.
    full: bool,
    refused: Cell<bool>,
}

impl<'a> Catalogue<'a> {
    pub(crate) const fn new(groups: &'a [Group], full: bool) -> Self {
        Self { groups, full, refused: Cell::new(false) }
    }

    /// Whether a client could not open an export for want of room.
    pub(crate) const fn refused_for_room(&self) -> bool {
        self.refused.get()
    }
}

impl Catalogue<'_> {
    /// The name under which an open export was opened.
    pub(super) fn name(group: &Group, place: Place) -> String {
        let Target::Snapshot(CopyView::Cut(number) | CopyView::Branch(number)) = place.target
        else {
            return name(group, place, None);
        };
        let found = snapshots(group, place.volume).find(|(_, copy)| copy.number == number);
        // A copy that is being deleted has no name any more.
        name(group, place, Some(found.as_ref().map_or("deleted", |(name, _)| name)))
    }

    /// `snapshot`: the name of the point-in-time copy, where it is one.
    fn info(group: &Group, place: Place, snapshot: Option<&str>) -> ExportInfo {
        let volume = &group.volumes[usize::from(place.volume.0)];
        let minimum_block = group.engine.view().block(place.volume).0 as u32;
        let read_only = place.target.is_read_only();
        let branch = matches!(place.target, Target::Snapshot(CopyView::Branch(_)));
        let contexts = Contexts::NONE.with(Context::Allocation);
        ExportInfo {
            name: name(group, place, snapshot),
            description: match snapshot {
                Some(copy) if branch => format!(
                    "{} of group {} in snapshot {copy}, with what was written to it here",
                    volume.name, group.name
                ),
                Some(copy) => format!("{} of group {} in snapshot {copy}", volume.name, group.name),
                None => describe(group, &volume.name, place),
            },
            size: volume.size,
            read_only,
            volatile: place.target.is_copy(),
            // What is trimmed would take space of the pool.
            trim: !branch && volume.stores().all(Member::trims),
            fast_zero: false,
            longest_effect: Bytes(LONGEST_EFFECT),
            contexts: match place.target {
                Target::Volume { .. } => contexts.with(Context::Marks),
                Target::Copy => contexts,
                Target::Snapshot(_) => contexts.with(Context::Changed),
            },
            minimum_block,
            preferred_block: minimum_block.max(4096),
            handle: place.pack(),
        }
    }
}

/// The name of an export; `snapshot` is that of the point-in-time copy, where it is one.
fn name(group: &Group, place: Place, snapshot: Option<&str>) -> String {
    let volume = &group.volumes[usize::from(place.volume.0)].name;
    let branch = matches!(place.target, Target::Snapshot(CopyView::Branch(_)));
    let suffix = match snapshot {
        Some(name) if branch => format!("@{name}{BRANCH}"),
        Some(name) => format!("@{name}"),
        None if place.target.is_read_only() => String::from(READ_ONLY),
        None if place.alone => String::from(ALONE),
        None => String::new(),
    };
    format!("{}/{volume}{suffix}", group.name)
}

/// The point-in-time copies of which a volume can be read, the safe copy of a resync among them, by name.
fn snapshots(group: &Group, volume: VolumeIndex) -> impl Iterator<Item = (String, KeptCopy)> {
    let copies = group.engine.view().readable_copies(volume).into_iter();
    copies.map(|copy| (called(&copy), copy))
}

/// What clients can open of a copy: what was cut, and the branch of what an operator named.
fn targets(copy: &KeptCopy) -> impl Iterator<Item = Target> {
    let branch = copy.name().map(|_| CopyView::Branch(copy.number));
    [Some(CopyView::Cut(copy.number)), branch].into_iter().flatten().map(Target::Snapshot)
}

fn describe(group: &Group, volume: &str, place: Place) -> String {
    let name = &group.name;
    match (group.engine.view().is_primary(), place.target.is_read_only()) {
        (true, false) => match group.config.peer_name() {
            Some(peer) => format!("{volume} of group {name}, mirrored to {peer}"),
            None => format!("{volume} of group {name}"),
        },
        (true, true) => format!("{volume} of group {name}, read-only"),
        (false, true) => format!("the copy of {volume} of group {name} on a secondary"),
        (false, false) => {
            let then = match group.config.peer_name() {
                Some(peer) => format!("connect to {peer}"),
                None => format!("`helio promote {name}` serves it"),
            };
            format!("{volume} of group {name}, which is secondary here; {then}")
        }
    }
}

impl Exports for Catalogue<'_> {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        for (index, group) in self.groups.iter().enumerate().filter(|(_, group)| group.is_served())
        {
            for volume in (0..group.volumes.len() as u16).map(VolumeIndex) {
                for read_only in [false, true] {
                    let target = Target::of(read_only, group.engine.view().is_primary());
                    each(&Self::info(
                        group,
                        Place { group: index, volume, target, alone: false },
                        None,
                    ));
                }
            }
        }
        // Last: a list of many may be cut off.
        for (index, group) in self.groups.iter().enumerate().filter(|(_, group)| group.is_served())
        {
            for volume in (0..group.volumes.len() as u16).map(VolumeIndex) {
                for (name, copy) in snapshots(group, volume) {
                    for target in targets(&copy) {
                        let place = Place { group: index, volume, target, alone: false };
                        each(&Self::info(group, place, Some(&name)));
                    }
                }
            }
        }
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        if self.full {
            self.refused.set(true);
            let text = "the maximum number of NBD clients is connected; raise `clients` of the node, or disconnect some";
            return Err(OpenRefusal::Policy(text.to_owned()));
        }
        // The name of a snapshot may end so.
        let (named, snapshot) = match name.split_once('@') {
            Some((named, snapshot)) => (named, Some(snapshot)),
            None => (name, None),
        };
        let as_is = |suffix| named.strip_suffix(suffix).filter(|_| snapshot.is_none());
        let (read_only, alone) = (as_is(READ_ONLY), as_is(ALONE));
        let named = read_only.or(alone).unwrap_or(named);
        let (read_only, alone) = (read_only.is_some(), alone.is_some());
        let (group, volume) = named.split_once('/').ok_or(OpenRefusal::Unknown)?;
        let named = |g: &&Group| g.name == group && !g.is_released();
        if self.groups.iter().find(named).is_some_and(|group| !group.is_served()) {
            let text = format!(
                "group {group} failed on this node; `helio status {group}` shows the reason"
            );
            return Err(OpenRefusal::Policy(text));
        }
        let served = |g: &Group| g.name == group && g.is_served();
        let index = self.groups.iter().position(served).ok_or(OpenRefusal::Unknown)?;
        let group = &self.groups[index];
        let volume =
            group.volumes.iter().position(|v| v.name == volume).ok_or(OpenRefusal::Unknown)?;
        if let Some(wanted) = snapshot {
            let volume = VolumeIndex(volume as u16);
            let (wanted, branch) = match wanted.strip_suffix(BRANCH) {
                Some(wanted) => (wanted, true),
                None => (wanted, false),
            };
            // The youngest one: it is to replace others.
            let found = snapshots(group, volume).filter(|(name, _)| name == wanted).last();
            let (called, copy) = found.ok_or_else(|| {
                let name = &group.name;
                OpenRefusal::Policy(format!(
                    "group {name} has no snapshot {wanted} on this node that can be read"
                ))
            })?;
            let target = targets(&copy).nth(usize::from(branch)).ok_or_else(|| {
                OpenRefusal::Policy(format!("{called} of group {} can only be read", group.name))
            })?;
            return Ok(Self::info(
                group,
                Place { group: index, volume, target, alone },
                Some(&called),
            ));
        }
        let target = Target::open(read_only, group.engine.view()).map_err(|closed| {
            let to_peer = group.config.peer_name();
            let to_peer = to_peer.map_or_else(String::new, |peer| format!("connect to {peer}, or "));
            let group = &group.name;
            OpenRefusal::Policy(match closed {
                Closed::NotPrimary => format!(
                    "group {group} is not primary on this node; {to_peer}`helio promote {group}` here, or \
                     open the copy as {name}{READ_ONLY}"
                ),
                Closed::Inconsistent => format!(
                    "the copy of group {group} on this node is inconsistent during the resync; try again when it is \
                     complete (`helio status`)"
                ),
            })
        })?;
        if target.uses_volume() {
            group.admits(alone).map_err(OpenRefusal::Policy)?;
        }
        let volume = VolumeIndex(volume as u16);
        Ok(Self::info(group, Place { group: index, volume, target, alone }, None))
    }
}
