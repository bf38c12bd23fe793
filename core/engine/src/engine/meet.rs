// SPDX-License-Identifier: Apache-2.0
//! Two nodes meet: is it the right one, and what does the table say of the two?

use crate::engine::Engine;
use crate::event::OwnDisk;
use crate::lead::Primary;
use crate::lead::outgoing::Opening;
use crate::peer::hang_up::HangUp;
use crate::peer::session::out_of_turn;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::resync::digest::Pieces;
use crate::resync::verify::Verify;
use crate::role::resolve::Unknown;
use crate::role::{Following, Stage};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_bitmap::Bitmap;
use helio_format::copying::Copying;
use helio_format::lineage::{Lineage, Relation};
use helio_format::message::{Hello, Message, Parting};
use helio_plant::{Plant, planted};
use helio_recovery::{self as recovery, Decision, Facts, OnReturn, Returning, Verdict};
use helio_units::{Bytes, Generation};

impl Engine {
    /// The peer's hello arrived: check that it is the peer of this group and configured alike, then ask the table. If this node's own must
    /// be sent first, it waits; that the peer serves counts already.
    pub(crate) fn peer_hello(&mut self, hello: Hello) {
        let Some(hello) = self.peer.session_mut().take_hello(hello) else {
            let serves = self.view().heard_of_peer().is_some_and(|hello| hello.serving);
            if let (true, Some(primary)) = (serves, self.standing.primary()) {
                primary.rival_seen(&mut self.permit, self.peer.session_mut(), self.turn.now());
            }
            return;
        };
        self.peer.session_mut().remember_age(self.record.keeping().ages().heard());
        if let Some(why) = self.view().is_not_peer(&hello) {
            let why = self.peer.session_mut().refuse_wrong_peer(&why, &mut self.turn);
            return self.hang_up(HangUp::new(Parting::Refused, why));
        }
        self.peer.session_mut().introduced(&hello, self.turn.now());
        if let Some(why) = self.view().is_configured_differently(&hello) {
            // What it says of its role counts all the same.
            let serving = hello.serving;
            self.peer.session_mut().up(hello, self.turn.config().peer_timeout, self.turn.now());
            if let (true, Some(primary)) = (serving, self.standing.primary()) {
                primary.rival_seen(&mut self.permit, self.peer.session_mut(), self.turn.now());
            }
            let why = self.peer.session_mut().refuse_wrong_peer(&why, &mut self.turn);
            return self.hang_up(HangUp::new(Parting::Refused, why));
        }
        self.local.blocks_mut().learn(&hello.blocks);
        let now = self.turn.now();
        let serving = hello.serving;
        self.peer.session_mut().up(hello, self.turn.config().peer_timeout, now);
        self.peer.session_mut().begin(now);
        self.peer.begin_disks(&mut self.turn);
        // One that begins anew by an operator's word says nothing old of members.
        if self.view().is_record_old() && !self.record.superblock().discarded {
            self.local.doubt_members(&mut self.turn);
        }
        if self.view().must_doubt_marks() {
            self.record.want(Goal::Void);
            self.begin_record();
        }
        if let Some((generation, why)) = self.view().peer_to_doubt() {
            self.turn.warn(format!(
                "{why}: its metadata is invalid since generation {generation}, and everything is compared at the next resync"
            ));
            self.record.want(Goal::PeerInvalid(generation));
            self.begin_record();
        }
        if let Some((label, end)) = self.view().handed() {
            self.turn.info(format!("{} connected as {label}", self.turn.config().peer));
            self.end_handing(end);
        }
        if self.standing.leads() {
            if self.view().lease_was_taken() {
                self.permit.lease_mut().use_granted(&mut self.turn);
            }
            if let (true, Some(primary)) = (serving, self.standing.primary()) {
                primary.rival_seen(&mut self.permit, self.peer.session_mut(), self.turn.now());
            }
            self.meet_as_source();
        } else if serving {
            self.meet_as_target();
        } else {
            self.meet_without_primary();
        }
    }

    pub(crate) fn meet_as_source(&mut self) {
        if self.view().is_reversing() {
            // The generation that is met in is being recorded.
            return self.hang_up(HangUp::new(Parting::RoleChanged, "reverse resync starts"));
        }
        let ours = self.view().hello_as_met();
        let met = (self.standing.primary_mut(), self.peer.session().peer());
        let (Some(primary), Some(peer)) = met else { return };
        let (received, theirs) = (peer.received, peer.metadata);
        primary.meets(peer, &ours.lineage);
        let reversed = primary.is_reversed_for(peer, &ours);
        let Some(facts) = self.view().facts_as_source(&ours, reversed) else { return };
        let Decision { label, verdict } = recovery::decide(&facts);
        // What it heard of the peer may have changed what it tells of itself.
        let ours = self.view().hello_as_met();
        self.show.remember_row(facts, label, true, ours, self.peer.session(), &mut self.turn);
        if verdict != Verdict::Refuse
            && let Some(why) = self.peer.refuse_blocks(self.local.blocks(), &mut self.turn)
        {
            return self.hang_up(HangUp::new(Parting::Refused, why));
        }
        let (leaves, lineage) = (self.standing.is_leaving(), self.record.superblock().lineage);
        let Some(primary) = self.standing.primary_mut() else { return };
        self.turn.info(format!("{} connected as {label}", self.turn.config().peer));
        let (verify, local) = (self.resync.verify_mut(), &self.local);
        let (permit, turn, session) = (&self.permit, &mut self.turn, self.peer.session_mut());
        session.connected_as(label);
        match verdict {
            Verdict::Refuse => {
                let why = session.refuse_by(label, self.show.last_decision(), turn);
                return self.hang_up(HangUp::new(Parting::Refused, why));
            }
            // A line that is about to be laid down begins no copy; its marks are kept for the next one.
            Verdict::UpdateMarks | Verdict::UpdateAll | Verdict::UpdateSeeded if leaves => {}
            Verdict::AwaitSeed => {}
            Verdict::UpdateSeeded => {
                primary.use_shipped();
                self.resync.update_mut().want();
                let (session, resync) = (self.peer.session(), &mut self.resync);
                self.standing.sync_as_wanted(session, &self.record, resync, local, turn);
            }
            Verdict::ResumeReceived => {
                primary.resume_received(lineage, received, verify, local, permit, turn);
            }
            Verdict::ResumeDurable if reversed && primary.peer_is_consistent() => {
                let from = primary.cursors().durable().next();
                let opening = Opening { lineage, from, consistent: true };
                primary.begin_stream(opening, verify, local, permit, turn);
            }
            Verdict::ResumeDurable | Verdict::ResumeEqual => {
                let c = primary.cursors();
                let at = if planted(Plant::ResumeUnflushed) { c.received() } else { c.durable() };
                primary.resume_durable(lineage, at, verify, local, permit, turn);
            }
            Verdict::UpdateMarks => {
                primary.ask_bitmap();
                self.resync.update_mut().await_marks();
                turn.send(Message::Copying(Copying::MarksWanted));
            }
            Verdict::UpdateAll => {
                // That everything is marked is durable before anything is copied.
                self.record.keeping_mut().ages_mut().begin_again_when_taken_up(theirs);
                primary.copy_everything(
                    self.resync.update_mut(),
                    &mut self.record,
                    &mut self.local,
                    permit,
                    turn,
                );
            }
        }
        self.record.keeping_mut().ages_mut().hear(theirs);
        self.resync.update_mut().met();
    }

    /// The two speak about what may differ.
    ///
    /// # Errors
    /// What was said is out of turn, or about what does not exist: the connection must end.
    pub(crate) fn peer_copying(&mut self, talk: Copying) -> Result<(), String> {
        if let Copying::Digests { volume, extent, list, .. } = &talk {
            let marks = self.standing.primary().map(Primary::marks);
            if self.resync.seed_mut().told((*volume, *extent), list, marks, &mut self.turn) {
                return Ok(());
            }
        }
        let blank = self.view().is_blank();
        let listens = self.standing.follower().is_some_and(|f| f.is_begun() || f.is_deaf());
        let (pulls, hands_over) = (self.standing.serves(), self.standing.hands_over());
        match (talk, self.standing.primary_mut()) {
            (Copying::MarksWanted, None) => {
                for told in self.view().marks_told() {
                    self.turn.send(Message::Copying(told));
                }
                Ok(())
            }
            (Copying::Marks { .. }, _) if planted(Plant::OwnMarksOnly) => Ok(()),
            (Copying::Marks { page, bits }, _) if self.resync.update().awaits_marks() => {
                let known = self.standing.marks_mut(&mut self.record).join(page, bits.as_ref());
                let beyond = || format!("page {page} of the bitmap, which no volume reaches");
                known.then_some(()).ok_or_else(beyond)
            }
            (Copying::MarksEnd { trusted }, primary) if self.resync.update().awaits_marks() => {
                let (update, record) = (self.resync.update_mut(), &mut self.record);
                update.marks_told();
                let (local, permit, turn) = (&mut self.local, &self.permit, &mut self.turn);
                if primary.is_some_and(|primary| {
                    primary.marks_ended(trusted, update, record, local, permit, turn)
                }) {
                    let (session, resync) = (self.peer.session(), &mut self.resync);
                    self.standing.sync_as_wanted(session, record, resync, local, turn);
                }
                Ok(())
            }
            (Copying::DigestsWanted { volume, extent, coarse }, None) if listens || blank => {
                let pieces = if coarse { Pieces::Regions } else { Pieces::Blocks };
                self.resync.teller_mut().ask((volume, extent, pieces), &self.turn)
            }
            (Copying::EmptyWanted { volume, extent }, None) if listens => {
                self.resync.teller_mut().ask((volume, extent, Pieces::Whole), &self.turn)
            }
            (Copying::Digests { .. } | Copying::Empty { .. }, None) if hands_over => Ok(()),
            (Copying::Digests { volume, extent, coarse: false, list }, Some(primary))
                if primary.is_comparing() =>
            {
                primary.compare_told((volume, extent), list, pulls, &mut self.local, &mut self.turn)
            }
            (Copying::Digests { volume, extent, coarse, list }, Some(primary)) => {
                primary.digests_told((volume, extent, coarse), &list)
            }
            (Copying::Empty { volume, extent, empty }, Some(primary)) => {
                primary.emptiness_told((volume, extent), empty, &mut self.local, &mut self.turn)
            }
            (Copying::Differs { volume, extent, sequence }, primary) => {
                Verify::check_reported(self.turn.config(), volume, extent)?;
                if let Some(primary) = primary {
                    let (verify, local) = (self.resync.verify_mut(), &mut self.local);
                    primary.peer_differs(volume, extent, sequence, verify, local, &mut self.turn);
                }
                Ok(())
            }
            (other, _) => Err(out_of_turn(&Message::Copying(other))),
        }
    }

    pub(crate) fn meet_as_target(&mut self) {
        let ours = self.view().hello_as_met();
        let Some(peer) = self.peer.session().peer() else { return };
        let theirs = peer.metadata;
        let mut facts = recovery::facts_of(peer, &ours);
        facts.source_old |= self.view().leader_went_back();
        let Decision { label, verdict } = recovery::decide(&facts);
        self.show.remember_row(facts, label, false, ours, self.peer.session(), &mut self.turn);
        // The source alone knows whether it can resume; refusals need no memory.
        if verdict == Verdict::Refuse {
            let last = self.show.last_decision();
            let why = self.peer.session_mut().refuse_by(label, last, &mut self.turn);
            return self.hang_up(HangUp::new(Parting::Refused, why));
        }
        self.local.suspect().report(&mut self.turn);
        self.record.keeping_mut().ages_mut().hear(theirs);
        if self.standing.is(Following::Returning) {
            self.standing.step_back(&mut self.record, &mut self.turn);
            self.begin_record();
        }
        let secondary = self.standing.is(Following::Secondary);
        self.permit.lease_mut().met(self.peer.session(), secondary, &mut self.turn);
    }

    /// Neither serves. A node that was primary when it stopped goes on, if the peer did not go on without it.
    pub(crate) fn meet_without_primary(&mut self) {
        let returning = match self.standing.stage() {
            Stage::Following(Following::Returning) => true,
            Stage::Following(Following::Secondary) => false,
            _ => {
                return self.permit.lease_mut().met(self.peer.session(), false, &mut self.turn);
            }
        };
        let ours = self.view().hello_as_met();
        let Some(peer) = self.peer.session().peer() else { return };
        let Decision { label, verdict } = recovery::on_return(&Returning {
            returning,
            consistent: self.view().is_consistent(),
            proven: self.peer.session().is_proven(),
            agreed: self.peer.session().has_agreed(),
            ..Returning::of(&ours, peer)
        });
        match verdict {
            OnReturn::Refuse { as_source } => {
                let (source, target) = if as_source { (&ours, peer) } else { (peer, &ours) };
                let facts = recovery::facts_of(source, target);
                self.show.remember_row(
                    facts,
                    label,
                    as_source,
                    ours,
                    self.peer.session(),
                    &mut self.turn,
                );
                let last = self.show.last_decision();
                let why = self.peer.session_mut().refuse_by(label, last, &mut self.turn);
                self.hang_up(HangUp::new(Parting::Refused, why));
            }
            OnReturn::Stay => {
                self.permit.lease_mut().met(self.peer.session(), !returning, &mut self.turn);
            }
            OnReturn::StepBack => {
                self.standing.step_back(&mut self.record, &mut self.turn);
                self.begin_record();
            }
            OnReturn::GoOn => {
                if let Some(equal) = self.view().may_go_on() {
                    self.begin_promotion(None, equal);
                }
            }
            OnReturn::Wait => {}
        }
    }
}

impl View<'_> {
    /// Whether this group and one with that lineage were the same once, whatever their names.
    #[must_use]
    pub fn shares_history(&self, lineage: &Lineage) -> bool {
        let ours = &self.record.superblock().lineage;
        let related = !matches!(ours.relation_of(lineage), Relation::New | Relation::Unrelated);
        ours.generation != Generation::NONE && related
    }

    /// Whether these may become disks of a volume.
    ///
    /// # Errors
    /// The connected peer has one of them.
    pub fn may_use(&self, disks: &[OwnDisk]) -> Result<(), Refusal> {
        self.peer.may_use(disks, self.turn)
    }

    /// Why the sender of a hello is not this group's peer, if it is not.
    fn is_not_peer(&self, hello: &Hello) -> Option<String> {
        let config = self.turn.config();
        if hello.group != config.group {
            Some(format!("its group is {}, expected {}", hello.group, config.group))
        } else if config.peer_name() != Some(hello.node.as_str()) {
            Some(format!("its name is {}, expected {}", hello.node, config.peer))
        } else {
            None
        }
    }

    /// What the peer said of itself on this connection. It counts also while this node cannot say what it is itself; a hello of
    /// another node does not.
    pub(crate) fn heard_of_peer(&self) -> Option<&Hello> {
        self.peer.session().heard_hello().filter(|hello| self.is_not_peer(hello).is_none())
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

    /// Where this node's image may differ, by its own records: what it marked, and what lies in extents its primary may
    /// not know of.
    pub(crate) fn own_marks(&self) -> Bitmap {
        let mut marks = Bitmap::new(&self.turn.config().volumes, self.turn.config().granularity);
        for (volume, extent) in self.standing.unsettled(self.record, self.local) {
            marks.set(volume, extent);
        }
        marks.join_recorded(self.marks());
        marks
    }

    /// What the table is to look at where this node leads. `reversed`: the peer has not adopted the reverse resync's generation.
    fn facts_as_source(&self, ours: &Hello, reversed: bool) -> Option<Facts> {
        let (primary, peer) = (self.standing.primary()?, self.peer.session().peer()?);
        let mut facts = recovery::facts_of(ours, peer);
        facts.source_lacks = primary.is_lacking();
        facts.source_suspect = primary.must_not_stream(self.local);
        // What a side that was given up holds lies on no line, and is in no proof: its marks alone tell it.
        // A primary that could not record what it did remembers it, as long as it runs.
        facts.invalid = ours.doubts || peer.doubts && !self.local.metadata_failed();
        facts.target_old |=
            self.leader_went_back() || !reversed && primary.peer_went_back(peer, &ours.lineage);
        if peer.is_on_line() {
            primary.recall(peer, reversed, self.line_does_not_fit(), &mut facts);
            facts.equal &= self.resync.update().is_proven_needless();
        }
        // A record that is on its way says that everything is copied after all.
        facts.seeding = self.resync.seed().is_under_way(self.record.superblock())
            && !self.record.wants(|goal| *goal == Goal::Void);
        facts.seeded = self.resync.seed().has_passed(peer);
        Some(facts)
    }

    /// This node's marks and hot extents cover everything in which its image may differ from the other's. While a disk is shipped they
    /// are those against it.
    pub(crate) fn marks_are_trusted(&self) -> bool {
        self.unknown().is_none()
    }

    /// Why they do not cover it, if they do not.
    pub(crate) fn unknown(&self) -> Option<Unknown> {
        let b = self.record.superblock();
        if b.seeding != 0 {
            Some(Unknown::ShippedDisk)
        } else if self.local.members().are_foreign() {
            Some(Unknown::AnotherDisk)
        } else {
            b.marks_void.then_some(Unknown::NoRecord)
        }
    }

    /// What a source is told that asks for this node's marks.
    fn marks_told(&self) -> Vec<Copying> {
        let marks = self.own_marks();
        let page = |page| Copying::Marks { page, bits: Some(marks.page_bits(page)) };
        let end = Copying::MarksEnd { trusted: self.marks_are_trusted() };
        marks.dirty_pages().map(page).chain([end]).collect()
    }

    /// The generation of a peer that was reset to an earlier state, and the evidence. This node's bitmap does not cover the durable writes
    /// that the peer lost. So this node records that the peer's metadata is invalid, before the peer writes its metadata again, after which it
    /// would no longer be recognised as old, and before either node becomes primary. A primary marks everything instead.
    fn peer_to_doubt(&self) -> Option<(Generation, String)> {
        let peer = self.peer.session().peer()?;
        let (generation, name) = (peer.lineage.generation, &self.turn.config().peer);
        let why = if self.leader_went_back() {
            format!("the machine of {name} was reset to a snapshot with its memory")
        } else if recovery::is_older(peer.metadata, self.peer.session().remembered()) {
            format!(
                "the machine of {name} was reset to a snapshot, or its metadata was restored from a backup"
            )
        } else {
            return None;
        };
        let doubts = generation != Generation::NONE
            && !self.standing.leads()
            && !self.doubts_peer()
            && !self.local.metadata_failed();
        doubts.then_some((generation, why))
    }

    /// The peer remembers more than our metadata is.
    pub(crate) fn is_record_old(&self) -> bool {
        let said = self.peer.session().said();
        let remembers = self.peer.session().peer().map(|peer| peer.remembers);
        remembers.is_some_and(|remembers| recovery::is_older(said, remembers))
            && !self.local.metadata_failed()
    }

    /// So what our marks prove has to be doubted durably, whatever comes of this meeting. Refused, we would change it until it
    /// looks as young as what the peer remembers.
    fn must_doubt_marks(&self) -> bool {
        self.is_record_old() && !self.standing.leads() && !self.record.superblock().marks_void
    }

    /// Whether the process that this node followed last is behind what it sent: its machine went back together with its memory.
    /// As long as a process runs, it has the generation that it led in its lineage, and all that it sent of it. What an operator
    /// discarded is on no line.
    pub(crate) fn leader_went_back(&self) -> bool {
        let (Some(leader), Some(peer)) = (self.peer.leader(), self.peer.session().peer()) else {
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
        leader.incarnation() == peer.incarnation
            && peer.is_on_line()
            && sent.is_some()
            && has < sent
            && (has.is_some() || !theirs.is_full())
            && !planted(Plant::TrustRewound)
    }
}
