// SPDX-License-Identifier: Apache-2.0
//! What is known of the conversation with the peer: how far it is, what the peer told, and why it was refused.

use crate::config::Config;
use crate::event::CommandId;
use crate::peer::attempts::{Attempts, Unsteady};
use crate::peer::heartbeat::Heartbeat;
use crate::peer::pause::End;
use crate::refusal::Refusal;
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_format::message::{Hello, Message, Ping};
use helio_format::report::Report;
use helio_recovery::Completeness;
use helio_units::{Moment, Role, State};

/// Where the conversation stands.
#[derive(Clone, Debug)]
enum Link {
    Down,
    /// This node's hello waits until its role is settled. `early`: the peer's hello, which came before.
    Waiting {
        early: Option<Box<Hello>>,
    },
    /// This node's hello was sent.
    Greeting,
    Up(Box<Meeting>),
}

/// The peer's hello, and what followed it on the same connection.
#[derive(Clone, Debug)]
struct Meeting {
    hello: Hello,
    proof: Proof,
    /// What this node reported.
    reported: Option<Report>,
}

/// What shows that the peer's hello is not one that waited in a connection it gave up since.
#[derive(Clone, Copy, Debug)]
enum Proof {
    Missing,
    /// The peer answered a ping.
    Answered,
    /// This node agreed that the peer becomes primary: what came of it, the next hello tells.
    Agreed {
        answered: bool,
    },
}

/// Why one of the two refused the other.
#[derive(Clone, Debug)]
struct Refused {
    /// The row of the recovery table, or what else stood in the way.
    label: &'static str,
    /// What helps against it.
    hint: String,
}

/// What the peer told last, on this connection or one before.
#[derive(Clone, Debug, Default)]
struct Told {
    /// Its last ping, and when that came.
    ping: Option<(Ping, Moment)>,
    /// The token of the last ping before the last stream began.
    before_stream: Option<u64>,
    /// Its role in its last hello, unless it handed that over since.
    role: Option<Role>,
    report: Option<Report>,
    /// Its copy, whatever it reported to have failed.
    copy: Option<Completeness>,
    /// It closed the last connection because of its fault.
    failed: bool,
    /// When a connection ended on which this node agreed that it becomes primary; it said no hello since.
    agreed: Option<Moment>,
    /// How long before its last hello a client changed data there last, and when that hello came.
    wrote: Option<(Duration, Moment)>,
}

/// The ages of the metadata of both nodes, as they were told and known when the two introduced themselves.
#[derive(Clone, Copy, Debug, Default)]
struct Ages {
    /// How old this node's is, as its hello told.
    said: u64,
    /// How old the peer's was at most, as this node knew when the peer's hello came.
    remembered: u64,
}

/// The conversation with the peer (drawn in `session.rs`).
#[derive(Clone, Debug)]
pub(crate) struct Session {
    link: Link,
    /// When the link took its present shape, and why.
    since: Moment,
    why: String,
    /// When the last conversation ended; before the first one, when this process began.
    apart: Moment,
    /// Connections that ended since one lasted, and from when on progress shows that this one does.
    attempts: Attempts,
    lasts_at: Moment,
    /// Until another connection succeeds.
    refused: Option<Refused>,
    told: Told,
    ages: Ages,
    /// Since when this node has something to say that the peer waits for.
    news: Option<Moment>,
    heartbeat: Heartbeat,
}

impl Proof {
    const fn is_answered(self) -> bool {
        matches!(self, Self::Answered | Self::Agreed { answered: true })
    }

    const fn with(self, answered: bool) -> Self {
        match self {
            Self::Agreed { .. } => Self::Agreed { answered },
            _ if answered => Self::Answered,
            _ => Self::Missing,
        }
    }
}

impl Session {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            link: Link::Down,
            since: now,
            why: String::from("not connected yet"),
            apart: now,
            attempts: Attempts::default(),
            lasts_at: Moment::NEVER,
            refused: None,
            told: Told::default(),
            ages: Ages::default(),
            news: None,
            heartbeat: Heartbeat::new(now),
        }
    }

    fn turn(&mut self, link: Link, why: String, now: Moment) {
        (self.link, self.since, self.why) = (link, now, why);
    }

    pub(crate) fn connected(&mut self, now: Moment) {
        let why = String::from("waiting for the handshake");
        self.turn(Link::Waiting { early: None }, why, now);
        self.heartbeat.connected(now);
    }

    pub(crate) fn disconnected(
        &mut self,
        (end, why): (End, String),
        peer_timeout: Duration,
        now: Moment,
    ) {
        let met =
            self.meeting().map(|_| self.heartbeat.is_stuck_since(self.since, peer_timeout, now));
        if met.is_some() {
            self.apart = now;
        }
        // A peer that is refused says what is wrong.
        let met = met.filter(|_| self.refused.is_none());
        self.attempts.ended(met, (end, &why), now);
        if self.has_agreed() {
            self.told.agreed = Some(now);
        }
        self.turn(Link::Down, why, now);
        self.heartbeat.disconnected();
    }

    pub(crate) const fn is_down(&self) -> bool {
        matches!(self.link, Link::Down)
    }

    /// A connection stands on which no hello of the peer was judged yet.
    pub(crate) const fn is_greeting(&self) -> bool {
        matches!(self.link, Link::Waiting { .. } | Link::Greeting)
    }

    /// A connection stands, and this node's hello was not sent on it yet.
    pub(crate) const fn owes_hello(&self) -> bool {
        matches!(self.link, Link::Waiting { .. })
    }

    /// This node's hello is sent, with that age of its metadata. Returns the peer's hello if it came before.
    pub(crate) fn said_hello(&mut self, metadata: u64) -> Option<Hello> {
        self.ages.said = metadata;
        match core::mem::replace(&mut self.link, Link::Greeting) {
            Link::Waiting { early } => early.map(|hello| *hello),
            _ => None,
        }
    }

    /// The peer's hello came. Returns it, unless this node's own must be sent first.
    pub(crate) fn take_hello(&mut self, hello: Hello) -> Option<Hello> {
        if let Link::Waiting { early } = &mut self.link {
            *early = Some(Box::new(hello));
            return None;
        }
        Some(hello)
    }

    /// The peer's hello is judged. `remembered`: how old its metadata is at most, as this node knows.
    pub(crate) const fn remember_age(&mut self, remembered: u64) {
        self.ages.remembered = remembered;
    }

    /// The hello is the peer's: what it tells of its role counts, and what it reports.
    pub(crate) fn introduced(&mut self, hello: &Hello, now: Moment) {
        self.told.wrote = hello.report.last_write.map(|age| (age, now));
        self.told.failed = false;
        self.told.agreed = None;
        self.told.copy = Some(Completeness::of(hello));
        self.news = None;
        self.peer_reports(hello.report.clone());
        self.told.role = Some(if hello.serving { Role::Primary } else { Role::Secondary });
    }

    /// What this primary streamed to the peer ends, and left a copy that is consistent or not.
    pub(crate) const fn stream_left(&mut self, consistent: bool) {
        let left = if consistent { Completeness::Complete } else { Completeness::Inconsistent };
        self.told.copy = Some(left);
    }

    /// What the peer said of its copy last, or was left of it, whatever it reported to have failed.
    pub(crate) fn copy(&self) -> Completeness {
        self.told.copy.unwrap_or(Completeness::Unheard)
    }

    /// The peer waits for what this node says in its next hello.
    pub(crate) const fn has_news(&mut self, now: Moment) {
        self.news = Some(now);
    }

    /// Since when it does.
    pub(crate) const fn news(&self) -> Option<Moment> {
        self.news
    }

    /// The peer hands its primary role to this node.
    pub(crate) const fn handed_over(&mut self) {
        self.told.role = Some(Role::Secondary);
    }

    pub(crate) fn up(&mut self, hello: Hello, peer_timeout: Duration, now: Moment) {
        self.lasts_at = Attempts::lasts_at(now, peer_timeout);
        let meeting = Meeting { hello, proof: Proof::Missing, reported: None };
        self.turn(Link::Up(Box::new(meeting)), String::from("connected"), now);
    }

    /// The peer is configured as this node is: it is refused no more, and a ping is due.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.admit();
        self.heartbeat.begin(now);
    }

    /// The row by which the two go on.
    pub(crate) fn connected_as(&mut self, label: &'static str) {
        self.why = format!("connected, {label}");
    }

    pub(crate) fn refuse(&mut self, label: &'static str, hint: String) {
        self.refused = Some(Refused { label, hint });
    }

    /// The peer is refused no more.
    pub(crate) fn admit(&mut self) {
        self.refused = None;
    }

    /// The row of the table that refused the peer last, until another connection succeeds.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        self.refused.as_ref().map(|refused| refused.label)
    }

    /// What helps against that refusal.
    pub(crate) fn hint(&self) -> &str {
        self.refused.as_ref().map_or("", |refused| &refused.hint)
    }

    /// When the link took its present shape.
    pub(crate) const fn since(&self) -> Moment {
        self.since
    }

    /// Why it did.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// When the last conversation ended; before the first one, when this process began.
    pub(crate) const fn apart_since(&self) -> Moment {
        self.apart
    }

    /// The peer's hello, while the conversation stands.
    pub(crate) fn peer(&self) -> Option<&Hello> {
        self.meeting().map(|meeting| &meeting.hello)
    }

    /// The hello that came on this connection, also while it waits for this node's own to be judged.
    pub(crate) fn heard_hello(&self) -> Option<&Hello> {
        match &self.link {
            Link::Waiting { early } => early.as_deref(),
            _ => self.peer(),
        }
    }

    const fn meeting(&self) -> Option<&Meeting> {
        match &self.link {
            Link::Up(meeting) => Some(meeting),
            _ => None,
        }
    }

    const fn meeting_mut(&mut self) -> Option<&mut Meeting> {
        match &mut self.link {
            Link::Up(meeting) => Some(meeting),
            _ => None,
        }
    }

    /// The peer answered a ping on this connection: its hello is not one that waited in a connection it gave up since.
    pub(crate) fn is_proven(&self) -> bool {
        self.meeting().is_some_and(|meeting| meeting.proof.is_answered())
    }

    /// On this connection this node agreed that the peer becomes primary.
    pub(crate) fn has_agreed(&self) -> bool {
        self.meeting().is_some_and(|meeting| matches!(meeting.proof, Proof::Agreed { .. }))
    }

    /// When the connection ended on which this node agreed that the peer becomes primary, if it has not heard since what came of that.
    pub(crate) const fn agreed_at(&self) -> Option<Moment> {
        self.told.agreed
    }

    /// This node agrees that the peer becomes primary.
    pub(crate) fn agree(&mut self) {
        if let Some(Meeting { proof, .. }) = self.meeting_mut() {
            *proof = Proof::Agreed { answered: proof.is_answered() };
        }
    }

    /// What the peer answered so far proves nothing any more: the next ping does, which is due.
    pub(crate) fn prove_anew(&mut self, now: Moment) {
        let Some(Meeting { proof, .. }) = self.meeting_mut() else { return };
        *proof = proof.with(false);
        self.heartbeat.ping_anew(now);
    }

    /// A pong came. `busy`: the peer's store flushes or waits. Returns whether it is the first one that proves what the peer's
    /// hello says.
    pub(crate) fn pong(&mut self, token: u64, busy: bool, short: bool, now: Moment) -> bool {
        let answers = self.heartbeat.pong(token, busy, short, now);
        let open = self.meeting_mut().filter(|meeting| answers && !meeting.proof.is_answered());
        open.map(|meeting| meeting.proof = meeting.proof.with(true)).is_some()
    }

    /// What this node reported on this connection.
    pub(crate) fn reported(&self) -> Option<&Report> {
        self.meeting()?.reported.as_ref()
    }

    /// This node reports.
    pub(crate) fn reports(&mut self, report: Report, turn: &mut Turn) {
        if let Some(meeting) = self.meeting_mut() {
            meeting.reported = Some(report.clone());
        }
        turn.send(Message::Report(report));
    }

    /// The peer reported what follows from here on.
    pub(crate) fn peer_reports(&mut self, report: Report) {
        self.told.report = Some(report);
    }

    /// The peer closed the connection because a volume of it failed. That counts unless it reported a fault itself.
    pub(crate) fn peer_failed(&mut self, fault: String, hint: String) {
        self.told.failed = true;
        let report = self.told.report.get_or_insert_default();
        if report.fault.is_empty() {
            (report.fault, report.hint) = (fault, hint);
        }
    }

    /// The peer closed the last connection because a volume of it failed.
    pub(crate) const fn has_failed(&self) -> bool {
        self.told.failed
    }

    pub(crate) const fn peer_pings(&mut self, ping: Ping, now: Moment) {
        self.told.ping = Some((ping, now));
    }

    /// The peer begins a stream to this node.
    pub(crate) fn stream_begins(&mut self) {
        self.told.before_stream = self.told.ping.map(|(ping, _)| ping.token);
    }

    /// Whether the last ping is from before the last stream: it does not count what that stream is to copy.
    pub(crate) fn told_before_stream(&self) -> bool {
        self.told.ping.is_some_and(|(ping, _)| self.told.before_stream == Some(ping.token))
    }

    /// The peer's last ping, and when that came.
    pub(crate) const fn told(&self) -> Option<(Ping, Moment)> {
        self.told.ping
    }

    /// The role of the peer in its last hello, unless it handed that over since.
    pub(crate) const fn role(&self) -> Option<Role> {
        self.told.role
    }

    /// What the peer reported of itself last, on this connection or the one before.
    pub(crate) const fn report(&self) -> Option<&Report> {
        self.told.report.as_ref()
    }

    /// How long before the peer's last hello a client changed data there last, and when that hello came.
    pub(crate) const fn peer_wrote(&self) -> Option<(Duration, Moment)> {
        self.told.wrote
    }

    /// How old this node's metadata is, as it told when it introduced itself.
    pub(crate) const fn said(&self) -> u64 {
        self.ages.said
    }

    /// How old the peer's metadata was at most, as this node knew when the peer introduced itself.
    pub(crate) const fn remembered(&self) -> u64 {
        self.ages.remembered
    }

    pub(crate) const fn heard(&mut self, now: Moment) {
        self.heartbeat.heard(now);
    }

    /// When the peer's last message came.
    pub(crate) const fn last_heard(&self) -> Option<Moment> {
        self.heartbeat.last_heard()
    }

    /// When this connection, or the last one, began.
    pub(crate) const fn began(&self) -> Moment {
        self.heartbeat.began()
    }

    /// The last round trip, and the least of this connection.
    pub(crate) const fn round_trips(&self) -> (Option<Duration>, Option<Duration>) {
        self.heartbeat.round_trips()
    }

    /// Something goes on. Returns whether a connection lasts where none did.
    #[inline]
    pub(crate) fn progressed(&mut self, now: Moment) -> bool {
        self.heartbeat.progressed(now);
        if self.attempts.count() == 0 || self.meeting().is_none() || now < self.lasts_at {
            return false;
        }
        core::mem::take(&mut self.attempts).unsteady().is_some()
    }

    /// Connections that ended since one lasted.
    pub(crate) const fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// What is wrong, where connections begin and none lasts. A peer that is refused says what is wrong.
    pub(crate) const fn unsteady(&self) -> Option<Unsteady> {
        if self.refused.is_some() { None } else { self.attempts.unsteady() }
    }

    /// A ping is due no later than `at`.
    pub(crate) fn ping_by(&mut self, at: Moment) {
        self.heartbeat.ping_by(at);
    }

    /// A ping may ask the peer to flush at once.
    pub(crate) const fn may_hurry(&self) -> bool {
        self.meeting().is_some() && self.heartbeat.may_hurry()
    }

    /// A ping is due, of a primary in that state.
    pub(crate) fn is_ping_due(&self, state: Option<State>, now: Moment) -> bool {
        self.meeting().is_some() && self.heartbeat.is_due(state, now)
    }

    /// A ping is sent. Returns its token.
    pub(crate) fn pinged(
        &mut self,
        hurry: bool,
        state: Option<State>,
        every: Duration,
        now: Moment,
    ) -> u64 {
        self.heartbeat.pinged(hurry, state, every, now)
    }

    /// How long the peer has made no progress, if it is to be given up. `outstanding`: see [`Heartbeat::quiet_since`].
    pub(crate) fn silent(
        &self,
        outstanding: Option<Duration>,
        config: &Config,
        now: Moment,
    ) -> Option<Duration> {
        let lost = !self.is_down() && now >= self.heartbeat.lost_at(outstanding, config);
        lost.then(|| now - self.heartbeat.quiet_since(outstanding))
    }

    /// When the session has something to do. `outstanding`: see [`Heartbeat::quiet_since`].
    pub(crate) fn deadline(&self, outstanding: Option<Duration>, config: &Config) -> Moment {
        let lost_at = self.heartbeat.lost_at(outstanding, config);
        match self.link {
            Link::Down => Moment::NEVER,
            Link::Waiting { .. } | Link::Greeting => lost_at,
            Link::Up(_) => self.heartbeat.next_ping().min(lost_at),
        }
    }

    /// Refuses what the peer requested. Its operator gets the text alone: hints are for this node.
    pub(crate) fn decline(&self, text: String, turn: &mut Turn) {
        if self.peer().is_some() {
            turn.send(Message::PromoteReply { granted: false, text });
        }
    }

    /// Tells whoever asked for a change of roles how it ended: an operator here, or the peer.
    pub(crate) fn finish(
        &self,
        command: Option<CommandId>,
        result: Result<String, Refusal>,
        turn: &mut Turn,
    ) {
        match (command, result) {
            (Some(id), result) => turn.done(id, result),
            (None, Err(refusal)) => self.decline(refusal.text, turn),
            (None, Ok(_)) => {}
        }
    }
}
