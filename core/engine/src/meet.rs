// SPDX-License-Identifier: Apache-2.0
//! Two nodes meet: is it the right one, and what does the table say of the two?

use crate::engine::Engine;
use crate::recovery::{self, Decision, Verdict};
use crate::role::Standing;
use crate::session::Link;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::lineage::Relation;
use helio_format::message::{Hello, Parting};

impl Engine {
    /// The peer introduces itself: check that it is the right one, then ask the table.
    pub(crate) fn peer_hello(&mut self, hello: Hello) {
        let config = &self.shared.config;
        let sizes: Vec<u64> = config.volumes.iter().map(|v| v.0).collect();
        let wrong = if hello.group != config.group {
            Some(format!("it is about group {}, this is {}", hello.group, config.group))
        } else if hello.node != config.peer {
            Some(format!("it calls itself {}, expected was {}", hello.node, config.peer))
        } else if hello.sizes != sizes {
            Some(format!(
                "its volumes are {:?} bytes, ours {sizes:?}; both files must agree",
                hello.sizes
            ))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let why = format!("the peer at the configured address is not the right one: {wrong}");
            self.shared.warn(why.clone());
            self.session.refused = Some("wrong-peer");
            self.session.remedy = String::from("use the same configuration file on both nodes");
            self.hang_up(Parting::Refused, why);
            return;
        }
        let now = self.shared.now;
        let serving = hello.serving;
        self.session.turn(Link::Up(Box::new(hello)), String::from("connected"), now);
        self.session.refused = None;
        self.session.progress_at = now;
        self.session.next_ping = now;
        if self.primary.is_some() {
            self.meet_as_source();
        } else if serving {
            self.meet_as_target();
        } else {
            self.meet_without_primary();
        }
    }

    /// Refuses the peer by a row of the table, which was read with one of the two as its source.
    pub(crate) fn refuse(&mut self, label: &'static str, we_are_source: bool) {
        let config = &self.shared.config;
        let (source, target) =
            if we_are_source { (&config.node, &config.peer) } else { (&config.peer, &config.node) };
        let (text, remedy) = recovery::explain(label, source, target);
        self.shared.warn(format!("{label}: {text}; {remedy}"));
        self.session.refused = Some(label);
        self.session.remedy = remedy;
        self.hang_up(Parting::Refused, format!("{label}: {text}"));
    }

    pub(crate) fn meet_as_source(&mut self) {
        let ours = self.hello();
        let (Some(primary), Some(peer)) = (&mut self.primary, self.session.peer()) else { return };
        let mut facts = recovery::facts_of(&ours, peer);
        let received = peer.received;
        facts.same_memory = primary.peer_incarnation == Some(peer.incarnation);
        facts.equal = self.equal_at_start && primary.retaining;
        facts.line_from_received = received <= primary.cursors.sent
            && received >= primary.cursors.durable
            && primary.can_resume_behind(received);
        facts.line_from_durable = primary.peer_incarnation.is_some()
            && primary.can_resume_behind(primary.cursors.durable);
        let peer_keeps_nothing = !peer.consistent || facts.kinship == recovery::Kinship::New;
        let Decision { label, verdict } = recovery::decide(&facts);
        let lineage = self.superblock.lineage;
        let s = &mut self.shared;
        s.info(format!("{} met as {label}", s.config.peer));
        self.session.why = format!("connected, {label}");
        let mut sync = false;
        match verdict {
            Verdict::Refuse => return self.refuse(label, true),
            Verdict::ResumeReceived => primary.resume_received(lineage, received, s),
            Verdict::ResumeDurable | Verdict::ResumeEqual => {
                primary.resume_durable(lineage, primary.cursors.durable, s);
            }
            Verdict::UpdateMarks | Verdict::UpdateAll => {
                if verdict == Verdict::UpdateAll {
                    primary.marks.stale_all();
                }
                primary.drop_queue("the peer's copy is not proven equal", s);
                let wanted = s.config.autosync || self.update_wanted || peer_keeps_nothing;
                sync = wanted && !primary.told_to_log;
            }
        }
        self.equal_at_start = false;
        self.update_wanted = false;
        if sync {
            self.autosync();
        }
    }

    pub(crate) fn meet_as_target(&mut self) {
        let ours = self.hello();
        let Some(peer) = self.session.peer() else { return };
        let Decision { label, verdict } = recovery::decide(&recovery::facts_of(peer, &ours));
        // The source alone knows whether it can resume; refusals need no memory.
        if verdict == Verdict::Refuse {
            self.refuse(label, false);
        } else if matches!(self.standing, Standing::Returning) {
            self.step_back();
        }
    }

    /// Neither serves. A node that was primary when it stopped goes on, if the peer did not go on without it.
    pub(crate) fn meet_without_primary(&mut self) {
        let Some(peer) = self.session.peer() else { return };
        let relation = self.superblock.lineage.relation_of(&peer.lineage);
        if !matches!(self.standing, Standing::Returning) {
            return;
        }
        match relation {
            Relation::New | Relation::Same | Relation::Parent(_) | Relation::Older(_) => {
                self.go_on()
            }
            Relation::Descendant(_) => self.step_back(),
            Relation::Unrelated => self.refuse("unrelated", true),
        }
    }
}
