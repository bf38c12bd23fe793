// SPDX-License-Identifier: Apache-2.0
//! Whether the peer keeps its last consistent image, as its primary hears or decides of it.

use crate::lead::Primary;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::turn::Turn;
use alloc::string::String;
use helio_stack::Shortage;

impl Primary {
    /// The peer has no room to keep its image: the update does not go on. Returns why the two must meet again, if they must.
    pub(crate) fn peer_has_no_room(
        &mut self,
        shortage: Shortage,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Option<String> {
        if !self.target.has_no_room(shortage) {
            return None;
        }
        if self.lack.is_some() {
            // Marks could not take the queue's place: the two meet again, until there is room or it is given up.
            return Some(self.target.keeping().needs_room(turn.config()));
        }
        self.drop_queue("the peer has no space to preserve its copy", local, permit, turn);
        self.ship_later("the peer has no space to preserve its last complete copy", turn);
        None
    }

    /// Updates without keeping the peer's last consistent image.
    pub(crate) fn give_up_safe_copy(
        &mut self,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        self.target.give_up_safe_copy();
        // An update under way begins anew, so that the peer hears of it.
        if self.target.is_updating() {
            let because = "the operator requested a resync without a safe copy";
            self.drop_queue(because, local, permit, turn);
        }
    }
}
