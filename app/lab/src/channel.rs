// SPDX-License-Identifier: Apache-2.0
//! One connection: what is to be sent, what arrived, sealed or not, and every call counted. A *congestion* is the time
//! from a send that would have to wait until the socket takes bytes again.

use crate::error::LabError;
use crate::pause::timespec;
use crate::series::micros;
use crate::socket::SLICE;
use crate::watch::{Event, Watch};
use crate::wire::{ACK, Frame, GREETING, REPORT};
use helio_driver::Socket;
use helio_tls::Session;
use helio_workload::Distribution;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a connection may stand still before it is given up.
pub(crate) const STALL: Duration = Duration::from_secs(60);
/// How much longer one goes on after a signal, for what is under way.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// Most bytes one call takes from the wire where they are sealed.
const SEALED: usize = 128 << 10;

/// The calls of one or several connections.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Bytes of every send call.
    pub sent: Distribution,
    /// Bytes of every receive call.
    pub received: Distribution,
    /// Microseconds of every congestion.
    pub congestion: Distribution,
}

impl Tally {
    /// Adds another connection's.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sent.merge(&other.sent);
        self.received.merge(&other.received);
        self.congestion.merge(&other.congestion);
    }
}

/// TLS over a connection.
struct Seal {
    session: Session,
    wire: Vec<u8>,
    /// The sealed bytes that arrived and are not opened yet.
    unopened: Range<usize>,
}

/// One connection.
pub(crate) struct Channel<'w> {
    pub(crate) peer: SocketAddr,
    pub(crate) tally: Tally,
    socket: Socket,
    blocking: bool,
    seal: Option<Box<Seal>>,
    out: Vec<u8>,
    sent: usize,
    room: Vec<u8>,
    unread: Range<usize>,
    /// Bytes of the last receive call, not counted yet: what turns out to be no part of the traffic is left out.
    unsettled: u64,
    blocked_since: Option<Instant>,
    moved: Instant,
    told: Option<Watch<'w>>,
}

impl<'w> Channel<'w> {
    /// Over a connected socket; `told` hears of every call.
    pub(crate) fn new(
        socket: Socket,
        peer: SocketAddr,
        blocking: bool,
        told: Option<Watch<'w>>,
    ) -> Self {
        Self {
            peer,
            tally: Tally::default(),
            socket,
            blocking,
            seal: None,
            out: Vec::new(),
            sent: 0,
            // No more than a greeting at first: what comes behind it is counted by the run.
            room: vec![0; GREETING],
            unread: 0..0,
            unsettled: 0,
            blocked_since: None,
            moved: Instant::now(),
            told,
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Makes room for so many bytes at once. Only while nothing is unread.
    pub(crate) fn enlarge(&mut self, capacity: usize) {
        assert!(self.unread.is_empty(), "what is unread would be lost");
        self.room = vec![0; capacity.max(REPORT)];
        self.unread = 0..0;
    }

    /// Nothing was expected of it up to now.
    pub(crate) fn rested(&mut self) {
        self.moved = Instant::now();
    }

    /// What came before the run is none of its traffic.
    pub(crate) fn begin(&mut self) {
        (self.tally, self.unsettled) = (Tally::default(), 0);
        self.moved = Instant::now();
    }

    /// Seals everything from here on, and shakes hands.
    pub(crate) fn secure(
        &mut self,
        session: Session,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(), LabError> {
        let (wire, deadline) = (vec![0; SEALED], Instant::now() + limit);
        self.seal = Some(Box::new(Seal { session, wire, unopened: 0..0 }));
        loop {
            let seal = self.seal.as_mut().expect("it was put there");
            seal.session.take_output(&mut self.out);
            let flushed = self.push()?;
            if flushed && !self.seal.as_ref().is_some_and(|s| s.session.is_handshaking()) {
                return Ok(());
            }
            self.pull()?;
            if Instant::now() >= deadline || stop.load(Ordering::Relaxed) {
                return Err(self.stalled("connecting", limit));
            }
            wait_any(std::slice::from_ref(self), !flushed, SLICE);
        }
    }

    /// Puts bytes behind those to be sent.
    pub(crate) fn queue(&mut self, bytes: &[u8]) {
        match &mut self.seal {
            Some(seal) => {
                seal.session.seal(bytes);
                seal.session.take_output(&mut self.out);
            }
            None => self.out.extend_from_slice(bytes),
        }
    }

    /// Sends what the socket takes; whether nothing is left.
    pub(crate) fn push(&mut self) -> Result<bool, LabError> {
        while self.sent < self.out.len() {
            let begun = Instant::now();
            match send(&self.socket, &self.out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(n) => {
                    self.uncongested(begun);
                    self.sent += n;
                    self.moved = Instant::now();
                    self.tally.sent.add(n as u64);
                    self.tell("send", n as u64, self.moved - begun);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // A blocking call comes back only to look up; it waits within itself, not in congestion.
                    if !self.blocking {
                        self.blocked_since.get_or_insert(begun);
                    }
                    return Ok(false);
                }
                Err(why) => return Err(self.lost("sending", why)),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// The socket takes bytes again.
    fn uncongested(&mut self, now: Instant) {
        if let Some(since) = self.blocked_since.take() {
            self.tally.congestion.add(micros(now - since));
            self.tell("congestion", 0, now - since);
        }
    }

    fn tell(&self, what: &'static str, bytes: u64, took: Duration) {
        if let Some(told) = self.told {
            told(&Event::Did { what, bytes, took });
        }
    }

    /// Takes what has arrived, without waiting; whether there was anything. Does nothing while there is no room.
    pub(crate) fn pull(&mut self) -> Result<bool, LabError> {
        self.receive(RecvFlags::DONTWAIT)
    }

    /// Takes what arrives, and lets the kernel wait for it where the socket is blocking.
    pub(crate) fn pull_waiting(&mut self) -> Result<bool, LabError> {
        let flags = if self.blocking { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        self.receive(flags)
    }

    fn receive(&mut self, flags: RecvFlags) -> Result<bool, LabError> {
        self.make_room();
        if self.open()? > 0 {
            return Ok(true);
        }
        let end = self.unread.end;
        let into = match &mut self.seal {
            // What is not opened yet waits for room behind it.
            Some(seal) if !seal.unopened.is_empty() => return Ok(false),
            Some(seal) => &mut seal.wire[..],
            None => &mut self.room[end..],
        };
        if into.is_empty() {
            return Ok(false);
        }
        let begun = Instant::now();
        let n = loop {
            match recv(&self.socket, &mut *into, flags) {
                Ok((_, 0)) => return Err(self.lost("receiving", "it closed")),
                Ok((_, n)) => break n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(why) => return Err(self.lost("receiving", why)),
            }
        };
        self.settle();
        self.unsettled = n as u64;
        self.moved = Instant::now();
        self.tell("recv", n as u64, self.moved - begun);
        match &mut self.seal {
            Some(seal) => seal.unopened = 0..n,
            None => self.unread.end += n,
        }
        self.open()?;
        Ok(true)
    }

    /// Moves what is unread to the front where it stands in the way.
    fn make_room(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.unread.end == self.room.len() {
            self.room.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
    }

    /// Opens sealed bytes as far as there is room; how many plain ones came of it.
    fn open(&mut self) -> Result<usize, LabError> {
        let Some(seal) = &mut self.seal else { return Ok(0) };
        let before = self.unread.end;
        loop {
            let (wire, plain) =
                (&seal.wire[seal.unopened.clone()], &mut self.room[self.unread.end..]);
            match seal.session.open(wire, plain) {
                Ok(did) => {
                    seal.unopened.start += did.used;
                    self.unread.end += did.written;
                    if did.used == 0 && did.written == 0 {
                        return Ok(self.unread.end - before);
                    }
                }
                Err(why) => {
                    // The other end is told why, as far as the socket takes it.
                    seal.session.take_output(&mut self.out);
                    let _ = self.push();
                    return Err(LabError::Tls { peer: self.peer, why });
                }
            }
        }
    }

    fn settle(&mut self) {
        if self.unsettled > 0 {
            self.tally.received.add(self.unsettled);
        }
        self.unsettled = 0;
    }

    /// The next whole frame, and where in [`Channel::bytes`] what follows its head lies until the next receive.
    pub(crate) fn frame(&mut self, flush: u64) -> Result<Option<(Frame, Range<usize>)>, LabError> {
        let unread = &self.room[self.unread.clone()];
        let read = Frame::read(unread, flush);
        let Some(frame) = read.map_err(|why| LabError::WrongPeer { peer: self.peer, why })? else {
            return Ok(None);
        };
        let (head, whole) = match &frame {
            Frame::Flush(head) => (crate::wire::HEAD, head.stored as usize),
            Frame::Ack(_) => (ACK, ACK),
            Frame::End(_) => (ACK, ACK),
            Frame::Report(_) => (REPORT, REPORT),
        };
        if unread.len() < whole {
            return Ok(None);
        }
        if matches!(frame, Frame::End(_) | Frame::Report(_)) {
            self.unsettled = self.unsettled.saturating_sub(whole as u64);
            self.settle();
        }
        let body = self.unread.start + head..self.unread.start + whole;
        self.unread.start += whole;
        Ok(Some((frame, body)))
    }

    /// Whether bytes arrived that no frame took yet.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Bytes that arrived.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.room[range]
    }

    /// Waits for a greeting.
    pub(crate) fn greeting(
        &mut self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<[u8; GREETING], LabError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(greeting) = self.room[self.unread.clone()].first_chunk::<GREETING>() {
                let greeting = *greeting;
                self.unread.start += GREETING;
                return Ok(greeting);
            }
            let flushed = self.push()?;
            if !self.pull()? {
                if Instant::now() >= deadline || stop.load(Ordering::Relaxed) {
                    return Err(self.stalled("connecting", limit));
                }
                wait_any(std::slice::from_ref(self), !flushed, SLICE);
            }
        }
    }

    /// Whether anything waits to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.out.is_empty()
    }

    /// Fails where nothing has passed for longer than `limit`.
    pub(crate) fn check(&self, doing: &'static str, limit: Duration) -> Result<(), LabError> {
        if self.moved.elapsed() > limit { Err(self.stalled(doing, limit)) } else { Ok(()) }
    }

    /// Nothing passed.
    pub(crate) fn stalled(&self, doing: &'static str, limit: Duration) -> LabError {
        LabError::Stalled { peer: self.peer, doing, limit }
    }

    fn lost(&self, doing: &'static str, why: impl ToString) -> LabError {
        LabError::Lost { peer: self.peer, doing, why: why.to_string() }
    }
}

/// Waits until one of the connections has bytes, or, if `sending`, one that has something to send takes some; at most
/// `limit`.
pub(crate) fn wait_any(channels: &[Channel<'_>], sending: bool, limit: Duration) {
    let want = |channel: &Channel<'_>| match sending && channel.is_sending() {
        true => PollFlags::IN | PollFlags::OUT,
        false => PollFlags::IN,
    };
    let mut fds: Vec<PollFd<'_>> =
        channels.iter().map(|channel| PollFd::new(&channel.socket, want(channel))).collect();
    // A signal or an error ends it early: whoever waits looks again.
    let _ = poll(&mut fds, Some(&timespec(limit)));
}
