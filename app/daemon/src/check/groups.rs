// SPDX-License-Identifier: Apache-2.0
//! What each group of the node needs: members, metadata, and room on its file systems.

use super::{Finding, Wish};
use crate::config::{GroupView, NodeView, VolumeConfig};
use crate::open::look;
use helio_disk::{OpenError, Refusal, StoreKind};
use helio_driver::{Errno, FileType, Host};
use helio_engine::SafeCopy;
use helio_units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is still to be stored on one file system.
#[derive(Default)]
struct Ground {
    /// A folder on it.
    folder: PathBuf,
    /// New members and metadata.
    now: Bytes,
    /// Before-images, at most.
    later: Bytes,
}

/// All of it on a machine, by the number of the file system.
struct Grounds<'a>(&'a Host, BTreeMap<u64, Ground>);

impl Grounds<'_> {
    fn add(&mut self, path: &Path, now: Bytes, later: Bytes) {
        let folder = look::ground(self.0, path);
        let Ok(facts) = self.0.facts(folder, true) else { return };
        let ground = self.1.entry(facts.device).or_default();
        ground.folder = folder.to_owned();
        ground.now += now;
        ground.later += later;
    }
}

/// Every group of the node.
pub(super) fn check(host: &Host, view: &NodeView<'_>, wish: &Wish, tell: &mut dyn FnMut(Finding)) {
    let mut others = look::Others::of(host);
    let mut grounds = Grounds(host, BTreeMap::new());
    let groups: BTreeSet<String> = view.groups.iter().map(|group| group.name.to_owned()).collect();
    for group in &view.groups {
        for (name, volume) in &group.group.volumes {
            for path in volume.members_on(&wish.node) {
                let volume = (group.name, name.as_str(), volume);
                tell(member(volume, path, wish, (&mut others, &mut grounds)));
            }
        }
        tell(metadata((group, &groups), wish, &mut grounds));
        grounds.add(&kept_in(group, wish), Bytes::ZERO, before_images(group));
        if !wish.is_served(group.name)
            && let Err(error) = look::before_images(host, group, &wish.state)
        {
            tell(Finding::fail(format!("before-images of {}", group.name), &error));
        }
    }
    grounds.1.values().map(|ground| room(host, ground)).for_each(tell);
}

fn member(
    (group, name, volume): (&str, &str, &VolumeConfig),
    path: &Path,
    wish: &Wish,
    (others, grounds): (&mut look::Others, &mut Grounds<'_>),
) -> Finding {
    let served =
        wish.running.as_ref().and_then(|groups| groups.get(group)?.volumes.get(name)).copied();
    let name = format!("{group}/{name}");
    let what = format!("member of {name} {}", path.display());
    match look::member(&name, volume, path, others) {
        Ok(look) => {
            grounds.add(path, look.lacking, Bytes::ZERO);
            let kind = match look.kind {
                StoreKind::File => "file",
                StoreKind::Device => "block device",
            };
            Finding::ok(what, format!("{kind} for {}, blocks of {}", volume.size, look.block))
        }
        Err(error) if wish.is_served(group) && is_held(&error) => {
            // What is wrong with another size in the configuration, the finding about the metadata says.
            held(grounds.0, format!("member of {name}"), path, served.unwrap_or(volume.size))
        }
        Err(error) => Finding::fail(what, &error),
    }
}

/// A member that the running daemon uses: whether it still has the size that it is served with.
fn held(host: &Host, role: String, path: &Path, configured: Bytes) -> Finding {
    let what = format!("{role} {}", path.display());
    let facts = host.facts(path, true);
    let found = facts.map(|facts| (facts.kind == FileType::RegularFile).then_some(facts.length));
    let refusal = match found {
        Err(Errno::TIMEDOUT) => Refusal::NoAnswer { step: "stat" },
        Ok(Some(found)) if found < configured => Refusal::TooSmall { found, configured },
        Ok(Some(found)) if found > configured => Refusal::TooLarge { found, configured },
        _ => return Finding::ok(what, "in use by the running daemon"),
    };
    let error = OpenError { role, path: path.to_owned(), refusal };
    Finding::fail(what, &error.into())
}

fn is_held(error: &anyhow::Error) -> bool {
    let refusal = error.downcast_ref::<OpenError>().map(|error| &error.refusal);
    matches!(refusal, Some(Refusal::Held))
}

fn metadata(
    (view, groups): (&GroupView<'_>, &BTreeSet<String>),
    wish: &Wish,
    grounds: &mut Grounds<'_>,
) -> Finding {
    let what = format!("metadata of {}", view.name);
    if let Some(served) = wish.running.as_ref().and_then(|groups| groups.get(view.name)) {
        return running(what, view, &served.volumes);
    }
    let found = look::metadata(grounds.0, view, (&wish.node, groups), &wish.state).map(|bytes| {
        grounds.add(&wish.state, bytes, Bytes::ZERO);
        match bytes {
            Bytes::ZERO => String::from("can be read, and fits the configuration"),
            bytes => format!("none yet; the first start makes it ({bytes})"),
        }
    });
    Finding::of(what, found)
}

/// The metadata of a group that the running daemon serves: the next start needs the same volumes with the same sizes.
fn running(what: String, view: &GroupView<'_>, served: &BTreeMap<String, Bytes>) -> Finding {
    let named = |(name, size): (&String, Bytes)| format!("{name} {size}");
    let configured = view.group.volumes.iter().map(|(name, volume)| (name, volume.size));
    let [configured, served] = [
        configured.map(named).collect::<Vec<_>>(),
        served.iter().map(|(name, size)| named((name, *size))).collect(),
    ];
    if configured == served {
        return Finding::ok(what, "in use by the running daemon");
    }
    let (configured, served) = (configured.join(", "), served.join(", "));
    let error = anyhow::anyhow!(
        "the volumes of {} are {configured} in the configuration and {served} in the running daemon\n  hint: restore the \
         names and sizes in the file: the next start needs them",
        view.name
    );
    Finding::fail(what, &error)
}

/// The folder of a group's before-images.
fn kept_in(view: &GroupView<'_>, wish: &Wish) -> PathBuf {
    view.group.safe_copy_dir.clone().unwrap_or_else(|| wish.state.clone())
}

/// The most that a group's before-images take: all that a resync may overwrite.
fn before_images(view: &GroupView<'_>) -> Bytes {
    let all = Bytes(view.group.volumes.values().map(|volume| volume.size.0).sum());
    match view.group.safe_copy {
        SafeCopy::Off => Bytes::ZERO,
        SafeCopy::On { bound } => bound.map_or(all, |bound| all.min(bound)),
    }
}

fn room(host: &Host, ground: &Ground) -> Finding {
    let what = format!("free space at {}", ground.folder.display());
    let room = match host.room(&ground.folder) {
        Ok(room) => room,
        Err(Errno::TIMEDOUT) => {
            let hint = "check the server or the program that provides it";
            return Finding::warn(what, "the file system does not respond", hint);
        }
        Err(_) => return Finding::ok(what, "the file system does not report its free space"),
    };
    let free = room.free;
    let Ground { now, later, .. } = ground;
    if free < *now {
        let why = format!("{free} free, and new members and metadata take {now}");
        return Finding::warn(what, why, "free space, or use another file system");
    }
    let why = format!("{free} free; now {now} are needed, and up to {later} for before-images");
    if free.saturating_sub(*now) < *later {
        let hint = "free space, or set `safe-copy` to a size or `safe-copy-dir` to another file system; a resync \
                    that cannot preserve the last consistent copy waits for space";
        return Finding::warn(what, why, hint);
    }
    Finding::ok(what, why)
}
