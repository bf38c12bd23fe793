// SPDX-License-Identifier: Apache-2.0
//! Short stories of one engine, most of them told first by the simulator, at the length of a thousand events.

use crate::*;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_format::copying::{Copying, Digest};
use helio_format::lineage::Lineage;
use helio_format::message::{
    Ack, Blocks, Hello, Item, ItemKind, Message, Parting, Ping, Ranges, Start,
};
use helio_format::report::Report;
use helio_format::superblock::Superblock;
use helio_units::{
    Bytes, Extent, Generation, IoId, Mode, Moment, Payload, PayloadId, RequestId, Role, Sequence,
    State, VolumeIndex,
};

const SIZE: Bytes = Bytes::kib(128);
const PEER: u64 = 77;

fn durable(superblock: Superblock) -> Durable {
    Durable { sequence: 1, ..Durable::new(superblock) }
}

/// An engine on a desk: everything it asks for lies in trays, and is done when the story says so.
struct Desk {
    engine: Engine,
    now: Moment,
    ios: VecDeque<(IoId, StoreOp, ReadAs)>,
    saves: VecDeque<Superblock>,
    keeps: VecDeque<Keep>,
    said: Vec<Message>,
    /// Questions of the copier's that the peer has not answered.
    asked: VecDeque<Copying>,
    /// Looks whether anything is stored somewhere, and what each says; where nobody wrote it down, something is.
    looks: VecDeque<IoId>,
    hollow: VecDeque<bool>,
    answers: Vec<(u64, bool)>,
    results: Vec<Result<String, Refusal>>,
    payloads: u64,
    /// How often the operator's hook was asked: the last question.
    hooks: u64,
    /// The metadata file cannot be written.
    unwritable: bool,
    /// Nothing is read from the peer.
    paused: bool,
    /// Payloads that the engine let go.
    released: Vec<PayloadId>,
}

impl Desk {
    fn new(config: Config) -> Self {
        Self::above(Stack::default(), config)
    }

    /// Above these layers.
    fn above(layers: Stack, config: Config) -> Self {
        let superblock = Superblock::new("db", "paris", [SIZE.0].into());
        let durable = Durable { layers, ..durable(superblock) };
        Self {
            engine: Engine::new(config, durable, 1, 1, Moment::ZERO),
            now: Moment::ZERO,
            ios: VecDeque::new(),
            saves: VecDeque::new(),
            keeps: VecDeque::new(),
            said: Vec::new(),
            asked: VecDeque::new(),
            looks: VecDeque::new(),
            hollow: VecDeque::new(),
            answers: Vec::new(),
            results: Vec::new(),
            payloads: 0,
            hooks: 0,
            unwritable: false,
            paused: false,
            released: Vec::new(),
        }
    }

    fn tell(&mut self, event: Event) {
        self.tell_together([event]);
    }

    /// Several events of one batch.
    fn tell_together<const N: usize>(&mut self, events: [Event; N]) {
        let mut effects = Vec::new();
        self.now = self.now + Duration::from_millis(1);
        for event in events {
            self.engine.handle(self.now, event, &mut effects);
        }
        self.settle(effects);
    }

    /// Settles a batch whose events brought those effects, and performs all of them.
    fn settle(&mut self, mut effects: Vec<Effect>) {
        self.engine.settle(self.now, &mut effects);
        self.engine.view().check_invariants();
        let (ok, mut layers) = (!self.unwritable, Vec::new());
        for effect in effects {
            match effect {
                Effect::Store { io, op: StoreOp::Map { .. }, .. } => self.looks.push_back(io),
                Effect::Store { io, op, read_as, .. } => self.ios.push_back((io, op, read_as)),
                Effect::SaveSuperblock(record) => self.saves.push_back(record),
                Effect::Send(message) => {
                    if let Message::Copying(talk @ Copying::DigestsWanted { .. }) = &message {
                        self.asked.push_back(talk.clone());
                    }
                    self.said.push(message);
                }
                Effect::Reply { request, answer } => {
                    self.answers.push((request.0, matches!(answer, Answer::Done(_))));
                }
                Effect::CommandDone { result, .. } => {
                    assert_eq!(result.as_ref().err().and_then(Refusal::flaw), None);
                    self.results.push(result.map(|done| done.text));
                }
                Effect::Keep(keep) => self.keeps.push_back(keep),
                Effect::AskHook(HookQuestion(question)) => self.hooks = question,
                Effect::PauseReceiving(paused) => self.paused = paused,
                Effect::Release(payload) => self.released.push(payload),
                // What a layer asks for, or read, is dealt with at once, and its payloads are equal.
                Effect::Look { io, extent, read_as, .. } => {
                    let outcome = self.looked(extent, read_as);
                    layers.push(Event::StoreDone { io, outcome });
                }
                Effect::Record(_) => layers.push(Event::Recorded { ok, sequence: 1 }),
                Effect::Compare { name, .. } => layers.push(Event::Compared { name, equal: true }),
                _ => {}
            }
        }
        layers.into_iter().for_each(|event| self.tell(event));
        self.keep();
    }

    /// The metadata file keeps hot extents and marks at once.
    fn keep(&mut self) {
        while let Some(keep) = self.keeps.pop_front() {
            let kept = keep.kept();
            let ok = !self.unwritable;
            self.tell(Event::Kept { kept, ok, sequence: 1 });
        }
        while let Some(io) = self.looks.pop_front() {
            let outcome = StoreOutcome::Empty(self.hollow.pop_front().unwrap_or(false));
            self.tell(Event::StoreDone { io, outcome });
        }
    }

    fn set_on_error(&mut self, on_error: OnError) {
        let config = Config { on_error, ..self.engine.turn.config().clone() };
        self.tell(Event::Reconfigure { config });
    }

    fn command(&mut self, command: Command) {
        self.tell(Event::Command { id: CommandId(0), command });
    }

    fn hear(&mut self, mut message: Message) {
        if let Message::Ack(ack) = &mut message
            && ack.stream == LATEST
        {
            ack.stream = self.last_start().stream;
        }
        self.tell(Event::Message(message));
    }

    fn ask(&mut self, id: u64, operation: Operation) {
        self.tell(Event::Request(Request { id: RequestId(id), volume: VolumeIndex(0), operation }));
    }

    fn write(&mut self, id: u64) {
        let payload = Payload { id: PayloadId(1000 + id), length: 4096 };
        let extent = Extent::new(4096 * id, 4096);
        self.ask(id, Operation::Write { extent, payload, fua: false });
    }

    fn save(&mut self, ok: bool) -> Superblock {
        let record = self.saves.pop_front().expect("a superblock is to be saved");
        self.tell(Event::SuperblockSaved { ok, sequence: 1 });
        record
    }

    /// The store does the first thing it was asked for.
    fn store(&mut self) {
        let (io, op, read_as) = self.ios.pop_front().expect("the store has something to do");
        let outcome = op.reads().map_or(StoreOutcome::Done, |extent| self.looked(extent, read_as));
        self.tell(Event::StoreDone { io, outcome });
    }

    /// What is found in zeros that are read like that.
    fn looked(&mut self, extent: Extent, read_as: ReadAs) -> StoreOutcome {
        match read_as {
            ReadAs::Unequal { .. } => StoreOutcome::Done,
            ReadAs::Digests { coarse } => StoreOutcome::Digests(digests(extent, coarse)),
            ReadAs::Runs { .. } | ReadAs::Differing { .. } => {
                StoreOutcome::Differing([Run { extent, payload: None }].into())
            }
            ReadAs::Bytes | ReadAs::BytesOrZero | ReadAs::DigestPayload => {
                let payload = self.payload(extent.length as u32);
                StoreOutcome::Read { payload, zero: true }
            }
        }
    }

    fn payload(&mut self, length: u32) -> Payload {
        self.payloads += 1;
        Payload { id: PayloadId(self.payloads), length }
    }

    /// The peer answers the copier's first question.
    fn tell_digests(&mut self) {
        let Some(Copying::DigestsWanted { volume, extent, coarse }) = self.asked.pop_front() else {
            panic!("nobody asked")
        };
        let list = digests(extent, coarse);
        self.hear(Message::Copying(Copying::Digests { volume, extent, coarse, list }));
    }

    /// The store and the peer do what they were asked for, until nothing is left.
    fn store_all(&mut self) {
        while !self.ios.is_empty() || !self.asked.is_empty() {
            if self.ios.is_empty() { self.tell_digests() } else { self.store() }
        }
    }

    fn acked(&mut self, upto: u64) {
        self.hear(ack(upto, upto));
    }

    /// A primary whose peer joined as new and has everything.
    fn replicating(mode: Mode) -> Self {
        Self::level(Config { mode, ..config() })
    }

    /// The same, with other settings.
    fn level(config: Config) -> Self {
        Self::primary(config).joined()
    }

    fn joined(self) -> Self {
        let mut desk = self;
        desk.meet(hello(Lineage::default(), true));
        desk.store_all();
        desk.acked(2);
        desk.acked(3);
        desk.save_all();
        assert_eq!(desk.engine.view().state(), State::Replicating);
        desk
    }

    fn primary(config: Config) -> Self {
        Self::new(config).promoted()
    }

    fn promoted(self) -> Self {
        let mut desk = self;
        desk.command(Command::Promote { force: true });
        desk.save(true);
        assert!(desk.engine.view().is_primary());
        desk
    }

    fn meet(&mut self, hello: Hello) {
        self.meet_before_saving(hello);
        self.save_all();
    }

    fn meet_before_saving(&mut self, hello: Hello) {
        self.tell(Event::Connected);
        self.hear(Message::Hello(hello));
    }

    /// Every record that is asked for is kept.
    fn save_all(&mut self) {
        while !self.saves.is_empty() {
            self.save(true);
        }
    }

    fn lose_link(&mut self) {
        self.asked.clear();
        self.tell(Event::Disconnected { why: String::from("cut") });
    }

    fn lineage(&self) -> Lineage {
        let hellos = self.said.iter().rev();
        let lineage = |m: &Message| match m {
            Message::Hello(hello) => Some(hello.lineage),
            _ => None,
        };
        hellos.filter_map(lineage).next().expect("it introduced itself")
    }

    fn last_start(&self) -> Start {
        let start = |m: &Message| match m {
            Message::Start(start) => Some(*start),
            _ => None,
        };
        self.said.iter().rev().find_map(start).expect("a stream began")
    }

    /// The generation its record says.
    fn lineage_now(&self) -> Lineage {
        self.engine.record.superblock().lineage
    }

    fn accuses(&self) -> bool {
        let offended =
            |m: &Message| matches!(m, Message::Goodbye { parting: Parting::Protocol, .. });
        self.said.iter().any(offended)
    }
}

fn digests(extent: Extent, coarse: bool) -> Vec<Digest> {
    alloc::vec![[0; 16]; extent.length.div_ceil(digest_piece(coarse).0) as usize]
}

fn config() -> Config {
    let plain = Config::new("db", "paris", "lyon", [SIZE].into());
    Config { names: [String::from("data")].into(), on_error: OnError::Pass, ..plain }
}

/// A secondary's.
fn hello(lineage: Lineage, consistent: bool) -> Hello {
    Hello {
        group: "db".into(),
        node: "lyon".into(),
        incarnation: PEER,
        role: Role::Secondary,
        serving: false,
        clean: true,
        consistent,
        wrote: false,
        alone: false,
        trusted: true,
        doubts: false,
        discarded: false,
        suspect: false,
        keeps: false,
        lineage,
        head: Sequence::ZERO,
        received: Sequence::ZERO,
        durable: Sequence::ZERO,
        sure: true,
        granularity: REGION.0 as u32,
        // One that follows, or did, has recorded that.
        metadata: if lineage.generation == Generation::NONE { 1 } else { 2 },
        remembers: 0,
        sizes: [SIZE.0].into(),
        blocks: [Blocks { member: 512, volume: 512 }].into(),
        report: Report::default(),
    }
}

/// In an acknowledgement: the stream that this node began last.
const LATEST: u32 = u32::MAX;

fn ack(received: u64, rest: u64) -> Message {
    ack_of(LATEST, received, rest)
}

fn ack_of(stream: u32, received: u64, rest: u64) -> Message {
    let (received, completed, durable) = (Sequence(received), Sequence(rest), Sequence(rest));
    Message::Ack(Ack { stream, received, completed, durable, ranges: Ranges::default() })
}

fn generation(number: u64) -> Lineage {
    Lineage::default().fork(Generation { number, tag: number }, Sequence::ZERO)
}

fn item(sequence: u64) -> Message {
    Message::Item(Item {
        sequence: Sequence(sequence),
        after: Sequence(sequence - 1),
        kind: ItemKind::Zero,
        fua: false,
        punch: false,
        resync: false,
        volume: VolumeIndex(0),
        extent: Extent::new(4096 * sequence, 4096),
        payload: None,
    })
}

/// A stream begins to one of whom nothing is known, and nothing is to be kept.
fn start(lineage: Lineage, from: u64, consistent: bool) -> Start {
    Start {
        lineage,
        from: Sequence(from),
        consistent,
        keep: false,
        whole: true,
        to_copy: 0,
        stream: 1,
        ships: false,
    }
}

/// A follower that a primary streams to, from item 1 on.
fn follower(lineage: Lineage, consistent: bool) -> Desk {
    let mut desk = Desk::new(config());
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(lineage, true) });
    desk.hear(Message::Start(start(lineage, 1, consistent)));
    // What an earlier process wrote is flushed first.
    desk.store_all();
    desk
}

#[test]
fn a_follower_tells_what_nobody_waits_for_a_little_later() {
    let acks = |desk: &Desk| desk.said.iter().filter(|m| matches!(m, Message::Ack(_))).count();
    let mut desk = follower(generation(1), true);
    desk.save(true);
    let before = acks(&desk);
    desk.hear(item(1));
    assert_eq!(acks(&desk), before, "in {:?} nobody waits for what was received", config().mode);
    let due = desk.engine.view().deadline();
    assert!(due <= desk.now + Duration::from_millis(10), "it is told by {due:?}");
    (0..10).for_each(|_| desk.tell_together([]));
    assert_eq!(acks(&desk), before + 1);
}

#[test]
fn a_write_in_sync_is_answered_when_the_peer_completed_it() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    desk.store_all();
    desk.hear(ack(4, 3));
    assert_eq!(desk.answers, [], "answered when the peer only received it");
    desk.acked(4);
    assert_eq!(desk.answers, [(1, true)]);
}

#[test]
fn a_flush_that_an_update_overtakes_is_answered() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Pause);
    desk.ask(1, Operation::Flush);
    let (flush, ..) = desk.ios.pop_front().expect("the flush is under way");
    desk.command(Command::Resync);
    desk.store_all();
    for at in 5..9 {
        let head = desk.engine.view().status(desk.now).cursors.head;
        desk.acked(head.0.min(at));
    }
    assert_eq!(desk.engine.view().state(), State::Replicating);
    desk.tell(Event::StoreDone { io: flush, outcome: StoreOutcome::Done });
    assert_eq!(desk.answers, [(1, true)], "nobody owes a word about it any more");
}

#[test]
fn a_primary_leaves_although_writers_wait_for_a_peer_that_is_away() {
    let (memory, disconnected) = (Some(Bytes(4096)), WhenFull::Block);
    let queue = QueueConfig { memory, disconnected, ..QueueConfig::default() };
    let mut desk = Desk::replicating(Mode::Async);
    desk.tell(Event::Reconfigure { config: Config { queue, ..config() } });
    desk.lose_link();
    desk.write(1);
    desk.store_all();
    desk.write(2);
    assert_eq!(desk.answers, [(1, true)], "the queue is full, and writers are to wait");
    desk.command(Command::Demote);
    desk.tell(Event::Tick);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true), (2, true)]);
    let record = desk.save(true);
    assert_eq!((record.role, record.equal), (Role::Secondary, false));
}

#[test]
fn a_demotion_that_may_be_on_disk_is_not_taken_back() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(Command::Demote);
    desk.store_all();
    desk.save(false);
    assert!(!desk.engine.view().is_primary(), "the file may say that it left, and it writes on");
    desk.command(Command::Promote { force: true });
    let refused = desk.results.last().and_then(|r| r.as_ref().err()).map(|refusal| refusal.code);
    assert_eq!(refused, Some("metadata-failed"));
}

#[test]
fn a_stop_whose_last_flush_failed_is_not_clean() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(Command::Stop);
    let (io, op, _) = desk.ios.pop_front().expect("it flushes before it stops");
    assert_eq!(op, StoreOp::Flush);
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    assert!(!desk.save(true).clean);
}

#[test]
fn a_follower_is_silent_until_a_stream_begins() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.lose_link();
    desk.store_all();
    let before = desk.said.len();
    let newer = generation(1).fork(Generation { number: 2, tag: 2 }, Sequence::ZERO);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(newer, true) });
    let acks = desk.said[before..].iter().filter(|m| matches!(m, Message::Ack(_))).count();
    assert_eq!(acks, 0, "it told the primary of another line how far it is");
}

#[test]
fn a_start_that_arrives_while_another_is_recorded_is_next() {
    let mut desk = follower(generation(1), false);
    desk.lose_link();
    desk.meet_before_saving(Hello {
        serving: true,
        role: Role::Primary,
        ..hello(generation(1), true)
    });
    desk.hear(Message::Start(start(generation(1), 9, false)));
    desk.save(true);
    assert_eq!(desk.save(true).head, Sequence(8));
    desk.hear(item(9));
    assert!(!desk.accuses());
    assert_eq!(desk.engine.view().status(desk.now).cursors.head, Sequence(9));
}

#[test]
fn a_start_on_its_way_to_the_record_stops_a_promotion() {
    let mut desk = follower(generation(1), false);
    desk.lose_link();
    desk.command(Command::Promote { force: true });
    desk.save(true);
    assert!(desk.saves.is_empty() && !desk.engine.view().is_primary());
    let refused = desk.results.last().and_then(|r| r.as_ref().err()).map(|refusal| refusal.code);
    assert_eq!(refused, Some("needs-sync"));
}

#[test]
fn a_hello_before_our_own_role_is_settled_waits() {
    let mut desk = Desk::new(config());
    desk.command(Command::Promote { force: true });
    desk.meet_before_saving(hello(Lineage::default(), true));
    assert!(!desk.accuses());
    desk.save_all();
    assert!(desk.said.iter().any(|m| matches!(m, Message::Ping(_))));
    assert_eq!(desk.last_start().from, Sequence(1));
}

/// A primary that is updating a new peer, its questions asked and not answered.
fn updating() -> Desk {
    let mut desk = Desk::primary(config());
    desk.meet(hello(Lineage::default(), true));
    desk
}

fn kinds(desk: &Desk) -> Vec<(ItemKind, u64)> {
    let item = |m: &Message| match m {
        Message::Item(item) => Some((item.kind, item.extent.length)),
        _ => None,
    };
    desk.said.iter().filter_map(item).collect()
}

#[test]
fn a_region_that_is_equal_is_told_so_and_its_mark_ends_when_that_is_durable() {
    let mut desk = updating();
    desk.tell_digests();
    for _ in 0..2 {
        let (io, _, read_as) = desk.ios.pop_front().expect("a region is compared");
        assert!(matches!(read_as, ReadAs::Differing { .. }), "{read_as:?}");
        desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing(Vec::new()) });
    }
    assert_eq!(kinds(&desk), [(ItemKind::Same, 65536), (ItemKind::Same, 65536)]);
    let (received, completed, durable) = (Sequence(2), Sequence(2), Sequence(1));
    let ranges = Ranges::default();
    desk.hear(Message::Ack(Ack { stream: LATEST, received, completed, durable, ranges }));
    assert_eq!(desk.engine.view().status(desk.now).marked, [Bytes::kib(64)]);
    desk.acked(2);
    assert_eq!(desk.engine.view().status(desk.now).marked, [Bytes::ZERO]);
}

#[test]
fn a_mark_ends_with_the_last_of_its_runs() {
    let mut desk = updating();
    desk.tell_digests();
    let (io, ..) = desk.ios.pop_front().expect("a region is compared");
    let run = |desk: &mut Desk, at| Run {
        extent: Extent::new(at, 4096),
        payload: Some(desk.payload(4096)),
    };
    let runs = [run(&mut desk, 0), run(&mut desk, 8192)];
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing(runs.into()) });
    assert_eq!(kinds(&desk), [(ItemKind::Write, 4096), (ItemKind::Write, 4096)]);
    desk.acked(1);
    assert_eq!(desk.engine.view().status(desk.now).marked, [Bytes::kib(128)]);
    desk.acked(2);
    assert_eq!(desk.engine.view().status(desk.now).marked, [Bytes::kib(64)]);
}

#[test]
fn digests_nobody_asked_for_end_the_connection() {
    let mut desk = updating();
    let extent = Extent::new(4096, 4096);
    let list = digests(extent, false);
    let told = Copying::Digests { volume: VolumeIndex(0), extent, coarse: false, list };
    desk.hear(Message::Copying(told));
    assert!(desk.accuses());
}

#[test]
fn an_answer_to_a_question_of_the_stream_before_is_no_offence_and_used_for_nothing() {
    let mut desk = updating();
    desk.command(Command::Pause);
    desk.command(Command::Resync);
    desk.tell_digests();
    assert!(!desk.accuses());
    assert!(desk.ios.is_empty(), "digests from before the stream were compared with");
    desk.tell_digests();
    assert_eq!(desk.ios.len(), 2);
}

mod accept;
mod ask;
mod before;
mod blocks;
mod bound;
mod complete;
mod conversation;
mod cross;
mod digests;
mod figures;
mod flush;
mod following;
mod invalid;
mod lack;
mod lease;
mod lose;
mod metadata;
mod one_node;
mod pause;
mod refusals;
mod replace;
mod reports;
mod roles;
mod seed;
mod sets;
mod silence;
mod streams;
mod survey;
mod suspect;
mod switch;
mod verdict;
mod verified;
mod verify;
mod volumes;
