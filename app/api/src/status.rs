// SPDX-License-Identifier: Apache-2.0
//! What a daemon tells about itself and its groups.

use crate::drill::DrillStatus;
use crate::flow::{
    AnswersStatus, BeforeImageStatus, CounterStatus, CursorStatus, LagStatus, MetadataStatus,
    QueueStatus, SyncStatus, ThrottleStatus,
};
use crate::peer::{Connection, PeerStatus};
use crate::set::{CopyWait, SetMemberStatus};
use crate::snapshot::RestoringStatus;
use crate::trace::TraceStatus;
use crate::verify::{Verified, VerifyStatus};
use crate::wire;
use helio_units::{Bytes, Items, MemberState, Mode, Role, Sequence, State, Verdict, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// One daemon and its groups, at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The node's name.
    pub node: String,
    /// The daemon's version.
    pub version: String,
    /// The instant, by this node's calendar clock, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// How long the daemon runs.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub daemon_uptime_seconds: Duration,
    /// What its shard runs on: `ring` (io_uring) or `poll` (threads).
    #[serde(default)]
    pub driver: String,
    /// The groups of this node, or the requested one.
    pub groups: Vec<GroupStatus>,
    /// Groups of this node that are not served, each with the reason.
    #[serde(default)]
    pub failed: Vec<FailedGroup>,
}

/// A group that this node does not serve, although the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedGroup {
    /// The group's name.
    pub name: String,
    /// Since when, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// What failed.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
    /// Only a restart of the daemon can serve it again; otherwise `helio apply` tries again.
    pub needs_restart: bool,
}

/// One group as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupStatus {
    /// The group's name.
    pub name: String,
    /// This node's name.
    pub node: String,
    /// Whether the data is protected.
    pub verdict: VerdictStatus,
    /// This node's role.
    #[schemars(with = "wire::RoleWord")]
    pub role: Role,
    /// This node's state.
    #[schemars(with = "wire::StateWord")]
    pub state: State,
    /// Since when, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub state_since_ms: WallTime,
    /// Reason of the change.
    pub state_reason: String,
    /// What an operator does next; if nothing is to do, what happens by itself.
    pub next: String,
    /// The generation its positions belong to.
    pub generation: String,
    /// Whether the copy of this node is consistent: usable if the other node is lost.
    pub consistent: bool,
    /// The last consistent copy, if one is preserved on this node while its copy is inconsistent.
    #[serde(default)]
    pub safe_copy: Option<SafeCopyStatus>,
    /// What failed on this node and is not repaired yet.
    #[serde(default)]
    pub fault: Option<String>,
    /// The hold lease, if one is configured or held.
    #[serde(default)]
    pub lease: Option<LeaseStatus>,
    /// When writes are acknowledged.
    pub mode: ModeStatus,
    /// The volumes, in the order of their names.
    pub volumes: Vec<VolumeStatus>,
    /// The queue in memory; absent on a secondary, which sends no writes.
    #[serde(default)]
    pub queue: Option<QueueStatus>,
    /// Writes that wait because the queue is full.
    pub throttle: ThrottleStatus,
    /// Latencies; absent on a secondary, which serves no writes.
    #[serde(default)]
    pub answers: Option<AnswersStatus>,
    /// How far the peer is behind.
    pub lag: LagStatus,
    /// Positions of both nodes in the write order of the group.
    pub cursors: CursorStatus,
    /// When a client changed data on this node last, in milliseconds since 1970-01-01 UTC; none if none did since the daemon
    /// started.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub last_write_ms: Option<WallTime>,
    /// The other node; null if the group has only one.
    #[serde(default)]
    pub peer: Option<PeerStatus>,
    /// A running resync of dirty regions.
    #[serde(default)]
    pub sync: Option<SyncStatus>,
    /// A disk is being shipped to the peer for the first sync.
    #[serde(default)]
    pub seeding: Option<SeedingStatus>,
    /// The state of verifies.
    #[serde(default)]
    pub verify: VerifyStatus,
    /// The last drills on this node, if there was one.
    #[serde(default)]
    pub drill: Option<DrillStatus>,
    /// The volumes were restored from a snapshot, and a part of this is still to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restoring: Option<RestoringStatus>,
    /// A trace of requests, running or ended.
    #[serde(default)]
    pub trace: Option<TraceStatus>,
    /// What was done since the daemon started.
    pub counters: CounterStatus,
    /// The cost of making it durable.
    #[serde(default)]
    pub metadata: MetadataStatus,
    /// The cost of what is preserved for snapshots and the safe copy.
    #[serde(default)]
    pub before_images: BeforeImageStatus,
}

impl GroupStatus {
    /// Whether its peer is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.connection == Connection::Connected)
    }
}

/// A hold lease: its holder may become primary without the other node's consent and without force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseStatus {
    /// This node holds the lease, as secondary; otherwise it granted the lease, as primary, and acknowledges nothing
    /// without its peer.
    pub held: bool,
    /// Its end, in milliseconds since 1970-01-01 UTC; absent if it ends only with a change of roles.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub until_ms: Option<WallTime>,
    /// How long that still is.
    #[serde(default, with = "wire::seconds_or_null")]
    #[schemars(with = "Option<f64>")]
    pub seconds: Option<Duration>,
}

/// A safe copy, which `helio promote GROUP --restore` restores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SafeCopyStatus {
    /// Its generation.
    pub generation: String,
    /// The last position in it.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub position: Sequence,
    /// Start of the preservation, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// Bytes that were preserved because they were overwritten since.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub kept_bytes: Bytes,
    /// Whether it can be restored; one that is damaged cannot.
    pub sound: bool,
}

/// A first sync by a shipped disk that waits for `helio seed end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeedingStatus {
    /// Since when, in milliseconds since 1970-01-01 UTC; on the secondary: since its primary reported it.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// Bytes in regions that changed since.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub changed_bytes: Bytes,
}

/// Whether the data of a group is protected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictStatus {
    /// In one word. Both nodes show the same one while they are connected.
    #[schemars(with = "wire::VerdictWord")]
    pub word: Verdict,
    /// Since when, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// Why.
    pub why: String,
}

/// When writes are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModeStatus {
    /// The mode requested by the configuration file or the operator.
    #[schemars(with = "wire::ModeWord")]
    pub requested: Mode,
    /// The policy in force; absent while no write waits for the peer or is queued for it.
    #[schemars(with = "Option<wire::ModeWord>")]
    pub effective: Option<Mode>,
}

/// How a member is read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// Direct I/O, without the page cache.
    #[default]
    Direct,
    /// Through the page cache.
    Buffered,
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
        })
    }
}

/// Where operations on a member are performed.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// By the thread that serves the group, or through its ring.
    #[default]
    Here,
    /// On threads: its file system may keep a caller waiting.
    Aside,
    /// On threads until the next start: calls took longer than 50 ms.
    Slow,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "here",
            Self::Aside => "aside",
            Self::Slow => "slow",
        })
    }
}

/// One volume of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeStatus {
    /// Its name; its export is GROUP/NAME.
    pub name: String,
    /// Its size.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub size_bytes: Bytes,
    /// The member on this node; the first full one if there are several.
    pub member: String,
    /// How the member responds; `silent` and `given-up` are faults.
    #[serde(default)]
    #[schemars(with = "wire::MemberWord")]
    pub member_state: MemberState,
    /// The members on this node, if there are several.
    #[serde(default)]
    pub members: Vec<SetMemberStatus>,
    /// Bytes in which full members may differ; they are compared before they are read.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub unmerged_bytes: Bytes,
    /// Bytes in regions where nothing was ever written; full members may differ there, too, until a request reads or writes the region.
    #[serde(default, with = "wire::number")]
    #[schemars(with = "u64")]
    pub blank_bytes: Bytes,
    /// What the copy or merge of the members waits for; null if it does not wait.
    #[serde(default)]
    pub copy_waits: Option<CopyWait>,
    /// How the member is read and written.
    pub io: Io,
    /// Where operations on the member are performed. If there are several, `slow` if that is true of one, else `aside` if that is.
    #[serde(default)]
    pub service: Service,
    /// Whether the member is a sparse file, which costs allocation on first writes.
    pub sparse: bool,
    /// Bytes in regions that may differ from the peer's copy.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub dirty_bytes: Bytes,
    /// When the two copies were compared from start to end last, by a verify that ran on this node.
    #[serde(default)]
    pub verified: Option<Verified>,
    /// NBD connections open now.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub clients: Items,
}
