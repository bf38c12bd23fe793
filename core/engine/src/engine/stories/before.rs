// SPDX-License-Identifier: Apache-2.0
//! Stories of a follower that keeps its last consistent image.

use crate::*;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use helio_format::before::{
    CHUNK_BYTES, CopyClass, CopyNumber, CopyOwner, CopyStage, KeptCopy, KeptImage, PAGE_BYTES,
    Slot, fingerprint,
};
use helio_format::copying::Copying;
use helio_format::lineage::Lineage;
use helio_format::message::{Hello, Item, ItemKind, Message, Start};
use helio_format::report::Report;
use helio_format::superblock::Superblock;
use helio_ledger::{BeforeFound, BeforeRecord, Chunk};
use helio_snapshot::Snapshot;
use helio_stack::{CopyView, Layer};
use helio_units::{
    Bytes, Extent, Generation, IoId, Mode, Moment, Payload, PayloadId, RequestId, Role, Sequence,
    VolumeIndex,
};

const SIZE: Bytes = Bytes::mib(1);
/// A preserved chunk and its page in the pool.
const RECORD_BYTES: u64 = CHUNK_BYTES + PAGE_BYTES as u64;

mod ending;
mod named;
mod read;
mod restored;
mod room;
mod several;
mod shipped;

/// A secondary above the layer that preserves copies: what they ask for lies in trays.
struct Desk {
    engine: Engine,
    now: Moment,
    pools: Vec<PoolOp>,
    ios: Vec<(IoId, StoreOp)>,
    /// Looks at bytes that a layer read.
    looks: Vec<IoId>,
    saves: Vec<Superblock>,
    said: Vec<Message>,
    refused: Vec<&'static str>,
    logged: Vec<String>,
    answered: Vec<(RequestId, Answer)>,
    gone: bool,
    /// Nothing is read from the peer.
    paused: bool,
    payloads: u64,
    /// What the pool keeps.
    kept: Vec<(Slot, Chunk)>,
}

fn chunk(number: u64) -> Extent {
    Extent::new(number * CHUNK_BYTES, CHUNK_BYTES)
}

/// The pool holds these chunks of an image of item 3.
fn found(chunks: &[u64]) -> BeforeFound {
    let image = KeptImage { head: Sequence(3), lineage: generation(1), ..KeptImage::default() };
    let (number, class, stage) = (CopyNumber(1), CopyClass::Required, CopyStage::Held);
    let record = |(slot, number): (u32, &u64)| {
        let chunk = (VolumeIndex(0), chunk(*number));
        BeforeRecord { slot: Slot(slot), of: CopyView::Cut(CopyNumber(1)), chunk }
    };
    BeforeFound {
        copies: vec![KeptCopy { number, class, stage, owner: CopyOwner::Resync, image }],
        last: number,
        records: (0..).zip(chunks).map(record).collect(),
        slots: chunks.len() as u32,
        damaged: false,
        torn: Vec::new(),
    }
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
        keeps: false,
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
        Self::of(record(true), bound, BeforeFound::default())
    }

    /// The pool holds the first chunk of an image of item 3.
    fn finding(record: Superblock) -> Self {
        Self::finding_in(record, 0)
    }

    fn finding_in(record: Superblock, number: u64) -> Self {
        Self::of(record, None, found(&[number]))
    }

    fn of(record: Superblock, bound: Option<Bytes>, found: BeforeFound) -> Self {
        Self::sized((SIZE, crate::config::HOT_EXTENTS), record, bound, found)
    }

    /// A volume of that size, of which so many extents may be hot.
    fn sized(
        (size, hot_extents): (Bytes, u32),
        record: Superblock,
        bound: Option<Bytes>,
        found: BeforeFound,
    ) -> Self {
        let over = record.copies_over(found.last);
        let layers = vec![Snapshot::new(&[size], &found, over, record.rollback).boxed()];
        let mut desk = Self::above(layers, (size, hot_extents), record, bound);
        desk.kept = found.records.iter().map(|record| (record.slot, record.chunk)).collect();
        if !found.copies.is_empty() {
            desk.tell(Event::BeforeFound(Box::new(found)));
        }
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
            period: crate::PERIOD,
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
            looks: Vec::new(),
            saves: Vec::new(),
            said: Vec::new(),
            refused: Vec::new(),
            logged: Vec::new(),
            answered: Vec::new(),
            gone: false,
            paused: false,
            payloads: 0,
            kept: Vec::new(),
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
                Effect::Look { io, .. } => self.looks.push(io),
                Effect::Keep(keep) => keeps.push(keep),
                Effect::Record(_) => records += 1,
                Effect::SaveSuperblock(record) => self.saves.push(record),
                Effect::Send(message) => self.said.push(message),
                Effect::Reply { request, answer } => self.answered.push((request, answer)),
                Effect::Hangup { .. } => self.gone = true,
                Effect::PauseReceiving(paused) => self.paused = paused,
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
        self.starts_in_order(Sequence(21), 1);
    }

    /// The same with another item and stream.
    fn starts_in_order(&mut self, from: Sequence, stream: u32) {
        let lineage = generation(1);
        let (consistent, keep, whole, to_copy) = (true, false, false, 0);
        let ships = false;
        let start = Start { lineage, from, consistent, keep, whole, to_copy, stream, ships };
        self.tell(Event::Message(Message::Start(start)));
    }

    fn start(&mut self, keep: bool) {
        self.start_at(21, keep);
    }

    fn start_at(&mut self, from: u64, keep: bool) {
        let (lineage, from) = (generation(1), Sequence(from));
        let start = Start {
            lineage,
            from,
            consistent: false,
            keep,
            whole: false,
            to_copy: 2 * CHUNK_BYTES,
            stream: 1,
            ships: false,
        };
        self.tell(Event::Message(Message::Start(start)));
    }

    /// The source answers alone from there on: it goes on behind what it sent, in another generation.
    fn go_on(&mut self, from: u64, consistent: bool) {
        let lineage = generation(1).fork(generation(2).generation, Sequence(from - 1));
        let (from, whole) = (Sequence(from), false);
        let (keep, to_copy, stream, ships) = (!consistent, 0, 2, false);
        let start = Start { lineage, from, consistent, keep, whole, to_copy, stream, ships };
        self.tell(Event::Message(Message::Start(start)));
    }

    /// Six of eight items wait for room, which the pool may not have.
    fn short() -> Self {
        let mut desk = Self::bounded();
        assert_eq!([(); 2].map(|()| desk.preserve()), [chunk(0), chunk(1)]);
        desk.store_all();
        assert_eq!(desk.no_room(), Some((3 * RECORD_BYTES, 2 * RECORD_BYTES)), "six items wait");
        desk
    }

    /// The same, before it knows.
    fn bounded() -> Self {
        let mut desk = Self::keeping_of(record(true), Some(Bytes(2 * RECORD_BYTES)));
        (0..8).for_each(|n| desk.zero(21 + n, n));
        desk
    }

    fn item(&mut self, sequence: u64, kind: ItemKind, extent: Extent) {
        self.item_after(20, sequence, kind, extent);
    }

    fn item_after(&mut self, after: u64, sequence: u64, kind: ItemKind, extent: Extent) {
        let (sequence, after) = (Sequence(sequence), Sequence(after));
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

    /// The pool ends a list of one copy, which is this far. Returns its label.
    fn list(&mut self, stage: CopyStage) -> KeptImage {
        let PoolOp::List { copies, freed } = self.pool(PoolOutcome::Done) else {
            panic!("a copy is listed")
        };
        let [copy] = copies[..] else { panic!("one copy is cut: {copies:?}") };
        let expected = (CopyNumber(1), CopyClass::Required, stage, 0);
        assert_eq!((copy.number, copy.class, copy.stage, freed), expected);
        copy.image
    }

    /// The pool ends like that the list without the copy, of which no record counts any more.
    fn unlist(&mut self, outcome: PoolOutcome) {
        let kept = core::mem::take(&mut self.kept);
        let marks =
            kept.iter().map(|(slot, (volume, extent))| fingerprint(*slot, *volume, extent.offset));
        let freed = marks.fold(0, u64::wrapping_add);
        assert_eq!(self.pool(outcome), PoolOp::List { copies: Vec::new(), freed });
    }

    /// There is room, the copy is coming, and all volumes are flushed. Returns the label under which it is cut, and the room.
    fn cut(&mut self) -> (KeptImage, u64) {
        let PoolOp::Reserve { records } = self.pool(PoolOutcome::Done) else {
            panic!("room is reserved")
        };
        assert_eq!(self.list(CopyStage::Coming), KeptImage::default());
        assert_eq!(self.store(StoreOutcome::Done), StoreOp::Flush);
        (self.list(CopyStage::Held), records)
    }

    /// The chunk that is read next is preserved.
    fn preserve(&mut self) -> Extent {
        let is_read = |(_, op): &(IoId, StoreOp)| op.reads().is_some();
        let at = self.ios.iter().position(is_read).expect("a chunk is read");
        let (io, op) = self.ios.remove(at);
        let extent = op.reads().expect("a read has an extent");
        let payload = self.payload(extent);
        self.tell(Event::StoreDone { io, outcome: StoreOutcome::Read { payload, zero: false } });
        self.append(Row { volume: VolumeIndex(0), extent, payload });
        extent
    }

    /// The pool preserves that chunk in the next slot.
    fn append(&mut self, row: Row) {
        let slot = Slot(self.kept.len() as u32);
        self.kept.push((slot, (row.volume, row.extent)));
        let append =
            PoolOp::Append { of: CopyView::Cut(CopyNumber(1)), rows: vec![row], slots: vec![slot] };
        assert_eq!(self.pool(PoolOutcome::Done), append, "it is kept");
    }

    /// What is preserved, these chunks, is checked and written back.
    fn put_back(&mut self, chunks: &[u64]) {
        let wanted = chunks.iter().map(|number| (VolumeIndex(0), chunk(*number)));
        assert!(self.kept.iter().map(|(_, chunk)| *chunk).eq(wanted), "{:?}", self.kept);
        if !self.kept.is_empty() {
            let records = self.kept.clone();
            assert_eq!(self.pool(PoolOutcome::Done), PoolOp::Check { records });
        }
        for Row { extent, payload, .. } in self.load() {
            let write = StoreOp::Write { extent, payload, fua: false };
            assert_eq!(self.store(StoreOutcome::Done), write);
        }
    }

    /// What is preserved is loaded, if anything is.
    fn load(&mut self) -> Vec<Row> {
        let records = self.kept.clone();
        let row = |&(_, (volume, extent)): &(Slot, Chunk)| Row {
            volume,
            extent,
            payload: self.payload(extent),
        };
        let rows: Vec<Row> = records.iter().map(row).collect();
        if !rows.is_empty() {
            let loaded = PoolOutcome::Loaded(rows.clone());
            assert_eq!(self.pool(loaded), PoolOp::Load { records });
        }
        rows
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
        let mut desk = Self::of(record, bound, BeforeFound::default());
        desk.meet();
        desk.start(true);
        assert_eq!(desk.cut().1, 2, "room for what is copied");
        assert!(!desk.save().consistent);
        desk
    }

    /// The same, and that chunk is preserved and overwritten.
    fn preserving(number: u64) -> Self {
        let mut desk = Self::keeping();
        desk.zero(21, number);
        assert_eq!(desk.preserve(), chunk(number));
        desk.store_all();
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
    desk.append(Row { volume: VolumeIndex(0), extent: chunk(3), payload });
    let changed = desk.ios.iter().filter_map(|(_, op)| op.changes()).map(|extent| extent.offset);
    assert_eq!(changed.collect::<Vec<_>>(), [3 * CHUNK_BYTES]);
    assert_eq!(desk.preserve(), chunk(5));
}

#[test]
fn a_kept_image_says_whether_its_node_wrote_and_answered_alone() {
    for (wrote, alone) in [(false, false), (true, false), (false, true)] {
        let mut desk =
            Desk::of(Superblock { wrote, alone, ..record(true) }, None, BeforeFound::default());
        let lineage = generation(1).fork(generation(2).generation, Sequence(7));
        desk.tell(Event::Connected);
        desk.tell(Event::Message(Message::Hello(Hello { lineage, ..paris(true) })));
        let (from, consistent, keep, whole) = (Sequence(21), false, true, false);
        let (to_copy, stream, ships) = (1, 1, false);
        let start = Start { lineage, from, consistent, keep, whole, to_copy, stream, ships };
        desk.tell(Event::Message(Message::Start(start)));
        let (image, _) = desk.cut();
        assert_eq!((image.wrote, image.alone, image.lineage), (wrote, alone, generation(1)));
    }
}

#[test]
fn a_copy_that_never_was_consistent_keeps_nothing() {
    for (lineage, consistent) in [(Lineage::default(), true), (generation(1), false)] {
        let mut desk =
            Desk::of(Superblock { lineage, ..record(consistent) }, None, BeforeFound::default());
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
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { records: 3 });
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
    desk.unlist(PoolOutcome::Done);
}

/// An earlier process may have failed to end the preserved copy. Then that lacks what was overwritten since.
#[test]
fn what_was_kept_of_a_copy_that_is_suspect_and_recorded_as_consistent_is_not_kept_on() {
    let mut desk = Desk::finding(Superblock { suspect: 1, ..record(true) });
    desk.meet();
    desk.start(true);
    desk.unlist(PoolOutcome::Done);
    assert_eq!(desk.pools, []);
    assert!(!desk.save().consistent, "the start is adopted");
    desk.restoring();
    assert_eq!(desk.refused.len(), 1, "there is nothing to go back to");
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
    desk.list(CopyStage::Coming);
    assert_eq!(desk.store(StoreOutcome::Failed(StoreFault::Io)), StoreOp::Flush);
    desk.unlist(PoolOutcome::Done);
    assert!(desk.pools.is_empty(), "no copy is held behind a flush that failed");
    assert!(desk.gone, "it follows no more");
    assert_eq!(desk.save().suspect, 1);
}

/// A process before began a cut, and it did not end. What was overwritten since is not preserved.
#[test]
fn a_copy_that_was_only_coming_is_dropped_and_is_no_image_to_go_back_to() {
    let mut coming = found(&[0]);
    coming.copies[0].stage = CopyStage::Coming;
    let mut desk = Desk::of(record(false), None, coming);
    desk.unlist(PoolOutcome::Done);
    desk.command(Command::Restore { force: true });
    assert_eq!(desk.refused, ["no-safe-copy"]);
    assert!(desk.saves.is_empty() && desk.ios.is_empty() && desk.pools.is_empty());
}
