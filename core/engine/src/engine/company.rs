// SPDX-License-Identifier: Apache-2.0
//! The record of whether writes are acknowledged without the peer.

use crate::engine::Engine;
use crate::record::save::Goal;
use crate::role::{Following, Leading, Stage};
use crate::stream::unreplicated::Unreplicated;
use alloc::format;
use helio_units::Mode;

impl Engine {
    /// Records how far the peer's metadata was heard to be, now and then while the two are level. Marks end by what the
    /// peer says it has durable; who forgets in a crash that it said so cannot tell a peer that went back since.
    pub(crate) fn record_heard(&mut self) {
        let now = self.turn.now();
        let due = self.record.keeping().ages().are_due(self.record.superblock().remembers, now);
        if !due || self.record.is_saving() || self.local.metadata_failed() {
            return;
        }
        let level = match (self.standing.primary(), self.standing.stage()) {
            // That there is a peer with a history at all: should its metadata be lost, it must not pass for a new one.
            (Some(_), Stage::Leading(Leading::Primary))
                if self.record.superblock().remembers == 0 =>
            {
                true
            }
            (Some(p), Stage::Leading(Leading::Primary)) => {
                p.is_level() && !p.owed().is_image_out_of_order()
            }
            (None, Stage::Following(Following::Secondary)) => {
                let begun = self.standing.streaming().is_some_and(|f| f.is_begun());
                self.record.superblock().consistent && begun
            }
            _ => false,
        };
        if level {
            self.record.keeping_mut().ages_mut().remember(now);
            self.save(Goal::Remember);
        }
    }

    /// Asks for the record that fits how answers are given now.
    pub(crate) fn record_company(&mut self) {
        let lineage = self.record.superblock().lineage;
        let Some(primary) = self.standing.primary_mut() else { return };
        if self.local.metadata_failed() && primary.unreplicated == Unreplicated::Wanted {
            primary.refuse_alone(&self.local, &self.permit, &mut self.turn);
        }
        if primary.is_to_tell_generation() {
            primary.go_on_in(
                lineage,
                &mut self.resync.verify,
                &self.local,
                &self.permit,
                &mut self.turn,
            );
        }
        if self.record.is_saving() || self.local.metadata_failed() {
            return;
        }
        let level = primary.is_level();
        let config = self.turn.config();
        let together = primary.wanted_mode(config.mode) == Mode::Sync || config.may_lease();
        let raises =
            !self.record.superblock().alone && config.hold_millis() > self.record.superblock().hold;
        match primary.unreplicated {
            Unreplicated::Wanted | Unreplicated::Unrecordable => self.save(Goal::Alone),
            at if level && together && (at == Unreplicated::Recorded || raises) => {
                primary.unreplicated = Unreplicated::Together;
                self.save(Goal::Together);
            }
            Unreplicated::Recorded | Unreplicated::Together => {}
        }
    }

    /// The new generation is durable: what waited for it is answered, and a stream goes on in it.
    pub(crate) fn alone_saved(&mut self) {
        let lineage = self.record.superblock().lineage;
        let Some(primary) = self.standing.primary_mut() else { return };
        self.turn.info(format!(
            "writes are acknowledged without {} from item {} on, in generation {}",
            self.turn.config().peer,
            self.record.superblock().head,
            lineage.generation
        ));
        primary.unreplicated = Unreplicated::Recorded;
        primary.generation_changed();
        primary.consider_all(&self.local, &self.permit, &mut self.turn);
    }
}
