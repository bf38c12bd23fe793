// SPDX-License-Identifier: Apache-2.0
//! Leaving: a primary becomes secondary or stops, a secondary stops. Everything accepted is answered, what can be
//! delivered is, and the record says how the copies stand before the line is laid down.
//! How far it is, `LeaveStage` says (`standing.rs`).

use crate::config::Config;
use crate::effect::Effect;
use crate::event::{CommandId, StoreOutcome};
use crate::follow::before::Keeper;
use crate::follow::follower::Follower;
use crate::lead::Primary;
use crate::local::Local;
use crate::local::failure::Failed;
use crate::peer::permit::Permit;
use crate::purpose::Purpose;
use crate::record::Record;
use crate::record::save::{Goal, Leave};
use crate::refusal::Refusal;
use crate::resync::verify::Verify;
use crate::role::switch::SWITCH_PATIENCE;
use crate::role::{Following, Leading, LeaveStage, Stage, Standing, busy};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_stack::StoreOp;
use helio_units::{Bytes, Moment, VolumeIndex};

/// A clean stop of a primary waits this long for its queue to drain; what is left then is marks at the next start. Before that it
/// waits as long for a peer that is away, if only the queue holds acknowledged writes.
pub const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Why this primary does not leave.
pub(crate) fn last_copy_refusal(bytes: Bytes, config: &Config) -> Refusal {
    let (node, peer) = (&config.node, &config.peer);
    Refusal::later(
        "last-copy",
        format!(
            "{bytes} of acknowledged writes may exist only in the queue of {node}: its own copy is incomplete, and {peer} \
             has not flushed them"
        ),
        format!("connect {peer} again; {node} then resends them"),
    )
}

impl Standing {
    /// Begins to leave. `last_copy`: what only this primary's queue holds.
    pub(crate) fn leave(
        &mut self,
        command: Option<CommandId>,
        to: Leave,
        last_copy: Option<Bytes>,
        record: &mut Record,
        turn: &Turn,
    ) -> Result<Option<String>, Refusal> {
        match (self.stage(), last_copy) {
            (Stage::Leading(Leading::Primary), Some(bytes))
                if command.is_some() && to == Leave::Secondary =>
            {
                return Err(last_copy_refusal(bytes, turn.config()));
            }
            (Stage::Leading(Leading::Primary), _) => {}
            (Stage::Following(Following::Secondary), _) if to == Leave::Secondary => {
                return Ok(Some(format!("{} is secondary here already", turn.config().group)));
            }
            (Stage::Following(Following::Returning), _) if to == Leave::Secondary => {
                self.stand(Following::Secondary);
                record.want(Goal::SteppedBack);
                return Ok(Some(String::from("no longer waiting to become primary again")));
            }
            _ => return Err(busy()),
        }
        let patience = match to {
            Leave::Secondary => Duration::MAX,
            Leave::Hand => SWITCH_PATIENCE,
            Leave::Stop => STOP_PATIENCE,
        };
        let until = turn.now() + patience;
        self.stand(Leading::Leaving { command, to, until, stage: LeaveStage::Draining });
        if let Some(primary) = self.primary_mut() {
            primary.copier_mut().stop();
        }
        Ok(None)
    }

    /// Everything is answered and delivered: what the stores hold is made durable, but for those that were given up.
    pub(crate) fn flush_last(
        &mut self,
        command: Option<CommandId>,
        to: Leave,
        until: Moment,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let all = turn.config().indices();
        let lost = |volume: &VolumeIndex| self.primary().is_some_and(|p| p.is_lost(*volume));
        let volumes: Vec<_> = all.filter(|volume| !lost(volume)).collect();
        let stage = match volumes.len() as u16 {
            0 => LeaveStage::Cooling,
            left => LeaveStage::Flushing(left),
        };
        self.stand(Leading::Leaving { command, to, until, stage });
        for volume in volumes {
            local.store(volume, StoreOp::Flush, Purpose::Leave(volume), turn);
        }
    }

    /// One of the local flushes before leaving ended. `released`: nothing that was answered is held back.
    pub(crate) fn leave_flushed(
        &mut self,
        volume: VolumeIndex,
        outcome: &StoreOutcome,
        released: bool,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Self::Leading {
            primary,
            stage: Leading::Leaving { to, stage: stage @ LeaveStage::Flushing(_), .. },
        } = self
        else {
            panic!("a flush ended that was not requested")
        };
        if let StoreOutcome::Failed(fault) = *outcome {
            turn.warn(format!("the last flush before leaving failed: {fault}"));
            primary.store_failed(volume, Failed::Flush, fault, local, turn);
        }
        *stage = match *stage {
            LeaveStage::Flushing(left @ 2..) => LeaveStage::Flushing(left - 1),
            // Something was asked just before the clients were let go: once more.
            _ if *to == Leave::Hand
                && !(released && primary.is_quiet() && !primary.owes_items()) =>
            {
                LeaveStage::Draining
            }
            _ => LeaveStage::Cooling,
        };
    }

    /// Leaves once the bitmap is saved and no extent is hot: then the record names exactly the regions that the peer lacks.
    pub(crate) fn cool_down(
        &mut self,
        permit: &Permit,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Stage::Leading(Leading::Leaving { command, to, until, stage: LeaveStage::Cooling }) =
            self.stage()
        else {
            return;
        };
        if to == Leave::Hand {
            if !self.is_delivered(Moment::NEVER, permit, turn) {
                // Something was asked just before the clients were let go: once more.
                return self.stand(Leading::Leaving {
                    command,
                    to,
                    until,
                    stage: LeaveStage::Draining,
                });
            }
            // The peer must follow the newest generation before it takes the role over.
            let told = |p: &Primary| p.is_taken_up() && !p.is_to_tell_generation();
            if record.is_saving() || !self.primary().is_some_and(told) {
                return;
            }
        }
        if let Some(p) = self.primary_mut()
            && p.owed().queues_in_order()
            && (!p.owed().stays_consistent() || p.cursors().durable() < p.head())
        {
            p.drop_queue("this node leaves the primary role", local, permit, turn);
            local.hot_mut().bitmap_changed();
        }
        let failed = local.metadata_failed() || local.suspect().any();
        if !failed {
            self.relieve(true, record, local, turn);
        }
        // What is hot on a store that was given up stays so: it counts as marked.
        let lost = self.primary().is_some_and(|p| p.has_lost());
        if failed || (self.marks(record).is_saved() && (lost || local.hot().is_cold())) {
            self.stand(Leading::Leaving { command, to, until, stage: LeaveStage::Saving });
            record.want(Goal::Left(to));
        }
    }

    /// Whether a leaving primary has nothing more to wait for.
    pub(crate) fn is_delivered(&self, until: Moment, permit: &Permit, turn: &Turn) -> bool {
        let Some(p) = self.primary() else { return true };
        let owed = p.owes_items() && turn.now() < until;
        p.is_quiet() && permit.pause().is_quiet() && !owed
    }

    /// Ends the stream of this primary. The node becomes `next`.
    pub(crate) fn lay_line_down(
        &mut self,
        next: Following,
        verify: &mut Verify,
        record: &mut Record,
        local: &mut Local,
        keeper: &mut Keeper,
        turn: &mut Turn,
    ) {
        let follower = Follower::new(turn.config().volumes.len(), record.superblock().head);
        if let Some(primary) = self.lay_down(follower, next) {
            verify.rewind();
            record.keeping_mut().rest(primary.lay_down(turn));
            record.keeping_mut().line_changed(local.hot_mut(), turn.now());
            local.reload_suspect(record.superblock(), turn.config());
        }
        keeper.forget_refused();
    }

    /// A primary has left, or a secondary has applied what it received: nothing more will be asked for.
    pub(crate) fn stop_now(
        &mut self,
        command: Option<CommandId>,
        record: &mut Record,
        local: &Local,
        turn: &mut Turn,
    ) {
        let command = match self.stage() {
            Stage::Following(Following::Closing { command, .. }) => {
                self.stand(Following::Stopped);
                Some(command)
            }
            // A primary that left has stopped already.
            _ => command,
        };
        record.want_nothing();
        // Items that could not be applied (the disk failed, there is no room, a record cannot be written) would be held for ever.
        if let Some(follower) = self.follower_mut().filter(|follower| follower.is_still()) {
            follower.lay_down(turn);
        }
        let text = if local.metadata_failed() {
            "stopped; this could not be recorded, so the next start counts as a start after a crash"
        } else {
            "stopped cleanly"
        };
        if let Some(id) = command {
            turn.done(id, Ok(String::from(text)));
        }
        turn.push(Effect::Stopped);
    }

    /// Nothing was recorded and the peer was not requested to take over: this node stays primary.
    pub(crate) fn keep_primary(&mut self, refusal: &Refusal, turn: &mut Turn) {
        self.stand(Leading::Primary);
        turn.warn(format!("no change of roles: {}", refusal.text));
    }

    /// A demotion goes back where the peer left before it had flushed what only this queue holds.
    pub(crate) fn keep_last_copy(&mut self, last_copy: Option<Bytes>, turn: &mut Turn) {
        let Stage::Leading(Leading::Leaving {
            command: Some(command),
            to: Leave::Secondary,
            stage: LeaveStage::Draining,
            ..
        }) = self.stage()
        else {
            return;
        };
        let Some(bytes) = last_copy else { return };
        let refusal = last_copy_refusal(bytes, turn.config());
        turn.warn(format!("not demoted: {}", refusal.text));
        self.stand(Leading::Primary);
        turn.done(command, Err(refusal));
    }
}
