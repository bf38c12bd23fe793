// SPDX-License-Identifier: Apache-2.0
//! What is asked of a primary about its peer, and what it is told of it.

use crate::lead::Primary;
use crate::lead::target::Cursors;
use crate::peer::keeping::{PeerKeeping, Shortage};
use crate::peer::owed::{Owed, PeerCopy};
use helio_units::{Moment, Sequence};

impl Primary {
    /// What the peer is owed.
    pub(crate) const fn owed(&self) -> &Owed {
        self.target.owed()
    }

    /// How far the peer is.
    pub(crate) const fn cursors(&self) -> &Cursors {
        self.target.cursors()
    }

    /// Whether the peer keeps its last consistent image while it is updated.
    pub(crate) const fn keeping(&self) -> &PeerKeeping {
        self.target.keeping()
    }

    /// A stream flows.
    pub(crate) const fn streams(&self) -> bool {
        self.target.streams()
    }

    /// Dirty regions travel on a stream that flows.
    pub(crate) const fn is_updating(&self) -> bool {
        self.target.is_updating()
    }

    /// Answers ask the peer's word.
    pub(crate) fn answers_count(&self) -> bool {
        self.target.answers_count()
    }

    /// Since when the peer is level with the answers given, if it is.
    pub(crate) fn level_since(&self) -> Option<Moment> {
        self.target.level_since()
    }

    /// The peer is to be told another generation.
    pub(crate) const fn is_to_tell_generation(&self) -> bool {
        self.target.is_to_be_told()
    }

    /// The stream goes on in another generation.
    pub(crate) const fn generation_changed(&mut self) {
        self.target.generation_changed();
    }

    /// The peer's image is known to keep the order promise.
    pub(crate) const fn peer_is_consistent(&self) -> bool {
        self.target.is_consistent()
    }

    /// The incarnation of the peer that was heard last.
    pub(crate) const fn peer_incarnation(&self) -> Option<u64> {
        self.target.incarnation()
    }

    /// An acknowledgement came from that incarnation. Returns whether a stream flows that it may be of.
    pub(crate) const fn hears(&mut self, incarnation: Option<u64>) -> bool {
        self.target.heard(incarnation)
    }

    /// The peer's image takes the place of this node's, in order from `head` on.
    pub(crate) const fn peer_leads_from(&mut self, head: Sequence, incarnation: Option<u64>) {
        self.target.lead_from(head, incarnation);
    }

    /// The peer has no room to keep its image. Returns whether it was asked to on the stream that flows.
    pub(crate) fn peer_has_no_room(&mut self, shortage: Shortage) -> bool {
        self.target.has_no_room(shortage)
    }

    /// The operator wants an update that preserves nothing on the peer.
    pub(crate) fn give_up_safe_copy(&mut self) {
        self.target.give_up_safe_copy();
    }

    /// Another reason than a shortage keeps the update from starting.
    pub(crate) fn forget_refusal(&mut self) {
        self.target.forget_refusal();
    }

    /// The peer's copy was found to be another one.
    pub(crate) const fn found(&mut self, copy: PeerCopy) {
        self.target.found(copy);
    }

    /// The peer is asked for its bitmap.
    pub(crate) const fn ask_bitmap(&mut self) {
        self.target.ask_bitmap();
    }

    /// An operator pauses replication.
    pub(crate) const fn pause(&mut self) {
        self.target.pause();
    }

    /// An update is wanted again.
    pub(crate) const fn end_pause(&mut self) {
        self.target.end_pause();
    }

    /// There is another reason why no update begins.
    pub(crate) const fn explain(&mut self, why: &'static str) {
        self.target.explain(why);
    }
}
