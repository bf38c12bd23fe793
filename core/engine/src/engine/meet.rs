// SPDX-License-Identifier: Apache-2.0
//! Two nodes meet: is it the right one, and what does the table say of the two?

use crate::engine::Engine;
use crate::lead::outgoing::Opening;
use crate::peer::owed::PeerCopy;
use crate::peer::session::out_of_turn;
use crate::record::save::Goal;
use crate::resync::digest::Pieces;
use crate::resync::verify::Verify;
use crate::role::{Following, Stage};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_bitmap::Bitmap;
use helio_format::copying::Copying;
use helio_format::message::{Hello, Message, Parting};
use helio_plant::{Plant, planted};
use helio_recovery::{self as recovery, Decision, OnReturn, Returning, Verdict};
use helio_recovery::{Meaning, meaning};
use helio_units::{Bytes, Generation};

impl Engine {
    /// The peer's hello arrived: check that it is the peer of this group and configured alike, then ask the table.
    pub(crate) fn peer_hello(&mut self, hello: Hello) {
        self.peer.session.remember_age(self.record.keeping().ages().heard());
        if let Some(why) = self.is_not_peer(&hello) {
            return self.refuse_wrong_peer(why);
        }
        self.peer.session.introduced(&hello, self.turn.now());
        if let Some(why) = self.is_configured_differently(&hello) {
            // What it says of its role counts all the same.
            let serving = hello.serving;
            self.peer.session.up(hello, self.turn.now());
            if self.standing.leads() && serving {
                self.rival_seen();
            }
            return self.refuse_wrong_peer(why);
        }
        self.learn_blocks(&hello);
        let now = self.turn.now();
        let serving = hello.serving;
        self.peer.session.up(hello, now);
        self.peer.session.begin(now);
        self.doubt_marks();
        self.handed(serving);
        if self.standing.leads() {
            self.lease_taken();
            if serving {
                self.rival_seen();
            }
            self.meet_as_source();
        } else if serving {
            self.meet_as_target();
        } else {
            self.meet_without_primary();
        }
    }

    /// Why the sender of a hello is not this group's peer, if it is not.
    fn is_not_peer(&self, hello: &Hello) -> Option<String> {
        let config = self.turn.config();
        if hello.group != config.group {
            Some(format!("its group is {}, expected {}", hello.group, config.group))
        } else if hello.node != config.peer {
            Some(format!("its name is {}, expected {}", hello.node, config.peer))
        } else {
            None
        }
    }

    /// What differs between the configurations of the two nodes, if they cannot mirror each other because of it.
    fn is_configured_differently(&self, hello: &Hello) -> Option<String> {
        let config = self.turn.config();
        let sizes: Vec<u64> = config.volumes.iter().map(|v| v.0).collect();
        let (theirs, ours) = (Bytes(u64::from(hello.granularity)), config.granularity);
        let mut volumes = hello.sizes.iter().zip(&hello.blocks);
        if hello.sizes != sizes {
            Some(format!("its volumes are {:?} bytes, on {} {sizes:?}", hello.sizes, config.node))
        } else if theirs != ours {
            Some(format!("its dirty regions are {theirs} each, on {} {ours}", config.node))
        } else if volumes.any(|(size, blocks)| !size.is_multiple_of(blocks.volume.into())) {
            Some(String::from("the size of one of its volumes is not a multiple of its block size"))
        } else {
            None
        }
    }

    fn refuse_wrong_peer(&mut self, wrong: String) {
        let peer = &self.turn.config().peer;
        let why = format!("the node at the address of {peer} cannot be the peer: {wrong}");
        self.turn.warn(why.clone());
        let hint = String::from("use the same configuration file on both nodes");
        self.peer.session.refuse("wrong-peer", hint);
        self.hang_up(Parting::Refused, why);
    }

    /// The peer remembers more than our metadata is: what our marks prove has to be doubted durably, whatever comes of
    /// this meeting. Refused, we would change it until it looks as young as what the peer remembers.
    fn doubt_marks(&mut self) {
        let Some(peer) = self.peer.session.peer() else { return };
        let older = recovery::is_older(self.peer.session.said(), peer.remembers);
        if older
            && !self.standing.leads()
            && !self.record.superblock().marks_void
            && !self.local.metadata_failed()
        {
            self.save(Goal::Void);
        }
    }

    /// Refuses the peer by a row of the table, which was read with one of the two as its source.
    pub(crate) fn refuse(&mut self, label: &'static str, we_are_source: bool) {
        let config = self.turn.config();
        let (source, target) =
            if we_are_source { (&config.node, &config.peer) } else { (&config.peer, &config.node) };
        let Meaning { meaning: text, hint, .. } = meaning(label, &config.group, source, target);
        let hint = hint.unwrap_or_default();
        self.turn.warn(format!("{label}: {text}; {hint}"));
        self.peer.session.refuse(label, hint);
        self.hang_up(Parting::Refused, format!("{label}: {text}"));
    }

    pub(crate) fn meet_as_source(&mut self) {
        if self.is_reversing() {
            // The generation that is met in is being recorded.
            return self.hang_up(Parting::RoleChanged, String::from("reverse resync starts"));
        }
        let ours = self.hello_as_met();
        let (unfit, went_back) = (self.line_does_not_fit(), self.leader_went_back());
        let met = (self.standing.primary_mut(), self.peer.session.peer());
        let (Some(primary), Some(peer)) = met else { return };
        let mut facts = recovery::facts_of(&ours, peer);
        facts.source_lacks = primary.lack.is_some();
        facts.source_suspect = primary.must_not_stream(&self.local);
        let (received, theirs) = (peer.received, peer.metadata);
        primary.meets(peer);
        // What a side that was given up holds lies on no line, and is in no proof: its marks alone tell it.
        // A primary that could not record what it did remembers it, as long as it runs.
        facts.invalid = ours.doubts || peer.doubts && !self.local.metadata_failed();
        let reversed = primary.is_reversed_for(peer, &ours);
        facts.target_old |= went_back || !reversed && primary.peer_went_back(peer, &ours.lineage);
        if peer.wrote || !peer.alone {
            primary.recall(peer, reversed, unfit, &mut facts);
            facts.equal &= self.resync.update.is_proven_needless();
        }
        facts.seeding = self.resync.seed.is_under_way(self.record.superblock());
        facts.seeded = self.resync.seed.has_passed(peer);
        let Decision { label, verdict } = recovery::decide(&facts);
        self.remember_row(facts, label, true);
        if verdict != Verdict::Refuse && self.refuse_blocks() {
            return;
        }
        let leaves = self.standing.is_leaving();
        let Some(primary) = self.standing.primary_mut() else { return };
        let lineage = self.record.superblock().lineage;
        self.turn.info(format!("{} connected as {label}", self.turn.config().peer));
        let (verify, local) = (&mut self.resync.verify, &self.local);
        let (permit, turn) = (&self.permit, &mut self.turn);
        self.peer.session.connected_as(label);
        match verdict {
            Verdict::Refuse => return self.refuse(label, true),
            // A line that is about to be laid down begins no copy; its marks are kept for the next one.
            Verdict::UpdateMarks | Verdict::UpdateAll | Verdict::UpdateSeeded if leaves => {}
            Verdict::AwaitSeed => {}
            Verdict::UpdateSeeded => self.update_seeded(),
            Verdict::ResumeReceived => {
                primary.resume_received(lineage, received, verify, local, permit, turn);
            }
            Verdict::ResumeDurable if reversed && primary.peer_is_consistent() => {
                primary.begin_stream(
                    Opening { lineage, from: primary.cursors().durable().next(), consistent: true },
                    verify,
                    local,
                    permit,
                    turn,
                );
            }
            Verdict::ResumeDurable | Verdict::ResumeEqual => {
                let c = primary.cursors();
                let at = if planted(Plant::ResumeUnflushed) { c.received() } else { c.durable() };
                primary.resume_durable(lineage, at, verify, local, permit, turn);
            }
            Verdict::UpdateMarks => {
                primary.ask_bitmap();
                self.resync.update.await_marks();
                turn.send(Message::Copying(Copying::MarksWanted));
            }
            Verdict::UpdateAll => {
                // From here on its count begins anew; that everything is marked is durable before anything is copied.
                self.record.keeping_mut().ages_mut().begin_again(theirs);
                self.copy_everything();
            }
        }
        self.record.keeping_mut().ages_mut().hear(theirs);
        self.resync.update.met();
    }

    /// Nothing is known of the peer's copy: everything is marked, durably, and then copied.
    pub(crate) fn copy_everything(&mut self) {
        let Some(primary) = self.standing.primary_mut() else { return };
        primary.found(PeerCopy::Unknown);
        primary.marks.set_all();
        primary.drop_queue(
            "the content of the peer's copy is unknown",
            &mut self.local,
            &self.permit,
            &mut self.turn,
        );
        self.local.hot_mut().bitmap_changed();
        self.resync.update.await_record();
        self.save(Goal::Void);
    }

    /// What a source waited for is there: it copies, if that is wanted and the operator's hook agrees.
    pub(crate) fn sync_as_wanted(&mut self) {
        self.resync.update.await_nothing();
        if self.standing.is_leaving() {
            return;
        }
        let (Some(primary), Some(peer)) = (self.standing.primary(), self.peer.session.peer())
        else {
            return;
        };
        if primary.must_not_stream(&self.local) {
            return;
        }
        let keeps_nothing = !peer.consistent || peer.lineage.generation == Generation::NONE;
        let wanted = self.turn.config().autosync || self.resync.update.is_wanted() || keeps_nothing;
        if wanted && !primary.owed().is_paused() {
            self.resync.update.forget_wish();
            self.sync_or_ask(None);
        }
    }

    /// The two speak about what may differ.
    ///
    /// # Errors
    /// What was said is out of turn, or about what does not exist: the connection must end.
    pub(crate) fn peer_copying(&mut self, talk: Copying) -> Result<(), String> {
        if let Copying::Digests { volume, extent, list, .. } = &talk
            && self.seed_told((*volume, *extent), list)
        {
            return Ok(());
        }
        let blank = self.is_blank();
        let listens = self.standing.follower().is_some_and(|f| f.is_begun() || f.is_deaf());
        let pulls = self.standing.serves();
        match (talk, self.standing.primary_mut()) {
            (Copying::MarksWanted, None) => {
                self.tell_marks();
                Ok(())
            }
            (Copying::Marks { .. }, _) if planted(Plant::OwnMarksOnly) => Ok(()),
            (Copying::Marks { page, bits }, _) if self.resync.update.awaits_marks() => {
                let known = self.marks_mut().join(page, bits.as_ref());
                let beyond = || format!("page {page} of the bitmap, which no volume reaches");
                known.then_some(()).ok_or_else(beyond)
            }
            (Copying::MarksEnd { trusted }, _) if self.resync.update.awaits_marks() => {
                self.marks_ended(trusted);
                Ok(())
            }
            (Copying::DigestsWanted { volume, extent, coarse }, None) if listens || blank => {
                let pieces = if coarse { Pieces::Regions } else { Pieces::Blocks };
                self.resync.teller.ask((volume, extent, pieces), &self.turn)
            }
            (Copying::EmptyWanted { volume, extent }, None) if listens => {
                self.resync.teller.ask((volume, extent, Pieces::Whole), &self.turn)
            }
            (Copying::Digests { volume, extent, coarse: false, list }, Some(primary))
                if primary.is_comparing() =>
            {
                primary.compare_told((volume, extent), list, pulls, &mut self.local, &mut self.turn)
            }
            (Copying::Digests { volume, extent, coarse, list }, Some(primary)) => {
                primary.copier.digests_told((volume, extent, coarse), &list, &primary.marks)
            }
            (Copying::Empty { volume, extent, empty }, Some(primary)) => {
                primary.emptiness_told((volume, extent), empty, &mut self.local, &mut self.turn)
            }
            (Copying::Differs { volume, extent, sequence }, primary) => {
                Verify::check_reported(self.turn.config(), volume, extent)?;
                if let Some(primary) = primary {
                    primary.peer_differs(
                        volume,
                        extent,
                        sequence,
                        &mut self.resync.verify,
                        &mut self.local,
                        &mut self.turn,
                    );
                }
                Ok(())
            }
            (other, _) => Err(out_of_turn(&Message::Copying(other))),
        }
    }

    /// Where this node's image may differ, by its own records: what it marked, and what lies in extents its primary may
    /// not know of.
    pub(crate) fn own_marks(&self) -> Bitmap {
        let mut marks = Bitmap::new(&self.turn.config().volumes, self.turn.config().granularity);
        for (volume, extent) in self.unsettled() {
            marks.set(volume, extent);
        }
        let own = self.marks();
        for page in own.dirty_pages() {
            let known = marks.join(page, Some(&own.page_bits(page)));
            assert!(known, "two bitmaps of one group have different pages");
        }
        marks
    }

    /// A source asks for this node's marks.
    fn tell_marks(&mut self) {
        let marks = self.own_marks();
        for page in marks.dirty_pages() {
            let bits = Some(marks.page_bits(page));
            self.turn.send(Message::Copying(Copying::Marks { page, bits }));
        }
        let b = self.record.superblock();
        let trusted = !b.marks_void && !self.local.members().are_foreign() && b.seeding == 0;
        self.turn.send(Message::Copying(Copying::MarksEnd { trusted }));
    }

    fn marks_ended(&mut self, trusted: bool) {
        if !trusted {
            return self.copy_everything();
        }
        let Some(primary) = self.standing.primary_mut() else { return };
        primary.drop_queue("order was lost", &mut self.local, &self.permit, &mut self.turn);
        self.local.hot_mut().bitmap_changed();
        self.sync_as_wanted();
    }

    pub(crate) fn meet_as_target(&mut self) {
        let ours = self.hello_as_met();
        let Some(peer) = self.peer.session.peer() else { return };
        let theirs = peer.metadata;
        let mut facts = recovery::facts_of(peer, &ours);
        facts.source_old |= self.leader_went_back();
        let Decision { label, verdict } = recovery::decide(&facts);
        self.remember_row(facts, label, false);
        // The source alone knows whether it can resume; refusals need no memory.
        if verdict == Verdict::Refuse {
            return self.refuse(label, false);
        }
        self.report_suspect();
        self.record.keeping_mut().ages_mut().hear(theirs);
        if self.standing.is(Following::Returning) {
            self.step_back();
        }
        self.lease_met();
    }

    /// Whether the process that this node followed last is behind what it sent: its machine went back together with its memory.
    /// As long as a process runs, it has the generation that it led in its lineage, and all that it sent of it. What an operator
    /// discarded is on no line.
    pub(crate) fn leader_went_back(&self) -> bool {
        let (Some(leader), Some(peer)) = (self.peer.leader, self.peer.session.peer()) else {
            return false;
        };
        let (ours, theirs) = (&self.record.superblock().lineage, &peer.lineage);
        let sent = if ours.generation == leader.generation() {
            self.standing.streaming().map(|f| f.received())
        } else {
            ours.fork_from(leader.generation())
        };
        let has = if theirs.generation == leader.generation() {
            Some(peer.head.max(peer.received))
        } else {
            theirs.fork_from(leader.generation())
        };
        let on_line = peer.wrote || !peer.alone;
        leader.incarnation() == peer.incarnation
            && on_line
            && sent.is_some()
            && has < sent
            && (has.is_some() || !theirs.is_full())
            && !planted(Plant::TrustRewound)
    }

    /// Records durably that the metadata of a machine that went back proves nothing, before one of the two becomes primary.
    fn doubt_leader(&mut self) {
        let Some(peer) = self.peer.session.peer().filter(|_| self.leader_went_back()) else {
            return;
        };
        let generation = peer.lineage.generation;
        if self.standing.is(Following::Secondary)
            && !self.doubts_peer()
            && !self.local.metadata_failed()
        {
            self.turn.warn(format!(
                "the machine of {} was reset to a snapshot with its memory: its metadata is invalid since generation \
                 {generation}, and everything is compared at the next resync",
                self.turn.config().peer
            ));
            self.save(Goal::PeerInvalid(generation));
        }
    }

    /// What the peer said of itself is how it is now: this node may become primary by it.
    pub(crate) fn peer_proven(&mut self) {
        let Some(peer) = self.peer.session.peer() else { return };
        let serving = peer.serving;
        self.check_ends(self.permit.pause.peer_answered(serving));
        self.handed(serving);
        if !self.standing.leads() && !serving && self.standing.is(Following::Returning) {
            self.meet_without_primary();
        }
    }

    /// Neither serves. A node that was primary when it stopped goes on, if the peer did not go on without it.
    pub(crate) fn meet_without_primary(&mut self) {
        let returning = match self.standing.stage() {
            Stage::Following(Following::Returning) => true,
            Stage::Following(Following::Secondary) => false,
            _ => return self.lease_met(),
        };
        let ours = self.hello_as_met();
        let Some(peer) = self.peer.session.peer() else { return };
        let Decision { label, verdict } = recovery::on_return(&Returning {
            returning,
            consistent: self.is_consistent(),
            proven: self.peer.session.is_proven(),
            agreed: self.peer.session.has_agreed(),
            ..Returning::of(&ours, peer)
        });
        match verdict {
            OnReturn::Refuse { as_source: true } => {
                self.remember_refusal(label);
                self.refuse(label, true);
            }
            OnReturn::Refuse { as_source: false } => {
                self.remember_row(recovery::facts_of(peer, &ours), label, false);
                self.refuse(label, false);
            }
            OnReturn::Stay => {
                self.doubt_leader();
                self.lease_met();
            }
            OnReturn::StepBack => self.step_back(),
            OnReturn::GoOn => self.go_on(),
            OnReturn::Wait => {}
        }
    }
}
