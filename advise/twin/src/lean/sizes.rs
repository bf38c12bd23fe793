// SPDX-License-Identifier: Apache-2.0
//! Without content: sizes, and one bit per block, whether the copies differ there.

use super::differing::Differing;
use super::disk::Disk;
use super::link::Link;
use super::pair::Processor;
use super::records::Records;
use super::shard::Shard;
use crate::Side;
use crate::content::{Content, Payloads, Step};
use crate::host::{Due, Host, Io, NodeDue};
use crate::node::Node;
use core::convert::Infallible;
use core::time::Duration;
use helio_engine::{
    Answer, Event, Leg, PoolOp, PoolOutcome, ReadAs, Run, StoreOp, StoreOutcome, digest_piece,
};
use helio_format::message::Message;
use helio_ledger::{Change, Kept};
use helio_units::{Bytes, Extent, Moment, Payload, PayloadId, RequestId, State, VolumeIndex};
use std::collections::VecDeque;

/// A digest of a verify, in bytes.
const DIGEST_BYTES: u64 = 16;
/// Time moves: who asks to be woken at once is woken that much later.
const LEAST: Duration = Duration::from_micros(1);

/// What of a pair has one moment at which it falls due.
#[derive(Clone, Copy, Debug)]
pub enum Timer {
    /// The link gets another profile.
    Profile,
    /// The next attempt to connect.
    Dial,
    /// The connection under way stands.
    Stands,
    /// A side receives the end of the connection that the other one closed.
    Parted(Side),
    /// The primary's engine gets the figures of its socket.
    Measure,
    /// Something arrives from a side, or may leave there.
    Way(Side),
    /// The engine of a side wants to be settled anyhow.
    Wake(Side),
    /// The next turn of a side begins.
    Turn(Side),
}

impl Timer {
    const ALL: [Self; 12] = [
        Self::Profile,
        Self::Dial,
        Self::Stands,
        Self::Parted(Side::Paris),
        Self::Parted(Side::Lyon),
        Self::Measure,
        Self::Way(Side::Paris),
        Self::Way(Side::Lyon),
        Self::Wake(Side::Paris),
        Self::Turn(Side::Paris),
        Self::Wake(Side::Lyon),
        Self::Turn(Side::Lyon),
    ];

    /// Its place in the list of all.
    pub(super) const fn number(self) -> usize {
        match self {
            Self::Profile => 0,
            Self::Dial => 1,
            Self::Stands => 2,
            Self::Parted(side) => 3 + side.index(),
            Self::Measure => 5,
            Self::Way(side) => 6 + side.index(),
            Self::Wake(side) => 8 + 2 * side.index(),
            Self::Turn(side) => 9 + 2 * side.index(),
        }
    }
}

/// Payloads are counted.
#[derive(Debug, Default)]
pub struct Count {
    made: u64,
    held: i64,
}

impl Count {
    /// Takes in bytes and names them.
    pub(super) fn take(&mut self, length: u64) -> Payload {
        self.made += 1;
        self.held += 1;
        Payload { id: PayloadId(self.made), length: length as u32 }
    }

    /// How many are held.
    pub(super) const fn held(&self) -> i64 {
        self.held
    }
}

impl Payloads for Count {
    type Data = ();

    fn receive(&mut self, message: &Message, (): ()) -> PayloadId {
        self.take(message.payload_length().into()).id
    }

    fn release(&mut self, _: PayloadId) {
        self.held -= 1;
    }
}

/// Only sizes are kept, for forecasts.
#[derive(Debug)]
pub struct Sizes {
    processor: Processor,
    /// Where the copies differ, as far as they are known apart.
    pub(super) differing: Differing,
    /// What the primary wrote and its peer has not, while order is kept.
    owed: VecDeque<(VolumeIndex, Extent)>,
    /// Marks took the place of the queue.
    pub(super) order_lost: bool,
    /// Both disks are still empty.
    pub(super) young: bool,
    /// Requests answered, and whether they were denied.
    pub(super) replies: Vec<(RequestId, bool)>,
    /// Events that the engines took.
    pub(super) handled: u64,
    events: Vec<Event>,
}

impl Sizes {
    pub(super) fn new(processor: Processor) -> Self {
        Self {
            processor,
            differing: Differing::default(),
            owed: VecDeque::new(),
            order_lost: true,
            young: true,
            replies: Vec::new(),
            handled: 0,
            events: Vec::new(),
        }
    }
}

impl Content for Sizes {
    type Pool = Count;
    type Disk = Disk;
    type Metadata = Records;
    type Before = ();
    type Process = Shard;
    type Wire = Link;
    type NodeDue = Infallible;
    type Due = Timer;

    const TIMERS: &'static [Timer] = &Timer::ALL;

    /// The link first, then one node and the other: its disk, its files, then its turn.
    fn rank(due: &Due<Self>) -> u8 {
        let of = |side: &Side, rank| 8 + 5 * side.index() as u8 + rank;
        match due {
            Due::Node { side, what: NodeDue::Stored(_), .. } => of(side, 0),
            Due::Node { side, what: NodeDue::Kept, .. } => of(side, 1),
            Due::Node { side, .. } => of(side, 2),
            Due::Other(Timer::Wake(side)) => of(side, 3),
            Due::Other(Timer::Turn(side)) => of(side, 4),
            Due::Other(timer) => timer.number() as u8,
        }
    }

    fn node_due(_: &mut Host<Self>, _: Side, never: Infallible) {
        match never {}
    }

    fn due(host: &mut Host<Self>, due: Timer) {
        match due {
            Timer::Profile => host.lay(),
            Timer::Dial => host.dial(),
            Timer::Stands => host.establish(),
            Timer::Parted(side) => host.lose(side, "the other end hung up"),
            Timer::Measure => host.measure(),
            Timer::Way(side) => host.way_due(side),
            Timer::Wake(side) => host.inbox(side, Event::Tick),
            Timer::Turn(side) => host.turn(side),
        }
    }

    fn event(host: &mut Host<Self>, side: Side, event: Event) {
        host.inbox(side, event);
    }

    fn reply(host: &mut Host<Self>, side: Side, request: RequestId, answer: Answer) {
        if let Answer::Read(payload) = answer {
            host.node_mut(side).pool.release(payload.id);
        }
        host.content.replies.push((request, matches!(answer, Answer::Denied(_))));
    }

    fn store(host: &mut Host<Self>, side: Side, asked: &Io, at: Moment) -> Moment {
        let content = &mut host.content;
        if side == Side::BOTH[0]
            && !content.young
            && let Some(extent) = asked.op.changes()
        {
            if content.order_lost {
                content.differing.set(asked.leg.volume, extent);
            } else {
                content.owed.push_back((asked.leg.volume, extent));
            }
        }
        host.node_mut(side).disk.begin(at, asked.op)
    }

    fn stored(host: &mut Host<Self>, side: Side, asked: Io) -> StoreOutcome {
        let Io { leg: Leg { volume, .. }, op, read_as, .. } = asked;
        let Host { content, nodes, .. } = host;
        match op {
            StoreOp::Write { extent, .. }
            | StoreOp::Zero { extent, .. }
            | StoreOp::Discard { extent, .. } => {
                if side != Side::BOTH[0] {
                    content.owed.pop_front();
                    content.differing.clear(volume, extent);
                }
                StoreOutcome::Done
            }
            StoreOp::Flush => StoreOutcome::Done,
            StoreOp::Map { .. } => StoreOutcome::Empty(content.young),
            StoreOp::Read { extent } => {
                content.report(&mut nodes[side.index()].pool, volume, extent, &read_as)
            }
        }
    }

    fn look(host: &mut Host<Self>, side: Side, asked: Io, payload: Payload) -> StoreOutcome {
        let pool = &mut host.nodes[side.index()].pool;
        pool.release(payload.id);
        let extent = asked.op.reads().unwrap_or_default();
        host.content.report(pool, asked.leg.volume, extent, &asked.read_as)
    }

    fn keep(node: &mut Node<Self>, change: Change, at: Moment) -> Option<Moment> {
        node.metadata.keep(at, &change, &mut node.disk)
    }

    fn kept(node: &mut Node<Self>, now: Moment) -> (Vec<Kept>, Option<Moment>) {
        node.metadata.end(now, &mut node.disk)
    }

    fn sequence(node: &Node<Self>) -> u64 {
        node.metadata.sequence()
    }

    fn preserve(node: &mut Node<Self>, op: PoolOp, at: Moment) -> Step {
        Step::Ends(match op {
            PoolOp::Append { rows, .. } => {
                let bytes = rows.iter().fold(0, |sum, row| sum + row.extent.length);
                node.disk.preserve(at, Bytes(bytes))
            }
            PoolOp::Reserve { .. }
            | PoolOp::List { .. }
            | PoolOp::Check { .. }
            | PoolOp::Load { .. }
            | PoolOp::Overlay { .. }
            | PoolOp::Amend { .. }
            | PoolOp::Flush => at + node.disk.record_time(),
        })
    }

    /// Nothing is ever put back: no node of a forecast is promoted with a copy that is not consistent.
    fn preserved(_: &mut Host<Self>, _: Side) -> Step {
        Step::Over(PoolOutcome::Done)
    }

    fn send(host: &mut Host<Self>, side: Side, message: Message, _: &[u8], size: Bytes) {
        let shard = &mut host.node_mut(side).process;
        if shard.connected {
            shard.moved += u64::from(message.payload_length());
            host.wire.send(side, message, size);
        }
    }

    fn hang_up(host: &mut Host<Self>, side: Side, _: bool, at: Moment) {
        host.hang_up(side, at);
    }

    fn pause(host: &mut Host<Self>, side: Side, pause: bool, at: Moment) {
        host.pause(side, pause, at);
    }
}

impl Host<Sizes> {
    pub(super) fn set_timer(&mut self, timer: Timer, at: Moment) {
        self.set(timer.number(), at);
    }

    /// Something came to a node: its next turn takes it.
    pub(super) fn inbox(&mut self, side: Side, event: Event) {
        self.node_mut(side).process.inbox.push(event);
        self.stir(side, self.now);
    }

    /// A turn is due, as soon as the one under way has ended.
    pub(super) fn stir(&mut self, side: Side, at: Moment) {
        let at = at.max(self.node(side).process.busy);
        if at < self.timer(Timer::Turn(side).number()) {
            self.set_timer(Timer::Turn(side), at);
        }
    }

    /// A turn: whatever has come, then settling until nothing more is asked for.
    fn turn(&mut self, side: Side) {
        let now = self.now;
        let mut effects = core::mem::take(&mut self.effects);
        let mut events = core::mem::take(&mut self.content.events);
        let Node { engine, process: shard, .. } = &mut self.nodes[side.index()];
        let Some(engine) = engine else { return };
        core::mem::swap(&mut events, &mut shard.inbox);
        if shard.took > 0 {
            events.push(Event::LinkTook { bytes: core::mem::take(&mut shard.took) });
        }
        let count = events.len() as u64;
        for event in events.drain(..) {
            engine.handle(now, event, &mut effects);
        }
        loop {
            let before = effects.len();
            engine.settle(now, &mut effects);
            if effects.len() == before {
                break;
            }
        }
        let finish = now + shard.turn_time(self.content.processor, count);
        shard.busy = finish;
        let wake = engine.view().deadline().max(finish + LEAST);
        if side == Side::BOTH[0] {
            self.content.mind_order(engine.view().state());
        }
        self.content.handled += count;
        self.content.events = events;
        self.set_timer(Timer::Wake(side), wake);
        self.perform(side, &mut effects, finish);
        self.effects = effects;
        self.flush(side, finish);
    }
}

impl Sizes {
    /// Where marks take the place of the queue, what its items wrote differs from now on.
    fn mind_order(&mut self, state: State) {
        let lost = matches!(state, State::Logging | State::NeedsRoom | State::Syncing);
        if lost && !self.order_lost {
            for (volume, extent) in self.owed.drain(..) {
                self.differing.set(volume, extent);
            }
        }
        self.order_lost = lost;
    }

    /// What the engine is to get of the bytes that were read.
    fn report(
        &self,
        pool: &mut Count,
        volume: VolumeIndex,
        extent: Extent,
        read_as: &ReadAs,
    ) -> StoreOutcome {
        match *read_as {
            ReadAs::Bytes | ReadAs::BytesOrZero => {
                StoreOutcome::Read { payload: pool.take(extent.length), zero: false }
            }
            ReadAs::DigestPayload => {
                let length = extent.length.div_ceil(crate::BLOCK.0) * DIGEST_BYTES;
                StoreOutcome::Read { payload: pool.take(length), zero: false }
            }
            ReadAs::Runs { .. } => {
                let payload = Some(pool.take(extent.length));
                StoreOutcome::Differing(vec![Run { extent, payload }])
            }
            ReadAs::Digests { coarse } => {
                let count = extent.length.div_ceil(digest_piece(coarse).0);
                StoreOutcome::Digests(vec![[0; 16]; count as usize])
            }
            ReadAs::Differing { coarse, .. } => {
                StoreOutcome::Differing(self.runs(pool, volume, extent, digest_piece(coarse)))
            }
            ReadAs::Unequal { .. } => StoreOutcome::Verified(Vec::new()),
        }
    }

    /// The pieces of an extent that differ, neighbours together.
    fn runs(
        &self,
        pool: &mut Count,
        volume: VolumeIndex,
        extent: Extent,
        piece: Bytes,
    ) -> Vec<Run> {
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
        let run = |extent: Extent| Run { extent, payload: Some(pool.take(extent.length)) };
        found.into_iter().map(run).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_timer_is_its_place() {
        let numbers: Vec<usize> = Timer::ALL.into_iter().map(Timer::number).collect();
        assert_eq!(numbers, (0..Timer::ALL.len()).collect::<Vec<_>>());
    }
}
