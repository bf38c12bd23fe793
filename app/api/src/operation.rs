// SPDX-License-Identifier: Apache-2.0
//! Everything that can be asked of a daemon, once: the router and the description of the API are both made of it, so
//! neither can have what the other lacks.

use crate::paths;

/// How an operation is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It changes nothing.
    Get,
    /// It changes something.
    Post,
}

/// One thing that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Show every group.
    Status,
    /// Show one group.
    Group,
    /// Show what happened last.
    DebugEvents,
    /// Tell what happens.
    Events,
    /// Stop replication and record dirty regions only.
    Pause,
    /// End a pause with a resync.
    Resume,
    /// Copy dirty regions, or everything, then replicate.
    Resync,
    /// Make this node primary.
    Promote,
    /// Make this node secondary.
    Demote,
    /// Change roles with the other node.
    Switch,
    /// Tell how the two nodes stand to each other.
    Explain,
    /// Give up this node's side.
    Resolve,
    /// Take the other node's copy over this node's own.
    Reverse,
    /// Take another disk in the place of a lost one.
    MemberReplace,
    /// Accept a suspect copy as it is.
    MemberAccept,
    /// Use another local member of a volume.
    MemberAdd,
    /// Use a member no more.
    MemberRemove,
    /// Compare the members.
    MemberMerge,
    /// Change settings of a member.
    MemberSet,
    /// Change the mode.
    Mode,
    /// Show the queue.
    Queue,
    /// Change the queue.
    QueueSet,
    /// Let the queue's high-water marks and counts, and the times of answers, begin anew.
    QueueReset,
    /// Compare the two copies.
    Verify,
    /// Compare no more.
    VerifyStop,
    /// Ship a disk for the first sync.
    SeedBegin,
    /// The disk that was shipped is in place.
    SeedEnd,
    /// Show the snapshots.
    Snapshots,
    /// Create a snapshot.
    SnapshotCreate,
    /// Delete a snapshot.
    SnapshotDelete,
    /// Restore the volumes from a snapshot.
    SnapshotRestore,
    /// Record how a drill ended.
    Drill,
    /// Attach a volume as a block device.
    Attach,
    /// Make a device of it no more.
    Detach,
    /// Give the stores of a group back.
    Release,
    /// Record what applications ask.
    TraceStart,
    /// Record no more.
    TraceStop,
    /// Show what is attached.
    Attachments,
    /// Show the NBD clients.
    Clients,
    /// Disconnect some.
    ClientClose,
    /// Show what was saved before it was discarded.
    Saved,
    /// Delete it.
    SavedDelete,
    /// Read the file again.
    Apply,
    /// Describe the API.
    Document,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 44] = [
        Self::Status,
        Self::Group,
        Self::DebugEvents,
        Self::Events,
        Self::Pause,
        Self::Resume,
        Self::Resync,
        Self::Promote,
        Self::Demote,
        Self::Switch,
        Self::Explain,
        Self::Resolve,
        Self::Reverse,
        Self::MemberReplace,
        Self::MemberAccept,
        Self::MemberAdd,
        Self::MemberRemove,
        Self::MemberMerge,
        Self::MemberSet,
        Self::Mode,
        Self::Queue,
        Self::QueueSet,
        Self::QueueReset,
        Self::Verify,
        Self::VerifyStop,
        Self::SeedBegin,
        Self::SeedEnd,
        Self::Snapshots,
        Self::SnapshotCreate,
        Self::SnapshotDelete,
        Self::SnapshotRestore,
        Self::Drill,
        Self::Attach,
        Self::Detach,
        Self::Release,
        Self::TraceStart,
        Self::TraceStop,
        Self::Attachments,
        Self::Clients,
        Self::ClientClose,
        Self::Saved,
        Self::SavedDelete,
        Self::Apply,
        Self::Document,
    ];

    /// Where it is asked for; `{group}` stands for a group's name.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Status => paths::STATUS,
            Self::Group => paths::GROUP,
            Self::DebugEvents => paths::DEBUG_EVENTS,
            Self::Events => paths::EVENTS,
            Self::Pause => paths::PAUSE,
            Self::Resume => paths::RESUME,
            Self::Resync => paths::RESYNC,
            Self::Promote => paths::PROMOTE,
            Self::Demote => paths::DEMOTE,
            Self::Switch => paths::SWITCH,
            Self::Explain => paths::EXPLAIN,
            Self::Resolve => paths::RESOLVE,
            Self::Reverse => paths::REVERSE,
            Self::MemberReplace => paths::MEMBER_REPLACE,
            Self::MemberAccept => paths::MEMBER_ACCEPT,
            Self::MemberAdd => paths::MEMBER_ADD,
            Self::MemberRemove => paths::MEMBER_REMOVE,
            Self::MemberMerge => paths::MEMBER_MERGE,
            Self::MemberSet => paths::MEMBER_SET,
            Self::Mode => paths::MODE,
            Self::Queue => paths::QUEUE,
            Self::QueueSet => paths::QUEUE_SET,
            Self::QueueReset => paths::QUEUE_RESET,
            Self::Verify => paths::VERIFY,
            Self::VerifyStop => paths::VERIFY_STOP,
            Self::SeedBegin => paths::SEED_BEGIN,
            Self::SeedEnd => paths::SEED_END,
            Self::Snapshots => paths::SNAPSHOTS,
            Self::SnapshotCreate => paths::SNAPSHOT_CREATE,
            Self::SnapshotDelete => paths::SNAPSHOT_DELETE,
            Self::SnapshotRestore => paths::SNAPSHOT_RESTORE,
            Self::Drill => paths::DRILL,
            Self::Attach => paths::ATTACH,
            Self::Detach => paths::DETACH,
            Self::Release => paths::RELEASE,
            Self::TraceStart => paths::TRACE_START,
            Self::TraceStop => paths::TRACE_STOP,
            Self::Attachments => paths::ATTACHMENTS,
            Self::Clients => paths::CLIENTS,
            Self::ClientClose => paths::CLIENT_CLOSE,
            Self::Saved => paths::SAVED,
            Self::SavedDelete => paths::SAVED_DELETE,
            Self::Apply => paths::APPLY,
            Self::Document => paths::DOCUMENT,
        }
    }

    /// How it is asked for.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Status
            | Self::Group
            | Self::DebugEvents
            | Self::Events
            | Self::Explain
            | Self::Queue
            | Self::Snapshots
            | Self::Attachments
            | Self::Clients
            | Self::Saved
            | Self::Document => Method::Get,
            Self::Pause
            | Self::Resume
            | Self::Resync
            | Self::Promote
            | Self::Demote
            | Self::Switch
            | Self::Resolve
            | Self::Reverse
            | Self::MemberReplace
            | Self::MemberAccept
            | Self::MemberAdd
            | Self::MemberRemove
            | Self::MemberMerge
            | Self::MemberSet
            | Self::Mode
            | Self::QueueSet
            | Self::QueueReset
            | Self::Verify
            | Self::VerifyStop
            | Self::SeedBegin
            | Self::SeedEnd
            | Self::SnapshotCreate
            | Self::SnapshotDelete
            | Self::SnapshotRestore
            | Self::Drill
            | Self::Attach
            | Self::Detach
            | Self::Release
            | Self::TraceStart
            | Self::TraceStop
            | Self::ClientClose
            | Self::SavedDelete
            | Self::Apply => Method::Post,
        }
    }

    /// Its name for programs that are generated from the description.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Group => "group",
            Self::DebugEvents => "debug-events",
            Self::Events => "events",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Resync => "resync",
            Self::Promote => "promote",
            Self::Demote => "demote",
            Self::Switch => "switch",
            Self::Explain => "explain",
            Self::Resolve => "resolve",
            Self::Reverse => "resync-reverse",
            Self::MemberReplace => "member-replace",
            Self::MemberAccept => "member-accept",
            Self::MemberAdd => "member-add",
            Self::MemberRemove => "member-remove",
            Self::MemberMerge => "member-merge",
            Self::MemberSet => "member-set",
            Self::Mode => "mode",
            Self::Queue => "queue",
            Self::QueueSet => "queue-set",
            Self::QueueReset => "queue-reset",
            Self::Verify => "verify",
            Self::VerifyStop => "verify-stop",
            Self::SeedBegin => "seed-begin",
            Self::SeedEnd => "seed-end",
            Self::Snapshots => "snapshots",
            Self::SnapshotCreate => "snapshot-create",
            Self::SnapshotDelete => "snapshot-delete",
            Self::SnapshotRestore => "snapshot-restore",
            Self::Drill => "drill",
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::Release => "release",
            Self::TraceStart => "trace-start",
            Self::TraceStop => "trace-stop",
            Self::Attachments => "attachments",
            Self::Clients => "clients",
            Self::ClientClose => "client-close",
            Self::Saved => "saved",
            Self::SavedDelete => "saved-delete",
            Self::Apply => "apply",
            Self::Document => "document",
        }
    }

    /// What it does, in a line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Status => "Show every group of this node.",
            Self::Group => "Show one group.",
            Self::DebugEvents => "Show the last recorded events of a group.",
            Self::Events => "Report all objects, and then every change, without end.",
            Self::Pause => "Stop replication and record dirty regions only.",
            Self::Resume => {
                "End a pause and resync the dirty regions; responds when the resync starts."
            }
            Self::Resync => {
                "Copy dirty regions, or compare everything, then replicate; responds when the resync starts."
            }
            Self::Promote => "Make this node primary.",
            Self::Demote => {
                "Make this node secondary; delivers the queue first if the peer is connected."
            }
            Self::Switch => {
                "Exchange the roles of both nodes without data loss, on either node; responds when the new primary \
                 serves clients."
            }
            Self::Explain => "Explain the last recovery decision.",
            Self::Resolve => {
                "Discard the writes that exist only on this node, after they are saved, so that it can be secondary."
            }
            Self::Reverse => {
                "Replace the copy of this primary by the copy of the secondary, after the data is saved; responds \
                 when the new content is served."
            }
            Self::MemberReplace => {
                "Replace a failed disk by the one in the configuration file; responds when the rebuild starts."
            }
            Self::MemberAccept => {
                "Accept a copy that is suspect after a failed flush; acknowledged writes that are missing from it are \
                 lost."
            }
            Self::MemberAdd => {
                "Add a local member to a volume, or return a removed one; responds when its copy starts."
            }
            Self::MemberRemove => {
                "Remove a local member of a volume and record later writes in a bitmap."
            }
            Self::MemberMerge => {
                "Compare the full local members of a volume and make them equal; responds when the merge is recorded: a restart does not end it."
            }
            Self::MemberSet => {
                "Change the read cost of a local member online; the configuration file is not changed."
            }
            Self::Mode => {
                "Change the mode: when writes are acknowledged; the configuration file is not changed."
            }
            Self::Queue => "Show the queue of a group: limit, use, high-water marks, waits, lag.",
            Self::QueueSet => {
                "Change limits and policies of the queue online; the configuration file is not changed."
            }
            Self::QueueReset => "Reset high-water marks, counters and latency histograms.",
            Self::Verify => "Compare the two copies online; responds when the verify starts.",
            Self::VerifyStop => "Stop the verify; the next one continues at its position.",
            Self::SeedBegin => {
                "Start recording dirty regions, for a disk that is copied now and shipped."
            }
            Self::SeedEnd => {
                "Compare samples of the shipped disk, then copy the dirty regions; responds when the copy starts."
            }
            Self::Snapshots => "Show the snapshots of a group on this node.",
            Self::SnapshotCreate => {
                "Create a snapshot of all volumes of a group, at the same write on both nodes; responds when this node has it."
            }
            Self::SnapshotDelete => {
                "Delete a snapshot; on a primary, the peer deletes it too, unless `here` is set."
            }
            Self::SnapshotRestore => {
                "Restore all volumes of a group from a snapshot, on the primary; responds when they can be used."
            }
            Self::Drill => {
                "Record how a drill of `helio drill` ended; responds when the record is durable."
            }
            Self::Attach => {
                "Attach a volume as a block device of this host; it is attached again after a restart."
            }
            Self::Detach => "Detach a volume's block device.",
            Self::Release => "Remove a group from this node and keep the data of its members.",
            Self::TraceStart => {
                "Record the requests to the volumes of a group into a file, without their data."
            }
            Self::TraceStop => "Stop the trace; responds when its file is complete.",
            Self::Clients => "Show the NBD clients of this node.",
            Self::ClientClose => "Disconnect NBD clients, after replies to their requests.",
            Self::Saved => "Show the data that was saved before it was discarded or overwritten.",
            Self::SavedDelete => "Delete saved data, which exists nowhere else.",
            Self::Attachments => "Show the volumes that are attached, or will be.",
            Self::Apply => "Reload the configuration file and apply changes that need no restart.",
            Self::Document => "This description, in OpenAPI 3.1.",
        }
    }
}
