// SPDX-License-Identifier: Apache-2.0
//! What a record is made for: a goal says what must be durable before something else may happen (`engine/save.rs`).

use crate::event::CommandId;
use helio_format::lineage::Lineage;
use helio_format::message::Start;
use helio_stack::CopyRecord;
use helio_units::{Generation, VolumeIndex};

/// Where a leaving primary goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Secondary,
    /// Secondary, and the peer is to be primary.
    Hand,
    Stop,
}

/// What a save is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Become primary.
    Promoted,
    /// Follow a stream.
    Adopted(Start),
    /// The image is consistent again.
    Consistent,
    /// Primary no more, or stopped while primary.
    Left(Leave),
    /// A secondary stopped cleanly.
    Closed,
    /// An old primary accepts that the peer went on.
    SteppedBack,
    /// Answers may be given that the peer knows nothing of: a generation begins at the accepted head.
    Alone,
    /// All answers are at the peer, and from now on again none is given without it.
    Together,
    /// The marks kept prove nothing of the peer: everything is to be copied.
    Void,
    /// A flush failed on this node: its copy is suspect, and every record says so from here on.
    FlushFailed,
    /// Every mark is kept, so they prove something again.
    MarksKept,
    /// An operator gave up what only this node holds.
    Yielded { command: CommandId, lineage: Lineage },
    /// How far the peer's metadata was heard to be: should it go back, this node knows, even if it died meanwhile.
    Remember,
    /// The kept image is about to be put back.
    Restoring,
    /// It is put back.
    Restored,
    /// A promotion by lease came too late: the record is as it was.
    Unpromoted,
    /// The peer's metadata tells nothing since that generation.
    PeerInvalid(Generation),
    /// A disk is to be shipped, from that time on.
    SeedBegun { command: CommandId, at: u64 },
    /// The disk is in place with that process of the peer.
    Seeded { command: CommandId, incarnation: u64 },
    /// This node lacks regions that its peer holds.
    Lacking,
    /// It lacks nothing any more.
    Whole,
    /// Another disk is a volume's, and nothing on it counts.
    Replaced { command: CommandId, volume: VolumeIndex },
    /// What a layer wants said of copies.
    Copies(CopyRecord),
    /// An operator takes such a copy for what it is.
    Accepted { command: CommandId, volume: VolumeIndex },
}

impl Goal {
    /// A stream that compares everything makes any disk the right one, and so does a record that nothing on it counts.
    pub(crate) const fn takes_any_disk(&self) -> bool {
        match self {
            Self::Adopted(start) => start.whole,
            Self::Replaced { .. } => true,
            _ => false,
        }
    }
}
