// SPDX-License-Identifier: Apache-2.0
//! Who asked for an operation on the store, and what for.

use helio_copy::Claim;
use helio_units::Bytes;
use helio_units::Extent;
use helio_units::RequestId;
use helio_units::{Payload, PayloadId};
use helio_units::{Sequence, VolumeIndex};

/// Who asked for an operation on the store, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client reads.
    Read(Reader),
    /// A client uses a point-in-time copy. What it writes is released at the end.
    CopyIo(RequestId, Option<PayloadId>),
    Primary(PrimaryIo),
    Follower(FollowerIo),
    /// The copier's source asks what this node holds.
    Teller(TellerIo),
    /// The primary reads here.
    PeerRead(PeerRead),
    Seed(SeedIo),
    Accept(AcceptIo),
    /// The last flush of a primary that leaves.
    Leave(VolumeIndex),
    /// A flush that lets hot extents go.
    Cover(VolumeIndex),
    /// A layer of the store stack asked for it, under that name. `flushes`: its failure leaves more than itself in doubt.
    Layer {
        name: u64,
        flushes: bool,
    },
    /// Its disk was given up before it ended, so its caller got an error already. The payload is what it writes.
    Late(Option<PayloadId>),
}

/// What the follower asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowerIo {
    /// Apply an item.
    Apply(Sequence),
    /// A flush of its own on a volume.
    Flush(VolumeIndex),
}

/// What a primary asks of its store for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrimaryIo {
    /// The local leg of an item.
    Local(Sequence),
    /// The copier reads a region.
    Copy(JobId),
    /// The copier asks whether anything is stored.
    Survey(StretchId),
    /// A verify reads a region.
    Verify(Check),
    /// Bytes of a region that may be lacking here are read, to compare them with the peer's.
    Compare(Claim),
    /// A region that was lacking here is written.
    Pull(Pulled),
    /// A flush behind the last of those.
    Pulled(VolumeIndex, u32),
}

/// A client's read of this node's own store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
}

/// What is asked of the store for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptIo {
    /// A piece is read, or written again as it reads.
    Piece(Piece),
    /// The flush behind the last of those.
    Flush,
}

/// A piece that is being read, or written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) extent: Extent,
    /// What is being written.
    pub(crate) payload: Option<Payload>,
}

/// A question that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerRead {
    pub(crate) ticket: u64,
    pub(crate) length: Bytes,
    pub(crate) zeros: bool,
    /// The connection it came by.
    pub(crate) round: u32,
}

/// What is asked of the store to answer them; which question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TellerIo {
    /// Whether anything is stored there.
    Empty(u64),
    /// What is there, and how many bytes that is.
    Digest { ask: u64, length: Bytes },
}

/// What is asked of the store for a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeedIo {
    /// A look at a sample of a disk that was shipped.
    Look(Look),
    /// A flush before the operator copies a disk.
    Flush(VolumeIndex),
}

/// Names a look at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) round: u32,
    pub(crate) sample: usize,
}

/// Names a region at the gate or being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(pub(crate) u32);

/// Names a stretch under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StretchId(pub(crate) u32);

/// A comparison that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
    /// Which stream it was begun on, counted.
    pub(crate) epoch: u32,
}

/// Names a region that the peer told.
pub(crate) type Pulled = u64;

macro_rules! asks {
    ($($owner:ident($io:ty)),*) => {$(
        impl From<$io> for Purpose {
            fn from(io: $io) -> Self {
                Self::$owner(io)
            }
        }
    )*};
}

asks!(Primary(PrimaryIo), Follower(FollowerIo), Teller(TellerIo), Seed(SeedIo), Accept(AcceptIo));

impl Purpose {
    /// The item whose operation it is, if it is one's.
    #[inline]
    pub(crate) const fn item(self) -> Option<Sequence> {
        match self {
            Self::Primary(PrimaryIo::Local(at)) | Self::Follower(FollowerIo::Apply(at)) => Some(at),
            _ => None,
        }
    }
}
