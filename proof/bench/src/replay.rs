// SPDX-License-Identifier: Apache-2.0
//! Replays a workload on an NBD export: each request at its moment, so many under way at most.
//!
//! What is late is asked as soon as it may be, as the forecast's application does. One thread asks and hears, and takes
//! whatever is due or there at once: in a burst the application must not be what is measured.

use crate::wire::{Gather, Wire, answered};
use anyhow::{Result, bail};
use helio_nbd::codec::{Cookie, RequestHeader, SimpleReply, command};
use helio_twin::Spread;
use helio_workload::{Kind, Request, Workload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest wait for an answer: longer than any outage of a scenario.
const PATIENCE: Duration = Duration::from_secs(120);
/// NBD's flag for FUA.
const FUA: u16 = 1;
/// Bytes heard at once at most, but for the data of a longer read.
const HEARD: usize = 1 << 16;

/// What the clients saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// From a write's request to its answer, in nanoseconds.
    pub writes: Spread,
    /// Flushes.
    pub flushes: Spread,
    /// Bytes of writes answered.
    pub answered: u64,
    /// From the beginning to the last answer.
    pub took: Duration,
}

/// Returns at that moment: a workload's requests come by the clock, and a schedule's outages too.
pub fn wait_until(due: Instant) {
    // A thread may be woken for no reason.
    while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        std::thread::park_timeout(left);
    }
}

/// Replays it on `export` behind a Unix socket.
///
/// # Errors
/// The server refuses, hangs up, or answers with an error.
pub fn replay(socket: &Path, export: &str, workload: &Workload, depth: usize) -> Result<Seen> {
    let (wire, _) = Wire::open(socket, export)?;
    let Some(first) = workload.requests().first() else { bail!("nothing is asked") };
    let longest = workload.requests().iter().map(|request| request.extent.length).max();
    let began = Instant::now();
    let replay = Replay {
        wire,
        left: workload.requests(),
        began,
        payload: (0..longest.unwrap_or(0)).map(|at| ((at * 31) >> 3) as u8 | 1).collect(),
        free: (0..depth).rev().collect(),
        asked: vec![(began, *first); depth],
        headers: vec![[0; RequestHeader::LENGTH]; depth],
        gather: Gather::new(depth),
        heard: vec![0; HEARD],
        filled: 0,
        seen: Seen::default(),
    };
    replay.run()
}

struct Replay<'a> {
    wire: Wire,
    /// What was not asked yet.
    left: &'a [Request],
    began: Instant,
    payload: Vec<u8>,
    free: Vec<usize>,
    /// When each slot was asked, and for what.
    asked: Vec<(Instant, Request)>,
    headers: Vec<[u8; RequestHeader::LENGTH]>,
    gather: Gather,
    heard: Vec<u8>,
    filled: usize,
    seen: Seen,
}

impl Replay<'_> {
    fn run(mut self) -> Result<Seen> {
        while !self.left.is_empty() || self.free.len() < self.asked.len() {
            let due = self.ask()?;
            self.send()?;
            self.wait(due)?;
            if self.wire.readable {
                self.filled += self.wire.receive(&mut self.heard[self.filled..])?;
                self.hear(Instant::now())?;
            }
        }
        Ok(self.seen)
    }

    /// Asks whatever is due, as far as there are slots. Returns when the next one is.
    fn ask(&mut self) -> Result<Option<Instant>> {
        while let Some((request, rest)) = self.left.split_first() {
            let (now, due) = (Instant::now(), self.began + Duration::from_nanos(request.at.0));
            if due > now {
                return Ok(Some(due));
            }
            let Some(slot) = self.free.pop() else { return Ok(None) };
            self.left = rest;
            self.asked[slot] = (now, *request);
            let command = match request.kind {
                Kind::Read => command::READ,
                Kind::Write => command::WRITE,
                Kind::Flush => command::FLUSH,
                Kind::Zero | Kind::Discard => {
                    bail!("only reads, writes and flushes are replayed")
                }
            };
            let header = RequestHeader {
                flags: if request.fua { FUA } else { 0 },
                command,
                cookie: Cookie(slot as u64),
                offset: request.extent.offset,
                length: if request.kind == Kind::Flush { 0 } else { request.extent.length },
            };
            self.headers[slot] = header.encode();
            self.gather.put(slot);
        }
        Ok(None)
    }

    fn send(&mut self) -> Result<()> {
        let (headers, asked, payload) = (&self.headers, &self.asked, &self.payload);
        self.gather.flush(&mut self.wire, |slot| {
            let request = &asked[slot].1;
            let length = if request.kind == Kind::Write { request.extent.length } else { 0 };
            (headers[slot].as_slice(), &payload[..length as usize])
        })?;
        Ok(())
    }

    /// Waits until something is there, until there is room for what is left to send, or until a request is due.
    fn wait(&mut self, due: Option<Instant>) -> Result<()> {
        let now = Instant::now();
        let left = due.map_or(PATIENCE, |due| due.saturating_duration_since(now));
        let room = if self.gather.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut ready = [PollFd::from_borrowed_fd(self.wire.socket(), PollFlags::IN | room)];
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let some = poll(&mut ready, Some(&limit))? > 0;
        if !some && due.is_none() {
            bail!("no answer comes within {} s", PATIENCE.as_secs());
        }
        let told = ready[0].revents();
        self.wire.blocked = false;
        self.wire.readable = !told.difference(PollFlags::OUT).is_empty();
        Ok(())
    }

    /// Takes the replies that are there whole.
    fn hear(&mut self, now: Instant) -> Result<()> {
        let mut at = 0;
        while let Some(reply) = self.heard[at..self.filled].first_chunk::<{ SimpleReply::LENGTH }>()
        {
            let slot = answered(reply)?;
            let (asked, request) = self.asked[slot];
            let data = if request.kind == Kind::Read { request.extent.length as usize } else { 0 };
            let whole = SimpleReply::LENGTH + data;
            if self.filled - at < whole {
                self.heard.resize(self.heard.len().max(whole), 0);
                break;
            }
            at += whole;
            self.free.push(slot);
            self.count(request, now - asked);
            self.seen.took = now - self.began;
        }
        self.heard.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }

    fn count(&mut self, request: Request, took: Duration) {
        match request.kind {
            Kind::Flush => self.seen.flushes.add_time(took),
            Kind::Read => {}
            Kind::Write | Kind::Zero | Kind::Discard => {
                self.seen.writes.add_time(took);
                self.seen.answered += request.extent.length;
            }
        }
    }
}
