// SPDX-License-Identifier: Apache-2.0
//! With content: a stamp per block, on disks that fail as disks do, and a journal of what happened.

use crate::before::Before;
use crate::cluster::{Cluster, ProcessDue, WireDue};
use crate::content::{Content, Payloads, Step};
use crate::disk::{Change, Disk, Dropped, Ended, Latency, Lied};
use crate::happening::{Died, Happening, Replied};
use crate::host::{Due, Io, NodeDue};
use crate::metadata::Metadata;
use crate::node::{Node, Process, Side};
use crate::pool::Pool;
use crate::wire::{Cargo, Parcel, Wire};
use crate::{Place, Stamp, digest, places, words};
use core::time::Duration;
use helio_engine::{
    Answer, Config, Event, Leg, Operation, PoolOp, ReadAs, Request, Run, StoreOp, StoreOutcome,
};
use helio_format::message::{Item, ItemKind, Message, Parting};
use helio_ledger::{self as ledger, Kept};
use helio_netmodel::{Dice, Profile};
use helio_stack::LayerRecord;
use helio_units::{
    Bytes, Extent, MemberIndex, Moment, Payload, PayloadId, Rate, RequestId, VolumeIndex,
};

/// What a daemon sends to a peer whose group it does not serve, as `app/daemon/src/shard/mod.rs` words it.
const NOT_SERVED: &str = "group db is not served on this node: it failed";

/// What a silent disk was asked for ends within this, in any order, once it is not silent any more.
const SILENCE_BREAKS: Duration = Duration::from_millis(200);

/// Content is kept, for an oracle to compare.
#[derive(Clone, Debug)]
pub struct Stamps {
    pub(crate) journal: Vec<Happening>,
    /// The journal is to tell every event and effect in words.
    telling: bool,
    pub(crate) dice: Dice,
}

impl Stamps {
    pub(crate) fn new(dice: Dice, telling: bool) -> Self {
        Self { journal: Vec::new(), telling, dice }
    }
}

impl Payloads for Pool {
    type Data = Vec<Stamp>;

    fn receive(&mut self, message: &Message, stamps: Vec<Stamp>) -> PayloadId {
        let digests = matches!(message, Message::Item(Item { kind: ItemKind::Verify, .. }));
        if digests { self.take_digests(stamps).id } else { self.take(stamps).id }
    }

    fn release(&mut self, id: PayloadId) {
        Self::release(self, id);
    }
}

impl Content for Stamps {
    type Pool = Pool;
    type Disk = Disk;
    type Metadata = Metadata;
    type Before = Before;
    type Process = Process;
    type Wire = Wire;
    type NodeDue = ProcessDue;
    type Due = WireDue;

    const TIMERS: &'static [WireDue] = &[];

    fn rank(_: &Due<Self>) -> u8 {
        0
    }

    fn node_due(host: &mut Cluster, side: Side, due: ProcessDue) {
        match due {
            ProcessDue::Wake => {
                let now = host.now;
                if host.node_mut(side).process.wake.take_if(|at| *at <= now).is_some() {
                    host.handle(side, Event::Tick);
                }
            }
            ProcessDue::Settle => {
                if host.node(side).process.settling {
                    host.settle(side);
                }
            }
            ProcessDue::Drain => host.drain(side),
            ProcessDue::Undone => host.go_on(side),
        }
    }

    fn due(host: &mut Cluster, due: WireDue) {
        match due {
            WireDue::Arrive { from } => {
                if let Some(parcel) = host.wire.arrive(from) {
                    host.wire.ends[from.other().index()].inbox.push_back(parcel);
                    host.drain(from.other());
                }
            }
            WireDue::Took { side, epoch, bytes } => {
                let node = host.node(side);
                if node.hangs(host.now) {
                    let until = node.hung_until;
                    host.push_wire(until, due);
                } else if host.wire.ends[side.index()].epoch == Some(epoch) {
                    host.handle(side, Event::LinkTook { bytes });
                }
            }
            WireDue::Dial { side } => host.dial(side),
            WireDue::DialFailed { side, life, began } => host.dial_failed(side, life, began),
            WireDue::Establish { side, epoch } => host.establish(side, epoch),
            WireDue::Accept { side, epoch } => host.accept(side, epoch),
            WireDue::Broken { side, epoch } => {
                if host.wire.ends[side.index()].epoch == Some(epoch) {
                    let size = helio_units::Bytes::ZERO;
                    let parcel = Parcel { epoch, size, cargo: Cargo::Closed("connection reset") };
                    host.wire.ends[side.index()].inbox.push_back(parcel);
                    host.drain(side);
                }
            }
        }
    }

    fn event(host: &mut Cluster, side: Side, event: Event) {
        host.handle(side, event);
    }

    fn happened(&mut self, what: impl FnOnce() -> Happening) {
        self.journal.push(what());
    }

    fn is_story(&self) -> bool {
        self.telling
    }

    fn reply(host: &mut Cluster, side: Side, request: RequestId, answer: Answer) {
        let answer = match answer {
            Answer::Done(_) => Replied::Done,
            Answer::Branch => panic!("no client writes to a copy here"),
            Answer::Denied(denial) => Replied::Denied(denial),
            Answer::Read(payload) => {
                let pool = &mut host.node_mut(side).pool;
                let stamps = pool.stamps(payload).to_vec();
                pool.release(payload.id);
                Replied::Read(stamps)
            }
        };
        host.content.journal.push(Happening::Replied { side, request, answer });
    }

    fn store(host: &mut Cluster, side: Side, asked: &Io, at: Moment) -> Moment {
        let &Io { io, leg, op, .. } = asked;
        let volume = leg.volume;
        let node = &mut host.nodes[side.index()];
        let changed = op.changes();
        // What is pulled from the peer is no write of a client's.
        let leading = node.engine.as_ref().is_some_and(|engine| {
            engine.view().holds_line()
                && !changed.is_some_and(|extent| engine.view().is_pulling(volume, extent))
        });
        let stamps = match op {
            StoreOp::Write { extent, payload, .. } => {
                // A layer may write the beginning of what it was given.
                Some(&node.pool.stamps(payload)[..places(volume, extent).count()])
            }
            _ => None,
        };
        if leg.member != MemberIndex(0) {
            let disk = &mut node.mirrors[usize::from(leg.member.0) - 1];
            let alike = node.process.first.filter(|(of, first, _)| (*of, *first) == (volume, op));
            disk.fail(alike.map(|(.., fault)| fault));
            let ends = disk.begin(at, io, volume, op, stamps, leading);
            // Told behind the first member's failure, it would let that one fail alone until then.
            return if alike.is_some() { at } else { ends };
        }
        if !node.disk.fits(op) {
            let words = format!("{op:?} of volume {}", volume.0);
            host.content.journal.push(Happening::Misfit { side, words });
        }
        let awaited = node.disk.awaits_overlap();
        let ends = node.disk.begin(at, io, volume, op, stamps, leading);
        node.process.first = node.disk.fault_of(io).map(|fault| (volume, op, fault));
        if awaited && !node.disk.awaits_overlap() {
            host.content.journal.push(Happening::FlushOverlapped);
        }
        if let Some(extent) = changed {
            let blocks: Vec<_> = places(volume, extent).collect();
            let stamps = stamps.map_or_else(|| vec![Stamp::ZEROS; blocks.len()], <[_]>::to_vec);
            let first = blocks.first().map_or(0, |place| place.block);
            host.content.journal.push(Happening::Issued { side, volume, first, stamps, leading });
        }
        host.damaged(side);
        ends
    }

    fn silent(host: &mut Cluster, side: Side, asked: &Io) -> Option<Moment> {
        let disk = host.node_mut(side).disk_of(asked.leg);
        if disk.fails_alike(asked.io) {
            return None;
        }
        let until = disk.silent_until(asked.leg.volume);
        let beyond = |dice: &mut Dice| dice.below(SILENCE_BREAKS.as_nanos() as u64);
        (host.now < until).then(|| until + Duration::from_nanos(beyond(&mut host.content.dice)))
    }

    fn stored(host: &mut Cluster, side: Side, asked: Io) -> StoreOutcome {
        let mut changes = Vec::new();
        let node = &mut host.nodes[side.index()];
        let first = asked.leg.member == MemberIndex(0);
        let ended = node.disk_of(asked.leg).end(asked.io, &mut changes);
        if let Some(Lied { lie, places }) = node.disk.take_lied() {
            host.content.journal.push(Happening::Lied { side, lie, places });
        }
        let outcome = match ended {
            Ended::Done => StoreOutcome::Done,
            Ended::Failed(fault) => StoreOutcome::Failed(fault),
            Ended::Empty(empty) => StoreOutcome::Empty(empty),
            Ended::Read(stamps) => host.report(side, asked, stamps),
        };
        if first {
            host.damaged(side);
            host.changed(side, changes);
        }
        outcome
    }

    fn look(host: &mut Cluster, side: Side, asked: Io, payload: Payload) -> StoreOutcome {
        let pool = &mut host.node_mut(side).pool;
        let stamps = pool.stamps(payload).to_vec();
        pool.release(payload.id);
        host.report(side, asked, stamps)
    }

    fn keep(node: &mut Node, change: ledger::Change, at: Moment) -> Option<Moment> {
        if let ledger::Change::Superblock(superblock) = &change {
            node.process.saving = Some((**superblock).clone());
        }
        node.metadata.keep(at, change)
    }

    fn kept(node: &mut Node, now: Moment) -> (Vec<Kept>, Option<Moment>) {
        node.metadata.step(now)
    }

    fn record(node: &Node, record: LayerRecord) -> ledger::Change {
        node.change(record)
    }

    fn compare(node: &Node, pair: [PayloadId; 2]) -> bool {
        let [one, other] = pair.map(|id| node.pool.stamps(Payload { id, length: 0 }));
        one == other
    }

    fn sequence(node: &Node) -> u64 {
        node.metadata.sequence()
    }

    fn saved(host: &mut Cluster, side: Side, ok: bool) {
        let process = &mut host.node_mut(side).process;
        let saving = process.saving.take();
        if ok {
            process.saved = saving;
            host.content.journal.push(Happening::Saved { side });
        }
    }

    fn preserve(node: &mut Node, op: PoolOp, at: Moment) -> Step {
        node.before.begin(at, op, &node.pool)
    }

    fn preserved(host: &mut Cluster, side: Side) -> Step {
        let now = host.now;
        let node = host.node_mut(side);
        node.before.step(now, &mut node.pool)
    }

    /// Sends a message through its bytes: what the decoder makes of them is what travels.
    fn send(host: &mut Cluster, side: Side, message: Message, body: &[u8], size: Bytes) {
        let length = message.payload_length();
        let stamps = match message.payload() {
            Some(payload) => host.node(side).pool.stamps(payload).to_vec(),
            None => Vec::new(),
        };
        if let Message::Item(item) = &message
            && item.kind.changes_data()
            && !item.resync
            && item.sequence > host.node(side).process.sent
        {
            host.node_mut(side).process.sent = item.sequence;
            let blocks: Vec<_> = places(item.volume, item.extent).collect();
            let stamps =
                if stamps.is_empty() { vec![Stamp::ZEROS; blocks.len()] } else { stamps.clone() };
            let first = blocks.first().map_or(0, |place| place.block);
            let (at, volume) = (item.sequence, item.volume);
            host.content.journal.push(Happening::Sent { side, at, volume, first, stamps });
        }
        if let Message::Ack(ack) = &message {
            host.content.journal.push(Happening::Reported { side, durable: ack.durable });
        }
        let Ok(read) = Message::decode(message.code(), body, length) else {
            panic!("{side} sends an unreadable message: {message:?}")
        };
        if host.wire.send(side, size, Cargo::Message(read, stamps)) {
            host.pump(side);
        }
    }

    fn hang_up(host: &mut Cluster, side: Side, refused: bool, _: Moment) {
        host.connection_over(side);
        host.wire.close(side, false, "the other end hung up");
        host.pump(side);
        host.dial_later(side, refused);
    }

    fn pause(host: &mut Cluster, side: Side, pause: bool, at: Moment) {
        host.node_mut(side).process.paused = pause;
        if !pause {
            host.push_node(at, side, NodeDue::Process(ProcessDue::Drain));
        }
    }

    fn stopped(host: &mut Cluster, side: Side) {
        host.end(side, Died::Stopped);
        host.wire.close(side, false, "the process ended");
        host.pump(side);
    }
}

impl Cluster {
    /// Two new nodes, both down, with a link between them. Every operation on a disk or file takes `tick`.
    #[must_use]
    pub fn of_two(
        config: impl Fn(Side) -> Config,
        tick: Duration,
        profile: &Profile,
        dice: &Dice,
    ) -> Self {
        let nodes = Side::BOTH.map(|side| {
            let own = dice.split_nth("node", side.index() as u64);
            let (config, latency) =
                (config(side), Latency { read: tick, write: tick, flush: tick });
            let disk = Disk::new(&config.volumes, latency, own.split("disk"));
            let owner = (config.group.as_str(), config.node.as_str());
            let grain = (config.granularity.0 as u32, config.hot_extents);
            let metadata =
                Metadata::new(owner, &config.volumes, grain, tick, own.split("metadata"));
            Node::new(config, disk, metadata, Before::new(tick, own.split("before")))
        });
        let wire = Wire::new(profile, Bytes::mib(1), dice);
        Self::new(nodes, wire, dice, false)
    }

    /// A client asks; every block of a write holds `stamp`. Returns false where no process listens.
    pub fn submit(
        &mut self,
        side: Side,
        id: RequestId,
        volume: VolumeIndex,
        operation: Operation,
        stamp: Stamp,
    ) -> bool {
        let now = self.now;
        let node = self.node_mut(side);
        if !node.is_up() {
            return false;
        }
        let operation = match operation {
            Operation::Write { extent, fua, .. } => {
                let payload = node.pool.take(vec![stamp; places(volume, extent).count()]);
                let payload = Payload { length: extent.length as u32, ..payload };
                Operation::Write { extent, payload, fua }
            }
            other => other,
        };
        let request = Request { id, volume, operation };
        if node.hangs(now) {
            self.push_node(now, side, NodeDue::Event(Box::new(Event::Request(request))));
        } else {
            self.handle(side, Event::Request(request));
        }
        true
    }

    /// Clients use these volumes of a node from now on, and no others. Returns false where no process listens.
    pub fn use_volumes(&mut self, side: Side, volumes: u64) -> bool {
        let now = self.now;
        let node = self.node(side);
        if !node.is_up() {
            return false;
        }
        if node.hangs(now) {
            self.push_node(now, side, NodeDue::Event(Box::new(Event::Used { volumes })));
        } else {
            self.handle(side, Event::Used { volumes });
        }
        true
    }

    /// The socket's own figures reach the engine.
    pub fn measure_link(&mut self, side: Side, round_trip: Duration, rate: Rate) {
        let node = self.node(side);
        if node.is_up() && !node.hangs(self.now) {
            self.handle(side, Event::LinkMeasured { round_trip, rate });
        }
    }

    /// What the engine is to get of the blocks that were read.
    fn report(&mut self, side: Side, asked: Io, stamps: Vec<Stamp>) -> StoreOutcome {
        let Io { leg: Leg { volume, .. }, op, read_as, .. } = asked;
        let extent = op.reads().unwrap_or_default();
        let pool = &mut self.nodes[side.index()].pool;
        let is_zero = |stamps: &[Stamp]| stamps.iter().all(|stamp| *stamp == Stamp::ZEROS);
        let mut runs = |runs: Vec<(Extent, Vec<Stamp>)>| {
            let run = |(extent, stamps): (Extent, Vec<Stamp>)| Run {
                extent,
                payload: (!is_zero(&stamps)).then(|| pool.take(stamps)),
            };
            StoreOutcome::Differing(runs.into_iter().map(run).collect())
        };
        match read_as {
            ReadAs::Bytes | ReadAs::BytesOrZero => {
                let zero = is_zero(&stamps);
                StoreOutcome::Read { payload: pool.take(stamps), zero }
            }
            ReadAs::Runs { piece } => runs(digest::stretches(extent, &stamps, piece)),
            ReadAs::Digests { coarse } => StoreOutcome::Digests(digest::of(&stamps, coarse)),
            ReadAs::Differing { digests, coarse } => {
                runs(digest::differing(extent, &stamps, &digests, coarse))
            }
            ReadAs::DigestPayload => {
                StoreOutcome::Read { payload: pool.take_digests(stamps), zero: false }
            }
            ReadAs::Unequal { payload } => {
                let runs = digest::unequal(volume, extent, pool.stamps(payload), &stamps);
                let blocks = runs.iter().flat_map(|run| places(volume, *run));
                let differ = blocks.map(|place| Happening::Differs { side, place });
                self.content.journal.extend(differ);
                StoreOutcome::Verified(runs)
            }
        }
    }

    /// What failures left on a node's disk since this was asked last.
    pub(crate) fn damaged(&mut self, side: Side) {
        let disk = &mut self.node_mut(side).disk;
        let (torn, dropped) = (disk.take_torn(), disk.take_dropped());
        if torn > 0 {
            self.content.journal.push(Happening::Torn { side });
        }
        if let Some(Dropped { volumes, hidden, visible }) = dropped {
            self.content.journal.push(Happening::Dropped { side, volumes, hidden, visible });
        }
    }

    /// A block of a node's disk silently turns into something else.
    pub fn rot(&mut self, side: Side, place: Place, stamp: Stamp) {
        self.node_mut(side).disks_mut().for_each(|disk| disk.rot(place, stamp));
    }

    pub(crate) fn changed(&mut self, side: Side, changes: Vec<Change>) {
        for Change { place, stamp, tag } in changes {
            self.content.journal.push(Happening::Changed { side, place, stamp, leading: tag });
        }
    }

    /// The process reads what arrived on the connection in force.
    pub(crate) fn read(&mut self, side: Side, parcel: Parcel) {
        if self.node(side).is_unserved() {
            return self.turn_away(side, &parcel.cargo);
        }
        match parcel.cargo {
            Cargo::Opened => {
                let now = self.now;
                self.node_mut(side).process.dialled = (now, false);
                self.content.journal.push(Happening::Connected { side });
                self.handle(side, Event::Connected);
            }
            Cargo::Message(message, stamps) => {
                let now = self.now;
                let unserved = is_turning_away(&message);
                let node = self.node_mut(side);
                // An attempt on which nothing but that came is one that failed: the peer does not serve the group.
                node.process.dialled.1 |= !unserved;
                node.process.read_at = Some(node.clock.read(now));
                if unserved {
                    self.content.journal.push(Happening::TurnedAway { side });
                }
                self.arrives(side, &message, &stamps);
                self.receive(side, message, stamps);
            }
            Cargo::Closed(why) => {
                let replaced =
                    self.wire.ends[side.index()].inbox.iter().any(|p| is_opening(&p.cargo));
                self.connection_over(side);
                if !replaced {
                    self.wire.close(side, false, "closed in turn");
                    self.dial_later(side, false);
                }
                self.handle(side, Event::Disconnected { why: why.into() });
            }
        }
    }

    /// A daemon reads what came for a group that it does not serve: it refuses a hello, and passes over the rest.
    fn turn_away(&mut self, side: Side, cargo: &Cargo) {
        let refused = matches!(cargo, Cargo::Message(Message::Hello(_), _));
        if refused {
            let text = NOT_SERVED.to_owned();
            self.send(side, Message::Goodbye { parting: Parting::Refused, text });
        }
        let replaced = self.wire.ends[side.index()].inbox.iter().any(|p| is_opening(&p.cargo));
        if refused || (matches!(cargo, Cargo::Closed(_)) && !replaced) {
            self.wire.close(side, false, "the group is not served");
            self.pump(side);
        }
    }

    fn arrives(&mut self, side: Side, message: &Message, stamps: &[Stamp]) {
        let item = match message {
            Message::Start(_) => {
                return self.content.journal.push(Happening::StreamBegins { side });
            }
            Message::Item(item) if item.kind == ItemKind::Same || item.kind.changes_data() => item,
            _ => return,
        };
        let places: Vec<_> = places(item.volume, item.extent).collect();
        let (at, volume, blocks) = (item.sequence, item.volume, places.len() as u32);
        let stamps = match item.kind {
            ItemKind::Same => Vec::new(),
            ItemKind::Write => stamps.to_vec(),
            _ => vec![Stamp::ZEROS; places.len()],
        };
        let first = places.first().map_or(0, |place| place.block);
        self.content.journal.push(Happening::Received { side, at, volume, first, blocks, stamps });
    }

    pub(crate) fn tell_event(&mut self, side: Side, event: &Event) {
        if self.content.telling
            && let Some(words) = words::of_event(event)
        {
            self.content.journal.push(Happening::Told { side, words });
        }
    }
}

fn is_turning_away(message: &Message) -> bool {
    matches!(message, Message::Goodbye { text, .. } if text == NOT_SERVED)
}

fn is_opening(cargo: &Cargo) -> bool {
    matches!(cargo, Cargo::Opened)
}
