// SPDX-License-Identifier: Apache-2.0
//! What a shard is told at its start, in its own terms.

use crate::config::{AlertsConfig, GroupConfig, PeerAddress, QueueSource, Sets};
use crate::latency::Unmeasured;
use crate::open::identity;
use crate::patience::once_let_go;
use crate::shard::before::Before;
use crate::shard::clients::Protection;
use crate::shard::guard::Guard;
use crate::shard::metadata::Metadata;
use crate::shard::route::Dialler;
use crate::verified::Record;
use anyhow::{Result, anyhow};
use helio_api::DrillStatus;
use helio_disk::Member;
use helio_driver::{Address, Host, Socket};
use helio_engine::{Config, Durable, HookQuestion, Leg};
use helio_format::members::DiskMark;
use helio_ledger::BeforeFound;
use helio_link::Tuning;
use helio_shadow::Shadow;
use helio_units::{Bytes, MemberIndex};
use std::time::Duration;
use tokio::sync::watch;

/// A member of a volume.
#[derive(Debug)]
pub(crate) struct MemberPlan {
    pub(crate) path: String,
    /// Which disk it is, as the metadata is to have it.
    pub(crate) mark: DiskMark,
    pub(crate) store: MemberStore,
}

/// Whether a member is open.
#[derive(Debug)]
pub(crate) enum MemberStore {
    /// It is, and locked.
    Open(Member),
    /// It is not, for that reason: no operation reaches it.
    Closed(String),
}

impl MemberPlan {
    /// What lies there, if it is open.
    pub(crate) const fn store(&self) -> Option<&Member> {
        match &self.store {
            MemberStore::Open(store) => Some(store),
            MemberStore::Closed(_) => None,
        }
    }
}

/// A volume with its members.
#[derive(Debug)]
pub(crate) struct VolumePlan {
    pub(crate) name: String,
    pub(crate) size: Bytes,
    /// Its members by their numbers; at least one is open.
    pub(crate) members: Vec<Option<MemberPlan>>,
    pub(crate) buffered: bool,
    pub(crate) sparse: bool,
}

impl VolumePlan {
    /// The member of that number.
    pub(crate) fn member(&self, number: MemberIndex) -> Option<&MemberPlan> {
        self.members.get(usize::from(number.0))?.as_ref()
    }

    /// The stores of its open members.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten().filter_map(MemberPlan::store)
    }

    /// Whether an open disk is another one than its member was recorded on: the engine judges it, and the next start records it.
    pub(crate) fn has_another_disk(&self) -> bool {
        self.members.iter().flatten().any(|member| {
            let mark = member.store().map(|store| DiskMark::of(identity(store)));
            mark.is_some_and(|mark| mark != member.mark)
        })
    }

    /// Blocks that every open member keeps to.
    pub(crate) fn alignment(&self) -> Bytes {
        self.stores().map(Member::alignment).max().unwrap_or(Bytes(512))
    }

    /// The number of the member whose disk is at this path. A closed member keeps its path if another disk gets it: an open member
    /// comes first, then the one with the highest number.
    pub(crate) fn at_path(&self, path: &str) -> Option<usize> {
        let last = |open: bool| {
            let is_there = |it: &MemberPlan| it.path == path && it.store().is_some() == open;
            self.members.iter().rposition(|member| member.as_ref().is_some_and(is_there))
        };
        last(true).or_else(|| last(false))
    }

    /// The paths of its members.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.members.iter().flatten().map(|member| member.path.as_str())
    }
}

/// Settings of a group that its engine does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Where the queue's bound comes from.
    pub(crate) queue_source: QueueSource,
    /// When a member that was removed after an error is tried again.
    pub(crate) member_return: Option<Duration>,
    /// Bounds of its figures.
    pub(crate) alerts: AlertsConfig,
}

impl Settings {
    pub(crate) const fn of(group: &GroupConfig) -> Self {
        Self {
            queue_source: group.queue_source,
            member_return: group.timeouts.member_return,
            alerts: group.alerts,
        }
    }
}

/// A group with its open metadata.
#[derive(Debug)]
pub(crate) struct GroupPlan {
    pub(crate) engine: Config,
    pub(crate) volumes: Vec<VolumePlan>,
    /// Of the peer, if the group has one.
    pub(crate) peer_address: Option<PeerAddress>,
    pub(crate) dialler: Dialler,
    pub(crate) tuning: Tuning,
    /// Whom it talks to.
    pub(crate) guard: Guard,
    /// The metadata files, and the ledger over them.
    pub(crate) metadata: Metadata,
    /// What the metadata held.
    pub(crate) durable: Durable,
    /// What keeps the members of volumes alike.
    pub(crate) shadow: Shadow,
    /// Members that the configuration names and the metadata did not have: they get the data.
    pub(crate) new_members: Vec<Leg>,
    /// The before-image file, and what was found in it.
    pub(crate) before: (Before, BeforeFound),
    /// Settings of the members of its volumes.
    pub(crate) sets: Sets,
    pub(crate) settings: Settings,
    /// What verifies left, and drills.
    pub(crate) results: (Record, Option<DrillStatus>),
    pub(crate) outbox: Outbox,
}

/// What a group hands to the control plane without waiting for it. Only the latest counts.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// To be kept.
    pub(crate) verified: watch::Sender<Record>,
    /// The last question to the hook before a resync.
    pub(crate) asks: watch::Sender<HookQuestion>,
    /// How often the peer's name was to be resolved.
    pub(crate) lookups: watch::Sender<u64>,
    /// Members whose latency is to be measured.
    pub(crate) unmeasured: watch::Sender<Vec<Unmeasured>>,
}

/// Where a shard listens, and the limits of its node.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) clients: Vec<Address>,
    pub(crate) peers: Option<Address>,
    /// TLS for clients over TCP.
    pub(crate) protection: Option<Protection>,
    /// Most clients at once.
    pub(crate) most_clients: u32,
    /// Most volumes that are copied or merged in the background at once.
    pub(crate) most_copies: u32,
    /// The most that buffers may take, all groups together.
    pub(crate) buffer_memory: Bytes,
}

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u16 = 1024;

/// Listens on an address that an ended process may hold for a moment.
pub(crate) fn listen(host: &Host, address: &Address) -> Result<Socket> {
    let in_use = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
    once_let_go(host, || host.listen(address, BACKLOG), in_use).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "stop the process that uses it, or change the node's address in the configuration"
            }
            std::io::ErrorKind::PermissionDenied => {
                "use a port above 1023, or run the daemon as a user who may use this one"
            }
            _ => "change the node's address in the configuration to one of this host",
        };
        anyhow!("cannot listen on {address}: {error}\n  hint: {hint}")
    })
}
