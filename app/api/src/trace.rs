// SPDX-License-Identifier: Apache-2.0
//! Recording what applications ask of a group's volumes.

use crate::wire;
use helio_units::{Bytes, Items, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Record the requests of a group from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// Absolute path of the new file; default: a file in the state directory of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Maximum size of the file; default 1 GiB.
    #[serde(default, with = "wire::number_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>")]
    pub limit_bytes: Option<Bytes>,
    /// For how long; without it, until it is stopped or the limit is reached.
    #[serde(default, with = "wire::seconds_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub for_seconds: Option<Duration>,
}

/// A trace: the running one, or the last one that ended since the daemon started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStatus {
    /// The file on the daemon's machine.
    pub file: String,
    /// Since when, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// Requests recorded.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub requests: Items,
    /// Requests that were not recorded because the disk was too slow.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub dropped: Items,
    /// Bytes of the file; while it runs, what is recorded last is not in it yet.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// Its limit in bytes.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub limit_bytes: Bytes,
    /// When it ends by itself, in milliseconds since 1970-01-01 UTC.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub until_ms: Option<WallTime>,
    /// Why it ended; none while it runs.
    #[serde(default)]
    pub ended: Option<String>,
}
