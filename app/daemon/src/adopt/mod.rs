// SPDX-License-Identifier: Apache-2.0
//! Disks, partitions and files that hold data already are put under mirroring as they are, beside a daemon that may run.
//!
//! Not a byte of the data is written: what a group keeps lies apart from it, in the state directory. The record made
//! here says that this node was primary, wrote, and stopped cleanly, and that its marks prove nothing. So this node goes
//! on as primary by itself, everything is copied from here to the other node, and a copy the other way is refused by
//! the same rules as for any primary. The record is durable before the configuration names the group: a daemon
//! started between the two knows nothing of it, one started without the record would begin with an empty history.

mod fragment;
mod record;
mod spread;

use crate::config::{Config, GroupConfig};
use crate::open::{self, Claim};
use crate::{Platform, released};
use anyhow::{Context, Result, bail};
use helio_disk::{Io, MemberIdentity, OpenOptions, OtherUsers};
use helio_driver::{Host, Mode, OFlags, SeekFrom};
use helio_units::{Bytes, SECTOR, shell_word};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A store that is to be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where it is on this node.
    pub path: PathBuf,
    /// What its volume is called.
    pub volume: String,
    /// Where the copy is kept on the other node.
    pub peer_path: PathBuf,
}

/// What is to be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its group, a new one.
    pub group: String,
    /// All its volumes.
    pub stores: Vec<Store>,
    /// This node, as the configuration names it.
    pub node: String,
    /// The other one; none where the file names just two.
    pub peer: Option<String>,
    /// The configuration file.
    pub config: PathBuf,
    /// The state directory of this node's daemon.
    pub state: PathBuf,
    /// Whether the file may be changed; otherwise it must name the group already, or nothing is done.
    pub write: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// What the configuration needs, where it does not have it yet.
    pub fragment: Option<String>,
    /// Whether the group is ready: the next start of the daemon serves it.
    pub ready: bool,
    /// Whether a daemon runs in that state directory.
    pub running: bool,
    /// The other node.
    pub peer: String,
    /// What is adopted, and how large it is.
    pub stores: Vec<(Store, Bytes)>,
    /// Sets of disks that are torn apart.
    pub warnings: Vec<String>,
}

/// What a store was found to be.
struct Looked {
    /// It has an identity already.
    named: bool,
    size: Bytes,
    sparse: bool,
    identity: MemberIdentity,
}

/// Warns of sets of disks that are torn apart by how they are mirrored.
pub(crate) fn tell_spread(host: &Host, config: &Config, node: &str) {
    spread::warnings(host, config, node, None).iter().for_each(|line| tracing::warn!("{line}"));
}

/// Looks at everything first, and changes nothing where anything is in the way.
///
/// # Errors
/// The first thing that is in the way, with its hint.
pub fn adopt(platform: &Platform, wish: &Wish) -> Result<Adopted> {
    let host = &platform.host;
    let text = host.read_text(&wish.config).with_context(|| {
        format!("{}\n  hint: name the configuration with --config", wish.config.display())
    })?;
    let file = wish.config.display().to_string();
    let config = Config::parse(&text, &file)?;
    config.for_node(&wish.node)?;
    if config.groups.get(&wish.group).is_some_and(|group| group.nodes.len() < 2) {
        bail!(
            "{} has only one node: its data needs no adoption\n  hint: name the file or device as the first member of a volume \
             and start the daemon; `helio member add` adds others",
            wish.group
        );
    }
    let peer = other_node(&config, wish)?;
    let mut found = BTreeMap::new();
    for store in &wish.stores {
        let looked = look(platform, store, wish, &config)?;
        if found
            .values()
            .any(|(_, other): &(&Store, Looked)| other.identity.overlaps(&looked.identity))
        {
            bail!(
                "{} is given twice, or overlaps another\n  hint: give each file or device once",
                store.path.display()
            );
        }
        if found.insert(store.volume.clone(), (store, looked)).is_some() {
            bail!(
                "two files or devices would be volume {}\n  hint: give different names with --volume",
                store.volume
            );
        }
    }
    let named = config.groups.get(&wish.group);
    let (fragment, config) = match named {
        Some(group) => {
            fits(group, wish, &found)?;
            (None, config)
        }
        None => {
            let fragment = fragment::of(wish, &peer, &found);
            let whole = fragment::behind(&text, &fragment);
            let config = Config::parse(&whole, &file)?;
            (Some((fragment, whole)), config)
        }
    };
    let ready = wish.write || fragment.is_none();
    let _held = hold(host, wish, &config, &found, ready)?;
    if ready {
        if let Some((_, whole)) = &fragment {
            fragment::write(host, &wish.config, whole)?;
        }
        released::forget(host, &wish.state, &wish.group)?;
    }
    let stores = found.values().map(|(store, looked)| ((*store).clone(), looked.size)).collect();
    Ok(Adopted {
        fragment: fragment.map(|(fragment, _)| fragment),
        ready,
        running: record::runs(host, &wish.state),
        peer,
        stores,
        warnings: spread::warnings(host, &config, &wish.node, Some(&wish.group)),
    })
}

/// Opens the stores, and makes the record of the adoption if all is ready. Returns what keeps others away.
fn hold(
    host: &Host,
    wish: &Wish,
    config: &Config,
    found: &BTreeMap<String, (&Store, Looked)>,
    ready: bool,
) -> Result<Vec<helio_disk::Member>> {
    let existed = record::is_there(host, wish);
    let held = exclusively(host, found, &wish.group).and_then(|held| {
        // If there is a record already, that tells whose they are.
        if !existed {
            refuse_stamped(&held)?;
        }
        if ready {
            record::make(host, wish, config, &held)?;
        }
        Ok(held)
    });
    // A record that this call made names the new identities: they stay, also if what came after it failed.
    let is_recorded = !existed && record::is_there(host, wish);
    if !ready || held.is_err() && !is_recorded {
        forget_new(host, found);
    }
    held
}

/// Removes the identities that stores were given by this adoption: without a record, they would keep the stores out of every group.
fn forget_new(host: &Host, found: &BTreeMap<String, (&Store, Looked)>) {
    let new = found.values().filter(|(_, looked)| !looked.named);
    new.for_each(|(store, _)| forget_name(host, &store.path));
}

fn other_node(config: &Config, wish: &Wish) -> Result<String> {
    let mut others: Vec<&String> = config.nodes.keys().filter(|name| **name != wish.node).collect();
    if let Some(peer) = &wish.peer {
        others.retain(|name| *name == peer);
        let Some(peer) = others.first() else {
            bail!(
                "{} has no other node {peer}\n  hint: add [node.{peer}] to it",
                wish.config.display()
            )
        };
        return Ok((*peer).clone());
    }
    match others.as_slice() {
        [peer] => Ok((*peer).clone()),
        [] => {
            bail!("{} has no other node\n  hint: add [node.NAME] for it", wish.config.display())
        }
        _ => bail!(
            "{} has several other nodes\n  hint: select one with --peer",
            wish.config.display()
        ),
    }
}

fn look(platform: &Platform, store: &Store, wish: &Wish, config: &Config) -> Result<Looked> {
    let host = &platform.host;
    let path = &store.path;
    let shown = path.display();
    if !path.is_absolute() || !store.peer_path.is_absolute() {
        bail!(
            "{shown} or its path on the other node is not an absolute path\n  hint: start it with /"
        );
    }
    let identity = MemberIdentity::of_path(host, path)
        .with_context(|| format!("{shown} is not a file or block device that can be adopted"))?;
    let file = host.open(path, OFlags::RDONLY, Mode::empty()).with_context(|| shown.to_string())?;
    let facts = file.body().facts()?;
    let end = file.body().seek(SeekFrom::End(0));
    let size = Bytes(end.with_context(|| shown.to_string())?);
    if size == Bytes::ZERO || !size.0.is_multiple_of(SECTOR) {
        bail!(
            "{shown} has {} bytes, not a whole number of blocks of {SECTOR}\n  hint: make it longer: `truncate -s {} \
             {}` adds zeros after the data",
            size.0,
            size.0.next_multiple_of(SECTOR).max(SECTOR),
            shell_word(&path.to_string_lossy())
        );
    }
    drop(file);
    let real = host.real_path(path)?;
    let numbers = matches!(identity, MemberIdentity::Device { .. }).then(|| {
        let number = facts.represents;
        format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
    });
    let users = platform.kernel.users(&[path, &real], numbers.as_deref());
    for (group, config) in &config.groups {
        for (volume, config) in &config.volumes {
            let members = config.members_on(&wish.node).iter();
            let mut members = members.filter_map(|path| MemberIdentity::of_path(host, path).ok());
            let taken = members.any(|other| other.overlaps(&identity));
            if taken && (group, volume) != (&wish.group, &store.volume) {
                bail!(
                    "{shown} is, or overlaps, the member of {group}/{volume}\n  hint: use another file or device, or remove {group} \
                     from {} if it was released here",
                    wish.config.display()
                );
            }
        }
    }
    if !users.is_empty() {
        let users: Vec<String> = users.iter().map(ToString::to_string).collect();
        bail!(
            "{shown} is in use: {}\n  hint: unmount it and stop the processes that use it",
            users.join(", ")
        );
    }
    let is_file = matches!(identity, MemberIdentity::File { .. });
    let named = helio_disk::is_named(host, path).unwrap_or(true);
    not_owned(host, path, wish, config)?;
    Ok(Looked { named, size, sparse: is_file && facts.held < size, identity })
}

/// A disk of a group holds what clients read only once the group was released. Until then its metadata names it.
fn not_owned(host: &Host, path: &Path, wish: &Wish, config: &Config) -> Result<()> {
    let (shown, group) = (path.display(), &wish.group);
    let is_gone = |other: &str| other != group && !config.groups.contains_key(other);
    if let Some(Claim { owner: (owner, _), file, .. }) =
        open::owner_of((host, &wish.state), path, is_gone)
    {
        bail!(
            "{shown} is a disk of group {owner}, by {1}: parts of it may hold something else than the volume. Nothing was changed\n  \
             hint: name {owner} in {0} again, start the daemon, then `helio release {owner}`. If the data of {owner} is no longer \
             needed, move {1} away, and repeat",
            wish.config.display(),
            file.display()
        );
    }
    Ok(())
}

/// The file names the group already: it must be what is to be adopted.
fn fits(
    group: &GroupConfig,
    wish: &Wish,
    found: &BTreeMap<String, (&Store, Looked)>,
) -> Result<()> {
    let named: Vec<_> = group
        .volumes
        .iter()
        .map(|(name, volume)| (name, volume.members_on(&wish.node), volume.size))
        .collect();
    let meant: Vec<_> = found
        .iter()
        .map(|(name, (store, looked))| (name, std::slice::from_ref(&store.path), looked.size))
        .collect();
    if named != meant {
        let shown = wish.config.display();
        bail!(
            "{shown} already has group {}, with other volumes, members or sizes\n  hint: adopt exactly those, or \
             choose another --group",
            wish.group
        );
    }
    Ok(())
}

/// Opens the stores as a daemon would, which refuses what it would refuse, and keeps others away meanwhile.
fn exclusively(
    host: &Host,
    found: &BTreeMap<String, (&Store, Looked)>,
    group: &str,
) -> Result<Vec<helio_disk::Member>> {
    let (mut members, other_users) = (Vec::new(), OtherUsers::of(host));
    for (store, looked) in found.values() {
        let role = format!("member of {group}/{}", store.volume);
        let options =
            OpenOptions { size: looked.size, io: Io::Direct, create: false, sparse: true, role };
        let member = helio_disk::open(&store.path, &options, &other_users)?;
        if let Some(errno) = member.failed_flush() {
            bail!(
                "a flush of {} failed: {errno}; earlier writes to it may be lost\n  hint: see the kernel's log, and \
                 check its data before you adopt it",
                store.path.display()
            );
        }
        members.push(member);
    }
    Ok(members)
}

/// A release takes the stamps off the members that are complete.
fn refuse_stamped(members: &[helio_disk::Member]) -> Result<()> {
    match members.iter().find(|member| member.stamp().is_some()) {
        None => Ok(()),
        Some(member) => bail!(
            "{0} has the stamp of a member, and was not released as a complete one. Nothing was changed\n  hint: \
             adopt a member that was. To adopt this one with what it holds: `setfattr -x user.heliograph.set {1}`, and repeat",
            member.path().display(),
            shell_word(&member.path().to_string_lossy())
        ),
    }
}

/// Takes the name off a store that a daemon gave it; a device has none.
pub(crate) fn forget_name(host: &Host, path: &Path) {
    if let Err(error) = helio_disk::forget_name(host, path) {
        tracing::warn!(path = %path.display(), %error, "its attribute user.heliograph stays");
    }
}
