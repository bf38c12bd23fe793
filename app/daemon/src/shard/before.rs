// SPDX-License-Identifier: Apache-2.0
//! Performs what is asked of a group's pool of before-images, the before-image file: one thing at a time, each of many
//! operations of the driver, with the ledger's store to say what is written where.
//!
//! ```text
//!   List ──> Header ────────┐
//!   Append ──> records ─────┴──> Flush ──> Note ──> Done      Flush ──nothing is preserved──> Cut ──> Note
//!   Check, Load, Overlay ──> records are read and checked
//!   Amend ──> chunks of a branch are overwritten        Flush ──> Sync ──> Done      Reserve ──> Done
//! ```
//! A file that completes nothing for the member timeout is given up as if it had failed: what is under way is *late*, how it ends
//! changes nothing, and until it has ended nothing else begins.
//!
//! The layer that preserves reads and writes the members, through the engine; here only payloads come and go.

use crate::shard::clock::calendar;
use crate::shard::group::{fault_of, read_buffer};
use crate::shard::looks::{Timetable, Watched};
use crate::shard::payloads::Payloads;
use crate::shard::token::{Kind, token};
use helio_api::BeforeImageStatus;
use helio_driver::{Buffer, Driver, File, Op, OpError, Outcome, Piece, Pool, Reserved, Shared};
use helio_engine::{PoolOp, PoolOutcome, Row, StoreFault, lay_over};
use helio_format::before::{CHUNK_BYTES, CopyStage, CopyView, KeptCopy, PAGE_BYTES, Slot};
use helio_ledger::{BeforeStore, BeforeWrite, Chunk};
use helio_units::{Bytes, Extent, Moment, WallTime};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Records being read at once: 2 MiB.
const READ_AT_ONCE: usize = 32;
/// Pieces of one write: a page and a chunk for each of 16 records.
const RUN_PIECES: usize = 32;
/// Bytes of a chunk in a record; at the end of a volume zeros fill it up.
const CHUNK: usize = CHUNK_BYTES as usize;

/// One group's before-image file.
#[derive(Debug)]
pub(crate) struct Before {
    file: File,
    /// Where it lies, for people.
    shown: String,
    /// The same file, for its size.
    sizes: File,
    store: BeforeStore,
    work: Option<Work>,
    /// A write failed, or a flush: nothing is written any more. What is preserved may still be read.
    failed: bool,
    watch: Watch,
}

/// What is under way on the file.
#[derive(Debug)]
struct Watch {
    watched: Watched,
    timetable: Timetable,
    /// It was given up: what is under way is late.
    late: bool,
    counts: BeforeImageStatus,
}

/// What it is performed with.
pub(crate) struct Means<'a> {
    pub(crate) group: usize,
    pub(crate) now: Moment,
    pub(crate) payloads: &'a mut Payloads,
    pub(crate) buffers: &'a Pool,
    pub(crate) driver: &'a mut dyn Driver,
}

impl Watch {
    fn submit(&mut self, detail: u32, op: Op, means: &mut Means<'_>) {
        self.watched.submitted();
        self.timetable.submitted(means.now);
        match &op {
            Op::Read { .. } => self.counts.reads += 1,
            Op::SyncData { .. } => self.counts.flushes += 1,
            Op::Write { .. } => self.counts.writes += 1,
            _ => {}
        }
        means.driver.submit(token(Kind::Before, means.group, detail), op);
    }

    /// An operation ended. Returns whether it was late.
    fn ended(&mut self) -> bool {
        let late = self.late;
        self.watched.ended();
        self.late &= self.watched.works();
        late
    }
}

/// What is under way.
#[derive(Debug)]
enum Work {
    /// Room is being made.
    Reserve,
    /// A header is being written, then flushed.
    Header,
    /// So many runs of records are being written.
    Append { left: usize },
    /// What was written is being flushed.
    Flush,
    /// Nothing is preserved any more: the file is being cut to its header.
    Cut,
    /// A header that says how many records there are is being written.
    Note,
    /// So many parts of chunks are being overwritten; how one failed.
    Amend { left: usize, failed: Option<StoreFault> },
    /// What was written is being flushed, and nothing is to be done behind that.
    Sync,
    /// Records are being read and checked.
    Read(Reading),
}

/// Records that are being read.
#[derive(Debug)]
struct Reading {
    records: Vec<(Slot, Chunk)>,
    /// How many have been asked for, and how many of these have not ended.
    asked: usize,
    under_way: usize,
    /// One is not what was written.
    damaged: bool,
    /// One could not be read.
    failed: bool,
    loads: Loads,
}

/// What becomes of what they preserve.
#[derive(Debug)]
enum Loads {
    /// It was only to be checked.
    Nothing,
    Rows(BTreeMap<usize, (Chunk, Buffer)>),
    /// It is laid over this, which is part of that row.
    Over(Row, Buffer),
}

impl Before {
    /// The file may complete nothing for the timeout.
    pub(crate) fn new(
        (file, shown): (File, String),
        sizes: File,
        store: BeforeStore,
        timeout: Duration,
    ) -> Self {
        let (watched, timetable) = (Watched::default(), Timetable::new(timeout));
        let counts = BeforeImageStatus::default();
        let watch = Watch { watched, timetable, late: false, counts };
        Self { file, shown, sizes, store, work: None, failed: false, watch }
    }

    /// Whether an operation on the file is under way, and not late.
    pub(crate) fn works(&self) -> bool {
        self.watch.watched.works() && !self.watch.late
    }

    /// From now on the file may complete nothing for that long.
    pub(crate) fn set_timeout(&mut self, now: Moment, timeout: Duration) {
        self.watch.timetable.set_timeout(now, timeout);
    }

    /// When the safe copy was cut, if there is one.
    pub(crate) fn kept_at(&self) -> Option<WallTime> {
        let safe = |copy: &&KeptCopy| copy.is_safe_copy() && copy.stage == CopyStage::Held;
        self.store.copies().iter().rfind(safe).map(|copy| copy.image.at)
    }

    /// What was done to the file.
    pub(crate) const fn counts(&self) -> BeforeImageStatus {
        self.watch.counts
    }

    /// Begins what is asked. Returns how it ended, where it did at once.
    pub(crate) fn begin(&mut self, op: PoolOp, means: &mut Means<'_>) -> Option<PoolOutcome> {
        let reads = op.reads();
        if self.watch.late {
            return Some(PoolOutcome::Failed(StoreFault::Silent));
        }
        if self.failed && !reads {
            return Some(PoolOutcome::Failed(StoreFault::Io));
        }
        match op {
            PoolOp::Reserve { records } => self.reserve(records, means),
            PoolOp::List { copies, freed } => {
                let pages = self.store.list(copies, freed, calendar(means.driver.host()));
                self.write_header(pages, Work::Header, means);
            }
            PoolOp::Append { of, rows, slots } => {
                let runs = self.append(of, &rows, &slots, means);
                self.work = Some(Work::Append { left: runs.len() });
                self.submit_all(runs, means);
            }
            PoolOp::Amend { extent, payload, records } => {
                let data = payload.map(|payload| Shared::clone(means.payloads.get(payload.id)));
                let parts = self.amend(extent, &records, data.as_ref());
                self.work = Some(Work::Amend { left: parts.len(), failed: None });
                self.submit_all(parts, means);
            }
            PoolOp::Flush => self.flush(Work::Sync, means),
            PoolOp::Check { records } => return self.read(records, Loads::Nothing, means),
            PoolOp::Load { records } => {
                return self.read(records, Loads::Rows(BTreeMap::new()), means);
            }
            PoolOp::Overlay { base, records } => {
                let below = means.payloads.get(base.payload.id);
                let mut bytes = read_buffer(means.buffers, below.len());
                bytes.copy_from_slice(below);
                return self.read(records, Loads::Over(base, bytes), means);
            }
        }
        None
    }

    /// When to look at the file although nothing ended.
    pub(crate) const fn deadline(&self) -> Moment {
        self.watch.timetable.next()
    }

    /// Gives the file up if it completes nothing. Returns how what was asked ended, if that is so.
    pub(crate) fn look(&mut self, now: Moment) -> Option<PoolOutcome> {
        let Watch { watched, timetable, late, .. } = &mut self.watch;
        if !timetable.is_due(now, watched.works() && !*late) {
            return None;
        }
        watched.look(true);
        if *late || !watched.is_silent() {
            return None;
        }
        let (file, timeout) = (&self.shown, timetable.timeout());
        tracing::error!(file, ?timeout, "the before-image file completes no operation");
        (*late, self.failed, self.work) = (true, true, None);
        Some(PoolOutcome::Failed(StoreFault::Silent))
    }

    /// Makes sure that the file can hold so many records.
    fn reserve(&mut self, records: u64, means: &mut Means<'_>) {
        let length = self.store.record_at(Slot(u32::try_from(records).unwrap_or(u32::MAX)));
        self.work = Some(Work::Reserve);
        let op = Op::Reserve { file: self.sizes.clone(), length: Bytes(length) };
        self.watch.submit(0, op, means);
    }

    fn write_header(&mut self, page: BeforeWrite, work: Work, means: &mut Means<'_>) {
        self.work = Some(work);
        let extent = Extent::new(page.offset, page.bytes.len() as u64);
        let mut bytes = Buffer::zeroed(page.bytes.len());
        bytes.copy_from_slice(&page.bytes);
        let pieces = vec![Piece::Shared(bytes.into_shared(), 0..page.bytes.len())];
        let op = Op::Write { file: self.file.clone(), extent, pieces, sync: false };
        self.watch.submit(0, op, means);
    }

    fn submit_all(&mut self, ops: Vec<Op>, means: &mut Means<'_>) {
        for (number, op) in ops.into_iter().enumerate() {
            self.watch.submit(number as u32, op, means);
        }
    }

    /// The writes that overwrite what these records hold, by bytes or zeros, past the page cache where they lie on whole pages.
    fn amend(&self, extent: Extent, records: &[(Slot, Chunk)], data: Option<&Shared>) -> Vec<Op> {
        let zeros = data.is_none().then(|| Buffer::zeroed(CHUNK).into_shared());
        let write = |(slot, (_, chunk)): &(Slot, Chunk)| {
            let (from, end) = (extent.offset.max(chunk.offset), extent.end().min(chunk.end()));
            let at = self.store.record_at(*slot) + PAGE_BYTES as u64 + (from - chunk.offset);
            let start = data.map_or(0, |_| (from - extent.offset) as usize);
            let range = start..start + (end - from) as usize;
            let extent = Extent::new(at, end - from);
            let on_pages = [range.start, range.end, at as usize];
            let on_pages = on_pages.iter().all(|offset| offset.is_multiple_of(PAGE_BYTES));
            let file = if on_pages { &self.file } else { &self.sizes };
            let bytes = data.or(zeros.as_ref()).map(Shared::clone);
            let pieces = bytes.map(|bytes| Piece::Shared(bytes, range)).into_iter().collect();
            Op::Write { file: file.clone(), extent, pieces, sync: false }
        };
        records.iter().map(write).collect()
    }

    /// The writes that append the records of rows: one for each run of slots that lie side by side.
    fn append(&mut self, of: CopyView, rows: &[Row], slots: &[Slot], means: &Means<'_>) -> Vec<Op> {
        self.store.begin_batch();
        // A buffer begins on a page, as direct I/O wants it.
        let mut pages = read_buffer(means.buffers, slots.len() * PAGE_BYTES);
        let mut parts = Vec::with_capacity(slots.len());
        let chunks =
            rows.iter().flat_map(|row| row_chunks(row, means.payloads.get(row.payload.id)));
        let records = pages.chunks_mut(PAGE_BYTES).zip(slots);
        for ((page, slot), (chunk, (shared, range))) in records.zip(chunks) {
            let record = self.store.record(of, *slot, chunk, &shared[range.clone()]);
            page.copy_from_slice(&record.bytes);
            parts.push(Piece::Shared(shared, range));
        }
        let pages = pages.into_shared();
        let page = |n| Piece::Shared(Shared::clone(&pages), n * PAGE_BYTES..(n + 1) * PAGE_BYTES);
        let mut runs: Vec<(Slot, Vec<Piece>)> = Vec::new();
        for (number, (slot, part)) in slots.iter().zip(parts).enumerate() {
            let last = runs.last_mut().filter(|(first, pieces)| {
                pieces.len() < RUN_PIECES && first.0 + pieces.len() as u32 / 2 == slot.0
            });
            match last {
                Some((_, pieces)) => pieces.extend([page(number), part]),
                None => runs.push((*slot, vec![page(number), part])),
            }
        }
        let op = |(first, pieces): (Slot, Vec<Piece>)| {
            let length = self.store.stride() * (pieces.len() / 2) as u64;
            let extent = Extent::new(self.store.record_at(first), length);
            Op::Write { file: self.file.clone(), extent, pieces, sync: false }
        };
        runs.into_iter().map(op).collect()
    }

    /// An operation ended. Returns how the whole ended, once it has.
    pub(crate) fn done(
        &mut self,
        detail: u32,
        outcome: Outcome,
        means: &mut Means<'_>,
    ) -> Option<PoolOutcome> {
        if self.watch.ended() {
            return None;
        }
        let Some(work) = self.work.take() else {
            panic!("a before-image operation that was not started")
        };
        if let Some(error) = outcome.error() {
            self.note_failure(&work, error);
        }
        match work {
            Work::Amend { left, failed } => {
                let failed =
                    failed.or_else(|| outcome.error().map(|error| fault_of(&error.into())));
                if left > 1 {
                    self.work = Some(Work::Amend { left: left - 1, failed });
                    return None;
                }
                Some(failed.map_or(PoolOutcome::Done, PoolOutcome::Failed))
            }
            Work::Append { left } if left > 1 => {
                self.work = Some(Work::Append { left: left - 1 });
                None
            }
            Work::Read(reading) => {
                let reading = self.record_read(detail, outcome, reading);
                self.read_more(reading, means)
            }
            Work::Reserve => Some(reserved(&outcome)),
            Work::Cut => self.note(means),
            _ if self.failed => Some(PoolOutcome::Failed(StoreFault::Io)),
            Work::Header | Work::Append { .. } => {
                self.flush(Work::Flush, means);
                None
            }
            Work::Flush => {
                self.store.flushed();
                if !self.store.copies().is_empty() {
                    return self.note(means);
                }
                let length = Bytes(self.store.header_bytes());
                self.work = Some(Work::Cut);
                self.watch.submit(0, Op::SetLength { file: self.sizes.clone(), length }, means);
                None
            }
            Work::Sync => {
                self.store.flushed();
                Some(PoolOutcome::Done)
            }
            Work::Note => Some(PoolOutcome::Done),
        }
    }

    /// An operation failed. What needs no room, and what is preserved already, goes on.
    fn note_failure(&mut self, work: &Work, error: OpError) {
        let file = &self.shown;
        match work {
            Work::Reserve => {
                tracing::error!(file, %error, "space for before-images cannot be reserved");
            }
            Work::Cut => {
                tracing::warn!(file, %error, "the space of ended before-images is not freed");
            }
            work => {
                tracing::error!(file, %error, "the before-image file failed");
                self.failed |= !matches!(work, Work::Read(_) | Work::Amend { .. });
            }
        }
    }

    fn flush(&mut self, work: Work, means: &mut Means<'_>) {
        self.work = Some(work);
        self.watch.submit(0, Op::SyncData { file: self.file.clone() }, means);
    }

    /// What was written is durable: a header says how much there is, where that changed. Returns how the whole ended, once it has.
    fn note(&mut self, means: &mut Means<'_>) -> Option<PoolOutcome> {
        let Some(page) = self.store.note() else { return Some(PoolOutcome::Done) };
        self.write_header(page, Work::Note, means);
        None
    }

    fn read(
        &mut self,
        records: Vec<(Slot, Chunk)>,
        loads: Loads,
        means: &mut Means<'_>,
    ) -> Option<PoolOutcome> {
        let reading =
            Reading { records, asked: 0, under_way: 0, damaged: false, failed: false, loads };
        self.read_more(reading, means)
    }

    /// Reads more records. Returns how that ended, once all are read.
    fn read_more(&mut self, mut reading: Reading, means: &mut Means<'_>) -> Option<PoolOutcome> {
        let stop = reading.damaged || reading.failed;
        while !stop
            && reading.under_way < READ_AT_ONCE
            && let Some((slot, _)) = reading.records.get(reading.asked)
        {
            let extent = Extent::new(self.store.record_at(*slot), self.store.stride());
            let buffer = read_buffer(means.buffers, extent.length as usize);
            let op = Op::Read { file: self.file.clone(), extent, buffer };
            self.watch.submit(reading.asked as u32, op, means);
            (reading.asked, reading.under_way) = (reading.asked + 1, reading.under_way + 1);
        }
        if reading.under_way > 0 {
            self.work = Some(Work::Read(reading));
            return None;
        }
        Some(match reading.loads {
            _ if reading.damaged => PoolOutcome::Damaged,
            _ if reading.failed => PoolOutcome::Failed(StoreFault::Io),
            Loads::Nothing => PoolOutcome::Done,
            Loads::Over(base, bytes) => {
                let payload = means.payloads.insert(bytes);
                PoolOutcome::Loaded(vec![Row { payload, ..base }])
            }
            Loads::Rows(loads) => {
                let row = |((volume, extent), buffer)| Row {
                    volume,
                    extent,
                    payload: means.payloads.insert(buffer),
                };
                PoolOutcome::Loaded(loads.into_values().map(row).collect())
            }
        })
    }

    /// A record was read: it is checked, and what it preserves is taken where it is to be loaded.
    fn record_read(&self, number: u32, outcome: Outcome, mut reading: Reading) -> Reading {
        reading.under_way -= 1;
        reading.failed |= outcome.error().is_some();
        if let Outcome::Read { mut buffer, result: Ok(()) } = outcome {
            let (_, chunk) = reading.records[number as usize];
            match (self.store.check(chunk, &buffer), &mut reading.loads) {
                (None, _) => reading.damaged = true,
                (Some((_, chunk)), Loads::Over(base, bytes)) => {
                    lay_over((base.extent, bytes), (chunk, &buffer[PAGE_BYTES..]), Bytes(1));
                }
                (Some(chunk), Loads::Rows(loads)) => {
                    buffer.copy_within(PAGE_BYTES.., 0);
                    buffer.resize(chunk.1.length as usize);
                    loads.insert(number as usize, (chunk, buffer));
                }
                (Some(_), Loads::Nothing) => {}
            }
        }
        reading
    }
}

/// How a reservation ended.
fn reserved(outcome: &Outcome) -> PoolOutcome {
    match outcome {
        Outcome::Reserve(Ok(Reserved::NoRoom { free })) => PoolOutcome::NoRoom { free: *free },
        outcome => outcome
            .error()
            .map_or(PoolOutcome::Done, |error| PoolOutcome::Failed(fault_of(&error.into()))),
    }
}

/// The chunks of a row, and where in its bytes each lies.
fn row_chunks(row: &Row, data: &Shared) -> impl Iterator<Item = (Chunk, (Shared, Range<usize>))> {
    let (row, data) = (*row, Shared::clone(data));
    (0..data.len().div_ceil(CHUNK)).map(move |number| {
        let offset = row.extent.offset + number as u64 * CHUNK_BYTES;
        let length = (row.extent.end() - offset).min(CHUNK_BYTES);
        ((row.volume, Extent::new(offset, length)), record_bytes(&data, number * CHUNK))
    })
}

/// What a record holds of the chunk that begins there in a row's bytes.
fn record_bytes(data: &Shared, from: usize) -> (Shared, Range<usize>) {
    if from + CHUNK <= data.len() {
        return (Shared::clone(data), from..from + CHUNK);
    }
    let mut filled = Buffer::zeroed(CHUNK);
    filled[..data.len() - from].copy_from_slice(&data[from..]);
    (filled.into_shared(), 0..CHUNK)
}

#[cfg(test)]
#[path = "before_tests.rs"]
mod tests;
