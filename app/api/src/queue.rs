// SPDX-License-Identifier: Apache-2.0
//! The queue of one group: what is shown of it alone, and how it is changed while it runs.

use crate::flow::{LagStatus, QueueStatus, ThrottleStatus};
use crate::wire;
use helio_units::{Bytes, Items, Role, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The limit of the queue in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The larger of a default and four measured bandwidth-delay products.
    Auto,
    /// Fixed, in bytes; at least one sector of 512.
    Bytes(
        #[serde(with = "wire::number")]
        #[schemars(with = "u64")]
        Bytes,
    ),
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

/// Policy when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// It waits.
    Block,
    /// The queue is dropped and only dirty regions are recorded.
    Log,
    /// It fails.
    Fail,
}

impl WhenFull {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Block, Self::Log, Self::Fail];

    /// The word in the file, in status and on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Log => "log",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The queue's settings as they run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueSettings {
    /// The limit in bytes.
    pub memory: Memory,
    /// The limit in items.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub items: Items,
    /// Policy when the queue is full while the peer is connected.
    pub when_full_connected: WhenFull,
    /// The same while the peer is not connected.
    pub when_full_disconnected: WhenFull,
}

impl fmt::Display for QueueSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, items, when_full_connected, when_full_disconnected } = self;
        write!(
            f,
            "{memory} and {items} items, {when_full_connected}/{when_full_disconnected} when full"
        )
    }
}

/// The queue of one group, at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueReply {
    /// The group's name.
    pub group: String,
    /// The instant, by this node's calendar clock, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// This node's role; only a primary has a queue.
    #[schemars(with = "wire::RoleWord")]
    pub role: Role,
    /// What runs now.
    pub settings: QueueSettings,
    /// The value in the configuration file, if it differs: the next apply, or start, restores it.
    #[serde(default)]
    pub file_settings: Option<QueueSettings>,
    /// The queue itself; none on a secondary.
    #[serde(default)]
    pub queue: Option<QueueStatus>,
    /// What happened to writes because the queue was full.
    pub throttle: ThrottleStatus,
    /// How far the peer is behind.
    pub lag: LagStatus,
}

/// Change the queue online. Omitted settings stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueRequest {
    /// The limit in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The limit in items; at least one.
    #[serde(default, with = "wire::number_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>")]
    pub items: Option<Items>,
    /// Policy when the queue is full while the peer is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_full_connected: Option<WhenFull>,
    /// The same while the peer is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_full_disconnected: Option<WhenFull>,
}
