// SPDX-License-Identifier: Apache-2.0
//! One connection: its stream, its session, what it has under way.

use super::room::{TAKEN_A_SECOND, TAKING_PATIENCE};
use crate::shard::handshake::Handshake;
use crate::shard::requests::{Load, Place};
use crate::shard::stream::Stream;
use helio_driver::{Accepted, Buffer, Computation, Op, Piece, Pool, process_of};
use helio_nbd::{Request, Session, SessionOptions, TlsPolicy};
use helio_tls::NbdTls;
use helio_units::Moment;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Bytes one connection may have under way: two of the longest writes, so that the next one can arrive meanwhile.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes one receive from a client may bring, and from one that has not chosen an export: there may be many of these.
const RECV_BYTES: usize = 256 << 10;
const GUEST_RECV_BYTES: usize = 16 << 10;
/// A payload of which at least that much is still to come is received where it will be written from.
const DIRECT_BYTES: u64 = 16 << 10;
/// Pieces of answers one batch may carry before the socket is asked to take them.
const OUT_PIECES_MAX: usize = 512;

/// A write whose payload is arriving.
#[derive(Debug)]
pub(super) struct Arriving {
    pub(super) request: Request,
    pub(super) buffer: Option<Buffer>,
    pub(super) filled: usize,
    /// The driver has the buffer, to receive straight into it.
    pub(super) direct: bool,
}

/// One connection.
pub(super) struct Client {
    pub(super) epoch: u32,
    /// Its TCP address, if it is known.
    pub(super) from: Option<SocketAddr>,
    /// Whether it came over TCP, not the Unix socket.
    pub(super) tcp: bool,
    /// The process that made the connection over the Unix socket, if that can be seen.
    pub(super) process: Option<u32>,
    pub(super) since: Moment,
    pub(super) stream: Stream,
    pub(super) session: Session,
    pub(super) place: Option<Place>,
    pub(super) arriving: Option<Arriving>,
    pub(super) out: Vec<Piece>,
    pub(super) load: Load,
    /// A read that waits for room.
    pub(super) postponed: Option<Request>,
    /// Bytes the socket is taking.
    taking: u64,
    /// Deadline for taking them, while a read of another client waits for memory.
    takes_until: Option<Moment>,
    /// What the shard's total counts for it.
    pub(super) counted: u64,
    /// It goes once everything under way is answered and sent.
    pub(super) leaving: bool,
    /// It must have chosen an export by then; once it leaves, have taken its last answers.
    pub(super) until: Moment,
    /// The server's side of TLS, where it is offered.
    tls: Option<NbdTls>,
    /// The state of the TLS handshake.
    pub(super) handshake: Handshake,
    /// Whether anything came from it.
    pub(super) spoke: bool,
    /// TLS was told that nothing more comes.
    finished: bool,
}

impl Client {
    pub(super) fn new(
        epoch: u32,
        accepted: Accepted,
        tcp: bool,
        (tls, policy): (Option<NbdTls>, TlsPolicy),
        (since, until): (Moment, Moment),
    ) -> Self {
        let session = Session::with(SessionOptions { tls: policy });
        let mut greeting = Vec::new();
        session.greeting(&mut greeting);
        Self {
            epoch,
            from: accepted.peer,
            tcp,
            process: if tcp { None } else { process_of(&accepted.socket) },
            since,
            stream: Stream::new(accepted.socket, GUEST_RECV_BYTES),
            session,
            place: None,
            arriving: None,
            out: vec![Piece::Bytes(greeting)],
            load: Load::default(),
            postponed: None,
            taking: 0,
            takes_until: None,
            counted: 0,
            leaving: false,
            until,
            tls,
            handshake: Handshake::default(),
            spoke: false,
            finished: false,
        }
    }

    /// The host that it came from: of TCP and known, of TCP, or this one.
    pub(super) fn host(&self) -> (bool, Option<IpAddr>) {
        (self.tcp, self.from.map(|from| from.ip()))
    }

    /// Whether this process made the connection, for a device of the kernel.
    pub(super) fn is_own(&self) -> bool {
        self.process == Some(std::process::id())
    }

    /// Who it is.
    pub(super) fn who(&self) -> String {
        match (self.from, self.process) {
            (Some(from), _) => from.to_string(),
            (None, Some(process)) => format!("process {process}"),
            (None, None) if self.tcp => "a TCP connection without an address".to_owned(),
            (None, None) => "a process outside the daemon's namespace".to_owned(),
        }
    }

    /// Whether it must wait before anything more of it is looked at. Where memory is `short`, it must as long as
    /// anything of it is held, so that each still gets on by one request at a time.
    pub(super) fn is_full(&self, short: bool) -> bool {
        let held = self.held();
        self.load.is_full()
            || held >= BYTES_MAX
            || short && held > 0
            || self.out.len() > OUT_PIECES_MAX
            || !self.handshake.is_settled()
    }

    /// Finds the payload that is arriving a buffer, where it has none yet.
    pub(super) fn find_room(&mut self, pool: &Pool) -> bool {
        let Some(arriving) = &mut self.arriving else { return true };
        if arriving.buffer.is_none() && !arriving.direct {
            arriving.buffer = pool.take(arriving.request.extent.length as usize);
        }
        arriving.buffer.is_some() || arriving.direct
    }

    /// Bytes held for it: of requests under way, and of answers until its socket has taken them.
    pub(super) fn held(&self) -> u64 {
        self.load.bytes() + self.taking + length(&self.out)
    }

    /// It chose an export.
    pub(super) const fn enter(&mut self, place: Place) {
        self.place = Some(place);
        self.stream.enlarge(RECV_BYTES);
    }

    /// The client asked for TLS.
    pub(super) fn start_tls(&mut self) {
        let session = self.tls.as_ref().map(NbdTls::accept);
        self.handshake = session.map_or(Handshake::Settled, Handshake::Due);
    }

    /// Goes on with TLS that was asked for, once everything said so far is with the socket.
    pub(super) fn secure_if_due(&mut self) {
        if self.handshake.go_on(&mut self.stream, &mut self.out) {
            self.session.secured();
        }
    }

    /// Whether bytes of its handshake wait to be worked on.
    pub(super) fn wants_turn(&self) -> bool {
        !self.leaving && self.handshake.wants_turn(&self.stream)
    }

    /// The next piece of work of its handshake.
    pub(super) fn take_turn(&mut self) -> Option<Computation> {
        if self.leaving { None } else { self.handshake.begin(&self.stream) }
    }

    /// That work ended. Returns false if it panicked.
    pub(super) fn turn_taken(&mut self) -> bool {
        self.handshake.done(&mut self.stream)
    }

    /// Sends what is due; at the end, that nothing more comes.
    pub(super) fn send(&mut self) -> Option<Op> {
        let done = self.leaving && self.load.is_idle() && self.out.iter().all(Piece::is_empty);
        if done && !std::mem::replace(&mut self.finished, true) {
            self.stream.finish();
        }
        let op = self.stream.send(&mut self.out);
        if let Some(Op::Send { pieces, .. }) = &op {
            self.taking = length(pieces);
        }
        op
    }

    /// The deadline for taking the replies that its socket was given: there is one while `another_waits` for memory.
    pub(super) fn takes_until(&mut self, another_waits: bool, now: Moment) -> Moment {
        if !another_waits || self.taking == 0 || self.leaving {
            self.takes_until = None;
            return Moment::NEVER;
        }
        let patience = TAKING_PATIENCE + Duration::from_secs(self.taking / TAKEN_A_SECOND);
        *self.takes_until.get_or_insert(now + patience)
    }

    /// The socket took a batch.
    pub(super) fn sent(&mut self, pieces: Vec<Piece>) {
        self.taking = 0;
        self.takes_until = None;
        self.stream.sent(pieces, &mut self.out);
    }

    /// Asks for what comes next: the rest of a long payload goes straight to where it will be written from.
    pub(super) fn receive(&mut self) -> Option<Op> {
        // What arrives from now on is sealed, and must be opened by a session that is not here yet.
        if !self.handshake.listens() {
            return None;
        }
        let left = self.session.payload_left().0;
        if let Some(arriving) = &mut self.arriving
            && left >= DIRECT_BYTES
            && !self.stream.is_sealed()
        {
            let buffer = arriving.buffer.take()?;
            let range = arriving.filled..arriving.filled + left as usize;
            return match self.stream.receive_into(buffer, range) {
                Ok(op) => {
                    arriving.direct = true;
                    Some(op)
                }
                Err(buffer) => {
                    arriving.buffer = Some(buffer);
                    None
                }
            };
        }
        self.stream.receive()
    }
}

fn length(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// The plain bytes at the end of a list of pieces.
pub(super) fn plain(out: &mut Vec<Piece>) -> &mut Vec<u8> {
    if !matches!(out.last(), Some(Piece::Bytes(_))) {
        out.push(Piece::Bytes(Vec::with_capacity(256)));
    }
    match out.last_mut() {
        Some(Piece::Bytes(bytes)) => bytes,
        _ => unreachable!("a piece of bytes was just put there"),
    }
}
