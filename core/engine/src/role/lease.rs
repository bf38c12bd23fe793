// SPDX-License-Identifier: Apache-2.0
//! The hold lease, by the role of a node: when a primary grants one, and when it acts on one that it granted.

use crate::local::Local;
use crate::peer::lease::say;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Leave;
use crate::role::Standing;
use crate::turn::Turn;
use core::time::Duration;
use helio_format::lease::Lease as Talk;
use helio_plant::{Plant, planted};

impl Standing {
    /// Does what is due on a primary: at the end of a wait, and while it leaves.
    pub(crate) fn lease_step(
        &mut self,
        permit: &mut Permit,
        session: &mut Session,
        record: &mut Record,
        local: &Local,
        turn: &mut Turn,
    ) {
        let now = turn.now();
        if let Some(since) = permit.lease_mut().end_wait(now) {
            let checks = turn.config().peer_name().is_some();
            if self.leads() && checks && !planted(Plant::LeaseEndUnchecked) {
                permit.needs_check(since, session, now);
            }
            if let Some(primary) = self.primary_mut() {
                primary.consider_all(local, permit, turn);
            }
        }
        let leaves = self.is_leaving_for_good();
        let Some(primary) = self.primary_mut() else { return };
        let gives_up = !primary.streams() && leaves;
        if permit.lease_mut().set_gives_up(gives_up) {
            primary.consider_all(local, permit, turn);
        }
        if gives_up {
            permit.pause_mut().give_up(turn.effects());
        }
        if permit.lease().was_used() && self.serves() {
            // Only an operator's demotion is refused for the last copy.
            let left = self.leave(None, Leave::Secondary, None, record, turn);
            assert!(left.is_ok(), "a primary cannot leave: {left:?}");
        }
    }

    /// A primary grants if no answer can be given without the peer; it says nothing otherwise.
    pub(crate) fn peer_talks_lease(
        &mut self,
        talk: Talk,
        session: &Session,
        permit: &mut Permit,
        record: &Record,
        local: &Local,
        turn: &mut Turn,
    ) {
        let (b, config) = (record.superblock(), turn.config());
        match talk {
            Talk::Wanted { number, millis } => {
                let together = self.serves()
                    && self.primary().is_some_and(|p| p.is_together(config.mode))
                    && !(b.alone || record.is_saving() || local.metadata_failed());
                let millis = millis.min(b.hold).min(config.hold_millis());
                if together && millis != 0 {
                    permit.lease_mut().grant(Duration::from_millis(millis.into()), turn.now());
                    turn.push(say(Talk::Granted { number, millis }));
                }
            }
            Talk::Granted { number, millis } => {
                let hold = config.hold.min(Duration::from_millis(millis.into()));
                if let Some(peer) = session.peer() {
                    permit.lease_mut().receive(number, peer.incarnation, hold);
                }
            }
            Talk::Returned => {
                if permit.lease_mut().peer_returned()
                    && let Some(primary) = self.primary_mut()
                {
                    primary.consider_all(local, permit, turn);
                }
            }
        }
    }
}
