// SPDX-License-Identifier: Apache-2.0
//! Snapshots: what the volumes of a group held at one moment.

use crate::wire;
use helio_units::{Bytes, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Create a snapshot of a group, or delete one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRequest {
    /// Name of the snapshot: up to 63 letters, digits, `-`, `_`, `.` and `:`, beginning with a letter or a digit.
    pub name: String,
    /// On this node alone: a secondary creates it without its primary.
    #[serde(default)]
    pub here: bool,
    /// For create: replace the snapshot of this name, which must exist.
    #[serde(default)]
    pub refresh: bool,
}

/// Restore the volumes of a group from a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRestoreRequest {
    /// Name of the snapshot.
    pub name: String,
}

/// Volumes that were restored from a snapshot, of which a part is still to be written. Reads and writes wait for what they need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoringStatus {
    /// Name of the snapshot.
    pub snapshot: String,
    /// Bytes that are still to be written.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub left_bytes: Bytes,
    /// Why it cannot continue until the daemon is restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The snapshots of a group on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotList {
    /// The node.
    pub node: String,
    /// The group.
    pub group: String,
    /// Bytes of all volumes of the group.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub volume_bytes: Bytes,
    /// Bytes of before-images, which all snapshots and the safe copy share.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub preserved_bytes: Bytes,
    /// The oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Snapshots that this node does not have although it should, the oldest first; the daemon forgets them at its end.
    pub missing: Vec<MissingSnapshot>,
}

/// One snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// It is the safe copy of a resync, which ends with the resync.
    #[serde(default)]
    pub safe_copy: bool,
    /// When it was created on this node, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// Snapshots of a group with the same identity hold the same, whatever their names, on either node.
    pub identity: String,
    /// The generation of its data.
    pub generation: String,
    /// The last item in it. Snapshots of both nodes with the same name, generation and position hold the same.
    pub position: u64,
    /// The copy of this node was consistent.
    pub consistent: bool,
    /// Bytes of the volumes that may have changed since, in chunks of 64 KiB.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub changed_bytes: Bytes,
    /// Bytes of before-images that were preserved while this was the newest snapshot; older snapshots use them, too.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub preserved_bytes: Bytes,
    /// Bytes of chunks of 64 KiB that clients of this node wrote to; the snapshot itself does not change.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub written_bytes: Bytes,
}

/// A snapshot that a node does not have although it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingSnapshot {
    /// Its name.
    pub name: String,
    /// Since when, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// Why.
    pub reason: String,
}
