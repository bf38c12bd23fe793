// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::shard::looks::Held;
use crate::shard::token::unpack;
use helio_driver::{Completion, DriverOptions, PollDriver};
use helio_format::before::{CopyClass, CopyNumber, CopyOwner, KeptImage};
use helio_units::VolumeIndex;
use std::os::unix::fs::FileExt;

const FAILED: PoolOutcome = PoolOutcome::Failed(StoreFault::Io);
const COPY: CopyNumber = CopyNumber(1);

struct Desk {
    before: Before,
    named: tempfile::NamedTempFile,
    file: std::fs::File,
    payloads: Payloads,
    driver: PollDriver,
}

/// One copy counts from now on.
fn begin() -> PoolOp {
    let (class, stage, owner) = (CopyClass::Required, CopyStage::Held, CopyOwner::Resync);
    let copy = KeptCopy { number: COPY, class, stage, owner, image: KeptImage::default() };
    PoolOp::List { copies: vec![copy], freed: 0 }
}

/// None does.
fn end() -> PoolOp {
    PoolOp::List { copies: Vec::new(), freed: 0 }
}

/// These rows, whose records go to the slots from there on.
fn append(rows: Vec<Row>, first: u32) -> PoolOp {
    let chunks: u64 = rows.iter().map(|row| row.extent.length.div_ceil(CHUNK_BYTES)).sum();
    PoolOp::Append {
        of: CopyView::Cut(COPY),
        rows,
        slots: (first..).take(chunks as usize).map(Slot).collect(),
    }
}

/// Records in these slots, one for each chunk of a volume from that one on.
fn records(slots: std::ops::Range<u32>, volume: u16, first: u64) -> Vec<(Slot, Chunk)> {
    let chunk = |n: u64| (VolumeIndex(volume), Extent::new(n * CHUNK_BYTES, CHUNK_BYTES));
    slots.map(Slot).zip((first..).map(chunk)).collect()
}

impl Desk {
    /// With an empty file, through a description that can only read if so.
    fn new(read_only: bool) -> Self {
        let named = tempfile::NamedTempFile::new().expect("a file");
        let file = named.reopen().expect("the file");
        let io = if read_only { std::fs::File::open(named.path()) } else { file.try_clone() };
        let mut read = |_: u64, _: &mut [u8]| Ok::<_, std::io::Error>(());
        let checksum = helio_link::checksum;
        let opened = BeforeStore::open(&mut read, 0, Bytes(CHUNK_BYTES), 7, checksum);
        let (store, _) = opened.expect("a new store");
        let sizes = File::new(file.try_clone().expect("the file")).expect("a file");
        let io = File::new(io.expect("the file")).expect("a file");
        let named_file = (io, "db.before".to_owned());
        let before = Before::new(named_file, sizes, store, Duration::from_secs(8));
        let driver = PollDriver::new(DriverOptions::default()).expect("a driver");
        Self { before, named, file, payloads: Payloads::default(), driver }
    }

    /// Performs it, and returns how it ended.
    fn perform(&mut self, op: PoolOp) -> PoolOutcome {
        let Self { before, payloads, driver, .. } = self;
        let buffers = Pool::new(Bytes::mib(8));
        let mut means = Means { group: 0, now: Moment::ZERO, payloads, buffers: &buffers, driver };
        let mut completions = Vec::new();
        let mut ended = before.begin(op, &mut means);
        while ended.is_none() {
            means.driver.wait(None, &mut completions).expect("the driver waits");
            for Completion { token, outcome } in completions.drain(..) {
                assert_eq!(ended, None, "an operation is under way behind the end");
                ended = before.done(unpack(token).2, outcome, &mut means);
            }
        }
        ended.expect("it ended")
    }

    /// A row of a volume whose bytes tell where they lay.
    fn row(&mut self, volume: u16, extent: Extent) -> Row {
        let mut buffer = Buffer::zeroed(extent.length as usize);
        buffer.copy_from_slice(&content(volume, extent));
        Row { volume: VolumeIndex(volume), extent, payload: self.payloads.insert(buffer) }
    }

    /// So many chunks of a volume from its start are appended to the slots from there on.
    fn append_chunks(&mut self, chunks: u64, first: u32) -> PoolOutcome {
        let rows = vec![self.row(0, Extent::new(0, chunks * CHUNK_BYTES))];
        self.perform(append(rows, first))
    }

    /// Chunks and bytes of records.
    fn load(&mut self, records: Vec<(Slot, Chunk)>) -> Vec<(u16, Extent, Vec<u8>)> {
        let PoolOutcome::Loaded(rows) = self.perform(PoolOp::Load { records }) else {
            panic!("nothing was loaded")
        };
        let bytes = |row: &Row| self.payloads.get(row.payload.id).to_vec();
        rows.iter().map(|row| (row.volume.0, row.extent, bytes(row))).collect()
    }
}

fn content(volume: u16, extent: Extent) -> Vec<u8> {
    let byte = |at: u64| (at / 512) as u8 ^ (at / CHUNK_BYTES) as u8 ^ volume as u8 ^ 0x5A;
    (extent.offset..extent.end()).map(byte).collect()
}

#[test]
fn what_was_appended_is_loaded_in_the_order_asked_the_short_end_of_a_volume_too() {
    let mut desk = Desk::new(false);
    assert_eq!(desk.perform(PoolOp::Reserve { records: 9 }), PoolOutcome::Done);
    assert_eq!(desk.perform(begin()), PoolOutcome::Done);
    assert!(desk.before.kept_at().is_some());
    let long = Extent::new(5 * CHUNK_BYTES, 3 * CHUNK_BYTES + 512);
    let rows = vec![desk.row(0, long), desk.row(1, Extent::new(0, CHUNK_BYTES))];
    let slots = [7, 8, 2, 3, 0].map(Slot);
    let op = PoolOp::Append { of: CopyView::Cut(COPY), rows, slots: slots.to_vec() };
    assert_eq!(desk.perform(op), PoolOutcome::Done);
    let mut chunks: Vec<_> = records(0..3, 0, 5).into_iter().map(|(_, chunk)| chunk).collect();
    chunks.push((VolumeIndex(0), Extent::new(8 * CHUNK_BYTES, 512)));
    chunks.push((VolumeIndex(1), Extent::new(0, CHUNK_BYTES)));
    let mut all: Vec<_> = slots.into_iter().zip(chunks).collect();
    assert_eq!(desk.perform(PoolOp::Check { records: all.clone() }), PoolOutcome::Done);
    all.reverse();
    let loaded = desk.load(all.clone());
    for ((volume, extent, bytes), (_, chunk)) in loaded.iter().zip(&all) {
        assert_eq!((*volume, *extent), (chunk.0.0, chunk.1));
        assert!(*bytes == content(*volume, *extent), "{extent} of volume {volume}");
    }
    assert_eq!(loaded.len(), 5);
    let (slot, chunk) = (all[0].0, all[1].1);
    let another = PoolOp::Check { records: vec![(slot, chunk)] };
    assert_eq!(desk.perform(another), PoolOutcome::Damaged, "another chunk lies there");
    assert_eq!(desk.perform(end()), PoolOutcome::Done);
    let length = desk.file.metadata().expect("its length").len();
    assert_eq!(length, desk.before.store.header_bytes());
    assert_eq!(desk.before.kept_at(), None);
}

#[test]
fn a_daemon_that_starts_finds_what_was_appended() {
    let mut desk = Desk::new(false);
    desk.perform(begin());
    desk.append_chunks(3, 4);
    let length = desk.file.metadata().expect("its length").len();
    let mut read = |at: u64, buffer: &mut [u8]| desk.file.read_exact_at(buffer, at);
    let checksum = helio_link::checksum;
    let opened = BeforeStore::open(&mut read, length, Bytes(CHUNK_BYTES), 7, checksum);
    let (_, found) = opened.expect("it opens");
    assert_eq!((found.copies.len(), found.damaged, found.torn), (1, false, vec![]));
    let slots: Vec<_> = found.records.iter().map(|record| record.slot.0).collect();
    assert_eq!(slots, [4, 5, 6]);
}

#[test]
fn what_is_written_to_a_branch_lies_where_it_was_and_is_found_by_the_next_daemon() {
    let mut desk = Desk::new(false);
    desk.perform(begin());
    let rows = vec![desk.row(0, Extent::new(0, 2 * CHUNK_BYTES))];
    let of = CopyView::Branch(COPY);
    let append = PoolOp::Append { of, rows, slots: vec![Slot(1), Slot(0)] };
    assert_eq!(desk.perform(append), PoolOutcome::Done);
    let places = [(Slot(1), 0), (Slot(0), 1)];
    let chunk = |n: u64| (VolumeIndex(0), Extent::new(n * CHUNK_BYTES, CHUNK_BYTES));
    let all: Vec<_> = places.into_iter().map(|(slot, n)| (slot, chunk(n))).collect();
    let mut expected = content(0, Extent::new(0, 2 * CHUNK_BYTES));
    // On whole pages, on a few sectors, and across the border of two chunks.
    for (offset, length) in [(4096, 8192), (512, 1024), (CHUNK_BYTES - 512, 4096 + 512)] {
        let (extent, from) = (Extent::new(offset, length), 9 * CHUNK_BYTES);
        let row = desk.row(0, Extent::new(from, length));
        let touched = |(_, (_, chunk)): &&(Slot, Chunk)| chunk.overlaps(extent);
        let records = all.iter().filter(touched).copied().collect();
        let amend = PoolOp::Amend { extent, payload: Some(row.payload), records };
        assert_eq!(desk.perform(amend), PoolOutcome::Done);
        let range = offset as usize..(offset + length) as usize;
        expected[range].copy_from_slice(&content(0, Extent::new(from, length)));
    }
    let zeros = Extent::new(CHUNK_BYTES + 8192, 512);
    let amend = PoolOp::Amend { extent: zeros, payload: None, records: vec![all[1]] };
    assert_eq!(desk.perform(amend), PoolOutcome::Done);
    expected[zeros.offset as usize..zeros.end() as usize].fill(0);
    assert_eq!(desk.perform(PoolOp::Flush), PoolOutcome::Done);
    let held = |desk: &mut Desk| {
        desk.load(all.clone()).into_iter().flat_map(|(.., bytes)| bytes).collect::<Vec<u8>>()
    };
    assert!(held(&mut desk) == expected, "what was written is loaded");
    let length = desk.file.metadata().expect("its length").len();
    let mut read = |at: u64, buffer: &mut [u8]| desk.file.read_exact_at(buffer, at);
    let checksum = helio_link::checksum;
    let opened = BeforeStore::open(&mut read, length, Bytes(CHUNK_BYTES), 7, checksum);
    let (store, found) = opened.expect("it opens");
    assert_eq!((found.records.len(), found.damaged, found.torn), (2, false, vec![]));
    desk.before.store = store;
    assert!(held(&mut desk) == expected, "another daemon finds it");
}

#[test]
fn a_record_that_went_bad_is_damage() {
    let mut desk = Desk::new(false);
    assert_eq!(desk.perform(begin()), PoolOutcome::Done);
    assert_eq!(desk.append_chunks(40, 0), PoolOutcome::Done);
    let last = desk.before.store.record_at(Slot(39)) + PAGE_BYTES as u64;
    desk.file.write_all_at(&[0], last + 77).expect("the file is written");
    let all = records(0..40, 0, 0);
    assert_eq!(desk.perform(PoolOp::Check { records: all }), PoolOutcome::Damaged);
    assert_eq!(desk.load(records(0..32, 0, 0)).len(), 32);
    let load = PoolOp::Load { records: records(32..40, 0, 32) };
    assert_eq!(desk.perform(load), PoolOutcome::Damaged);
}

#[test]
fn a_file_that_cannot_be_written_is_not_written_again_and_is_read_all_the_same() {
    let mut desk = Desk::new(true);
    assert_eq!(desk.perform(begin()), FAILED);
    assert_eq!(desk.perform(PoolOp::Reserve { records: 1 }), FAILED);
    assert_eq!(desk.perform(PoolOp::Check { records: Vec::new() }), PoolOutcome::Done);
    assert_eq!(desk.load(Vec::new()), []);
}

#[test]
fn what_is_durable_is_restored_from_a_file_whose_last_append_failed() {
    let mut desk = Desk::new(false);
    assert_eq!(desk.perform(begin()), PoolOutcome::Done);
    assert_eq!(desk.append_chunks(2, 0), PoolOutcome::Done);
    let read_only = std::fs::File::open(desk.named.path()).expect("the file");
    desk.before.file = File::new(read_only).expect("a file");
    assert_eq!(desk.append_chunks(1, 2), FAILED);
    assert_eq!(desk.perform(end()), FAILED);
    let all = records(0..2, 0, 0);
    assert_eq!(desk.perform(PoolOp::Check { records: all.clone() }), PoolOutcome::Done);
    assert_eq!(desk.load(all).len(), 2);
}

#[test]
fn a_file_that_completes_nothing_is_given_up_and_nothing_else_begins_until_all_of_it_has_ended() {
    let Desk { mut before, mut payloads, .. } = Desk::new(false);
    let (buffers, mut driver) = (Pool::new(Bytes::mib(8)), Held::default());
    let at = |seconds: u64| Moment(seconds * 1_000_000_000);
    let check = || PoolOp::Check { records: Vec::new() };
    let mut asked = |before: &mut Before, driver: &mut Held, op| {
        let (payloads, buffers) = (&mut payloads, &buffers);
        before.begin(op, &mut Means { group: 0, now: at(0), payloads, buffers, driver })
    };
    let silent = Some(PoolOutcome::Failed(StoreFault::Silent));
    assert_eq!(asked(&mut before, &mut driver, begin()), None);
    for second in 1..=8 {
        assert_eq!((before.deadline(), before.look(at(second))), (at(second), None));
    }
    assert_eq!(before.look(at(9)), silent);
    assert_eq!(before.look(at(20)), None, "that is reported once");
    assert_eq!(asked(&mut before, &mut driver, check()), silent);
    let detail = driver.0.pop().expect("the header is being written");
    let (payloads, buffers) = (&mut Payloads::default(), &buffers);
    let mut means = Means { group: 0, now: at(30), payloads, buffers, driver: &mut driver };
    let late = Outcome::Write { pieces: Vec::new(), result: Ok(()) };
    assert_eq!(before.done(detail, late, &mut means), None, "it is late");
    assert_eq!(before.deadline(), Moment::NEVER);
    assert_eq!(before.begin(end(), &mut means), Some(FAILED), "nothing is written again");
    assert_eq!(before.begin(check(), &mut means), Some(PoolOutcome::Done));
}

#[test]
fn a_record_that_cannot_be_read_fails_that_read_alone() {
    let mut desk = Desk::new(false);
    assert_eq!(desk.perform(begin()), PoolOutcome::Done);
    assert_eq!(desk.append_chunks(2, 0), PoolOutcome::Done);
    desk.file.set_len(desk.before.store.record_at(Slot(1))).expect("the file is cut off");
    let both = records(0..2, 0, 0);
    assert_eq!(desk.perform(PoolOp::Check { records: both.clone() }), FAILED);
    assert_eq!(desk.load(records(0..1, 0, 0)).len(), 1);
    assert_eq!(desk.perform(PoolOp::Load { records: both }), FAILED);
    let rows = vec![desk.row(0, Extent::new(2 * CHUNK_BYTES, CHUNK_BYTES))];
    assert_eq!(desk.perform(append(rows, 2)), PoolOutcome::Done);
}
