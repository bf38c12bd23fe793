// SPDX-License-Identifier: Apache-2.0
//! What lies in the metadata file beside the superblock: when it is kept (`record/keep.rs` has the rules).

use crate::engine::Engine;
use crate::event::{Kept, StoreOutcome};
use crate::record::save::Goal;
use crate::refusal::StoreFault;
use crate::show::view::View;
use alloc::string::String;
use helio_bitmap::Bitmap;
use helio_units::Moment;

impl Engine {
    /// Asks for what should be kept now.
    pub(crate) fn keep_step(&mut self) {
        if self.local.metadata_failed() {
            self.go_on_uncovered();
            return;
        }
        if self.local.hot().is_short() {
            self.standing.relieve(false, &mut self.record, &mut self.local, &mut self.turn);
        }
        if self.local.hot().is_stuck() {
            let leaves = self.standing.is_leaving_for_good();
            if let Some(primary) = self.standing.primary_mut() {
                primary.give_order_up(leaves, &mut self.local, &self.permit, &mut self.turn);
            }
        }
        let change = self.local.keep_hot(&mut self.turn);
        self.record.keeping_mut().change_begins(change);
        let urgent = self.local.hot().is_short()
            || self.view().is_going_cold()
            || self.standing.primary().is_some_and(|p| p.is_recording_lack())
            || self.resync.seed().wants_marks_kept();
        self.standing.keep_pages(urgent, &mut self.record, &mut self.local, &mut self.turn);
        if let Some(primary) = self.standing.primary_mut()
            && primary.marks().is_saved()
        {
            primary.marks_kept();
        }
        let suspect = self.local.suspect().any();
        let void = self.record.superblock().marks_void && self.standing.leads() && !suspect;
        let kept = void
            && !self.record.is_saving()
            && self.view().marks().is_saved()
            && !self.view().is_going_cold();
        if kept && self.standing.is_flushed_once(&mut self.record, &mut self.local, &mut self.turn)
        {
            self.record.want(Goal::MarksKept);
        }
    }

    /// Something is durable in the metadata file, or could not be made so.
    pub(crate) fn kept(&mut self, kept: Kept, ok: bool, sequence: u64) {
        self.record.keeping_mut().ages_mut().changed(sequence);
        match kept {
            Kept::Hot { ticket } => {
                let change = self.record.keeping_mut().change_ended(ticket);
                if ok {
                    self.local.hot_kept(&change, &mut self.turn);
                }
            }
            Kept::Marks { page } => {
                self.record.keeping_mut().page_ends();
                self.standing.marks_mut(&mut self.record).page_saved(page, ok);
                if ok
                    && !self.record.keeping().keeps_pages()
                    && self.resync.seed_mut().cools(self.standing.leads())
                {
                    self.standing.relieve(true, &mut self.record, &mut self.local, &mut self.turn);
                }
            }
        }
        if !ok && !self.local.metadata_failed() {
            self.lose_metadata();
            self.turn.warn(String::from(
                "the metadata file cannot be written: on a primary, writes to extents that are not hot wait until \
                 the peer has recorded this failure, and fail if the peer is not connected; repair the file system and \
                 restart the daemon",
            ));
        }
    }

    /// Nothing can be covered any more: what waits for it fails.
    pub(crate) fn fail_parked(&mut self) {
        let parked = self.local.hot_mut().give_up();
        // What ends now was never issued to the store.
        if let Some(primary) = self.standing.primary_mut() {
            primary.ends_unissued(true);
        }
        for parked in parked {
            self.store_done(parked.io, StoreOutcome::Failed(StoreFault::Io));
        }
        if let Some(primary) = self.standing.primary_mut() {
            primary.ends_unissued(false);
        }
    }
}

impl<'a> View<'a> {
    /// The marks, whoever holds them now.
    pub(crate) fn marks(&self) -> &'a Bitmap {
        self.standing.marks(self.record)
    }

    /// When pages are due.
    pub(crate) fn keep_deadline(&self) -> Moment {
        let short = !self.standing.leads()
            && self.local.hot().is_short()
            && self.turn.now() < self.record.keeping().stuck_at();
        let stuck = if short { self.record.keeping().stuck_at() } else { Moment::NEVER };
        if self.record.keeping().keeps_pages()
            || self.local.metadata_failed()
            || !self.marks().has_unsaved()
        {
            stuck
        } else {
            stuck.min(self.record.keeping().pages_due())
        }
    }
}
