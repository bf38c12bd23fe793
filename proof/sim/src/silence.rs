// SPDX-License-Identifier: Apache-2.0
//! A disk ends nothing that it is asked for, and ends all of it later.

use crate::driver::{Act, Driver};
use crate::faults::{Fault, lacks};
use crate::oracle::Oracle;
use crate::scenario::span;
use helio_engine::OnError;
use helio_twin::{Cluster, Side};
use helio_units::VolumeIndex;

impl Driver {
    pub(crate) fn silence_disk(&mut self, side: Side, cluster: &mut Cluster, oracle: &Oracle) {
        let other = cluster.node(side.other());
        // Where both nodes lose what they had, nobody is left who has it; an older disk is not what the peer had.
        let sound = other.has_its_disk() && !other.disk.is_failing();
        if !sound || oracle.is_restored(side.other()) || lacks(cluster, side.other()) {
            return;
        }
        let config = &cluster.node(side).config;
        // Most happens where a primary gives the disk up.
        let gives_up = config.on_error == OnError::ServeFromPeer;
        if gives_up != cluster.node(side).serves() && self.dice.chance(7, 8) {
            return;
        }
        let (timeout, volumes) = (config.member_timeout, config.volumes.len() as u64);
        let volume = VolumeIndex(self.dice.below(volumes) as u16);
        let until = cluster.now() + span(&mut self.dice, timeout / 4, timeout * 8);
        cluster.node_mut(side).disk.silence(volume, until);
        // Somebody may want to put another disk there before the last operation has ended.
        if self.dice.chance(1, 2) {
            let patience = span(&mut self.dice, timeout, timeout * 2);
            let replace = Fault::Replace { side, tries: 1 };
            self.at(cluster.now() + patience, Act::Break(replace));
        }
    }
}

/// Whether a store that fails is given up for the peer's.
pub(crate) fn gives_stores_up(cluster: &Cluster) -> bool {
    Side::BOTH.iter().any(|side| cluster.node(*side).config.on_error == OnError::ServeFromPeer)
}
