// SPDX-License-Identifier: Apache-2.0
//! What follows in the engine from what the [`Keeper`](crate::follow::before::Keeper) decides, on both nodes.

use crate::engine::Engine;
use crate::event::BeforeOutcome;
use crate::follow::before::{Facts, Next};
use crate::follow::follower::Follower;
use crate::local::suspect::bit;
use crate::peer::keeping::Shortage;
use crate::record::save::Goal;
use crate::refusal::StoreFault;
use alloc::string::String;
use helio_format::message::Parting;
use helio_units::Bytes;

const FILE_FAILED: &str = "the before-image file failed; repair it and restart the daemon";

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
            consistent: self.is_consistent(),
            foreign: self.local.members().are_foreign(),
            start,
            drained: follower.is_some_and(Follower::is_drained),
            completed: self.standing.streaming().map(|follower| follower.completed()),
            bound: self.turn.config().safe_copy.bound(),
        };
        let next = self.keeper.arrange(&facts, self.turn.effects());
        self.follow_keeper(next);
    }

    /// Preserves what items wait for.
    pub(crate) fn keep_preserving(&mut self) {
        if self.keeper.rests() {
            return;
        }
        let next = self.keeper.preserve(self.turn.config().safe_copy.bound(), self.turn.effects());
        self.follow_keeper(next);
    }

    /// What was requested of the before-image file ended.
    pub(crate) fn before_done(&mut self, outcome: BeforeOutcome) {
        let start = self.standing.follower().and_then(Follower::starting);
        let consistent = self.is_consistent();
        let next = self.keeper.done(outcome, start, consistent, self.turn.effects());
        self.follow_keeper(next);
    }

    fn follow_keeper(&mut self, next: Next) {
        let starting = |engine: &Self| engine.standing.follower().and_then(Follower::starting);
        match next {
            Next::Nothing => {}
            Next::Issue(items) => {
                if let Some(follower) = self.standing.follower_mut() {
                    items.into_iter().for_each(|at| {
                        follower.issue(at, &mut self.keeper, &mut self.local, &mut self.turn)
                    });
                }
            }
            Next::RefuseStart(shortage) => self.refuse_for_room(shortage),
            Next::StopApplying(shortage) => {
                // A source that began in order again since asks for no keeping, and does not heed a want of room.
                let in_order = starting(self).is_some_and(|start| start.consistent);
                self.refuse_for_room(shortage);
                if in_order {
                    self.meet_again_for_room();
                }
            }
            Next::StopForFailure => self.stop_for_failed_file(),
            Next::FileFailed => {
                self.turn.warn(String::from(FILE_FAILED));
                if !self.record.superblock().consistent || starting(self).is_some() {
                    self.stop_for_failed_file();
                }
            }
            Next::FlushesFailed { volumes, restores } => {
                self.member_flushes_failed(restores, volumes);
            }
            Next::Restored => self.save(Goal::Restored),
            Next::RestoreFailed(outcome) => self.restore_failed(outcome),
        }
    }

    /// The source's items are not accepted; the shortage is logged and reported to the source.
    fn refuse_for_room(&mut self, shortage: Shortage) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.refuse(&mut self.turn);
        }
        self.turn.warn(shortage.warning(&self.turn.config().group));
        if self.peer.session.peer().is_some() {
            self.turn.send(shortage.message());
        }
    }

    /// The source counts on items that were not taken: the two meet again, and settle from where to go on.
    pub(crate) fn meet_again_for_room(&mut self) {
        self.hang_up(
            Parting::RoleChanged,
            String::from("items were not accepted because there is no space"),
        );
    }

    /// What those stores hold of earlier writes is unknown, as behind any flush that fails.
    fn member_flushes_failed(&mut self, restores: bool, volumes: u64) {
        for volume in self.turn.config().indices() {
            if volumes & bit(volume) == 0 {
                continue;
            }
            self.own_flush_failed(volume, StoreFault::Io);
            if restores {
                // Chunks that were put back lie in no hot extent.
                self.local.suspect_mut().all_of(volume, self.turn.config());
            }
        }
        if restores {
            self.restore_failed(BeforeOutcome::FlushFailed { volumes });
        }
    }

    /// Without the file nothing that needs it may go on: applying stops, and the connection ends.
    fn stop_for_failed_file(&mut self) {
        self.keeper.stop_for_failure();
        if let Some(follower) = self.standing.follower_mut() {
            follower.refuse(&mut self.turn);
        }
        self.hang_up(Parting::VolumeFailed, String::from(FILE_FAILED));
    }

    /// The peer has no room to keep its image: the update does not go on.
    pub(crate) fn peer_has_no_room(&mut self, wanted: Bytes, free: Bytes) -> Result<(), String> {
        let Some(primary) = self.standing.primary_mut() else {
            return Err(String::from("a lack of space was reported to a node that copies nothing"));
        };
        if !primary.peer_has_no_room(Shortage::new(wanted, free)) {
            return Ok(());
        }
        if primary.lack.is_some() {
            // Marks could not take the queue's place: the two meet again, until there is room or it is given up.
            let why = primary.keeping().needs_room(self.turn.config());
            self.hang_up(Parting::RoleChanged, why);
        } else {
            primary.drop_queue(
                "the peer has no space to preserve its copy",
                &mut self.local,
                &self.permit,
                &mut self.turn,
            );
        }
        Ok(())
    }

    /// Updates without keeping the peer's last consistent image.
    pub(crate) fn give_up_safe_copy(&mut self) {
        if let Some(primary) = self.standing.primary_mut() {
            primary.give_up_safe_copy();
            // An update under way begins anew, so that the peer hears of it.
            if primary.is_updating() {
                primary.drop_queue(
                    "the operator requested a resync without a safe copy",
                    &mut self.local,
                    &self.permit,
                    &mut self.turn,
                );
            }
        }
    }
}
