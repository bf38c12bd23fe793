// SPDX-License-Identifier: Apache-2.0
//! The check after a pause, among the other rooms.

use crate::show::view::View;
use helio_units::Moment;

impl View<'_> {
    /// Whether this node is primary, has a peer, and its clock went on for longer than the peer timeout since the last event.
    /// Acknowledgements must not be sent then: put them back among the effects, and settle.
    #[must_use]
    pub fn was_paused(&self, now: Moment) -> bool {
        self.standing.leads()
            && now - self.turn.now() > self.turn.config().peer_timeout
            && self.turn.config().peer_name().is_some()
    }

    /// The moment from which this primary needs a check that its peer did not take over, if it needs one: an attempt to
    /// connect that begins then or later and fails is one.
    #[must_use]
    pub fn awaits_check(&self) -> Option<Moment> {
        self.permit.pause().needed_since()
    }
}
