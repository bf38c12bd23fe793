// SPDX-License-Identifier: Apache-2.0
//! The link of a pair: how a connection comes about and ends, what arrives on it, and what becomes of the line.

use super::sizes::{Sizes, Timer};
use super::socket::{LinkModel, Transport, Way};
use crate::Side;
use crate::host::Host;
use crate::wire::retry_after;
use core::time::Duration;
use helio_engine::Event;
use helio_format::message::Message;
use helio_netmodel::{Dice, Outage, Profile};
use helio_units::{Bytes, Moment};

/// An attempt is repeated by the kernel after these, and given up by the daemon after the last.
const ASKED_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// The engine gets the figures of its socket this often.
const MEASURE_EVERY: Duration = Duration::from_secs(1);
/// Bytes the socket took that the engine need not hear of before its next turn: far less than it lets lie unsent.
const UNTOLD: u64 = 256 << 10;
/// The same where the socket has nothing left to take.
const UNTOLD_IDLE: u64 = 64 << 10;

/// What lies between the nodes of a pair.
#[derive(Debug)]
pub struct Link {
    model: LinkModel,
    ways: [Way; 2],
    /// How many attempts to connect failed.
    failures: u32,
    /// When the run began, and at which moment of the workload.
    laid: [Moment; 2],
}

impl Link {
    /// A link without outages: those belong to runs.
    pub(super) fn new(model: LinkModel, dice: &Dice) -> Self {
        let whole = |profile: &Profile| Profile { outages: Vec::new(), ..profile.clone() };
        let (forth, back) = (whole(&model.forth), whole(&model.back));
        let transport = model.transport;
        let ways = [
            Way::new(&forth, &back, transport, dice.split("forth")),
            Way::new(&back, &forth, transport, dice.split("back")),
        ];
        Self { model, ways, failures: 0, laid: [Moment::ZERO; 2] }
    }

    fn is_up(&self, at: Moment) -> bool {
        self.ways.iter().all(|way| way.is_up(at))
    }

    pub(super) fn round_trip(&self) -> Duration {
        self.ways[0].delay() + self.ways[1].delay()
    }

    /// Bytes of messages that left each side.
    pub(super) fn carried(&self) -> [Bytes; 2] {
        [0, 1].map(|n| self.ways[n].carried)
    }

    pub(super) fn send(&mut self, side: Side, message: Message, size: Bytes) {
        self.ways[side.index()].send(message, size.0);
    }

    /// Gives both ways what holds at that moment: the outages of the run, and the weather. Returns when that ends.
    fn lay(&mut self, at: Moment) -> Moment {
        let [now, begin] = self.laid;
        let mut ends = Moment::NEVER;
        let mut lines = [&self.model.forth, &self.model.back].map(|profile| {
            let shifted = |at: Moment| now + at.since(begin);
            let of_run = profile.outages.iter().filter(|outage| outage.to > begin);
            let outages = of_run.map(|o| Outage { from: shifted(o.from), to: shifted(o.to) });
            Profile { outages: outages.collect(), ..profile.clone() }
        });
        if let Some(course) = &self.model.course {
            let begun = begin.since(Moment::ZERO);
            let (row, turns) = course.at(begun + at.since(now));
            ends = turns.map_or(Moment::NEVER, |turns| now + turns.saturating_sub(begun));
            for (line, (profile, passes)) in lines.iter_mut().zip(course.profiles(row)) {
                let mut outages = core::mem::take(&mut line.outages);
                if !passes {
                    outages.push(Outage { from: at, to: ends });
                }
                *line = Profile { outages, ..profile };
            }
        }
        let [there, back] = lines;
        self.ways[0].set_profile(&there, back.delay, at);
        self.ways[1].set_profile(&back, there.delay, at);
        ends
    }
}

impl Host<Sizes> {
    /// A run begins now, at that moment of its workload.
    pub(super) fn begin_run(&mut self, begin: Moment) {
        self.wire.laid = [self.now, begin];
        self.lay();
    }

    /// The link becomes another.
    pub(super) fn lay(&mut self) {
        let ends = self.wire.lay(self.now);
        self.set_timer(Timer::Profile, ends);
        self.arm();
    }

    /// What arrives next on a way, and what may leave there next.
    fn arm(&mut self) {
        for side in Side::BOTH {
            let way = &self.wire.ways[side.index()];
            let at = way.next_arrival().min(way.next_pump());
            self.set_timer(Timer::Way(side), at);
        }
    }

    pub(super) fn dial(&mut self) {
        let now = self.now;
        let tries = [Duration::ZERO, ASKED_AGAIN[0], ASKED_AGAIN[1]].map(|after| now + after);
        if self.wire.model.transport == Transport::Relay {
            // It takes the connection at once, and what is said on it waits for the line.
            let up = self.wire.ways.iter().map(|way| way.up_at(now)).max();
            self.set_timer(Timer::Stands, up.unwrap_or(now) + self.wire.round_trip());
        } else if let Some(up) = tries.into_iter().find(|at| self.wire.is_up(*at)) {
            self.set_timer(Timer::Stands, up + self.wire.round_trip());
        } else {
            let at = now + CONNECT_PATIENCE + retry_after(&mut self.wire.failures);
            self.set_timer(Timer::Dial, at);
        }
    }

    pub(super) fn establish(&mut self) {
        self.wire.failures = 0;
        self.wire.ways.iter_mut().for_each(Way::reset);
        for side in Side::BOTH {
            self.set_timer(Timer::Parted(side), Moment::NEVER);
            self.lose(side, "replaced by a new connection");
            let shard = &mut self.node_mut(side).process;
            (shard.connected, shard.took) = (true, 0);
            self.inbox(side, Event::Connected);
        }
        self.set_timer(Timer::Dial, Moment::NEVER);
        self.set_timer(Timer::Measure, self.now);
        self.arm();
    }

    /// A side learns that the connection is gone.
    pub(super) fn lose(&mut self, side: Side, why: &str) {
        if self.node_mut(side).process.disconnect() {
            self.inbox(side, Event::Disconnected { why: why.into() });
            self.dial_later(self.now);
        }
    }

    /// The primary is the one who dials.
    fn dial_later(&mut self, now: Moment) {
        let timers = [Timer::Dial, Timer::Stands].map(|timer| self.timer(timer.number()));
        if timers == [Moment::NEVER; 2] {
            let at = now + retry_after(&mut self.wire.failures);
            self.set_timer(Timer::Dial, at);
        }
    }

    pub(super) fn hang_up(&mut self, side: Side, at: Moment) {
        self.node_mut(side).process.disconnect();
        let way = &self.wire.ways[side.index()];
        let parted = if way.is_up(at) { at + way.delay() } else { Moment::NEVER };
        self.set_timer(Timer::Parted(side.other()), parted);
        if side == Side::BOTH[0] {
            self.dial_later(at);
        }
    }

    pub(super) fn measure(&mut self) {
        let now = self.now;
        self.set_timer(Timer::Measure, now + MEASURE_EVERY);
        if self.nodes[0].process.connected {
            let (round_trip, rate) = self.wire.ways[0].measured(now);
            self.inbox(Side::BOTH[0], Event::LinkMeasured { round_trip, rate });
        }
    }

    /// What arrives from a side, and what may leave there.
    pub(super) fn way_due(&mut self, side: Side) {
        let (now, to) = (self.now, side.other());
        while self.wire.ways[side.index()].next_arrival() <= now {
            let Self { nodes, wire, .. } = self;
            let shard = &mut nodes[to.index()].process;
            let Some((message, bytes)) = wire.ways[side.index()].arrive(shard.paused) else {
                break;
            };
            if !shard.connected {
                continue;
            }
            if shard.paused {
                shard.unread.push_back((message, bytes));
            } else {
                self.read(to, message, bytes);
            }
        }
        if self.wire.ways[side.index()].next_pump() <= now {
            self.pump(side, now);
        }
        self.arm();
    }

    fn read(&mut self, side: Side, message: Option<Message>, bytes: u64) {
        self.node_mut(side).process.moved += bytes;
        if let Some(message) = message {
            self.receive(side, message, ());
        }
    }

    /// The engine reads from its peer again, or no more.
    pub(super) fn pause(&mut self, side: Side, paused: bool, at: Moment) {
        self.node_mut(side).process.paused = paused;
        while !self.node(side).process.paused
            && let Some((message, bytes)) = self.node_mut(side).process.unread.pop_front()
        {
            self.wire.ways[side.other().index()].was_read(at, bytes);
            self.read(side, message, bytes);
        }
    }

    /// The socket of a side takes what it has room for at that moment.
    pub(super) fn pump(&mut self, side: Side, at: Moment) {
        let way = &mut self.wire.ways[side.index()];
        let took = way.pump(at);
        let idle = way.is_idle();
        let shard = &mut self.node_mut(side).process;
        shard.took += took;
        if shard.took >= UNTOLD || (idle && shard.took >= UNTOLD_IDLE) {
            self.stir(side, at);
        }
    }

    /// The turn of a side has sent what it asked for.
    pub(super) fn flush(&mut self, side: Side, at: Moment) {
        self.pump(side, at);
        self.arm();
    }
}
