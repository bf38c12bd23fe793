// SPDX-License-Identifier: Apache-2.0
//! What may be answered without the peer's word: its lease must have run out, and a pause must have been checked.

use crate::config::Config;
use crate::peer::lease::Lease;
use crate::peer::link::Session;
use crate::peer::pause::{Pause, Proof};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_plant::{Plant, planted};
use helio_units::Moment;

#[derive(Clone, Debug, Default)]
pub(crate) struct Permit {
    /// What was granted, and who may take over without being asked.
    lease: Lease,
    /// Whether this process must check that it was not succeeded while it was paused.
    pause: Pause,
}

impl Permit {
    pub(crate) fn starting(lease: Lease) -> Self {
        Self { lease, pause: Pause::default() }
    }

    #[inline]
    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) const fn lease_mut(&mut self) -> &mut Lease {
        &mut self.lease
    }

    #[inline]
    pub(crate) const fn pause(&self) -> &Pause {
        &self.pause
    }

    pub(crate) const fn pause_mut(&mut self) -> &mut Pause {
        &mut self.pause
    }

    /// The clock shows `now`, and this process was `paused` until then. Effects that were not performed yet lie in `turn`.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        now: Moment,
        paused: bool,
        session: &mut Session,
        turn: &mut Turn,
    ) {
        let gap = now - turn.now();
        turn.advance(now);
        if paused && !planted(Plant::PauseIgnored) {
            self.woke_up(gap, session, turn);
        }
    }

    /// This process was suspended for so long.
    #[cold]
    fn woke_up(&mut self, gap: Duration, session: &mut Session, turn: &mut Turn) {
        let (now, peer) = (turn.now(), &turn.config().peer);
        turn.info(format!(
            "this process was suspended for {:.1} s: this node checks whether {peer} was promoted. Until then it \
             acknowledges only writes that are durable on {peer}",
            gap.as_secs_f64()
        ));
        self.pause.hold(turn.effects());
        self.needs_check(now, session, now);
    }

    /// A check is needed that began at `since` or later: what the peer answered so far proves nothing.
    pub(crate) fn needs_check(&mut self, since: Moment, session: &mut Session, now: Moment) {
        self.pause.needs_check(since);
        session.prove_anew(now);
    }

    /// This node is primary no more.
    pub(crate) fn laid_down(&mut self, turn: &mut Turn) {
        self.pause.forget(turn.effects());
        self.lease.laid_down();
    }

    /// Something passed the check.
    pub(crate) fn check_passed(&mut self, proof: Proof, turn: &mut Turn) {
        let Config { peer, group, .. } = turn.config();
        let why = match proof {
            Proof::Unreachable => format!("{peer} cannot be reached"),
            Proof::NotServed => format!("the daemon on {peer} does not serve {group}"),
            _ => format!("{peer} does not serve {group}"),
        };
        turn.info(format!("{why}: writes are acknowledged again"));
        self.pause.end(turn.effects());
    }

    /// Whether an answer without the peer's word must wait.
    pub(crate) fn withholds(&self, now: Moment) -> bool {
        self.lease.withholds(now) || self.pause.withholds()
    }

    /// What that means for a primary's clients.
    pub(crate) fn text(&self, config: &Config, now: Moment) -> Option<String> {
        self.lease.text(&config.peer, now).or_else(|| self.pause.text(config))
    }
}
