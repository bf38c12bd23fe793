// SPDX-License-Identifier: Apache-2.0
//! A promotion that goes back to the last consistent image.

use crate::show::view::View;
use helio_units::{Generation, Sequence};

impl View<'_> {
    /// Whether a promotion of an inconsistent copy restores now, or ends.
    pub(crate) fn may_restore_now(&self) -> bool {
        (self.can_leave_following() || self.is_stuck())
            && !self.record.is_saving()
            && self.keeper.is_idle()
            && !self.keeper.is_restoring()
    }

    /// Generation and head of the image that a promotion would begin from.
    pub(crate) fn candidate_head(&self) -> (Generation, Sequence) {
        match self.keeper.restores().filter(|_| !self.record.superblock().consistent) {
            Some(image) => (image.lineage.generation, image.head),
            None => (self.record.superblock().lineage.generation, self.own_head()),
        }
    }

    /// Nothing that was received can be applied any more, and nothing is under way.
    pub(crate) fn is_stuck(&self) -> bool {
        let Some(follower) = self.standing.follower() else { return false };
        let is_short = self.keeper.is_short() && self.keeper.is_idle();
        // What follows a marker is applied once the marker is on record.
        let is_unrecorded = self.local.metadata_failed() && follower.waits_for_record();
        (is_short || is_unrecorded) && follower.is_still() && !self.record.is_saving()
    }
}
