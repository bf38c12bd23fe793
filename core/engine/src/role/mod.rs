// SPDX-License-Identifier: Apache-2.0
//! What a node is to its group, and how that changes: promotion, demotion, stopping, coming back.
//!
//! ```text
//!                 ask the peer            granted or forced, drained            saved
//!   Secondary ───────────────────> Asking ────────────────────────> Promoting ───────> Primary
//!       ^  ^                         │ refused, lost                    ^                 │ demote, stop
//!       │  └─────────────────────────┘                                  │                 v
//!       └──────────────────────── saved ────────────────────────────────┼───────────── Leaving ──saved──> Stopped
//!       ^                                                               │
//!   Returning (was primary when it stopped) ──the peer did not go on────┘
//!       └──the peer went on──> Secondary
//! ```
//! A planned change of both roles (`switch.rs`) goes on where a demotion ends:
//! ```text
//!   Leaving ──saved──> Handing ──the peer serves, or nobody can tell──> Secondary
//!      │                  └──the peer surely did not take over──> Promoting ──> Primary
//!      └──it does not drain──> Primary
//! ```
//! A secondary whose copy is suspect, or a primary that came back with one, is neither while an operator accepts the copy
//! (`suspect/accept.rs`): Secondary, Returning ──> Accepting ──> Secondary, or as before where that fails.
//!
//! A demotion goes back to Primary too, where the queue turns out to be the last copy (`last_copy.rs`).
//! Every arrow into Primary and every arrow out of it passes a durable superblock first. An old primary is never
//! silently primary: it goes on only when its peer says that it did not.

pub(crate) mod last_copy;
pub(crate) mod leave;
pub(crate) mod pause;
pub(crate) mod promote;
pub(crate) mod resolve;
pub(crate) mod switch;

use crate::effect::{Done, Effect};
use crate::engine::Engine;
use crate::event::{Command, CommandId};
use crate::local::suspect::Rewriting;
use crate::peer::session::Link;
use crate::record::save::Goal;
use crate::refusal::{Refusal, StoreFault};
use alloc::format;
use alloc::string::String;
use helio_units::{Mode, Moment, VolumeIndex};

/// Where a leaving primary goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Secondary,
    /// Secondary, and the peer is to be primary.
    Hand,
    Stop,
}

/// How far a leaving primary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveStage {
    /// Requests are being answered, the queue drains.
    Draining,
    /// The local volumes are being flushed; how many are not.
    Flushing(u16),
    /// Marks are being kept, hot extents go.
    Cooling,
    /// The superblock is on its way.
    Saving,
}

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Secondary,
    Returning,
    Asking {
        command: CommandId,
    },
    /// What was received is applied; then the superblock is saved (`saving`).
    Promoting {
        command: Option<CommandId>,
        equal: bool,
        saving: bool,
    },
    Primary,
    Leaving {
        /// None where the peer asked for it.
        command: Option<CommandId>,
        to: Leave,
        until: Moment,
        stage: LeaveStage,
    },
    /// Secondary by its record; the peer was asked to be primary, and has not said yet whether it is.
    Handing {
        command: Option<CommandId>,
        until: Moment,
    },
    /// A secondary applies what it received, then stops.
    Closing {
        command: CommandId,
        saving: bool,
    },
    /// Neither primary nor secondary: a copy that a failed flush left suspect is written again as it reads.
    Accepting {
        command: CommandId,
        volume: VolumeIndex,
        stage: Rewriting,
    },
    Stopped,
}

impl Standing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Secondary => "secondary",
            Self::Returning => "returning",
            Self::Asking { .. } => "asking",
            Self::Promoting { .. } => "promoting",
            Self::Primary => "primary",
            Self::Leaving { .. } => "leaving",
            Self::Handing { .. } => "handing",
            Self::Closing { .. } => "closing",
            Self::Accepting { .. } => "accepting",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the node may introduce itself.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Secondary | Self::Returning | Self::Primary | Self::Handing { .. })
    }

    pub(crate) fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving { .. })
    }

    /// Leaving, with requests or items still under way.
    pub(crate) fn is_draining(self) -> bool {
        matches!(self, Self::Leaving { stage: LeaveStage::Draining, .. })
    }

    /// Whether requests are taken. Clients who are let go for a change of roles may have asked just before.
    pub(crate) fn takes_requests(self) -> bool {
        match self {
            Self::Primary => true,
            Self::Leaving { to: Leave::Hand, stage, .. } => stage != LeaveStage::Saving,
            _ => false,
        }
    }

    /// Leaving, whether or not the peer has everything.
    pub(crate) fn is_leaving_for_good(self) -> bool {
        matches!(self, Self::Leaving { to: Leave::Secondary | Leave::Stop, .. })
    }

    /// The arrows of the drawing.
    fn may_become(self, next: Self) -> bool {
        use Standing as S;
        matches!(
            (self, next),
            (
                S::Secondary | S::Returning,
                S::Asking { .. } | S::Promoting { .. } | S::Closing { .. }
            ) | (S::Returning, S::Secondary)
                | (S::Asking { .. }, S::Secondary | S::Returning | S::Promoting { .. })
                | (
                    S::Promoting { .. },
                    S::Promoting { .. } | S::Primary | S::Secondary | S::Returning
                )
                | (S::Primary, S::Leaving { .. })
                | (S::Leaving { .. }, S::Leaving { .. } | S::Secondary | S::Returning | S::Stopped)
                | (S::Leaving { to: Leave::Hand, .. }, S::Handing { .. })
                | (S::Leaving { to: Leave::Hand | Leave::Secondary, .. }, S::Primary)
                | (S::Handing { .. }, S::Secondary | S::Promoting { .. })
                | (S::Closing { .. }, S::Closing { .. } | S::Stopped)
                | (S::Secondary | S::Returning, S::Accepting { .. })
                | (S::Accepting { .. }, S::Accepting { .. } | S::Secondary | S::Returning)
        )
    }
}

impl Engine {
    /// The one gate for changes of standing.
    pub(crate) fn stand(&mut self, next: Standing) {
        assert!(
            self.standing.may_become(next),
            "a node cannot go from {} to {}",
            self.standing.name(),
            next.name()
        );
        self.standing = next;
    }

    /// Secondary, or returning where the superblock still says primary.
    pub(crate) fn resting(&self) -> Standing {
        if self.superblock.role == helio_units::Role::Primary {
            Standing::Returning
        } else {
            Standing::Secondary
        }
    }

    pub(crate) fn command(&mut self, id: CommandId, command: Command) {
        let result = match command {
            Command::Promote { force } => self.promote(id, force, false),
            Command::Restore { force } => self.promote(id, force, true),
            Command::Demote => self.leave(Some(id), Leave::Secondary),
            Command::Yield { generation } => self.give_up(id, generation),
            Command::Switch => self.switch(id),
            Command::Stop => self.stop(id),
            Command::Pause => self.pause(),
            Command::Resume => self.resume(id),
            Command::Resync => self.resync(id),
            Command::FullResync => self.full_resync(id),
            Command::Reverse { full } => self.reverse(id, full),
            Command::Replace { volume, identity, block } => {
                self.replace(id, volume, (identity, block))
            }
            Command::Accept { volume } => self.accept(id, volume),
            Command::GiveUpSafeCopy => {
                self.give_up_safe_copy();
                self.resync(id)
            }
            Command::Mode(mode) => self.change_mode(mode),
            Command::ResetQueueMarks => self.reset_queue_marks(),
            Command::Verify(wish) => self.verify(wish),
            Command::StopVerify => self.stop_verify(),
            Command::SeedBegin { at } => self.seed_begin(id, at),
            Command::SeedEnd => self.seed_end(id),
        };
        match result {
            Ok(None) => {}
            Ok(Some(text)) => self.done(id, Ok(text)),
            Err(refusal) => self.done(id, Err(refusal)),
        }
    }

    pub(crate) fn done(&mut self, id: CommandId, result: Result<String, Refusal>) {
        self.shared.out.push(Effect::CommandDone { id, result: result.map(Done::from) });
    }

    fn pause(&mut self) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        if self.is_lacking() {
            return Err(self.lacks("pause"));
        }
        let Some(primary) = &mut self.primary else { return Err(self.not_primary("pause")) };
        primary.peer_keeping.refused = None;
        primary.drop_queue("paused by an operator", &mut self.shared);
        primary.owed.pause();
        self.shared.cover.bitmap_changed();
        let group = &self.shared.config.group;
        Ok(Some(format!(
            "{group} is paused: dirty regions are recorded and nothing is sent; `helio resume {group}` ends the pause"
        )))
    }

    /// Ends a pause as a resync does, and nothing else.
    fn resume(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        let Some(primary) = &self.primary else { return Err(self.not_primary("resume")) };
        if !primary.owed.is_paused() {
            let group = &self.shared.config.group;
            return Err(Refusal::new(
                "not-paused",
                format!("{group} is not paused"),
                format!(
                    "`helio resync {group}` copies dirty regions; `helio status {group}` shows the state"
                ),
            ));
        }
        self.resync(id)
    }

    fn resync(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        if let Some(text) = self.pull_on()? {
            return Ok(Some(text));
        }
        if let Some(primary) = &mut self.primary {
            primary.faulted = None;
            self.refuse_while_seeding()?;
        }
        self.refuse_while_suspect()?;
        let Some(primary) = &mut self.primary else { return Err(self.not_primary("resync")) };
        primary.owed.end_pause();
        primary.mark_differing(&mut self.shared);
        if primary.flow.is_some() && primary.owed.has_lost_order() {
            primary.copier.running = true;
            return Ok(Some(String::from("the resync is running")));
        }
        if primary.flow.is_some() {
            primary.mend(&self.shared);
            return Ok(Some(String::from(if primary.marks.none_dirty() {
                "nothing to resync: writes are sent in order"
            } else {
                "dirty regions are copied, in order with new writes"
            })));
        }
        if self.session.peer().is_none() {
            self.update_wanted = true;
            return Ok(Some(String::from(
                "the peer is not connected; the resync starts when it is",
            )));
        }
        if self.awaited.is_some() {
            self.update_wanted = true;
            return Ok(Some(String::from(
                "the resync starts when the nodes have exchanged their bitmaps",
            )));
        }
        self.sync_or_ask(Some(id))
    }

    /// Compares or copies everything, whatever is marked.
    fn full_resync(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        if self.is_lacking() {
            return Err(self.lacks("resync"));
        }
        self.refuse_while_suspect()?;
        if self.primary.is_some() && self.is_seeding() {
            return self.seed_given_up().map(Some);
        }
        let Some(primary) = &mut self.primary else {
            return Err(self.not_primary("resync --full"));
        };
        primary.drop_queue("the operator requested a full resync", &mut self.shared);
        primary.marks.set_all();
        self.shared.cover.bitmap_changed();
        self.resync(id)
    }

    pub(crate) fn not_primary(&self, verb: &str) -> Refusal {
        let (group, peer) = (&self.shared.config.group, &self.shared.config.peer);
        Refusal::new(
            "not-primary",
            format!("{group} is {} on this node", self.standing.name()),
            format!("`helio {verb} {group}` on the primary, which may be {peer}"),
        )
    }

    /// The primary's mode is the mode of the group, and its secondary takes it over. A secondary without a primary may be promoted next.
    fn change_mode(&mut self, mode: Mode) -> Result<Option<String>, Refusal> {
        let follows = self.session.peer().is_some_and(|peer| peer.serving);
        if self.primary.is_none() && follows {
            let (group, peer) = (&self.shared.config.group, &self.shared.config.peer);
            return Err(Refusal::new(
                "not-primary",
                format!("{peer} is primary of {group}, and its mode is the mode of the group"),
                format!("`helio mode {group} {mode}` on {peer}"),
            ));
        }
        self.shared.config.mode = mode;
        if let Some(primary) = &mut self.primary {
            primary.mode_changed(&mut self.shared);
        }
        self.lease_mode_changed();
        let group = &self.shared.config.group;
        Ok(Some(if self.primary.is_some() {
            format!("the mode of {group} is {mode} until a restart; to keep it, change the file")
        } else {
            format!("the mode of {group} is {mode} if this node is promoted next")
        }))
    }

    fn reset_queue_marks(&mut self) -> Result<Option<String>, Refusal> {
        let Some(primary) = &mut self.primary else { return Err(self.not_primary("queue reset")) };
        primary.queue.reset_marks(self.shared.now);
        primary.answers.clear();
        Ok(Some(format!(
            "the high-water marks, counters and latency histograms of {} are reset",
            self.shared.config.group
        )))
    }

    /// Moves a change of role on as far as it can go now.
    pub(crate) fn change_role(&mut self) {
        self.switch_deadline();
        if self.standing.is_settled()
            && !(self.stop_wanted.is_some() && self.stop_waits())
            && let Some(id) = self.stop_wanted.take()
        {
            self.command(id, Command::Stop);
        }
        self.keep_last_copy();
        match self.standing {
            // A beginning that was being recorded when the promotion began may have made the copy inconsistent.
            Standing::Promoting { saving: false, .. }
                if !self.superblock.consistent && self.follower.failed().is_none() =>
            {
                self.promote_inconsistent();
            }
            Standing::Promoting { command, saving: false, .. } if self.lease_ran_out() => {
                self.lease_failed(command);
            }
            Standing::Promoting { command, equal, saving: false }
                if self.can_leave_following() && self.is_keeping_over() =>
            {
                self.stand(Standing::Promoting { command, equal, saving: true });
                self.save(Goal::Promoted);
            }
            Standing::Promoting { command, saving: false, .. }
                if let Some(failed) = self.follower.failed() =>
            {
                self.promotion_failed(command, failed);
            }
            Standing::Leaving { command, to: Leave::Hand, until, stage: LeaveStage::Draining }
                if self.cannot_hand(until) =>
            {
                self.keep_primary(command);
            }
            Standing::Handing { until, .. } if self.shared.now >= until => self.handed_unheard(),
            Standing::Leaving { command, to, until, stage: LeaveStage::Draining }
                if self.is_delivered(until) =>
            {
                self.flush_last(command, to, until);
            }
            Standing::Closing { command, saving: false } if self.can_leave_following() => {
                if self.follower.streaming {
                    self.stand(Standing::Closing { command, saving: true });
                    self.save(Goal::Closed);
                } else {
                    self.stop_now(Some(command));
                }
            }
            Standing::Closing { command, saving: false }
                if (self.follower.failed().is_some() && !self.owes_failed_flush())
                    || self.is_stuck() =>
            {
                self.stop_now(Some(command))
            }
            Standing::Leaving { stage: LeaveStage::Cooling, .. } => self.cool_down(),
            _ => {}
        }
    }

    fn promotion_failed(
        &mut self,
        command: Option<CommandId>,
        (volume, fault): (VolumeIndex, StoreFault),
    ) {
        self.stand(self.resting());
        let refusal = self.volume_refusal(volume, fault);
        command.into_iter().for_each(|id| self.done(id, Err(refusal.clone())));
    }

    pub(crate) fn can_leave_following(&self) -> bool {
        self.follower.is_drained() && !self.is_saving() && self.follower.failed().is_none()
    }

    pub(crate) fn role_deadline(&self) -> Moment {
        let due = match self.standing {
            // Behind that moment it is only what is under way that it waits for.
            Standing::Leaving { until, stage: LeaveStage::Draining, .. }
                if until <= self.shared.now =>
            {
                Moment::NEVER
            }
            Standing::Leaving { until, stage: LeaveStage::Draining, .. } => until,
            Standing::Leaving { until, to: Leave::Hand, stage: LeaveStage::Cooling, .. } => until,
            Standing::Handing { until, .. } => until,
            _ => self.switch_wanted.map_or(Moment::NEVER, |(_, until)| until),
        };
        due.min(self.stop_deadline())
    }

    /// Whether the link is free for a new conversation.
    pub(crate) fn is_link_down(&self) -> bool {
        self.session.link == Link::Down
    }
}

pub(crate) fn busy() -> Refusal {
    Refusal::later(
        "busy",
        "another change of role is in progress",
        "wait for its end; `helio status` shows it",
    )
}
