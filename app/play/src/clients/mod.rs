// SPDX-License-Identifier: Apache-2.0
//! The clients of the simulated volume: requests that arrive at a given rate whatever becomes of the ones before, one NBD connection that
//! carries them to the node that serves, and what the clients experience.

mod connection;
mod experience;

use connection::{Arrived, Connection};
use experience::Experience;
use helio_driver::Address;
use helio_nbd::Cookie;
use helio_nbd::codec::{RequestHeader, SimpleReply, command};
use helio_netmodel::Dice;
use helio_units::Moment;
use helio_world::{SimMachine, World};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Requests that wait for their reply at the same time.
const DEPTH: usize = 64;
/// Requests that wait to be sent: further ones do not arrive, since applications wait, too.
const WAITING_MAX: usize = 256;
/// The time from the end of a connection to the next attempt.
const RECONNECT: Duration = Duration::from_millis(200);
const BLOCK: u64 = 4096;
/// Blocks of a request, by the chance of one in sixteen.
const BLOCKS: [u64; 16] = [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 16];
/// For so many writes there is one read, and one flush.
const WRITES_PER_READ: u64 = 10;
const WRITES_PER_FLUSH: u64 = 50;
/// Three requests of four are about so much of the volume: one part of this many.
const HOT_PART: u64 = 4;

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    Flush,
}

/// A request, from its arrival to its reply.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrived: Moment,
    kind: Kind,
    offset: u64,
    length: u64,
}

/// See the module.
pub(crate) struct Clients {
    export: &'static str,
    /// Size of the volume in bytes.
    size: u64,
    dice: Dice,
    writes_per_second: f64,
    next_arrival: Moment,
    connection: Option<Connection>,
    /// The node that they use, or used last.
    at: usize,
    reconnect: Moment,
    /// They stay away from the volume, because an operator stops the applications.
    pub(crate) away: bool,
    waiting: VecDeque<Request>,
    in_flight: BTreeMap<u64, Request>,
    next_cookie: u64,
    experience: Experience,
}

impl Clients {
    pub(crate) fn new(export: &'static str, size: u64, dice: Dice) -> Self {
        Self {
            export,
            size,
            dice,
            writes_per_second: 0.0,
            next_arrival: Moment::NEVER,
            connection: None,
            at: 0,
            reconnect: Moment::ZERO,
            away: false,
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
            next_cookie: 0,
            experience: Experience::default(),
        }
    }

    /// Changes the write rate.
    pub(crate) fn set_rate(&mut self, writes_per_second: f64, now: Moment) {
        self.writes_per_second = writes_per_second;
        self.next_arrival = self.draw_arrival(now);
    }

    /// The node that they use, or used last.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// They use another node from now on.
    pub(crate) fn go_to(&mut self, node: usize, now: Moment) {
        if self.at != node {
            self.at = node;
            self.disconnect(now);
            self.reconnect = now;
        }
    }

    /// They disconnect; requests without a reply are made again later.
    pub(crate) fn disconnect(&mut self, now: Moment) {
        if self.connection.take().is_some() {
            self.reconnect = now + RECONNECT;
        }
        let lost = std::mem::take(&mut self.in_flight);
        for request in lost.into_values().rev() {
            self.waiting.push_front(request);
        }
    }

    /// When something happens by itself; `serves`: whether the node that they use does.
    pub(crate) fn next(&self, serves: bool) -> Moment {
        let arrival =
            if self.waiting.len() < WAITING_MAX { self.next_arrival } else { Moment::NEVER };
        let reconnects = serves && self.connection.is_none() && !self.away;
        arrival.min(if reconnects { self.reconnect } else { Moment::NEVER })
    }

    /// What they experience, in a sentence; `name` is the node that they use.
    pub(crate) fn tell(&self, name: &str, now: Moment) -> String {
        let open = self.connection.as_ref().is_some_and(Connection::is_open);
        if self.writes_per_second == 0.0 && self.in_flight.is_empty() && self.waiting.is_empty() {
            return "The clients make no requests.".to_owned();
        }
        let server = open.then_some(name);
        self.experience.tell(server, self.in_flight.len() + self.waiting.len(), now)
    }

    /// Goes on as far as possible now. `machine` is that of the node that they use, while it serves.
    pub(crate) fn step(&mut self, world: &World, machine: Option<&SimMachine>, now: Moment) {
        while self.next_arrival <= now && self.waiting.len() < WAITING_MAX {
            self.arrive();
        }
        if self.away {
            return;
        }
        if self.connection.is_none() {
            let Some(machine) = machine else { return };
            if now < self.reconnect {
                return;
            }
            let stream = world.connect(machine, &Address::Unix(crate::node::nbd_socket()));
            self.connection = Some(Connection::new(stream, self.export));
        }
        if self.exchange(now) {
            self.send();
            self.connection.iter_mut().for_each(Connection::flush);
        } else {
            self.disconnect(now);
        }
    }

    /// Takes what has come. Whether the connection is still there.
    fn exchange(&mut self, now: Moment) -> bool {
        let Self { connection: Some(connection), in_flight, experience, .. } = self else {
            return true;
        };
        loop {
            let Ok(more) = connection.exchange() else { return false };
            loop {
                let data = |reply: &SimpleReply| {
                    let request = in_flight.get(&reply.cookie.0);
                    let read = request.filter(|it| it.kind == Kind::Read && reply.error == 0);
                    read.map_or(0, |it| it.length as usize)
                };
                match connection.next(data) {
                    Arrived::Nothing => break,
                    Arrived::Broken => return false,
                    Arrived::Open => {}
                    Arrived::Reply(reply) => {
                        let Some(request) = in_flight.remove(&reply.cookie.0) else { return false };
                        let failed = reply.error != 0;
                        experience.replied(request.kind, now.since(request.arrived), failed, now);
                    }
                }
            }
            if !more {
                return true;
            }
        }
    }

    fn send(&mut self) {
        let Some(connection) = self.connection.as_mut().filter(|it| it.is_open()) else { return };
        while self.in_flight.len() < DEPTH {
            let Some(request) = self.waiting.pop_front() else { break };
            let cookie = self.next_cookie;
            self.next_cookie += 1;
            let (command, payload) = match request.kind {
                Kind::Write => {
                    let word = self.dice.next_u64().to_le_bytes();
                    (command::WRITE, word.repeat(request.length as usize / word.len()))
                }
                Kind::Read => (command::READ, Vec::new()),
                Kind::Flush => (command::FLUSH, Vec::new()),
            };
            let Request { offset, length, .. } = request;
            let cookie = Cookie(cookie);
            let header = RequestHeader { flags: 0, command, cookie, offset, length };
            connection.request(header, &payload);
            self.in_flight.insert(cookie.0, request);
        }
    }

    /// A write arrives, and now and then another request with it.
    fn arrive(&mut self) {
        let arrived = self.next_arrival;
        self.request(Kind::Write, arrived);
        if self.dice.chance(1, WRITES_PER_READ) {
            self.request(Kind::Read, arrived);
        }
        if self.dice.chance(1, WRITES_PER_FLUSH) {
            self.waiting.push_back(Request { arrived, kind: Kind::Flush, offset: 0, length: 0 });
        }
        self.next_arrival = self.draw_arrival(arrived);
    }

    fn request(&mut self, kind: Kind, arrived: Moment) {
        let blocks = BLOCKS[self.dice.below(BLOCKS.len() as u64) as usize];
        let part = if self.dice.chance(3, 4) { HOT_PART } else { 1 };
        let places = self.size / BLOCK / part - blocks + 1;
        let offset = self.dice.below(places) * BLOCK;
        self.waiting.push_back(Request { arrived, kind, offset, length: blocks * BLOCK });
    }

    /// The arrival after one: arrivals do not depend on each other.
    fn draw_arrival(&mut self, after: Moment) -> Moment {
        if self.writes_per_second == 0.0 {
            return Moment::NEVER;
        }
        let seconds = -(1.0 - self.dice.uniform()).ln() / self.writes_per_second;
        after + Duration::from_secs_f64(seconds)
    }
}
