// SPDX-License-Identifier: Apache-2.0
//! A group fails, and its daemon goes on: it accepts connections of the peer and refuses the hello. In some of the stories
//! the peer's process is paused at that time. After the pause it must check that this node did not take over. The refusal ends
//! that check.

use crate::driver::{Act, Driver};
use crate::faults::{Fault, Pausing};
use crate::scenario::span;
use core::time::Duration;
use helio_twin::{Cluster, Side};

impl Driver {
    pub(crate) fn unserve(&mut self, side: Side, cluster: &mut Cluster) {
        let (now, peer) = (cluster.now(), side.other());
        let spared = self.resumed.is_some();
        if spared || !cluster.node(side).is_up() || cluster.node(side).hangs(now) {
            return;
        }
        let checks = cluster.node(peer).serves() && !cluster.node(side).serves();
        if checks && !cluster.node(peer).hangs(now) && self.dice.chance(1, 2) {
            self.pause(Pausing::Plain, cluster);
            let pause = cluster.node(peer).paused_until() - now;
            let when = now + span(&mut self.dice, pause / 50, pause);
            self.at(when, Act::Break(Fault::Unserved(side)));
            return;
        }
        self.tally.crashes += 1;
        cluster.unserve(side);
        // The peer connects again before the group is served, mostly.
        let (least, most) = (Duration::from_millis(5), Duration::from_secs(4));
        let from = now.max(cluster.node(peer).paused_until());
        let when = from + span(&mut self.dice, least, most);
        self.at(when, Act::Start(side));
    }
}
