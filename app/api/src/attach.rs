// SPDX-License-Identifier: Apache-2.0
//! Volumes as devices of the node's own machine.

use crate::wire;
use helio_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The interface of an attached volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// `ublk` if the host supports it, otherwise `fuse`.
    #[default]
    Auto,
    /// ublk devices of the kernel. Processes that use such a device wait while no daemon runs.
    Ublk,
    /// A file in a FUSE mount, and a loop device on it if that is permitted.
    Fuse,
    /// The kernel's NBD client. Processes that use such a device wait while no daemon runs.
    Nbd,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Ublk => "ublk",
            Self::Fuse => "fuse",
            Self::Nbd => "nbd",
        })
    }
}

/// Attach a volume as a block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// Which volume of the group.
    pub volume: String,
    /// Read-only; on a secondary, the copy as it is.
    #[serde(default)]
    pub read_only: bool,
    /// How.
    #[serde(default)]
    pub via: Via,
}

/// Detach a volume's block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DetachRequest {
    /// Which volume of the group.
    pub volume: String,
    /// Also if it is in use; processes that use it get I/O errors.
    #[serde(default)]
    pub force: bool,
}

/// The state of an attached volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttachState {
    /// The device works.
    Attached,
    /// It will be attached when that is possible; `reason` gives the obstacle.
    Waiting,
}

/// A volume that is attached, or will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// The group.
    pub group: String,
    /// The volume.
    pub volume: String,
    /// Whether it works.
    pub state: AttachState,
    /// Why it is not attached; or, if it is, why there is no block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How it is attached.
    pub via: Via,
    /// Read-only.
    pub read_only: bool,
    /// The path to use: the stable name of the block device, or the file if there is no block device.
    pub path: String,
    /// The block device behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The file below the block device, if there is one; it can be used directly while the device is not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The device's size, once it was attached.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub size_bytes: Option<Bytes>,
    /// The device's block size, once it was attached.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub block_bytes: Option<Bytes>,
    /// Its users, as far as the daemon can see them.
    #[serde(default)]
    pub used_by: Vec<String>,
}

/// Every volume that is attached on the node, or will be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachments {
    /// Them.
    pub attachments: Vec<Attachment>,
}
