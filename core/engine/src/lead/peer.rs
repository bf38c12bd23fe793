// SPDX-License-Identifier: Apache-2.0
//! What is asked of a primary about its peer, and what it is told of it.

use crate::lead::Primary;
use crate::lead::target::Cursors;
use crate::peer::keeping::PeerKeeping;
use crate::peer::owed::Owed;
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

    /// The last position that the peer told this primary to be durable.
    pub(crate) const fn told_durable(&self) -> Sequence {
        self.target.told_durable()
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

    /// The peer's image is known to keep the order promise.
    pub(crate) const fn peer_is_consistent(&self) -> bool {
        self.target.is_consistent()
    }

    /// If a stream to the peer began since its last hello: whether that left a consistent image there.
    pub(crate) const fn left_consistent(&self) -> Option<bool> {
        self.target.left_consistent()
    }

    /// The incarnation of the peer that was heard last.
    pub(crate) const fn peer_incarnation(&self) -> Option<u64> {
        self.target.incarnation()
    }

    /// Another reason than a shortage keeps the update from starting.
    pub(crate) fn forget_refusal(&mut self) {
        self.target.forget_refusal();
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
