// SPDX-License-Identifier: Apache-2.0
//! Going back to the kept image: a node whose copy is not consistent takes over with its last consistent one.
//!
//! ```text
//!   Wanted ──record: neither image──> Recording ──> Writing ──record: the kept image──> Ending ──> promotion goes on
//! ```
//! While chunks are put back the image is neither the source's nor the kept one, and what the source believes to have
//! copied is undone. So the record first says that this node's marks prove nothing, and says so until it has taken over
//! and kept marks of everything, or a copy of everything has begun: no stream goes on behind a cursor from before, and
//! nobody calls the two level. The lineage stays: before the end it is the followed one, which nobody leads from while
//! the image is not consistent; behind it that of the kept image, so that writes which it lacks are seen by the table.
//! A crash in the middle leaves the keeping whole: restoring again does the same.

use crate::config::Config;
use crate::engine::Engine;
use crate::event::BeforeOutcome;
use crate::follow::before::Keeper;
use crate::follow::follower::Follower;
use crate::local::Local;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::role::{Following, Stage};
use alloc::format;
use alloc::string::String;
use helio_format::superblock::Superblock;
use helio_units::{Generation, Sequence, VolumeIndex};

impl Keeper {
    /// Whether a promotion may restore, where the copy here is not consistent.
    pub(crate) fn may_restore(&self, config: &Config) -> Result<(), Refusal> {
        let group = &config.group;
        let text = match self.kept() {
            None => format!("this node preserves no consistent copy of {group}"),
            Some((_, false)) => {
                format!("the preserved copy of {group} on this node is damaged; see the log")
            }
            Some((_, true)) => return Ok(()),
        };
        let hint = format!("wait for the resync from {} to end", config.peer);
        Err(Refusal::new("no-safe-copy", text, hint))
    }

    /// This image is neither one: the record for the time of the restore.
    pub(crate) fn shape_restoring(b: &mut Superblock) {
        b.marks_void = true;
        (b.clean, b.equal) = (false, false);
    }

    /// This is the kept image again.
    pub(crate) fn shape_restored(&self, b: &mut Superblock) {
        let Some((image, _)) = self.kept() else {
            panic!("a copy was restored that is not preserved")
        };
        b.lineage = image.lineage;
        b.head = image.head;
        (b.consistent, b.clean) = (true, image.exact);
        (b.wrote, b.alone, b.equal) = (image.wrote, image.alone, false);
        // Who goes on from here does so with another image than before, whatever the role was.
        b.tenure = b.tenure.wrapping_add(1);
        // What was confirmed behind it is not in it.
        b.sure = false;
    }
}

impl Keeper {
    /// Nothing is kept any more of an image that a primary is about to write to; or it cannot be ended, and the record,
    /// which says consistent, lets nobody go back to it.
    pub(crate) fn is_over(&self, local: &Local) -> bool {
        self.kept().is_none() || self.has_failed() || local.metadata_failed()
    }
}

impl Engine {
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

    /// A promotion of an inconsistent copy: restores as far as it can now, or ends it.
    pub(crate) fn promote_inconsistent(&mut self) {
        let still = self.can_leave_following() || self.is_stuck();
        let keeper = &self.keeper;
        if self.record.is_saving() || !still || !keeper.is_idle() || keeper.is_restoring() {
            return;
        }
        if self.keeper.begin_restore() {
            self.save(Goal::Restoring);
        } else {
            let refusal = self.needs_sync();
            self.end_promotion(refusal);
        }
    }

    fn end_promotion(&mut self, refusal: Refusal) {
        self.keeper.end_restore();
        if let Stage::Following(Following::Promoting { command, .. }) = self.standing.stage() {
            self.standing.stand(Following::resting(self.record.superblock().role));
            command.into_iter().for_each(|id| self.done(id, Err(refusal.clone())));
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
