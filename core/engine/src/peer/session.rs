// SPDX-License-Identifier: Apache-2.0
//! The conversation with the peer: greeting, keeping alive, noticing its loss.
//!
//! ```text
//!   Down ──connected──> Greeting ──hello, table allows──> Up
//!    ^                     │ table refuses                │
//!    └──── hung up ────────┴───────── lost, parted ───────┘
//! ```
//! A peer is lost when none of its cursors moved for T while something sent is unacknowledged; while it says that
//! it is flushing, for the flush limit instead. A long item on its way adds the time it may take. With nothing outstanding, hearing nothing for T is loss (rule 8).

use crate::effect::Effect;
use crate::engine::Engine;
use crate::follow::follower::Follower;
use crate::peer::handshake::Leader;
use crate::role::pause::End;
use crate::role::{Following, Stage};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;
use helio_format::copying::Copying;
use helio_format::message::{COUNTED_BELOW, Hello, Message, Parting, Ping};
use helio_format::report::Report;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Generation, Moment, Rate, Role, Sequence};

/// A link slower than this may lose its peer over one long write; a short one always gets through in time.
const SLOWEST_LINK: Rate = Rate::mbit(1);

/// A follower short of hot extents hears this often how far the primary is.
const TELLS_SHORT_EVERY: Duration = Duration::from_millis(5);

/// Where the conversation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Down,
    Greeting { said: bool },
    Up(Box<Hello>),
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) link: Link,
    /// When the link took its present shape, and why.
    pub(crate) since: Moment,
    pub(crate) why: String,
    /// The row of the table that refused the peer last, until another connection succeeds.
    pub(crate) refused: Option<&'static str>,
    /// What helps against that refusal.
    pub(crate) hint: String,
    /// When its last message came: nothing else shows that it is there.
    pub(crate) last_heard: Option<Moment>,
    /// When this connection, or the last one, began.
    pub(crate) began: Moment,
    /// The peer's hello, which came before ours could be said.
    pub(crate) early: Option<Hello>,
    /// How old its metadata is, as this node told when it introduced itself.
    pub(crate) said: u64,
    /// How old the peer's metadata was at most, as this node knew when the peer introduced itself.
    pub(crate) remembered: u64,
    /// What the peer's last ping told.
    pub(crate) told: Option<Ping>,
    /// When that came.
    pub(crate) told_at: Moment,
    /// The role of the peer in its last hello.
    pub(crate) role: Option<Role>,
    /// What the peer reported of itself last, on this connection or the one before.
    pub(crate) report: Option<Report>,
    /// How long before a report of the peer a client changed data there last, and when that report came.
    pub(crate) peer_wrote: Option<(Duration, Moment)>,
    /// What this node reported on this connection.
    pub(crate) reported: Option<Report>,
    pub(crate) round_trip: Option<Duration>,
    /// The least of this connection.
    pub(crate) round_trip_least: Option<Duration>,
    pub(crate) progress_at: Moment,
    peer_flushing: bool,
    pub(crate) next_ping: Moment,
    ping_sent: Option<(u64, Moment)>,
    /// The peer answered a ping on this connection: its hello is not one that waited in a connection it gave up since.
    pub(crate) proven: bool,
    /// On this connection this node agreed that the peer becomes primary: what came of it, the next hello tells.
    pub(crate) agreed: bool,
    pings: u64,
    pub(crate) hurry_sent: bool,
}

impl Session {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            link: Link::Down,
            since: now,
            why: String::from("not connected yet"),
            refused: None,
            hint: String::new(),
            last_heard: None,
            began: now,
            early: None,
            said: 0,
            remembered: 0,
            told: None,
            told_at: now,
            role: None,
            report: None,
            peer_wrote: None,
            reported: None,
            round_trip: None,
            round_trip_least: None,
            progress_at: now,
            peer_flushing: false,
            next_ping: Moment::NEVER,
            ping_sent: None,
            proven: false,
            agreed: false,
            pings: 0,
            hurry_sent: false,
        }
    }

    pub(crate) fn turn(&mut self, link: Link, why: String, now: Moment) {
        self.link = link;
        self.early = None;
        self.proven = false;
        self.agreed = false;
        self.reported = None;
        self.since = now;
        self.why = why;
    }

    /// The peer reported what follows from here on.
    pub(crate) fn peer_reports(&mut self, report: Report, now: Moment) {
        self.peer_wrote = report.last_write.map(|age| (age, now)).or(self.peer_wrote);
        self.report = Some(report);
    }

    /// What the peer answered so far proves nothing any more: the next ping does, which is due.
    pub(crate) fn prove_anew(&mut self, now: Moment) {
        self.proven = false;
        self.ping_sent = None;
        self.next_ping = now;
    }

    /// The peer's hello, while the conversation stands.
    pub(crate) fn peer(&self) -> Option<&Hello> {
        match &self.link {
            Link::Up(hello) => Some(hello),
            _ => None,
        }
    }
}

impl Engine {
    pub(crate) fn connected(&mut self) {
        let now = self.shared.now;
        self.session.turn(
            Link::Greeting { said: false },
            "waiting for the handshake".to_string(),
            now,
        );
        self.session.round_trip_least = None;
        self.session.began = now;
        if planted(Plant::ConnectedIsHeard) {
            self.session.last_heard = Some(now);
        }
        self.session.progress_at = now;
        self.greet();
    }

    /// Whether a connection stands on which no hello of the peer was judged yet.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        matches!(self.session.link, Link::Greeting { .. })
    }

    /// Says hello as soon as the role is settled.
    pub(crate) fn greet(&mut self) {
        if self.session.link == (Link::Greeting { said: false }) && self.standing.is_settled() {
            self.session.link = Link::Greeting { said: true };
            let hello = self.hello();
            self.session.said = hello.metadata;
            self.shared.send(Message::Hello(hello));
            if let Some(early) = self.session.early.take() {
                self.peer_hello(early);
            }
        }
    }

    /// What this node tells of itself now.
    pub(crate) fn hello(&self) -> Hello {
        let b = &self.superblock;
        let config = &self.shared.config;
        let streaming = self.standing.streaming();
        let (clean, head, received, durable) = match (self.standing.primary(), streaming) {
            (Some(p), _) => (true, p.line.head, Sequence::ZERO, Sequence::ZERO),
            (_, Some(f)) => (true, f.received, f.received, f.durable),
            // A primary that left something undelivered or marked is not known to hold what its peer holds.
            _ if b.clean && b.wrote && !b.equal => (true, b.head, Sequence::ZERO, Sequence::ZERO),
            _ if b.clean => (true, b.head, Sequence::ZERO, b.head),
            _ => (false, b.head, Sequence::ZERO, Sequence::ZERO),
        };
        // What the record says is not about another disk.
        let foreign = self.members.are_foreign();
        let of_this = |at: Sequence| if foreign { Sequence::ZERO } else { at };
        Hello {
            group: config.group.clone(),
            node: config.node.clone(),
            incarnation: self.incarnation,
            role: b.role,
            serving: self.standing.serves(),
            clean,
            consistent: self.is_consistent() && !self.keeping.disowned,
            wrote: b.wrote,
            alone: b.alone,
            // While a disk is shipped the marks are those against it, and tell nothing of any other copy.
            trusted: !b.marks_void && !foreign && b.seeding == 0,
            // Of one that does not lead a generation begun from its image now would have to be so, too (`shape_promoted`).
            sure: b.sure && (self.standing.leads() || streaming.is_some()),
            doubts: self.doubts_peer(),
            discarded: b.discarded,
            suspect: self.shared.suspect.any(),
            lineage: b.lineage,
            head,
            received: of_this(received),
            durable: of_this(durable),
            granularity: config.granularity.0 as u32,
            metadata: self.keeping.age(),
            remembers: self.keeping.heard,
            sizes: config.volumes.iter().map(|v| v.0).collect(),
            blocks: self.shared.blocks.told(),
            report: self.report(self.state()),
        }
    }

    /// What this node is, as old as it told on this connection, and with what it remembered of the peer then: of the peer's
    /// age that is to be compared with, its hello tells alone, and pings have told of later ones since.
    pub(crate) fn hello_as_met(&self) -> Hello {
        let metadata = self.session.said;
        // Less, where its count began anew since.
        let remembers = self.session.remembered.min(self.keeping.heard);
        Hello { metadata, remembers, ..self.hello() }
    }

    pub(crate) fn disconnected(&mut self, end: End, why: String) {
        if self.session.link == Link::Down {
            return;
        }
        let now = self.shared.now;
        let proof = self.proof_of(end);
        self.session.turn(Link::Down, why, now);
        self.session.next_ping = Moment::NEVER;
        self.session.ping_sent = None;
        self.session.hurry_sent = false;
        self.session.peer_flushing = false;
        self.awaited = None;
        self.peer_is_not_told();
        if let Some(follower) = self.standing.follower_mut() {
            follower.disconnected(&mut self.shared);
        }
        self.teller.forget();
        self.peer_reads.forget();
        if let Some(primary) = self.standing.primary_mut() {
            primary.stream_broken(&mut self.shared);
        }
        self.connection_proved(proof);
        self.seed_unheard();
        self.asking_failed("the connection was lost before the peer responded");
        self.switch_unheard("the connection was lost before the primary responded");
    }

    /// Ends the conversation from this side.
    pub(crate) fn hang_up(&mut self, parting: Parting, why: String) {
        if self.session.link == Link::Down {
            return;
        }
        if parting == Parting::VolumeFailed {
            // The peer shows the fault, and what helps, as long as this connection is its last one.
            self.report_to_peer(self.state());
        }
        let refused = parting == Parting::Refused;
        self.shared.send(Message::Goodbye { parting, text: why.clone() });
        self.shared.out.push(Effect::Hangup { why: why.clone(), refused });
        self.disconnected(parting.into(), why);
    }

    pub(crate) fn message(&mut self, message: Message) {
        let now = self.shared.now;
        self.session.last_heard = Some(now);
        let up = matches!(self.session.link, Link::Up(_));
        let result = match message {
            Message::Hello(hello) if self.session.link == (Link::Greeting { said: true }) => {
                self.peer_hello(hello);
                Ok(())
            }
            Message::Hello(hello) if self.session.link == (Link::Greeting { said: false }) => {
                self.session.early = Some(hello);
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
                self.hear_of(metadata);
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
            Message::Report(report) if up => self.peer_reports(report),
            Message::PromoteReply { granted, text } if up => {
                self.promotion_answered(granted, text);
                Ok(())
            }
            other => {
                self.release_stray(&other);
                // What was on its way when the role changed is no offence.
                if matches!(self.session.link, Link::Down) {
                    Ok(())
                } else {
                    Err(out_of_turn(&other))
                }
            }
        };
        if let Err(offence) = result {
            let peer = &self.shared.config.peer;
            let why = format!("{peer} broke the protocol: {offence}");
            self.shared.warn(why.clone());
            self.hang_up(Parting::Protocol, why);
        }
    }

    fn release_stray(&mut self, message: &Message) {
        if let Some(payload) = message.payload() {
            self.shared.release(payload.id);
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
        let result = follower.receive(item, &mut self.shared);
        if result.is_err() {
            self.release_stray(&Message::Item(item));
        }
        result
    }

    fn peer_ack(&mut self, ack: helio_format::message::Ack) -> Result<(), String> {
        let incarnation = self.session.peer().map(|h| h.incarnation);
        // One that had no history has a record by now: its metadata changed at least once since it sent its hello.
        let began = self.session.peer().filter(|h| h.lineage.generation == Generation::NONE);
        let recorded = began.map(|h| h.metadata + 1);
        let Some(primary) = self.standing.primary_mut() else {
            // What the one that was asked to take over says of the stream that just ended.
            if matches!(self.standing.stage(), Stage::Following(Following::Handing { .. })) {
                return Ok(());
            }
            return Err(String::from("an acknowledgement arrived at a node that sends nothing"));
        };
        if primary.flow.is_some() {
            primary.peer_incarnation = incarnation;
            self.keeping.heard = self.keeping.heard.max(recorded.unwrap_or_default());
        }
        if primary.acknowledged(ack, &mut self.shared)? {
            self.session.progress_at = self.shared.now;
        }
        Ok(())
    }

    fn peer_start(&mut self, start: helio_format::message::Start) -> Result<(), String> {
        let source_serves = self.session.peer().is_some_and(|h| h.serving);
        if !source_serves || !self.standing.is(Following::Secondary) {
            return Err(String::from("a stream was started to a node that is not the secondary"));
        }
        // Positions begin at one, and every position of a line must fit into a record.
        if start.from == Sequence::ZERO || start.from.0 >= COUNTED_BELOW {
            return Err(alloc::format!("a stream was begun at item {}", start.from));
        }
        if self.members.are_foreign() && !start.whole {
            return Err(String::from(
                "a stream was begun as if this node's disk were the one it was",
            ));
        }
        if self.standing.follower().is_some_and(|f| f.missed_before(&start)) {
            self.meet_again_for_room();
            return Ok(());
        }
        let b = &self.superblock;
        let kept =
            !self.shared.keeper.is_short() && (start.keep || self.shared.keeper.kept().is_none());
        let continues = b.lineage == start.lineage
            && b.consistent == start.consistent
            && !b.clean
            && !b.alone
            && (kept || b.consistent);
        let generation = start.lineage.generation;
        let incarnation = self.session.peer().map(|source| source.incarnation);
        self.leader = incarnation.map(|incarnation| Leader { incarnation, generation });
        if let Some(follower) = self.standing.follower_mut() {
            follower.start(start, continues, &mut self.shared);
        }
        Ok(())
    }

    fn peer_ping(&mut self, ping: Ping) {
        self.session.told = Some(ping);
        self.session.told_at = self.shared.now;
        if let (Some(mode), None) = (ping.mode, self.standing.primary()) {
            self.shared.config.mode = mode;
        }
        self.hear_of(ping.metadata);
        if self.standing.follower().is_some_and(Follower::is_following) {
            self.primary_is_at(ping.completed, ping.accepted);
        }
        if ping.hurry {
            self.hurry();
        }
        let flushing = self.standing.follower().is_some_and(Follower::is_flushing);
        let short = !self.standing.leads() && self.shared.cover.is_short();
        self.keeping.found = None;
        let metadata = self.keeping.sequence;
        self.shared.send(Message::Pong { token: ping.token, flushing, short, metadata });
    }

    /// Somebody waits for what was received to be durable.
    pub(crate) fn hurry(&mut self) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.hurry();
        }
    }

    fn peer_pong(&mut self, token: u64, flushing: bool, short: bool) {
        let now = self.shared.now;
        if short {
            self.session.next_ping = self.session.next_ping.min(now + TELLS_SHORT_EVERY);
        }
        self.session.peer_flushing = flushing;
        self.session.hurry_sent = false;
        if let Some((expected, at)) = self.session.ping_sent
            && expected == token
        {
            self.session.ping_sent = None;
            let took = now - at;
            self.session.round_trip = Some(took);
            let least = self.session.round_trip_least.map_or(took, |least| least.min(took));
            self.session.round_trip_least = Some(least);
            if !core::mem::replace(&mut self.session.proven, true) {
                self.peer_proven();
            }
        }
        if !self.has_outstanding() {
            self.session.progress_at = now;
        }
    }

    fn parted(&mut self, parting: Parting, text: String) {
        let peer = self.shared.config.peer.clone();
        let why = match parting {
            Parting::RoleChanged | Parting::Stopping => {
                format!("{peer} closed the connection: {text}")
            }
            _ => {
                self.shared.warn(format!("{peer} closed the connection: {text}"));
                format!("{peer} refused: {text}")
            }
        };
        if parting == Parting::VolumeFailed {
            let hint =
                format!("`helio status {}` on {peer} shows what to do", self.shared.config.group);
            let report = self.session.report.get_or_insert_default();
            if report.fault.is_empty() {
                (report.fault, report.hint) = (text.clone(), hint);
            }
        }
        if parting == Parting::Refused && self.session.refused.is_none() {
            self.session.refused = Some("refused-by-peer");
            self.session.hint = format!("`helio status` on {peer} and its log show what to do");
        }
        self.shared
            .out
            .push(Effect::Hangup { why: why.clone(), refused: parting == Parting::Refused });
        self.disconnected(parting.into(), why);
    }

    fn has_outstanding(&self) -> bool {
        self.standing
            .primary()
            .is_some_and(|p| p.flow.is_some() && p.cursors.sent > p.cursors.durable)
    }

    /// Gives a silent peer up. What follows from that must come after it in the same batch: nothing else may happen.
    pub(crate) fn watch_peer(&mut self) {
        let now = self.shared.now;
        if !matches!(self.session.link, Link::Down) && now >= self.lost_at() {
            let peer = &self.shared.config.peer;
            let silent = now - self.quiet_since();
            let why = format!("{peer} made no progress for {:.1} s", silent.as_secs_f64());
            self.shared.warn(why.clone());
            self.shared.out.push(Effect::Hangup { why: why.clone(), refused: false });
            self.disconnected(End::Silent, why);
        }
    }

    /// Pings when due.
    pub(crate) fn keep_alive(&mut self) {
        let now = self.shared.now;
        let waiting = self.standing.primary().is_some_and(|p| p.queue.waiters() > 0)
            || self.standing.is_leaving();
        let undurable =
            self.standing.primary().is_some_and(|p| p.cursors.completed > p.cursors.durable);
        let hurry = waiting && undurable && !self.session.hurry_sent;
        let changed = self.standing.leads() && self.told_state != Some(self.state());
        let up = matches!(self.session.link, Link::Up(_));
        if up && (now >= self.session.next_ping || hurry || changed) {
            self.ping(hurry);
        }
    }

    fn ping(&mut self, hurry: bool) {
        let now = self.shared.now;
        self.session.pings += 1;
        let token = self.session.pings;
        self.session.ping_sent.get_or_insert((token, now));
        self.session.next_ping = now + self.shared.config.heartbeat();
        self.session.hurry_sent |= hurry;
        let state = self.standing.primary().map(|_| self.state());
        self.told_state = state;
        let mode = self.standing.primary().map(|_| self.shared.config.mode);
        self.keeping.found = None;
        let metadata = self.keeping.sequence;
        let mut ping = Ping { token, hurry, state, mode, metadata, ..Ping::default() };
        if let Some(primary) = self.standing.primary() {
            let lag = primary.lag(now, &self.shared);
            ping.accepted = primary.line.head;
            ping.completed = primary.covered();
            ping.backlog_bytes = lag.bytes.0;
            ping.backlog_items = lag.writes;
            ping.backlog_age = u64::try_from(lag.oldest.as_millis()).unwrap_or(u64::MAX);
        }
        self.shared.send(Message::Ping(ping));
    }

    fn quiet_since(&self) -> Moment {
        // A connection is given its time, whatever was silent before it.
        let began = self.session.began;
        let heard = self.session.last_heard.map_or(began, |heard| heard.max(began));
        if self.has_outstanding() { self.session.progress_at } else { heard }
    }

    fn lost_at(&self) -> Moment {
        let config = &self.shared.config;
        let patience = if self.has_outstanding() && self.session.peer_flushing {
            config.flush_limit.max(config.peer_timeout)
        } else {
            config.peer_timeout
        };
        self.quiet_since() + patience + self.arrival_time()
    }

    /// A cursor moves only when an item has arrived whole: so the next one that has not gets its time on the slowest
    /// link. That the socket takes bytes proves nothing: a hung peer's kernel takes them too.
    fn arrival_time(&self) -> Duration {
        let Some(p) = self.standing.primary().filter(|p| p.flow.is_some()) else {
            return Duration::ZERO;
        };
        let next =
            p.line.get(p.cursors.received.next()).filter(|e| e.item.sequence <= p.cursors.sent);
        let bytes =
            next.and_then(|e| e.item.payload).map_or(0, |payload| u64::from(payload.length));
        SLOWEST_LINK.time_for(Bytes(bytes))
    }

    pub(crate) fn session_deadline(&self) -> Moment {
        match self.session.link {
            Link::Down => Moment::NEVER,
            Link::Greeting { .. } => self.lost_at(),
            Link::Up(_) => self.session.next_ping.min(self.lost_at()),
        }
    }
}

pub(crate) fn out_of_turn(message: &Message) -> String {
    format!("an unexpected message of kind {}", message.code())
}
