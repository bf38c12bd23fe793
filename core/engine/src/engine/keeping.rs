// SPDX-License-Identifier: Apache-2.0
//! What follows in the engine from what the [`Keeper`](crate::follow::before::Keeper) decides, on both nodes.

use crate::engine::Engine;
use crate::follow::before::{Facts, Next};
use crate::follow::follower::Follower;
use crate::peer::hang_up::HangUp;
use crate::record::save::Goal;
use alloc::string::String;
use helio_format::message::Parting;

const FILE_FAILED: &str = "the before-image file failed; repair it and restart the daemon";

/// The source counts on items that were not taken: the two meet again, and settle from where to go on.
pub(crate) const NO_SPACE: &str = "items were not accepted because there is no space";

impl Engine {
    /// Settles what a start needs before it may be adopted, and ends a keeping that nothing needs.
    pub(crate) fn arrange_keeping(&mut self) {
        if self.record.is_saving() || self.local.metadata_failed() || !self.keeper.is_idle() {
            return;
        }
        let follower = self.standing.follower();
        let start = follower.and_then(Follower::starting);
        if start.is_none() && self.keeper.rests() {
            return;
        }
        let facts = Facts {
            record: self.record.superblock(),
            consistent: self.view().is_consistent(),
            foreign: self.local.members().are_foreign(),
            start,
            drained: follower.is_some_and(Follower::is_drained),
            completed: self.standing.streaming().map(|follower| follower.completed()),
            bound: self.turn.config().safe_copy.bound(),
        };
        let next = self.keeper.arrange(&facts, self.turn.effects());
        self.follow_keeper(next);
    }

    /// Does what the keeper decided.
    pub(crate) fn follow_keeper(&mut self, next: Next) {
        let starting = |engine: &Self| engine.standing.follower().and_then(Follower::starting);
        let stops = matches!(next, Next::StopApplying(_));
        match next {
            Next::Nothing => {}
            Next::Issue(items) => {
                if let Some(follower) = self.standing.follower_mut() {
                    items.into_iter().for_each(|at| {
                        follower.issue(at, &mut self.keeper, &mut self.local, &mut self.turn)
                    });
                }
            }
            Next::RefuseStart(shortage) | Next::StopApplying(shortage) => {
                // A source that began in order again since asks for no keeping, and does not heed a want of room.
                let in_order = starting(self).is_some_and(|start| start.consistent);
                self.standing.refuse_items(&mut self.turn);
                shortage.tell(self.peer.session(), &mut self.turn);
                if stops && in_order {
                    self.hang_up(HangUp::new(Parting::RoleChanged, NO_SPACE));
                }
            }
            Next::StopForFailure | Next::FileFailed => {
                let needed = matches!(next, Next::StopForFailure);
                if !needed {
                    self.turn.warn(String::from(FILE_FAILED));
                }
                // Without the file nothing that needs it may go on: applying stops, and the connection ends.
                if needed || !self.record.superblock().consistent || starting(self).is_some() {
                    self.keeper.stop_for_failure();
                    self.standing.refuse_items(&mut self.turn);
                    self.hang_up(HangUp::new(Parting::VolumeFailed, FILE_FAILED));
                }
            }
            Next::FlushesFailed { volumes, restores } => self.standing.member_flushes_failed(
                (restores, volumes),
                &mut self.keeper,
                &self.record,
                &mut self.local,
                &mut self.turn,
            ),
            Next::Restored => self.record.want(Goal::Restored),
            Next::RestoreFailed(outcome) => {
                self.standing.restore_failed(
                    outcome,
                    &mut self.keeper,
                    &self.record,
                    &mut self.turn,
                );
            }
        }
    }
}
