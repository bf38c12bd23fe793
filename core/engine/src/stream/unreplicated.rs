// SPDX-License-Identifier: Apache-2.0
//! Acknowledgements that the peer knows nothing of (rule 4).
//!
//! In sync the peer has everything that is acknowledged. So if the primary crashes, its peer may continue, and the primary
//! resyncs from it without asking anybody. The first acknowledgement without the peer ends that. What it ends must be
//! durable before: a new generation, whose fork point is the accepted head then.
//! ```text
//!                 in sync                      an acknowledgement without the peer waits
//!   Recorded ──────────────────> Together ─────────────────────────────────────────────────> Wanted
//!      ^    memory, then record      ^                                                     │  │
//!      │                             └── the peer's copy is the only one: this one gave up ┤  │ cannot be recorded
//!      └───────────────────────────────── the record is durable ───────────────────────────┘  v
//!                                                                                       Unrecordable
//! ```
//! In async the peer may not have an acknowledged write at all, and in nearsync only its memory may have it. So the state is
//! always Recorded there. Nearsync with a hold lease becomes Together as sync does: it must record the first acknowledgement
//! of a write that the peer did not receive.

use crate::engine::Engine;
use crate::local::Local;
use crate::peer::outgoing::Opening;
use crate::peer::permit::Permit;
use crate::peer::primary::Primary;
use crate::record::save::Goal;
use crate::resync::verify::Verify;
use crate::role::{Following, Leading, Stage};
use crate::turn::Turn;
use alloc::format;
use helio_format::lineage::Lineage;
use helio_units::Mode;

/// Whether writes may be acknowledged without the peer. Drawn above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreplicated {
    /// They may: the durable record of the generation says that there are such.
    Recorded,
    /// They may not, and none waits.
    Together,
    /// One waits for that record.
    Wanted,
    /// That record could not be made: they fail.
    Unrecordable,
}

impl Unreplicated {
    /// A write waits for the record.
    pub(crate) fn want(&mut self) {
        if *self == Self::Together {
            *self = Self::Wanted;
        }
    }
}

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
                p.is_level() && !p.owed.is_image_out_of_order()
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
        if primary.tell_generation {
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
        primary.tell_generation = primary.flow.is_some();
        primary.consider_all(&self.local, &self.permit, &mut self.turn);
    }
}

impl Primary {
    /// Whether the record of the generation says that writes are acknowledged without the peer.
    pub(crate) fn acknowledges_alone(&self) -> bool {
        self.unreplicated == Unreplicated::Recorded
    }

    /// Goes on in the generation that was recorded, once the peer has taken up the stream before it: a stream that
    /// begins twice would make it forget what came between.
    fn go_on_in(
        &mut self,
        lineage: Lineage,
        verify: &mut Verify,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        if !self.is_taken_up() {
            return;
        }
        self.tell_generation = false;
        // A marker that is on its way ends the inconsistency before the peer takes up the new generation.
        let sent = self.cursors.sent();
        let consistent = self.owed.is_consistent_after(sent);
        self.begin_stream(
            Opening { lineage, from: sent.next(), consistent },
            verify,
            local,
            permit,
            turn,
        );
    }

    /// It cannot be recorded that writes are acknowledged without the peer: then none is.
    pub(crate) fn refuse_alone(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        self.unreplicated = Unreplicated::Unrecordable;
        self.consider_all(local, permit, turn);
    }
}
