// SPDX-License-Identifier: Apache-2.0
//! Failover drills: what `helio drill` reports when one ends, and what a node shows of the last ones.

use crate::wire;
use helio_units::WallTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Record how a drill ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillRequest {
    /// From the start of the drill until its snapshot was deleted.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub duration_seconds: Duration,
    /// Why the drill failed; null if it succeeded.
    #[serde(default)]
    pub failure: Option<String>,
    /// The exit status of the command; null if there was none, or it did not end by itself.
    #[serde(default)]
    pub exit_status: Option<i32>,
    /// The generation of the data in the snapshot.
    #[serde(default)]
    pub generation: Option<String>,
    /// The last item in the snapshot.
    #[serde(default)]
    pub position: Option<u64>,
}

/// A drill that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrillResult {
    /// When it ended, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// From the start of the drill until its snapshot was deleted.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub duration_seconds: Duration,
    /// Why the drill failed; null if it succeeded.
    pub failure: Option<String>,
    /// The exit status of the command; null if there was none, or it did not end by itself.
    pub exit_status: Option<i32>,
    /// The generation of the data in the snapshot.
    pub generation: Option<String>,
    /// The last item in the snapshot.
    pub position: Option<u64>,
}

impl DrillResult {
    /// The one that was reported at that time.
    #[must_use]
    pub fn of(at_ms: WallTime, report: DrillRequest) -> Self {
        let DrillRequest { duration_seconds, failure, exit_status, generation, position } = report;
        Self { at_ms, duration_seconds, failure, exit_status, generation, position }
    }
}

/// The drills of a group that ended last on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrillStatus {
    /// The last one.
    pub last: DrillResult,
    /// The last one that succeeded, if one did.
    pub last_success: Option<DrillResult>,
}

impl DrillStatus {
    /// What is shown after one more drill.
    #[must_use]
    pub fn after(before: Option<Self>, drill: DrillResult) -> Self {
        let last_success = match drill.failure {
            None => Some(drill.clone()),
            Some(_) => before.and_then(|before| before.last_success),
        };
        Self { last: drill, last_success }
    }
}
