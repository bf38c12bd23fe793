// SPDX-License-Identifier: Apache-2.0
//! A primary or secondary that leaves, among the other rooms: what follows once it is drained, flushed and recorded.

use crate::effect::{Done, Effect};
use crate::engine::Engine;
use crate::event::CommandId;
use crate::follow::follower::Follower;
use crate::lead::Primary;
use crate::record::save::Goal;
use crate::record::save::Leave;
use crate::refusal::Refusal;
use crate::role::switch::ANSWER_PATIENCE;
use crate::role::{Following, Leading, LeaveStage, Stage, busy};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_format::message::{Message, Parting};
use helio_format::roles::Roles;
use helio_units::{Bytes, Moment};

impl Engine {
    pub(crate) fn stop(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        match self.standing.stage() {
            Stage::Leading(Leading::Primary) => {
                if self.asked.stop_waits(self.view().last_copy(), &mut self.turn) {
                    self.asked.stop_later(id);
                    return Ok(None);
                }
                let last_copy = self.view().last_copy();
                self.standing.leave(Some(id), Leave::Stop, last_copy, &mut self.record, &self.turn)
            }
            Stage::Following(Following::Secondary | Following::Returning)
            | Stage::Following(Following::Handing { .. }) => {
                self.handed_unheard();
                let up = self.peer.session().peer().is_some();
                self.permit.lease_mut().is_not_needed(up, self.turn.effects());
                self.hang_up(Parting::Stopping, String::from("the daemon stops"));
                self.standing.stand(Following::Closing { command: id, saving: false });
                self.standing.hurry();
                Ok(None)
            }
            Stage::Following(Following::Stopped) => Ok(Some(String::from("stopped already"))),
            Stage::Following(Following::Closing { .. }) => Err(busy()),
            // A change of role under way ends first: a stop that was asked for happens.
            _ => {
                self.asked.stop_later(id);
                Ok(None)
            }
        }
    }

    /// Every mark kept and no extent hot: what this node leaves behind tells exactly what its peer lacks.
    pub(crate) fn cool_down(&mut self) {
        let Stage::Leading(Leading::Leaving { command, to, until, stage: LeaveStage::Cooling }) =
            self.standing.stage()
        else {
            return;
        };
        if to == Leave::Hand {
            if !self.view().is_delivered(Moment::NEVER) {
                // Something was asked just before the clients were let go: once more.
                return self.standing.stand(Leading::Leaving {
                    command,
                    to,
                    until,
                    stage: LeaveStage::Draining,
                });
            }
            // Whoever is to take over follows the newest generation first.
            let told = |p: &Primary| p.is_taken_up() && !p.is_to_tell_generation();
            if self.record.is_saving() || !self.standing.primary().is_some_and(told) {
                return;
            }
        }
        if let Some(p) = self.standing.primary_mut()
            && p.owed().queues_in_order()
            && (!p.owed().stays_consistent() || p.cursors().durable() < p.head())
        {
            p.drop_queue(
                "this node leaves the primary role",
                &mut self.local,
                &self.permit,
                &mut self.turn,
            );
            self.local.hot_mut().bitmap_changed();
        }
        let failed = self.local.metadata_failed() || self.local.suspect().any();
        if !failed {
            self.standing.relieve(true, &mut self.record, &mut self.local, &mut self.turn);
        }
        // What is hot on a store that was given up stays so: it counts as marked.
        let lost = self.standing.primary().is_some_and(|p| p.has_lost());
        if failed || (self.view().marks().is_saved() && (lost || self.local.hot().is_cold())) {
            self.standing.stand(Leading::Leaving { command, to, until, stage: LeaveStage::Saving });
            self.record.want(Goal::Left(to));
        }
    }

    pub(crate) fn left(&mut self, to: Leave) {
        let Stage::Leading(Leading::Leaving { command, .. }) = self.standing.stage() else {
            return;
        };
        let behind = self
            .standing
            .primary()
            .map_or(Bytes::ZERO, |p| p.lag(self.turn.now(), &self.local).bytes);
        self.lay_line_down(match to {
            Leave::Secondary => Following::Secondary,
            Leave::Hand => Following::Handing { command, until: self.turn.now() + ANSWER_PATIENCE },
            Leave::Stop => Following::Stopped,
        });
        let delivered = self.record.superblock().equal;
        let peer = self.turn.config().peer.clone();
        let text = if delivered {
            format!("{peer} has everything")
        } else if behind == Bytes::ZERO {
            format!("{peer} does not have everything, as far as this node knows")
        } else {
            format!("{peer} does not have everything: up to {behind} exist only on this node")
        };
        match to {
            Leave::Secondary => {
                if let Some(id) = command {
                    let text = format!("secondary now; {text}");
                    let result = Ok(Done { text, peer_behind: !delivered });
                    self.turn.push(Effect::CommandDone { id, result });
                }
                self.hang_up(Parting::RoleChanged, String::from("no longer primary"));
            }
            Leave::Hand => {
                let b = self.record.superblock();
                if b.clean && b.equal && self.peer.session().peer().is_some() {
                    // The record says secondary, and the peer has everything: it is asked to be primary.
                    let (generation, head) = (b.lineage.generation, b.head);
                    self.turn.send(Message::Roles(Roles::Invite { generation, head }));
                    // What it says from before that proves nothing of what it does then.
                    self.peer.session_mut().prove_anew(self.turn.now());
                } else {
                    self.take_back("it disconnected, or is not in sync");
                }
            }
            Leave::Stop => {
                self.hang_up(Parting::Stopping, String::from("the daemon stops"));
                self.stop_now(command);
            }
        }
    }

    /// What this node held as primary is let go.
    pub(crate) fn lay_line_down(&mut self, next: Following) {
        let follower =
            Follower::new(self.turn.config().volumes.len(), self.record.superblock().head);
        if let Some(primary) = self.standing.lay_down(follower, next) {
            self.resync.verify_mut().rewind();
            self.record.keeping_mut().rest(primary.lay_down(&mut self.turn));
            self.record.keeping_mut().line_changed(self.local.hot_mut(), self.turn.now());
            self.local.reload_suspect(self.record.superblock(), self.turn.config());
        }
        self.permit.pause_mut().forget(self.turn.effects());
        self.permit.lease_mut().laid_down();
        self.keeper.forget_parked();
    }

    /// A primary has left, or a secondary has applied what it received: nothing more will be asked for.
    pub(crate) fn stop_now(&mut self, command: Option<CommandId>) {
        let command = self.standing.stop().or(command);
        self.record.want_nothing();
        let text = if self.local.metadata_failed() {
            "stopped; this could not be recorded, so the next start counts as a start after a crash"
        } else {
            "stopped cleanly"
        };
        self.peer.session().finish(command, Ok(String::from(text)), &mut self.turn);
        self.turn.push(Effect::Stopped);
    }
}

impl View<'_> {
    /// Whether a leaving primary has nothing more to wait for.
    pub(crate) fn is_delivered(&self, until: Moment) -> bool {
        let Some(p) = self.standing.primary() else { return true };
        let owed = p.owes_items() && self.turn.now() < until;
        p.is_quiet() && self.permit.pause().is_quiet() && !owed
    }

    /// Whether what the records hold is being brought down to what is really owed, before this node leaves.
    pub(crate) fn is_going_cold(&self) -> bool {
        matches!(
            self.standing.stage(),
            Stage::Leading(Leading::Leaving { stage: LeaveStage::Cooling, .. })
        )
    }
}
