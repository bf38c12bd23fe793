// SPDX-License-Identifier: Apache-2.0
//! NBD clients of a node.

use crate::wire;
use helio_units::{Bytes, Items, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The NBD clients of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientList {
    /// The node.
    pub node: String,
    /// Connections that have chosen an export, in no order.
    pub clients: Vec<NbdClient>,
    /// Connections that have not.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub guests: Items,
}

/// A connection that has chosen an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NbdClient {
    /// The number of the connection on this node since its daemon started, by which it is closed.
    pub number: u32,
    /// The group.
    pub group: String,
    /// The volume.
    pub volume: String,
    /// The export, for example `db/data`, `db/data:ro` or `db/data@daily`.
    pub export: String,
    /// Its address, of a TCP connection.
    #[serde(default)]
    pub address: Option<String>,
    /// The process that made the connection over the Unix socket, if this node's daemon can see it.
    #[serde(default)]
    pub process: Option<u32>,
    /// What the process of that number is called now; null if there is none. If the client has ended, another process may have its number.
    #[serde(default)]
    pub program: Option<String>,
    /// It is the connection of a volume that this node attached; `helio detach` ends it.
    pub attached: bool,
    /// It cannot write.
    pub read_only: bool,
    /// When it connected, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub connected_ms: WallTime,
    /// Requests in progress.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub requests: Items,
    /// Memory for its requests, and for replies that it has not taken.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub held_bytes: Bytes,
    /// It is being disconnected: it gets the replies to its requests in progress first.
    pub closing: bool,
}

/// Disconnect clients: one by its number, or all of a group, or of one volume of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCloseRequest {
    /// Number of the connection; or `group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The volume of `group`; without it, all volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}
