// SPDX-License-Identifier: Apache-2.0
//! What is asked of a daemon, and its shorter replies.

use crate::wire;
use helio_units::{Mode, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Change when writes are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeRequest {
    /// The requested mode.
    #[schemars(with = "wire::ModeWord")]
    pub mode: Mode,
}

/// Make this node primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromoteRequest {
    /// Continue although the other node may have writes that this node does not have.
    pub force: bool,
    /// What is at stake was shown and confirmed. Without it a forced promotion returns [`AtStake`](crate::AtStake) and
    /// changes nothing.
    pub confirmed: bool,
    /// If the copy of this node is inconsistent, restore the safe copy.
    #[serde(default)]
    pub restore: bool,
    /// If the other node does not agree, run the fence hook of the group, and continue if the hook confirms that the
    /// node is fenced.
    #[serde(default)]
    pub fence: bool,
}

/// Copy dirty regions to the peer, then replicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResyncRequest {
    /// Compare all data, and ignore the bitmap of dirty regions.
    pub full: bool,
    /// The other node does not have to preserve its last consistent copy during the resync.
    pub give_up_safe_copy: bool,
}

/// Read the configuration file again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Only show what would change.
    pub dry_run: bool,
}

/// What of the stream of events is wanted; travels in the URL's query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsRequest {
    /// Only this group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Continue after the event with this number. If the daemon no longer has it, the stream starts with the existing
    /// objects, as without this parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// End after the existing objects.
    #[serde(default)]
    pub now: bool,
}

/// What [`ApplyRequest`] changed, or would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyReply {
    /// One line per setting that changes without a restart.
    pub changes: Vec<String>,
    /// One line per difference that waits for the daemon's next start.
    pub restart_needed: Vec<String>,
}

/// The request was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// What was done or started.
    pub message: String,
    /// A warning for the operator.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The recorded events of one group, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecorderDump {
    /// The recorded events; their number is limited.
    pub events: Vec<RecorderEvent>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecorderEvent {
    /// When, by this node's calendar clock, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// The event, as text.
    pub what: String,
}

/// Exchange the roles of both nodes. The body may be omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchRequest {
    /// Also if this node has a volume of the group attached: processes that use it get I/O errors.
    #[serde(default)]
    pub force: bool,
}

/// Remove a group from this node and keep its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The volume, if the group has only one; without it, the whole group.
    #[serde(default)]
    pub volume: Option<String>,
    /// The metadata of the group is not removed, but kept under another name.
    #[serde(default)]
    pub keep_metadata: bool,
    /// Also if the copy of this node is inconsistent.
    #[serde(default)]
    pub force: bool,
}
