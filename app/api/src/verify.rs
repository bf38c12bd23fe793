// SPDX-License-Identifier: Apache-2.0
//! Verifying: what is asked for, and what is told of it.

use crate::wire;
use helio_units::{Bytes, Items, Rate, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Compare the two copies of a group while it is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// Only this volume.
    #[serde(default)]
    pub volume: Option<String>,
    /// Copy differences from the primary to the peer, in order with new writes.
    #[serde(default)]
    pub repair: bool,
    /// Maximum bytes compared per second.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub rate_bytes_per_second: Option<Rate>,
    /// From the start, not from the position of the last verify.
    #[serde(default)]
    pub restart: bool,
}

/// The state of verifies, on a primary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyStatus {
    /// The running one.
    #[serde(default)]
    pub run: Option<VerifyRun>,
    /// Places that differed and were not repaired.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub differing: Items,
    /// Bytes in them, as far as they are recorded individually.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub differing_bytes: Bytes,
    /// The first of them, for people.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Why the last verify ended before its end.
    #[serde(default)]
    pub stopped: Option<String>,
}

/// A running verify.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRun {
    /// The current volume.
    pub volume: String,
    /// What differs is copied.
    pub repair: bool,
    /// Bytes compared.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub compared_bytes: Bytes,
    /// Bytes to compare at its start.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub total_bytes: Bytes,
    /// For how long it runs.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub running_seconds: Duration,
    /// Maximum bytes compared per second.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub rate_bytes_per_second: Option<Rate>,
    /// What it waits for.
    #[serde(default)]
    pub waits: Option<String>,
}

/// A volume was compared with the peer's copy from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// When that ended, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// Bytes in blocks that differed.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub differed_bytes: Bytes,
    /// They were copied.
    pub repaired: bool,
}
