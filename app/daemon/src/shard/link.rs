// SPDX-License-Identifier: Apache-2.0
//! A group's connection to its peer: dialling, reading, writing, parting.

use crate::names::{self, Unresolved};
use crate::shard::callers::Callers;
use crate::shard::dials::Dials;
use crate::shard::guard::Guard;
use crate::shard::route::{CONNECT_PATIENCE, Dialler, Route, Step};
use crate::shard::stream::Stream;
use crate::shard::token::{Kind, token};
use helio_driver::{Address, Buffer, Driver, Op, OpError, Piece, Pool, Socket};
use helio_format::message::Message;
use helio_link::{Arrived, Figures, Incoming, LinkError, Tuning, frame};
use helio_plant::{Plant, planted};
use helio_tls::{PublicKey, TlsError};
use helio_units::{Bytes, Moment};
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes one read from a peer may bring: a few segments of a fast link at once.
const RECV_BYTES: usize = 256 << 10;
/// What is read behind a long payload: enough for the head of the next message.
const HEAD_BYTES: usize = 4 << 10;
/// The socket's figures are read sooner where so much was sent since: a queue's bound follows them.
const MEASURE_BYTES: u64 = 8 << 20;
/// A node that keeps calling with a key that is not the peer's does so more often than this.
const CALLS_WITHIN: Duration = Duration::from_secs(60);
/// Buffers of each connection's own, for what its peer sends while the other connections hold all that they share.
const OWN_BYTES: Bytes = Bytes::mib(1);
/// How often the socket's figures are read.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Where the connection stands, from the socket's side.
#[derive(Debug)]
enum Stage {
    /// The next attempt is due then; never on the side that is dialled.
    Idle {
        retry: Moment,
    },
    /// The name of the peer's host is being resolved.
    Resolving,
    Connecting {
        socket: Socket,
        began: Moment,
        until: Moment,
    },
    Up {
        stream: Stream,
    },
}

/// Why a connection cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// What was said cannot be understood.
    #[error("{0}")]
    Link(#[from] LinkError),
    /// Who says it, or whether it arrived as it was sent, is in doubt.
    #[error("{0}")]
    Tls(#[from] TlsError),
}

/// A caller on the peers' port whose key is not the peer's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrongKey {
    pub(crate) key: PublicKey,
    pub(crate) from: SocketAddr,
    pub(crate) at: Moment,
}

/// Bytes of whole frames; what the seal of keys adds is not in them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: Bytes,
    pub(crate) received: Bytes,
}

/// One group's connection.
pub(crate) struct Link {
    group: usize,
    stage: Stage,
    /// Counts connections, so that late completions of an old one are known as such.
    epoch: u32,
    route: Route,
    dialler: Dialler,
    tuning: Tuning,
    dials: Dials,
    incoming: Incoming,
    /// A receive into the buffer of a payload is under way.
    direct: bool,
    /// The last bytes that came were the end of such a payload: the head of the next message comes alone, so that little
    /// of its payload has to be copied.
    behind_payload: bool,
    /// A message that such a receive made whole, or why it could not.
    landed: Option<Result<Arrived, LinkError>>,
    /// What all connections share.
    shared: Pool,
    /// What only this one has.
    own: Pool,
    pub(crate) paused: bool,
    out: Vec<Piece>,
    out_bytes: u64,
    in_flight: u64,
    /// The kernel reports it once, so that the receive that ends behind it does not.
    send_error: Option<String>,
    /// Bytes of frames since the start, over all connections.
    pub(crate) traffic: Traffic,
    pub(crate) figures: Option<Figures>,
    measure: Moment,
    /// Bytes sent since.
    unmeasured: u64,
    /// When the latest attempt to connect began.
    dialled: Moment,
    /// From when on a live peer would connect, on the side that is dialled.
    idle: Moment,
    pub(crate) guard: Guard,
    wrong_key: Option<WrongKey>,
    pub(crate) callers: Callers,
}

impl Link {
    pub(crate) fn new(
        group: usize,
        route: Route,
        dialler: Dialler,
        (tuning, guard): (Tuning, Guard),
        shared: Pool,
    ) -> Self {
        Self {
            group,
            stage: Stage::Idle {
                retry: if dialler == Dialler::This { Moment::ZERO } else { Moment::NEVER },
            },
            epoch: 0,
            route,
            dialler,
            tuning,
            dials: Dials::default(),
            incoming: Incoming::default(),
            direct: false,
            behind_payload: false,
            landed: None,
            shared,
            own: Pool::reserve(OWN_BYTES),
            paused: false,
            out: Vec::new(),
            out_bytes: 0,
            in_flight: 0,
            send_error: None,
            traffic: Traffic::default(),
            figures: None,
            measure: Moment::NEVER,
            unmeasured: 0,
            dialled: Moment::ZERO,
            idle: Moment::ZERO,
            guard,
            wrong_key: None,
            callers: Callers::default(),
        }
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    pub(crate) fn is_current(&self, epoch: u32) -> bool {
        self.epoch == epoch
    }

    /// Whether the connection there is is still one the guard admits.
    pub(crate) fn is_admitted(&self) -> bool {
        match &self.stage {
            // A handshake under way knows the keys of when it began, so it too is begun anew.
            Stage::Up { stream } => self.guard.admits(stream),
            _ => true,
        }
    }

    /// The key the peer proved to hold; none without TLS.
    pub(crate) fn peer_key(&self) -> Option<PublicKey> {
        match &self.stage {
            Stage::Up { stream } => stream.peer_key(),
            _ => None,
        }
    }

    /// Somebody called, with a key that is not the peer's.
    pub(crate) fn called_with(&mut self, key: PublicKey, from: Option<SocketAddr>, at: Moment) {
        if matches!(self.guard, Guard::Keyed { .. }) {
            self.wrong_key = from.map(|from| WrongKey { key, from, at });
        }
    }

    /// The last such call, while there is no connection and it was not long ago.
    pub(crate) fn wrong_key(&self, now: Moment) -> Option<WrongKey> {
        self.wrong_key.filter(|call| !self.is_up() && now - call.at <= CALLS_WITHIN)
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.stage, Stage::Up { .. })
    }

    /// Whether it has a socket: it is connected, or connects.
    pub(crate) fn has_socket(&self) -> bool {
        matches!(self.stage, Stage::Up { .. } | Stage::Connecting { .. })
    }

    /// When the link has something to do by itself. Without `dials`, [`Self::dial_if_due`] is not called.
    pub(crate) fn deadline(&self, dials: bool) -> Moment {
        match &self.stage {
            Stage::Idle { .. } | Stage::Connecting { .. } if !dials => Moment::NEVER,
            Stage::Idle { retry } => *retry,
            Stage::Resolving => Moment::NEVER,
            Stage::Connecting { until, .. } => *until,
            Stage::Up { .. } => self.measure,
        }
    }

    /// Dials if it is time.
    pub(crate) fn dial_if_due(&mut self, now: Moment, driver: &mut dyn Driver) {
        let retry = match &mut self.stage {
            Stage::Idle { retry } => *retry,
            Stage::Connecting { socket, until, .. } if now >= *until => {
                // Its completion says so, and sets the next attempt.
                *until = Moment::NEVER;
                driver.cancel(socket);
                return;
            }
            _ => return,
        };
        if now < retry {
            return;
        }
        if !self.route.goes_on() {
            self.dialled = now;
        }
        match self.route.step() {
            Step::Wait => self.stage = Stage::Resolving,
            Step::Connect(address) => self.connect(address, now, driver),
        }
    }

    fn connect(&mut self, address: SocketAddr, now: Moment, driver: &mut dyn Driver) {
        let address = Address::Inet(address);
        match driver.host().stream_for(&address).and_then(|s| self.tuning.apply(&s).map(|()| s)) {
            Ok(socket) => {
                self.epoch += 1;
                let op = Op::Connect { socket: socket.clone(), address };
                driver.submit(token(Kind::LinkConnect, self.group, self.epoch), op);
                let until = now + CONNECT_PATIENCE;
                self.stage = Stage::Connecting { socket, began: self.dialled, until };
            }
            // That says nothing of the peer.
            Err(error) => {
                let _no_attempt = self.failed(&error.to_string(), now);
            }
        }
    }

    /// The engine waits for an attempt that begins at `since` or later: it begins at once. Returns when an attempt began
    /// that is known to have failed now, on the side that is dialled: a live peer would have connected since.
    pub(crate) fn check(
        &mut self,
        since: Moment,
        now: Moment,
        peer_timeout: Duration,
    ) -> Option<Moment> {
        let Stage::Idle { retry } = &mut self.stage else { return None };
        let Some(within) = self.dialler.peer_within(peer_timeout) else {
            if self.dialled < since {
                *retry = now.min(*retry);
            }
            return None;
        };
        let began = self.idle.max(since);
        (now >= began + within).then_some(began)
    }

    /// The peer waits for what this node says, since then: an attempt begins at once. On the side that is dialled it is the only one.
    pub(crate) fn seek(&mut self, since: Moment, now: Moment) {
        if self.seeks(since)
            && let Stage::Idle { retry } = &mut self.stage
        {
            *retry = now.min(*retry);
        }
    }

    /// Whether such an attempt is to begin.
    pub(crate) fn seeks(&self, since: Moment) -> bool {
        matches!(self.stage, Stage::Idle { .. })
            && self.dialled < since
            && self.dialler != Dialler::None
    }

    /// When [`Link::check`] is to be asked again.
    pub(crate) fn check_deadline(&self, since: Moment, peer_timeout: Duration) -> Moment {
        match (&self.stage, self.dialler.peer_within(peer_timeout)) {
            (Stage::Idle { .. }, Some(within)) => self.idle.max(since) + within,
            _ => Moment::NEVER,
        }
    }

    /// The peer's name was resolved, or why not: an attempt that waited for it goes on. Returns as [`Link::failed`].
    pub(crate) fn resolved(
        &mut self,
        found: Result<Vec<SocketAddr>, Unresolved>,
        now: Moment,
    ) -> Option<Moment> {
        let waits = matches!(self.stage, Stage::Resolving);
        let keyed = matches!(self.guard, Guard::Keyed { .. });
        let found = found.and_then(|found| names::to_try(found, keyed));
        match self.route.resolved(found, waits) {
            Ok(()) => {
                if waits {
                    self.stage = Stage::Idle { retry: now };
                }
                None
            }
            Err(why) => self.failed(&why, now),
        }
    }

    /// An attempt failed: try the next address, or again later, and say so once. Returns when it began, if one of the
    /// addresses was tried over the network.
    pub(crate) fn failed(&mut self, error: &str, now: Moment) -> Option<Moment> {
        let sent = match &self.stage {
            Stage::Connecting { began, .. } => Some(*began),
            _ => None,
        };
        let Some((error, began)) = self.route.failed(error, sent) else {
            self.stage = Stage::Idle { retry: now };
            return None;
        };
        if self.dials.failed(&error, now) {
            let address = self.route.peer().map(tracing::field::display);
            tracing::warn!(address, error, "the peer cannot be reached; trying again");
        }
        // On the side that is dialled, the way to the peer may be closed: a failed attempt says nothing of the peer.
        let dials = self.dialler == Dialler::This;
        let retry = if dials { now + self.dials.pause(false, true) } else { Moment::NEVER };
        self.stage = Stage::Idle { retry };
        began.filter(|_| dials)
    }

    /// Why the connection cannot be read. Returns whether that is another reason than the last one.
    pub(crate) fn is_news(&mut self, error: &str) -> bool {
        self.dials.is_news(error)
    }

    /// Attempts to connect that failed since the peer said hello.
    pub(crate) const fn dials(&self) -> &Dials {
        &self.dials
    }

    /// When the next attempt begins, on the side that connects.
    pub(crate) fn next_dial(&self) -> Option<Moment> {
        match self.stage {
            Stage::Idle { retry } => Some(retry).filter(|retry| *retry < Moment::NEVER),
            _ => None,
        }
    }

    /// The attempt succeeded.
    pub(crate) fn connected(&mut self, now: Moment, driver: &mut dyn Driver) {
        if let Stage::Connecting { socket, .. } = &self.stage {
            let mut stream = Stream::new(socket.clone(), RECV_BYTES);
            self.route.reached();
            if let Some(session) = self.guard.dial() {
                stream.secure(session);
            }
            self.establish(stream, now, driver);
        }
    }

    /// Takes over a connection whose first bytes were read elsewhere (`incoming` holds none of them).
    pub(crate) fn adopt(&mut self, mut stream: Stream, now: Moment, driver: &mut dyn Driver) {
        self.epoch += 1;
        if let Err(error) = self.tuning.apply(stream.socket()) {
            tracing::warn!(%error, "the connection's options could not be set");
        }
        stream.enlarge(RECV_BYTES);
        self.establish(stream, now, driver);
    }

    fn establish(&mut self, stream: Stream, now: Moment, driver: &mut dyn Driver) {
        self.stage = Stage::Up { stream };
        self.wrong_key = None;
        if !planted(Plant::LinkRestKept) {
            self.incoming = Incoming::default();
        }
        (self.direct, self.behind_payload, self.landed) = (false, false, None);
        self.measure = now;
        self.paused = false;
        self.receive(driver);
    }

    /// Asks for more bytes, unless reading is paused or asked for already.
    pub(crate) fn receive(&mut self, driver: &mut dyn Driver) {
        let Stage::Up { stream } = &mut self.stage else { return };
        if self.paused || !stream.is_hungry() {
            return;
        }
        let lent = if stream.is_sealed() { None } else { self.incoming.lend() };
        let op = match lent.map(|(buffer, range)| stream.receive_into(buffer, range)) {
            Some(Ok(op)) => {
                self.direct = true;
                Some(op)
            }
            Some(Err(_)) => panic!("a stream that was hungry and open is not"),
            None if self.behind_payload => stream.receive_most(HEAD_BYTES),
            None => stream.receive(),
        };
        if let Some(op) = op {
            driver.submit(token(Kind::LinkRecv, self.group, self.epoch), op);
        }
    }

    /// A send failed while a receive is under way.
    pub(crate) fn send_failed(&mut self, error: &OpError) {
        self.send_error = Some(error.to_string());
    }

    /// Why a send failed, if one did.
    pub(crate) fn take_send_error(&mut self) -> Option<String> {
        self.send_error.take()
    }

    /// Whether a receive is under way.
    pub(crate) fn is_receiving(&self) -> bool {
        matches!(&self.stage, Stage::Up { stream } if stream.is_receiving())
    }

    /// Bytes arrived; [`Link::next`] hands out what they say.
    pub(crate) fn received(&mut self, buffer: Buffer, count: usize) {
        let Stage::Up { stream } = &mut self.stage else { return };
        self.behind_payload = self.direct;
        if !std::mem::take(&mut self.direct) {
            stream.received(buffer, count);
            return;
        }
        stream.received_elsewhere();
        self.traffic.received += Bytes(count as u64);
        self.landed = self.incoming.landed(buffer, count).transpose();
    }

    /// The next whole message among the bytes that arrived.
    pub(crate) fn next(&mut self) -> Result<Option<Arrived>, ReadError> {
        let Self { stage: Stage::Up { stream }, incoming, shared, own, .. } = self else {
            return Ok(None);
        };
        if let Some(landed) = if self.paused { None } else { self.landed.take() } {
            return Ok(Some(landed?));
        }
        while !self.paused
            && !stream.unread().is_empty()
            && incoming.find_room(|length| take(shared, own, length))
        {
            let (taken, arrived) = incoming.consume(stream.unread(), shared)?;
            stream.consume(taken);
            self.traffic.received += Bytes(taken as u64);
            if arrived.is_some() {
                return Ok(arrived);
            }
        }
        stream.failure().cloned().map_or(Ok(None), |error| Err(error.into()))
    }

    /// Whether what arrived waits for a buffer.
    pub(crate) fn is_starving(&self) -> bool {
        self.incoming.lacks_room()
    }

    /// Gives what waits for a buffer one. Returns whether nothing waits any more.
    pub(crate) fn finds_room(&mut self) -> bool {
        let Self { incoming, shared, own, .. } = self;
        incoming.find_room(|length| take(shared, own, length))
    }

    /// Puts a message at the end of what will be sent.
    pub(crate) fn queue(&mut self, message: &Message, payload: Option<&helio_driver::Shared>) {
        if self.is_up() {
            let bytes = frame(message, payload, &mut self.out);
            self.out_bytes += bytes;
            self.traffic.sent += Bytes(bytes);
        }
    }

    /// Hands what is queued to the socket, one batch at a time.
    pub(crate) fn flush(&mut self, driver: &mut dyn Driver) {
        let Stage::Up { stream } = &mut self.stage else { return };
        if let Some(op) = stream.send(&mut self.out) {
            // What waits for the end of a handshake is not on its way yet.
            if self.out.is_empty() {
                self.in_flight = std::mem::take(&mut self.out_bytes);
            }
            driver.submit(token(Kind::LinkSend, self.group, self.epoch), op);
        }
    }

    /// The socket took a batch; returns its bytes.
    pub(crate) fn sent(&mut self, pieces: Vec<Piece>) -> u64 {
        if let Stage::Up { stream } = &mut self.stage {
            stream.sent(pieces, &mut self.out);
        }
        self.unmeasured += self.in_flight;
        if self.unmeasured >= MEASURE_BYTES {
            self.measure = Moment::ZERO;
        }
        std::mem::take(&mut self.in_flight)
    }

    /// Gives the connection up. What is queued (last words) is returned with the socket, to be sent if it can be: not
    /// while the socket is in the middle of a batch, since half a frame would come before them.
    /// `unsteady`: no connection lasts.
    pub(crate) fn part(
        &mut self,
        refused: bool,
        unsteady: bool,
        now: Moment,
    ) -> Option<(Socket, Option<Op>)> {
        let dials = self.dialler == Dialler::This;
        let pause =
            if dials || refused { self.dials.pause(refused, unsteady) } else { Duration::ZERO };
        let retry = if dials { now + pause } else { Moment::NEVER };
        self.idle = now + pause;
        let stage = std::mem::replace(&mut self.stage, Stage::Idle { retry });
        self.epoch += 1;
        // A payload gives its buffer back, whether something of it is missing or not.
        if !planted(Plant::LinkRestKept) {
            self.incoming = Incoming::default();
        }
        (self.direct, self.behind_payload, self.landed) = (false, false, None);
        let mut out = std::mem::take(&mut self.out);
        self.in_flight = 0;
        self.out_bytes = 0;
        self.send_error = None;
        self.figures = None;
        match stage {
            Stage::Up { mut stream } => {
                let words = stream.send(&mut out);
                Some((stream.socket().clone(), words))
            }
            Stage::Connecting { socket, .. } => Some((socket, None)),
            Stage::Idle { .. } | Stage::Resolving => None,
        }
    }

    /// The peer said hello. `unsteady`: no connection lasts.
    pub(crate) fn met(&mut self, unsteady: bool) {
        self.dials.met(unsteady);
        self.route.greeted();
    }

    /// Reads the socket's figures if it is time.
    pub(crate) fn measure_if_due(&mut self, now: Moment) -> Option<&Figures> {
        let Stage::Up { stream } = &self.stage else { return None };
        if now < self.measure {
            return None;
        }
        (self.measure, self.unmeasured) = (now + MEASURE_EVERY, 0);
        self.figures = Figures::of(stream.socket()).ok();
        self.figures.as_ref()
    }
}

/// A buffer for a payload. What a connection has of its own always suffices for one, so each group makes progress whatever others
/// hold.
fn take(shared: &Pool, own: &Pool, length: usize) -> Option<Buffer> {
    shared.take(length).or_else(|| own.take_alone(length))
}
