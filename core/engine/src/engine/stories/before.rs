// SPDX-License-Identifier: Apache-2.0
//! Stories of a follower that keeps its last consistent image.

use crate::*;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use helio_format::before::{CHUNK_BYTES, KeptImage, PAGE_BYTES};
use helio_format::copying::Copying;
use helio_format::lineage::Lineage;
use helio_format::message::{Hello, Item, ItemKind, Message, Start};
use helio_format::report::Report;
use helio_format::superblock::Superblock;
use helio_ledger::BeforeKept;
use helio_snapshot::Snapshot;
use helio_stack::Layer;
use helio_units::{
    Bytes, Extent, Generation, IoId, Mode, Moment, Payload, PayloadId, RequestId, Role, Sequence,
    VolumeIndex,
};

const SIZE: Bytes = Bytes::mib(1);
/// A preserved chunk and its page in the pool.
const RECORD_BYTES: u64 = CHUNK_BYTES + PAGE_BYTES as u64;

mod ending;
mod several;

/// A secondary above the layer that preserves copies: what they ask for lies in trays.
struct Desk {
    engine: Engine,
    now: Moment,
    pools: Vec<PoolOp>,
    ios: Vec<(IoId, StoreOp)>,
    saves: Vec<Superblock>,
    said: Vec<Message>,
    refused: Vec<&'static str>,
    logged: Vec<String>,
    gone: bool,
    payloads: u64,
}

fn chunk(number: u64) -> Extent {
    Extent::new(number * CHUNK_BYTES, CHUNK_BYTES)
}

/// A record of a node that holds item 7 of the first generation.
fn record(consistent: bool) -> Superblock {
    let mut record = Superblock::new("db", "lyon", [SIZE.0].into());
    (record.lineage, record.consistent, record.head) = (generation(1), consistent, Sequence(7));
    record.marks_void = false;
    record
}

fn generation(number: u64) -> Lineage {
    Lineage::default().fork(Generation { number, tag: number }, Sequence::ZERO)
}

fn paris(serving: bool) -> Hello {
    Hello {
        group: "db".into(),
        node: "paris".into(),
        incarnation: 9,
        role: Role::Primary,
        serving,
        clean: true,
        consistent: true,
        wrote: true,
        alone: true,
        trusted: true,
        doubts: false,
        discarded: false,
        suspect: false,
        sure: true,
        lineage: generation(1),
        head: Sequence(20),
        received: Sequence::ZERO,
        durable: Sequence::ZERO,
        granularity: 65536,
        metadata: 1,
        remembers: 0,
        sizes: [SIZE.0].into(),
        blocks: [helio_format::message::Blocks { member: 512, volume: 512 }].into(),
        report: Report::default(),
    }
}

impl Desk {
    /// A consistent copy, with at most so many bytes for before-images.
    fn new(bound: Option<Bytes>) -> Self {
        Self::of(record(true), bound, None)
    }

    /// The pool holds the first chunk of an image of item 3.
    fn finding(record: Superblock) -> Self {
        Self::finding_in(record, 0)
    }

    fn finding_in(record: Superblock, number: u64) -> Self {
        let image = KeptImage { head: Sequence(3), lineage: generation(1), ..KeptImage::default() };
        let chunks = vec![(VolumeIndex(0), chunk(number))];
        Self::of(record, None, Some(BeforeKept { image, chunks, damaged: false }))
    }

    fn of(record: Superblock, bound: Option<Bytes>, found: Option<BeforeKept>) -> Self {
        Self::sized((SIZE, crate::config::HOT_EXTENTS), record, bound, found)
    }

    /// A volume of that size, of which so many extents may be hot.
    fn sized(
        (size, hot_extents): (Bytes, u32),
        record: Superblock,
        bound: Option<Bytes>,
        found: Option<BeforeKept>,
    ) -> Self {
        let layers = vec![Snapshot::new(&[size], found.as_ref()).boxed()];
        let mut desk = Self::above(layers, (size, hot_extents), record, bound);
        found.into_iter().for_each(|found| desk.tell(Event::BeforeFound(Box::new(found))));
        desk
    }

    fn above(
        layers: Vec<Box<dyn Layer>>,
        (size, hot_extents): (Bytes, u32),
        record: Superblock,
        bound: Option<Bytes>,
    ) -> Self {
        let config = Config {
            group: "db".into(),
            node: "lyon".into(),
            peer: "paris".into(),
            volumes: [size].into(),
            names: Vec::new(),
            mode: Mode::Async,
            queue: QueueConfig::default(),
            peer_timeout: Duration::from_secs(6),
            flush_limit: Duration::from_secs(60),
            member_timeout: Duration::from_secs(120),
            autosync: true,
            granularity: crate::config::REGION,
            hot_extents,
            resync: ResyncConfig::default(),
            safe_copy: SafeCopy::On { bound },
            on_error: OnError::Pass,
            hook_before_sync: false,
            hold: core::time::Duration::ZERO,
        };
        let layers = Stack::new(layers);
        let durable = Durable { sequence: 1, layers, ..Durable::new(record) };
        Self {
            engine: Engine::new(config, durable, 1, 1, Moment::ZERO),
            now: Moment::ZERO,
            pools: Vec::new(),
            ios: Vec::new(),
            saves: Vec::new(),
            said: Vec::new(),
            refused: Vec::new(),
            logged: Vec::new(),
            gone: false,
            payloads: 0,
        }
    }

    fn tell(&mut self, event: Event) {
        let (mut effects, mut keeps, mut records) = (Vec::new(), Vec::new(), 0);
        self.now = self.now + Duration::from_millis(1);
        self.engine.handle(self.now, event, &mut effects);
        self.engine.settle(self.now, &mut effects);
        while self.engine.local.layers_deadline() <= self.now {
            self.engine.handle(self.now, Event::Tick, &mut effects);
            self.engine.settle(self.now, &mut effects);
        }
        for effect in effects {
            match effect {
                Effect::Pool(op) => self.pools.push(op),
                Effect::Store { io, op, .. } => self.ios.push((io, op)),
                Effect::Keep(keep) => keeps.push(keep),
                Effect::Record(_) => records += 1,
                Effect::SaveSuperblock(record) => self.saves.push(record),
                Effect::Send(message) => self.said.push(message),
                Effect::Hangup { .. } => self.gone = true,
                Effect::Note(note) => self.logged.push(note.text),
                Effect::CommandDone { result: Err(refusal), .. } => self.refused.push(refusal.code),
                _ => {}
            }
        }
        // The metadata file keeps hot extents and marks at once.
        for keep in keeps {
            let kept = keep.kept();
            self.tell(Event::Kept { kept, ok: true, sequence: 1 });
        }
        (0..records).for_each(|_| self.tell(Event::Recorded { ok: true, sequence: 1 }));
    }

    fn meet(&mut self) {
        self.meet_as(true);
    }

    fn meet_as(&mut self, serving: bool) {
        self.tell(Event::Connected);
        self.tell(Event::Message(Message::Hello(paris(serving))));
    }

    /// The peer starts with an item that follows this consistent copy.
    fn start_in_order(&mut self) {
        let (lineage, from) = (generation(1), Sequence(21));
        let (consistent, keep, whole, to_copy, stream) = (true, false, false, 0, 1);
        let start = Start { lineage, from, consistent, keep, whole, to_copy, stream };
        self.tell(Event::Message(Message::Start(start)));
    }

    fn start(&mut self, keep: bool) {
        let (lineage, from) = (generation(1), Sequence(21));
        let start = Start {
            lineage,
            from,
            consistent: false,
            keep,
            whole: false,
            to_copy: 2 * CHUNK_BYTES,
            stream: 1,
        };
        self.tell(Event::Message(Message::Start(start)));
    }

    /// The source answers alone from there on: it goes on behind what it sent, in another generation.
    fn go_on(&mut self, from: u64, consistent: bool) {
        let lineage = generation(1).fork(generation(2).generation, Sequence(from - 1));
        let (from, whole) = (Sequence(from), false);
        let (keep, to_copy) = (!consistent, 0);
        let start = Start { lineage, from, consistent, keep, whole, to_copy, stream: 2 };
        self.tell(Event::Message(Message::Start(start)));
    }

    /// Seven of eight items wait for room, which the pool may not have.
    fn short() -> Self {
        let mut desk = Self::bounded();
        desk.preserve();
        desk.store_all();
        assert_eq!(desk.no_room(), Some((8 * RECORD_BYTES, 6 * RECORD_BYTES)), "seven items wait");
        desk
    }

    /// The same, before it knows.
    fn bounded() -> Self {
        let mut desk = Self::keeping_of(record(true), Some(Bytes(6 * RECORD_BYTES)));
        (0..8).for_each(|n| desk.zero(21 + n, n));
        desk
    }

    fn item(&mut self, sequence: u64, kind: ItemKind, extent: Extent) {
        let (sequence, after) = (Sequence(sequence), Sequence(20));
        let volume = VolumeIndex(0);
        let (fua, punch, resync, payload) = (false, false, true, None);
        let item = Item { sequence, after, kind, fua, punch, resync, volume, extent, payload };
        self.tell(Event::Message(Message::Item(item)));
    }

    fn zero(&mut self, sequence: u64, chunk: u64) {
        self.item(sequence, ItemKind::Zero, Extent::new(chunk * CHUNK_BYTES, 4096));
    }

    /// The pool ends what it was asked for.
    fn pool(&mut self, outcome: PoolOutcome) -> PoolOp {
        let op = self.pools.remove(0);
        self.tell(Event::PoolDone(outcome));
        op
    }

    /// There is room, and all volumes are flushed. Returns the label under which the copy is cut, and the room.
    fn cut(&mut self) -> (KeptImage, u64) {
        let PoolOp::Reserve { chunks } = self.pool(PoolOutcome::Done) else {
            panic!("room is reserved")
        };
        assert_eq!(self.store(StoreOutcome::Done), StoreOp::Flush);
        let PoolOp::Begin { label } = self.pool(PoolOutcome::Done) else { panic!("a copy is cut") };
        (*label, chunks)
    }

    /// The chunk that is read next is preserved.
    fn preserve(&mut self) -> Extent {
        let is_read = |(_, op): &(IoId, StoreOp)| op.reads().is_some();
        let at = self.ios.iter().position(is_read).expect("a chunk is read");
        let (io, op) = self.ios.remove(at);
        let extent = op.reads().expect("a read has an extent");
        let payload = self.payload(extent);
        self.tell(Event::StoreDone { io, outcome: StoreOutcome::Read { payload, zero: false } });
        let PoolOp::Append { rows } = self.pool(PoolOutcome::Done) else { panic!("it is kept") };
        assert_eq!(rows, [Row { volume: VolumeIndex(0), extent, payload }]);
        extent
    }

    /// What is preserved, these chunks, is checked and written back.
    fn put_back(&mut self, chunks: &[u64]) {
        assert_eq!(self.pool(PoolOutcome::Done), PoolOp::Check);
        let row = |number: &u64| {
            let (volume, extent) = (VolumeIndex(0), chunk(*number));
            Row { volume, extent, payload: self.payload(extent) }
        };
        let rows: Vec<Row> = chunks.iter().map(row).collect();
        if !rows.is_empty() {
            assert!(matches!(self.pool(PoolOutcome::Loaded(rows.clone())), PoolOp::Load { .. }));
        }
        for Row { extent, payload, .. } in rows {
            let write = StoreOp::Write { extent, payload, fua: false };
            assert_eq!(self.store(StoreOutcome::Done), write);
        }
        assert!(matches!(self.pool(PoolOutcome::Loaded(Vec::new())), PoolOp::Load { .. }));
    }

    /// The same, and flushed.
    fn restore(&mut self, chunks: &[u64]) {
        self.put_back(chunks);
        assert_eq!(self.store(StoreOutcome::Done), StoreOp::Flush);
    }

    fn payload(&mut self, extent: Extent) -> Payload {
        self.payloads += 1;
        Payload { id: PayloadId(self.payloads), length: extent.length as u32 }
    }

    /// The store ends the first thing it was asked for.
    fn store(&mut self, outcome: StoreOutcome) -> StoreOp {
        let (io, op) = self.ios.remove(0);
        self.tell(Event::StoreDone { io, outcome });
        op
    }

    /// Whether the store was asked to change anything.
    fn changes(&self) -> bool {
        self.ios.iter().any(|(_, op)| op.changes().is_some())
    }

    fn save(&mut self) -> Superblock {
        let record = self.saves.remove(0);
        self.tell(Event::SuperblockSaved { ok: true, sequence: 1 });
        record
    }

    fn store_all(&mut self) {
        while !self.ios.is_empty() {
            self.store(StoreOutcome::Done);
        }
    }

    /// It follows an update and keeps its image at item 7.
    fn keeping() -> Self {
        Self::keeping_of(record(true), None)
    }

    fn keeping_of(record: Superblock, bound: Option<Bytes>) -> Self {
        let mut desk = Self::of(record, bound, None);
        desk.meet();
        desk.start(true);
        assert_eq!(desk.cut().1, 2, "room for what is copied");
        assert!(!desk.save().consistent);
        desk
    }

    /// It lost its peer, and is to go back to its image.
    fn restoring(&mut self) {
        self.tell(Event::Disconnected { why: String::from("cut") });
        self.command(Command::Restore { force: true });
    }

    fn no_room(&self) -> Option<(u64, u64)> {
        self.said.iter().find_map(|message| match message {
            Message::Copying(Copying::NoRoom { wanted, free }) => Some((*wanted, *free)),
            _ => None,
        })
    }

    /// The configuration is applied again with that bound.
    fn bound(&mut self, bound: Option<Bytes>) {
        let config = self.engine.turn.config().clone();
        self.tell(Event::Reconfigure {
            config: Config { safe_copy: SafeCopy::On { bound }, ..config },
        });
    }

    fn command(&mut self, command: Command) {
        self.tell(Event::Command { id: CommandId(1), command });
    }
}

#[test]
fn nothing_is_overwritten_before_it_is_kept() {
    let mut desk = Desk::keeping();
    desk.zero(21, 3);
    desk.zero(22, 5);
    assert!(!desk.changes(), "the store was told before the chunk was kept");
    let (io, op) = desk.ios.remove(0);
    assert_eq!(op, StoreOp::Read { extent: chunk(3) });
    let payload = desk.payload(chunk(3));
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Read { payload, zero: false } });
    assert!(!desk.changes(), "it is not durable yet");
    let PoolOp::Append { rows } = desk.pool(PoolOutcome::Done) else { panic!("it is kept") };
    assert_eq!(rows, [Row { volume: VolumeIndex(0), extent: chunk(3), payload }]);
    let changed = desk.ios.iter().filter_map(|(_, op)| op.changes()).map(|extent| extent.offset);
    assert_eq!(changed.collect::<Vec<_>>(), [3 * CHUNK_BYTES]);
    assert_eq!(desk.preserve(), chunk(5));
}

#[test]
fn without_room_nothing_is_adopted_and_the_source_hears_why() {
    let mut desk = Desk::new(None);
    desk.meet();
    desk.start(true);
    desk.pool(PoolOutcome::NoRoom { free: Bytes(4096) });
    assert_eq!(desk.no_room(), Some((2 * RECORD_BYTES, 4096)));
    desk.zero(21, 1);
    assert!(desk.saves.is_empty() && desk.ios.is_empty() && !desk.gone);
    desk.start(false);
    assert!(!desk.save().consistent, "given up, it goes on without");
}

#[test]
fn without_room_for_one_more_chunk_applying_stops_and_the_source_hears_how_much_is_wanted() {
    let mut desk = Desk::keeping();
    for (sequence, chunk) in [(21, 3), (22, 5)] {
        desk.zero(sequence, chunk);
        desk.preserve();
    }
    desk.store_all();
    desk.zero(23, 7);
    let refused = desk.pool(PoolOutcome::NoRoom { free: Bytes(2 * RECORD_BYTES) });
    assert_eq!(refused, PoolOp::Reserve { chunks: 3 });
    assert!(!desk.changes(), "what is refused is not applied");
    assert_eq!(desk.pools, [], "there is no smaller room that would do");
    assert_eq!(desk.no_room(), Some((3 * RECORD_BYTES, 2 * RECORD_BYTES)));
}

#[test]
fn a_kept_image_says_whether_its_node_wrote_and_answered_alone() {
    for (wrote, alone) in [(false, false), (true, false), (false, true)] {
        let mut desk = Desk::of(Superblock { wrote, alone, ..record(true) }, None, None);
        let lineage = generation(1).fork(generation(2).generation, Sequence(7));
        desk.tell(Event::Connected);
        desk.tell(Event::Message(Message::Hello(Hello { lineage, ..paris(true) })));
        let (from, consistent, keep, whole) = (Sequence(21), false, true, false);
        let start = Start { lineage, from, consistent, keep, whole, to_copy: 1, stream: 1 };
        desk.tell(Event::Message(Message::Start(start)));
        let (image, _) = desk.cut();
        assert_eq!((image.wrote, image.alone, image.lineage), (wrote, alone, generation(1)));
    }
}

#[test]
fn a_bound_is_a_want_of_room_too() {
    let bound = Bytes(RECORD_BYTES);
    let mut desk = Desk::new(Some(bound));
    desk.meet();
    desk.start(true);
    assert_eq!(desk.no_room(), Some((2 * RECORD_BYTES, bound.0)));
    assert!(desk.pools.is_empty() && desk.saves.is_empty());
}

#[test]
fn a_bound_that_is_changed_counts_from_the_next_item_on() {
    for (before, after) in [(3, 2), (2, 3)] {
        let bound = |chunks| Some(Bytes(chunks * RECORD_BYTES));
        let mut desk = Desk::keeping_of(record(true), bound(before));
        for (sequence, chunk) in [(21, 3), (22, 5)] {
            desk.zero(sequence, chunk);
            desk.preserve();
        }
        desk.bound(bound(after));
        desk.zero(23, 7);
        assert_eq!(desk.no_room().is_some(), after == 2, "{before}, then {after}");
    }
}

#[test]
fn a_copy_that_never_was_consistent_keeps_nothing() {
    for (lineage, consistent) in [(Lineage::default(), true), (generation(1), false)] {
        let mut desk = Desk::of(Superblock { lineage, ..record(consistent) }, None, None);
        desk.meet();
        desk.start(true);
        assert!(desk.pools.is_empty());
        assert!(!desk.save().consistent);
    }
}

#[test]
fn an_inconsistent_copy_goes_on_with_what_it_keeps() {
    let mut desk = Desk::finding(record(false));
    desk.meet();
    desk.start(true);
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { chunks: 3 });
    desk.save();
    desk.zero(21, 0);
    assert!(desk.ios.len() == 1 && desk.changes(), "what is kept already is not kept again");
}

/// Otherwise a crash between the two would leave a copy that is not consistent and cannot be restored.
#[test]
fn a_stream_in_order_is_recorded_before_the_keeping_ends() {
    let mut desk = Desk::finding(record(false));
    desk.meet();
    desk.start_in_order();
    desk.store_all();
    assert!(desk.pools.is_empty(), "{:?}", desk.pools);
    assert!(desk.save().consistent);
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::End);
}

/// An earlier process may have failed to end the preserved copy. Then that lacks what was overwritten since.
#[test]
fn what_was_kept_of_a_copy_that_is_suspect_and_recorded_as_consistent_is_not_kept_on() {
    let mut desk = Desk::finding(Superblock { suspect: 1, ..record(true) });
    desk.meet();
    desk.start(true);
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::End);
    assert_eq!(desk.pools, []);
    assert!(!desk.save().consistent, "the start is adopted");
    desk.restoring();
    assert_eq!(desk.refused.len(), 1, "there is nothing to go back to");
}

#[test]
fn a_stream_that_goes_on_behind_items_let_go_for_want_of_room_is_not_taken_up() {
    for (missed, consistent) in [(0, true), (2, true), (2, false)] {
        let mut desk = Desk::short();
        (0..missed).for_each(|n| desk.zero(29 + n, 1));
        assert!(!desk.gone);
        desk.go_on(29 + missed, consistent);
        assert!(desk.gone, "{missed} items were let go");
        assert!(desk.saves.is_empty());
    }
}

#[test]
fn a_source_that_went_on_in_order_before_the_room_ran_out_is_met_again() {
    let mut desk = Desk::bounded();
    desk.go_on(29, true);
    desk.preserve();
    desk.store_all();
    assert!(desk.no_room().is_some() && desk.gone);
}

#[test]
fn an_update_that_begins_anew_after_a_want_of_room_is_taken() {
    let mut desk = Desk::short();
    desk.zero(29, 1);
    desk.go_on(40, false);
    assert!(!desk.gone);
}

#[test]
fn without_force_the_peer_is_asked_about_the_kept_image() {
    let mut desk = Desk::keeping();
    desk.tell(Event::Disconnected { why: String::from("cut") });
    desk.meet_as(false);
    desk.command(Command::Restore { force: false });
    let asked = desk.said.iter().find_map(|message| match message {
        Message::PromoteRequest { generation, durable } => Some((*generation, *durable)),
        _ => None,
    });
    assert_eq!(asked, Some((generation(1).generation, Sequence(7))));
    desk.tell(Event::Message(Message::PromoteReply { granted: true, text: String::new() }));
    assert!(desk.save().marks_void);
}

#[test]
fn a_flush_of_a_member_that_fails_before_an_image_is_kept_makes_the_copy_suspect() {
    let mut desk = Desk::new(None);
    desk.meet();
    desk.start(true);
    desk.pool(PoolOutcome::Done);
    assert_eq!(desk.store(StoreOutcome::Failed(StoreFault::Io)), StoreOp::Flush);
    assert!(desk.pools.is_empty(), "no copy begins behind a flush that failed");
    assert!(desk.gone, "it follows no more");
    assert_eq!(desk.save().suspect, 1);
}

#[test]
fn items_that_wait_for_room_count_as_what_the_image_may_hold() {
    let mut parked = Desk::keeping();
    (1..8).for_each(|n| parked.zero(20 + n, n));
    for desk in [Desk::short(), parked] {
        let Engine { standing, record, local, .. } = &desk.engine;
        let places = standing.unsettled(record, local);
        for waits in 1..8 {
            let place = (VolumeIndex(0), Extent::new(waits * CHUNK_BYTES, 4096));
            assert!(places.contains(&place), "chunk {waits} of {places:?}");
        }
    }
}
