// SPDX-License-Identifier: Apache-2.0
//! The conversation with the peer: greeting, keeping alive, noticing its loss.
//!
//! ```text
//!   Down ──connected──> Waiting ──role settled, hello sent──> Greeting ──the peer's hello──> Up
//!    ^                     │                                     │                           │
//!    └──── hung up ────────┴──────── another peer, lost ─────────┴── refused, lost, parted ──┘
//! ```
//! The link is up before the recovery table is asked: a refusal is told on it.
//! A peer is lost when none of its cursors moved for T while something sent is unacknowledged; while it says that
//! it is flushing, or that its store waits, for the flush limit instead, as long as it is heard. A long item on its way adds the time it
//! may take. With nothing outstanding, or with such a store, hearing nothing for T is loss (rule 8).

use crate::config::Config;
use crate::effect::Effect;
use crate::engine::Engine;
use crate::follow::follower::Follower;
use crate::lead::Primary;
use crate::peer::hang_up::HangUp;
use crate::peer::keeping::NO_SPACE;
use crate::peer::pause::{End, Proof};
use crate::peer::session::{broken_by, lasts, out_of_turn};
use crate::record::save::Goal;
use crate::role::Following;
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_format::copying::Copying;
use helio_format::message::{COUNTED_BELOW, Hello, Message, Parting, Ping};
use helio_format::report::Report;
use helio_plant::{Plant, planted};
use helio_stack::Shortage;
use helio_units::{Bytes, Sequence};

impl Engine {
    /// Says hello as soon as the role is settled.
    pub(crate) fn greet(&mut self) {
        if self.peer.session().owes_hello() && self.standing.is_settled() {
            let hello = self.view().hello();
            let early = self.peer.session_mut().said_hello(hello.metadata);
            self.turn.send(Message::Hello(hello));
            if let Some(early) = early {
                self.peer_hello(early);
            }
        }
    }

    pub(crate) fn disconnected(&mut self, end: End, why: String) {
        if self.peer.session().is_down() {
            return;
        }
        let (view, lineage) = (self.view(), &self.record.superblock().lineage);
        let proof = Proof::of(view.heard_of_peer(), self.peer.session(), lineage, end);
        let (timeout, now) = (self.turn.config().peer_timeout, self.turn.now());
        self.peer.session_mut().disconnected((end, why), timeout, now);
        if self.peer.session().unsteady().is_some() {
            let Config { peer, group, .. } = self.turn.config();
            let text = format!(
                "several connections to {peer} ended before one lasted: `helio status {group}` shows what to check; lines that repeat are \
                 left out until a connection lasts"
            );
            self.turn.warn(text);
        }
        self.resync.update_mut().await_nothing();
        // Nobody can be sure what the peer records of this node.
        self.record.keeping_mut().invalid_mut().conversation_ended();
        self.record.keeping_mut().ages_mut().not_taken_up();
        self.local.uncover(false);
        if let Some(follower) = self.standing.follower_mut() {
            follower.disconnected(&mut self.turn);
        }
        self.resync.teller_mut().forget();
        self.peer.reads_mut().forget();
        if let Some(primary) = self.standing.primary_mut() {
            primary.stream_broken(&mut self.local, &self.permit, &mut self.turn);
            let (began, timeout) = (self.peer.session().began(), self.turn.config().peer_timeout);
            let pause = self.permit.pause_mut();
            let passed = pause.connection_ended(proof, began, self.turn.now(), timeout);
            primary.check_ends(passed, &self.local, &mut self.permit, &mut self.turn);
        }
        self.resync.seed_mut().interrupt("the connection was lost", &mut self.turn);
        self.resync.seed_mut().answers_lost();
        self.standing.asking_failed(
            "the connection was lost before the peer responded",
            &self.record,
            &mut self.turn,
        );
        self.asked
            .switch_unheard("the connection was lost before the primary responded", &mut self.turn);
    }

    /// Ends the conversation from this side, if that is wished.
    pub(crate) fn hang_up(&mut self, wish: impl Into<Option<HangUp>>) {
        let Some((parting, why)) = wish.into().map(HangUp::into_parts) else { return };
        if self.peer.session().is_down() {
            return;
        }
        if parting == Parting::VolumeFailed {
            // The peer shows the fault, and what helps, as long as this connection is its last one.
            if let Some(report) = self.view().news_for_peer(self.view().state()) {
                self.peer.session_mut().reports(report, &mut self.turn);
            }
        }
        let refused = parting == Parting::Refused;
        self.turn.send(Message::Goodbye { parting, text: why.clone() });
        self.turn.push(Effect::Hangup { why: why.clone(), refused });
        self.disconnected(parting.into(), why);
    }

    pub(crate) fn message(&mut self, message: Message) {
        self.peer.session_mut().heard(self.turn.now());
        let up = self.peer.session().peer().is_some();
        let Self { standing, peer, record, local, permit, turn, .. } = self;
        let result = match message {
            Message::Hello(hello) if peer.session().is_greeting() => return self.peer_hello(hello),
            Message::Goodbye { parting, text } => {
                let why = self.peer.session_mut().parted(parting, text, &mut self.turn);
                return self.disconnected(parting.into(), why);
            }
            Message::Item(item) if up => standing.peer_item(item, local, turn),
            Message::Snapshot(snapshot) if up => standing.peer_announces(snapshot),
            Message::Ack(ack) if up => match standing.primary_mut() {
                Some(lead) => {
                    lead.peer_acknowledges(ack, peer.session_mut(), record, local, permit, turn)
                }
                None => standing.stray_ack(),
            },
            Message::Start(start) if up => self.peer_start(start),
            Message::Ping(ping) if up => return self.peer_ping(ping),
            Message::Pong { token, flushing, waits, short, metadata } if up => {
                self.peer_pong(token, flushing || waits, short);
                self.record.keeping_mut().ages_mut().hear(metadata);
                return;
            }
            Message::Copying(Copying::NoRoom { wanted, free }) if up => {
                let shortage = Shortage { needed: Bytes(wanted), free: Bytes(free) };
                let wish = standing.peer_has_no_room(shortage, local, permit, turn);
                wish.map(|wish| self.hang_up(wish))
            }
            Message::Copying(talk) if up => self.peer_copying(talk),
            Message::PromoteRequest { generation, durable } if up => {
                let request = (generation, durable);
                let why = self.view().why_not_agreed(request);
                let Self { standing, peer, record, permit, turn, .. } = self;
                return standing.peer_requests((request, why), peer, record, permit, turn);
            }
            Message::Roles(talk) if up => self.peer_talks_roles(talk),
            Message::Invalid(talk) if up => {
                let wish = standing.peer_talks_invalid(talk, peer, record, local, turn);
                return self.hang_up(wish);
            }
            Message::Lease(talk) if up => {
                let session = peer.session();
                return standing.peer_talks_lease(talk, session, permit, record, local, turn);
            }
            Message::Reading(talk) if up => {
                standing.peer_reading(talk, peer.reads_mut(), local, permit, turn)
            }
            Message::Report(report) if up => return peer.session_mut().peer_reports(report),
            Message::Disks(disks) if up => {
                let wish = peer.compare_disks(disks, turn);
                return self.hang_up(wish);
            }
            Message::PromoteReply { granted, text } if up => {
                return self.promotion_answered(granted, text);
            }
            other => {
                self.turn.release_stray(&other);
                // What was on its way when the role changed is no offence.
                if self.peer.session().is_down() { Ok(()) } else { Err(out_of_turn(&other)) }
            }
        };
        let wish = result.err().map(|offence| broken_by(&offence, &mut self.turn));
        self.hang_up(wish);
    }

    fn peer_start(&mut self, start: helio_format::message::Start) -> Result<(), String> {
        let source_serves = self.peer.session().peer().is_some_and(|h| h.serving);
        if !source_serves || !self.standing.is(Following::Secondary) {
            return Err(String::from("a stream was started to a node that is not the secondary"));
        }
        // With this node's own writes everything goes that it received: the connection ends, and the next one brings it again.
        if self.record.wants(|goal| matches!(goal, Goal::Yielded { .. })) {
            let why = format!("{} discards its own writes", self.turn.config().node);
            self.hang_up(HangUp::new(Parting::RoleChanged, why));
            return Ok(());
        }
        // Positions begin at one, and every position of a line must fit into a record.
        if start.from == Sequence::ZERO || start.from.0 >= COUNTED_BELOW {
            return Err(alloc::format!("a stream was begun at item {}", start.from));
        }
        if self.local.members().are_foreign() && !start.whole {
            return Err(String::from(
                "a stream was begun as if this node's disk were the one it was",
            ));
        }
        if self.standing.follower().is_some_and(|f| f.missed_before(&start)) {
            self.hang_up(HangUp::new(Parting::RoleChanged, NO_SPACE));
            return Ok(());
        }
        let b = self.record.superblock();
        let kept = !self.keeper.is_short() && (start.keep || self.keeper.kept().is_none());
        // The record tells of the image only what no marker is about to change. One that was found to be old says so, or is about to: a
        // stream that brings everything ends that where it is adopted.
        let changes = self.standing.follower().is_some_and(Follower::holds_marker)
            || self.record.wants(|goal| *goal == Goal::Consistent);
        let continues = b.lineage == start.lineage
            && b.consistent == start.consistent
            && !changes
            && (!self.view().is_record_old() || planted(Plant::OldGoesOn))
            && !b.clean
            && !b.alone
            && (kept || b.consistent);
        let generation = start.lineage.generation;
        self.peer.follow(generation);
        if let Some(follower) = self.standing.follower_mut() {
            follower.start(start, continues, &mut self.turn);
        }
        Ok(())
    }

    fn peer_ping(&mut self, ping: Ping) {
        self.peer.session_mut().peer_pings(ping, self.turn.now());
        if let (Some(mode), None) = (ping.mode, self.standing.primary()) {
            self.turn.set_mode(mode);
        }
        self.record.keeping_mut().ages_mut().hear(ping.metadata);
        if self.standing.follower().is_some_and(Follower::is_following) {
            self.standing.primary_is_at(
                (ping.completed, ping.accepted),
                &mut self.record,
                &mut self.local,
                &self.turn,
            );
        }
        if let Some(follower) = self.standing.follower_mut() {
            follower.primary_is_at(ping.accepted);
        }
        if ping.hurry {
            self.standing.hurry();
        }
        let flushing = self.standing.follower().is_some_and(Follower::is_flushing);
        let short = !self.standing.leads() && self.local.hot().is_short();
        let metadata = self.record.report_age();
        let (token, waits) = (ping.token, self.local.waits());
        self.turn.send(Message::Pong { token, flushing, waits, short, metadata });
    }

    fn peer_pong(&mut self, token: u64, busy: bool, short: bool) {
        let now = self.turn.now();
        let proven = self.peer.session_mut().pong(token, busy, short, now);
        // What the peer said of itself is how it is now: this node may become primary by it.
        if let Some(peer) = self.peer.session().peer().filter(|_| proven) {
            let serving = peer.serving;
            if let Some(primary) = self.standing.primary_mut() {
                let passed = self.permit.pause().peer_answered(serving);
                primary.check_ends(passed, &self.local, &mut self.permit, &mut self.turn);
            }
            if let Some((label, end)) = self.view().handed() {
                self.turn.info(format!("{} connected as {label}", self.turn.config().peer));
                self.end_handing(end);
            }
            if !self.standing.leads() && !serving && self.standing.is(Following::Returning) {
                self.meet_without_primary();
            }
        }
        if self.view().outstanding().is_none() && self.peer.session_mut().progressed(now) {
            self.turn.info(lasts(&self.turn.config().peer));
        }
    }

    /// Pings when due.
    pub(crate) fn keep_alive(&mut self) {
        let primary = self.standing.primary();
        let waiting =
            primary.is_some_and(|p| p.queue().waiters() > 0) || self.standing.is_leaving();
        let undurable = primary.is_some_and(|p| p.cursors().completed() > p.cursors().durable());
        let hurry = waiting && undurable && self.peer.session().may_hurry();
        let state = primary.map(|_| self.view().state());
        let (config, now) = (self.turn.config(), self.turn.now());
        if !hurry && !self.peer.session().is_ping_due(state, now) {
            return;
        }
        let token = self.peer.session_mut().pinged(hurry, state, config.heartbeat(), now);
        let metadata = self.record.report_age();
        let mut ping = Ping { token, hurry, state, metadata, ..Ping::default() };
        if let Some(primary) = primary {
            primary.describe(&mut ping, &self.local, &self.turn);
        }
        self.turn.send(Message::Ping(ping));
    }
}

impl View<'_> {
    /// Whether a connection stands on which no hello of the peer was judged yet.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        self.peer.session().is_greeting()
    }

    /// What this node tells of itself now.
    pub(crate) fn hello(&self) -> Hello {
        Hello { report: self.report(self.state()), ..self.hello_of_record() }
    }

    /// The same without a report, whose texts say what this tells.
    pub(crate) fn hello_of_record(&self) -> Hello {
        let b = self.record.superblock();
        let config = self.turn.config();
        let streaming = self.standing.streaming();
        let (clean, head, received, durable) = match (self.standing.primary(), streaming) {
            (Some(p), _) => (true, p.head(), Sequence::ZERO, Sequence::ZERO),
            (_, Some(f)) => (true, f.reach(), f.received(), f.durable()),
            // A primary that left something undelivered or marked is not known to hold what its peer holds.
            _ if b.clean && b.wrote && !(b.equal && b.consistent) => {
                (true, b.head, Sequence::ZERO, Sequence::ZERO)
            }
            _ if b.clean => (true, b.head, Sequence::ZERO, b.head),
            _ => (false, b.head, Sequence::ZERO, Sequence::ZERO),
        };
        // What the record says is not about another disk.
        let foreign = self.local.members().are_foreign();
        let of_this = |at: Sequence| if foreign { Sequence::ZERO } else { at };
        Hello {
            group: config.group.clone(),
            node: config.node.clone(),
            incarnation: self.record.incarnation(),
            role: b.role,
            serving: self.standing.serves(),
            clean,
            consistent: self.is_consistent() && !self.record.keeping().is_disowned(),
            wrote: b.wrote,
            alone: b.alone,
            trusted: self.marks_are_trusted(),
            // Of one that does not lead, a generation begun from its image now, whatever it was as primary (`shape_promoted`).
            sure: if self.standing.leads() {
                b.sure
            } else {
                streaming.is_some_and(Follower::is_sure)
            },
            doubts: self.doubts_peer(),
            discarded: b.discarded,
            suspect: self.local.suspect().any(),
            keeps: self.keeper.kept().is_some() || streaming.is_some_and(Follower::holds_marker),
            lineage: b.lineage,
            head,
            received: of_this(received),
            durable: of_this(durable),
            granularity: config.granularity.0 as u32,
            metadata: self.record.reported_age(),
            remembers: self.record.keeping().ages().heard(),
            sizes: config.volumes.iter().map(|v| v.0).collect(),
            blocks: self.local.blocks().told(),
            report: Report::default(),
        }
    }

    /// What this node is, as old as it told on this connection, and with what it remembered of the peer then: of the peer's
    /// age that is to be compared with, its hello tells alone, and pings have told of later ones since.
    pub(crate) fn hello_as_met(&self) -> Hello {
        Hello { report: self.report(self.state()), ..self.record_as_met() }
    }

    /// The same without a report, whose texts say what this tells.
    pub(crate) fn record_as_met(&self) -> Hello {
        let metadata = self.peer.session().said();
        // Less, where its count began anew since.
        let remembers = self.peer.session().remembered().min(self.record.keeping().ages().heard());
        Hello { metadata, remembers, ..self.hello_of_record() }
    }

    /// The time that an item on its way to the peer may take, if something sent is unacknowledged.
    pub(crate) fn outstanding(&self) -> Option<Duration> {
        self.standing.primary().and_then(Primary::outstanding)
    }
}
