// SPDX-License-Identifier: Apache-2.0
//! The record of regions that only the peer has, and the peer's answers about them.

use crate::effect::Answer;
use crate::engine::Engine;
use crate::lead::lack::Due;
use crate::lead::lack::Reversal;
use crate::lead::outgoing::Opening;
use crate::refusal::{Denial, StoreFault};
use crate::show::view::View;
use crate::stream::unreplicated::Unreplicated;
use alloc::format;
use alloc::string::String;
use helio_format::message::Message;
use helio_format::reading::Reading;
use helio_format::superblock::Superblock;

impl Engine {
    /// The two speak about what the primary lacks.
    ///
    /// # Errors
    /// What was said is out of turn, or about what does not exist: the connection must end.
    pub(crate) fn peer_reading(&mut self, talk: Reading) -> Result<(), String> {
        let pulls = self.standing.serves();
        let result = match (talk, self.standing.primary_mut()) {
            (Reading::Told { ticket, what }, Some(primary)) => primary.read_told(
                (ticket, what),
                pulls,
                &mut self.local,
                &self.permit,
                &mut self.turn,
            ),
            (talk, None) => self.peer.reads.ask(talk, &self.local, &self.turn),
            (talk, Some(_)) => Err(crate::peer::session::out_of_turn(&Message::Reading(talk))),
        };
        if let (Err(_), Some(payload)) = (&result, talk.payload()) {
            self.turn.release(payload.id);
        }
        result
    }

    /// Asks for the records that go with lacking regions.
    pub(crate) fn record_lack(&mut self) {
        // A store may be given up while the last requests before a demotion are answered: they wait for the record too.
        let leads = self.standing.serves() || self.standing.is_draining();
        if !leads || self.record.is_saving() {
            return;
        }
        let Some(primary) = self.standing.primary_mut() else { return };
        let kept = primary.marks.is_saved();
        let Some(lack) = &mut primary.lack else { return };
        match lack.due(kept, self.local.metadata_failed()) {
            Due::Nothing => {}
            Due::News => primary.consider_all(&self.local, &self.permit, &mut self.turn),
            Due::Record(goal) => self.record.want(goal),
            Due::Unrecordable => self.lack_unrecorded(),
        }
    }

    /// The record says that this node's image is not consistent: from here on the peer's is served.
    pub(crate) fn lacking_saved(&mut self) {
        let lineage = self.record.superblock().lineage;
        let connected = self.peer.session.peer().is_some();
        let Some(primary) = self.standing.primary_mut() else { return };
        let marked = primary.marks.dirty_bytes();
        let Some(lack) = &mut primary.lack else { return };
        let reversal = lack.recorded();
        let peer = self.turn.config().peer.clone();
        primary.copier.progress_mut().begin(marked, self.turn.now());
        if let Some(Reversal { head, .. }) = reversal {
            primary.unreplicated = Unreplicated::Together;
            if connected {
                primary.begin_stream(
                    Opening { lineage, from: head.next(), consistent: true },
                    &mut self.resync.verify,
                    &self.local,
                    &self.permit,
                    &mut self.turn,
                );
            }
        }
        self.turn.info(format!(
            "{marked} in dirty regions are served from {peer}, and copied from there"
        ));
        primary.consider_all(&self.local, &self.permit, &mut self.turn);
        if let Some(Reversal { command, .. }) = reversal {
            self.turn.done(
                command,
                Ok(format!(
                    "the copy of {peer} is served from now on; {marked} are copied in the \
                                           background"
                )),
            );
        }
    }

    /// That record could not be made: a reversal does not begin, and where a store was lost nothing is answered that the
    /// record would have to tell of.
    pub(crate) fn lack_unrecorded(&mut self) {
        let Some(primary) = self.standing.primary_mut() else { return };
        if primary.has_lost() {
            // What ends later is denied as well.
            if let Some(lack) = &mut primary.lack {
                lack.record_again();
            }
            primary.deny_all(&mut self.turn);
            return primary.release_front(&mut self.turn);
        }
        let Some(lack) = primary.lack.take() else { return };
        for id in lack.reads() {
            self.turn.reply(id, Answer::Denied(Denial::Store(StoreFault::Io)));
        }
        primary.marks.abandon_copies();
        let Some(Reversal { command, .. }) = lack.reversal() else { return };
        primary.drop_queue(
            "the reverse resync could not be recorded",
            &mut self.local,
            &self.permit,
            &mut self.turn,
        );
        self.local.hot_mut().bitmap_changed();
        self.turn.done(command, Err(self.turn.metadata_refusal()));
    }

    /// What waits for a place in the metadata fails with everything else that waits for a peer that stays away.
    pub(crate) fn deny_parked(&mut self) {
        let denying = self.standing.primary().is_some_and(|p| p.is_denying(&self.turn));
        if !denying || !self.local.hot().is_stuck() {
            return;
        }
        // That is no fault of the store's.
        self.fail_parked();
    }

    /// The record says that this node's image is consistent again.
    pub(crate) fn whole_saved(&mut self) {
        let Some(primary) = self.standing.primary_mut() else { return };
        if !primary.marks.none_dirty() {
            if let Some(lack) = &mut primary.lack {
                lack.record_again();
            }
            return;
        }
        primary.lack = None;
        primary.distrusted.clear();
        self.turn.info(format!(
            "this node has everything again and no longer needs {}",
            self.turn.config().peer
        ));
        primary.mode_changed(&self.local, &self.permit, &mut self.turn);
    }
}

impl View<'_> {
    /// Changes the record of a primary that has all regions again and no suspect copy. Changes nothing if a region was marked since
    /// the save was requested.
    pub(crate) fn shape_whole(&self, b: &mut Superblock) {
        if self.standing.primary().is_some_and(|primary| primary.marks.none_dirty()) {
            (b.consistent, b.suspect) = (true, 0);
        }
    }
}
