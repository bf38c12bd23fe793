// SPDX-License-Identifier: Apache-2.0
//! Becoming primary: by an operator's word, with the peer's or by force, because a primary comes back and its peer
//! did not go on, or because the group has no other node.

use crate::engine::Engine;
use crate::event::CommandId;
use crate::peer::hang_up::HangUp;
use crate::refusal::Refusal;
use crate::resync::seed::is_blank;
use crate::role::cross::{Request, peer_promotes};
use crate::role::{Following, Leading, Stage, busy};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_format::message::{Hello, Message, Parting};
use helio_recovery::meaning;
use helio_recovery::{self as recovery, Completeness, Decision, Facts, Verdict, Yields};
use helio_units::{Generation, Sequence};

impl Engine {
    pub(crate) fn promote(
        &mut self,
        id: CommandId,
        force: bool,
        restore: bool,
    ) -> Result<Option<String>, Refusal> {
        let group = self.turn.config().group.clone();
        let force = force || self.turn.config().peer_name().is_none();
        match self.standing.stage() {
            Stage::Leading(Leading::Primary) => {
                return Ok(Some(format!("{group} is primary here already")));
            }
            Stage::Following(Following::Secondary | Following::Returning) => {}
            _ => return Err(busy()),
        }
        self.view().may_promote(force, restore)?;
        // What an earlier command wanted, which was refused, is not wanted now.
        self.keeper.end_restore();
        // What the peer agrees to is this image; only force may restore another one later.
        let restores = restore && (force || !self.record.superblock().consistent);
        if force {
            self.keeper.want_restore(restores);
            self.begin_promotion(Some(id), false);
            return Ok(None);
        }
        if self.peer.session().peer().is_none() {
            let Some(until) = self.view().lease_held() else {
                return Err(self.view().cannot_ask());
            };
            let record = self.record.superblock();
            self.permit.lease_mut().begin_takeover(until, record, &mut self.turn);
            self.begin_promotion(Some(id), false);
            return Ok(None);
        }
        self.keeper.want_restore(restores);
        let (generation, durable) = self.view().candidate_head();
        let request = Message::PromoteRequest { generation, durable };
        self.standing.stand(Following::Asking { command: id, crossing: None });
        self.turn.send(request);
        Ok(None)
    }

    pub(crate) fn promotion_answered(&mut self, granted: bool, text: String) {
        let Stage::Following(Following::Asking { command, crossing }) = self.standing.stage()
        else {
            return self.asked.switch_denied(&text, &mut self.turn);
        };
        if !granted {
            let peer = self.turn.config().peer.clone();
            self.standing.stand(Following::resting(self.record.superblock().role));
            if let Some(request) = crossing {
                let why = self.view().why_not_agreed(request);
                let agrees = why.is_none();
                self.peer.answer_request(why, &mut self.permit, &mut self.turn);
                if agrees {
                    let refusal = peer_promotes(self.turn.config());
                    return self.turn.done(command, Err(refusal));
                }
            }
            let copied = self.record.superblock().lineage.generation != Generation::NONE;
            let row = if copied { self.view().promotion_row() } else { None };
            let hint = self.view().hint_for_refused(row.is_some());
            if let Some((facts, Decision { label, verdict: Verdict::Refuse })) = row {
                let (ours, session) = (self.view().hello_as_met(), self.peer.session());
                self.show.remember_row(facts, label, true, ours, session, &mut self.turn);
            }
            let text = format!("{peer} does not agree: {text}");
            self.turn.done(command, Err(Refusal::new("peer-refuses", text, hint)));
            return;
        }
        let ours = self.view().hello_as_met();
        // A primary that left something undelivered or marked is not known to hold what its line says.
        let b = self.record.superblock();
        let streaming = self.standing.streaming().is_some();
        let ours_is_proven = streaming || (b.clean && (!b.wrote || b.equal));
        let theirs_is = |peer| recovery::is_equal_at_fork(&ours, self.view().own_head(), peer);
        let equal =
            ours_is_proven && b.consistent && self.peer.session().peer().is_some_and(theirs_is);
        self.begin_promotion(Some(command), equal);
    }

    pub(crate) fn begin_promotion(&mut self, command: Option<CommandId>, equal: bool) {
        let becomes = format!("{} becomes primary", self.turn.config().node);
        if self.turn.config().peer_name().is_none() {
            self.record.keeping_mut().ages_mut().begin_again(0);
        }
        // Without a command, a secondary was invited, and a former primary was not succeeded.
        if command.is_none() && !self.standing.is(Following::Secondary) {
            let again = match self.turn.config().peer_name() {
                Some(peer) => format!("primary again: {peer} reports that it was not promoted"),
                None => String::from("primary again: the group has no other node"),
            };
            self.turn.info(again);
        }
        // What a shipped disk may lack stays marked, whatever is proven of another copy.
        let equal = equal && !self.resync.seed().is_under_way(self.record.superblock());
        self.standing.stand(Following::Promoting { command, equal, saving: false });
        self.permit
            .lease_mut()
            .is_not_needed(self.peer.session().peer().is_some(), self.turn.effects());
        self.hang_up(HangUp::new(Parting::RoleChanged, becomes));
        self.standing.hurry();
    }
}

impl View<'_> {
    /// Whether this node becomes primary by itself. The only node of a group does at its first start, and again at each later
    /// one, unless an operator demoted it. If it has heard of a peer, that one may have been promoted since: an operator promotes
    /// once.
    pub(crate) fn leads_by_itself(&self) -> bool {
        if self.turn.config().peer_name().is_some() {
            return false;
        }
        let b = self.record.superblock();
        let first = b.lineage.generation == Generation::NONE && !b.discarded;
        let starts = self.standing.is(Following::Returning)
            || (first && self.standing.is(Following::Secondary));
        starts
            && self.record.keeping().ages().heard() == 0
            && !self.record.is_saving()
            && self.may_promote(true, false).is_ok()
    }

    /// Why this node does not agree that its peer becomes primary with that copy, if it does not.
    pub(crate) fn why_not_agreed(&self, request: Request) -> Option<String> {
        let (generation, _) = request;
        let config = self.turn.config();
        let stage = self.standing.stage();
        let may_agree = matches!(
            stage,
            Stage::Following(
                Following::Secondary | Following::Returning | Following::Asking { .. }
            )
        );
        if !may_agree {
            return Some(format!("{} is {} itself", config.node, stage.name()));
        }
        let ours = self.hello_as_met();
        let asker = self.peer.session().peer()?;
        // It may still lead if this node's copy is not complete.
        let discarded = (asker.discarded && !ours.discarded).then_some(Yields::GivenUp);
        if let Some(yields) = Yields::beside(asker, &ours).or(discarded) {
            return Some(yields.of_node(&config.peer));
        }
        match recovery::of_request(asker, request, &ours, self.leader_went_back()) {
            None => Some(format!("generation {generation} is not in the history of its copy")),
            // What it recorded of itself before it crashed is less than it has: everything was durable there when this node, which has no
            // complete copy, left the role. One that did not crash knows exactly what it has.
            Some(Decision { label, .. })
                if recovery::may_lack_writes(label)
                    && !ours.consistent
                    && !asker.clean
                    && self.peer_has_everything()
                    && asker.lineage.generation == ours.lineage.generation =>
            {
                None
            }
            Some(Decision { label, verdict: Verdict::Refuse }) => {
                let row = meaning(label, &config.group, &config.peer, &config.node);
                Some(format!("{label}: {}", row.meaning))
            }
            Some(_) => None,
        }
    }

    /// Whether this former primary may become primary again, its peer not having been promoted; if so, whether the peer's copy is
    /// equal.
    pub(crate) fn may_go_on(&self) -> Option<bool> {
        let b = self.record.superblock();
        self.may_lead_from_copy(false).is_ok().then_some(b.clean && b.equal)
    }

    /// Whether this node, which is not primary, may ask its peer for the role, or take it by force. What the peer answers
    /// comes after that.
    ///
    /// # Errors
    /// What is in the way.
    pub fn may_promote(&self, force: bool, restore: bool) -> Result<(), Refusal> {
        self.may_lead_from_copy(restore)?;
        self.may_break_with(force)
    }

    /// Whether this node has a copy that it may lead from, whatever its peer does.
    pub(crate) fn may_lead_from_copy(&self, restore: bool) -> Result<(), Refusal> {
        self.may_lead_from_disk()?;
        self.may_lead_from_suspect()?;
        if !self.record.superblock().consistent {
            if !restore {
                return Err(self.needs_sync());
            }
            self.keeper.may_restore(self.turn.config())?;
        }
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        if let Some((volume, fault)) = self.standing.failed() {
            return Err(self.volume_refusal(volume, fault));
        }
        Ok(())
    }

    /// Whether the disks are those that the record is about.
    pub(crate) fn may_lead_from_disk(&self) -> Result<(), Refusal> {
        self.local.members().may_lead(self.turn.config(), self.peer_that_may_fill())
    }

    /// Whether the peer is in the way: it is connected and serves, or this node agreed that it becomes primary. A peer from which nothing
    /// arrived for longer than its pings take is not, if the operator says so: the connection ends with the promotion.
    fn may_break_with(&self, force: bool) -> Result<(), Refusal> {
        let agreed = self.peer.session().has_agreed();
        if !agreed && self.peer.session().peer().is_none_or(|peer| !peer.serving) {
            return Ok(());
        }
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        let heard = self.peer.session().last_heard().unwrap_or(self.peer.session().began());
        let silent = self.turn.now() - heard;
        let patience = self.turn.config().heartbeat() * 2;
        if agreed && !(force && silent >= patience) {
            return Err(peer_promotes(self.turn.config()));
        }
        if silent >= patience {
            if force {
                return Ok(());
            }
            let left = self.turn.config().peer_timeout.saturating_sub(silent).as_secs_f64();
            return Err(Refusal::later(
                "peer-is-primary",
                format!(
                    "{peer} is primary for {group}; its last message arrived {:.1} s ago, and the connection counts \
                     as lost in {left:.1} s",
                    silent.as_secs_f64()
                ),
                format!(
                    "repeat when it is lost; or make sure {peer} is down or fenced, then `helio promote {group} --force` now"
                ),
            ));
        }
        let text = format!(
            "{peer} is primary for {group} and connected: its last message arrived {:.1} s ago",
            silent.as_secs_f64()
        );
        let hand_over = self.way_to_hand_over();
        if !force {
            return Err(Refusal::new("peer-is-primary", text, hand_over));
        }
        let left = (patience - silent).as_secs_f64();
        Err(Refusal::later(
            "peer-is-primary",
            text,
            format!(
                "{hand_over}; if {peer} is down or fenced, repeat this in {left:.1} s: after {:.1} s without a message \
                 the promotion is allowed",
                patience.as_secs_f64()
            ),
        ))
    }

    /// How a primary that is connected passes its role to this node. One whose metadata failed cannot record a change of role.
    fn way_to_hand_over(&self) -> String {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        if self.peer_needs_repair().is_some() && self.doubts_peer() {
            return format!(
                "repair the file system of the state directory on {peer} and restart its daemon, then `helio switch {group}`"
            );
        }
        format!("`helio switch {group}` exchanges the roles without data loss")
    }

    /// The peer is not connected, or the table refused it.
    fn cannot_ask(&self) -> Refusal {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        // A refusal by the table names what is at stake; force is not the way out of it.
        if let Some(label) = self.peer.session().refused().filter(|label| recovery::is_lost(label))
        {
            return Refusal::new(label, self.peer.session().why(), self.peer.session().hint());
        }
        let agreed = self.peer.session().agreed_at();
        if agreed.is_some_and(|ended| self.turn.now() - ended < self.turn.config().peer_timeout) {
            return peer_promotes(self.turn.config());
        }
        Refusal::new(
            "needs-force",
            format!(
                "{peer} is not connected ({}), so it cannot confirm that it is not primary{}",
                self.peer.session().why(),
                self.permit.lease().absence_text(self.turn.config().hold, self.turn.now())
            ),
            format!("make sure {peer} is down or fenced, then `helio promote {group} --force`"),
        )
    }

    /// By which row of the table the two copies are related, if this node is promoted.
    fn promotion_row(&self) -> Option<(Facts, Decision)> {
        let (ours, other) = (self.hello_as_met(), self.peer.session().peer()?);
        recovery::of_promotion(&ours, self.candidate_head(), other)
    }

    /// The peer does not agree to a promotion: what loses nothing, or least. `related`: a row tells how the
    /// two copies are.
    fn hint_for_refused(&self, related: bool) -> String {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        match self.yields_to_peer() {
            Some(why @ Yields::Unproven) => {
                return format!(
                    "`helio promote {group}` on {peer}, which copies to this node: {}. If it has the newest data: `helio promote {group} \
                     --force` here copies it to {peer}",
                    why.of_node(&self.turn.config().node)
                );
            }
            // A new node's data is what the operator chose, as that of a complete one.
            None if !self.record.superblock().discarded => {}
            _ if !matches!(self.peer_copy(), Completeness::Complete | Completeness::Never) => {
                return self.no_complete_copy();
            }
            _ => {
                return format!(
                    "`helio promote {group}` on {peer}, which copies to this node: an operator discarded the copy here"
                );
            }
        }
        // Force would begin with a copy that never was one.
        if self.record.superblock().lineage.generation == Generation::NONE {
            if self.peer.session().peer().is_some_and(|peer| !peer.consistent) {
                return self.no_complete_copy();
            }
            return format!(
                "this node has no copy yet: `helio promote {group}` on {peer}, which copies to it"
            );
        }
        let Some(other) = self.peer.session().peer().filter(|_| related) else {
            return format!(
                "`helio explain {group}` on both nodes shows how the copies are related"
            );
        };
        if let Some(hint) = self.neither_has_everything() {
            return hint;
        }
        if recovery::only_followed(&self.hello_as_met(), other) {
            let node = &self.turn.config().node;
            return format!(
                "`helio promote {group}` on {peer} instead: it has newer writes and everything that {node} has, so nothing is \
                 lost"
            );
        }
        if other.suspect {
            // An inconsistent copy is promoted only with it.
            let discards = match self.record.superblock().consistent {
                true => format!("`helio promote {group} --force` here"),
                false => format!("`helio promote {group} --force --restore` here"),
            };
            return format!(
                "the copy of {peer} is suspect since a flush failed. To use it, `helio status {group}` on {peer} shows how to \
                 accept it; to discard the writes that only {peer} has, {discards}"
            );
        }
        format!(
            "to keep what {peer} wrote: `helio promote {group}` on {peer}; to discard it: `helio resolve {group} --discard \
             {peer}` on {peer}, which saves it in a file first"
        )
    }

    pub(crate) fn needs_sync(&self) -> Refusal {
        let (peer, group) = (&self.turn.config().peer, &self.turn.config().group);
        Refusal::new(
            "needs-sync",
            format!(
                "the copy of {group} on this node is not consistent: a resync to it was interrupted"
            ),
            match self.keeper.kept() {
                _ if self.turn.config().peer_name().is_none() => format!(
                    "name the node that has the complete copy in `nodes` of [group.{group}] again, and restart the daemon; or, if \
                     a consistent copy is preserved here: `helio promote {group} --restore`"
                ),
                Some((image, true)) => format!(
                    "wait for the resync from {peer} to end; or go back to the consistent copy preserved here (generation {}, \
                     item {}): `helio promote {group} --restore`",
                    image.lineage.generation, image.head
                ),
                _ if self.peer.session().peer().is_some() && !self.peer_can_complete() => {
                    self.no_complete_copy()
                }
                _ => self.neither_has_everything().unwrap_or_else(|| {
                    if self.standing.is(Following::Returning) || self.peer_has_everything() {
                        return format!(
                            "`helio promote {group}` on {peer}, which then completes the resync"
                        );
                    }
                    format!(
                        "wait for the resync from {peer} to end; until then this node cannot become primary"
                    )
                }),
            },
        )
    }

    /// Whether the peer is connected, not primary, and its copy complete: it waits for this node. One without history has no copy that
    /// this node could need.
    #[must_use]
    pub fn peer_is_complete(&self) -> bool {
        self.peer_can_complete() && !self.peer_serves()
    }

    /// Whether the peer is connected and never had a copy.
    #[must_use]
    pub fn peer_is_new(&self) -> bool {
        self.peer.session().peer().is_some_and(is_blank)
    }

    /// Whether the peer is connected and has a copy that can complete that of this node.
    fn peer_can_complete(&self) -> bool {
        let has_no_history = self.record.superblock().lineage.generation == Generation::NONE;
        let peer = self.peer.session().peer();
        peer.is_some_and(|peer| peer.consistent && (has_no_history || !is_blank(peer)))
    }

    /// What an operator does if one of two connected nodes, neither of which is primary, has the last writes and an inconsistent copy, and the
    /// copy of the other one is consistent. None if it is not so.
    #[must_use]
    pub fn neither_has_everything(&self) -> Option<String> {
        let (config, session) = (self.turn.config(), self.peer.session());
        let (group, node, peer) = (&config.group, &config.node, &config.peer);
        let has_copy = |other: &&Hello| !other.serving && !other.suspect && !is_blank(other);
        let other = session.peer().filter(has_copy)?;
        if self.record.superblock().lineage.generation == Generation::NONE {
            return None;
        }
        let peer_is_ahead = session.report().is_some_and(|report| report.ahead);
        match (self.is_consistent(), other.consistent) {
            (false, true) if self.is_ahead() => {
                Some(Refusal::neither_has_everything(group, node, peer))
            }
            (true, false) if peer_is_ahead => {
                Some(Refusal::neither_has_everything(group, peer, node))
            }
            _ => None,
        }
    }

    /// The last position in this node's image, while it is not primary; it may hold more after a crash.
    pub(crate) fn own_head(&self) -> Sequence {
        let streaming = self.standing.streaming();
        streaming.map_or(self.record.superblock().head, |follower| follower.reach())
    }
}
