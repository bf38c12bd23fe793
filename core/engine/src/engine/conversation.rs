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
//! it is flushing, for the flush limit instead. A long item on its way adds the time it may take. With nothing outstanding, hearing nothing for T is loss (rule 8).

use crate::effect::Effect;
use crate::engine::Engine;
use crate::follow::follower::Follower;
use crate::lead::Primary;
use crate::peer::handshake::Leader;
use crate::peer::pause::{End, Proof};
use crate::peer::session::out_of_turn;
use crate::role::{Following, Stage};
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_format::copying::Copying;
use helio_format::message::{COUNTED_BELOW, Hello, Message, Parting, Ping};
use helio_units::{Bytes, Generation, Sequence, State};

impl Engine {
    pub(crate) fn connected(&mut self) {
        self.peer.session.connected(self.turn.now());
        self.greet();
    }

    /// Whether a connection stands on which no hello of the peer was judged yet.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        self.peer.session.is_greeting()
    }

    /// Says hello as soon as the role is settled.
    pub(crate) fn greet(&mut self) {
        if self.peer.session.owes_hello() && self.standing.is_settled() {
            let hello = self.hello();
            let early = self.peer.session.said_hello(hello.metadata);
            self.turn.send(Message::Hello(hello));
            if let Some(early) = early {
                self.peer_hello(early);
            }
        }
    }

    /// What this node tells of itself now.
    pub(crate) fn hello(&self) -> Hello {
        let b = self.record.superblock();
        let config = self.turn.config();
        let streaming = self.standing.streaming();
        let (clean, head, received, durable) = match (self.standing.primary(), streaming) {
            (Some(p), _) => (true, p.line.head, Sequence::ZERO, Sequence::ZERO),
            (_, Some(f)) => (true, f.received(), f.received(), f.durable()),
            // A primary that left something undelivered or marked is not known to hold what its peer holds.
            _ if b.clean && b.wrote && !b.equal => (true, b.head, Sequence::ZERO, Sequence::ZERO),
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
            // While a disk is shipped the marks are those against it, and tell nothing of any other copy.
            trusted: !b.marks_void && !foreign && b.seeding == 0,
            // Of one that does not lead a generation begun from its image now would have to be so, too (`shape_promoted`).
            sure: b.sure && (self.standing.leads() || streaming.is_some()),
            doubts: self.doubts_peer(),
            discarded: b.discarded,
            suspect: self.local.suspect().any(),
            lineage: b.lineage,
            head,
            received: of_this(received),
            durable: of_this(durable),
            granularity: config.granularity.0 as u32,
            metadata: self.record.keeping().ages().in_hello(),
            remembers: self.record.keeping().ages().heard(),
            sizes: config.volumes.iter().map(|v| v.0).collect(),
            blocks: self.local.blocks().told(),
            report: self.report(self.state()),
        }
    }

    /// What this node is, as old as it told on this connection, and with what it remembered of the peer then: of the peer's
    /// age that is to be compared with, its hello tells alone, and pings have told of later ones since.
    pub(crate) fn hello_as_met(&self) -> Hello {
        let metadata = self.peer.session.said();
        // Less, where its count began anew since.
        let remembers = self.peer.session.remembered().min(self.record.keeping().ages().heard());
        Hello { metadata, remembers, ..self.hello() }
    }

    pub(crate) fn disconnected(&mut self, end: End, why: String) {
        if self.peer.session.is_down() {
            return;
        }
        let proof = Proof::of(&self.peer.session, &self.record.superblock().lineage, end);
        self.peer.session.disconnected(why, self.turn.now());
        self.resync.update.await_nothing();
        self.peer_is_not_told();
        if let Some(follower) = self.standing.follower_mut() {
            follower.disconnected(&mut self.turn);
        }
        self.resync.teller.forget();
        self.peer.reads.forget();
        if let Some(primary) = self.standing.primary_mut() {
            primary.stream_broken(&mut self.local, &self.permit, &mut self.turn);
        }
        let (began, timeout) = (self.peer.session.began(), self.turn.config().peer_timeout);
        let passed = self.permit.pause.connection_ended(proof, began, self.turn.now(), timeout);
        self.check_ends(passed);
        self.seed_stopped("the connection was lost");
        self.resync.seed.answers_lost();
        self.asking_failed("the connection was lost before the peer responded");
        self.switch_unheard("the connection was lost before the primary responded");
    }

    /// Ends the conversation from this side.
    pub(crate) fn hang_up(&mut self, parting: Parting, why: String) {
        if self.peer.session.is_down() {
            return;
        }
        if parting == Parting::VolumeFailed {
            // The peer shows the fault, and what helps, as long as this connection is its last one.
            self.report_to_peer(self.state());
        }
        let refused = parting == Parting::Refused;
        self.turn.send(Message::Goodbye { parting, text: why.clone() });
        self.turn.push(Effect::Hangup { why: why.clone(), refused });
        self.disconnected(parting.into(), why);
    }

    pub(crate) fn message(&mut self, message: Message) {
        self.peer.session.heard(self.turn.now());
        let up = self.peer.session.peer().is_some();
        let result = match message {
            Message::Hello(hello) if self.peer.session.is_greeting() => {
                if let Some(hello) = self.peer.session.take_hello(hello) {
                    self.peer_hello(hello);
                }
                Ok(())
            }
            Message::Goodbye { parting, text } => {
                self.parted(parting, text);
                Ok(())
            }
            Message::Item(item) if up => self.peer_item(item),
            Message::Ack(ack) if up => self.peer_ack(ack),
            Message::Start(start) if up => self.peer_start(start),
            Message::Ping(ping) if up => {
                self.peer_ping(ping);
                Ok(())
            }
            Message::Pong { token, flushing, short, metadata } if up => {
                self.peer_pong(token, flushing, short);
                self.record.keeping_mut().ages_mut().hear(metadata);
                Ok(())
            }
            Message::Copying(Copying::NoRoom { wanted, free }) if up => {
                self.peer_has_no_room(Bytes(wanted), Bytes(free))
            }
            Message::Copying(talk) if up => self.peer_copying(talk),
            Message::PromoteRequest { generation, durable } if up => {
                self.peer_asks_promotion(generation, durable);
                Ok(())
            }
            Message::Roles(talk) if up => self.peer_talks_roles(talk),
            Message::Invalid(talk) if up => {
                self.peer_talks_invalid(talk);
                Ok(())
            }
            Message::Lease(talk) if up => {
                self.peer_talks_lease(talk);
                Ok(())
            }
            Message::Reading(talk) if up => self.peer_reading(talk),
            Message::Report(report) if up => {
                self.peer.session.peer_reports(report, self.turn.now());
                Ok(())
            }
            Message::PromoteReply { granted, text } if up => {
                self.promotion_answered(granted, text);
                Ok(())
            }
            other => {
                self.release_stray(&other);
                // What was on its way when the role changed is no offence.
                if self.peer.session.is_down() { Ok(()) } else { Err(out_of_turn(&other)) }
            }
        };
        if let Err(offence) = result {
            let peer = &self.turn.config().peer;
            let why = format!("{peer} broke the protocol: {offence}");
            self.turn.warn(why.clone());
            self.hang_up(Parting::Protocol, why);
        }
    }

    fn release_stray(&mut self, message: &Message) {
        if let Some(payload) = message.payload() {
            self.turn.release(payload.id);
        }
    }

    fn peer_item(&mut self, item: helio_format::message::Item) -> Result<(), String> {
        let secondary = self.standing.is(Following::Secondary);
        let Some(follower) = self.standing.follower_mut().filter(|_| secondary) else {
            self.release_stray(&Message::Item(item));
            return Err(format!(
                "item {} arrived at a node that is not the secondary",
                item.sequence
            ));
        };
        if follower.failed().is_some() {
            self.release_stray(&Message::Item(item));
            return Ok(());
        }
        let result = follower.receive(item, &self.local, &mut self.turn);
        if result.is_err() {
            self.release_stray(&Message::Item(item));
        }
        result
    }

    fn peer_ack(&mut self, ack: helio_format::message::Ack) -> Result<(), String> {
        let incarnation = self.peer.session.peer().map(|h| h.incarnation);
        // One that had no history has a record by now: its metadata changed at least once since it sent its hello.
        let began = self.peer.session.peer().filter(|h| h.lineage.generation == Generation::NONE);
        let recorded = began.map(|h| h.metadata + 1);
        let Some(primary) = self.standing.primary_mut() else {
            // What the one that was asked to take over says of the stream that just ended.
            if matches!(self.standing.stage(), Stage::Following(Following::Handing { .. })) {
                return Ok(());
            }
            return Err(String::from("an acknowledgement arrived at a node that sends nothing"));
        };
        if primary.hears(incarnation) {
            self.record.keeping_mut().ages_mut().hear(recorded.unwrap_or_default());
        }
        if primary.acknowledged(ack, &self.local, &self.permit, &mut self.turn)? {
            self.peer.session.progressed(self.turn.now());
        }
        Ok(())
    }

    fn peer_start(&mut self, start: helio_format::message::Start) -> Result<(), String> {
        let source_serves = self.peer.session.peer().is_some_and(|h| h.serving);
        if !source_serves || !self.standing.is(Following::Secondary) {
            return Err(String::from("a stream was started to a node that is not the secondary"));
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
            self.meet_again_for_room();
            return Ok(());
        }
        let b = self.record.superblock();
        let kept = !self.keeper.is_short() && (start.keep || self.keeper.kept().is_none());
        let continues = b.lineage == start.lineage
            && b.consistent == start.consistent
            && !b.clean
            && !b.alone
            && (kept || b.consistent);
        let generation = start.lineage.generation;
        self.peer.leader = self.peer.session.peer().map(|source| Leader::new(source, generation));
        if let Some(follower) = self.standing.follower_mut() {
            follower.start(start, continues, &mut self.turn);
        }
        Ok(())
    }

    fn peer_ping(&mut self, ping: Ping) {
        self.peer.session.peer_pings(ping, self.turn.now());
        if let (Some(mode), None) = (ping.mode, self.standing.primary()) {
            self.turn.set_mode(mode);
        }
        self.record.keeping_mut().ages_mut().hear(ping.metadata);
        if self.standing.follower().is_some_and(Follower::is_following) {
            self.primary_is_at(ping.completed, ping.accepted);
        }
        if ping.hurry {
            self.hurry();
        }
        let flushing = self.standing.follower().is_some_and(Follower::is_flushing);
        let short = !self.standing.leads() && self.local.hot().is_short();
        let metadata = self.record.keeping_mut().ages_mut().tell();
        self.turn.send(Message::Pong { token: ping.token, flushing, short, metadata });
    }

    /// The primary requests that received items become durable at once.
    pub(crate) fn hurry(&mut self) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.hurry();
        }
    }

    fn peer_pong(&mut self, token: u64, flushing: bool, short: bool) {
        let now = self.turn.now();
        if self.peer.session.pong(token, flushing, short, now) {
            self.peer_proven();
        }
        if self.outstanding().is_none() {
            self.peer.session.progressed(now);
        }
    }

    fn parted(&mut self, parting: Parting, text: String) {
        let peer = self.turn.config().peer.clone();
        let why = match parting {
            Parting::RoleChanged | Parting::Stopping => {
                format!("{peer} closed the connection: {text}")
            }
            _ => {
                self.turn.warn(format!("{peer} closed the connection: {text}"));
                format!("{peer} refused: {text}")
            }
        };
        if parting == Parting::VolumeFailed {
            let hint =
                format!("`helio status {}` on {peer} shows what to do", self.turn.config().group);
            self.peer.session.peer_failed(text.clone(), hint);
        }
        if parting == Parting::Refused && self.peer.session.refused().is_none() {
            let hint = format!("`helio status` on {peer} and its log show what to do");
            self.peer.session.refuse("refused-by-peer", hint);
        }
        self.turn.push(Effect::Hangup { why: why.clone(), refused: parting == Parting::Refused });
        self.disconnected(parting.into(), why);
    }

    /// The time that an item on its way to the peer may take, if something sent is unacknowledged.
    pub(crate) fn outstanding(&self) -> Option<Duration> {
        self.standing.primary().and_then(Primary::outstanding)
    }

    /// Gives a silent peer up. What follows from that must come after it in the same batch: nothing else may happen.
    pub(crate) fn watch_peer(&mut self) {
        let (config, now) = (self.turn.config(), self.turn.now());
        if let Some(silent) = self.peer.session.silent(self.outstanding(), config, now) {
            let why = format!("{} made no progress for {:.1} s", config.peer, silent.as_secs_f64());
            self.turn.warn(why.clone());
            self.turn.push(Effect::Hangup { why: why.clone(), refused: false });
            self.disconnected(End::Silent, why);
        }
    }

    /// Pings when due.
    pub(crate) fn keep_alive(&mut self) {
        let primary = self.standing.primary();
        let waiting = primary.is_some_and(|p| p.queue.waiters() > 0) || self.standing.is_leaving();
        let undurable = primary.is_some_and(|p| p.cursors().completed() > p.cursors().durable());
        let hurry = waiting && undurable && self.peer.session.may_hurry();
        let state = primary.map(|_| self.state());
        if hurry || self.peer.session.is_ping_due(state, self.turn.now()) {
            self.ping(hurry, state);
        }
    }

    fn ping(&mut self, hurry: bool, state: Option<State>) {
        let (config, now) = (self.turn.config(), self.turn.now());
        let token = self.peer.session.pinged(hurry, state, config.heartbeat(), now);
        let metadata = self.record.keeping_mut().ages_mut().tell();
        let mut ping = Ping { token, hurry, state, metadata, ..Ping::default() };
        if let Some(primary) = self.standing.primary() {
            let lag = primary.lag(now, &self.local);
            ping.mode = Some(config.mode);
            ping.accepted = primary.line.head;
            ping.completed = primary.covered();
            ping.backlog_bytes = lag.bytes.0;
            ping.backlog_items = lag.writes;
            ping.backlog_age = u64::try_from(lag.oldest.as_millis()).unwrap_or(u64::MAX);
        }
        self.turn.send(Message::Ping(ping));
    }
}
