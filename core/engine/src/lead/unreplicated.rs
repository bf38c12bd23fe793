// SPDX-License-Identifier: Apache-2.0
//! A primary that goes on without its peer.

use crate::lead::Primary;
use crate::lead::outgoing::Opening;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::resync::verify::Verify;
use crate::stream::unreplicated::Unreplicated;
use crate::turn::Turn;
use helio_format::lineage::Lineage;

impl Primary {
    /// Whether the record of the generation says that writes are acknowledged without the peer.
    pub(crate) fn acknowledges_alone(&self) -> bool {
        self.unreplicated == Unreplicated::Recorded
    }

    /// Goes on in the generation that was recorded, once the peer has taken up the stream before it: a stream that
    /// begins twice would make it forget what came between.
    pub(crate) fn go_on_in(
        &mut self,
        lineage: Lineage,
        verify: &mut Verify,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        if !self.is_taken_up() {
            return;
        }
        // A marker that is on its way ends the inconsistency before the peer takes up the new generation.
        let sent = self.target.cursors().sent();
        let consistent = self.target.owed().is_consistent_after(sent);
        self.begin_stream(
            Opening { lineage, from: sent.next(), consistent },
            verify,
            local,
            permit,
            turn,
        );
    }

    /// It cannot be recorded that writes are acknowledged without the peer: then none is.
    pub(crate) fn refuse_alone(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        self.unreplicated = Unreplicated::Unrecordable;
        self.consider_all(local, permit, turn);
    }
}
