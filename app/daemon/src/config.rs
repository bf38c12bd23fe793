// SPDX-License-Identifier: Apache-2.0
//! The one file: which nodes there are, which groups they hold, where the volumes are kept.
//!
//! The same file serves every node. Roles, generations and marks are state and never stand in it. Every
//! refusal names file, line and column, and the hint. Absent on purpose: looking at the members (the
//! disk room does, when it opens them).

mod address;
mod alerts;
mod check;
mod copy_transfer;
mod diff;
mod error;
mod hold;
mod hooks;
mod marks;
mod node;
mod on_error;
mod period;
mod read;
mod retain;
mod sets;
mod table;
#[cfg(test)]
mod tests;
mod timeouts;

pub use address::PeerAddress;
pub use alerts::{Alert, AlertsConfig, LagBound};
pub use diff::{Change, Changes, MemberChange, MemberStep, Running, Setting, diff};
pub use error::{ConfigError, Place};
pub use hooks::HooksConfig;
pub use retain::{Interval, Retain, Term};
pub use sets::{OwnDisks, ReadCosts, SetConfig, Sets};
pub use table::{NAME_RULE, is_name};
pub use timeouts::Timeouts;

use error::Source;
use helio_driver::{DriverChoice, Host};
use helio_engine::{OnError, QueueConfig, ResyncConfig, SafeCopy};
use helio_shadow::Transfer;
use helio_tls::PublicKey;
use helio_units::{Bytes, Mode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything the file says. Nodes, groups and volumes stand in the order of their names, so that moving
/// sections about in the file changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Every node, by name.
    pub nodes: BTreeMap<String, NodeConfig>,
    /// Every group, by name.
    pub groups: BTreeMap<String, GroupConfig>,
    /// The file, for messages.
    pub file: String,
}

/// Volumes that a node copies at once where the file names no number: OpenVMS's `SHADOW_MAX_COPY`.
pub const COPIES_AT_ONCE: u32 = 4;

/// NBD connections a node takes at once where the file names no number.
pub const CLIENTS_MAX: u32 = 1024;
/// The least that the buffers of a node may be bounded to: two of the largest writes of clients, 32 MiB each, must fit into the
/// half that is not for received data, and queues.
pub const BUFFER_MEMORY_LEAST: Bytes = Bytes::mib(192);

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Where its peers reach it. Loopback, unless it has a key.
    pub address: PeerAddress,
    /// Where it listens; other than `address` if that is a name, or a tunnel or a translator stands between.
    pub listen: SocketAddr,
    /// Where it serves NBD over TCP besides the socket in its state directory. Loopback, unless TLS is required there.
    pub nbd: Option<SocketAddr>,
    /// The keys it is known by: one, or several while one is changed for another. None: loopback, and no TLS.
    pub keys: Vec<PublicKey>,
    /// TLS for its NBD clients.
    pub tls: Option<NbdTlsConfig>,
    /// Where it takes commands over TLS.
    pub control: Option<SocketAddr>,
    /// The keys of those who may command it there.
    pub operators: Vec<PublicKey>,
    /// What its shard runs on.
    pub driver: DriverChoice,
    /// How long its shard looks for work before it sleeps; none leaves it to the daemon.
    pub spin: Option<Duration>,
    /// Most NBD connections that use an export at once.
    pub clients: u32,
    /// Most volumes whose members are copied or merged in the background at once.
    pub copies_at_once: u32,
    /// Where attached volumes get their stable names.
    pub devices: PathBuf,
    /// The directory of a second file of every group's metadata.
    pub second_metadata: Option<PathBuf>,
    /// The most that buffers may take, all groups together; none leaves it to the daemon.
    pub buffer_memory: Option<Bytes>,
    /// The daemon's memory stays in memory.
    pub lock_memory: bool,
    /// Limit of what `resolve` and a reverse resync save in the state directory.
    pub saved_limit: Bytes,
}

/// Certificates of a node's NBD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdTlsConfig {
    /// The server's chain, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Who signs the clients' certificates; none asks clients for none.
    pub client_ca: Option<PathBuf>,
    /// Whether TCP clients must encrypt. The Unix socket never asks for it.
    pub required: bool,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its nodes, one or two, in the file's order.
    pub nodes: Vec<String>,
    /// When writes are acknowledged.
    pub mode: Mode,
    /// In mode periodic: the time from one cut to the next.
    pub period: Duration,
    /// The memory queue's bound and policies.
    pub queue: QueueConfig,
    /// Where the bound comes from.
    pub queue_source: QueueSource,
    /// How long it waits for its peer and for its disks.
    pub timeouts: Timeouts,
    /// How much is copied to a member at a time.
    pub copy_transfer: Transfer,
    /// How long a secondary's hold lease lasts; none where it is zero.
    pub hold: Duration,
    /// Copy marked regions without being asked once the link is back.
    pub autosync: bool,
    /// What follows where the only store of a primary's volume fails.
    pub on_error: OnError,
    /// Bytes one mark covers.
    pub granularity: Bytes,
    /// Most extents of 4 MiB that may be hot at once.
    pub hot_extents: u32,
    /// How the copier treats the application and the link.
    pub resync: ResyncConfig,
    /// A secondary's last consistent image is kept while it is updated.
    pub safe_copy: SafeCopy,
    /// Where it is kept; none is the state directory.
    pub safe_copy_dir: Option<PathBuf>,
    /// When automatic snapshots are created, and which are kept; none: no automatic snapshots.
    pub retain: Option<Retain>,
    /// The connection between the two.
    pub link: LinkConfig,
    /// Bounds of its figures.
    pub alerts: AlertsConfig,
    /// Programs to run when something happens.
    pub hooks: HooksConfig,
    /// Settings of the members of its volumes.
    pub sets: Sets,
    /// The volumes, by name.
    pub volumes: BTreeMap<String, VolumeConfig>,
}

/// Where a queue's bound comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueSource {
    /// Nothing fixes it: the engine measures.
    #[default]
    Auto,
    /// The file gives a size.
    File,
    /// `preset = "sndr"`.
    PresetSndr,
    /// An operator changed it while it ran.
    Operator,
}

/// The connection between the two nodes of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// The sending socket buffer; none leaves it to the kernel's tuning.
    pub send_buffer: Option<Bytes>,
    /// The receiving socket buffer; none leaves it to the kernel's tuning.
    pub receive_buffer: Option<Bytes>,
    /// The kernel's congestion control to ask for, such as `bbr`; none takes the host's default.
    pub congestion: Option<String>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeConfig {
    /// Its size, a multiple of the sector.
    pub size: Bytes,
    /// How its members are read and written.
    pub io: helio_api::Io,
    /// Members are files with holes.
    pub sparse: bool,
    /// While the volume is new, its members hold nothing that counts.
    pub blank: bool,
    /// The members on each of the group's nodes, absolute paths: from one to six.
    pub members: BTreeMap<String, Vec<PathBuf>>,
}

impl VolumeConfig {
    /// Its members on a node.
    #[must_use]
    pub fn members_on(&self, node: &str) -> &[PathBuf] {
        self.members.get(node).map_or(&[], Vec::as_slice)
    }
}

/// The part of the file that concerns one node.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// The node itself.
    pub node: &'a NodeConfig,
    /// Its groups.
    pub groups: Vec<GroupView<'a>>,
}

/// One group, seen from one of its nodes.
#[derive(Clone, Debug)]
pub struct GroupView<'a> {
    /// The group's name.
    pub name: &'a str,
    /// The group.
    pub group: &'a GroupConfig,
    /// This node.
    pub node: &'a NodeConfig,
    /// The other node, if the group has one.
    pub peer: Option<PeerView<'a>>,
}

/// The other node of a group.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// Its name.
    pub name: &'a str,
    /// The node.
    pub node: &'a NodeConfig,
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// Where it cannot be read, or [`Config::parse`] refuses it.
    pub fn load(host: &Host, path: &Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let text = host.read_text(path).map_err(|why| {
            let hint = "name a readable configuration file with --config".to_owned();
            ConfigError {
                file: file.clone(),
                place: None,
                message: format!("cannot be read: {why}"),
                hint,
            }
        })?;
        Self::parse(&text, &file)
    }

    /// Reads the file's text; `file` is its name in messages.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line, its column and the hint.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        read::config(&Source { file, text })
    }

    /// What concerns one node.
    ///
    /// # Errors
    /// Where the file has no such node.
    pub fn for_node(&self, name: &str) -> Result<NodeView<'_>, ConfigError> {
        let node = self.nodes.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.nodes.keys().map(String::as_str).collect();
            ConfigError {
                file: self.file.clone(),
                place: None,
                message: format!("has no node `{name}`"),
                hint: format!("start with --node and one of: {}", known.join(", ")),
            }
        })?;
        let groups = self.groups.iter().filter_map(|(group_name, group)| {
            if !group.nodes.iter().any(|member| member == name) {
                return None;
            }
            let peer = group.nodes.iter().find(|other| *other != name);
            let peer = peer.and_then(|name| Some(PeerView { name, node: self.nodes.get(name)? }));
            Some(GroupView { name: group_name, group, node, peer })
        });
        Ok(NodeView { node, groups: groups.collect() })
    }
}
