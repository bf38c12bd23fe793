// SPDX-License-Identifier: Apache-2.0
//! Doing what the engine asks for, and telling it what came of it.

use crate::before::BeforeStep;
use crate::cluster::{Cluster, NodeDue};
use crate::disk::{Change, Dropped, Ended, Lied};
use crate::happening::{Died, Happening, Replied};
use crate::node::{Hook, Side};
use crate::wire::{Cargo, Parcel};
use crate::{Place, Stamp, digest, places, words};
use core::time::Duration;
use helio_engine::{
    Answer, Effect, Event, Keep, Operation, ReadAs, Request, Run, StoreOp, StoreOutcome,
};
use helio_format::frame::HEADER_BYTES;
use helio_format::message::{Item, ItemKind, Message, Parting, Ping};
use helio_ledger::{self as ledger, Kept};
use helio_units::{Bytes, Extent, IoId, Payload, Rate, RequestId, VolumeIndex};

/// What a daemon sends to a peer whose group it does not serve, as `app/daemon/src/shard/mod.rs` words it.
const NOT_SERVED: &str = "group db is not served on this node: it failed";

/// What a silent disk was asked for ends within this, in any order, once it is not silent any more.
const SILENCE_BREAKS: Duration = Duration::from_millis(200);

/// An operation under way on a node's disk.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) io: IoId,
    pub(crate) volume: VolumeIndex,
    pub(crate) op: StoreOp,
    pub(crate) read_as: ReadAs,
}

impl Cluster {
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
            self.push_node(now, side, NodeDue::Request(request));
        } else {
            self.handle(side, Event::Request(request));
        }
        true
    }

    /// The operator's hook is asked; how it behaves is the node's [`Hook`].
    fn ask_hook(&mut self, side: Side) {
        let Hook { takes, refuses } = self.node(side).hook;
        self.journal.push(Happening::HookAsked { slow: !takes.is_zero(), refuses });
        let refused = refuses.then(|| String::from("not now"));
        self.push_node(self.now + takes, side, NodeDue::Hook(refused));
    }

    /// Clients use these volumes of a node from now on, and no others. Returns false where no process listens.
    pub fn use_volumes(&mut self, side: Side, volumes: u64) -> bool {
        let now = self.now;
        let node = self.node(side);
        if !node.is_up() {
            return false;
        }
        if node.hangs(now) {
            self.push_node(now, side, NodeDue::Used(volumes));
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

    pub(crate) fn perform(&mut self, side: Side, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            self.tell_effect(side, &effect);
            match effect {
                Effect::Reply { request, answer } => self.reply(side, request, answer),
                Effect::Store { io, volume, op, read_as } => {
                    self.store(side, Io { io, volume, op, read_as });
                }
                Effect::Look { io, volume, extent, payload, read_as } => {
                    let op = StoreOp::Read { extent };
                    let pool = &mut self.node_mut(side).pool;
                    let stamps = pool.stamps(payload).to_vec();
                    pool.release(payload.id);
                    let outcome = self.report(side, Io { io, volume, op, read_as }, stamps);
                    self.handle(side, Event::StoreDone { io, outcome });
                }
                Effect::Send(message) => {
                    if let Message::Goodbye { parting: Parting::Protocol, text } = &message {
                        self.journal.push(Happening::Accused { side, words: text.clone() });
                    }
                    if let Message::Ping(Ping { token, .. }) = message {
                        self.journal.push(Happening::Pinged { side, token });
                    }
                    self.send(side, message);
                }
                Effect::Hangup { refused, .. } => {
                    self.connection_over(side);
                    self.wire.close(side, false, "the other end hung up");
                    self.pump(side);
                    self.dial_later(side, refused);
                }
                Effect::SaveSuperblock(superblock) => {
                    self.node_mut(side).saving = Some(superblock.clone());
                    self.keep(side, ledger::Change::Superblock(Box::new(superblock)));
                }
                Effect::Keep(Keep::Hot { ticket, add, remove }) => {
                    self.keep(side, ledger::Change::Hot { ticket, add, remove });
                }
                Effect::Keep(Keep::Marks { page, bits }) => {
                    self.keep(side, ledger::Change::Marks { page, bits });
                }
                Effect::Before(op) => {
                    let now = self.now;
                    let step = self.node_mut(side).before.begin(now, op);
                    self.before_stepped(side, step);
                }
                Effect::Release(id) => self.node_mut(side).pool.release(id),
                Effect::PauseReceiving(pause) => {
                    self.node_mut(side).paused = pause;
                    if !pause {
                        self.push_node(self.now, side, NodeDue::Drain);
                    }
                }
                Effect::CommandDone { id, result } => {
                    let result = result.map(|done| done.text);
                    self.journal.push(Happening::Commanded { side, id, result });
                }
                Effect::Note(note) => {
                    self.journal.push(Happening::Noted { side, words: note.text });
                }
                Effect::DismissClients => {}
                Effect::Stopped => self.stopped(side),
                Effect::AskHook => self.ask_hook(side),
            }
        }
    }

    fn reply(&mut self, side: Side, request: RequestId, answer: Answer) {
        let answer = match answer {
            Answer::Done(_) => Replied::Done,
            Answer::Denied(denial) => Replied::Denied(denial),
            Answer::Read(payload) => {
                let pool = &mut self.node_mut(side).pool;
                let stamps = pool.stamps(payload).to_vec();
                pool.release(payload.id);
                Replied::Read(stamps)
            }
        };
        self.journal.push(Happening::Replied { side, request, answer });
    }

    fn store(&mut self, side: Side, asked: Io) {
        let now = self.now;
        let Io { io, volume, op, .. } = asked;
        let node = &mut self.nodes[side.index()];
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
        if !node.disk.fits(op) {
            let words = format!("{op:?} of volume {}", volume.0);
            self.journal.push(Happening::Misfit { side, words });
        }
        let awaited = node.disk.awaits_overlap();
        let at = node.disk.begin(now, io, volume, op, stamps, leading);
        if awaited && !node.disk.awaits_overlap() {
            self.journal.push(Happening::FlushOverlapped);
        }
        if let Some(extent) = changed {
            let blocks: Vec<_> = places(volume, extent).collect();
            let stamps = stamps.map_or_else(|| vec![Stamp::ZEROS; blocks.len()], <[_]>::to_vec);
            let first = blocks.first().map_or(0, |place| place.block);
            self.journal.push(Happening::Issued { side, volume, first, stamps, leading });
        }
        self.damaged(side);
        self.push_node(at, side, NodeDue::StoreEnd(asked));
    }

    pub(crate) fn store_end(&mut self, side: Side, asked: Io) {
        let until = self.node(side).disk.silent_until(asked.volume);
        if self.now < until {
            let at =
                until + Duration::from_nanos(self.dice.below(SILENCE_BREAKS.as_nanos() as u64));
            return self.push_node(at, side, NodeDue::StoreEnd(asked));
        }
        let mut changes = Vec::new();
        let node = &mut self.nodes[side.index()];
        let ended = node.disk.end(asked.io, &mut changes);
        if let Some(Lied { lie, places }) = node.disk.take_lied() {
            self.journal.push(Happening::Lied { side, lie, places });
        }
        let io = asked.io;
        let outcome = match ended {
            Ended::Done => StoreOutcome::Done,
            Ended::Failed(fault) => StoreOutcome::Failed(fault),
            Ended::Empty(empty) => StoreOutcome::Empty(empty),
            Ended::Read(stamps) => self.report(side, asked, stamps),
        };
        self.damaged(side);
        self.changed(side, changes);
        self.handle(side, Event::StoreDone { io, outcome });
    }

    /// What the engine is to get of the blocks that were read.
    fn report(&mut self, side: Side, asked: Io, stamps: Vec<Stamp>) -> StoreOutcome {
        let Io { volume, op, read_as, .. } = asked;
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
                self.journal.extend(differ);
                StoreOutcome::Verified(runs)
            }
        }
    }

    /// What failures left on a node's disk since this was asked last.
    pub(crate) fn damaged(&mut self, side: Side) {
        let disk = &mut self.node_mut(side).disk;
        let (torn, dropped) = (disk.take_torn(), disk.take_dropped());
        if torn > 0 {
            self.journal.push(Happening::Torn { side });
        }
        if let Some(Dropped { volumes, hidden, visible }) = dropped {
            self.journal.push(Happening::Dropped { side, volumes, hidden, visible });
        }
    }

    /// A block of a node's disk silently turns into something else.
    pub fn rot(&mut self, side: Side, place: Place, stamp: Stamp) {
        self.node_mut(side).disk.rot(place, stamp);
    }

    pub(crate) fn changed(&mut self, side: Side, changes: Vec<Change>) {
        for Change { place, stamp, tag } in changes {
            self.journal.push(Happening::Changed { side, place, stamp, leading: tag });
        }
    }

    /// Sends a message through its bytes: what the decoder makes of them is what travels.
    fn send(&mut self, side: Side, message: Message) {
        let mut body = Vec::with_capacity(64);
        message.encode(&mut body);
        let length = message.payload_length();
        let stamps = match message.payload() {
            Some(payload) => self.node(side).pool.stamps(payload).to_vec(),
            None => Vec::new(),
        };
        if let Message::Item(item) = &message
            && item.kind.changes_data()
            && !item.resync
            && item.sequence > self.node(side).sent
        {
            self.node_mut(side).sent = item.sequence;
            let blocks: Vec<_> = places(item.volume, item.extent).collect();
            let stamps =
                if stamps.is_empty() { vec![Stamp::ZEROS; blocks.len()] } else { stamps.clone() };
            let first = blocks.first().map_or(0, |place| place.block);
            let (at, volume) = (item.sequence, item.volume);
            self.journal.push(Happening::Sent { side, at, volume, first, stamps });
        }
        if let Message::Ack(ack) = &message {
            self.journal.push(Happening::Reported { side, durable: ack.durable });
        }
        let size = Bytes((HEADER_BYTES + body.len()) as u64 + u64::from(length));
        let Ok(read) = Message::decode(message.code(), &body, length) else {
            panic!("{side} sends an unreadable message: {message:?}")
        };
        if self.wire.send(side, size, Cargo::Message(read, stamps)) {
            self.pump(side);
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
                self.node_mut(side).dialled = (now, false);
                self.journal.push(Happening::Connected { side });
                self.handle(side, Event::Connected);
            }
            Cargo::Message(mut message, stamps) => {
                let now = self.now;
                let unserved = is_turning_away(&message);
                let node = self.node_mut(side);
                // An attempt on which nothing but that came is one that failed: the peer does not serve the group.
                node.dialled.1 |= !unserved;
                node.read_at = Some(node.clock.read(now));
                if unserved {
                    self.journal.push(Happening::TurnedAway { side });
                }
                self.arrives(side, &message, &stamps);
                let digests =
                    matches!(&message, Message::Item(Item { kind: ItemKind::Verify, .. }));
                if message.payload().is_some() {
                    let pool = &mut self.node_mut(side).pool;
                    let payload =
                        if digests { pool.take_digests(stamps) } else { pool.take(stamps) };
                    message.name_payload(payload.id);
                }
                self.handle(side, Event::Message(message));
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
            Message::Start(_) => return self.journal.push(Happening::StreamBegins { side }),
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
        self.journal.push(Happening::Received { side, at, volume, first, blocks, stamps });
    }

    fn keep(&mut self, side: Side, change: ledger::Change) {
        let now = self.now;
        if let Some(at) = self.node_mut(side).metadata.keep(now, change) {
            self.push_node(at, side, NodeDue::MetadataStep);
        }
    }

    /// A step of the metadata file ends.
    pub(crate) fn metadata_step(&mut self, side: Side) {
        let now = self.now;
        let (kept, next) = self.node_mut(side).metadata.step(now);
        if let Some(at) = next {
            self.push_node(at, side, NodeDue::MetadataStep);
        }
        for kept in kept {
            let sequence = self.node(side).metadata.sequence();
            let event = match kept {
                Kept::Superblock { ok } => {
                    self.saved(side, ok);
                    Event::SuperblockSaved { ok, sequence }
                }
                Kept::Hot { ticket, ok } => {
                    Event::Kept { kept: helio_engine::Kept::Hot { ticket }, ok, sequence }
                }
                Kept::Marks { page, ok } => {
                    Event::Kept { kept: helio_engine::Kept::Marks { page }, ok, sequence }
                }
            };
            self.handle(side, event);
        }
    }

    pub(crate) fn before_step(&mut self, side: Side) {
        let (now, mut changes) = (self.now, Vec::new());
        let node = self.node_mut(side);
        let step = node.before.step(now, &mut node.disk, &mut changes);
        self.changed(side, changes);
        self.before_stepped(side, step);
    }

    fn before_stepped(&mut self, side: Side, step: BeforeStep) {
        match step {
            BeforeStep::At(at) => self.push_node(at, side, NodeDue::BeforeStep),
            BeforeStep::Over(outcome) => self.handle(side, Event::BeforeDone(outcome)),
        }
    }

    pub(crate) fn saved(&mut self, side: Side, ok: bool) {
        let node = self.node_mut(side);
        let saving = node.saving.take();
        if ok {
            node.saved = saving;
            self.journal.push(Happening::Saved { side });
        }
    }

    fn stopped(&mut self, side: Side) {
        self.end(side, Died::Stopped);
        self.wire.close(side, false, "the process ended");
        self.pump(side);
    }

    pub(crate) fn tell_event(&mut self, side: Side, event: &Event) {
        if self.telling
            && let Some(words) = words::of_event(event)
        {
            self.journal.push(Happening::Told { side, words });
        }
    }

    fn tell_effect(&mut self, side: Side, effect: &Effect) {
        if self.telling
            && let Some(words) = words::of_effect(effect)
        {
            self.journal.push(Happening::Told { side, words });
        }
    }
}

fn is_turning_away(message: &Message) -> bool {
    matches!(message, Message::Goodbye { text, .. } if text == NOT_SERVED)
}

fn is_opening(cargo: &Cargo) -> bool {
    matches!(cargo, Cargo::Opened)
}
