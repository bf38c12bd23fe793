// SPDX-License-Identifier: Apache-2.0
//! A node's before-image file: the ledger's own store, over sectors that tear and a file system that fills up.
//!
//! A chunk's bytes in the file are the stamps of its blocks, so records are short; their pages are the real ones.

use crate::checksum::crc32c;
use crate::content::Step;
use crate::pool::Pool;
use crate::sectors::Sectors;
use crate::{BLOCK, Place, Stamp, places};
use core::convert::Infallible;
use core::time::Duration;
use helio_engine::{PoolOp, PoolOutcome, Row, StoreFault, lay_over};
use helio_format::before::{
    CHUNK_BYTES, CopyNumber, CopyStage, CopyView, KeptCopy, PAGE_BYTES, Slot,
};
use helio_ledger::{BeforeError, BeforeFound, BeforeRecord, BeforeStore, BeforeWrite, Chunk};
use helio_netmodel::Dice;
use helio_units::{Bytes, Moment, WallTime};
use std::collections::BTreeMap;

/// Bytes of a chunk in the file: a stamp per block.
const CHUNK: Bytes = Bytes(CHUNK_BYTES / BLOCK.0 * 8);

/// What is asked of the file, with the content that it needs.
#[derive(Clone, Debug)]
enum Job {
    Reserve { records: u64 },
    List(Vec<KeptCopy>, u64),
    Append(CopyView, Vec<(Slot, Chunk, Vec<Stamp>)>),
    Check(Vec<(Slot, Chunk)>),
    Load(Vec<(Slot, Chunk)>),
    Overlay(Row, Vec<(Slot, Chunk)>),
}

impl Job {
    const fn reads(&self) -> bool {
        matches!(self, Self::Check(_) | Self::Load(_) | Self::Overlay(..))
    }

    fn of(op: PoolOp, pool: &Pool) -> Self {
        match op {
            PoolOp::Reserve { records } => Self::Reserve { records },
            PoolOp::List { copies, freed } => Self::List(copies, freed),
            PoolOp::Append { of, rows, slots } => {
                let chunks = |row: &Row| {
                    let chunks = row.chunks(pool.stamps(row.payload), BLOCK);
                    chunks.map(|(chunk, stamps)| (chunk, stamps.to_vec())).collect::<Vec<_>>()
                };
                let records = slots.into_iter().zip(rows.iter().flat_map(chunks));
                let record = |(slot, (chunk, stamps))| (slot, chunk, stamps);
                Self::Append(of, records.map(record).collect())
            }
            PoolOp::Check { records } => Self::Check(records),
            PoolOp::Load { records } => Self::Load(records),
            PoolOp::Overlay { base, records } => Self::Overlay(base, records),
            PoolOp::Amend { .. } | PoolOp::Flush => panic!("no client writes to a copy here"),
        }
    }
}

/// The before-image file of one node.
#[derive(Clone, Debug)]
pub struct Before {
    file: Sectors,
    store: Option<BeforeStore>,
    under_way: Option<(Job, Stage)>,
    /// What is kept, block by block, as far as it is durable; of this life of the process.
    index: BTreeMap<Place, Stamp>,
    batch: Vec<(Place, Stamp)>,
    /// Records the file system has room for.
    room: u64,
    fails: bool,
    /// A write or a flush failed: nothing is written until the file is opened again.
    failed: bool,
    latency: Duration,
    dice: Dice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Work,
    Flush,
}

impl Before {
    /// A file that was never written, on a file system with much room.
    #[must_use]
    pub fn new(latency: Duration, dice: Dice) -> Self {
        Self {
            file: Sectors::default(),
            store: None,
            under_way: None,
            index: BTreeMap::new(),
            batch: Vec::new(),
            room: u64::MAX,
            fails: false,
            failed: false,
            latency,
            dice,
        }
    }

    /// Whether an operation is under way.
    pub(crate) const fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// The file as it lies there, for a snapshot.
    pub(crate) fn backup(&self) -> Vec<u8> {
        self.file.bytes().to_vec()
    }

    /// Puts an older file in its place, durably.
    pub(crate) fn put_back(&mut self, bytes: Vec<u8>) {
        self.file = Sectors::holding(bytes);
        self.index = self.kept().unwrap_or_default();
    }

    /// The file system has room for so many records from now on; what has its room keeps it.
    pub fn limit(&mut self, records: u64) {
        self.room = records;
    }

    /// The next operation fails.
    pub fn fail_next(&mut self) {
        self.fails = true;
    }

    /// There is much room, and nothing is made to fail any more.
    pub fn mend(&mut self) {
        self.room = u64::MAX;
        self.fails = false;
    }

    fn opened(&self) -> Result<(BeforeStore, BeforeFound), BeforeError<Infallible>> {
        let mut read = |at: u64, buffer: &mut [u8]| self.file.read(at, buffer);
        BeforeStore::open(&mut read, self.file.bytes().len() as u64, CHUNK, 1, crc32c)
    }

    /// As a starting daemon finds it, behind a flush.
    pub(crate) fn open(&mut self) -> BeforeFound {
        self.file.flush();
        let Ok((mut store, found)) = self.opened() else {
            panic!("a crash made both headers unreadable")
        };
        found.torn.iter().for_each(|page| self.file.put(*page, &[0; PAGE_BYTES]));
        self.file.flush();
        if let Some(note) = store.note() {
            self.put_page(&note);
            self.file.flush();
            store.flushed();
        }
        (self.store, self.failed) = (Some(store), false);
        self.index = self.kept().unwrap_or_default();
        self.batch.clear();
        found
    }

    /// What a restore would put back, if an image is kept: the stamp of each block that would change hands.
    #[must_use]
    pub fn kept(&self) -> Option<BTreeMap<Place, Stamp>> {
        let (_, found) = self.opened().ok()?;
        self.held(safe_copy(&found)?.number)
    }

    /// Where that copy, which is held, differs from the volumes, and what it holds there; none if there is no such copy.
    #[must_use]
    pub fn held(&self, number: CopyNumber) -> Option<BTreeMap<Place, Stamp>> {
        let (store, found) = self.opened().ok()?;
        let is_it = |copy: &&KeptCopy| copy.number == number && copy.stage == CopyStage::Held;
        found.copies.iter().find(is_it).filter(|_| !found.damaged)?;
        // What lies with an older copy, from this one on, comes first.
        let cut = |it: &&BeforeRecord| matches!(it.of, CopyView::Cut(copy) if copy >= number);
        let mut records: Vec<_> = found.records.iter().filter(cut).collect();
        records.sort_by_key(|record| core::cmp::Reverse(record.of.copy()));
        let mut stamps = BTreeMap::new();
        for BeforeRecord { slot, chunk, .. } in records {
            let (chunk, bytes) = self.load(&store, *slot, *chunk)?;
            stamps.extend(blocks(chunk).zip(stamps_of(&bytes)));
        }
        Some(stamps)
    }

    /// What a restore would put back at that place.
    #[must_use]
    pub fn kept_block(&self, place: Place) -> Option<Stamp> {
        self.index.get(&place).copied()
    }

    /// The head of the kept image.
    #[must_use]
    pub fn kept_head(&self) -> Option<u64> {
        let (_, found) = self.opened().ok()?;
        safe_copy(&found).map(|copy| copy.image.head.0)
    }

    fn load(&self, store: &BeforeStore, slot: Slot, chunk: Chunk) -> Option<(Chunk, Vec<u8>)> {
        let mut read = |at: u64, buffer: &mut [u8]| self.file.read(at, buffer);
        store.load(slot, chunk, &mut read).ok()?
    }

    fn put_page(&mut self, write: &BeforeWrite) {
        self.file.put(write.offset, &write.bytes);
    }

    /// Begins what the engine asks for at `at`; the payloads that it names lie in `pool`.
    pub(crate) fn begin(&mut self, at: Moment, op: PoolOp, pool: &Pool) -> Step {
        self.under_way = Some((Job::of(op, pool), Stage::Work));
        Step::Ends(at + self.latency)
    }

    /// The step under way ends.
    pub(crate) fn step(&mut self, now: Moment, pool: &mut Pool) -> Step {
        let Some((job, stage)) = self.under_way.take() else {
            panic!("a step that was not started")
        };
        // What the daemon does: a file that could not be written is read all the same.
        let (fails, reads) = (core::mem::take(&mut self.fails), job.reads());
        self.failed |= fails && !reads;
        if fails || self.failed && !reads {
            self.batch.clear();
            return Step::Over(PoolOutcome::Failed(StoreFault::Io));
        }
        let Some(mut store) = self.store.take() else {
            return Step::Over(PoolOutcome::Failed(StoreFault::Io));
        };
        let ended = match stage {
            Stage::Flush => {
                self.flushed(&mut store, &job);
                Some(PoolOutcome::Done)
            }
            Stage::Work => self.work(&mut store, &job, pool),
        };
        self.store = Some(store);
        match ended {
            Some(outcome) => Step::Over(outcome),
            None => {
                self.under_way = Some((job, Stage::Flush));
                Step::Ends(now + self.latency)
            }
        }
    }

    /// What was written is durable.
    fn flushed(&mut self, store: &mut BeforeStore, job: &Job) {
        self.file.flush();
        store.flushed();
        if let Some(note) = store.note() {
            self.put_page(&note);
        }
        let safe = |copy: &&KeptCopy| copy.is_safe_copy();
        let safe = store.copies().iter().rfind(safe).map(|copy| copy.number);
        let Some(safe) = safe else {
            self.index.clear();
            return self.batch.clear();
        };
        let batch = self.batch.drain(..);
        if matches!(job, Job::Append(of, _) if of.copy() >= safe) {
            // What was preserved first counts.
            batch.for_each(|(place, stamp)| _ = self.index.entry(place).or_insert(stamp));
        }
    }

    /// Does it; returns how it ended, unless it is to be flushed first.
    fn work(&mut self, store: &mut BeforeStore, job: &Job, pool: &mut Pool) -> Option<PoolOutcome> {
        match job {
            Job::Reserve { records } if *records > self.room => {
                let free = Bytes(self.room.saturating_mul(CHUNK_BYTES));
                return Some(PoolOutcome::NoRoom { free });
            }
            Job::Reserve { .. } => return Some(PoolOutcome::Done),
            Job::Check(records) => {
                let load = |(slot, chunk): &(Slot, Chunk)| self.load(store, *slot, *chunk);
                let sound = records.iter().all(|record| load(record).is_some());
                return Some(if sound { PoolOutcome::Done } else { PoolOutcome::Damaged });
            }
            Job::Load(records) => {
                let load = |(slot, chunk): &(Slot, Chunk)| self.load(store, *slot, *chunk);
                let Some(found) = records.iter().map(load).collect::<Option<Vec<_>>>() else {
                    return Some(PoolOutcome::Damaged);
                };
                let row = |((volume, extent), bytes): (Chunk, Vec<u8>)| {
                    let blocks = blocks((volume, extent)).count();
                    let payload = pool.take(stamps_of(&bytes)[..blocks].to_vec());
                    Row { volume, extent, payload }
                };
                return Some(PoolOutcome::Loaded(found.into_iter().map(row).collect()));
            }
            Job::Overlay(base, records) => {
                let mut stamps = pool.stamps(base.payload).to_vec();
                for (slot, chunk) in records {
                    let Some((chunk, bytes)) = self.load(store, *slot, *chunk) else {
                        return Some(PoolOutcome::Damaged);
                    };
                    lay_over((base.extent, &mut stamps), (chunk.1, &stamps_of(&bytes)), BLOCK);
                }
                let row = Row { payload: pool.take(stamps), ..*base };
                return Some(PoolOutcome::Loaded(vec![row]));
            }
            Job::List(..) | Job::Append(..) => self.write(store, job),
        }
        None
    }

    fn write(&mut self, store: &mut BeforeStore, job: &Job) {
        match job {
            Job::List(copies, freed) => {
                let pages = store.list(copies.clone(), *freed, WallTime(1));
                self.put_page(&pages);
            }
            Job::Append(of, chunks) => {
                store.begin_batch();
                for (slot, chunk, stamps) in chunks {
                    let bytes = bytes_of(stamps);
                    let page = store.record(*of, *slot, *chunk, &bytes);
                    self.batch.extend(blocks(*chunk).zip(stamps.iter().copied()));
                    self.put_page(&page);
                    self.file.put(page.offset + PAGE_BYTES as u64, &bytes);
                }
            }
            Job::Reserve { .. } | Job::Check(_) | Job::Load(_) | Job::Overlay(..) => {}
        }
    }

    /// The process is gone; with the power, too, every sector that was not flushed is the new or the old one. What was
    /// under way was done in part.
    pub(crate) fn crash(&mut self, power: bool) {
        if let (Some((job, Stage::Work)), Some(mut store)) =
            (self.under_way.take(), self.store.take())
            && self.dice.chance(1, 2)
        {
            self.write(&mut store, &job);
        }
        (self.under_way, self.store) = (None, None);
        if power {
            self.file.tear(&mut self.dice);
        }
    }
}

/// The copy that a restore would put back.
fn safe_copy(found: &BeforeFound) -> Option<&KeptCopy> {
    let held = |copy: &&KeptCopy| copy.stage == CopyStage::Held;
    found.copies.iter().rfind(|copy| copy.is_safe_copy() && held(copy))
}

fn blocks((volume, extent): Chunk) -> impl Iterator<Item = Place> {
    places(volume, extent)
}

fn bytes_of(stamps: &[Stamp]) -> Vec<u8> {
    let mut bytes: Vec<u8> = stamps.iter().flat_map(|stamp| stamp.0.to_le_bytes()).collect();
    bytes.resize(CHUNK.0 as usize, 0);
    bytes
}

fn stamps_of(bytes: &[u8]) -> Vec<Stamp> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| Stamp(u64::from_le_bytes(*word))).collect()
}
