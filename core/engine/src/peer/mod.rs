// SPDX-License-Identifier: Apache-2.0
//! The conversation with the peer, leases and the check after a pause, and the type of what a peer can be owed.

pub(crate) mod attempts;
pub(crate) mod disks;
pub(crate) mod handshake;
pub(crate) mod hang_up;
pub(crate) mod heartbeat;
pub(crate) mod keeping;
pub(crate) mod lease;
pub(crate) mod link;
pub(crate) mod owed;
pub(crate) mod pause;
pub(crate) mod permit;
pub(crate) mod read_server;
pub(crate) mod session;

use crate::local::blocks::Blocks;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use disks::Disks;
use handshake::Leader;
use helio_format::invalid::Invalid;
use helio_format::message::Message;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Generation, Moment, VolumeIndex};
use link::Session;
use permit::Permit;
use read_server::PeerReads;

/// The conversation with the peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    session: Session,
    /// The process that this node follows, or followed last.
    leader: Option<Leader>,
    reads: PeerReads,
    disks: Disks,
}

impl Peer {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            session: Session::new(now),
            leader: None,
            reads: PeerReads::default(),
            disks: Disks::default(),
        }
    }

    #[inline]
    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    #[inline]
    pub(crate) const fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Reads for a primary that lacks regions.
    #[inline]
    pub(crate) const fn reads_mut(&mut self) -> &mut PeerReads {
        &mut self.reads
    }

    /// The process that this node follows, or followed last.
    pub(crate) const fn leader(&self) -> Option<Leader> {
        self.leader
    }

    /// The connected peer begins a stream in that generation: it is the primary that this node follows.
    pub(crate) fn follow(&mut self, generation: Generation) {
        self.session.stream_begins();
        self.leader = self.session.peer().map(|source| Leader::new(source, generation));
    }

    /// Refuses a peer whose members need larger blocks than clients here were told. Returns why, if it did.
    pub(crate) fn refuse_blocks(&mut self, blocks: &Blocks, turn: &mut Turn) -> Option<String> {
        let pairs = (0u16..).map(VolumeIndex).zip(&self.session.peer()?.blocks);
        let mut narrower =
            pairs.map(|(volume, theirs)| (volume, theirs.member, blocks.offered(volume)));
        let (volume, theirs, ours) = narrower.find(|(_, theirs, ours)| theirs > ours)?;
        if planted(Plant::PeerBlockIgnored) {
            return None;
        }
        let config = turn.config();
        let (theirs, ours) = (Bytes(theirs.into()), Bytes(ours.into()));
        let why = format!(
            "block-size: {}'s member of volume {} has blocks of {theirs}, and clients on {} use the volume with blocks of \
             {ours}",
            config.peer,
            config.name_of(volume),
            config.node
        );
        let hint = format!(
            "on {}, disconnect the NBD clients of {} and detach its volumes; then blocks of {theirs} are offered, \
             and the clients can connect again",
            config.node, config.group
        );
        turn.warn(format!("{why}; {hint}"));
        self.session.refuse("block-size", hint);
        Some(why)
    }

    /// The peer asks to become primary, and this node does not agree, or agrees if it has no reason not to.
    pub(crate) fn answer_request(
        &mut self,
        refused: Option<String>,
        permit: &mut Permit,
        turn: &mut Turn,
    ) {
        if let Some(why) = &refused {
            let peer = &turn.config().peer;
            turn.info(format!("{why}; the promotion of {peer} is refused"));
        } else {
            // Who gave its word may not become primary unasked.
            permit.lease_mut().give_back(true, turn.effects());
            self.session.agree();
        }
        let granted = refused.is_none();
        turn.send(Message::PromoteReply { granted, text: refused.unwrap_or_default() });
    }

    /// This node's record says that the peer's metadata tells nothing: the primary may go on.
    pub(crate) fn tell_recorded(&self, turn: &mut Turn) {
        if self.session.peer().is_some() {
            turn.send(Message::Invalid(Invalid::Recorded));
        }
    }
}
