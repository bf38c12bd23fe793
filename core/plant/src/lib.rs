// SPDX-License-Identifier: Apache-2.0
//! Faults planted to prove that the simulator sees them. Without the feature `plant`, which no product build has, none
//! can be, and the compiler removes the very question.
#![no_std]

/// A fault to plant, each at the one or two lines that ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Plant {
    /// Items travel without what they must come after.
    DropAfter = 1,
    /// The overlap gate lets everything through.
    SkipGate,
    /// Sync answers when the peer received, not when it completed.
    AnswerEarly,
    /// A mark ends when the peer received the item, not when it has it durable.
    ClearMarkEarly,
    /// A stream resumes one item too late.
    ResumePastGap,
    /// The store is written before the extent is durably hot.
    CoverAfterIssue,
    /// Hot extents go although the peer lacks items in them.
    ColdTooEarly,
    /// Sync answers without its peer before a record says so.
    AnswerUnrecorded,
    /// A chunk is overwritten before its bytes are kept.
    OverwriteUnpreserved,
    /// The keeping ends before the record says consistent.
    EndKeepingEarly,
    /// A peer that lost its memory is asked to compare what it may have gone beyond.
    CompareAgain,
    /// A follower issues items before what they must come after has completed.
    IgnoreAfter,
    /// A follower completes a client's FLUSH without one.
    SkipFlush,
    /// A follower says that what completed is durable.
    DurableUnflushed,
    /// A peer that restarted is sent only what it had not received, instead of what it had not made durable.
    ResumeUnflushed,
    /// An update copies what the source marked, and not what the target did.
    OwnMarksOnly,
    /// A new primary serves before its generation is durable.
    ServeUnrecorded,
    /// What the peer remembers of this node's metadata counts for nothing.
    TrustRolledBack,
    /// Hot extents are forgotten at a restart.
    ForgetHot,
    /// The peer is called level while it lacks answered writes.
    LevelEarly,
    /// A dropped queue leaves no marks.
    DropUnmarked,
    /// Nobody looks whether a disk is the one it was.
    TrustAnyDisk,
    /// Two nodes that ask each other at once for the primary role both agree, and both go on asking.
    CrossedBothAgree,
    /// A primary answers without a peer that may hold a lease.
    LeaseIgnored,
    /// A primary that was paused acknowledges without checking that its peer did not take over.
    PauseIgnored,
    /// It does so when the wait for a hold lease ends.
    LeaseEndUnchecked,
    /// The lag that is reported leaves dirty regions out.
    LagWithoutDirty,
    /// It leaves out what waits in order.
    LagWithoutItems,
    /// What would be lost with a side leaves hot extents out.
    StakeWithoutHot,
    /// What a peer received in an update counts, although it may restore its image from before.
    UpdateForgotten,
    /// A secondary reports none once it applied all it received.
    LevelOnceDrained,
    /// A connection counts as a message of the peer.
    ConnectedIsHeard,
    /// What changed while a disk was shipped is not copied once it is in place.
    SeedForgets,
    /// A region that was pulled is written although a write touched it since it was asked for.
    PullStale,
    /// The peer reads for its primary before it has completed what the primary accepted.
    ReadEarly,
    /// An answer that needs the peer is given without it while this node lacks regions.
    LackAlone,
    /// A disk that was put in the place of a lost one counts as holding what that held.
    TrustReplaced,
    /// A flush proves something although one that overlaps it failed.
    OverlappedFlush,
    /// What reads as equal on a suspect copy is not written again.
    CompareSuspect,
    /// What the peer's members require of a request is not looked at.
    PeerBlockIgnored,
    /// Cursors of the peer that went backwards are taken as they are.
    RegressingCursor,
    /// What is applied while the node runs waits for a restart.
    ApplyIgnored,
    /// The peer may acknowledge what was not sent.
    AckUnsent,
    /// A change that is refused for want of room for its before-image reaches the disk all the same.
    RefusedTouches,
    /// A copy is cut before what it is to hold is durable.
    CutUnflushed,
    /// A read of a copy gives what the volume holds now.
    CopyReadLive,
    /// A write to the branch of a copy overwrites what is preserved for the copy, where the pool has it.
    BranchInPlace,
    /// During a rollback an operation touches a chunk that was not put back.
    RollbackServes,
    /// A chunk that a rollback put back counts before it is flushed.
    RollbackUnflushed,
    /// What a rollback is to put back does not count as changed since a copy in between.
    RollbackUnchanged,
    /// A rollback marks nothing of what a peer lacks then.
    RollbackUnmarked,
    /// A cut does not wait for the changes that were under way at its moment.
    CutUnsettled,
    /// A secondary cuts a copy before everything in front of the cut is applied.
    SnapshotEarly,
    /// The engine panics when a client discards.
    PanicAtDiscard,
    /// A peer without metadata counts as one that did not take over.
    BelieveBlank,
    /// A peer that lost its metadata counts as one that never took part.
    BlankIsNew,
    /// A target whose machine went back together with its memory is believed.
    TrustSnapshot,
    /// A source behind what its target received streams to it.
    TrustRewound,
    /// A node that only followed counts as one that wrote.
    FalseSplit,
    /// Items without payload count for nothing in a follower's bound.
    FreeItems,
    /// Any number of questions of the peer is held.
    FreeQuestions,
    /// A write with FUA that fails is taken for a plain write that fails.
    FuaIsWrite,
    /// The record does not say that a flush failed.
    SuspectUnrecorded,
    /// A copy whose flush failed is copied from, and led from.
    SuspectStreams,
    /// The flush behind a failed one succeeds.
    FlushForgiven,
    /// Of several pages of marks the first one alone is read when a node starts.
    OnePageRead,
    /// A write that failed leaves no mark, as if the store were unchanged.
    FailedUnmarked,
    /// A disk that was given up is used again although operations on it have not ended.
    LateForgotten,
    /// What a crash left hot cools although a layer has not yet done there what it has to do.
    OwnedCools,
    /// An expendable copy is over before the ledger says so.
    OverUnrecorded,
    /// A verify goes on behind what it had asked when the stream broke.
    VerifySkips,
    /// An operation that a member of a set missed is acknowledged before the member's removal is durable.
    RemovalUnrecorded,
    /// A region of a copy counts as copied before it was written.
    CopyClearsEarly,
    /// Members that get what they lack are read.
    ReadCopyTarget,
    /// Where full members differ, the version of each is written to another.
    MergeMixes,
    /// What is written while a member is removed is not in its bitmap.
    StaleBitmap,
    /// A member returns although operations that were issued to it have not ended.
    ReturnTooEarly,
    /// A region is read although full members may differ in it.
    ReadUnmerged,
    /// A bitmap of a member is believed although the record of the members is old.
    OldBitmaps,
    /// A region in which nothing was ever written is read from one full member, and the others are not made equal to it.
    ReadBlank,
    /// The name of a payload is free twice, so that two payloads get it.
    PayloadFreedTwice,
    /// The response to a request goes to another connection of its group, if there is one.
    ReplyToAnother,
    /// A request is responded to twice.
    ReplyTwice,
    /// A write to a member is submitted twice, and the end of one of them counts.
    WriteTwice,
    /// A flush of a member ends without being performed.
    FlushUnperformed,
    /// A shard ends while metadata of a stopped group is being written.
    StopUnfinished,
    /// A group gives its members back before it has stopped: its effects follow.
    LetGoEarly,
    /// The part of a message that an earlier connection to the peer brought is taken for the beginning of the next one.
    LinkRestKept,
    /// Of several connections whose requests ended in one turn only the first one continues.
    WakeLost,
    /// Of several requests of the control plane that wait only the first one is performed.
    AskLost,
    /// A listener that failed to accept a connection is not tried again.
    AcceptOnce,
    /// The entry of a request that ended is not used again.
    RequestLeaked,
    /// A payload whose name is released keeps its buffer.
    BufferLeaked,
    /// The socket of a client that left stays open.
    SocketLeaked,
    /// The slot of a client that left is not used again.
    ClientSlotsGrow,
    /// A group waits until the disks of the groups before it have nothing to do.
    GroupStarves,
    /// A node accepts more clients than its configuration allows.
    ClientsUnbounded,
    /// A new metadata file does not have its name durably.
    CreateUndurable,
    /// A region that was written since a cut counts as copied with the cut.
    CutForgotten,
    /// A cut is shipped as its volumes are now.
    ShipLive,
    /// A copy that cannot be read counts as a disk that failed.
    CopyIsDisk,
    /// What fails since nothing can be recorded of members fails as if their disks had failed.
    RecordIsDisk,
    /// A disk without space counts as one that failed.
    FullIsFailed,
    /// A member counts as holding what is read of its volume, whatever layers hold back.
    HandOutUnfit,
    /// A member with an earlier stamp counts as the one that is recorded.
    OlderIsRight,
    /// A node whose metadata is old goes on with a stream as if it remembered.
    OldGoesOn,
}

impl Plant {
    /// Every fault that stories of two nodes find, with the name by which it is asked for.
    pub const ALL: &[(&str, Self)] = &[
        ("drop-after", Self::DropAfter),
        ("skip-gate", Self::SkipGate),
        ("answer-early", Self::AnswerEarly),
        ("clear-mark-early", Self::ClearMarkEarly),
        ("resume-past-gap", Self::ResumePastGap),
        ("cover-after-issue", Self::CoverAfterIssue),
        ("cold-too-early", Self::ColdTooEarly),
        ("answer-unrecorded", Self::AnswerUnrecorded),
        ("overwrite-unpreserved", Self::OverwriteUnpreserved),
        ("end-keeping-early", Self::EndKeepingEarly),
        ("compare-again", Self::CompareAgain),
        ("ignore-after", Self::IgnoreAfter),
        ("skip-flush", Self::SkipFlush),
        ("durable-unflushed", Self::DurableUnflushed),
        ("resume-unflushed", Self::ResumeUnflushed),
        ("own-marks-only", Self::OwnMarksOnly),
        ("serve-unrecorded", Self::ServeUnrecorded),
        ("trust-rolled-back", Self::TrustRolledBack),
        ("forget-hot", Self::ForgetHot),
        ("level-early", Self::LevelEarly),
        ("drop-unmarked", Self::DropUnmarked),
        ("trust-any-disk", Self::TrustAnyDisk),
        ("crossed-both-agree", Self::CrossedBothAgree),
        ("lease-ignored", Self::LeaseIgnored),
        ("pause-ignored", Self::PauseIgnored),
        ("lease-end-unchecked", Self::LeaseEndUnchecked),
        ("lag-without-dirty", Self::LagWithoutDirty),
        ("lag-without-items", Self::LagWithoutItems),
        ("stake-without-hot", Self::StakeWithoutHot),
        ("update-forgotten", Self::UpdateForgotten),
        ("level-once-drained", Self::LevelOnceDrained),
        ("connected-is-heard", Self::ConnectedIsHeard),
        ("seed-forgets", Self::SeedForgets),
        ("pull-stale", Self::PullStale),
        ("read-early", Self::ReadEarly),
        ("lack-alone", Self::LackAlone),
        ("trust-replaced", Self::TrustReplaced),
        ("peer-block-ignored", Self::PeerBlockIgnored),
        ("regressing-cursor", Self::RegressingCursor),
        ("apply-ignored", Self::ApplyIgnored),
        ("ack-unsent", Self::AckUnsent),
        ("refused-touches", Self::RefusedTouches),
        ("cut-unflushed", Self::CutUnflushed),
        ("rollback-unmarked", Self::RollbackUnmarked),
        ("snapshot-early", Self::SnapshotEarly),
        ("panic-at-discard", Self::PanicAtDiscard),
        ("believe-blank", Self::BelieveBlank),
        ("blank-is-new", Self::BlankIsNew),
        ("free-items", Self::FreeItems),
        ("free-questions", Self::FreeQuestions),
        ("compare-suspect", Self::CompareSuspect),
        ("fua-is-write", Self::FuaIsWrite),
        ("suspect-unrecorded", Self::SuspectUnrecorded),
        ("suspect-streams", Self::SuspectStreams),
        ("flush-forgiven", Self::FlushForgiven),
        ("overlapped-flush", Self::OverlappedFlush),
        ("trust-snapshot", Self::TrustSnapshot),
        ("trust-rewound", Self::TrustRewound),
        ("false-split", Self::FalseSplit),
        ("failed-unmarked", Self::FailedUnmarked),
        ("late-forgotten", Self::LateForgotten),
        ("owned-cools", Self::OwnedCools),
        ("verify-skips", Self::VerifySkips),
        ("one-page-read", Self::OnePageRead),
        ("cut-forgotten", Self::CutForgotten),
        ("ship-live", Self::ShipLive),
        ("copy-is-disk", Self::CopyIsDisk),
        ("full-is-failed", Self::FullIsFailed),
        ("old-goes-on", Self::OldGoesOn),
    ];

    /// Every fault that stories of a layer alone find.
    pub const LAYERS: &[(&str, Self)] = &[
        ("over-unrecorded", Self::OverUnrecorded),
        ("cut-unsettled", Self::CutUnsettled),
        ("copy-read-live", Self::CopyReadLive),
        ("branch-in-place", Self::BranchInPlace),
        ("rollback-serves", Self::RollbackServes),
        ("rollback-unflushed", Self::RollbackUnflushed),
        ("rollback-unchanged", Self::RollbackUnchanged),
        ("removal-unrecorded", Self::RemovalUnrecorded),
        ("copy-clears-early", Self::CopyClearsEarly),
        ("read-copy-target", Self::ReadCopyTarget),
        ("merge-mixes", Self::MergeMixes),
        ("stale-bitmap", Self::StaleBitmap),
        ("return-too-early", Self::ReturnTooEarly),
        ("read-unmerged", Self::ReadUnmerged),
        ("old-bitmaps", Self::OldBitmaps),
        ("read-blank", Self::ReadBlank),
        ("record-is-disk", Self::RecordIsDisk),
        ("hand-out-unfit", Self::HandOutUnfit),
    ];

    /// Every fault of the daemon around the engine, which stories of the whole program find.
    pub const DAEMON: &[(&str, Self)] = &[
        ("payload-freed-twice", Self::PayloadFreedTwice),
        ("reply-to-another", Self::ReplyToAnother),
        ("reply-twice", Self::ReplyTwice),
        ("write-twice", Self::WriteTwice),
        ("flush-unperformed", Self::FlushUnperformed),
        ("stop-unfinished", Self::StopUnfinished),
        ("let-go-early", Self::LetGoEarly),
        ("link-rest-kept", Self::LinkRestKept),
        ("wake-lost", Self::WakeLost),
        ("ask-lost", Self::AskLost),
        ("accept-once", Self::AcceptOnce),
        ("request-leaked", Self::RequestLeaked),
        ("buffer-leaked", Self::BufferLeaked),
        ("socket-leaked", Self::SocketLeaked),
        ("client-slots-grow", Self::ClientSlotsGrow),
        ("group-starves", Self::GroupStarves),
        ("clients-unbounded", Self::ClientsUnbounded),
        ("create-undurable", Self::CreateUndurable),
        ("older-is-right", Self::OlderIsRight),
    ];
}

#[cfg(feature = "plant")]
mod chosen {
    use super::Plant;
    use core::sync::atomic::{AtomicU8, Ordering};

    static CHOSEN: AtomicU8 = AtomicU8::new(0);

    /// Plants a fault in the core of this process, in place of any other.
    pub fn plant(fault: Option<Plant>) {
        CHOSEN.store(fault.map_or(0, |fault| fault as u8), Ordering::Relaxed);
    }

    /// Whether that fault is planted.
    #[must_use]
    pub fn planted(fault: Plant) -> bool {
        CHOSEN.load(Ordering::Relaxed) == fault as u8
    }
}

#[cfg(feature = "plant")]
pub use chosen::{plant, planted};

/// Whether that fault is planted: never.
#[cfg(not(feature = "plant"))]
#[must_use]
pub const fn planted(_: Plant) -> bool {
    false
}
