// SPDX-License-Identifier: Apache-2.0
//! Opening what a node's groups live on: members, metadata, the state directory. Nothing is served before all of it
//! is open, and every refusal names the culprit and the remedy.

use crate::config::{GroupConfig, GroupView, NodeConfig, NodeView, VolumeConfig};
use crate::patience::once_let_go;
use crate::shard::{GroupPlan, Guard, Outbox, Protection, VolumePlan};
use crate::trust;
use crate::verified::{self, Record};
use anyhow::{Context, Result, bail};
use helio_disk::{MemberIdentity, OpenError, OpenOptions, Refusal};
use helio_driver::File;
use helio_format::superblock::Superblock;
use helio_ledger::{METADATA_BYTES, Opened, SuperblockStore};
use helio_link::Tuning;
use helio_tls::{NbdTls, PeerTls};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The state directory, held against other daemons for as long as this lives.
#[derive(Debug)]
pub(crate) struct StateDir {
    pub(crate) path: PathBuf,
    _lock: fs::File,
}

impl StateDir {
    /// Creates it where it is missing (mode 0700) and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(path.join("groups"))
            .with_context(|| format!("the state directory {} cannot be made", path.display()))?;
        let lock_path = path.join("lock");
        let lock = private().create(true).truncate(false).write(true).open(&lock_path)?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another helio daemon uses the state directory {}\n  remedy: stop it, or give this one its own --state",
                path.display()
            );
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where NBD clients connect.
    pub(crate) fn nbd_socket(&self) -> PathBuf {
        self.path.join("nbd.sock")
    }

    /// Where operators connect.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.path.join("control.sock")
    }
}

/// Options for files only their owner may read.
fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.mode(0o600);
    options
}

/// Opens everything a node needs of the configuration.
pub(crate) fn plans(
    view: &NodeView<'_>,
    node: &str,
    state: &StateDir,
    own: Option<&PeerTls>,
) -> Result<Vec<GroupPlan>> {
    if view.groups.is_empty() {
        bail!(
            "node {node} takes part in no group of the configuration\n  remedy: name it in a group's `nodes`"
        );
    }
    let guards = trust::guards(view, own);
    let mut taken = Vec::new();
    let groups = view.groups.iter().zip(guards);
    groups.map(|(group, (_, guard))| plan(group, node, state, guard, &mut taken)).collect()
}

/// Certificates for NBD clients over TCP, where the node has some.
pub(crate) fn protection(node: &NodeConfig) -> Result<Option<Protection>> {
    let Some(tls) = &node.tls else { return Ok(None) };
    let session = NbdTls::load(&tls.certificate, &tls.key, tls.client_ca.as_deref())?;
    Ok(Some(Protection { tls: session, required: tls.required }))
}

type Taken = Vec<(MemberIdentity, String)>;

fn plan(
    view: &GroupView<'_>,
    node: &str,
    state: &StateDir,
    guard: Guard,
    taken: &mut Taken,
) -> Result<GroupPlan> {
    let group = view.group;
    let mut volumes = Vec::new();
    for (name, volume) in &group.volumes {
        volumes.push(open_volume(view.name, name, volume, node, taken)?);
    }
    let engine = engine_config(group, view.name, node, view.peer_name);
    let (metadata, store, superblock) = open_metadata(&engine, state)?;
    Ok(GroupPlan {
        volumes,
        peer_address: view.peer.address,
        dials: node < view.peer_name,
        tuning: Tuning {
            send_buffer: group.link.send_buffer,
            receive_buffer: group.link.receive_buffer,
            congestion: group.link.congestion.clone(),
        },
        guard,
        metadata,
        store,
        superblock,
        queue_source: group.queue_source,
        outbox: Outbox {
            verified: watch::Sender::new(Record::default()),
            asks: watch::Sender::new(0),
        },
        verified: verified::load(&verified::path(&state.path, view.name)),
        engine,
    })
}

/// The group in the engine's terms.
fn engine_config(
    config: &GroupConfig,
    group: &str,
    node: &str,
    peer: &str,
) -> helio_engine::Config {
    helio_engine::Config {
        group: group.to_owned(),
        node: node.to_owned(),
        peer: peer.to_owned(),
        volumes: config.volumes.values().map(|v| v.size).collect(),
        mode: config.mode,
        queue: config.queue,
        peer_timeout: config.peer_timeout,
        flush_limit: config.flush_limit,
        autosync: config.autosync,
        hook_before_sync: config.hooks.before_resync.is_some(),
    }
}

fn open_volume(
    group: &str,
    volume: &str,
    config: &VolumeConfig,
    node: &str,
    taken: &mut Taken,
) -> Result<VolumePlan> {
    let name = format!("{group}/{volume}");
    let Some(path) = config.members.get(node) else {
        bail!("volume {name} has no member on {node}")
    };
    let buffered = config.io == helio_api::Io::Buffered;
    let io = if buffered { helio_disk::Io::Buffered } else { helio_disk::Io::Direct };
    let role = format!("member of {name}");
    let options = OpenOptions { size: config.size, io, create: false, sparse: config.sparse, role };
    let held = |error: &OpenError| match &error.refusal {
        Refusal::Held => true,
        Refusal::InUse { holders } => holders.is_empty(),
        _ => false,
    };
    let member = once_let_go(|| helio_disk::open(path, &options), held)?;
    let identity = member.identity();
    if let Some((_, other)) = taken.iter().find(|(i, _)| i.overlaps(&identity)) {
        bail!(
            "volume {name}: its member {} is the one of volume {other}, or overlaps it\n  remedy: give every volume a \
             store of its own",
            path.display()
        );
    }
    taken.push((identity, name));
    Ok(VolumePlan {
        name: volume.to_owned(),
        size: config.size,
        member,
        path: path.display().to_string(),
        buffered,
        sparse: config.sparse,
    })
}

/// Opens the group's metadata file, or makes it; checks that it belongs to this group, node and sizes.
fn open_metadata(
    engine: &helio_engine::Config,
    state: &StateDir,
) -> Result<(File, SuperblockStore, Superblock)> {
    let path = state.path.join("groups").join(format!("{}.meta", engine.group));
    let shown = path.display().to_string();
    let mut file = private()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .with_context(|| shown.clone())?;
    file.set_len(METADATA_BYTES as u64)?;
    file.sync_all()?;
    let mut area = [0; METADATA_BYTES];
    file.read_exact(&mut area).with_context(|| shown.clone())?;
    let (store, opened) = SuperblockStore::open(&area, helio_link::checksum).with_context(|| {
        format!(
            "{shown}\n  remedy: if it cannot be restored, remove it: this node then joins as new and is copied anew; \
             on the only node that has the data, keep a copy of its members first"
        )
    })?;
    let sizes: Vec<u64> = engine.volumes.iter().map(|v| v.0).collect();
    let superblock = match opened {
        Opened::Fresh => Superblock::new(&engine.group, &engine.node, sizes),
        Opened::Found(found) => {
            if found.group != engine.group || found.node != engine.node {
                bail!(
                    "{shown} belongs to group {} on node {}, not to {} on {}\n  remedy: give this daemon the --state it \
                     was made with",
                    found.group,
                    found.node,
                    engine.group,
                    engine.node
                );
            }
            if found.sizes != sizes {
                bail!(
                    "the volumes of group {} have sizes {sizes:?} bytes in the configuration and {:?} in {shown}\n  \
                     remedy: restore the sizes and the order of the volumes in the file",
                    engine.group,
                    found.sizes
                );
            }
            found
        }
    };
    Ok((File::new(file)?, store, superblock))
}
