// SPDX-License-Identifier: Apache-2.0
//! Becoming primary: by an operator's word, with the peer's or by force, or because a primary comes back and its peer
//! did not go on.

use crate::engine::Engine;
use crate::event::CommandId;
use crate::primary::Primary;
use crate::recovery::{self, Kinship, Verdict};
use crate::refusal::Refusal;
use crate::role::{Standing, busy};
use crate::save::Goal;
use alloc::format;
use alloc::string::{String, ToString};
use helio_format::message::{Hello, Message, Parting};
use helio_units::{Generation, Sequence};

impl Engine {
    pub(crate) fn promote(
        &mut self,
        id: CommandId,
        force: bool,
    ) -> Result<Option<String>, Refusal> {
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

    pub(crate) fn needs_sync(&self) -> Refusal {
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
    pub(crate) fn own_head(&self) -> Sequence {
        if self.follower.streaming { self.follower.received } else { self.superblock.head }
    }

    /// The hello the asker would say as primary, were it granted.
    pub(crate) fn candidate(asker: &Hello, durable: Sequence) -> Hello {
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
        let Standing::Asking { command } = self.standing else {
            return self.switch_denied(&text);
        };
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
                facts.kinship == Kinship::AtFork
                    && facts.consistent
                    && !facts.own
                    && !facts.target_old
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

    pub(crate) fn begin_promotion(&mut self, command: Option<CommandId>, equal: bool) {
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

    pub(crate) fn promotion_saved(&mut self) {
        let Standing::Promoting { command, equal, .. } = self.standing else { return };
        let head = self.superblock.head;
        let Some(mut marks) = self.keeping.resting.take() else { panic!("nobody holds the marks") };
        if self.superblock.marks_void {
            marks.stale_all();
        } else if equal {
            // Proven since: what was marked, or not heard to be settled, is on both.
            marks.clear();
        } else {
            // What the peer's own records may not tell of is marked here from now on.
            for (volume, extent) in self.unsettled() {
                marks.stale(volume, extent);
            }
        }
        let config = &self.shared.config;
        let equal = equal && marks.none_stale();
        self.primary = Some(Primary::new(config, head, marks, equal, self.shared.now));
        self.shared.cover.marks_moved();
        self.equal_at_start = equal;
        self.wrote_since = Some(self.shared.now);
        self.stand(Standing::Primary);
        let generation = self.superblock.lineage.generation;
        self.shared.info(format!("primary in generation {generation} behind item {head}"));
        command
            .into_iter()
            .for_each(|id| self.done(id, Ok(format!("primary in generation {generation}"))));
    }
}
