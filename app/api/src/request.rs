// SPDX-License-Identifier: Apache-2.0
//! What is asked of a daemon, and its shorter replies.

use crate::wire;
use helio_units::{Mode, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Change when writes are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeRequest {
    /// The mode wanted.
    #[schemars(with = "wire::ModeWord")]
    pub mode: Mode,
}

/// Make this node primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromoteRequest {
    /// Go on although the other node may hold writes that are not here.
    pub force: bool,
    /// What is at stake was shown and accepted. Without it a forced promotion is answered with
    /// [`AtStake`](crate::AtStake) and changes nothing.
    pub confirmed: bool,
    /// Where the copy here is not consistent, go back to the consistent image that is kept.
    #[serde(default)]
    pub restore: bool,
    /// Where the other node cannot agree, run the group's fence hook, and go on where that proves it to be out.
    #[serde(default)]
    pub fence: bool,
}

/// Copy dirty regions to the peer, then replicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResyncRequest {
    /// Compare all data, whatever the bitmap of dirty regions says.
    pub full: bool,
    /// The other node need not keep its last consistent image meanwhile.
    pub give_up_safe_copy: bool,
}

/// Read the configuration file again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Only say what would change.
    pub dry_run: bool,
}

/// What of the stream of events is wanted; travels in the URL's query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsRequest {
    /// Only this group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Go on behind the event of that number. Where it is not remembered any more, the stream begins with what is
    /// there, as it does without this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// End once everything that is there was told.
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

/// The wish was taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// What was done or has begun.
    pub message: String,
    /// What the operator should know all the same.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The flight recorder of one group, oldest event first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecorderDump {
    /// The events still held; the recorder is bounded.
    pub events: Vec<RecorderEvent>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecorderEvent {
    /// When, by this node's calendar clock, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// What, in a line for people.
    pub what: String,
}

/// Change roles with the other node. The body may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchRequest {
    /// Although this node has a volume of the group attached: who uses it has errors from then on.
    #[serde(default)]
    pub force: bool,
}

/// Give the stores of a group back, as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The volume that is meant, where the group must have no other; without it, the whole group.
    #[serde(default)]
    pub volume: Option<String>,
    /// What the group keeps of itself is not removed, but kept under another name.
    #[serde(default)]
    pub keep_metadata: bool,
    /// Although the copy here is not consistent.
    #[serde(default)]
    pub force: bool,
}
