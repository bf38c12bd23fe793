// SPDX-License-Identifier: Apache-2.0
//! A disk is lost while its node runs, and the administrator puts another one there.

use crate::driver::{Act, Driver};
use crate::faults::{Fault, lacks};
use crate::oracle::Oracle;
use crate::scenario::{FOREIGN, span};
use core::time::Duration;
use helio_engine::{CommandId, Engine, OnError};
use helio_twin::{Cluster, Side, Stamp};
use helio_units::{Role, State, VolumeIndex};

/// Stamps of a disk that comes out of its box.
const BOXED: u64 = FOREIGN | 1 << 57;
/// So often somebody looks whether the node has given the disk up; then it comes back by itself.
const TRIES: u32 = 60;

impl Driver {
    pub(crate) fn replace(
        &mut self,
        side: Side,
        tries: u32,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) {
        let volumes = cluster.node(side).config.volumes.len() as u16;
        if tries == 0 {
            let spares = cluster.node(side).config.on_error != OnError::ServeFromPeer;
            let serves = cluster.node(side).serves();
            // Where both nodes lose what they had, nobody is left who has it; an older disk is not what the peer had.
            let other = cluster.node(side.other());
            let older = oracle.is_restored(side.other());
            let only = older || !other.has_its_disk() || other.disk.is_failing();
            let passes = serves == spares && self.dice.chance(7, 8);
            if only || !cluster.node(side).is_up() || passes {
                return;
            }
            let volume = VolumeIndex(self.dice.below(u64::from(volumes)) as u16);
            cluster.node_mut(side).disk.lose(volume, true);
        } else if self.put_another(side, cluster, oracle) {
            return;
        } else if tries == TRIES {
            for volume in (0..volumes).map(VolumeIndex) {
                cluster.node_mut(side).disk.lose(volume, false);
            }
            return;
        }
        let (least, most) = (Duration::from_micros(200), Duration::from_millis(200));
        let pause = span(&mut self.dice, least, most);
        self.at(cluster.now() + pause, Act::Break(Fault::Replace { side, tries: tries + 1 }));
    }

    /// Nobody throws away the disk of a secondary while its primary is without one, or does not know yet that it stopped
    /// applying. While the two greet each other a hello of the disk that goes may be on its way.
    fn put_another(&mut self, side: Side, cluster: &mut Cluster, oracle: &mut Oracle) -> bool {
        let leads = cluster.node(side).serves();
        let apart = |engine: &Engine| {
            engine.view().is_primary()
                && matches!(engine.view().state(), State::Queuing | State::Logging)
                && !engine.view().is_greeting()
        };
        let others = cluster.node(side.other()).engine.as_ref().is_some_and(apart)
            && !lacks(cluster, side.other());
        let record = cluster.node(side).superblock();
        let follows = record.is_some_and(|r| r.role == Role::Secondary);
        if !leads && (!others || !follows || oracle.is_restored(side)) {
            return false;
        }
        for volume in (0..cluster.node(side).config.volumes.len() as u16).map(VolumeIndex) {
            let id = CommandId(self.commands + 2);
            let salt = BOXED | self.dice.below(1 << 16) << 40;
            let taken = cluster.replace_disk(side, volume, id, |place| {
                Stamp(salt | u64::from(place.volume.0) << 32 | u64::from(place.block))
            });
            if taken {
                self.commands += 2;
                // What was backed up is about the disk that is gone.
                self.forget_image(side);
                let label = if leads { "disk-replaced-leading" } else { "disk-replaced-following" };
                self.coverage.struck(label);
                return true;
            }
        }
        false
    }
}
