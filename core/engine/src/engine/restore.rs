// SPDX-License-Identifier: Apache-2.0
//! A promotion that goes back to the last consistent image.

use crate::engine::Engine;
use crate::event::BeforeOutcome;
use crate::follow::follower::Follower;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::role::{Following, Stage};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_units::{Generation, Sequence, VolumeIndex};

impl Engine {
    /// A promotion of an inconsistent copy: restores as far as it can now, or ends it.
    pub(crate) fn promote_inconsistent(&mut self) {
        let still = self.view().can_leave_following() || self.view().is_stuck();
        let keeper = &self.keeper;
        if self.record.is_saving() || !still || !keeper.is_idle() || keeper.is_restoring() {
            return;
        }
        if self.keeper.begin_restore() {
            self.record.want(Goal::Restoring);
        } else {
            let refusal = self.view().needs_sync();
            self.end_promotion(refusal);
        }
    }

    fn end_promotion(&mut self, refusal: Refusal) {
        self.keeper.end_restore();
        if let Stage::Following(Following::Promoting { command, .. }) = self.standing.stage() {
            self.standing.stand(Following::resting(self.record.superblock().role));
            command.into_iter().for_each(|id| self.turn.done(id, Err(refusal.clone())));
        }
    }

    /// The record says so: what was received is let go, and the chunks are put back.
    pub(crate) fn restoring_saved(&mut self) {
        self.reset_follower();
        self.keeper.put_back(self.turn.effects());
    }

    pub(crate) fn restored_saved(&mut self) {
        let b = self.record.superblock();
        let text = format!(
            "the preserved copy of {} is restored as of item {}",
            b.lineage.generation, b.head
        );
        self.turn.warn(text);
        self.reset_follower();
        self.keeper.end_restore();
    }

    /// Discards what was received and not issued: slots, cursors, gate, and the items that wait for their chunks to be
    /// preserved. An item that waits there and has no slot any more would be issued once the keeping ends. Nothing of
    /// the follower's may be under way.
    pub(crate) fn reset_follower(&mut self) {
        let Some(follower) = self.standing.follower_mut() else { return };
        follower.lay_down(&mut self.turn);
        *follower = Follower::new(self.turn.config().volumes.len(), self.record.superblock().head);
        self.keeper.forget_parked();
    }

    pub(crate) fn restore_failed(&mut self, outcome: BeforeOutcome) {
        let why = match outcome {
            BeforeOutcome::Damaged => String::from("it is damaged; nothing was restored"),
            BeforeOutcome::Failed(fault) => format!("{fault}"),
            BeforeOutcome::FlushFailed { volumes } => {
                let first = VolumeIndex(volumes.trailing_zeros() as u16);
                format!("a flush of volume {} failed", self.turn.config().name_of(first))
            }
            BeforeOutcome::NoRoom { .. } | BeforeOutcome::Done => String::from("no room"),
        };
        let text =
            format!("the preserved copy of {} was not restored: {why}", self.turn.config().group);
        self.turn.warn(text.clone());
        let hint = "repair the disk and repeat; or wait for a resync, which copies everything";
        self.end_promotion(Refusal::new("restore-failed", text, hint));
    }
}

impl View<'_> {
    /// Generation and head of the image that a promotion would begin from.
    pub(crate) fn candidate_head(&self) -> (Generation, Sequence) {
        match self.keeper.restores().filter(|_| !self.record.superblock().consistent) {
            Some(image) => (image.lineage.generation, image.head),
            None => (self.record.superblock().lineage.generation, self.own_head()),
        }
    }

    /// Nothing that was received can be applied any more, and nothing is under way.
    pub(crate) fn is_stuck(&self) -> bool {
        self.keeper.is_short()
            && self.keeper.is_idle()
            && self.standing.follower().is_some_and(Follower::is_still)
            && !self.record.is_saving()
    }
}
