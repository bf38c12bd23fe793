// SPDX-License-Identifier: Apache-2.0
//! What the engine of one group is told once, at its start or by `apply`.

use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;
use helio_copy::ResyncConfig;
use helio_stack::StoreFault;
use helio_units::{Bytes, Items, Mode, Rate, VolumeIndex};

/// Bytes one mark covers unless the file says otherwise (architecture: 2 KiB of map per GiB).
pub const REGION: Bytes = Bytes::kib(64);
/// Time from one cut to the next in mode periodic, unless the file says otherwise.
pub const PERIOD: Duration = Duration::from_secs(30);
/// Hot extents a node keeps unless the file says otherwise: four pages of the ledger, 8 GiB of 4 MiB each.
pub const HOT_EXTENTS: u32 = 2032;
/// Items longer than this are split, so that no single one holds the gate or a receiver for long (rule 15).
pub const ITEM_BYTES_MAX: u64 = 32 << 20;
/// The queue's smallest default bound: 16384 blocks of 512 bytes, the default of Sun's remote mirror.
pub const QUEUE_BYTES_SNDR: Bytes = Bytes(16384 * 512);
/// Items of Sun's remote mirror 3.1.
pub const QUEUE_ITEMS_SNDR: Items = Items(4_194_304);
/// The largest automatic bound of a queue.
pub const QUEUE_BYTES_MOST: Bytes = Bytes::mib(256);
/// How many measured bandwidth-delay products an automatic queue holds.
pub const QUEUE_PRODUCTS: u64 = 4;
/// A shorter round trip counts as this one: what is sent waits for the peer's store too, however near it is.
pub(crate) const QUEUE_ROUND_TRIP_MIN: Duration = Duration::from_millis(10);

/// The bound an automatic queue grows to on a link like that.
#[must_use]
pub fn automatic_bound(rate: Rate, round_trip: Duration) -> Bytes {
    let products = rate.bytes_in(round_trip.max(QUEUE_ROUND_TRIP_MIN)) * QUEUE_PRODUCTS;
    products.max(QUEUE_BYTES_SNDR).min(QUEUE_BYTES_MOST)
}

/// What happens to a write when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits.
    Block,
    /// The queue is dropped and only marks are kept.
    Log,
    /// It fails.
    Fail,
}

/// Whether a secondary's last consistent image is kept while it is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafeCopy {
    /// No.
    Off,
    /// Yes, in a file of at most that many bytes, or as many as the file system has.
    On {
        /// The bound.
        bound: Option<Bytes>,
    },
}

impl SafeCopy {
    pub(crate) fn is_on(self) -> bool {
        matches!(self, Self::On { .. })
    }

    pub(crate) fn bound(self) -> Option<Bytes> {
        match self {
            Self::Off => None,
            Self::On { bound } => bound,
        }
    }
}

/// What follows where the only local store of a primary's volume fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The client gets the error of a read or write; behind a failed flush a level peer serves all the same.
    Pass,
    /// The volume's store is given up, and a level peer serves in its place.
    #[default]
    ServeFromPeer,
}

/// The memory queue's bound and policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Fixed bytes, or none for an automatic bound: the larger of Sun's default and four measured bandwidth-delay products.
    pub memory: Option<Bytes>,
    /// The largest automatic bound.
    pub automatic_most: Bytes,
    /// Most items.
    pub items: Items,
    /// While the peer is connected.
    pub connected: WhenFull,
    /// While it is not.
    pub disconnected: WhenFull,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            memory: None,
            automatic_most: QUEUE_BYTES_MOST,
            items: QUEUE_ITEMS_SNDR,
            connected: WhenFull::Block,
            disconnected: WhenFull::Log,
        }
    }
}

impl QueueConfig {
    /// The bound before the link was measured: the fixed one, or the smallest automatic one.
    pub(crate) fn first_bound(&self) -> Bytes {
        self.memory.unwrap_or(QUEUE_BYTES_SNDR.min(self.automatic_most))
    }
}

/// One group, seen from one of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The group's name.
    pub group: String,
    /// This node's name.
    pub node: String,
    /// The other node's name; empty if the group has only this node.
    pub peer: String,
    /// Sizes of the volumes, in their order.
    pub volumes: Vec<Bytes>,
    /// Names of the volumes, in their order, for what people read. A volume without one is named by its number.
    pub names: Vec<String>,
    /// The mode asked for.
    pub mode: Mode,
    /// In mode periodic: the time from one cut to the next. If it is zero, the next one follows as soon as the peer has the last.
    pub period: Duration,
    /// The memory queue.
    pub queue: QueueConfig,
    /// T of rule 8: a peer none of whose cursors moved for this long, with something outstanding, is lost.
    pub peer_timeout: Duration,
    /// The second limit of rule 8, for a peer whose messages arrive, and that reports a flush or a store that waits.
    pub flush_limit: Duration,
    /// A disk with an operation that has not completed for this long is silent.
    pub member_timeout: Duration,
    /// Copy marked regions without being asked once the link is back.
    pub autosync: bool,
    /// Bytes one mark covers: a power of two from 4 KiB to 1 MiB, the same on both nodes.
    pub granularity: Bytes,
    /// Most extents of 4 MiB that may be hot at once.
    pub hot_extents: u32,
    /// The copier.
    pub resync: ResyncConfig,
    /// A secondary's last consistent image is kept while it is updated.
    pub safe_copy: SafeCopy,
    /// What follows where the store of a primary fails.
    pub on_error: OnError,
    /// An update asks the operator's hook first.
    pub hook_before_sync: bool,
    /// How long a secondary's hold lease lasts; none where it is zero.
    pub hold: Duration,
}

impl Config {
    /// What all volumes hold.
    pub(crate) fn size(&self) -> Bytes {
        self.volumes.iter().fold(Bytes::ZERO, |sum, size| sum + *size)
    }

    /// A group with the defaults of the configuration file, and with a safe copy of any size. Its volumes have no names.
    #[must_use]
    pub fn new(group: &str, node: &str, peer: &str, volumes: Vec<Bytes>) -> Self {
        Self {
            group: group.to_string(),
            node: node.to_string(),
            peer: peer.to_string(),
            volumes,
            names: Vec::new(),
            mode: Mode::default(),
            period: PERIOD,
            queue: QueueConfig::default(),
            peer_timeout: Duration::from_secs(6),
            flush_limit: Duration::from_secs(60),
            member_timeout: Duration::from_secs(120),
            autosync: true,
            granularity: REGION,
            hot_extents: HOT_EXTENTS,
            resync: ResyncConfig::default(),
            safe_copy: SafeCopy::On { bound: None },
            on_error: OnError::default(),
            hook_before_sync: false,
            hold: Duration::ZERO,
        }
    }

    /// The other node's name, if the group has one.
    #[must_use]
    pub fn peer_name(&self) -> Option<&str> {
        Some(self.peer.as_str()).filter(|peer| !peer.is_empty())
    }

    /// The group's volumes.
    pub fn indices(&self) -> impl Iterator<Item = VolumeIndex> + Clone + use<> {
        (0..self.volumes.len() as u16).map(VolumeIndex)
    }

    /// What people call a volume.
    #[must_use]
    pub fn name_of(&self, volume: VolumeIndex) -> String {
        let name = self.names.get(usize::from(volume.0));
        name.cloned().unwrap_or_else(|| volume.0.to_string())
    }

    /// What failed, if an operation on that volume did.
    pub(crate) fn failure_of(&self, volume: VolumeIndex, fault: StoreFault) -> String {
        let name = self.name_of(volume);
        match fault {
            StoreFault::Unrecorded => {
                format!("the metadata file cannot record an operation on volume {name}")
            }
            StoreFault::Unissued => {
                format!("an operation on volume {name} was given up before it reached the disk")
            }
            _ => format!("volume {name} failed: {fault}"),
        }
    }

    /// What an operator does about metadata that cannot be written.
    pub(crate) fn repair_metadata(&self) -> String {
        let node = &self.node;
        format!("repair the file system of the state directory on {node}, then restart its daemon")
    }

    /// How often a quiet connection is tried: a quarter of the peer timeout, at most a second.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        (self.peer_timeout / 4).min(Duration::from_secs(1))
    }

    /// A receiver makes its copy durable by itself after this many bytes: the lesser of 4 MiB and a quarter of
    /// the sender's bound (rule 3). With an automatic bound, 8 MiB count; a sender with less memory asks for a flush.
    #[must_use]
    pub fn flush_bytes(&self) -> Bytes {
        let bound = self.queue.memory.unwrap_or(QUEUE_BYTES_SNDR);
        Bytes(bound.0 / 4).min(Bytes::mib(4))
    }
}
