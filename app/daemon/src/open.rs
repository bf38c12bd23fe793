// SPDX-License-Identifier: Apache-2.0
//! Opening what a node's groups live on: members, metadata, the state directory. Nothing is served before all of it
//! is open, and every refusal names the culprit and the hint.

mod allocate;
mod another;
mod before;
mod begin;
mod convert;
pub(crate) mod epochs;
pub(crate) mod look;
mod members;
pub(crate) mod metadata;
mod mirror;
mod owners;
mod rename;
mod seats;
mod state;
mod suspect;

use crate::config::{GroupView, LinkConfig, NodeConfig, NodeView, VolumeConfig};
use crate::digest;
use crate::failed::{self, Failures};
use crate::patience::{lock_once_let_go, once_let_go};
use crate::shard::{Dialler, GroupPlan, Guard, Metadata, Outbox, Protection, Settings, VolumePlan};
use crate::verified::{self, Record};
use crate::{drills, released, trust};
pub(crate) use another::{another, one_more};
use anyhow::{Context, Result, anyhow, bail};
pub use before::with_restore;
pub use begin::{Created, Creation, create};
use helio_disk::{Member, MemberIdentity, OpenError, OpenOptions, OtherUsers, Refusal};
use helio_driver::{Errno, File, Host, Mode, OFlags};
use helio_engine::{Durable, HookQuestion, Leg};
use helio_ledger::{Found, Ledger, Opened};
use helio_link::Tuning;
use helio_shadow::Shadow;
use helio_tls::{NbdTls, PeerTls};
use members::Seated;
pub(crate) use mirror::Places;
use mirror::Sides;
use owners::Members;
pub(crate) use owners::{Claim, owner_of};
pub use rename::{Name, Renaming, rename};
use seats::Named;
pub(crate) use seats::{same, untold};
pub(crate) use state::StateDir;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How many groups are opened at the same time.
const OPENERS: usize = 16;
/// How many members are looked at at the same time.
const ASKERS: usize = 64;

/// Opens a file; one that it makes only its owner may read.
fn private(host: &Host, path: &Path, flags: OFlags) -> Result<File, Errno> {
    host.open(path, flags, Mode::RUSR | Mode::WUSR)
}

/// Opens everything a node needs of the configuration. A group that cannot be opened is not served, and the others are.
///
/// # Errors
/// No group can be served: a daemon without any would only hide that from whoever starts it.
pub(crate) fn plans(
    view: &NodeView<'_>,
    node: &str,
    (state, failures): (&StateDir, &Failures),
    own: Option<&PeerTls>,
) -> Result<Vec<GroupPlan>> {
    takes_part(view, node, (&state.host, &state.path))?;
    let mut others = Others::of(&state.host);
    others.take_all(view.groups.iter(), node);
    let groups: Vec<_> = view.groups.iter().zip(trust::guards(view, own)).collect();
    let (left, opened) = (Mutex::new(groups.into_iter().enumerate()), Mutex::new(BTreeMap::new()));
    let next = || locked(&left).next();
    let open = || {
        while let Some((at, (group, (_, guard)))) = next() {
            let plan = plan((group, guard), node, (&state.path, failures), &others);
            locked(&opened).insert(at, (group.name, plan));
        }
    };
    // Most of the time is flushes of members, which do not wait for each other.
    state.host.together(OPENERS.min(view.groups.len()), &open);
    let (mut plans, mut errors) = (Vec::new(), Vec::new());
    for (group, plan) in opened.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        match plan {
            Ok(plan) => plans.push(plan),
            Err(error) => errors.push((group, error)),
        }
    }
    if plans.is_empty() {
        return Err(none_served(errors));
    }
    for (group, error) in errors {
        failures.add(group, failed::of_opening(group, &error), false);
    }
    Ok(plans)
}

/// A node without a group serves nothing.
pub(crate) fn takes_part(
    view: &NodeView<'_>,
    node: &str,
    (host, state): (&Host, &Path),
) -> Result<()> {
    if !view.groups.is_empty() {
        return Ok(());
    }
    let released = released::all(host, state);
    let Some(group) = released.first() else {
        bail!(
            "node {node} is in no group of the configuration\n  hint: name it in a group's `nodes`"
        );
    };
    bail!(
        "node {node} serves no group; released here: {}\n  hint: {}",
        released.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        released::way_back(state, group)
    )
}

fn none_served(mut errors: Vec<(&str, anyhow::Error)>) -> anyhow::Error {
    if errors.len() == 1 {
        return errors.remove(0).1;
    }
    let row = |(group, error): &(&str, anyhow::Error)| {
        let text = format!("{error:#}");
        let (why, hint) = failed::in_parts(&text);
        format!("\n  group {group}: {why}; {hint}")
    };
    let rows: String = errors.iter().map(row).collect();
    anyhow!(
        "none of the {} groups of this node can be served{rows}\n  hint: repair at least one group, then start the daemon",
        errors.len()
    )
}

/// Opens what one group needs that comes while the others are served.
pub(crate) fn one_plan(
    host: &Host,
    view: &NodeView<'_>,
    (node, group): (&str, &str),
    state: (&Path, &Failures),
    own: Option<&PeerTls>,
) -> Result<GroupPlan> {
    let guards = trust::guards(view, own);
    // Stores of other groups are locked, so that they cannot be taken twice.
    let mut others = Others::of(host);
    others.groups.extend(view.groups.iter().map(|view| view.name.to_owned()));
    let found = view.groups.iter().zip(guards).find(|(view, _)| view.name == group);
    let Some((view, (_, guard))) = found else { bail!("node {node} is not in {group}") };
    others.take_all([view].into_iter(), node);
    plan((view, guard), node, state, &others)
}

/// Certificates for NBD clients over TCP, where the node has some.
pub(crate) fn protection(host: &Host, node: &NodeConfig) -> Result<Option<Protection>> {
    let Some(tls) = &node.tls else { return Ok(None) };
    let session = NbdTls::load(host, &tls.certificate, &tls.key, tls.client_ca.as_deref())?;
    Ok(Some(Protection { tls: session, required: tls.required }))
}

/// Members by what they are, and the volume of each.
pub(crate) type Taken = Vec<(MemberIdentity, String)>;

/// Who else uses the disks of this host while several members are opened.
#[derive(Debug)]
pub(crate) struct Others {
    /// The members of all groups, the first that names one.
    taken: Taken,
    /// Why a volume may not have a member, by the volume's name and the path.
    refused: BTreeMap<(String, PathBuf), String>,
    /// The groups of the configuration.
    groups: BTreeSet<String>,
    /// Other programs.
    other_users: OtherUsers,
}

/// A flush that fails while a member is opened is recorded, whatever else comes of the opening: no later flush tells of it.
fn plan(
    (view, guard): (&GroupView<'_>, Guard),
    node: &str,
    (state, failures): (&Path, &Failures),
    others: &Others,
) -> Result<GroupPlan> {
    let engine = engine_config(view, node);
    let places = Places::of(others.host(), view.name, state, view.node.second_metadata.as_deref());
    let mut suspect = failures.unrecorded(view.name);
    let done = try_plan((view, guard), &engine, (state, &places), others, &mut suspect);
    let unrecorded = match &done {
        Ok(_) => Ok(()),
        Err(_) if suspect == 0 => Ok(()),
        Err(_) => {
            let read = ReadMetadata::of(&engine, &places, &others.members(view, node));
            read.and_then(|read| read.keep(&engine, &places, suspect, &[])).map(drop)
        }
    };
    failures.keep_unrecorded(view.name, if unrecorded.is_ok() { 0 } else { suspect });
    match (done, unrecorded) {
        (Err(error), Err(why)) => Err(suspect::unrecorded(&error, &why)),
        (done, _) => done,
    }
}

fn try_plan(
    (view, guard): (&GroupView<'_>, Guard),
    engine: &helio_engine::Config,
    (state, places): (&Path, &Places),
    others: &Others,
    suspect: &mut u64,
) -> Result<GroupPlan> {
    let (group, node) = (view.group, engine.node.as_str());
    let members = others.members(view, node);
    let mut failing = *suspect;
    let open_volumes = |suspect: &mut u64| -> Result<Vec<(VolumePlan, Vec<Named>, bool)>> {
        let open = |(at, (name, volume)): (usize, (&String, &VolumeConfig))| {
            let (plan, named) = open_volume((view.name, name), volume, node, others, |failed| {
                *suspect |= u64::from(failed) << at;
            })?;
            Ok((plan, named, volume.blank))
        };
        group.volumes.iter().enumerate().map(open).collect()
    };
    // A record is durable before a member gets its identity; one that has it is opened first, for what else is wrong with it.
    let early = if members.named().next().is_none() { None } else { Some(open_volumes(suspect)?) };
    let metadata = ReadMetadata::of(engine, places, &members)?;
    let is_new = metadata.found.1.superblock.is_new();
    let volumes = match early {
        Some(volumes) => volumes,
        None => open_volumes(suspect).inspect_err(|_| {
            if is_new && *suspect == 0 {
                begin::undo(places, &members);
            }
        })?,
    };
    // If the group cannot be opened, all of the volume counts as suspect; if it can, other full members may be sound.
    let seated = members::seated(view.name, volumes, &metadata.found, &mut failing)?;
    // Before the metadata changes, or is copied over another file: it may not be the right one.
    let (folder, record) = (group.safe_copy_dir.as_deref(), &metadata.found.1.superblock);
    let (before, sequence) = before::open(others.host(), engine, state, (folder, record))?;
    let kept = metadata.keep(engine, places, failing, &seated)?;
    let KeptMetadata { metadata, mut durable, mut shadow, new_members } = kept;
    shadow.set_transfer(group.copy_transfer);
    durable.superblock.before_sequence = sequence;
    let mut engine = engine.clone();
    let recorded = durable.superblock.members.iter();
    durable.members =
        seated.iter().zip(recorded).map(|(it, recorded)| it.found(*recorded)).collect();
    engine.hot_extents = durable.superblock.hot_slots;
    Ok(GroupPlan {
        volumes: seated.into_iter().map(|seated| seated.plan).collect(),
        peer_address: view.peer.map(|peer| peer.node.address.clone()),
        dialler: view
            .peer
            .map_or(Dialler::None, |peer| Dialler::of(node, peer.name, &view.node.address)),
        tuning: tuning(&group.link),
        guard,
        metadata,
        durable,
        shadow,
        new_members,
        before,
        sets: group.sets.clone(),
        settings: Settings::of(group),
        outbox: Outbox {
            verified: watch::Sender::new(Record::default()),
            asks: watch::Sender::new(HookQuestion::default()),
            lookups: watch::Sender::new(0),
            unmeasured: watch::Sender::new(Vec::new()),
        },
        results: (
            verified::load(others.host(), &verified::path(state, view.name)),
            drills::load(others.host(), &drills::path(state, view.name)),
        ),
        engine,
    })
}

/// What the group asks of its connection.
pub(crate) fn tuning(link: &LinkConfig) -> Tuning {
    Tuning {
        send_buffer: link.send_buffer,
        receive_buffer: link.receive_buffer,
        congestion: link.congestion.clone(),
    }
}

/// Which disk a store lies on, in the engine's terms; 0 where nothing tells.
pub(crate) fn identity(store: &Member) -> u128 {
    store.nameplate().map_or(0, |name| digest::name(name.as_bytes()))
}

/// A flush of a member failed when it was opened. What it held may be missing, and no other member is full, if it `is_last`.
fn failed_flush((group, volume): (&str, &str), member: &str, errno: Errno, is_last: bool) {
    let outcome = if is_last {
        "acknowledged writes may be missing from this copy, and it is recorded as suspect"
    } else {
        "the volume is served from its other members, and all of this one must be copied again"
    };
    tracing::error!(
        group,
        volume,
        member,
        hint = "check the disk",
        "a flush failed when the member was opened: {errno}; {outcome}"
    );
}

/// The group in the engine's terms.
fn engine_config(view: &GroupView<'_>, node: &str) -> helio_engine::Config {
    let config = view.group;
    helio_engine::Config {
        group: view.name.to_owned(),
        node: node.to_owned(),
        peer: view.peer.map_or("", |peer| peer.name).to_owned(),
        volumes: config.volumes.values().map(|v| v.size).collect(),
        names: config.volumes.keys().cloned().collect(),
        mode: config.mode,
        period: config.period,
        queue: config.queue,
        peer_timeout: config.timeouts.peer,
        flush_limit: config.timeouts.flush_limit,
        member_timeout: config.timeouts.member,
        autosync: config.autosync,
        granularity: config.granularity,
        hot_extents: config.hot_extents,
        resync: config.resync,
        safe_copy: config.safe_copy,
        on_error: config.on_error,
        hook_before_sync: config.hooks.before_resync.is_some(),
        hold: config.hold,
    }
}

fn options(name: &str, config: &VolumeConfig) -> OpenOptions {
    let io = match config.io {
        helio_api::Io::Buffered => helio_disk::Io::Buffered,
        helio_api::Io::Direct => helio_disk::Io::Direct,
    };
    let role = format!("member of {name}");
    OpenOptions { size: config.size, io, create: false, sparse: config.sparse, role }
}

fn open_volume(
    (group, volume): (&str, &str),
    config: &VolumeConfig,
    node: &str,
    others: &Others,
    mut flush_failed: impl FnMut(bool),
) -> Result<(VolumePlan, Vec<Named>)> {
    let name = format!("{group}/{volume}");
    let paths = config.members_on(node);
    if paths.is_empty() {
        bail!("volume {name} has no member on {node}");
    }
    let mut named = Vec::new();
    for path in paths {
        let store = open_member(&name, config, path, others);
        flush_failed(store.as_ref().is_ok_and(|store| store.failed_flush().is_some()));
        named.push(Named { path: path.clone(), store });
    }
    if named.iter().all(|named| named.store.is_err()) {
        named.swap_remove(0).store?;
    }
    let plan = VolumePlan {
        name: volume.to_owned(),
        size: config.size,
        members: Vec::new(),
        buffered: config.io == helio_api::Io::Buffered,
        sparse: config.sparse,
    };
    Ok((plan, named))
}

fn open_member(name: &str, config: &VolumeConfig, path: &Path, others: &Others) -> Result<Member> {
    if let Some(why) = others.refused.get(&(name.to_owned(), path.to_owned())) {
        bail!("{why}");
    }
    let (options, other_users) = (options(name, config), &others.other_users);
    let member =
        once_let_go(others.host(), || helio_disk::open(path, &options, other_users), is_held)?;
    Ok(member)
}

/// A process that ended may hold it for a moment.
fn is_held(error: &OpenError) -> bool {
    match &error.refusal {
        Refusal::Held => true,
        Refusal::InUse { holders } => holders.is_empty(),
        _ => false,
    }
}

impl Others {
    /// None yet, on that host.
    pub(crate) fn of(host: &Host) -> Self {
        let (taken, refused, groups) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Self { taken, refused, groups, other_users: OtherUsers::of(host) }
    }

    const fn host(&self) -> &Host {
        self.other_users.host()
    }

    fn members<'a>(&'a self, view: &GroupView<'a>, node: &'a str) -> Members<'a> {
        Members::of(self.host(), view, node, &self.groups)
    }

    /// Takes the members of groups, in the order of the file: which of two groups gets a member that both name does not depend on
    /// which is opened first. All file systems are asked at once, as one that does not respond takes its time.
    fn take_all<'a>(&mut self, views: impl Iterator<Item = &'a GroupView<'a>>, node: &str) {
        let mut members = Vec::new();
        for view in views {
            self.groups.insert(view.name.to_owned());
            for (volume, config) in &view.group.volumes {
                let name = format!("{}/{volume}", view.name);
                members.extend(config.members_on(node).iter().map(|path| (name.clone(), path)));
            }
        }
        let (left, known) = (Mutex::new(members.iter()), Mutex::new(BTreeMap::new()));
        let ask = || {
            while let Some((_, path)) = { locked(&left).next() } {
                let identity = MemberIdentity::of_path(self.host(), path).ok();
                locked(&known).insert(path.as_path(), identity);
            }
        };
        self.host().together(ASKERS.min(members.len()), &ask);
        let known = known.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (name, path) in &members {
            let Some(Some(identity)) = known.get(path.as_path()) else { continue };
            if let Err(error) = self.take_as(name, path, *identity) {
                self.refused.insert((name.clone(), path.to_path_buf()), format!("{error:#}"));
            }
        }
    }

    fn take(&mut self, (name, path): (&str, &Path)) -> Result<()> {
        let Ok(identity) = MemberIdentity::of_path(self.host(), path) else { return Ok(()) };
        self.take_as(name, path, identity)
    }

    /// No store belongs to two volumes, whatever it is called: it is this volume's from now on.
    fn take_as(&mut self, name: &str, path: &Path, identity: MemberIdentity) -> Result<()> {
        if let Some((_, other)) = self.taken.iter().find(|(i, _)| i.overlaps(&identity)) {
            if other == name {
                bail!(
                    "volume {name}: its member {} is named twice, or overlaps another one of it\n  hint: name each disk once",
                    path.display()
                );
            }
            bail!(
                "volume {name}: its member {} is also the member of volume {other}, or overlaps it\n  hint: give each \
                 volume its own file or device",
                path.display()
            );
        }
        self.taken.push((identity, name.to_owned()));
        Ok(())
    }
}

/// A lock whose holder panicked is still right: what it guards is changed in one step.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock on a file that this daemon writes, once a process before has let go of it.
fn take(host: &Host, file: &File, shown: &str) -> Result<()> {
    lock_once_let_go(host, file).map_err(|error| match error {
        None => anyhow!(
            "{shown}: another process writes this file, most likely a helio daemon\n  hint: stop it, or give each daemon a --state, \
             a `safe-copy-dir` and a second directory of `metadata` of its own"
        ),
        Some(error) => anyhow!("{shown}: it cannot be locked: {error}"),
    })
}

/// The group's metadata, as it was read: it belongs to this group, node and sizes.
struct ReadMetadata {
    sides: Sides,
    found: Box<(Ledger, Found)>,
}

/// The group's metadata, ready to be served from.
struct KeptMetadata {
    metadata: Metadata,
    durable: Durable,
    shadow: Shadow,
    new_members: Vec<Leg>,
}

impl ReadMetadata {
    /// Opens it, or makes it.
    fn of(engine: &helio_engine::Config, places: &Places, members: &Members<'_>) -> Result<Self> {
        let mut sides = mirror::open(places, engine, members)?;
        let shown = &sides.counts.shown;
        let opened = std::mem::replace(&mut sides.counts.opened, Opened::Fresh);
        let Opened::Found(found) = opened else {
            bail!("{shown} reads as empty after it was written")
        };
        metadata::fits(&found.1.superblock, engine, shown)?;
        Ok(Self { sides, found })
    }

    /// Records the volumes of which a flush failed, a bit each, and what members they have.
    fn keep(
        self,
        engine: &helio_engine::Config,
        places: &Places,
        suspect: u64,
        seated: &[Seated],
    ) -> Result<KeptMetadata> {
        let Self { sides: Sides { counts, other }, mut found } = self;
        let shown = counts.shown.clone();
        let read = || match metadata::read(&counts.file, &shown, engine)? {
            Opened::Found(again) => Ok(again),
            Opened::Fresh | Opened::Older(_) => {
                bail!("{shown} reads as empty after it was written")
            }
        };
        // What is read again has no damage any more.
        let repaired = std::mem::take(&mut found.1.repaired);
        let recorded = suspect::recorded(found, suspect, &counts.file, read);
        let mut found = recorded.with_context(|| shown.clone())?;
        if members::record(
            (&places.host, &engine.group),
            &mut found,
            seated,
            (&counts.file, &shown),
        )? {
            found = read()?;
        }
        let (shadow, new_members) = members::shadow(&engine.volumes, &found, seated);
        let (ledger, found) = *found;
        for repaired in repaired.iter().chain(&found.repaired) {
            tracing::warn!(group = %engine.group, file = %shown, "{repaired}");
        }
        let Found { mut superblock, hot, marks, .. } = found;
        // Metadata of an earlier build has none.
        superblock.names = engine.names.iter().map(|name| digest::volume(name)).collect();
        if superblock.hot_slots != engine.hot_extents {
            let (file, wanted) = (superblock.hot_slots, engine.hot_extents);
            tracing::warn!(group = %engine.group, "hot-extents = {wanted} takes effect with new metadata; {file} stays in effect");
        }
        let sequence = ledger.sequence();
        let kept = mirror::keep(counts, other, ledger, (engine, places))?;
        let metadata = Metadata::new(kept.files, (kept.mirror, engine.member_timeout), kept.fault);
        let durable = Durable { hot, marks, sequence, ..Durable::new(superblock) };
        Ok(KeptMetadata { metadata, durable, shadow, new_members })
    }
}
