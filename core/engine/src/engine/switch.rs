// SPDX-License-Identifier: Apache-2.0
//! A planned change of roles among the other rooms: whether one may begin, and how it ends (`role/switch.rs` has the drawing).

use crate::engine::Engine;
use crate::peer::hang_up::HangUp;
use crate::refusal::Refusal;
use crate::role::switch::{Handed, SWITCH_PATIENCE, Switch};
use crate::role::{Following, Leading, LeaveStage, Stage, busy};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_format::message::Parting;
use helio_format::roles::Roles;
use helio_recovery::{self as recovery, Decision, Handing, OnHanding};
use helio_units::{Moment, Sequence};

impl Engine {
    /// A role that was handed over has its end.
    pub(crate) fn end_handing(&mut self, end: Handed) {
        let Stage::Following(Following::Handing { command, .. }) = self.standing.stage() else {
            return;
        };
        let result = match end {
            Handed::Over(result) => {
                self.standing.stand(Following::Secondary);
                result
            }
            // It may be primary, so this node is not.
            Handed::Unheard(refusal) => {
                self.standing.stand(Following::Secondary);
                let why = "no response to a change of roles";
                self.hang_up(HangUp::new(Parting::RoleChanged, why));
                self.turn.warn(refusal.text.clone());
                Err(refusal)
            }
            Handed::Back { refusal, unfit: true } => {
                self.standing.stand(Following::Secondary);
                Err(refusal)
            }
            Handed::Back { refusal, unfit: false } => {
                self.peer.session().finish(command, Err(refusal), &mut self.turn);
                if let Some(equal) = self.view().may_go_on() {
                    self.begin_promotion(None, equal);
                }
                return;
            }
        };
        self.peer.session().finish(command, result, &mut self.turn);
    }

    pub(crate) fn peer_talks_roles(&mut self, talk: Roles) -> Result<(), String> {
        match talk {
            Roles::SwitchWanted => {
                let free = self.view().may_be_taken();
                let may = free.and_then(|()| self.view().may_hand_over().map_err(|it| it.text));
                let (record, turn) = (&mut self.record, &mut self.turn);
                let begin = |()| self.standing.hand_over(None, record, turn).map_err(|it| it.text);
                if let Err(text) = may.and_then(begin) {
                    self.peer.session().decline(text, &mut self.turn);
                }
                Ok(())
            }
            Roles::Invite { generation, head } => {
                let ours = self.record.superblock().lineage.generation;
                if self.standing.leads() || generation != ours {
                    return Err(String::from(
                        "an invitation to a stream that this node does not receive",
                    ));
                }
                let wanted = self.asked.take_switch();
                let peer = self.turn.config().peer.clone();
                if let Err(refusal) = self.view().may_follow_invitation(head) {
                    let text = &refusal.text;
                    self.turn.warn(format!("the request to become primary is refused: {text}"));
                    self.hang_up(HangUp::new(
                        Parting::RoleChanged,
                        format!("cannot become primary: {text}"),
                    ));
                    self.peer.session().finish(wanted, Err(refusal), &mut self.turn);
                } else {
                    self.turn.info(format!(
                        "{peer} passes the primary role to this node after item {head}"
                    ));
                    self.keeper.end_restore();
                    self.peer.session_mut().handed_over();
                    self.begin_promotion(wanted, true);
                }
                Ok(())
            }
            Roles::Row { label } => {
                // Two that both serve are both sources, and went by the same row.
                if !self.standing.leads() {
                    let ours = self.view().hello_as_met();
                    self.show.row_told(label, ours, self.peer.session(), &self.turn);
                }
                Ok(())
            }
        }
    }
}

impl View<'_> {
    /// Whether this node may begin a planned change of roles, and from which side.
    pub(crate) fn may_switch(&self) -> Result<Switch, Refusal> {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        match self.standing.stage() {
            Stage::Leading(Leading::Primary) => self.may_hand_over().map(|()| Switch::HandOver),
            Stage::Following(Following::Secondary) if self.asked.switches() => Err(busy()),
            Stage::Following(Following::Secondary)
                if self.peer.session().peer().is_some_and(|h| h.serving) =>
            {
                self.may_take_over().map(|()| Switch::Ask)
            }
            Stage::Following(Following::Secondary | Following::Returning) => Err(self.no_switch()),
            _ => {
                let text = format!("a change of role of {group} with {peer} is in progress");
                Err(Refusal { text, ..busy() })
            }
        }
    }

    /// Why there is no primary whose role this secondary could take.
    fn no_switch(&self) -> Refusal {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        // A node whose disk failed ends its connections.
        if let Some((volume, fault)) = self.standing.failed() {
            return self.volume_refusal(volume, fault);
        }
        if self.peer.session().peer().is_none() {
            return Refusal::later(
                "peer-lost",
                format!("{peer} is not connected ({})", self.peer.session().why()),
                format!("a switch needs both nodes; `helio status {group}` shows what to do now"),
            );
        }
        Refusal::new(
            "no-primary",
            format!("no connected node is primary for {group}, so there is no role to change"),
            format!("`helio promote {group}` on the node that should be primary"),
        )
    }

    /// Whether this primary may hand its role over: its peer follows in order.
    fn may_hand_over(&self) -> Result<(), Refusal> {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        let Some(p) = self.standing.primary() else { return Err(busy()) };
        // The change of role could not be recorded: neither node would be primary.
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        if self.peer.session().peer().is_none() {
            let text = format!("{peer} is not connected ({})", self.peer.session().why());
            return Err(match self.peer_needs_repair() {
                Some(fault) => {
                    Refusal::new("peer-lost", text, format!("{}; then switch", fault.hint))
                }
                None => Refusal::later(
                    "peer-lost",
                    text,
                    format!(
                        "restore the link, then repeat; `helio status {group}` shows its state"
                    ),
                ),
            });
        }
        // A stream that the peer has not taken up yet is waited for while this node leaves.
        // What is marked is at the peer if its copy takes the place of this node's.
        let whole = p.marks().none_dirty() || p.peer_replaces_copy();
        let in_order = p.answers_count() && p.owed().stays_consistent() && whole;
        if p.is_periodic(self.turn.config()) {
            return Err(Refusal::new(
                "periodic",
                format!("in mode periodic {peer} does not have the last writes"),
                format!(
                    "stop the clients; `helio mode {group} async`, `helio resync {group} --wait`, then switch"
                ),
            ));
        }
        if in_order { Ok(()) } else { Err(self.not_level()) }
    }

    /// The copies of a primary and its connected peer are not in sync: a resync helps, after the repair of what failed.
    fn not_level(&self) -> Refusal {
        let (node, peer, group) =
            (&self.turn.config().node, &self.turn.config().peer, &self.turn.config().group);
        if self.is_lacking() {
            return Refusal::new(
                "not-level",
                format!("the copy of {node} is not complete: {peer} serves what is missing"),
                format!(
                    "`helio resync {group} --wait`, then switch; or, if the disk of {node} cannot be repaired: `helio demote \
                     {group}` on {node}, then `helio promote {group}` on {peer}"
                ),
            );
        }
        let text = format!("{peer} is not in sync: {group} is {}", self.state());
        let resync = format!("`helio resync {group} --wait`, then switch");
        if let Some(fault) = self.peer_needs_repair() {
            let text = format!("{text}; on {peer}: {}", fault.what);
            return Refusal::new("not-level", text, format!("{}; then {resync}", fault.hint));
        }
        Refusal::later("not-level", text, resync)
    }

    /// What became of a role that was handed over, if the hello of the peer that is connected shows it.
    pub(crate) fn handed(&self) -> Option<(&'static str, Handed)> {
        if !self.standing.hands_over() {
            return None;
        }
        let (session, ours) = (self.peer.session(), self.hello());
        let hello = session.peer()?;
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        let handing = Handing::of(&ours, hello, session.is_proven());
        let not_switched = |text, hint| Err(Refusal::new("not-switched", text, hint));
        let Decision { label, verdict } = recovery::on_handing(&handing);
        let result = match verdict {
            OnHanding::Wait => return None,
            OnHanding::TakeBack => return Some((label, self.handed_back("it is still secondary"))),
            OnHanding::Done => {
                let generation = hello.lineage.generation;
                Ok(format!("{peer} is primary now, in generation {generation}"))
            }
            OnHanding::DoneAndLeft => not_switched(
                format!("{peer} became primary, and is not primary any more"),
                format!("`helio status {group}` on {peer} shows why"),
            ),
            OnHanding::Lost => not_switched(
                format!("{peer} connected with an unrelated copy"),
                format!("`helio explain {group}` on both nodes"),
            ),
        };
        Some((label, Handed::Over(result)))
    }

    /// The peer did not take over: this node goes on as primary, if it can.
    pub(crate) fn handed_back(&self, why: &str) -> Handed {
        let (peer, node) = (&self.turn.config().peer, &self.turn.config().node);
        let text = format!("{peer} did not become primary ({why})");
        let unfit = self.may_lead_from_copy(false).err();
        let (text, hint) = match &unfit {
            None => {
                let hint = format!("the log on {peer} gives the reason");
                (format!("{text}; {node} is still primary"), hint)
            }
            Some(Refusal { text: unfit, hint, .. }) => {
                (format!("{text}, and {node} cannot be primary: {unfit}"), hint.clone())
            }
        };
        let unfit = unfit.is_some();
        let refusal = Refusal::new("not-switched", text, hint);
        Handed::Back { refusal: Refusal { retry: !unfit, ..refusal }, unfit }
    }

    /// The peer was requested to take over and has not responded.
    pub(crate) fn handed_unheard(&self) -> Handed {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        let text = format!(
            "{peer} was requested to become primary and has not responded: it may be primary"
        );
        let who = if self.may_lead_from_copy(false).is_ok() { "either node" } else { peer };
        let hint = format!(
            "`helio status {group}` on {peer}: if it is not primary, `helio promote {group}` on {who}"
        );
        Handed::Unheard(Refusal::new("unsure", text, hint))
    }

    /// What this node's own copy and record must be before it may take a role that is handed to it.
    fn may_take_over(&self) -> Result<(), Refusal> {
        let (node, group) = (&self.turn.config().node, &self.turn.config().group);
        // Waiting does not help against what failed.
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        if let Some((volume, fault)) = self.standing.failed() {
            return Err(self.volume_refusal(volume, fault));
        }
        let streaming = self.standing.streaming().is_some();
        if !self.is_consistent() || !streaming {
            return Err(Refusal::later(
                "not-level",
                format!("{node} has no consistent copy of {group} yet"),
                format!("wait until `helio status {group}` shows OK"),
            ));
        }
        Ok(())
    }

    /// Whether this node takes the role that its primary laid down behind `head`.
    fn may_follow_invitation(&self, head: Sequence) -> Result<(), Refusal> {
        let (node, peer, group) =
            (&self.turn.config().node, &self.turn.config().peer, &self.turn.config().group);
        let secondary = self.standing.is(Following::Secondary);
        let level = secondary && self.standing.follower().is_some_and(|f| f.received() == head);
        let (text, retry) = match self.may_take_over() {
            Ok(()) if level => return Ok(()),
            Ok(()) => (format!("{node} is not in sync with {peer}"), true),
            Err(refusal) => (refusal.text, refusal.retry),
        };
        let hint = format!("`helio status {group}` on both nodes shows why");
        Err(Refusal { retry, ..Refusal::new("not-switched", text, hint) })
    }

    /// Processes that use an attached device of this node would get I/O errors. The operator of the peer does not see them, so only
    /// an operator here may decide that.
    fn may_be_taken(&self) -> Result<(), String> {
        let node = &self.turn.config().node;
        match self.asked.held() {
            Some(by) if self.standing.leads() => Err(format!(
                "in use on {node}: {by}; `helio attach --list` on {node} shows where it is mounted. Unmount and detach it \
                 there, or switch there with --force"
            )),
            _ => Ok(()),
        }
    }

    /// Whether a hand-over that drains or cools down cannot complete any more.
    pub(crate) fn cannot_hand(&self, until: Moment, stage: LeaveStage) -> bool {
        let Some(p) = self.standing.primary() else { return true };
        let late = !p.streams() || p.owed().is_image_out_of_order() || self.turn.now() >= until;
        match stage {
            LeaveStage::Draining => late,
            // The record would call this copy good, and the peer could not bring a suspect one level by its marks alone. It calls one
            // inconsistent in whose place the peer's is served.
            LeaveStage::Cooling => late || (self.local.suspect().any() && !p.peer_replaces_copy()),
            LeaveStage::Flushing(_) | LeaveStage::Saving => false,
        }
    }

    /// Why it does not come to a hand-over, and this node is still primary.
    pub(crate) fn why_not_handed(&self) -> Refusal {
        let (peer, node) = (&self.turn.config().peer, &self.turn.config().node);
        let again = "repeat when the group is in sync and its queue is short";
        let code = "not-switched";
        let mut refusal = if self.peer.session().peer().is_none() {
            let text = format!("the connection to {peer} was lost ({})", self.peer.session().why());
            Refusal::later(code, text, again)
        } else if let Err(suspect) = self.may_lead_from_suspect() {
            Refusal { code, ..suspect }
        } else {
            let patience = SWITCH_PATIENCE.as_secs();
            let text = format!("{peer} did not receive everything within {patience} s");
            Refusal::later(code, text, again)
        };
        refusal.text = format!("{}; {node} is still primary", refusal.text);
        refusal
    }
}
