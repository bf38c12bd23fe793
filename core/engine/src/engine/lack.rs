// SPDX-License-Identifier: Apache-2.0
//! The record of regions that only the peer has, and the peer's answers about them.

use crate::engine::Engine;
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
            (talk, None) => self.peer.reads_mut().ask(talk, &self.local, &self.turn),
            (talk, Some(_)) => Err(crate::peer::session::out_of_turn(&Message::Reading(talk))),
        };
        if let (Err(_), Some(payload)) = (&result, talk.payload()) {
            self.turn.release(payload.id);
        }
        result
    }
}
