// SPDX-License-Identifier: Apache-2.0
//! A disk is being shipped: what a node marks from then on.

use crate::effect::StoreOp;
use crate::local::Local;
use crate::purpose::SeedIo;
use crate::record::Record;
use crate::role::Standing;
use crate::turn::Turn;

impl Standing {
    /// The record says seeding: from here on only what the disk may lack is marked. What was written before is flushed.
    pub(crate) fn seed_begun(&mut self, record: &mut Record, local: &mut Local, turn: &mut Turn) {
        if let Some(primary) = self.primary_mut() {
            // What failed meanwhile is marked, and nobody knows what the store holds there.
            if primary.fault().is_none() && !primary.is_lacking() {
                primary.mark_for_seed();
            }
            local.hot_mut().bitmap_changed();
            self.relieve(true, record, local, turn);
        }
        for volume in turn.config().indices() {
            local.store(volume, StoreOp::Flush, SeedIo::Flush(volume), turn);
        }
    }
}
