// SPDX-License-Identifier: Apache-2.0
//! What the page gets, and what it sends.

use helio_api::{ApiError, Attachment, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is shown at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// Time between two views, in milliseconds.
    pub interval_ms: u64,
    /// The nodes, in the order in which they were named.
    pub nodes: Vec<NodeView>,
    /// The controls of a simulated pair; null for daemons that are real.
    pub simulation: Option<serde_json::Value>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// What it is called until its status has arrived.
    pub label: String,
    /// Its last status.
    pub status: Option<Status>,
    /// Why there is no newer one.
    pub error: Option<ApiError>,
    /// Age of the status, in milliseconds.
    pub age_ms: u64,
    /// More about each group, by its name.
    pub groups: BTreeMap<String, GroupView>,
}

/// What is shown of a group beside its status.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupView {
    /// The actions.
    pub offers: Vec<Offer>,
    /// The choices of which an operator selects one.
    pub choices: Vec<Choice>,
    /// What is to be expected; null on a secondary.
    pub forecast: Option<Forecast>,
    /// The snapshots on this node, the oldest first.
    pub snapshots: Vec<SnapshotView>,
    /// Its volumes that are attached on this node, or will be.
    pub attachments: Vec<Attachment>,
}

/// An action: a command of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// Its name in [`Act`].
    pub action: String,
    /// Text of its button.
    pub label: String,
    /// The command that does the same.
    pub command: String,
    /// What it does.
    pub effect: String,
    /// What is at stake, as far as it is known before the daemon is asked.
    pub stake: String,
    /// A text that it needs.
    pub input: Option<Input>,
    /// The status recommends it as the next step on this node.
    pub advised: bool,
    /// It is shown with the others that are used most.
    pub common: bool,
    /// It makes this node primary, without force.
    pub takes_over: bool,
    /// It is shown as a step of a [`Choice`] alone.
    pub only_step: bool,
}

/// A choice: the writes of one node are kept, those of the other are discarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The node whose writes are kept.
    pub keeps: String,
    /// The node whose writes are discarded.
    pub discards: String,
    /// What is left to do, in this order.
    pub steps: Vec<Step>,
    /// The page shows it. If false, only a page on which one of its steps was done shows it.
    pub advised: bool,
}

/// An action as a step of a [`Choice`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The node.
    pub node: String,
    /// [`Offer::action`], which is a command.
    pub action: String,
}

/// A text that an action needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input {
    /// What it is.
    pub label: String,
    /// Its default.
    pub value: String,
    /// A regular expression that it matches.
    pub pattern: String,
}

/// What is to be expected of a group, beside what happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Forecast {
    /// Where it comes from.
    pub source: String,
    /// Median latency of writes, in microseconds.
    pub p50_us: Option<u64>,
    /// 99th percentile of it, in microseconds.
    pub p99_us: Option<u64>,
    /// Lag in bytes.
    pub lag_bytes: Option<u64>,
    /// Lag in seconds.
    pub lag_seconds: Option<f64>,
    /// What the link carries, in bytes per second.
    pub sent_bytes_per_second: Option<u64>,
    /// Most bytes in the queue.
    pub queue_high_bytes: Option<u64>,
    /// When the queue is full at the present rates, in seconds.
    pub queue_full_seconds: Option<f64>,
    /// When the resync, or the queue, has ended at the present rates, in seconds.
    pub catch_up_seconds: Option<f64>,
    /// Whether it ends at all at the present rates.
    pub converges: Option<bool>,
    /// What the rules of `helio advise` find.
    pub advice: Vec<Advice>,
}

/// What one rule of `helio advise` finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The rule.
    pub label: String,
    /// `change` or `watch`.
    pub verdict: String,
    /// What was found.
    pub what: String,
    /// What to do.
    #[serde(rename = "do")]
    pub hint: Option<String>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotView {
    /// Its name.
    pub name: String,
    /// When it was created, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// Bytes that are preserved for it.
    pub preserved_bytes: u64,
    /// The copy of this node was consistent.
    pub consistent: bool,
    /// Why this node does not have it although it should.
    pub missing: Option<String>,
}

/// An action that was confirmed on the page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// Which node is asked: its place in [`View::nodes`].
    pub node: usize,
    /// Which group.
    pub group: String,
    /// [`Offer::action`].
    pub action: String,
    /// For an action that needs a text.
    #[serde(default)]
    pub input: Option<String>,
    /// What the daemon reported at stake was shown and confirmed.
    #[serde(default)]
    pub confirmed: bool,
}
