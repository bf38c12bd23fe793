// SPDX-License-Identifier: Apache-2.0
//! Who asked for an operation on the store, and what for.

use crate::follow::follower::FollowerIo;
use crate::lead::PrimaryIo;
use crate::lead::lack::Reader;
use crate::local::suspect::AcceptIo;
use crate::peer::read_server::PeerRead;
use crate::resync::digest::TellerIo;
use crate::resync::seed::SeedIo;
use helio_units::{Sequence, VolumeIndex};

/// Who asked for an operation on the store, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client reads.
    Read(Reader),
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
}

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
