// SPDX-License-Identifier: Apache-2.0
//! After a pause nothing is acknowledged without the peer's word before one check (rule 5).
//!
//! A process that was stopped, or whose machine slept, cannot know what its peer did meanwhile: it may have taken over
//! by its hold lease, or by force after somebody called this node fenced. So a primary checks first. The check is one
//! of:
//!
//! * an attempt to connect that began after the pause and failed ([`crate::Event::DialFailed`]), or a connection of
//!   which nothing came;
//! * an answer of the peer to a ping that was sent after the pause, on a connection on which it does not serve;
//! * a handshake which the recovery table refuses, with a peer that does not serve and whose history does not continue
//!   this one's, on a connection that began so long after the pause that its hello cannot be one that waited in a socket
//!   meanwhile.
//!
//! A check is needed
//! * after a gap of this node's clock longer than the peer timeout, as seen between two calls of the engine;
//! * when the wait for a hold lease ends: the attempt must have begun when the peer could not use the lease any more;
//! * when the peer is seen to serve, as long as this primary gave no answer without it.
//!
//! What the peer confirmed is acknowledged all the while. An acknowledgement that was decided and not yet sent when the
//! pause is noticed is held back, too; the daemon reads the clock once more directly before it submits replies. A pause
//! between that look and the system call is not noticed, nor is one that this node's clock does not count, unless a
//! hold lease was out: docs/operate.md names both limits.

use crate::effect::{Answer, Effect};
use crate::engine::Engine;
use crate::plant::{Plant, planted};
use crate::refusal::Denial;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::lineage::Relation;
use helio_units::{Moment, RequestId};

/// See the module's words.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// A check is needed, and must have begun then or later.
    unchecked: Option<Moment>,
    /// Acknowledgements that were decided before the pause.
    held: Vec<(RequestId, Answer)>,
}

impl Pause {
    /// Whether an answer without the peer's word must wait.
    pub(crate) fn withholds(&self) -> bool {
        self.unchecked.is_some()
    }

    /// Whether nothing is held back.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.held.is_empty()
    }
}

impl Engine {
    /// The clock shows `now`. Effects that were not performed yet lie in `shared.out`.
    pub(crate) fn advance(&mut self, now: Moment) {
        let paused = self.was_paused(now);
        let gap = now - self.shared.now;
        self.shared.now = self.shared.now.max(now);
        if !paused || planted(Plant::PauseIgnored) {
            return;
        }
        let peer = &self.shared.config.peer;
        self.shared.info(format!(
            "this process did nothing for {:.1} s: writes that {peer} does not confirm are not acknowledged before \
             a check that it did not take over",
            gap.as_secs_f64()
        ));
        for effect in core::mem::take(&mut self.shared.out) {
            match effect {
                Effect::Reply { request, answer: answer @ Answer::Done(_) } => {
                    self.shared.pause.held.push((request, answer));
                }
                other => self.shared.out.push(other),
            }
        }
        self.needs_check(self.shared.now);
    }

    /// Whether this node is primary and its clock went on for longer than the peer timeout since it was last told the
    /// time. Acknowledgements must not be sent then: put them back among the effects, and settle.
    #[must_use]
    pub fn was_paused(&self, now: Moment) -> bool {
        self.primary.is_some() && now - self.shared.now > self.shared.config.peer_timeout
    }

    /// A primary is told the time at least so often: a longer gap is a pause.
    pub(crate) fn pause_deadline(&self) -> Moment {
        let next = self.shared.now + self.shared.config.peer_timeout / 2;
        self.primary.as_ref().map_or(Moment::NEVER, |_| next)
    }

    /// What that means for clients, while it does.
    pub(crate) fn unchecked_text(&self) -> Option<String> {
        self.primary.as_ref().filter(|_| self.shared.pause.withholds())?;
        let peer = &self.shared.config.peer;
        Some(format!("writes wait until it is known that {peer} did not take over"))
    }

    /// Since when this primary waits for a check that its peer did not take over, if it does: an attempt to connect
    /// that begins from then on and fails is one.
    #[must_use]
    pub fn awaits_check(&self) -> Option<Moment> {
        self.shared.pause.unchecked
    }

    /// A check is needed that began at `since` or later.
    pub(crate) fn needs_check(&mut self, since: Moment) {
        let pause = &mut self.shared.pause;
        pause.unchecked = pause.unchecked.max(Some(since));
        if self.session.peer().is_some() {
            self.session.prove_anew(self.shared.now);
        }
    }

    /// The wait for a hold lease ended, which the peer could use until `since`.
    pub(crate) fn lease_waited(&mut self, since: Moment) {
        if self.primary.is_some() && !planted(Plant::LeaseEndUnchecked) {
            self.needs_check(since);
        }
    }

    /// The peer serves as well. As long as nothing was acknowledged without it, nothing is.
    pub(crate) fn rival_seen(&mut self) {
        if self.primary.as_ref().is_some_and(|p| !p.alone) && !planted(Plant::PauseIgnored) {
            self.needs_check(self.shared.now);
        }
    }

    /// An attempt to reach the peer that began then failed.
    pub(crate) fn dial_failed(&mut self, began: Moment) {
        if self.shared.pause.unchecked.is_some_and(|since| began >= since) {
            self.check_passed("it cannot be reached");
        }
    }

    /// A connection ended of which nothing came: that is a failed dial.
    pub(crate) fn nothing_came(&mut self) {
        let began = self.session.began;
        if self.session.last_heard.is_none_or(|at| at < began) {
            self.dial_failed(began);
        }
    }

    /// The peer answered what was asked of it after the pause, or was met and refused.
    pub(crate) fn peer_answered(&mut self) {
        if self.shared.pause.withholds() && self.session.peer().is_some_and(|peer| !peer.serving) {
            self.check_passed("it does not serve");
        }
    }

    /// The recovery table refuses the peer: no ping will be answered on this connection.
    pub(crate) fn peer_refused(&mut self) {
        let fresh = self.shared.config.peer_timeout;
        // One that took over and does not serve any more did take over.
        let relation =
            self.session.peer().map(|peer| self.superblock.lineage.relation_of(&peer.lineage));
        if matches!(relation, Some(Relation::Descendant(_))) {
            return;
        }
        if self.shared.pause.unchecked.is_some_and(|since| self.session.began >= since + fresh) {
            self.peer_answered();
        }
    }

    fn check_passed(&mut self, why: &str) {
        self.shared.pause.unchecked = None;
        self.shared.info(format!(
            "{} did not take over: {why}; writes are acknowledged again",
            self.shared.config.peer
        ));
        for (request, answer) in core::mem::take(&mut self.shared.pause.held) {
            self.shared.out.push(Effect::Reply { request, answer });
        }
        self.answer_withheld();
    }

    /// What is held back will not be sent any more: this node leaves the primary role.
    pub(crate) fn give_held_up(&mut self) {
        for (request, _) in core::mem::take(&mut self.shared.pause.held) {
            let answer = Answer::Denied(Denial::NotPrimary);
            self.shared.out.push(Effect::Reply { request, answer });
        }
    }

    /// This node's times as primary begin or end.
    pub(crate) fn pause_forgotten(&mut self) {
        self.give_held_up();
        self.shared.pause.unchecked = None;
    }
}
