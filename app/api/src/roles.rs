// SPDX-License-Identifier: Apache-2.0
//! How two nodes stand to each other, and what is asked to change it.

use crate::wire;
use helio_units::{Role, State, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The row of the recovery table that fired last, and what it means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The group.
    pub group: String,
    /// The node that was asked.
    pub node: String,
    /// The other one.
    pub peer: String,
    /// What the node is to the group now.
    #[schemars(with = "wire::RoleWord")]
    pub role: Role,
    /// The group's state now, as the node sees it.
    #[schemars(with = "wire::StateWord")]
    pub state: State,
    /// Why it is so.
    pub reason: String,
    /// The time on the node, in milliseconds since 1970-01-01 UTC.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// The last decision; none if the nodes have not connected since the node's daemon started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<Row>,
    /// What changed since the decision, if it no longer holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// A row that fired, on both nodes the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Its label; docs/reference/recovery.md has them all.
    pub label: String,
    /// When the two connected and decided, by this node's calendar clock, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// The node that would send.
    pub source: String,
    /// The node that would follow.
    pub target: String,
    /// What both nodes said of themselves, and what follows from the two: a sentence each.
    pub facts: Vec<String>,
    /// What the row means.
    pub meaning: String,
    /// What comes next by itself.
    pub next: String,
    /// What an operator does about it, where anything is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Give up what one node alone holds, so that it may follow the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// The node whose side is given up: the one that is asked.
    pub discard: String,
    /// What would be lost was shown and accepted. Without it nothing is changed, and the refusal carries what is at
    /// stake.
    #[serde(default)]
    pub confirmed: bool,
    /// The folder of the node's machine below which the regions are saved; its state directory where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<String>,
}

/// Take the other node's consistent copy over this primary's own, where the two may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReverseRequest {
    /// Everywhere, whatever is marked.
    #[serde(default)]
    pub full: bool,
    /// What would be thrown away was shown and accepted. Without it nothing is changed, and the refusal carries what is
    /// at stake.
    #[serde(default)]
    pub confirmed: bool,
    /// The folder of the node's machine below which the regions are saved; its state directory where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<String>,
}

/// Take the disk that the node's configuration file names for a volume now, in the place of the one that was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberReplaceRequest {
    /// Which volume's.
    pub volume: String,
    /// Whatever lies on the disk may be overwritten. Without it nothing is changed, and the refusal names the disk.
    #[serde(default)]
    pub confirmed: bool,
}

/// Accept the copy of a volume as it is although a flush of it failed: acknowledged writes may be missing from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAcceptRequest {
    /// Which volume's.
    pub volume: String,
    /// What may be lost was shown and accepted. Without it nothing is changed, and the refusal carries what is at stake.
    #[serde(default)]
    pub confirmed: bool,
}
