// SPDX-License-Identifier: Apache-2.0
//! The exports as a connecting client sees them.
//!
//! `GROUP/VOLUME` is the volume, where the group is primary. `GROUP/VOLUME:ro` is to be read only, on either node: on
//! a secondary it is the copy as it stands, which changes as the primary writes.

use crate::shard::group::Group;
use helio_nbd::{Context, Contexts, ExportInfo, Exports, OpenRefusal};
use helio_units::{Bytes, VolumeIndex};

/// What an export to be read only is called beyond its volume.
const READ_ONLY: &str = ":ro";

/// What a client uses, packed into the handle of its export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: usize,
    pub(crate) volume: VolumeIndex,
    /// Chosen to be read only.
    pub(crate) read_only: bool,
    /// Not served by the engine: the copy of a volume that is written elsewhere.
    pub(crate) aside: bool,
}

impl Place {
    fn pack(self) -> u64 {
        (self.group as u64) << 32
            | u64::from(self.volume.0) << 2
            | u64::from(self.read_only) << 1
            | u64::from(self.aside)
    }

    pub(crate) const fn of(handle: u64) -> Self {
        Self {
            group: (handle >> 32) as usize,
            volume: VolumeIndex((handle >> 2) as u16),
            read_only: handle & 2 != 0,
            aside: handle & 1 != 0,
        }
    }
}

/// The volumes of a shard's groups.
pub(crate) struct Catalogue<'a>(pub(crate) &'a [Group]);

impl Catalogue<'_> {
    fn info(group: &Group, place: Place) -> ExportInfo {
        let volume = &group.volumes[usize::from(place.volume.0)];
        let minimum_block = group.engine.view().block(place.volume).0 as u32;
        let suffix = if place.read_only { READ_ONLY } else { "" };
        let contexts = Contexts::NONE.with(Context::Allocation);
        ExportInfo {
            name: format!("{}/{}{suffix}", group.name, volume.name),
            description: describe(group, &volume.name, place),
            size: volume.size,
            read_only: place.read_only,
            volatile: place.aside,
            trim: volume.member.trims(),
            fast_zero: false,
            // The engine opens all pieces of a long one at once.
            longest_effect: Bytes::gib(4),
            contexts: if place.aside { contexts } else { contexts.with(Context::Marks) },
            minimum_block,
            preferred_block: minimum_block.max(4096),
            handle: place.pack(),
        }
    }
}

fn describe(group: &Group, volume: &str, place: Place) -> String {
    let (name, peer) = (&group.name, &group.peer);
    match (group.engine.view().is_primary(), place.read_only) {
        (true, false) => format!("{volume} of group {name}, mirrored to {peer}"),
        (true, true) => format!("{volume} of group {name}, read-only"),
        (false, true) => format!("the copy of {volume} of group {name} on a secondary"),
        (false, false) => {
            format!("{volume} of group {name}, which is secondary here; connect to {peer}")
        }
    }
}

impl Exports for Catalogue<'_> {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        for (index, group) in self.0.iter().enumerate().filter(|(_, group)| group.is_served()) {
            for volume in (0..group.volumes.len() as u16).map(VolumeIndex) {
                for read_only in [false, true] {
                    let aside = read_only && !group.engine.view().is_primary();
                    each(&Self::info(group, Place { group: index, volume, read_only, aside }));
                }
            }
        }
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        let (named, read_only) =
            name.strip_suffix(READ_ONLY).map_or((name, false), |named| (named, true));
        let (group, volume) = named.split_once('/').ok_or(OpenRefusal::Unknown)?;
        let named = |g: &&Group| g.name == group && !g.is_released();
        if self.0.iter().find(named).is_some_and(|group| !group.is_served()) {
            let text = format!(
                "group {group} failed on this node; `helio status {group}` shows the reason"
            );
            return Err(OpenRefusal::Policy(text));
        }
        let served = |g: &Group| g.name == group && g.is_served();
        let index = self.0.iter().position(served).ok_or(OpenRefusal::Unknown)?;
        let group = &self.0[index];
        let volume =
            group.volumes.iter().position(|v| v.name == volume).ok_or(OpenRefusal::Unknown)?;
        let aside = !group.engine.view().is_primary();
        if aside && !read_only {
            return Err(OpenRefusal::Policy(format!(
                "group {} is not primary on this node; connect to {}, or `helio promote {}` here, or open the copy as \
                 {name}{READ_ONLY}",
                group.name, group.peer, group.name
            )));
        }
        if aside && !group.engine.view().words().consistent {
            return Err(OpenRefusal::Policy(format!(
                "the copy of group {} on this node is inconsistent during the resync; try again when it is complete \
                 (`helio status`)",
                group.name
            )));
        }
        let volume = VolumeIndex(volume as u16);
        Ok(Self::info(group, Place { group: index, volume, read_only, aside }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_as_it_was_packed() {
        for read_only in [false, true] {
            for aside in [false, true] {
                let volume = VolumeIndex(u16::MAX);
                let place = Place { group: 12_345, volume, read_only, aside };
                assert_eq!(Place::of(place.pack()), place);
            }
        }
    }
}
