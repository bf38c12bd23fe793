// SPDX-License-Identifier: Apache-2.0
//! The words a daemon and its command line exchange: JSON over HTTP on the daemon's control socket.
//!
//! Every field that is a quantity says its unit in its name: `_bytes`, `_seconds` (with fractions), `_us`
//! (microseconds), `_ms` (milliseconds since 1970-01-01 UTC, for moments). Within `/v2` fields are only ever
//! added, so replies are read with unknown fields ignored; requests are not, since a wish that is ignored
//! would be a lie. Absent on purpose: sockets, clocks, rendering.

mod attach;
mod client;
mod drill;
mod error;
pub mod event;
mod flow;
pub mod form;
mod openapi;
mod operation;
pub mod paths;
mod peer;
mod queue;
mod request;
mod roles;
mod saved;
mod set;
mod snapshot;
mod status;
mod trace;
mod verify;
mod wire;

pub use attach::{AttachRequest, AttachState, Attachment, Attachments, DetachRequest, Via};
pub use client::{ClientCloseRequest, ClientList, NbdClient};
pub use drill::{DrillRequest, DrillResult, DrillStatus};
pub use error::{ApiError, AtStake, code};
pub use flow::{
    AnswersStatus, BeforeImageStatus, CounterStatus, CursorStatus, LagStatus, MetadataStatus,
    QueueStatus, SyncStatus, ThrottleStatus, TimesStatus,
};
pub use openapi::document;
pub use operation::{Method, Operation};
pub use peer::{AttemptsStatus, BufferStatus, Connection, LinkStatus, PeerStatus, WrongKey};
pub use queue::{Memory, QueueReply, QueueRequest, QueueSettings, WhenFull};
pub use request::{
    Accepted, ApplyReply, ApplyRequest, EventsRequest, ModeRequest, PromoteRequest, RecorderDump,
    RecorderEvent, ReleaseRequest, ResyncRequest, SwitchRequest,
};
pub use roles::{
    Explanation, MemberAcceptRequest, MemberReplaceRequest, ResolveRequest, ReverseRequest, Row,
};
pub use saved::{SavedCopy, SavedDeleteRequest, SavedList, SavedVolume};
pub use set::{
    CopyWait, MemberAddRequest, MemberMergeRequest, MemberRemoveRequest, MemberSetRequest,
    ReadCost, ReadCostSource, SetMemberState, SetMemberStatus,
};
pub use snapshot::{
    MissingSnapshot, RestoringStatus, Snapshot, SnapshotList, SnapshotRequest,
    SnapshotRestoreRequest,
};
pub use status::{
    FailedGroup, GroupStatus, Io, LeaseStatus, ModeStatus, SafeCopyStatus, SeedingStatus, Service,
    Status, VerdictStatus, VolumeStatus,
};
pub use trace::{TraceRequest, TraceStatus};
pub use verify::{Verified, VerifyRequest, VerifyRun, VerifyStatus};
