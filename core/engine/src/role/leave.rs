// SPDX-License-Identifier: Apache-2.0
//! Leaving: a primary becomes secondary or stops, a secondary stops. Everything accepted is answered, what can be
//! delivered is, and the record says how the copies stand before the line is laid down.
//! How far it is, `LeaveStage` says (`standing.rs`).

use crate::config::Config;
use crate::effect::StoreOp;
use crate::event::{CommandId, StoreOutcome};
use crate::local::Local;
use crate::local::failure::Failed;
use crate::purpose::Purpose;
use crate::record::Record;
use crate::record::save::{Goal, Leave};
use crate::refusal::Refusal;
use crate::role::switch::SWITCH_PATIENCE;
use crate::role::{Following, Leading, LeaveStage, Stage, Standing, busy};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_units::{Bytes, Moment, VolumeIndex};

/// A clean stop of a primary waits this long for its queue to drain; what is left then is marks at the next start.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Why this primary does not leave.
pub(crate) fn last_copy_refusal(bytes: Bytes, config: &Config) -> Refusal {
    let (node, peer) = (&config.node, &config.peer);
    Refusal::later(
        "last-copy",
        format!(
            "{bytes} of acknowledged writes may exist only in the queue of {node}: its disk failed, and {peer} disconnected \
             before it flushed them"
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

    /// A secondary that closes has stopped, as a primary that left has already. Returns what commanded it to close.
    pub(crate) fn stop(&mut self) -> Option<CommandId> {
        let Stage::Following(Following::Closing { command, .. }) = self.stage() else {
            return None;
        };
        self.stand(Following::Stopped);
        Some(command)
    }

    /// Nothing was recorded and nobody was asked yet to take over: it just goes on.
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
