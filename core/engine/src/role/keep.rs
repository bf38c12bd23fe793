// SPDX-License-Identifier: Apache-2.0
//! What lies in the metadata file beside the superblock: when it is kept, and what follows (`record/keep.rs` has the rules).

use crate::event::Kept;
use crate::local::Local;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Goal;
use crate::resync::seed::Seed;
use crate::role::{Leading, LeaveStage, Stage, Standing};
use crate::turn::Turn;
use alloc::format;

impl Standing {
    /// Asks for what should be kept now. Returns whether nothing can be kept any more, so that what waits for it fails.
    #[must_use]
    pub(crate) fn keep_step(
        &mut self,
        session: &Session,
        seed: &Seed,
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> bool {
        if local.metadata_failed() {
            return self.go_on_uncovered(session, seed, record, local, turn);
        }
        if local.hot().is_short() {
            self.relieve(false, record, local, turn);
        }
        if local.hot().is_stuck() {
            let leaves = self.is_leaving_for_good();
            if let Some(primary) = self.primary_mut() {
                primary.give_order_up(leaves, local, permit, turn);
            }
        }
        let change = local.keep_hot(turn);
        record.keeping_mut().change_begins(change);
        let urgent = local.hot().is_short()
            || self.is_going_cold()
            || self.primary().is_some_and(|p| p.is_recording_lack())
            || seed.wants_marks_kept()
            || local.wants_marks_kept();
        self.keep_pages(urgent, record, local, turn);
        if let Some(primary) = self.primary_mut()
            && primary.marks().is_saved()
        {
            primary.marks_kept();
        }
        let void = record.superblock().marks_void && self.leads() && !local.suspect().any();
        let kept =
            void && !record.is_saving() && self.marks(record).is_saved() && !self.is_going_cold();
        if kept && self.is_flushed_once(record, local, turn) {
            record.want(Goal::MarksKept);
        }
        false
    }

    /// Something is durable in the metadata file, or could not be made so.
    pub(crate) fn kept(
        &mut self,
        (kept, ok): (Kept, bool),
        seed: &mut Seed,
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let what = match kept {
            Kept::Hot { ticket } => {
                let change = record.keeping_mut().change_ended(ticket);
                if ok {
                    local.hot_kept(&change, turn);
                }
                "hot extents"
            }
            Kept::Marks { page } => {
                record.keeping_mut().page_ends();
                self.marks_mut(record).page_saved(page, ok);
                if ok && !record.keeping().keeps_pages() && seed.cools(self.leads()) {
                    self.relieve(true, record, local, turn);
                }
                "dirty regions"
            }
        };
        if !ok {
            self.record_failed(what, local, permit, turn);
        }
    }

    /// What a layer says of members is durable in the metadata file, or could not be made so.
    pub(crate) fn members_recorded(
        &mut self,
        (ok, sequence): (bool, u64),
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        record.keeping_mut().ages_mut().changed(sequence);
        if !ok {
            self.record_failed("members of volumes", local, permit, turn);
        }
        local.layer_recorded(ok, turn);
    }

    /// The metadata file does not take that record, nor any later one.
    fn record_failed(&mut self, what: &str, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        if local.metadata_failed() {
            return;
        }
        self.lose_metadata(local, permit, turn);
        let then = if local.keeps_any_several(turn.config()) {
            "fail, and so do operations that a member misses"
        } else if turn.config().peer_name().is_some() {
            "wait until the peer has recorded this failure, and fail if the peer is not connected"
        } else {
            "fail"
        };
        turn.warn(format!(
            "the metadata file cannot be written ({what}): on a primary, writes to extents that are not hot {then}; repair the \
             file system and restart the daemon"
        ));
    }

    /// Whether what the records hold is being brought down to what is really owed, before this node leaves.
    fn is_going_cold(&self) -> bool {
        matches!(self.stage(), Stage::Leading(Leading::Leaving { stage: LeaveStage::Cooling, .. }))
    }
}
