// SPDX-License-Identifier: Apache-2.0
//! The moving parts of a group's status: queue, throttle, lag, cursors, a running sync, counters.

use crate::wire;
use helio_units::{Bytes, Items, Rate, Sequence, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The memory queue towards the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueStatus {
    /// Payload and work held now.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// Items held now.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub items: Items,
    /// Most bytes held since `high_water_since_ms`.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes_high_water: Bytes,
    /// When it was, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes_high_water_at_ms: WallTime,
    /// Most items held since `high_water_since_ms`.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub items_high_water: Items,
    /// When it was, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub items_high_water_at_ms: WallTime,
    /// When this node became primary, or its queue was reset; in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub high_water_since_ms: WallTime,
    /// Most bytes allowed.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bound_bytes: Bytes,
    /// Most items allowed.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bound_items: Items,
    /// Origin of the limit: `file`, `operator`, `preset sndr`, `4 x measured bandwidth-delay product`, `default`.
    pub bound_source: String,
    /// Why it has this size, as text; for an automatic limit, how it was chosen.
    pub bound_reason: String,
    /// Policy when the queue is full while the peer is connected: `block`, `log` or `fail`.
    pub when_full_connected: String,
    /// The same while the peer is away.
    pub when_full_disconnected: String,
}

/// Writes that wait because the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThrottleStatus {
    /// Writes waiting now.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub waiting: Items,
    /// Writes that waited, the ones waiting now among them. This and what follows is counted since the queue's
    /// `high_water_since_ms`.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub count: Items,
    /// How long they waited, added up.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub total_seconds: Duration,
    /// Writes refused because the queue was full, with the policy `fail`.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub refused: Items,
    /// How often the queue was dropped because it was full, with the policy `log`.
    #[serde(default)]
    pub dropped: u64,
}

/// Latencies from acceptance on, for single requests, since this node became primary or its queue was reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswersStatus {
    /// Since when, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// Of writes, zeroes and discards.
    pub writes: TimesStatus,
    /// Of flushes.
    pub flushes: TimesStatus,
}

/// Latencies as a distribution, with a resolution of 1/32 and of a microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimesStatus {
    /// How many there are.
    pub count: u64,
    /// The median, in microseconds; 0 if there are none.
    #[serde(with = "wire::micros")]
    #[schemars(with = "u64")]
    pub p50_us: Duration,
    /// The 99th percentile, in microseconds; 0 if there are none.
    #[serde(with = "wire::micros")]
    #[schemars(with = "u64")]
    pub p99_us: Duration,
    /// The maximum, in microseconds; 0 if there are none.
    #[serde(with = "wire::micros")]
    #[schemars(with = "u64")]
    pub most_us: Duration,
}

/// How far the peer is behind the acknowledged writes of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LagStatus {
    /// Bytes not yet complete at the peer, at most: dirty regions count whole. On a secondary, as its primary reported last.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// Age of the oldest of them: what a disaster now would cost, in time.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub seconds: Duration,
    /// Writes that are acknowledged and not yet complete on the peer.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub writes: Items,
}

/// Contiguous prefixes of the group's line, as sequence numbers of the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorStatus {
    /// Taken onto the line here.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub accepted: Sequence,
    /// Written here.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub completed: Sequence,
    /// Flushed here.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub durable: Sequence,
    /// Given to the peer's socket.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub peer_sent: Sequence,
    /// In the peer's memory.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub peer_received: Sequence,
    /// Written at the peer.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub peer_completed: Sequence,
    /// Flushed at the peer.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub peer_durable: Sequence,
}

/// A running resync of dirty regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncStatus {
    /// Bytes that are still dirty.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub dirty_bytes: Bytes,
    /// Bytes to walk in all, as of the beginning.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub to_copy_bytes: Bytes,
    /// Bytes walked so far, shipped or found equal.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub copied_bytes: Bytes,
    /// How fast the walk goes.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub rate_bytes_per_second: Rate,
    /// Expected end at this rate; absent while the rate is unknown.
    #[serde(default, with = "wire::seconds_or_null")]
    #[schemars(with = "Option<f64>")]
    pub eta_seconds: Option<Duration>,
    /// Bytes that had to be sent for what was walked.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub shipped_bytes: Bytes,
    /// The remaining amount decreases. If not, clients write faster than it can be sent.
    #[serde(default = "yes")]
    pub converges: bool,
    /// Regions are compared by digests before they are sent; otherwise most differs, and they are sent whole.
    #[serde(default)]
    pub by_digests: bool,
}

/// A daemon that does not tell has nothing to warn of.
fn yes() -> bool {
    true
}

/// What was done to the group's metadata file since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetadataStatus {
    /// Writes given to the disk.
    pub writes: u64,
    /// Flushes given to the disk.
    pub flushes: u64,
}

/// What was done since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterStatus {
    /// Writes accepted.
    pub writes: u64,
    /// Reads served.
    pub reads: u64,
    /// Flushes accepted.
    pub flushes: u64,
    /// Discards accepted.
    pub discards: u64,
    /// Write-zeroes accepted.
    pub zeroes: u64,
    /// Payload of the writes.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub write_bytes: Bytes,
    /// Payload of the reads.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub read_bytes: Bytes,
    /// Bytes for the peer, frames and all; what the seal of keys adds is not counted.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub sent_bytes: Bytes,
    /// Bytes from the peer, counted alike.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub received_bytes: Bytes,
    /// Client requests that ended, successful or not.
    pub answered: u64,
    /// Of these, writes, zeroes, discards and flushes on a primary.
    #[serde(default)]
    pub timed: u64,
    /// Sum of their latencies.
    #[serde(default, with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub timed_seconds: Duration,
}
