// SPDX-License-Identifier: Apache-2.0
//! Data that was saved before it was discarded or overwritten.

use crate::wire;
use helio_units::{Bytes, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The saved data in the state directory of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedList {
    /// The node.
    pub node: String,
    /// Bytes that all of it takes on disk.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub used_bytes: Bytes,
    /// The limit of these bytes, `saved-limit` in the configuration file.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub limit_bytes: Bytes,
    /// The oldest first.
    pub saved: Vec<SavedCopy>,
}

/// What was saved of a group at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedCopy {
    /// Its name, by which it is deleted.
    pub name: String,
    /// The group.
    pub group: String,
    /// When it was saved, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// Why it was saved.
    pub why: String,
    /// All of it was saved. If not, the command that saved it was interrupted and discarded nothing.
    pub complete: bool,
    /// Its volumes.
    pub volumes: Vec<SavedVolume>,
}

/// What was saved of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedVolume {
    /// The volume.
    pub volume: String,
    /// Bytes that it takes on disk.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// The sparse file with the data.
    pub path: String,
}

/// Delete saved data, which exists nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavedDeleteRequest {
    /// Its name; or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All saved data of the node.
    #[serde(default)]
    pub all: bool,
    /// The loss was shown and confirmed. Without it nothing is deleted, and the error shows what is at stake.
    #[serde(default)]
    pub confirmed: bool,
}
