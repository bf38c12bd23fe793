// SPDX-License-Identifier: Apache-2.0
//! What the product promises, and how a broken promise is told.

use core::fmt;

/// The promises of the product. Each is judged in one place of the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A consistent secondary holds, with any write, every write answered before that one was submitted, or a later
    /// one in its place.
    Closed,
    /// A consistent copy holds nothing that its source never held.
    KnownBytes,
    /// A write answered in effective sync is in the peer's image, and so is, once sync is in force, all before it.
    SyncAnswer,
    /// A write answered in effective nearsync is in the peer's memory or image.
    NearSyncAnswer,
    /// What was answered before a FLUSH was submitted, and a FUA write itself, is durable here.
    DurableHere,
    /// In effective sync it is durable at the peer, too.
    DurableThere,
    /// What a follower reports as durable is durable.
    DurableReported,
    /// A read returns what was answered before it, or later.
    ReadsBack,
    /// While a primary serves, a region that differs between the images is marked.
    Marks,
    /// Where the images differ, the metadata of one of the nodes tells, whatever dies.
    Records,
    /// A primary says replicating only while its peer's record says consistent.
    Replicating,
    /// Without force, a node becomes primary only where the other does not serve.
    OnePrimary,
    /// No generation begins twice: two histories with one name would be taken for one.
    OneName,
    /// A primary that was succeeded while it was paused, or by a hold lease, acknowledges nothing that its heir lacks
    /// before it checked: before an attempt to reach that one failed which began since.
    Succeeded,
    /// A primary does not report a smaller lag than the acknowledged data that its peer does not have. A secondary reports no
    /// smaller lag than when its primary sent the ping received last. The time of the last message is the time of a message.
    Reports,
    /// A promoted image is consistent.
    ConsistentPromotion,
    /// A promotion loses no answered write that its kind may not lose: none without force, none answered in effective
    /// sync with force, none of its own on a node that goes on.
    NothingLost,
    /// A node that wrote follows another only where that one holds all it answered.
    NothingDiscarded,
    /// A node that lost its metadata neither follows, leads nor confirms anything before an operator decided what its
    /// copy counts for.
    LostMetadata,
    /// Before a client hears that a flush failed, the record says so; and what such a copy lacks overwrites nothing elsewhere
    /// unless an operator accepts it.
    SuspectCopy,
    /// While a copy is not consistent, its last consistent image is kept, and restoring gives that image.
    SafeCopy,
    /// A point-in-time copy holds what a secondary's image may be, the same on both nodes, and the same for ever.
    Copies,
    /// Every full member of a volume holds the same, and what another one lacks is recorded, whatever dies.
    MembersAlike,
    /// A verify calls different only what differs, under whatever load.
    TrueDifferences,
    /// A verify finds whatever a disk silently changed, and repairs it.
    FindsRot,
    /// A node reports that a volume failed only if an operation on its disk did.
    TrueFaults,
    /// Two sound nodes never call each other's words an offence.
    Civil,
    /// A refusal does not say that two histories parted if one of the two nodes only followed.
    TrueSplits,
    /// Impossible words of a peer end the connection, with the reason, and answer no client.
    ChecksPeer,
    /// A setting that was applied is in force.
    Applied,
    /// A store is asked only for whole blocks of it; who keeps to the blocks it was told is not refused for others.
    Blocks,
    /// What a peer sends stays in the memory that is set aside for it, is given back once, and reaches no place outside of
    /// the volumes.
    Bounded,
    /// Every request is answered exactly once, by the node it was put to, while that lives.
    AnsweredOnce,
    /// A node that has nothing to do waits.
    Rests,
    /// A refusal says what failed and what helps, with the names of what it is about.
    Explains,
    /// The engine's own assertions hold.
    Invariants,
    /// Once everything is mended the nodes replicate equal images and come to one verdict, no request waits, and no payload is
    /// left over.
    Converges,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "a secondary is closed under \"answered before accepted\"",
            Self::KnownBytes => "a consistent copy holds only what its source held",
            Self::SyncAnswer => "a write answered in sync is at the peer",
            Self::NearSyncAnswer => "a write answered in nearsync is in the peer's memory",
            Self::DurableHere => "what a FLUSH or FUA answer covers is durable here",
            Self::DurableThere => {
                "what a FLUSH or FUA answer in sync covers is durable at the peer"
            }
            Self::DurableReported => "what a follower reports as durable survives a power cut",
            Self::ReadsBack => "a read returns what was answered before it",
            Self::Marks => "what differs is marked",
            Self::Records => "what differs is recorded durably",
            Self::Replicating => "replicating means that the peer's copy is consistent",
            Self::OnePrimary => "without force there is one primary",
            Self::OneName => "no generation begins twice",
            Self::Succeeded => "a primary that was succeeded checks before it acknowledges",
            Self::Reports => "lag and age are never reported too small",
            Self::ConsistentPromotion => "a promoted image is consistent",
            Self::NothingLost => "a promotion loses nothing it may not lose",
            Self::NothingDiscarded => "nobody follows one who lacks what it answered",
            Self::LostMetadata => "lost metadata is never taken for a new peer",
            Self::SuspectCopy => "a copy whose flush failed is recorded and overwrites nothing",
            Self::SafeCopy => "a secondary keeps its last consistent image while it is updated",
            Self::Copies => "a point-in-time copy holds what was there at its moment, for ever",
            Self::MembersAlike => "full members of a volume are alike",
            Self::TrueDifferences => "a verify calls different only what differs",
            Self::FindsRot => "a verify finds and repairs what rotted",
            Self::TrueFaults => "a disk is reported as failed only if it failed",
            Self::Civil => "sound nodes understand each other",
            Self::TrueSplits => "a split is named only where both nodes wrote",
            Self::ChecksPeer => "impossible words end the connection and answer nobody",
            Self::Applied => "what is applied is in force",
            Self::Blocks => "requests keep to the blocks of every store",
            Self::Bounded => "what a peer sends stays in its bounds",
            Self::AnsweredOnce => "every request is answered exactly once",
            Self::Rests => "a node that has nothing to do waits",
            Self::Explains => "a refusal has its form",
            Self::Invariants => "the engine's assertions hold",
            Self::Converges => "once mended, the nodes replicate equal images",
        })
    }
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// What was seen.
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(promise: Promise, detail: String) -> Self {
        Self { promise, detail }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: {}", self.promise, self.detail)
    }
}

/// Fails with a violation unless `holds`.
pub(crate) fn hold(
    holds: bool,
    promise: Promise,
    detail: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(promise, detail())) }
}
