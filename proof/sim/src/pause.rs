// SPDX-License-Identifier: Apache-2.0
//! The serving node's process is paused for longer than its peer waits, and the other may take over meanwhile: by its
//! hold lease, or by force, since somebody called the paused node fenced.

use crate::driver::{Act, Driver};
use crate::faults::Pausing;
use crate::scenario::span;
use helio_twin::{Cluster, Side};

impl Driver {
    pub(crate) fn pause(&mut self, how: Pausing, cluster: &mut Cluster) {
        let now = cluster.now();
        let Some(side) = Side::BOTH.into_iter().find(|side| cluster.node(*side).serves()) else {
            return;
        };
        if cluster.node(side).hangs(now) {
            return;
        }
        let timeout = cluster.node(side).config.peer_timeout;
        let time = span(&mut self.dice, timeout * 11 / 10, timeout * 4);
        self.try_lease(cluster);
        self.pausing[side.index()] = Some(how);
        match how {
            Pausing::Plain => cluster.hang(side, now + time),
            Pausing::StaleClock => cluster.hang_with_stale_clock(side, now + time),
            Pausing::Unsent => cluster.hang_before_sending(side, time),
            Pausing::Uncounted => {
                cluster.hang_uncounted(side, now + time);
                self.pause_noticed(side);
                return;
            }
        }
        // A pause that no clock counts looks like none; whoever forces a promotion then makes sure of the other first.
        if self.dice.chance(1, 2) {
            let when = now + span(&mut self.dice, timeout, time);
            self.at(when, Act::TakeOver(side.other()));
        }
    }

    /// A paused process went on and took note of the pause.
    pub(crate) fn pause_noticed(&mut self, side: Side) {
        if let Some(how) = self.pausing[side.index()].take() {
            self.coverage.struck(how.label());
        }
    }
}
