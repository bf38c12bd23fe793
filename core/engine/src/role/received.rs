// SPDX-License-Identifier: Apache-2.0
//! What a node does with what arrives, by its role.

use crate::local::Local;
use crate::peer::hang_up::HangUp;
use crate::peer::permit::Permit;
use crate::peer::read_server::PeerReads;
use crate::peer::session::out_of_turn;
use crate::record::Record;
use crate::resync::digest::Teller;
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::message::{Item, Message, Parting, Start};
use helio_format::reading::Reading;
use helio_format::snapshot::Snapshot;
use helio_stack::Shortage;

impl Standing {
    /// The peer sent an item.
    ///
    /// # Errors
    /// None is to be sent here, or not this one: the connection must end.
    pub(crate) fn peer_item(
        &mut self,
        item: Item,
        local: &Local,
        turn: &mut Turn,
    ) -> Result<(), String> {
        let secondary = self.is(Following::Secondary);
        let Some(follower) = self.follower_mut().filter(|_| secondary) else {
            turn.release_stray(&Message::Item(item));
            return Err(format!(
                "item {} arrived at a node that is not the secondary",
                item.sequence
            ));
        };
        if follower.failed().is_some() {
            turn.release_stray(&Message::Item(item));
            return Ok(());
        }
        let result = follower.receive(item, local, turn);
        if result.is_err() {
            turn.release_stray(&Message::Item(item));
        }
        result
    }

    /// The peer announces a snapshot item.
    ///
    /// # Errors
    /// None is to be sent here, or not this one: the connection must end.
    pub(crate) fn peer_announces(&mut self, snapshot: Snapshot) -> Result<(), String> {
        let secondary = self.is(Following::Secondary);
        match self.follower_mut().filter(|_| secondary) {
            Some(follower) if follower.failed().is_some() => Ok(()),
            Some(follower) => follower.announced(snapshot),
            None => Err(format!(
                "item {} was announced to a node that is not the secondary",
                snapshot.at
            )),
        }
    }

    /// The two speak about regions that only the peer of a primary has.
    ///
    /// # Errors
    /// What was said is out of turn, or about what does not exist: the connection must end.
    pub(crate) fn peer_reading(
        &mut self,
        talk: Reading,
        reads: &mut PeerReads,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<(), String> {
        let (pulls, hands_over) = (self.serves(), self.hands_over());
        let result = match (talk, self.primary_mut()) {
            (Reading::Told { .. }, None) if hands_over => {
                turn.release_stray(&Message::Reading(talk));
                return Ok(());
            }
            (Reading::Told { ticket, what }, Some(primary)) => {
                primary.read_told((ticket, what), pulls, local, permit, turn)
            }
            (talk, None) => reads.ask(talk, local, turn),
            (talk, Some(_)) => Err(out_of_turn(&Message::Reading(talk))),
        };
        if let (Err(_), Some(payload)) = (&result, talk.payload()) {
            turn.release(payload.id);
        }
        result
    }

    /// This node asked the peer to take the role over. Responses to its earlier requests may still arrive.
    pub(crate) fn hands_over(&self) -> bool {
        matches!(self.stage(), Stage::Following(Following::Handing { .. }))
    }

    /// Serves the primary's digest and read requests about this node's copy. `blank`: this node has no history.
    pub(crate) fn serve_held(
        &self,
        blank: bool,
        teller: &mut Teller,
        reads: &mut PeerReads,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Some(follower) = self.follower() else { return };
        if (follower.is_following() || blank) && follower.failed().is_none() {
            if follower.is_settled() {
                teller.serve(local, turn);
            }
            // Before a stream is adopted the cursors belong to another one, and do not apply to reads behind an item.
            if follower.is_following() {
                reads.serve(follower.completed(), local, turn);
            }
        } else if follower.is_deaf() {
            teller.decline(turn);
        }
    }

    /// The peer has no room to keep its image.
    ///
    /// # Errors
    /// It was not asked to: the connection must end.
    pub(crate) fn peer_has_no_room(
        &mut self,
        shortage: Shortage,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<Option<HangUp>, String> {
        let Some(primary) = self.primary_mut() else {
            return Err(String::from("a lack of space was reported to a node that copies nothing"));
        };
        let why = primary.peer_has_no_room(shortage, local, permit, turn);
        Ok(why.map(|why| HangUp::new(Parting::RoleChanged, why)))
    }

    /// An acknowledgement arrived at a node that leads no line.
    ///
    /// # Errors
    /// None is to be sent here: the connection must end.
    pub(crate) fn stray_ack(&self) -> Result<(), String> {
        // What the one that was asked to take over says of the stream that just ended.
        if self.hands_over() {
            return Ok(());
        }
        Err(String::from("an acknowledgement arrived at a node that sends nothing"))
    }

    /// Received items are to become durable at once.
    pub(crate) fn hurry(&mut self) {
        if let Some(follower) = self.follower_mut() {
            follower.hurry();
        }
    }

    /// No more items are accepted.
    pub(crate) fn refuse_items(&mut self, turn: &mut Turn) {
        if let Some(follower) = self.follower_mut() {
            follower.refuse(turn);
        }
    }

    /// The record says that this node follows.
    pub(crate) fn adopted(
        &mut self,
        start: Start,
        record: &mut Record,
        local: &mut Local,
        turn: &Turn,
    ) {
        record.keeping_mut().line_changed(local.hot_mut(), turn.now());
        if !start.consistent {
            self.mark_unsettled(record, local);
        }
        if let Some(follower) = self.follower_mut() {
            follower.adopted(start);
        }
    }

    /// The record says that this node's image is consistent again.
    pub(crate) fn marker_saved(&mut self, turn: &mut Turn) {
        if let Some(follower) = self.follower_mut() {
            follower.marker_saved(turn);
        }
    }
}
