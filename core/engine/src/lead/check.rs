// SPDX-License-Identifier: Apache-2.0
//! The check that the peer did not take over, as the primary sees it.

use crate::lead::Primary;
use crate::local::Local;
use crate::peer::link::Session;
use crate::peer::pause::Proof;
use crate::peer::permit::Permit;
use crate::turn::Turn;
use helio_plant::{Plant, planted};
use helio_units::Moment;

impl Primary {
    /// The peer serves, too. A primary that acknowledged nothing without it does not begin to.
    pub(crate) fn rival_seen(&self, permit: &mut Permit, session: &mut Session, now: Moment) {
        if !self.acknowledges_alone() && !planted(Plant::PauseIgnored) {
            permit.needs_check(now, session, now);
        }
    }

    /// Acknowledges again, if something passed the check.
    pub(crate) fn check_ends(
        &mut self,
        passed: Option<Proof>,
        local: &Local,
        permit: &mut Permit,
        turn: &mut Turn,
    ) {
        if let Some(proof) = passed {
            permit.check_passed(proof, turn);
            self.consider_all(local, permit, turn);
        }
    }
}
