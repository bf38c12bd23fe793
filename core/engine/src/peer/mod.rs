// SPDX-License-Identifier: Apache-2.0
//! What a primary keeps for its peer, the conversation with it, and what it is owed.

pub(crate) mod handshake;
pub(crate) mod heartbeat;
pub(crate) mod keeping;
pub(crate) mod lease;
pub(crate) mod link;
pub(crate) mod owed;
pub(crate) mod pause;
pub(crate) mod permit;
pub(crate) mod read_server;
pub(crate) mod session;

use handshake::Leader;
use helio_units::Moment;
use link::Session;
use read_server::PeerReads;

/// The conversation with the peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) session: Session,
    /// The process that this node follows, or followed last.
    pub(crate) leader: Option<Leader>,
    /// Reads for a primary that lacks regions.
    pub(crate) reads: PeerReads,
}

impl Peer {
    pub(crate) fn new(now: Moment) -> Self {
        Self { session: Session::new(now), leader: None, reads: PeerReads::default() }
    }
}
