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
//! Every arrow into Primary and every arrow out of it passes a durable superblock first. An old primary is never
//! silently primary: it goes on only when its peer says that it did not.

use crate::effect::Effect;
use crate::engine::Engine;
use crate::event::{Command, CommandId, StoreOutcome};
use crate::follower::Follower;
use crate::primary::Primary;
use crate::recovery::{self, Kinship, Verdict};
use crate::refusal::Refusal;
use crate::save::Goal;
use crate::session::Link;
use crate::shared::Purpose;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;
use helio_format::message::{Hello, Message, Parting};
use helio_units::{Generation, Mode, Moment, Sequence, VolumeIndex};

/// A clean stop of a primary waits this long for its queue to drain; what is left then is marks at the next start.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Where a leaving primary goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Secondary,
    Stop,
}

/// How far a leaving primary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveStage {
    /// Requests are being answered, the queue drains.
    Draining,
    /// The local volumes are being flushed; how many are not.
    Flushing(u16),
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
        command: CommandId,
        to: Leave,
        until: Moment,
        stage: LeaveStage,
    },
    /// A secondary applies what it received, then stops.
    Closing {
        command: CommandId,
        saving: bool,
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
            Self::Closing { .. } => "closing",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the node may introduce itself.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Secondary | Self::Returning | Self::Primary)
    }

    pub(crate) fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving { .. })
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
                | (S::Closing { .. }, S::Closing { .. } | S::Stopped)
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
    fn resting(&self) -> Standing {
        if self.superblock.role == helio_units::Role::Primary {
            Standing::Returning
        } else {
            Standing::Secondary
        }
    }

    pub(crate) fn command(&mut self, id: CommandId, command: Command) {
        let result = match command {
            Command::Promote { force } => self.promote(id, force),
            Command::Demote => self.leave(id, Leave::Secondary),
            Command::Stop => self.stop(id),
            Command::Log => self.log(),
            Command::Update => self.update(),
            Command::Mode(mode) => self.change_mode(mode),
            Command::ResetQueueMarks => self.reset_queue_marks(),
        };
        match result {
            Ok(None) => {}
            Ok(Some(text)) => self.done(id, Ok(text)),
            Err(refusal) => self.done(id, Err(refusal)),
        }
    }

    fn done(&mut self, id: CommandId, result: Result<String, Refusal>) {
        self.shared.out.push(Effect::CommandDone { id, result });
    }

    fn promote(&mut self, id: CommandId, force: bool) -> Result<Option<String>, Refusal> {
        let (peer, group) = (self.shared.config.peer.clone(), self.shared.config.group.clone());
        match self.standing {
            Standing::Primary => return Ok(Some(format!("{group} is primary here already"))),
            Standing::Secondary | Standing::Returning => {}
            _ => return Err(busy()),
        }
        if !self.superblock.consistent {
            return Err(self.needs_sync());
        }
        if self.metadata_failed {
            return Err(Refusal::new(
                "metadata-failed",
                format!("the metadata file of {group} on this node cannot be written"),
                "mend it and restart the daemon",
            ));
        }
        if let Some((volume, fault)) = self.follower.failed {
            return Err(Refusal::new(
                "volume-failed",
                format!("volume {} of {group} failed on this node: {fault}", volume.0),
                "mend the store and restart the daemon",
            ));
        }
        if self.session.peer().is_some_and(|h| h.serving) {
            return Err(Refusal::new(
                "peer-is-primary",
                format!("{peer} is primary for {group} and connected"),
                format!(
                    "hand over without loss: `helio demote {group}` on {peer}, then promote here"
                ),
            ));
        }
        if force {
            self.begin_promotion(Some(id), false);
            return Ok(None);
        }
        if self.session.peer().is_none() {
            return Err(Refusal::new(
                "needs-force",
                format!(
                    "{peer} is not connected ({}), so it cannot confirm that it is not primary",
                    self.session.why
                ),
                format!("make sure {peer} is down or fenced, then `helio promote {group} --force`"),
            ));
        }
        let request = Message::PromoteRequest {
            generation: self.superblock.lineage.generation,
            durable: self.own_head(),
        };
        self.stand(Standing::Asking { command: id });
        self.shared.send(request);
        Ok(None)
    }

    fn needs_sync(&self) -> Refusal {
        let (peer, group) = (&self.shared.config.peer, &self.shared.config.group);
        Refusal::new(
            "needs-sync",
            format!(
                "the copy of {group} on this node is not consistent: a copy to it was interrupted"
            ),
            format!("let the sync from {peer} complete; until then this node cannot take over"),
        )
    }

    /// The last position in this node's image, while it is not primary; it may hold more after a crash.
    fn own_head(&self) -> Sequence {
        if self.follower.streaming { self.follower.received } else { self.superblock.head }
    }

    /// The hello the asker would say as primary, were it granted.
    fn candidate(asker: &Hello, durable: Sequence) -> Hello {
        let generation = Generation { number: u64::MAX, tag: u64::MAX };
        Hello { lineage: asker.lineage.fork(generation, durable), serving: true, ..asker.clone() }
    }

    pub(crate) fn peer_asks_promotion(&mut self, durable: Sequence) {
        let ours = self.hello();
        let Some(asker) = self.session.peer() else { return };
        let decision =
            recovery::decide(&recovery::facts_of(&Self::candidate(asker, durable), &ours));
        let config = &self.shared.config;
        let text = if !matches!(self.standing, Standing::Secondary | Standing::Returning) {
            Some(format!("{} is {} itself", config.node, self.standing.name()))
        } else if decision.verdict == Verdict::Refuse {
            let (why, _) = recovery::explain(decision.label, &config.peer, &config.node);
            Some(format!("{}: {why}", decision.label))
        } else {
            None
        };
        let granted = text.is_none();
        self.shared.send(Message::PromoteReply { granted, text: text.unwrap_or_default() });
    }

    pub(crate) fn promotion_answered(&mut self, granted: bool, text: String) {
        let Standing::Asking { command } = self.standing else { return };
        if !granted {
            let peer = self.shared.config.peer.clone();
            self.stand(self.resting());
            let remedy = "if its writes may be given up, repeat with --force";
            self.done(
                command,
                Err(Refusal::new("peer-refuses", format!("{peer} does not agree: {text}"), remedy)),
            );
            return;
        }
        let ours = self.hello();
        // A primary that left something undelivered or marked is not known to hold what its line says.
        let b = &self.superblock;
        let ours_is_proven = self.follower.streaming || (b.clean && (!b.wrote || b.equal));
        let equal = ours_is_proven
            && self.session.peer().is_some_and(|peer| {
                let facts = recovery::facts_of(&Self::candidate(&ours, self.own_head()), peer);
                facts.kinship == Kinship::AtFork && facts.consistent && !facts.own
            });
        self.begin_promotion(Some(command), equal);
    }

    pub(crate) fn asking_failed(&mut self, why: &str) {
        if let Standing::Asking { command } = self.standing {
            self.stand(self.resting());
            let remedy =
                "try again once the peer is connected, or use --force if it is down or fenced";
            self.done(command, Err(Refusal::later("peer-lost", why.to_string(), remedy)));
        }
    }

    fn begin_promotion(&mut self, command: Option<CommandId>, equal: bool) {
        self.stand(Standing::Promoting { command, equal, saving: false });
        self.hang_up(Parting::RoleChanged, format!("{} becomes primary", self.shared.config.node));
        self.follower.hurry();
    }

    /// The peer says that it did not go on: so we do, if that can be recorded.
    pub(crate) fn go_on(&mut self) {
        if self.metadata_failed {
            return;
        }
        let equal = self.superblock.clean && self.superblock.equal;
        let peer = self.shared.config.peer.clone();
        self.shared.info(format!("going on as primary: {peer} confirms that it did not take over"));
        self.begin_promotion(None, equal);
    }

    /// The peer went on: we were primary and are not any more.
    pub(crate) fn step_back(&mut self) {
        let peer = self.shared.config.peer.clone();
        self.shared
            .warn(format!("{peer} took over while this node was away; this node is secondary now"));
        self.stand(Standing::Secondary);
        self.save(Goal::SteppedBack);
    }

    fn leave(&mut self, id: CommandId, to: Leave) -> Result<Option<String>, Refusal> {
        match self.standing {
            Standing::Primary => {}
            Standing::Secondary if to == Leave::Secondary => {
                return Ok(Some(format!("{} is secondary here already", self.shared.config.group)));
            }
            Standing::Returning if to == Leave::Secondary => {
                self.stand(Standing::Secondary);
                self.save(Goal::SteppedBack);
                return Ok(Some(String::from("no longer waiting to go on as primary")));
            }
            _ => return Err(busy()),
        }
        let patience = if to == Leave::Stop { STOP_PATIENCE } else { Duration::MAX };
        let until = self.shared.now + patience;
        self.stand(Standing::Leaving { command: id, to, until, stage: LeaveStage::Draining });
        if let Some(primary) = &mut self.primary {
            primary.copier.running = false;
        }
        Ok(None)
    }

    fn stop(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        match self.standing {
            Standing::Primary => self.leave(id, Leave::Stop),
            Standing::Secondary | Standing::Returning => {
                self.hang_up(Parting::Stopping, String::from("the daemon stops"));
                self.stand(Standing::Closing { command: id, saving: false });
                self.follower.hurry();
                Ok(None)
            }
            Standing::Stopped => Ok(Some(String::from("stopped already"))),
            _ => Err(busy()),
        }
    }

    fn log(&mut self) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        let Some(primary) = &mut self.primary else { return Err(self.not_primary("log")) };
        primary.told_to_log = true;
        primary.drop_queue("the operator said log", &mut self.shared);
        Ok(Some(String::from("logging: writes are marked and not sent; `helio update` resumes")))
    }

    fn update(&mut self) -> Result<Option<String>, Refusal> {
        let lineage = self.superblock.lineage;
        if self.standing.is_leaving() {
            return Err(busy());
        }
        let Some(primary) = &mut self.primary else { return Err(self.not_primary("update")) };
        primary.told_to_log = false;
        primary.faulted = None;
        if primary.flow.is_some() && primary.order_lost {
            primary.copier.running = true;
            return Ok(Some(String::from("the update is under way")));
        }
        if primary.flow.is_some() {
            primary.mend(&self.shared);
            return Ok(Some(String::from("nothing to update: items are sent in order")));
        }
        if self.session.peer().is_none() {
            self.update_wanted = true;
            return Ok(Some(String::from(
                "the peer is not connected; the update begins when it is",
            )));
        }
        primary.begin_sync(lineage, &mut self.shared);
        Ok(Some(String::from("the update begins")))
    }

    fn not_primary(&self, verb: &str) -> Refusal {
        let (group, peer) = (&self.shared.config.group, &self.shared.config.peer);
        Refusal::new(
            "not-primary",
            format!("{group} is {} on this node", self.standing.name()),
            format!("run `helio {verb} {group}` on the primary ({peer}, if it is one)"),
        )
    }

    fn change_mode(&mut self, mode: Mode) -> Result<Option<String>, Refusal> {
        self.shared.config.mode = mode;
        if let Some(primary) = &mut self.primary {
            primary.mode_changed(&mut self.shared);
        }
        Ok(Some(format!("mode {mode}")))
    }

    fn reset_queue_marks(&mut self) -> Result<Option<String>, Refusal> {
        let Some(primary) = &mut self.primary else { return Err(self.not_primary("queue")) };
        primary.queue.reset_marks(self.shared.now);
        Ok(Some(format!("the high-water marks of {} begin anew", self.shared.config.group)))
    }

    /// Moves a change of role on as far as it can go now.
    pub(crate) fn change_role(&mut self) {
        match self.standing {
            // A beginning that was being recorded when the promotion began may have made the copy inconsistent.
            Standing::Promoting { command, saving: false, .. }
                if self.can_leave_following() && !self.superblock.consistent =>
            {
                self.stand(self.resting());
                let refusal = self.needs_sync();
                command.into_iter().for_each(|id| self.done(id, Err(refusal.clone())));
            }
            Standing::Promoting { command, equal, saving: false } if self.can_leave_following() => {
                self.stand(Standing::Promoting { command, equal, saving: true });
                self.save(Goal::Promoted);
            }
            Standing::Promoting { command, saving: false, .. }
                if self.follower.failed.is_some() =>
            {
                self.stand(self.resting());
                let refusal = Refusal::new(
                    "volume-failed",
                    "the store failed while what was received was applied",
                    "mend the store and restart the daemon",
                );
                command.into_iter().for_each(|id| self.done(id, Err(refusal.clone())));
            }
            Standing::Leaving { command, to, until, stage: LeaveStage::Draining }
                if self.is_delivered(until) =>
            {
                let volumes = self.shared.config.volumes.len() as u16;
                self.stand(Standing::Leaving {
                    command,
                    to,
                    until,
                    stage: LeaveStage::Flushing(volumes),
                });
                for volume in (0..volumes).map(VolumeIndex) {
                    self.shared.store(
                        volume,
                        crate::effect::StoreOp::Flush,
                        Purpose::Flush(volume),
                    );
                }
            }
            Standing::Closing { command, saving: false } if self.can_leave_following() => {
                if self.follower.streaming {
                    self.stand(Standing::Closing { command, saving: true });
                    self.save(Goal::Closed);
                } else {
                    self.stop_now(command);
                }
            }
            Standing::Closing { command, saving: false } if self.follower.failed.is_some() => {
                self.stop_now(command)
            }
            _ => {}
        }
    }

    fn can_leave_following(&self) -> bool {
        self.follower.is_drained() && !self.is_saving() && self.follower.failed.is_none()
    }

    /// Whether a leaving primary has nothing more to wait for.
    fn is_delivered(&self, until: Moment) -> bool {
        let Some(p) = &self.primary else { return true };
        let owed = p.flow.is_some() && !p.order_lost && p.cursors.durable < p.line.head;
        p.is_quiet() && (!owed || self.shared.now >= until)
    }

    /// One of the local flushes before leaving ended.
    pub(crate) fn leave_flushed(&mut self, outcome: StoreOutcome) {
        let Standing::Leaving { command, to, until, stage: LeaveStage::Flushing(left) } =
            self.standing
        else {
            panic!("a flush ended that nobody asked for")
        };
        if let StoreOutcome::Failed(fault) = outcome {
            self.shared.warn(format!("the last flush before leaving failed: {fault}"));
            if let Some(primary) = &mut self.primary {
                primary.marks.stale_all();
                primary.flush_failed = true;
            }
        }
        let stage = if left > 1 { LeaveStage::Flushing(left - 1) } else { LeaveStage::Saving };
        self.stand(Standing::Leaving { command, to, until, stage });
        if stage == LeaveStage::Saving {
            self.save(Goal::Left(to));
        }
    }

    pub(crate) fn promotion_saved(&mut self) {
        let Standing::Promoting { command, equal, .. } = self.standing else { return };
        let head = self.superblock.head;
        let config = &self.shared.config;
        self.primary = Some(Primary::new(config, head, equal, self.shared.now));
        self.equal_at_start = equal;
        self.stand(Standing::Primary);
        let generation = self.superblock.lineage.generation;
        self.shared.info(format!("primary in generation {generation} behind item {head}"));
        command
            .into_iter()
            .for_each(|id| self.done(id, Ok(format!("primary in generation {generation}"))));
    }

    pub(crate) fn left(&mut self, to: Leave) {
        let Standing::Leaving { command, .. } = self.standing else { return };
        self.lay_line_down();
        let delivered = self.superblock.equal;
        let peer = self.shared.config.peer.clone();
        let text = if delivered {
            format!("{peer} has everything")
        } else {
            format!("{peer} does not have everything; it will need an update")
        };
        match to {
            Leave::Secondary => {
                self.stand(Standing::Secondary);
                self.done(command, Ok(format!("secondary now; {text}")));
                self.hang_up(Parting::RoleChanged, String::from("no longer primary"));
            }
            Leave::Stop => {
                self.hang_up(Parting::Stopping, String::from("the daemon stops"));
                self.stop_now(command);
            }
        }
    }

    /// What this node held as primary is let go.
    pub(crate) fn lay_line_down(&mut self) {
        if let Some(mut primary) = self.primary.take() {
            while let Some(entry) = primary.line.pop() {
                entry.item.payload.into_iter().for_each(|p| self.shared.release(p.id));
            }
        }
        self.follower = Follower::new(self.shared.config.volumes.len(), self.superblock.head);
    }

    /// Nothing more will be asked for.
    pub(crate) fn stop_now(&mut self, command: CommandId) {
        self.stand(Standing::Stopped);
        self.done(command, Ok(String::from("stopped cleanly")));
        self.shared.out.push(Effect::Stopped);
    }

    pub(crate) fn role_deadline(&self) -> Moment {
        match self.standing {
            Standing::Leaving { until, stage: LeaveStage::Draining, .. } => until,
            _ => Moment::NEVER,
        }
    }

    /// Whether the link is free for a new conversation.
    pub(crate) fn is_link_down(&self) -> bool {
        self.session.link == Link::Down
    }
}

fn busy() -> Refusal {
    Refusal::later(
        "busy",
        "another change of role is under way",
        "wait for it to end; `helio status` tells",
    )
}
