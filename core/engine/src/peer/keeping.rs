// SPDX-License-Identifier: Apache-2.0
//! Room for before-images that a secondary does not have, and what its primary knows of that.

use crate::config::{Config, SafeCopy};
use crate::peer::link::Session;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::copying::Copying;
use helio_format::lineage::Lineage;
use helio_format::message::{Hello, Message};
use helio_stack::Shortage;
use helio_units::Sequence;

/// The source counts on items that were not taken: the two meet again, and settle from where to go on.
pub(crate) const NO_SPACE: &str = "items were not accepted because there is no space";

/// The secondary logs that room is not there, and reports it to its primary.
pub(crate) fn tell(shortage: Shortage, session: &Session, turn: &mut Turn) {
    let Shortage { needed, free } = shortage;
    let group = &turn.config().group;
    turn.warn(format!(
        "no space to preserve the last consistent copy: {needed} required, {free} available; enlarge the file system or the \
         limit, or run `helio resync {group} --give-up-safe-copy` on the primary"
    ));
    if session.peer().is_some() {
        turn.send(Message::Copying(Copying::NoRoom { wanted: needed.0, free: free.0 }));
    }
}

/// What a primary knows of its peer's before-images.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum PeerKeeping {
    /// The peer was not asked to preserve anything.
    #[default]
    Unasked,
    /// The stream that flows, or the last one, asked for it.
    Asked,
    /// It asked, and the peer had no room.
    Refused(Shortage),
    /// The operator gave it up for this resync. `from`: where the stream began that asks for none, once the peer may have
    /// received that on this connection.
    GivenUp { from: Option<Sequence> },
}

impl PeerKeeping {
    /// Whether a stream that begins there is to ask for it; one that keeps the image consistent needs none.
    pub(crate) fn ask(&mut self, from: Sequence, consistent: bool, safe_copy: SafeCopy) -> bool {
        *self = match self {
            _ if consistent => Self::Unasked,
            Self::GivenUp { from: None } => Self::GivenUp { from: Some(from) },
            _ if safe_copy.is_on() => Self::Asked,
            // A peer that received `from` has nothing left that could be given up.
            _ => Self::Unasked,
        };
        matches!(self, Self::Asked)
    }

    /// The peer connected. What was given up is given up once: not again if the peer received an item of that stream. One that
    /// took it up and received none has nothing left to lose. `ours`: the generations of this node's line, on which a peer that
    /// followed an earlier one has only what came before the next.
    pub(crate) fn met(&mut self, peer: &Hello, ours: &Lineage) {
        let Self::GivenUp { from } = self else { return };
        let followed = peer.lineage.generation;
        let end =
            if followed == ours.generation { Some(peer.head) } else { ours.fork_from(followed) };
        let received = |from| end.is_some_and(|end| peer.head.min(end) >= from);
        if from.take().is_some_and(received) {
            self.is_over();
        }
    }

    /// The peer's image is consistent again.
    pub(crate) fn is_over(&mut self) {
        *self = Self::Unasked;
    }

    /// The operator wants a resync that preserves nothing on the peer.
    pub(crate) fn give_up(&mut self) {
        *self = Self::GivenUp { from: None };
    }

    /// Whether the peer was asked, so that it may report a shortage.
    pub(crate) const fn is_asked(&self) -> bool {
        matches!(self, Self::Asked | Self::Refused(_))
    }

    pub(crate) fn refuse(&mut self, shortage: Shortage) {
        *self = Self::Refused(shortage);
    }

    pub(crate) const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Another reason than a shortage keeps the resync from starting.
    pub(crate) fn forget_refusal(&mut self) {
        if self.is_refused() {
            *self = Self::Asked;
        }
    }

    /// Why a resync does not start, if the peer lacks room for it.
    pub(crate) fn needs_room(&self, config: &Config) -> String {
        let Self::Refused(Shortage { needed, free }) = self else { return String::new() };
        let (peer, group) = (&config.peer, &config.group);
        format!(
            "{peer} has no space to preserve its last consistent copy during a resync: {needed} required, {free} \
             available; enlarge the file system or the limit there and run `helio resync {group}`, or run `helio \
             resync {group} --give-up-safe-copy`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_consistent_has_nothing_left_that_could_be_given_up() {
        let on = SafeCopy::On { bound: None };
        let mut peer = PeerKeeping::GivenUp { from: None };
        assert!(!peer.ask(Sequence(5), false, on), "given up once");
        let mut again = PeerKeeping::GivenUp { from: None };
        assert!(!again.ask(Sequence(5), true, on), "a consistent stream needs none");
        assert!(again.ask(Sequence(9), false, on), "and the next one asks for it again");
        assert!(peer.ask(Sequence(9), false, on), "the peer received the one before");
    }
}
