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
    /// Make a device of a volume.
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
    pub const ALL: [Self; 33] = [
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
        Self::Mode,
        Self::Queue,
        Self::QueueSet,
        Self::QueueReset,
        Self::Verify,
        Self::VerifyStop,
        Self::SeedBegin,
        Self::SeedEnd,
        Self::Attach,
        Self::Detach,
        Self::Release,
        Self::TraceStart,
        Self::TraceStop,
        Self::Attachments,
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
            Self::Mode => paths::MODE,
            Self::Queue => paths::QUEUE,
            Self::QueueSet => paths::QUEUE_SET,
            Self::QueueReset => paths::QUEUE_RESET,
            Self::Verify => paths::VERIFY,
            Self::VerifyStop => paths::VERIFY_STOP,
            Self::SeedBegin => paths::SEED_BEGIN,
            Self::SeedEnd => paths::SEED_END,
            Self::Attach => paths::ATTACH,
            Self::Detach => paths::DETACH,
            Self::Release => paths::RELEASE,
            Self::TraceStart => paths::TRACE_START,
            Self::TraceStop => paths::TRACE_STOP,
            Self::Attachments => paths::ATTACHMENTS,
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
            | Self::Attachments
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
            | Self::Mode
            | Self::QueueSet
            | Self::QueueReset
            | Self::Verify
            | Self::VerifyStop
            | Self::SeedBegin
            | Self::SeedEnd
            | Self::Attach
            | Self::Detach
            | Self::Release
            | Self::TraceStart
            | Self::TraceStop
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
            Self::Mode => "mode",
            Self::Queue => "queue",
            Self::QueueSet => "queue-set",
            Self::QueueReset => "queue-reset",
            Self::Verify => "verify",
            Self::VerifyStop => "verify-stop",
            Self::SeedBegin => "seed-begin",
            Self::SeedEnd => "seed-end",
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::Release => "release",
            Self::TraceStart => "trace-start",
            Self::TraceStop => "trace-stop",
            Self::Attachments => "attachments",
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
            Self::Status => "Show every group this node takes part in.",
            Self::Group => "Show one group.",
            Self::DebugEvents => "Show the group's flight recorder: what happened last.",
            Self::Events => "Tell what is there, and then what changes, for as long as it is read.",
            Self::Pause => "Stop replication and record dirty regions only.",
            Self::Resume => "End a pause and resync the dirty regions; answered when it began.",
            Self::Resync => {
                "Copy dirty regions, or compare everything, then replicate; answered when it began."
            }
            Self::Promote => "Make this node primary.",
            Self::Demote => {
                "Make this node secondary, everything delivered where the peer is there."
            }
            Self::Switch => {
                "Change roles with the other node, without loss, asked of either; answered when it serves."
            }
            Self::Explain => "Tell which row of the recovery table fired last, and what it means.",
            Self::Resolve => {
                "Give up what this node alone holds, saved first, so that it may follow the other."
            }
            Self::Reverse => {
                "Take the other node's copy over this primary's own, saved first; answered when it is served."
            }
            Self::MemberReplace => {
                "Take the disk that the file names now in the place of a lost one; answered when it is filled from then on."
            }
            Self::MemberAccept => {
                "Accept a copy that a failed flush left suspect; acknowledged writes that are missing from it are lost."
            }
            Self::Mode => "Change when writes are answered; the file is not changed.",
            Self::Queue => "Show the group's queue: bound, use, high-water marks, waits, lag.",
            Self::QueueSet => {
                "Change the queue's bound and policies while it runs; the file is not changed."
            }
            Self::QueueReset => {
                "Let the queue's high-water marks and counts, and the times of answers, begin at zero."
            }
            Self::Verify => "Compare the two copies while they are in use; answered when it began.",
            Self::VerifyStop => "Compare no more; the place is kept.",
            Self::SeedBegin => {
                "Mark what changes from here on, for a disk that is copied now and shipped."
            }
            Self::SeedEnd => {
                "Compare samples of the disk that was shipped, then copy what changed; answered when that began."
            }
            Self::Attach => {
                "Make a block device of this machine of a volume; it comes back after a restart."
            }
            Self::Detach => "Make a device of a volume no more.",
            Self::Release => {
                "End a group on this node and give its stores back as they are, without a trace of it."
            }
            Self::TraceStart => {
                "Record into a file what applications ask of the group's volumes, without their data."
            }
            Self::TraceStop => "End the recording; answered when its file is whole.",
            Self::Saved => "Show the data that was saved before it was discarded or overwritten.",
            Self::SavedDelete => "Delete saved data, which exists nowhere else.",
            Self::Attachments => "Show the volumes that are devices of this machine, or are to be.",
            Self::Apply => {
                "Read the configuration file again and change what can change while running."
            }
            Self::Document => "This description, in OpenAPI 3.1.",
        }
    }
}
