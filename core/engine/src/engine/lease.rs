// SPDX-License-Identifier: Apache-2.0
//! The hold lease among the other rooms: when it is asked for, granted, and taken over by.

use crate::engine::Engine;
use crate::follow::follower::Follower;
use crate::peer::lease::Use;
use crate::peer::lease::say;
use crate::record::save::Leave;
use crate::role::Following;
use crate::show::view::View;
use core::time::Duration;
use helio_format::lease::Lease as Talk;
use helio_format::lineage::Relation;
use helio_plant::{Plant, planted};
use helio_units::{Moment, State};

impl Engine {
    /// Does what is due: at the end of a wait, for a primary that leaves, and for a secondary.
    pub(crate) fn lease_step(&mut self) {
        let now = self.turn.now();
        if let Some(since) = self.permit.lease_mut().end_wait(now) {
            if self.standing.leads() && !planted(Plant::LeaseEndUnchecked) {
                self.permit.needs_check(since, self.peer.session_mut(), now);
            }
            if let Some(primary) = self.standing.primary_mut() {
                primary.consider_all(&self.local, &self.permit, &mut self.turn);
            }
        }
        let leaves = self.standing.is_leaving_for_good();
        let Some(primary) = self.standing.primary_mut() else {
            let (it_may, up) = (self.view().lease_use(), self.peer.session().peer().is_some());
            return self.permit.lease_mut().step(
                it_may,
                up,
                self.turn.config().hold,
                now,
                self.turn.effects(),
            );
        };
        let gives_up = !primary.streams() && leaves;
        if self.permit.lease_mut().set_gives_up(gives_up) {
            primary.consider_all(&self.local, &self.permit, &mut self.turn);
        }
        if gives_up {
            self.permit.pause_mut().give_up(self.turn.effects());
        }
        if self.permit.lease().was_used() && self.standing.serves() {
            let last_copy = self.view().last_copy();
            let left = self.standing.leave(
                None,
                Leave::Secondary,
                last_copy,
                &mut self.record,
                &self.turn,
            );
            assert!(left.is_ok(), "a primary cannot leave: {left:?}");
        }
    }

    /// A primary grants if no answer can be given without the peer; it says nothing otherwise.
    pub(crate) fn peer_talks_lease(&mut self, talk: Talk) {
        let (b, config) = (self.record.superblock(), self.turn.config());
        match talk {
            Talk::Wanted { number, millis } => {
                let together = self.standing.serves()
                    && self.standing.primary().is_some_and(|p| p.is_together(config.mode))
                    && !(b.alone || self.record.is_saving() || self.local.metadata_failed());
                let millis = millis.min(b.hold).min(config.hold_millis());
                if together && millis != 0 {
                    self.permit
                        .lease_mut()
                        .grant(Duration::from_millis(millis.into()), self.turn.now());
                    self.turn.push(say(Talk::Granted { number, millis }));
                }
            }
            Talk::Granted { number, millis } => {
                let hold = config.hold.min(Duration::from_millis(millis.into()));
                if let Some(peer) = self.peer.session().peer() {
                    self.permit.lease_mut().receive(number, peer.incarnation, hold);
                }
            }
            Talk::Returned => {
                if self.permit.lease_mut().peer_returned()
                    && let Some(primary) = self.standing.primary_mut()
                {
                    primary.consider_all(&self.local, &self.permit, &mut self.turn);
                }
            }
        }
    }
}

impl View<'_> {
    /// Whether this node is, or is about to be, primary by its hold lease.
    #[must_use]
    pub fn leads_by_lease(&self) -> bool {
        self.permit.lease().is_used()
    }

    /// Until when this node may become primary by its hold lease, if it has one.
    #[must_use]
    pub fn lease_held(&self) -> Option<Moment> {
        let until = self.permit.lease().held_until()?;
        (self.turn.now() < until && self.lease_use() != Use::Nothing).then_some(until)
    }

    /// The peer introduced itself while this primary waits for its lease to end: as primary, by that lease?
    pub(crate) fn lease_was_taken(&self) -> bool {
        let (Some(p), Some(peer)) = (self.standing.primary(), self.peer.session().peer()) else {
            return false;
        };
        let Relation::Descendant(fork) =
            self.record.superblock().lineage.relation_of(&peer.lineage)
        else {
            return false;
        };
        let same = p.peer_incarnation() == Some(peer.incarnation)
            && peer.sure
            && p.has_answered_only(fork);
        same && self.permit.withholds(self.turn.now()) && !self.permit.lease().was_used()
    }

    /// What this node may do with a lease.
    pub(crate) fn lease_use(&self) -> Use {
        let may_use = self.turn.config().may_lease()
            && self.standing.is(Following::Secondary)
            && !self.asked.switches()
            && self.is_consistent()
            && self.standing.streaming().is_some_and(|f| f.failed().is_none())
            && !self.local.metadata_failed();
        let told = self.peer.session().told().and_then(|(ping, _)| ping.state);
        let granted = self.peer.session().peer().is_some_and(|hello| hello.serving)
            && told == Some(State::Replicating)
            && self.standing.follower().is_some_and(Follower::is_begun);
        match (may_use, granted) {
            (false, _) => Use::Nothing,
            (true, false) => Use::Keeps,
            (true, true) => Use::Asks,
        }
    }
}
