// SPDX-License-Identifier: Apache-2.0
//! The hold lease among the other rooms: when it is asked for, granted, and taken over by.

use crate::engine::Engine;
use crate::event::CommandId;
use crate::follow::follower::Follower;
use crate::peer::lease::Use;
use crate::peer::lease::say;
use crate::record::save::Leave;
use crate::refusal::Refusal;
use crate::role::Following;
use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;
use helio_format::lease::Lease as Talk;
use helio_format::lineage::Relation;
use helio_plant::{Plant, planted};
use helio_units::{Moment, State};

impl Engine {
    /// Whether this node is, or is about to be, primary by its hold lease.
    #[must_use]
    pub fn leads_by_lease(&self) -> bool {
        self.permit.lease.is_used()
    }

    /// Until when this node may become primary by its hold lease, if it has one.
    #[must_use]
    pub fn lease_held(&self) -> Option<Moment> {
        let until = self.permit.lease.held_until()?;
        (self.turn.now() < until && self.lease_use() != Use::Nothing).then_some(until)
    }

    /// What this node may do with a lease.
    pub(crate) fn lease_use(&self) -> Use {
        let may_use = self.turn.config().may_lease()
            && self.standing.is(Following::Secondary)
            && !self.asked.switches()
            && self.is_consistent()
            && self.standing.streaming().is_some_and(|f| f.failed().is_none())
            && !self.local.metadata_failed();
        let told = self.peer.session.told().and_then(|(ping, _)| ping.state);
        let granted = self.peer.session.peer().is_some_and(|hello| hello.serving)
            && told == Some(State::Replicating)
            && self.standing.follower().is_some_and(Follower::is_begun);
        match (may_use, granted) {
            (false, _) => Use::Nothing,
            (true, false) => Use::Keeps,
            (true, true) => Use::Asks,
        }
    }

    /// Does what is due: at the end of a wait, for a primary that leaves, and for a secondary.
    pub(crate) fn lease_step(&mut self) {
        let now = self.turn.now();
        if let Some(since) = self.permit.lease.end_wait(now) {
            if self.standing.leads() && !planted(Plant::LeaseEndUnchecked) {
                self.permit.pause.needs_check(since);
                self.peer.session.prove_anew(now);
            }
            self.answer_withheld();
        }
        let Some(primary) = self.standing.primary() else {
            let (it_may, up) = (self.lease_use(), self.peer.session.peer().is_some());
            return self.permit.lease.step(
                it_may,
                up,
                self.turn.config().hold,
                now,
                self.turn.effects(),
            );
        };
        let gives_up = !primary.streams() && self.standing.is_leaving_for_good();
        if self.permit.lease.set_gives_up(gives_up) {
            self.answer_withheld();
        }
        if gives_up {
            self.permit.pause.give_up(self.turn.effects());
        }
        if self.permit.lease.was_used() && self.standing.serves() {
            let left = self.leave(None, Leave::Secondary);
            assert!(left.is_ok(), "a primary cannot leave: {left:?}");
        }
    }

    /// Answers what waited for a hold to end, or will never be answered otherwise.
    pub(crate) fn answer_withheld(&mut self) {
        if let Some(primary) = self.standing.primary_mut() {
            primary.consider_all(&self.local, &self.permit, &mut self.turn);
        }
    }

    /// The peer is met, and not refused: a secondary without a lease says so.
    pub(crate) fn lease_met(&mut self) {
        let Some(by) = self.peer.session.peer().map(|peer| peer.incarnation) else { return };
        let none = self.permit.lease.met(by, self.turn.now());
        if none && self.standing.is(Following::Secondary) && !self.turn.config().hold.is_zero() {
            self.turn.push(say(Talk::Returned));
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
                    self.permit.lease.grant(Duration::from_millis(millis.into()), self.turn.now());
                    self.turn.push(say(Talk::Granted { number, millis }));
                }
            }
            Talk::Granted { number, millis } => {
                let hold = config.hold.min(Duration::from_millis(millis.into()));
                if let Some(peer) = self.peer.session.peer() {
                    self.permit.lease.receive(number, peer.incarnation, hold);
                }
            }
            Talk::Returned => {
                if self.permit.lease.peer_returned() {
                    self.answer_withheld();
                }
            }
        }
    }

    /// Becomes primary by the lease, if it has one.
    pub(crate) fn promote_by_lease(&mut self, id: CommandId) -> bool {
        let Some(until) = self.lease_held() else { return false };
        let (peer, left) = (&self.turn.config().peer, until - self.turn.now());
        self.turn.info(format!(
            "{peer} is not connected; it acknowledges nothing without this node: the hold lease ends in {:.1} s",
            left.as_secs_f64()
        ));
        let before = Box::new(self.record.superblock().clone());
        self.permit.lease.begin_takeover(until, before);
        self.begin_promotion(Some(id), false);
        true
    }

    /// The promotion ends before anything was recorded, or when the record was put back.
    pub(crate) fn lease_failed(&mut self, command: Option<CommandId>) {
        self.permit.lease.end_takeover();
        self.standing.stand(Following::resting(self.record.superblock().role));
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        let refusal = Refusal::new(
            "needs-force",
            format!(
                "the hold lease ended before this node became primary; {peer} may continue as primary"
            ),
            format!("make sure {peer} is down or fenced, then `helio promote {group} --force`"),
        );
        command.into_iter().for_each(|id| self.done(id, Err(refusal.clone())));
    }

    /// The peer introduced itself while this primary waits for its lease to end: as primary, by that lease?
    pub(crate) fn lease_taken(&mut self) {
        let withholds = self.permit.withholds(self.turn.now());
        let (Some(p), Some(peer)) = (self.standing.primary(), self.peer.session.peer()) else {
            return;
        };
        let Relation::Descendant(fork) =
            self.record.superblock().lineage.relation_of(&peer.lineage)
        else {
            return;
        };
        let same =
            p.peer_incarnation() == Some(peer.incarnation) && peer.sure && fork >= p.answered;
        if withholds && same && !self.permit.lease.was_used() {
            let name = &self.turn.config().peer;
            self.turn.warn(format!(
                "{name} was promoted; this node has acknowledged nothing since, and becomes secondary"
            ));
            self.permit.lease.use_granted();
        }
    }
}
