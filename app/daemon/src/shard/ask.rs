// SPDX-License-Identifier: Apache-2.0
//! What the control plane can ask of a shard: one enum per topic, each of which one function answers in full.

use super::group::CommandReply;
use super::release::ReleaseReply;
use super::{
    Closing, GroupPlan, Guard, Hold, ListedClients, Losing, Offer, Plug, RemovedMember, Room, Seat,
    SetAsk, VolumePlan,
};
use crate::config::{Running, Setting};
use crate::names::Unresolved;
use crate::trace::{Begun, Tap, Why};
use helio_api::DrillStatus;
use helio_attach::Shape;
use helio_engine::{Command, HookQuestion, Refusal, Reversal};
use helio_format::snapshot::SnapshotAct;
use helio_units::{VolumeIndex, WallTime};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;

/// A volume and what is lost if its suspect copy is accepted.
pub(crate) type SuspectReply = oneshot::Sender<Result<(VolumeIndex, String), Refusal>>;

/// What the control plane asks of a shard.
#[derive(Debug)]
pub(crate) enum Ask {
    /// The node as a whole.
    Node(NodeAsk),
    /// Serving a group, or not any more.
    Service(ServiceAsk),
    /// Carry out a command on a group.
    Command { group: String, command: Command, reply: CommandReply },
    /// A look at a group, which changes nothing.
    Look { group: String, look: LookAsk },
    /// Data that exists only on this node.
    Loss { group: String, ask: LossAsk },
    /// The disk of a volume.
    Member { group: String, volume: String, ask: MemberAsk },
    /// A volume as a block device.
    Device(DeviceAsk),
    /// A trace of a group's requests.
    Trace { group: String, ask: TraceAsk },
    /// The addresses of a group's peer, or why its name cannot be resolved.
    Resolved { group: String, found: Result<Vec<SocketAddr>, Unresolved> },
    /// The hook before a resync of a group agreed, or why not.
    HookAnswered { group: String, question: HookQuestion, refused: Option<String> },
    /// A drill of a group ended; these are the last ones.
    Drilled { group: String, drills: Box<DrillStatus> },
    /// Change a setting that can change while running.
    Change { group: String, setting: Setting },
}

/// What is shown of the groups in one turn.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// This one.
    Group(String),
    /// Some, from that place on.
    From(usize),
}

/// What was shown.
#[derive(Debug)]
pub(crate) struct ShownGroups {
    pub(crate) at: WallTime,
    pub(crate) groups: Vec<helio_api::GroupStatus>,
    /// The place of the next ones, if there are more.
    pub(crate) next: Option<usize>,
}

/// Asks about the node as a whole.
#[derive(Debug)]
pub(crate) enum NodeAsk {
    /// Show one group, or some of all.
    Status { of: Shown, reply: oneshot::Sender<ShownGroups> },
    /// What runs of all that can change while running, group by group.
    Running { reply: oneshot::Sender<Vec<(String, Running)>> },
    /// Members that were removed after an error, and could return.
    Removed { reply: oneshot::Sender<Vec<RemovedMember>> },
    /// Trust other keys: of every group, what its peer's connection must have.
    Trust { guards: Vec<(String, Guard)> },
    /// List NBD clients, from that place on.
    Clients { from: usize, reply: oneshot::Sender<ListedClients> },
    /// Close connections of clients. Returns who they are.
    CloseClients { which: Closing, reply: oneshot::Sender<Result<Vec<String>, Refusal>> },
    /// At most so many volumes are copied or merged in the background at once.
    MostCopies(u32),
    /// Stop cleanly; the shard's thread ends.
    Stop,
}

/// Asks that begin or end the service of a group.
#[derive(Debug)]
pub(crate) enum ServiceAsk {
    /// Serve a new group, with these two random numbers.
    Serve { plan: Box<GroupPlan>, dice: (u64, u64), reply: CommandReply },
    /// Stop a group and close its stores.
    Release { group: String, force: bool, reply: ReleaseReply },
}

/// Looks at a group. The reply is dropped if the group is not served here.
#[derive(Debug)]
pub(crate) enum LookAsk {
    /// What a forced promotion would put at stake.
    AtStake { reply: oneshot::Sender<helio_api::AtStake> },
    /// Whether a forced promotion is possible now.
    MayPromote { restore: bool, reply: oneshot::Sender<Result<(), Refusal>> },
    /// Whether a primary can create or refresh a snapshot now.
    MaySnapshot { act: SnapshotAct, reply: oneshot::Sender<Result<(), Refusal>> },
    /// How the histories of the two nodes relate.
    Explain { reply: oneshot::Sender<helio_api::Explanation> },
    /// The snapshots.
    Snapshots { reply: oneshot::Sender<helio_api::SnapshotList> },
    /// The flight recorder.
    Recorder { reply: oneshot::Sender<Vec<helio_api::RecorderEvent>> },
}

/// Asks about data that exists only on this node. The reply is dropped if the group is not served here.
#[derive(Debug)]
pub(crate) enum LossAsk {
    /// What would be lost with this node's side.
    Losing { last_copy: bool, reply: oneshot::Sender<Result<Losing, Refusal>> },
    /// What would be overwritten if this node took its peer's copy.
    ThrowingAway { wish: Reversal, reply: oneshot::Sender<Result<Losing, Refusal>> },
    /// Take it, if what was saved is still what would be overwritten.
    Reverse { wish: Reversal, saved: Box<Losing>, reply: CommandReply },
}

/// Asks about the disk of a volume. The reply is dropped if the group is not served here.
#[derive(Debug)]
pub(crate) enum MemberAsk {
    /// What another disk in the place of a lost one has to fit.
    Seat { reply: oneshot::Sender<Result<Seat, Refusal>> },
    /// Another disk for it.
    Replace { plan: Box<VolumePlan>, reply: CommandReply },
    /// What the disk at that path has to fit, which is to become another member.
    Room { path: String, reply: oneshot::Sender<Result<Room, Refusal>> },
    /// Its members are to change.
    Set { ask: SetAsk, reply: CommandReply },
    /// Whether the member at that path is closed.
    IsClosed { path: String, reply: oneshot::Sender<bool> },
    /// The configuration file names the member at that path no more.
    Unnamed { path: String },
    /// The latency of reads of the member at that path was measured, if it could be.
    Measured { path: PathBuf, latency: Option<Duration> },
    /// Whether its copy is suspect, and what is lost if it is accepted as it is.
    Suspect { reply: SuspectReply },
}

/// Asks about volumes as block devices.
#[derive(Debug)]
pub(crate) enum DeviceAsk {
    /// Whether a volume could be served as a device now.
    Offer {
        group: String,
        volume: String,
        read_only: bool,
        reply: oneshot::Sender<Result<Offer, Refusal>>,
    },
    /// Whether others than this node may write a group now.
    Overtaken { group: String, reply: oneshot::Sender<bool> },
    /// Count an NBD client's export among the devices of the machine, until its volume is detached.
    Hold { hold: Hold, reply: oneshot::Sender<Result<(), Refusal>> },
    /// Serve a volume on the kernel's end of a device.
    Plug { plug: Box<Plug>, reply: oneshot::Sender<Result<Shape, Refusal>> },
    /// End a volume's device, also while it is in use.
    Unplug { group: String, volume: String, reply: oneshot::Sender<()> },
}

/// Asks about a trace of a group's requests.
#[derive(Debug)]
pub(crate) enum TraceAsk {
    /// Record requests; the reply is dropped if the group is not served here.
    Begin { tap: Box<Tap>, reply: oneshot::Sender<Begun> },
    /// End the trace of that number.
    End { id: u64, why: Why },
}
