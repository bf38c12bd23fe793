// SPDX-License-Identifier: Apache-2.0
//! A primary that its peer cannot reach is killed and promoted until its lineage does not remember the peer's generation.
//! This counts only if that is so when the link carries again.

use crate::driver::{Act, Driver};
use crate::faults::{Fault, lacks};
use crate::oracle::Oracle;
use crate::scenario::span;
use core::time::Duration;
use helio_engine::Command;
use helio_twin::{Breakage, Cluster, Side};
use helio_units::Generation;

/// Steps at most; each is a kill or a promotion, and some promotions take longer than the next step waits.
pub(crate) const FORKS: u32 = 120;

/// Which node forks, and the generation of its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forking {
    side: Side,
    peer: Generation,
}

impl Forking {
    /// Whether the lineage remembers the peer's generation.
    fn is_remembered(self, cluster: &Cluster) -> bool {
        let record = cluster.node(self.side).superblock();
        record.is_some_and(|record| record.lineage.back_to(self.peer).is_some())
    }

    /// Whether the peer is still where it was.
    fn stays(self, cluster: &Cluster) -> bool {
        let record = cluster.node(self.side.other()).superblock();
        record.is_some_and(|record| record.lineage.generation == self.peer)
    }
}

impl Driver {
    pub(crate) fn fork_often(
        &mut self,
        side: Side,
        left: u32,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) {
        if left == FORKS {
            let peer = cluster.node(side.other()).superblock();
            let peer = peer.map_or(Generation::NONE, |record| record.lineage.generation);
            let forking = Forking { side, peer };
            let known = peer != Generation::NONE && forking.is_remembered(cluster);
            if !known || !cluster.node(side).serves() || lacks(cluster, side) {
                return;
            }
            self.forking = Some(forking);
            self.tally.link_cuts += 1;
            cluster.break_link(Breakage::Silent);
            self.try_lease(cluster);
        }
        let Some(forking) = self.forking.filter(|_| self.resumed.is_none()) else { return };
        if left == 0 || !forking.is_remembered(cluster) {
            self.later(cluster, Act::MendLink);
            return;
        }
        // The one is seen to have died before the other is commanded.
        if cluster.node(side).hangs(cluster.now()) {
        } else if cluster.node(side).serves() {
            cluster.kill(side, false);
            self.tally.crashes += 1;
            self.start(side, cluster);
        } else {
            self.command(cluster, oracle, side, Command::Promote { force: true });
        }
        let (least, most) = (Duration::from_millis(4), Duration::from_millis(25));
        let when = cluster.now() + span(&mut self.dice, least, most);
        self.at(when, Act::Break(Fault::Forks { side, left: left - 1 }));
    }

    /// The link carries again.
    pub(crate) fn link_returns(&mut self, cluster: &Cluster) {
        let forgotten =
            |forking: &Forking| forking.stays(cluster) && !forking.is_remembered(cluster);
        if self.forking.take().is_some_and(|forking| forgotten(&forking)) {
            self.coverage.struck("forks");
        }
    }
}
