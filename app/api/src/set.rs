// SPDX-License-Identifier: Apache-2.0
//! The local members of a volume that has several: how each is, and how they change.

use crate::wire;
use helio_units::{Bytes, Items};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Add a local member to a volume, or return one that was removed. The configuration file must name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAddRequest {
    /// Which volume's.
    pub volume: String,
    /// Absolute path of the file or device. What is on it is overwritten where it differs.
    pub path: String,
    /// Refuse if no bitmap says what the member lacks: then all of the volume would be compared.
    #[serde(default)]
    pub require_minicopy: bool,
}

/// Remove a local member of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberRemoveRequest {
    /// Which volume's.
    pub volume: String,
    /// Absolute path of the member.
    pub path: String,
    /// Also if its disk does not complete its operations.
    #[serde(default)]
    pub force: bool,
    /// It must be a complete copy of the volume, and durable when the daemon responds.
    #[serde(default)]
    pub for_backup: bool,
}

/// Compare the full local members of a volume, and make them equal where they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberMergeRequest {
    /// Which volume's.
    pub volume: String,
}

/// What a member of several does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetMemberState {
    /// It holds all of the volume, and is read and written.
    Full,
    /// It is written, and gets what it lacks from a full member.
    Copying,
    /// It is not used.
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
    /// Its number, from 0; it does not change while the metadata records the member.
    pub number: u8,
    /// Its path.
    pub path: String,
    /// What it does.
    pub state: SetMemberState,
    /// Bytes that it still gets; present while it is copying.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub left_bytes: Option<Bytes>,
    /// Share of the volume that it holds, 0 to 99; present while it is copying.
    #[serde(default)]
    pub percent: Option<u8>,
    /// Bytes that a minicopy would copy; present if it is removed and a bitmap says what it lacks.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub lacks_bytes: Option<Bytes>,
    /// Reads of it that failed, and that another member repaired.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub repaired: Items,
    /// Operations in progress on it.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub operations: Items,
    /// Whether the daemon has it open.
    pub open: bool,
    /// Why it is closed.
    #[serde(default)]
    pub why: Option<String>,
}
