// SPDX-License-Identifier: Apache-2.0
//! A promotion that goes back to the last consistent image: how it ends, and what becomes of what was received.

use crate::follow::before::Keeper;
use crate::follow::follower::Follower;
use crate::record::Record;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_stack::{CopyOutcome, MemberFault, StoreFault};

impl Standing {
    /// A promotion of an inconsistent copy restores the image that was kept, or ends.
    pub(crate) fn restore_or_end(
        &mut self,
        refusal: Refusal,
        keeper: &mut Keeper,
        record: &mut Record,
        turn: &mut Turn,
    ) {
        if keeper.begin_restore() {
            record.want(Goal::Restoring);
        } else {
            self.not_promoted(refusal, keeper, record, turn);
        }
    }

    /// The promotion does not take place: the node is again what its record says. A restore under way ends too.
    pub(crate) fn not_promoted(
        &mut self,
        refusal: Refusal,
        keeper: &mut Keeper,
        record: &Record,
        turn: &mut Turn,
    ) {
        keeper.end_restore();
        if let Stage::Following(Following::Promoting { command, .. }) = self.stage() {
            self.stand(Following::resting(record.superblock().role));
            if let Some(id) = command {
                turn.done(id, Err(refusal));
            }
        }
    }

    /// The record says that the image is restored.
    pub(crate) fn restored(&mut self, keeper: &mut Keeper, record: &Record, turn: &mut Turn) {
        let b = record.superblock();
        let text = format!(
            "the preserved copy of {} is restored as of item {}",
            b.lineage.generation, b.head
        );
        turn.warn(text);
        self.reset_follower(keeper, record, turn);
        keeper.end_restore();
    }

    /// The image could not be restored.
    pub(crate) fn restore_failed(
        &mut self,
        outcome: CopyOutcome,
        keeper: &mut Keeper,
        record: &Record,
        turn: &mut Turn,
    ) {
        let why = match outcome {
            CopyOutcome::Damaged => String::from("it is damaged; nothing was restored"),
            CopyOutcome::PoolFailed(fault) => format!("the before-image file failed: {fault}"),
            CopyOutcome::FlushFailed(MemberFault { volume, fault, .. })
                if fault != StoreFault::Unrecorded =>
            {
                format!("a flush of volume {} failed: {fault}", turn.config().name_of(volume))
            }
            CopyOutcome::MemberFailed(member) | CopyOutcome::FlushFailed(member) => {
                turn.config().failure_of(member.volume, member.fault)
            }
            CopyOutcome::Over => {
                String::from("the copy had ended, because a before-image could not be preserved")
            }
            CopyOutcome::NoRoom(_) => {
                String::from("there is no room to preserve what younger copies need")
            }
            CopyOutcome::Done
            | CopyOutcome::Cut(_)
            | CopyOutcome::TooMany
            | CopyOutcome::Cancelled
            | CopyOutcome::Unrecorded
            | CopyOutcome::Unsupported => String::from("no layer preserves copies"),
        };
        let text = format!("the preserved copy of {} was not restored: {why}", turn.config().group);
        turn.warn(text.clone());
        let repair = match outcome {
            CopyOutcome::MemberFailed(member) | CopyOutcome::FlushFailed(member)
                if member.fault == StoreFault::Unrecorded =>
            {
                turn.config().repair_metadata()
            }
            _ => String::from("repair the disk"),
        };
        let hint = format!("{repair}, and repeat; or wait for a resync, which copies everything");
        self.not_promoted(Refusal::new("restore-failed", text, hint), keeper, record, turn);
    }

    /// Discards what was received and not applied: slots, cursors, gate. No item may be under way, since its write could replace a newer
    /// one. A flush may be under way.
    pub(crate) fn reset_follower(&mut self, keeper: &mut Keeper, record: &Record, turn: &mut Turn) {
        let Some(follower) = self.follower_mut() else { return };
        assert!(!follower.is_applying(), "a follower is laid down while it applies items");
        follower.lay_down(turn);
        *follower = Follower::new(turn.config().volumes.len(), record.superblock().head);
        keeper.forget_refused();
    }
}
