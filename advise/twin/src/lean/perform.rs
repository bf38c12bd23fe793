// SPDX-License-Identifier: Apache-2.0
//! What falls due, turns, and doing what the engines ask for.

use super::pair::{MEASURE_EVERY, Pair};
use super::records::Record;
use super::socket::Transport;
use crate::Side;
use crate::perform::Io;
use core::time::Duration;
use helio_engine::{
    Answer, BeforeOp, BeforeOutcome, Effect, Event, Keep, Kept, ReadAs, Run, StoreOp, StoreOutcome,
    digest_piece,
};
use helio_format::before::CHUNK_BYTES;
use helio_format::frame::HEADER_BYTES;
use helio_format::message::Message;
use helio_units::{Bytes, Extent, Moment, Payload, PayloadId, State, VolumeIndex};

/// Pauses between attempts to connect, as `edge/link` has them.
const DIAL_AFTER: Duration = Duration::from_millis(100);
const DIAL_LONGEST: Duration = Duration::from_secs(2);
/// An attempt is repeated by the kernel after these, and given up by the daemon after the last.
const ASKED_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// A digest of a verify, in bytes.
const DIGEST_BYTES: u64 = 16;
/// Time moves: who asks to be woken at once is woken that much later.
const LEAST: Duration = Duration::from_micros(1);
/// Bytes the socket took that the engine need not hear of before its next turn: far less than it lets lie unsent.
const UNTOLD: u64 = 256 << 10;
/// The same where the socket has nothing left to take.
const UNTOLD_IDLE: u64 = 64 << 10;

impl Pair {
    /// What falls due of the link itself.
    pub(super) fn link_due(&mut self) {
        let now = self.now;
        if self.dial <= now {
            self.dial = Moment::NEVER;
            self.dial_now();
        }
        if self.stands <= now {
            self.stands = Moment::NEVER;
            self.establish();
        }
        for side in Side::BOTH {
            if self.parted[side.index()] <= now {
                self.parted[side.index()] = Moment::NEVER;
                self.lose(side, "the other end hung up");
            }
        }
        if self.measure <= now {
            self.measure = now + MEASURE_EVERY;
            if self.nodes[0].connected {
                let (round_trip, rate) = self.ways[0].measured(now);
                self.nodes[0].tell(now, Event::LinkMeasured { round_trip, rate });
            }
        }
    }

    fn is_up(&self, at: Moment) -> bool {
        self.ways.iter().all(|way| way.is_up(at))
    }

    pub(super) fn round_trip(&self) -> Duration {
        self.ways[0].delay() + self.ways[1].delay()
    }

    fn dial_now(&mut self) {
        let tries = [Duration::ZERO, ASKED_AGAIN[0], ASKED_AGAIN[1]].map(|after| self.now + after);
        if self.config.link.transport == Transport::Relay {
            // It takes the connection at once, and what is said on it waits for the line.
            let up = self.ways.iter().map(|way| way.up_at(self.now)).max();
            self.stands = up.unwrap_or(self.now) + self.round_trip();
        } else if let Some(up) = tries.into_iter().find(|at| self.is_up(*at)) {
            self.stands = up + self.round_trip();
        } else {
            self.dial = self.now + CONNECT_PATIENCE + self.pause();
        }
    }

    fn pause(&mut self) -> Duration {
        let pause = (DIAL_AFTER * 2u32.pow(self.failures.min(5))).min(DIAL_LONGEST);
        self.failures += 1;
        pause
    }

    fn establish(&mut self) {
        self.failures = 0;
        self.ways.iter_mut().for_each(super::socket::Way::reset);
        for side in Side::BOTH {
            self.parted[side.index()] = Moment::NEVER;
            self.lose(side, "replaced by a new connection");
            let node = &mut self.nodes[side.index()];
            node.connected = true;
            node.took = 0;
            node.tell(self.now, Event::Connected);
        }
        (self.dial, self.measure) = (Moment::NEVER, self.now);
    }

    /// A side learns that the connection is gone.
    fn lose(&mut self, side: Side, why: &str) {
        let node = &mut self.nodes[side.index()];
        node.paused = false;
        node.unread.clear();
        if !core::mem::take(&mut node.connected) {
            return;
        }
        node.tell(self.now, Event::Disconnected { why: why.into() });
        self.dial_later(self.now);
    }

    /// The primary is the one who dials.
    fn dial_later(&mut self, now: Moment) {
        if self.dial == Moment::NEVER && self.stands == Moment::NEVER {
            self.dial = now + self.pause();
        }
    }

    fn hang_up(&mut self, side: Side, at: Moment) {
        self.nodes[side.index()].connected = false;
        self.nodes[side.index()].paused = false;
        self.nodes[side.index()].unread.clear();
        let way = &self.ways[side.index()];
        self.parted[side.other().index()] =
            if way.is_up(at) { at + way.delay() } else { Moment::NEVER };
        if side == Side::BOTH[0] {
            self.dial_later(at);
        }
    }

    /// What arrives from a side, and what may leave there.
    pub(super) fn way_due(&mut self, side: Side) {
        let (now, to) = (self.now, side.other().index());
        while self.ways[side.index()].next_arrival() <= now {
            let unread = self.nodes[to].paused;
            let Some((message, bytes)) = self.ways[side.index()].arrive(unread) else { break };
            if !self.nodes[to].connected {
                continue;
            }
            if unread {
                self.nodes[to].unread.push_back((message, bytes));
            } else {
                self.read(side.other(), message, bytes);
            }
        }
        if self.ways[side.index()].next_pump() <= now {
            self.pump(side, now);
        }
    }

    fn read(&mut self, side: Side, message: Option<Message>, bytes: u64) {
        let node = &mut self.nodes[side.index()];
        node.moved += bytes;
        if let Some(message) = message {
            self.held += i64::from(message.payload().is_some());
            node.tell(self.now, Event::Message(message));
        }
    }

    fn pump(&mut self, side: Side, at: Moment) {
        let took = self.ways[side.index()].pump(at);
        let idle = self.ways[side.index()].is_idle();
        let node = &mut self.nodes[side.index()];
        node.took += took;
        if node.took >= UNTOLD || (idle && node.took >= UNTOLD_IDLE) {
            node.stir(at);
        }
    }

    /// What falls due at a node.
    pub(super) fn node_due(&mut self, side: Side) {
        let now = self.now;
        while self.nodes[side.index()].disk.next() <= now {
            let Some(ended) = self.nodes[side.index()].disk.end() else { break };
            let io = ended.io;
            let outcome = self.outcome(side, ended);
            self.nodes[side.index()].tell(now, Event::StoreDone { io, outcome });
        }
        let node = &mut self.nodes[side.index()];
        if node.records.next <= now {
            node.records.end(now, &mut node.disk, &mut node.inbox);
            node.stir(now);
        }
        if node.before <= now {
            node.before = Moment::NEVER;
            node.tell(now, Event::BeforeDone(BeforeOutcome::Done));
        }
        if node.wake <= now {
            node.wake = Moment::NEVER;
            node.tell(now, Event::Tick);
        }
        if node.turn <= now {
            self.turn(side);
        }
    }

    /// A turn: whatever has come, then settling until nothing more is asked for.
    fn turn(&mut self, side: Side) {
        let now = self.now;
        let mut effects = core::mem::take(&mut self.effects);
        let mut events = core::mem::take(&mut self.events);
        let node = &mut self.nodes[side.index()];
        core::mem::swap(&mut events, &mut node.inbox);
        node.turn = Moment::NEVER;
        if node.took > 0 {
            events.push(Event::LinkTook { bytes: core::mem::take(&mut node.took) });
        }
        let count = events.len() as u64;
        self.handled += count;
        for event in events.drain(..) {
            node.engine.handle(now, event, &mut effects);
        }
        loop {
            let before = effects.len();
            node.engine.settle(now, &mut effects);
            if effects.len() == before {
                break;
            }
        }
        let finish = now + node.turn_time(self.config.processor, count);
        node.busy = finish;
        node.wake = node.engine.view().deadline().max(finish + LEAST);
        if !node.inbox.is_empty() {
            node.stir(finish);
        }
        if side == Side::BOTH[0] {
            self.mind_order();
        }
        for effect in effects.drain(..) {
            self.perform(side, effect, finish);
        }
        self.pump(side, finish);
        (self.effects, self.events) = (effects, events);
    }

    /// Where marks take the place of the queue, what its items wrote differs from now on.
    fn mind_order(&mut self) {
        let state = self.nodes[0].engine.view().state();
        let lost = matches!(state, State::Logging | State::NeedsRoom | State::Syncing);
        if lost && !self.order_lost {
            for (volume, extent) in self.owed.drain(..) {
                self.differing.set(volume, extent);
            }
        }
        self.order_lost = lost;
    }

    fn perform(&mut self, side: Side, effect: Effect, at: Moment) {
        let node = &mut self.nodes[side.index()];
        match effect {
            Effect::Reply { request, answer } => {
                self.held -= i64::from(matches!(answer, Answer::Read(_)));
                self.replies.push((request, matches!(answer, Answer::Denied(_))));
            }
            Effect::Store { io, volume, op, read_as } => {
                self.store(side, Io { io, volume, op, read_as }, at);
            }
            Effect::Look { io, volume, extent, payload: _, read_as } => {
                self.held -= 1;
                let outcome = self.report(volume, extent, &read_as);
                self.nodes[side.index()].tell(at, Event::StoreDone { io, outcome });
            }
            Effect::Send(message) => self.send(side, message),
            Effect::Hangup { .. } => self.hang_up(side, at),
            Effect::SaveSuperblock(_) => node.records.keep(at, Record::Superblock, &mut node.disk),
            Effect::Keep(keep) => {
                let kept = match keep {
                    Keep::Hot { ticket, .. } => Kept::Hot { ticket },
                    Keep::Marks { page, .. } => Kept::Marks { page },
                };
                node.records.keep(at, Record::Part(kept), &mut node.disk);
            }
            Effect::Before(op) => {
                node.before = match op {
                    BeforeOp::Preserve { chunks } => {
                        node.disk.preserve(at, Bytes(chunks.len() as u64 * CHUNK_BYTES))
                    }
                    BeforeOp::Begin { .. }
                    | BeforeOp::Extend { .. }
                    | BeforeOp::Restore
                    | BeforeOp::End => at + node.disk.record_time(),
                };
            }
            Effect::Release(_) => self.held -= 1,
            Effect::PauseReceiving(paused) => {
                node.paused = paused;
                while !self.nodes[side.index()].paused
                    && let Some((message, bytes)) = self.nodes[side.index()].unread.pop_front()
                {
                    self.ways[side.other().index()].was_read(at, bytes);
                    self.read(side, message, bytes);
                }
            }
            Effect::AskHook => node.tell(at, Event::HookAnswered { refused: None }),
            Effect::CommandDone { .. }
            | Effect::Note(_)
            | Effect::DismissClients
            | Effect::Stopped => {}
        }
    }

    fn send(&mut self, side: Side, message: Message) {
        let node = &mut self.nodes[side.index()];
        if !node.connected {
            return;
        }
        self.scratch.clear();
        message.encode(&mut self.scratch);
        let payload = u64::from(message.payload_length());
        node.moved += payload;
        let size = (HEADER_BYTES + self.scratch.len()) as u64 + payload;
        self.ways[side.index()].send(message, size);
    }

    fn store(&mut self, side: Side, io: Io, at: Moment) {
        if side == Side::BOTH[0]
            && !self.young
            && let Some(extent) = io.op.changes()
        {
            if self.order_lost {
                self.differing.set(io.volume, extent);
            } else {
                self.owed.push_back((io.volume, extent));
            }
        }
        self.nodes[side.index()].disk.begin(at, io);
    }

    /// How an operation ended.
    fn outcome(&mut self, side: Side, ended: Io) -> StoreOutcome {
        let Io { volume, op, read_as, .. } = ended;
        match op {
            StoreOp::Write { extent, .. }
            | StoreOp::Zero { extent, .. }
            | StoreOp::Discard { extent, .. } => {
                if side != Side::BOTH[0] {
                    self.owed.pop_front();
                    self.differing.clear(volume, extent);
                }
                StoreOutcome::Done
            }
            StoreOp::Flush => StoreOutcome::Done,
            StoreOp::Map { .. } => StoreOutcome::Empty(self.young),
            StoreOp::Read { extent } => self.report(volume, extent, &read_as),
        }
    }

    /// What the engine is to get of the bytes that were read.
    fn report(&mut self, volume: VolumeIndex, extent: Extent, read_as: &ReadAs) -> StoreOutcome {
        match *read_as {
            ReadAs::Bytes | ReadAs::BytesOrZero => {
                StoreOutcome::Read { payload: self.payload(extent.length), zero: false }
            }
            ReadAs::DigestPayload => {
                let length = extent.length.div_ceil(crate::BLOCK.0) * DIGEST_BYTES;
                StoreOutcome::Read { payload: self.payload(length), zero: false }
            }
            ReadAs::Runs { .. } => {
                let payload = Some(self.payload(extent.length));
                StoreOutcome::Differing(vec![Run { extent, payload }])
            }
            ReadAs::Digests { coarse } => {
                let count = extent.length.div_ceil(digest_piece(coarse).0);
                StoreOutcome::Digests(vec![[0; 16]; count as usize])
            }
            ReadAs::Differing { coarse, .. } => {
                StoreOutcome::Differing(self.runs(volume, extent, digest_piece(coarse)))
            }
            ReadAs::Unequal { .. } => StoreOutcome::Verified(Vec::new()),
        }
    }

    fn payload(&mut self, length: u64) -> Payload {
        self.payloads += 1;
        self.held += 1;
        Payload { id: PayloadId(self.payloads), length: length as u32 }
    }

    /// The pieces of an extent that differ, neighbours together.
    fn runs(&mut self, volume: VolumeIndex, extent: Extent, piece: Bytes) -> Vec<Run> {
        let mut found: Vec<Extent> = Vec::new();
        let mut at = extent.offset;
        while at < extent.end() {
            let one = Extent::new(at, piece.0.min(extent.end() - at));
            at = one.end();
            if !self.differing.any(volume, one) {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end() == one.offset => last.length += one.length,
                _ => found.push(one),
            }
        }
        let run = |extent: Extent| Run { extent, payload: Some(self.payload(extent.length)) };
        found.into_iter().map(run).collect()
    }
}
