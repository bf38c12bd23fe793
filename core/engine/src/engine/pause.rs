// SPDX-License-Identifier: Apache-2.0
//! The check after a pause, among the other rooms.

use crate::engine::Engine;
use crate::lead::Primary;
use crate::peer::pause::Proof;
use crate::show::view::View;
use alloc::format;
use helio_plant::{Plant, planted};
use helio_units::Moment;

impl Engine {
    /// The clock shows `now`. Effects that were not performed yet lie in `turn`.
    pub(crate) fn advance(&mut self, now: Moment) {
        let paused = self.view().was_paused(now);
        let gap = now - self.turn.now();
        self.turn.advance(now);
        if !paused || planted(Plant::PauseIgnored) {
            return;
        }
        let peer = &self.turn.config().peer;
        self.turn.info(format!(
            "this process was suspended for {:.1} s: this node checks whether {peer} was promoted. Until then it \
             acknowledges only writes that are durable on {peer}",
            gap.as_secs_f64()
        ));
        self.permit.pause_mut().hold(self.turn.effects());
        self.permit.pause_mut().needs_check(self.turn.now());
        self.peer.session.prove_anew(self.turn.now());
    }

    /// The peer serves, too. A primary that acknowledged nothing without it does not begin to.
    pub(crate) fn rival_seen(&mut self) {
        let together = |p: &Primary| !p.acknowledges_alone();
        if self.standing.primary().is_some_and(together) && !planted(Plant::PauseIgnored) {
            self.permit.pause_mut().needs_check(self.turn.now());
            self.peer.session.prove_anew(self.turn.now());
        }
    }

    /// Acknowledges again, if something passes the check.
    pub(crate) fn check_ends(&mut self, passed: Option<Proof>) {
        let Some(proof) = passed else { return };
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        let why = match proof {
            Proof::Unreachable => format!("{peer} cannot be reached"),
            Proof::NotServed => format!("the daemon on {peer} does not serve {group}"),
            _ => format!("{peer} does not serve {group}"),
        };
        self.turn.info(format!("{why}: writes are acknowledged again"));
        self.permit.pause_mut().end(self.turn.effects());
        self.answer_withheld();
    }
}

impl View<'_> {
    /// Whether this node is primary and its clock went on for longer than the peer timeout since the last event.
    /// Acknowledgements must not be sent then: put them back among the effects, and settle.
    #[must_use]
    pub fn was_paused(&self, now: Moment) -> bool {
        self.standing.leads() && now - self.turn.now() > self.turn.config().peer_timeout
    }

    /// The moment from which this primary needs a check that its peer did not take over, if it needs one: an attempt to
    /// connect that begins then or later and fails is one.
    #[must_use]
    pub fn awaits_check(&self) -> Option<Moment> {
        self.permit.pause().needed_since()
    }
}
