// SPDX-License-Identifier: Apache-2.0
//! The moving parts of a group's status: queue, throttle, lag, cursors, a running sync, counters.

use crate::wire;
use helio_units::{Bytes, Items, Rate, Sequence, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The queue in memory.
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
    /// High-water mark in bytes since `high_water_since_ms`.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes_high_water: Bytes,
    /// When it was, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes_high_water_at_ms: WallTime,
    /// High-water mark in items since `high_water_since_ms`.
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
    /// Maximum bytes.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bound_bytes: Bytes,
    /// Maximum items.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bound_items: Items,
    /// Origin of the limit: `file`, `operator`, `preset sndr`, `4 x measured bandwidth-delay product`, `default`.
    pub bound_source: String,
    /// Why it has this size, as text; for an automatic limit, how it was chosen.
    pub bound_reason: String,
    /// Policy when the queue is full while the peer is connected: `block`, `log` or `fail`.
    pub when_full_connected: String,
    /// The same while the peer is not connected.
    pub when_full_disconnected: String,
}

/// Writes that wait because the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThrottleStatus {
    /// Writes waiting now.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub waiting: Items,
    /// Writes that waited, including those that wait now. This and the following counters count since
    /// `high_water_since_ms` of the queue.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub count: Items,
    /// Total time that they waited.
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
    /// Maximum bytes that are not complete on the peer; dirty regions count completely. On a secondary, from the last
    /// report of its primary.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// Age of the oldest of them: the time that a loss of this node would cost.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub seconds: Duration,
    /// Writes that are acknowledged and not yet complete on the peer.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub writes: Items,
}

/// Positions in the write order of the group, as sequence numbers of the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorStatus {
    /// Accepted into the write order on this node.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub accepted: Sequence,
    /// Complete on this node.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub completed: Sequence,
    /// Durable on this node.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub durable: Sequence,
    /// Sent to the socket of the peer.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub peer_sent: Sequence,
    /// Received in the memory of the peer.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub peer_received: Sequence,
    /// Complete on the peer.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub peer_completed: Sequence,
    /// Durable on the peer.
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
    /// Total bytes to process, at the start.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub to_copy_bytes: Bytes,
    /// Bytes processed so far, sent or equal.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub copied_bytes: Bytes,
    /// Its rate.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub rate_bytes_per_second: Rate,
    /// Expected end at this rate; absent while the rate is unknown.
    #[serde(default, with = "wire::seconds_or_null")]
    #[schemars(with = "Option<f64>")]
    pub eta_seconds: Option<Duration>,
    /// Bytes that were sent for the processed part.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub shipped_bytes: Bytes,
    /// The remaining amount decreases. If not, clients write faster than it can be sent.
    #[serde(default = "yes")]
    pub converges: bool,
    /// Regions are compared by digests before they are sent; otherwise, if most of them differ, they are sent
    /// completely.
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

/// What was done to the group's before-image file since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeImageStatus {
    /// Reads given to the disk.
    pub reads: u64,
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
    /// Bytes sent to the peer, including frames, without the overhead of TLS.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub sent_bytes: Bytes,
    /// Bytes received from the peer, counted in the same way.
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
