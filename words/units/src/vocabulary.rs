// SPDX-License-Identifier: Apache-2.0
//! The field's own words for modes, roles and states.

use core::fmt;
use serde::{Deserialize, Serialize};

/// When a write is answered (the table is in docs/reference/modes.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// When every live local member and the peer have completed it.
    Sync,
    /// When it is complete here and received in the peer's memory.
    NearSync,
    /// When it is complete here and in the queue.
    #[default]
    Async,
    /// When it is complete here. The peer gets what changed at intervals: the content of one moment, as a whole.
    Periodic,
}

impl Mode {
    /// Every mode, strictest first.
    pub const ALL: [Self; 4] = [Self::Sync, Self::NearSync, Self::Async, Self::Periodic];
    /// The modes in which the peer gets every write, in order.
    pub const IN_ORDER: [Self; 3] = [Self::Sync, Self::NearSync, Self::Async];

    /// The word in configuration, status and command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::NearSync => "nearsync",
            Self::Async => "async",
            Self::Periodic => "periodic",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.word() == word)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What a node is to a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Applications write here.
    Primary,
    /// Follows a primary.
    #[default]
    Secondary,
}

impl Role {
    /// The word in status and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The state of a group on one node, in the words of Sun's remote mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Copies are proven equal up to what is on its way in order.
    Replicating,
    /// The link is down; writes wait in the queue, their order kept.
    Queuing,
    /// An ordered backlog is being sent.
    CatchingUp,
    /// Only marks are kept.
    Logging,
    /// Marked regions are being copied.
    Syncing,
    /// A copy to this node was interrupted; its image is not consistent.
    NeedsSync,
    /// An update does not begin: the secondary has no room to keep its last consistent image meanwhile.
    NeedsRoom,
    /// The secondary gets the content of one moment after the other, each as a whole; writes since the last one are marks.
    Periodic,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Replicating,
        Self::Queuing,
        Self::CatchingUp,
        Self::Logging,
        Self::Syncing,
        Self::NeedsSync,
        Self::NeedsRoom,
        Self::Periodic,
    ];

    /// Whether writes wait for, or queue to, the peer: a mode is in force then.
    #[must_use]
    pub const fn has_mode(self) -> bool {
        matches!(self, Self::Replicating | Self::Queuing | Self::CatchingUp | Self::Syncing)
    }

    /// The word in status and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Replicating => "replicating",
            Self::Queuing => "queuing",
            Self::CatchingUp => "catching-up",
            Self::Logging => "logging",
            Self::Syncing => "syncing",
            Self::NeedsSync => "needs-sync",
            Self::NeedsRoom => "needs-room",
            Self::Periodic => "periodic",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How the disk of a volume responds on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It completes operations.
    #[default]
    Responds,
    /// An operation has not completed for a while: the peer is patient.
    Waits,
    /// An operation has not completed within the member timeout.
    Silent,
    /// The peer serves in its place, and operations on it have not completed: until then it is not used again.
    GivenUp,
}

impl MemberState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Responds, Self::Waits, Self::Silent, Self::GivenUp];

    /// The word in status and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Responds => "responds",
            Self::Waits => "waits",
            Self::Silent => "silent",
            Self::GivenUp => "given-up",
        }
    }
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Whether the data of a group is protected, in one word. The order is from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Both nodes acknowledged writes that the other does not have.
    SplitBrain,
    /// A disk, a flush or a metadata file of one of the nodes failed.
    DiskFailed,
    /// No node serves the group.
    NoPrimary,
    /// A secondary that received no message from its peer since its daemon started.
    Unknown,
    /// A loss of the primary now could lose more than the mode allows.
    AtRisk,
    /// The peer has everything that the mode promises.
    Ok,
}

impl Verdict {
    /// Every verdict, the worst first.
    pub const ALL: [Self; 6] = [
        Self::SplitBrain,
        Self::DiskFailed,
        Self::NoPrimary,
        Self::Unknown,
        Self::AtRisk,
        Self::Ok,
    ];

    /// The word in JSON, events and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::SplitBrain => "split-brain",
            Self::DiskFailed => "disk-failed",
            Self::NoPrimary => "no-primary",
            Self::Unknown => "unknown",
            Self::AtRisk => "at-risk",
            Self::Ok => "ok",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
