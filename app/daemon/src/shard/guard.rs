// SPDX-License-Identifier: Apache-2.0
//! Who may speak on a connection between nodes.

use crate::shard::stream::Stream;
use helio_tls::{PeerTls, PublicKey, Purpose, Session};

/// What one group asks of its peer's connection.
#[derive(Clone, Debug, Default)]
pub(crate) enum Guard {
    /// Nothing: both are on loopback addresses and have no keys.
    #[default]
    Open,
    /// One of these keys, and TLS under this node's own.
    Keyed { own: PeerTls, peer: Vec<PublicKey> },
}

impl Guard {
    /// The session of a connection this node makes; none where nothing is asked.
    pub(crate) fn dial(&self) -> Option<Session> {
        match self {
            Self::Open => None,
            Self::Keyed { own, peer } => Some(own.dial(peer, Purpose::Peer)),
        }
    }

    /// Whether a connection is what the group asks for.
    pub(crate) fn admits(&self, stream: &Stream) -> bool {
        match self {
            Self::Open => !stream.is_sealed(),
            Self::Keyed { peer, .. } => stream.peer_key().is_some_and(|key| peer.contains(&key)),
        }
    }
}

/// What all groups together ask of whoever calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Door {
    own: Option<PeerTls>,
    trusted: Vec<PublicKey>,
    open: bool,
}

impl Door {
    pub(crate) fn of<'a>(guards: impl Iterator<Item = &'a Guard>) -> Self {
        let mut door = Self::default();
        for guard in guards {
            match guard {
                Guard::Open => door.open = true,
                Guard::Keyed { own, peer } => {
                    door.own = Some(own.clone());
                    door.trusted.extend_from_slice(peer);
                }
            }
        }
        door
    }

    /// The session of a caller that begins with that byte; `Err` where it must go without another byte being read.
    pub(crate) fn answer(&self, first: u8) -> Result<Option<Session>, &'static str> {
        /// A TLS handshake begins with it, and no frame of ours.
        const TLS: u8 = 0x16;
        match &self.own {
            Some(own) if first == TLS || !self.open => {
                Ok(Some(own.accept(&self.trusted, Purpose::Peer)))
            }
            _ if self.open => Ok(None),
            _ => Err("this node has no peers"),
        }
    }
}
