// SPDX-License-Identifier: Apache-2.0
//! The local members of a volume that has several: how each is, and how they change.

use crate::wire;
use helio_units::{Bytes, Items};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU16;

/// Add a local member to a volume, or return one that was removed. The configuration file must name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAddRequest {
    /// Name of the volume.
    pub volume: String,
    /// Absolute path of the file or device. The daemon overwrites its data where it differs.
    pub path: String,
    /// Fail if the metadata has no bitmap of the member. Without this option helio then compares or copies all of it.
    #[serde(default)]
    pub require_minicopy: bool,
}

/// Remove a local member of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberRemoveRequest {
    /// Name of the volume.
    pub volume: String,
    /// Absolute path of the member.
    pub path: String,
    /// Remove the member even if its disk does not complete its operations.
    #[serde(default)]
    pub force: bool,
    /// Refuse if the member is not a complete and consistent copy; flush and close it before the response.
    #[serde(default)]
    pub for_backup: bool,
}

/// Compare the full local members of a volume, and make them equal where they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberMergeRequest {
    /// Name of the volume.
    pub volume: String,
}

/// Read cost of a member: it counts like this many operations in progress on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadCost {
    /// The measured latency of the member, in units of the latency of the fastest member of the volume.
    Auto,
    /// Fixed; 1 to 65535.
    Cost(NonZeroU16),
}

impl fmt::Display for ReadCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cost(cost) => cost.fmt(f),
        }
    }
}

/// Change settings of a local member online.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberSetRequest {
    /// Name of the volume.
    pub volume: String,
    /// Absolute path of the member.
    pub path: String,
    /// Read cost of the member.
    pub read_cost: ReadCost,
}

/// Source of the read cost of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadCostSource {
    /// The latency of the member was measured when the daemon opened it.
    Measured,
    /// The configuration file or a command set it.
    Set,
    /// The latency is not measured yet; the cost is 1.
    Unmeasured,
}

impl fmt::Display for ReadCostSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Set => "set",
            Self::Unmeasured => "unmeasured",
        })
    }
}

/// What the copy or merge of the members of a volume waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopyWait {
    /// The node copies or merges as many other volumes as `copies-at-once` permits.
    Others,
    /// `copies-at-once` of the node is 0.
    Limit,
    /// `copy-priority` of the volume is 0.
    Priority,
}

impl fmt::Display for CopyWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Others => "waits for another copy",
            Self::Limit => "waits: `copies-at-once` of the node is 0",
            Self::Priority => "waits: `copy-priority` is 0",
        })
    }
}

/// State of a local member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetMemberState {
    /// The member holds all of the volume. The daemon reads and writes it.
    Full,
    /// The daemon writes the member, and copies its dirty regions from a full member.
    Copying,
    /// The daemon does not use the member.
    Removed,
}

impl fmt::Display for SetMemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Copying => "copying",
            Self::Removed => "removed",
        })
    }
}

/// One of several local members of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetMemberStatus {
    /// Number of the member, from 0; constant while the metadata records the member.
    pub number: u8,
    /// Its path.
    pub path: String,
    /// Its state.
    pub state: SetMemberState,
    /// Bytes still to be copied to the member; null unless it is copying.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub left_bytes: Option<Bytes>,
    /// Share of the volume that is copied, 0 to 99 percent; null unless the member is copying.
    #[serde(default)]
    pub percent: Option<u8>,
    /// Dirty bytes, which a minicopy would copy; null unless the member is removed and has a bitmap.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub dirty_bytes: Option<Bytes>,
    /// Read cost of the member; null if the member is closed. Reads go to the full member for which this and the number of
    /// operations in progress come to the least.
    #[serde(default)]
    pub read_cost: Option<u16>,
    /// Source of the read cost; null if the member is closed.
    #[serde(default)]
    pub read_cost_source: Option<ReadCostSource>,
    /// Completed reads of this member.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub reads: Items,
    /// Whether a command removed the member, so that only a command returns it.
    #[serde(default)]
    pub withdrawn: bool,
    /// Failed reads of this member that were repaired from another member.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub repaired: Items,
    /// Operations in progress on the member.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub operations: Items,
    /// Whether the daemon has the member open.
    pub open: bool,
    /// Reason why the member is closed; null if it is open.
    #[serde(default)]
    pub why: Option<String>,
}
