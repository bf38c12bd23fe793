// SPDX-License-Identifier: Apache-2.0
//! The record of regions that only the peer has, and the peer's answers about them.

use crate::engine::Engine;
use crate::lead::lack::Due;
use crate::record::save::Goal;
use alloc::string::String;
use helio_format::message::Message;
use helio_format::reading::Reading;

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
        match primary.lack_due(self.local.metadata_failed()) {
            Due::Nothing => {}
            Due::News => primary.consider_all(&self.local, &self.permit, &mut self.turn),
            Due::Record(goal) => self.record.want(goal),
            Due::Unrecordable => {
                primary.lack_unrecorded(&mut self.local, &self.permit, &mut self.turn)
            }
        }
    }

    /// The record says that this node's image is not consistent, or is again.
    pub(crate) fn lack_saved(&mut self, goal: Goal) {
        let connected = self.peer.session.peer().is_some();
        let Some(primary) = self.standing.primary_mut() else { return };
        if goal == Goal::Whole {
            return primary.whole_saved(&self.local, &self.permit, &mut self.turn);
        }
        primary.lacking_saved(
            connected,
            &self.record,
            &mut self.resync.verify,
            &self.local,
            &self.permit,
            &mut self.turn,
        );
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
}
