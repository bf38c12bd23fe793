// SPDX-License-Identifier: Apache-2.0
//! How two nodes stand to each other, and what is asked to change it.

use crate::wire;
use helio_units::{Role, State, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The last recovery decision, and what it means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The group.
    pub group: String,
    /// The node that responded.
    pub node: String,
    /// The other one; null if the group has only one.
    #[serde(default)]
    pub peer: Option<String>,
    /// The role of this node now.
    #[schemars(with = "wire::RoleWord")]
    pub role: Role,
    /// The group's state now, as the node sees it.
    #[schemars(with = "wire::StateWord")]
    pub state: State,
    /// The reason.
    pub reason: String,
    /// The time on the node, in milliseconds since 1970-01-01 UTC.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// The last recovery decision; absent if the nodes have not connected since the daemon started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<Row>,
    /// What changed since the decision, if it no longer holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// The row of the recovery table, the same on both nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Its label; docs/reference/recovery.md has them all.
    pub label: String,
    /// Time of the connection by this node's clock, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// The node that would be primary.
    pub source: String,
    /// The node that would be secondary.
    pub target: String,
    /// The facts that both nodes reported, and those derived from them: one sentence each.
    pub facts: Vec<String>,
    /// What the row means.
    pub meaning: String,
    /// What happens next by itself.
    pub next: String,
    /// What an operator can do, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Discard the writes that exist only on one node, so that it can be secondary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// The node whose writes are discarded: the one that gets this request.
    pub discard: String,
    /// What would be lost was shown and confirmed. Without it nothing is changed, and the error shows what is at stake.
    #[serde(default)]
    pub confirmed: bool,
    /// Directory on the host of the node in which the regions are saved; default: its state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<String>,
    /// The node again, to give up its copy although it may be the last complete one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_copy: Option<String>,
}

/// Replace the copy of this primary by the consistent copy of the secondary in the dirty regions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReverseRequest {
    /// All data, not only the dirty regions.
    #[serde(default)]
    pub full: bool,
    /// What would be discarded was shown and confirmed. Without it nothing is changed, and the error shows what is at
    /// stake.
    #[serde(default)]
    pub confirmed: bool,
    /// Directory on the host of the node in which the regions are saved; default: its state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<String>,
    /// The node that gets this request, to give up its copy although it may be the last complete one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_copy: Option<String>,
}

/// Replace the failed disk of a volume by the one in the configuration file of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberReplaceRequest {
    /// Which volume's.
    pub volume: String,
    /// All data on the disk may be overwritten. Without it nothing is changed, and the error names the disk.
    #[serde(default)]
    pub confirmed: bool,
}

/// Accept the copy of a volume as it is although a flush of it failed: acknowledged writes may be missing from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAcceptRequest {
    /// Which volume's.
    pub volume: String,
    /// What may be lost was shown and confirmed. Without it nothing is changed, and the error shows what is at stake.
    #[serde(default)]
    pub confirmed: bool,
}
