// SPDX-License-Identifier: Apache-2.0
//! What a shard is told at its start, in its own terms.

use crate::config::{PeerAddress, QueueSource};
use crate::patience::once_let_go;
use crate::shard::before::Before;
use crate::shard::clients::Protection;
use crate::shard::guard::Guard;
use crate::shard::metadata::Metadata;
use crate::shard::route::Dialler;
use crate::verified::Record;
use anyhow::{Result, anyhow};
use helio_disk::Member;
use helio_driver::{Address, Socket};
use helio_engine::{Config, Durable};
use helio_ledger::BeforeKept;
use helio_link::Tuning;
use helio_units::Bytes;
use tokio::sync::watch;

/// A volume with its open member.
#[derive(Debug)]
pub(crate) struct VolumePlan {
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) member: Member,
    pub(crate) path: String,
    pub(crate) buffered: bool,
    pub(crate) sparse: bool,
}

/// A group with its open metadata.
#[derive(Debug)]
pub(crate) struct GroupPlan {
    pub(crate) engine: Config,
    pub(crate) volumes: Vec<VolumePlan>,
    pub(crate) peer_address: PeerAddress,
    pub(crate) dialler: Dialler,
    pub(crate) tuning: Tuning,
    /// Whom it talks to.
    pub(crate) guard: Guard,
    /// The metadata files, and the ledger over them.
    pub(crate) metadata: Metadata,
    /// What the metadata held.
    pub(crate) durable: Durable,
    /// The before-image file, and what was found in it.
    pub(crate) before: (Before, Option<BeforeKept>),
    /// Where the queue's bound comes from.
    pub(crate) queue_source: QueueSource,
    /// What verifies left.
    pub(crate) verified: Record,
    pub(crate) outbox: Outbox,
}

/// What a group hands to the control plane without waiting for it. Only the latest counts.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// To be kept.
    pub(crate) verified: watch::Sender<Record>,
    /// How often the hook before a resync was to be asked.
    pub(crate) asks: watch::Sender<u64>,
    /// How often the peer's name was to be resolved.
    pub(crate) lookups: watch::Sender<u64>,
}

/// Where a shard listens.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) clients: Vec<Address>,
    pub(crate) peers: Option<Address>,
    /// TLS for clients over TCP.
    pub(crate) protection: Option<Protection>,
    /// Most clients at once.
    pub(crate) most_clients: u32,
}

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u16 = 1024;

/// Listens on an address that an ended process may hold for a moment.
pub(crate) fn listen(address: &Address) -> Result<Socket> {
    let in_use = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
    once_let_go(|| Socket::listen(address, BACKLOG), in_use).map_err(|error| {
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
