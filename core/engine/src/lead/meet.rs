// SPDX-License-Identifier: Apache-2.0
//! What a primary takes of the peer's hello.

use crate::lead::Primary;
use crate::local::Local;
use crate::peer::owed::PeerCopy;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Goal;
use crate::resync::update::Update;
use crate::turn::Turn;
use helio_format::lineage::Lineage;
use helio_format::message::Hello;
use helio_plant::{Plant, planted};
use helio_recovery::Facts;
use helio_units::Sequence;

impl Primary {
    /// Nothing is known of the peer's copy: everything is marked, durably, and then copied.
    pub(crate) fn copy_everything(
        &mut self,
        update: &mut Update,
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        self.target.found(PeerCopy::Unknown);
        self.forget_committed();
        self.marks.set_all();
        self.drop_queue("the content of the peer's copy is unknown", local, permit, turn);
        local.hot_mut().bitmap_changed();
        update.await_record();
        record.want(Goal::Void);
    }

    /// The peer told all its marks. Returns whether they tell what to copy.
    pub(crate) fn marks_ended(
        &mut self,
        trusted: bool,
        update: &mut Update,
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> bool {
        if trusted {
            self.drop_queue("order was lost", local, permit, turn);
            local.hot_mut().bitmap_changed();
        } else {
            self.copy_everything(update, record, local, permit, turn);
        }
        trusted
    }

    /// Takes note of what the peer's hello says of its image.
    pub(crate) fn meets(&mut self, peer: &Hello, ours: &Lineage) {
        self.target.met(peer, ours);
        // The peer completed the update, but its acknowledgement was lost. If it restored an earlier image, it wrote, its generation
        // differs, or its bitmap is not trusted.
        let same = peer.lineage.generation == ours.generation && !peer.wrote;
        if peer.consistent && peer.trusted && same {
            self.marks.end_update();
        }
        if !peer.consistent {
            self.forget_committed();
        }
    }

    /// Whether the peer holds less than it reported as durable: its machine went back, and perhaps its memory with it.
    pub(crate) fn peer_went_back(&self, peer: &Hello, ours: &Lineage) -> bool {
        let same_process = self.target.incarnation() == Some(peer.incarnation);
        let known = same_process || peer.lineage.generation == ours.generation;
        let followed = !(peer.wrote || peer.alone);
        // After a shipped cut, `durable` is the last item in the cut, and the marker of the cut is behind that item. So the position that
        // the peer received is compared with the position that it reported as durable. A peer that follows no primary reports 0: that is
        // less, too, if the same process reported it, since a process that has followed follows on, or says that its bitmap is void.
        let follows = peer.received > Sequence::ZERO;
        let heard_less = (same_process || follows) && peer.received < self.target.told_durable();
        // After a crash the head is that of the record, which is behind what was reported as durable.
        let least =
            if peer.clean { self.target.cursors().durable() } else { self.target.recorded() };
        let holds_less = followed && known && (peer.head.max(peer.received) < least || heard_less);
        // It recorded the generation of an item before it reported that item as durable, and is now in an earlier one, perhaps as
        // its former primary. Which process says so does not matter: an earlier one may come back, with its machine. A peer whose
        // own writes an operator discarded goes back to what its newest hello of this node names: it is on no line.
        let fork = ours.fork_from(peer.lineage.generation);
        let before = fork.is_some_and(|fork| fork < self.target.told_durable());
        // It was heard in this tenure, or the record says what it has durable: everything.
        let known_durable =
            self.target.incarnation().is_some() || self.target.owed().queues_in_order();
        known_durable
            && peer.trusted
            && (holds_less || peer.is_on_line() && before)
            && !planted(Plant::TrustSnapshot)
    }

    /// Whether the peer has not adopted the generation of this primary's reverse resync yet. Always false after a disk failure:
    /// the write order continues.
    pub(crate) fn is_reversed_for(&self, peer: &Hello, ours: &Hello) -> bool {
        let reverses = self.lack.as_ref().is_some_and(|lack| lack.reverses());
        reverses && peer.lineage.generation != ours.lineage.generation
    }

    /// What this primary remembers of a peer whose copy lies on its line. `unfit`: items on it are too narrow for the peer.
    pub(crate) fn recall(&self, peer: &Hello, reversed: bool, unfit: bool, facts: &mut Facts) {
        let received = peer.received;
        facts.same_memory = !reversed && self.target.incarnation() == Some(peer.incarnation);
        facts.equal = !unfit && self.target.owed().queues_in_order();
        facts.line_from_received = !unfit
            && !reversed
            && (self.target.cursors().durable()..=self.target.cursors().sent()).contains(&received)
            && self.can_resume_behind(received);
        facts.line_from_durable = !unfit
            && self.target.incarnation().is_some()
            && self.can_resume_behind(self.target.cursors().durable());
    }
}
