// SPDX-License-Identifier: Apache-2.0
//! What the operator does about a copy that a failed flush left suspect: waits for the peer, promotes it, or lets no client
//! use the copy any more and accepts it as it is.

use crate::driver::Driver;
use crate::oracle::Oracle;
use helio_engine::{Command, LinkState};
use helio_twin::{Cluster, Side};
use helio_units::VolumeIndex;

impl Driver {
    /// A primary serves a suspect copy, and no peer is in a state to take its place. Returns whether that was dealt with.
    pub(crate) fn judge_suspect(
        &mut self,
        side: Side,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) -> bool {
        let node = cluster.node(side);
        let Some(engine) = node.engine.as_ref().filter(|engine| engine.view().is_primary()) else {
            return false;
        };
        let lacks = engine.view().lacks_regions();
        let refused =
            engine.view().status(node.clock.read(cluster.now())).link.state == LinkState::Refused;
        if suspect(cluster, side).is_none() || lacks {
            return false;
        }
        // Its peer may hold what is missing here; or this copy is to be accepted, which a primary's is not.
        let odds = if self.healing || refused { 3 } else { 12 };
        let lets_go = self.dice.below(odds) < 1 + u64::from(refused);
        if lets_go {
            self.command(cluster, oracle, side, Command::Demote);
        }
        lets_go
    }

    /// Accepts the first suspect copy of a node.
    pub(crate) fn accept_suspect(
        &mut self,
        side: Side,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) -> bool {
        let Some(volume) = suspect(cluster, side) else { return false };
        let engine = cluster.node(side).engine.as_ref();
        if engine.is_none_or(|engine| engine.view().may_accept(volume).is_err()) {
            return false;
        }
        self.coverage.struck("suspect-accepted");
        oracle.accepted(side);
        self.command(cluster, oracle, side, Command::Accept { volume });
        true
    }
}

/// The first volume whose copy is suspect, by the node's record.
pub(crate) fn suspect(cluster: &Cluster, side: Side) -> Option<VolumeIndex> {
    let bits = cluster.node(side).superblock().map_or(0, |record| record.suspect);
    (bits != 0).then(|| VolumeIndex(bits.trailing_zeros() as u16))
}
