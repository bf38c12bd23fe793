// SPDX-License-Identifier: Apache-2.0
//! A change of role goes on, a stage at a time: what each stage waits for (`role/standing.rs` has the drawing).

use crate::engine::Engine;
use crate::follow::follower::Follower;
use crate::record::save::{Goal, Leave};
use crate::role::{Following, Leading, LeaveStage, Stage};
use crate::show::view::View;
use helio_units::Moment;

impl Engine {
    /// Moves a change of role on as far as it can go now.
    pub(crate) fn change_role(&mut self) {
        let drains = self.standing.is_draining();
        let last_copy = if drains { self.view().last_copy() } else { None };
        self.standing.keep_last_copy(last_copy, &mut self.turn);
        let failed = self.standing.failed();
        match self.standing.stage() {
            // A beginning that was being recorded when the promotion began may have made the copy inconsistent.
            Stage::Following(Following::Promoting { saving: false, .. })
                if !self.record.superblock().consistent && failed.is_none() =>
            {
                let refusal = self.view().needs_sync();
                if self.view().may_restore_now() {
                    let (keeper, record) = (&mut self.keeper, &mut self.record);
                    self.standing.restore_or_end(refusal, keeper, record, &mut self.turn);
                }
            }
            Stage::Following(Following::Promoting { saving: false, .. })
                if self.permit.lease().ran_out(self.turn.now()) =>
            {
                let refusal = self.permit.lease_mut().end_takeover(self.turn.config());
                self.standing.not_promoted(refusal, &mut self.keeper, &self.record, &mut self.turn);
            }
            Stage::Following(Following::Promoting { command, equal, saving: false })
                if self.view().can_leave_following() && self.keeper.is_over(&self.local) =>
            {
                // What could not be ended is of no use: it neither holds up nor refuses what clients write.
                self.keeper.abandon(&mut self.local, &mut self.turn);
                self.standing.stand(Following::Promoting { command, equal, saving: true });
                self.record.want(Goal::Promoted);
            }
            Stage::Following(Following::Promoting { saving: false, .. })
                if let Some(failed) = failed =>
            {
                let refusal = self.view().volume_refusal(failed.0, failed.1);
                self.standing.not_promoted(refusal, &mut self.keeper, &self.record, &mut self.turn);
            }
            Stage::Leading(Leading::Leaving { command, to: Leave::Hand, until, stage })
                if self.view().cannot_hand(until, stage) =>
            {
                let refusal = self.view().why_not_handed();
                self.standing.keep_primary(&refusal, &mut self.turn);
                self.peer.session().finish(command, Err(refusal), &mut self.turn);
            }
            Stage::Following(Following::Handing { until, .. }) if self.turn.now() >= until => {
                self.end_handing(self.view().handed_unheard());
            }
            Stage::Leading(Leading::Leaving { command, to, until, stage })
                if stage == LeaveStage::Draining
                    && self.standing.is_delivered(until, &self.permit, &self.turn) =>
            {
                self.standing.flush_last(command, to, until, &mut self.local, &mut self.turn);
            }
            Stage::Following(Following::Closing { command, saving: false })
                if self.view().can_leave_following() && self.standing.streaming().is_some() =>
            {
                self.standing.stand(Following::Closing { command, saving: true });
                self.record.want(Goal::Closed);
            }
            Stage::Following(Following::Closing { saving: false, .. })
                if self.view().can_leave_following()
                    || (failed.is_some() && !self.standing.owes_failed_flush(&self.local))
                    || self.view().is_stuck() =>
            {
                self.standing.stop_now(None, &mut self.record, &self.local, &mut self.turn);
            }
            Stage::Leading(Leading::Leaving { stage: LeaveStage::Cooling, .. }) => {
                let (local, turn) = (&mut self.local, &mut self.turn);
                self.standing.cool_down(&self.permit, &mut self.record, local, turn);
            }
            _ => {}
        }
    }
}

impl View<'_> {
    pub(crate) fn can_leave_following(&self) -> bool {
        let drained = |f: &Follower| f.is_drained() && f.failed().is_none();
        self.standing.follower().is_some_and(drained) && !self.record.is_saving()
    }

    pub(crate) fn role_deadline(&self) -> Moment {
        let due = match self.standing.stage() {
            // Behind that moment it is only what is under way that it waits for.
            Stage::Leading(Leading::Leaving { until, stage: LeaveStage::Draining, .. })
                if until <= self.turn.now() =>
            {
                Moment::NEVER
            }
            Stage::Leading(Leading::Leaving { until, stage: LeaveStage::Draining, .. }) => until,
            Stage::Leading(Leading::Leaving {
                until,
                to: Leave::Hand,
                stage: LeaveStage::Cooling,
                ..
            }) => until,
            Stage::Following(Following::Handing { until, .. }) => until,
            _ => self.asked.switch_until(),
        };
        due.min(self.stop_deadline())
    }
}
