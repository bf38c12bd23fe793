// SPDX-License-Identifier: Apache-2.0
//! A connection: what is on its way, and what becomes of it.

use super::{End, NetDue, SocketId};
use crate::world::{Inner, MachineId};
use helio_driver::Errno;
use helio_netmodel::{DropReason, Verdict};
use helio_units::{Bytes, Moment};
use std::collections::VecDeque;
use std::time::Duration;

/// The number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// What a segment costs on the link beside its bytes.
const HEADERS: u64 = 60;
/// The longest segment, and the longest of the short ones.
const SEGMENT: usize = 64 << 10;
const SHORT: usize = 1448;
/// After so long a lost segment is sent again, the first time.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    End,
}

/// Where an end of the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    Open,
    /// To be sent behind the last byte.
    Wanted,
    Sent,
}

/// One way.
#[derive(Debug)]
pub(super) struct Way {
    /// Not sent yet.
    outgoing: VecDeque<u8>,
    fin: Fin,
    /// On the link.
    flight: VecDeque<Segment>,
    /// Counts how often what was on the link had to be sent again.
    epoch: u32,
    /// The sender pauses before it tries again.
    pauses: bool,
    losses: u32,
    /// Since when nothing has arrived although there is something.
    blocked: Option<Moment>,
    /// What was sent before arrives at the latest then.
    last: Moment,
    /// Arrived, not yet received.
    pub(super) inbox: VecDeque<u8>,
    /// The end of the stream has arrived.
    pub(super) ended: bool,
}

/// What a machine knows of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Open,
    /// It is closed; what was sent is still delivered.
    Closed,
    /// It was reset, or given up.
    Broken(Errno),
    /// The machine lost its power, or has given the connection up without a word.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Side {
    pub(super) machine: MachineId,
    pub(super) socket: Option<SocketId>,
    pub(super) standing: Standing,
    /// What this end sends.
    pub(super) way: Way,
}

#[derive(Debug)]
pub(super) struct Connection {
    connecter: Side,
    acceptor: Side,
}

impl Way {
    const fn new() -> Self {
        Self {
            outgoing: VecDeque::new(),
            fin: Fin::Open,
            flight: VecDeque::new(),
            epoch: 0,
            pauses: false,
            losses: 0,
            blocked: None,
            last: Moment::ZERO,
            inbox: VecDeque::new(),
            ended: false,
        }
    }

    fn in_flight(&self) -> usize {
        let bytes = |it: &Segment| if let Segment::Bytes(bytes) = it { bytes.len() } else { 0 };
        self.flight.iter().map(bytes).sum()
    }

    /// Nothing more is sent.
    fn stop(&mut self) {
        self.outgoing.clear();
        self.flight.clear();
        (self.fin, self.blocked) = (Fin::Open, None);
        self.epoch += 1;
    }

    /// What is on the link is lost, and has to be sent again.
    fn take_back(&mut self) {
        self.epoch += 1;
        let mut outgoing = VecDeque::new();
        for segment in self.flight.drain(..) {
            match segment {
                Segment::Bytes(bytes) => outgoing.extend(bytes),
                Segment::End => self.fin = Fin::Wanted,
            }
        }
        outgoing.append(&mut self.outgoing);
        self.outgoing = outgoing;
    }

    fn is_done(&self) -> bool {
        self.outgoing.is_empty() && self.flight.is_empty() && self.fin != Fin::Wanted
    }

    /// Adds what fits into the buffer; returns how much.
    pub(super) fn add(&mut self, bytes: &[u8], room: usize) -> usize {
        let count = room.saturating_sub(self.outgoing.len()).min(bytes.len());
        self.outgoing.extend(&bytes[..count]);
        count
    }

    /// The next segment, taken from what is to be sent.
    fn segment(&mut self, window: usize, drawn: usize) -> Option<Segment> {
        if self.outgoing.is_empty() {
            (self.fin == Fin::Wanted).then(|| {
                self.fin = Fin::Sent;
                Segment::End
            })
        } else {
            let count = self.outgoing.len().min(window).min(drawn);
            (count > 0).then(|| {
                let (front, back) = self.outgoing.as_slices();
                let (front, back) = (&front[..count.min(front.len())], back);
                let bytes = [front, &back[..count - front.len()]].concat();
                self.outgoing.drain(..count);
                Segment::Bytes(bytes)
            })
        }
    }
}

impl Connection {
    pub(super) const fn new(from: (MachineId, SocketId), to: (MachineId, SocketId)) -> Self {
        Self { connecter: side_of(from), acceptor: side_of(to) }
    }

    pub(super) const fn side(&self, end: End) -> &Side {
        match end {
            End::Connecter => &self.connecter,
            End::Acceptor => &self.acceptor,
        }
    }

    pub(super) const fn side_mut(&mut self, end: End) -> &mut Side {
        match end {
            End::Connecter => &mut self.connecter,
            End::Acceptor => &mut self.acceptor,
        }
    }

    /// Whether no socket is left, and nothing is to be delivered.
    fn is_over(&self) -> bool {
        [&self.connecter, &self.acceptor]
            .into_iter()
            .all(|side| side.socket.is_none() && side.way.is_done())
    }
}

impl Inner {
    fn side(&mut self, id: ConnectionId, end: End) -> Option<&mut Side> {
        self.net.connections.get_mut(&id).map(|connection| connection.side_mut(end))
    }

    /// The machines that a way is between.
    fn between(&self, id: ConnectionId, from: End) -> Option<(MachineId, MachineId)> {
        let connection = self.net.connections.get(&id)?;
        Some((connection.side(from).machine, connection.side(from.other()).machine))
    }

    /// Sends what the receiver has room for.
    pub(super) fn pump(&mut self, id: ConnectionId, from: End) {
        while self.pump_one(id, from).is_some() {}
    }

    fn pump_one(&mut self, id: ConnectionId, from: End) -> Option<()> {
        let (here, there) = self.between(id, from)?;
        let blocked = self.is_cut(here, there);
        let (now, room) = (self.now, self.net.options.receive_buffer);
        let short = self.net.dice.chance(1, 8);
        let drawn = 1 + self.net.dice.below(if short { SHORT } else { SEGMENT } as u64) as usize;
        let way = &mut self.side(id, from)?.way;
        if way.pauses || way.outgoing.is_empty() && way.fin != Fin::Wanted {
            return None;
        }
        if blocked {
            self.block(id, from);
            return None;
        }
        let window = room.saturating_sub(way.inbox.len() + way.in_flight());
        // A receiver that takes little at a time must not make every later segment small.
        if window < way.outgoing.len().min(SHORT).min(room / 2) {
            return None;
        }
        let segment = way.segment(window, drawn)?;
        let size = Bytes(
            HEADERS + if let Segment::Bytes(bytes) = &segment { bytes.len() as u64 } else { 0 },
        );
        way.flight.push_back(segment);
        let verdict = self.offer(here, there, size);
        let room_at = self.net.link(here, there).room_at(now, size);
        let way = &mut self.side(id, from)?.way;
        match verdict {
            Verdict::Deliver { at } => {
                (way.losses, way.blocked, way.last) = (0, None, way.last.max(at));
                let (at, epoch) = (way.last, way.epoch);
                self.net_at(at, NetDue::Arrive(id, from, epoch));
                return Some(());
            }
            Verdict::Drop(reason) => {
                let pause = LOST_AFTER * (1 << way.losses.min(8));
                let at = match reason {
                    DropReason::Loss => now + pause.min(LONGEST_PAUSE),
                    DropReason::QueueFull | DropReason::Down => room_at,
                };
                way.losses += u32::from(reason == DropReason::Loss);
                let lost = way.flight.pop_back();
                let kept = std::mem::replace(&mut way.flight, lost.into_iter().collect());
                let epoch = way.epoch;
                way.take_back();
                // Only the last one was not taken: the others are on the link as before.
                (way.flight, way.epoch) = (kept, epoch);
                if at == Moment::NEVER {
                    self.block(id, from);
                } else {
                    way.pauses = true;
                    self.net_at(at, NetDue::Again(id, from));
                }
            }
        }
        None
    }

    /// Something waits for a link that carries nothing.
    fn block(&mut self, id: ConnectionId, from: End) {
        let (now, after) = (self.now, self.net.options.give_up);
        let Some(side) = self.side(id, from) else { return };
        if side.way.blocked.is_none() {
            side.way.blocked = Some(now);
            self.net_in(after, NetDue::GiveUp(id, from, now));
        }
    }

    pub(super) fn send_again(&mut self, id: ConnectionId, from: End) {
        if let Some(side) = self.side(id, from) {
            side.way.pauses = false;
            self.refill(id, from);
        }
    }

    pub(super) fn give_up(&mut self, id: ConnectionId, from: End, since: Moment) {
        let Some(side) = self.side(id, from) else { return };
        if side.way.blocked == Some(since) {
            let closed = side.socket.is_none();
            side.standing =
                if closed { Standing::Unknown } else { Standing::Broken(Errno::TIMEDOUT) };
            side.way.stop();
            self.tell(format_args!("connection {} is given up by its {from:?}", id.0));
            self.ended(id, from);
        }
    }

    /// A link carries again, or a machine has power again: senders that wait for it try at some time.
    pub(super) fn unblock(&mut self, carries: impl Fn(MachineId, MachineId) -> bool) {
        for (id, from) in self.ways() {
            let now = self.now;
            let Some((here, there)) = self.between(id, from).filter(|way| carries(way.0, way.1))
            else {
                continue;
            };
            if self.is_cut(here, there) {
                continue;
            }
            let Some(side) = self.side(id, from) else { continue };
            let Some(since) = side.way.blocked.filter(|_| !side.way.pauses) else { continue };
            side.way.pauses = true;
            let pause = now.since(since).min(LONGEST_PAUSE).as_nanos() as u64;
            let pause = Duration::from_nanos(self.net.dice.below(pause + 1));
            self.net_in(pause, NetDue::Again(id, from));
        }
    }

    /// Nothing of what is on some links arrives.
    pub(super) fn lose_flights(&mut self, on: impl Fn(MachineId, MachineId) -> bool) {
        for (id, from) in self.ways() {
            let lost = self.between(id, from).is_some_and(|(here, there)| on(here, there));
            if let Some(side) = self.side(id, from).filter(|_| lost) {
                side.way.take_back();
                self.pump(id, from);
            }
        }
    }

    pub(super) fn ways(&self) -> Vec<(ConnectionId, End)> {
        let all = self.net.connections.keys();
        all.flat_map(|id| [(*id, End::Connecter), (*id, End::Acceptor)]).collect()
    }

    pub(super) fn arrive(&mut self, id: ConnectionId, from: End, epoch: u32) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let standing = connection.side(from.other()).standing;
        let way = &mut connection.side_mut(from).way;
        if way.epoch != epoch {
            return;
        }
        let Some(segment) = way.flight.pop_front() else { return };
        let machine = connection.side(from.other()).machine;
        if self.machines[machine.0].faults.resets() {
            self.tell(format_args!("connection {} is reset on its way", id.0));
            self.break_both(id);
            return;
        }
        match (standing, segment) {
            (Standing::Open, segment) => {
                let Some(side) = self.side(id, from) else { return };
                match segment {
                    Segment::Bytes(bytes) => side.way.inbox.extend(bytes),
                    Segment::End => side.way.ended = true,
                }
                self.wake_end(id, from.other());
            }
            (Standing::Closed, Segment::End) => {}
            // The machine answers what it has no connection for.
            (Standing::Closed | Standing::Broken(_) | Standing::Unknown, _) => {
                self.send_reset(id, from);
            }
        }
        self.refill(id, from);
        self.clean(id);
    }

    /// Sends on, and lets the sender fill its buffer again.
    pub(super) fn refill(&mut self, id: ConnectionId, from: End) {
        self.pump(id, from);
        self.wake_end(id, from);
    }

    /// Sends a reset to an end. It is lost if the link is cut.
    pub(super) fn send_reset(&mut self, id: ConnectionId, to: End) {
        let Some((here, there)) = self.between(id, to.other()) else { return };
        if !self.is_cut(here, there)
            && let Verdict::Deliver { at } = self.offer(here, there, Bytes(HEADERS))
        {
            self.net_at(at, NetDue::Reset(id, to));
        }
    }

    pub(super) fn reset_arrives(&mut self, id: ConnectionId, to: End) {
        let Some((_, there)) = self.between(id, to.other()) else { return };
        if self.is_up(there) {
            self.break_end(id, to, Errno::CONNRESET);
        }
    }

    /// Both ends get a reset at once.
    pub(super) fn break_both(&mut self, id: ConnectionId) {
        self.break_end(id, End::Connecter, Errno::CONNRESET);
        self.break_end(id, End::Acceptor, Errno::CONNRESET);
    }

    pub(super) fn break_end(&mut self, id: ConnectionId, end: End, errno: Errno) {
        let drops = self.net.dice.chance(1, 2);
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let side = connection.side_mut(end);
        side.way.stop();
        if side.standing == Standing::Open {
            side.standing = Standing::Broken(errno);
        }
        // What has arrived may still be received, or not.
        if drops {
            connection.side_mut(end.other()).way.inbox.clear();
        }
        self.ended(id, end);
    }

    /// An end is closed by its process: orderly, unless there is something that it did not receive.
    pub(super) fn close_end(&mut self, id: ConnectionId, end: End, abrupt: bool, keeps: bool) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let unread = !connection.side(end.other()).way.inbox.is_empty();
        connection.side_mut(end.other()).way.inbox.clear();
        let side = connection.side_mut(end);
        if !keeps {
            side.socket = None;
        }
        if side.standing == Standing::Open {
            side.standing = Standing::Closed;
            if abrupt || unread {
                side.way.stop();
                self.send_reset(id, end.other());
            } else {
                side.way.fin = Fin::Wanted;
                self.pump(id, end);
            }
        }
        self.clean(id);
    }

    /// A machine without power knows nothing of its connections.
    pub(super) fn forget_ends(&mut self, machine: MachineId) {
        for (id, end) in self.ways() {
            let Some(side) = self.side(id, end).filter(|side| side.machine == machine) else {
                continue;
            };
            side.way.stop();
            (side.socket, side.standing) = (None, Standing::Unknown);
            if let Some(other) = self.side(id, end.other()) {
                other.way.inbox.clear();
            }
            self.clean(id);
        }
    }

    fn ended(&mut self, id: ConnectionId, end: End) {
        self.wake_end(id, end);
        self.clean(id);
    }

    /// Lets the operations at an end go on.
    fn wake_end(&mut self, id: ConnectionId, end: End) {
        if let Some(socket) = self.side(id, end).and_then(|side| side.socket) {
            self.drive(socket);
        }
    }

    fn clean(&mut self, id: ConnectionId) {
        if self.net.connections.get(&id).is_some_and(Connection::is_over) {
            self.net.connections.remove(&id);
        }
    }
}

const fn side_of((machine, socket): (MachineId, SocketId)) -> Side {
    Side { machine, socket: Some(socket), standing: Standing::Open, way: Way::new() }
}
