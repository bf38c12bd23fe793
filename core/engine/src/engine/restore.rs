// SPDX-License-Identifier: Apache-2.0
//! A promotion that goes back to the last consistent image.

use crate::engine::Engine;
use crate::follow::follower::Follower;
use crate::record::save::Goal;
use crate::show::view::View;
use helio_units::{Generation, Sequence};

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
            self.standing.end_promotion(refusal, &mut self.keeper, &self.record, &mut self.turn);
        }
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
