// SPDX-License-Identifier: Apache-2.0
//! The record an adopted group begins with.

use super::Wish;
use crate::config::Config;
use crate::digest;
use crate::offline;
use crate::open::{Places, StateDir};
use anyhow::{Context, Result, bail};
use helio_disk::Member;
use helio_driver::{Errno, Host, Mode, OFlags};
use helio_format::lineage::Lineage;
use helio_format::superblock::Superblock;
use helio_ledger::{Layout, Ledger, describe};
use helio_units::{Generation, Role, Sequence};
use std::path::Path;

/// Makes it, where it is not there already. `held` are the stores in the order of their volumes.
pub(super) fn make(host: &Host, wish: &Wish, config: &Config, held: &[Member]) -> Result<()> {
    let Some(group) = config.groups.get(&wish.group) else {
        bail!("group {} vanished", wish.group)
    };
    let sizes = group.volumes.values().map(|volume| volume.size.0).collect();
    let mut new = Superblock::new(&wish.group, &wish.node, sizes);
    new.granularity = group.granularity.0 as u32;
    new.hot_slots = group.hot_extents;
    new.names = group.volumes.keys().map(|name| digest::volume(name)).collect();
    new.members = held.iter().map(identity).collect();
    new.role = Role::Primary;
    new.lineage = Lineage::default().fork(generation(host)?, Sequence::ZERO);
    // Its stop was clean, so that it goes on; its marks are void, so that everything is copied.
    (new.clean, new.consistent, new.wrote, new.alone, new.marks_void) =
        (true, true, true, true, true);
    let groups = wish.state.join("groups");
    StateDir::make(host, &wish.state).with_context(|| groups.display().to_string())?;
    let second = config.nodes.get(&wish.node).and_then(|node| node.second_metadata.as_deref());
    let Places { first: path, second, .. } = Places::of(host, &wish.group, &wish.state, second);
    // The daemon makes the second file. One that is there is of another time.
    if let Some(second) = second.filter(|second| host.is_named(second)) {
        bail!(exists(&second, &wish.group));
    }
    match host.facts(&path, true) {
        Ok(_) => return is_ours(host, &path, new),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    }
    // Nobody ever sees half of one under its name.
    let unfinished = groups.join(format!("{}.meta.new", wish.group));
    let shown = || unfinished.display().to_string();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    let file = host.open(&unfinished, flags, Mode::RUSR | Mode::WUSR).with_context(shown)?;
    let layout = Layout::of(&new);
    file.body().set_length(layout.bytes()).with_context(shown)?;
    let owner = (wish.group.as_str(), wish.node.as_str());
    let ledger = Ledger::fresh(layout, owner, helio_link::checksum);
    offline::write_superblock(ledger, new, &file)
        .and_then(|()| Ok(host.rename(&unfinished, &path)?))
        .and_then(|()| host.sync_folder(&groups))
        .with_context(|| format!("{} cannot be written", path.display()))
}

/// Whether a record of the group is on this node.
pub(super) fn is_there(host: &Host, wish: &Wish) -> bool {
    host.exists(&Places::of(host, &wish.group, &wish.state, None).first)
}

fn identity(member: &Member) -> u128 {
    member.nameplate().map_or(0, |name| digest::name(name.as_bytes()))
}

fn generation(host: &Host) -> Result<Generation> {
    Ok(Generation { number: 1, tag: u64::from_ne_bytes(host.random_bytes()?) })
}

/// A record that is there may be the one of an adoption that was cut off, and of no other.
fn is_ours(host: &Host, path: &Path, mut new: Superblock) -> Result<()> {
    let file = host.open(path, OFlags::RDONLY, Mode::empty())?;
    let found = describe(&offline::OnDisk::of(file)?, helio_link::checksum).superblock;
    if let Some(found) = &found {
        new.lineage.generation.tag = found.lineage.generation.tag;
    }
    if found.as_ref() != Some(&new) {
        bail!(exists(path, &new.group));
    }
    Ok(())
}

fn exists(path: &Path, group: &str) -> String {
    format!(
        "{} exists: the group is or was mirrored on this node\n  hint: release it first: `helio release {group}`; or choose another \
         --group; or, if its data is no longer needed, remove the file",
        path.display()
    )
}

/// Whether a daemon runs in a state directory.
pub(super) fn runs(host: &Host, state: &Path) -> bool {
    StateDir::open(host, state).is_err()
}
