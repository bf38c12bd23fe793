// SPDX-License-Identifier: Apache-2.0
//! The record of how old the metadata of this node was found, and of how far the peer's was heard to be.

use crate::local::Local;
use crate::record::Record;
use crate::record::save::Goal;
use crate::role::{Following, Leading, Stage, Standing};
use helio_units::Moment;

impl Standing {
    /// Records how far the peer's metadata was heard to be, now and then while the two are level. Marks end by what the
    /// peer says it has durable; who forgets in a crash that it said so cannot tell a peer that went back since.
    pub(crate) fn record_heard(
        &self,
        has_peer: bool,
        local: &Local,
        record: &mut Record,
        now: Moment,
    ) {
        let ages = record.keeping().ages();
        let due = ages.are_due(record.superblock().remembers, now);
        // Pages were written before any superblock: a superblock is to have the age from before.
        let found = ages.is_unrecorded() && has_peer && !record.superblock().is_new();
        if !(due || found) || record.is_saving() || local.metadata_failed() {
            return;
        }
        let level = match (self.primary(), self.stage()) {
            _ if found => true,
            // That there is a peer with a history at all: should its metadata be lost, it must not pass for a new one.
            (Some(_), Stage::Leading(Leading::Primary))
                if record.superblock().remembers == 0 && ages.heard() > 0 =>
            {
                true
            }
            (Some(p), Stage::Leading(Leading::Primary)) => {
                p.is_level() && !p.owed().is_image_out_of_order()
            }
            (None, Stage::Following(Following::Secondary)) => {
                let begun = self.streaming().is_some_and(|f| f.is_begun());
                record.superblock().consistent && begun
            }
            _ => false,
        };
        if level {
            record.keeping_mut().ages_mut().remember(now);
            record.want(Goal::Remember);
        }
    }
}
