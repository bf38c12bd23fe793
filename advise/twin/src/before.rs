// SPDX-License-Identifier: Apache-2.0
//! A node's before-image file: the ledger's own store, over sectors that tear and a file system that fills up.
//!
//! A chunk's bytes in the file are the stamps of its blocks, so records are short; their pages are the real ones.

use crate::checksum::crc32c;
use crate::content::Step;
use crate::pool::Pool;
use crate::{BLOCK, Place, Stamp, places};
use core::convert::Infallible;
use core::time::Duration;
use helio_engine::{PoolOp, PoolOutcome, Row, StoreFault};
use helio_format::before::{CHUNK_BYTES, KeptImage, PAGE_BYTES};
use helio_ledger::{BEFORE_HEADER_BYTES, BeforeError, BeforeKept, BeforeStore, BeforeWrite, Chunk};
use helio_netmodel::Dice;
use helio_units::{Bytes, Moment};
use std::collections::{BTreeMap, BTreeSet};

/// What a disk writes whole or not at all.
const SECTOR: usize = helio_units::SECTOR as usize;
/// Bytes of a chunk in the file: a stamp per block.
const CHUNK: Bytes = Bytes(CHUNK_BYTES / BLOCK.0 * 8);

/// What is asked of the file, with the content that it needs.
#[derive(Clone, Debug)]
enum Job {
    Reserve { chunks: u64 },
    Begin(Box<KeptImage>),
    Append(Vec<(Chunk, Vec<Stamp>)>),
    Check,
    Load { first: u64, most: u64 },
    End,
}

impl Job {
    fn of(op: PoolOp, pool: &Pool) -> Self {
        match op {
            PoolOp::Reserve { chunks } => Self::Reserve { chunks },
            PoolOp::Begin { label } => Self::Begin(label),
            PoolOp::Append { rows } => {
                let chunks = |row: &Row| {
                    let chunks = row.chunks(pool.stamps(row.payload), BLOCK);
                    chunks.map(|(chunk, stamps)| (chunk, stamps.to_vec())).collect::<Vec<_>>()
                };
                Self::Append(rows.iter().flat_map(chunks).collect())
            }
            PoolOp::Check => Self::Check,
            PoolOp::Load { first, most } => Self::Load { first, most },
            PoolOp::End => Self::End,
        }
    }
}

/// The before-image file of one node.
#[derive(Clone, Debug)]
pub struct Before {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors written and not flushed.
    dirty: BTreeSet<usize>,
    store: Option<BeforeStore>,
    under_way: Option<(Job, Stage)>,
    /// What is kept, block by block, as far as it is durable; of this life of the process.
    index: BTreeMap<Place, Stamp>,
    batch: Vec<(Place, Stamp)>,
    /// Chunks the file system has room for.
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
            live: vec![0; BEFORE_HEADER_BYTES as usize],
            durable: vec![0; BEFORE_HEADER_BYTES as usize],
            dirty: BTreeSet::new(),
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
        self.live.clone()
    }

    /// Puts an older file in its place, durably.
    pub(crate) fn put_back(&mut self, bytes: Vec<u8>) {
        self.durable.clone_from(&bytes);
        self.live = bytes;
        self.dirty.clear();
        self.index = self.kept().unwrap_or_default();
    }

    /// The file system has room for so many chunks from now on; what has its room keeps it.
    pub fn limit(&mut self, chunks: u64) {
        self.room = chunks;
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

    fn read(live: &[u8], at: u64, buffer: &mut [u8]) -> Result<(), Infallible> {
        let at = at as usize;
        let end = (at + buffer.len()).min(live.len());
        buffer.fill(0);
        if at < end {
            buffer[..end - at].copy_from_slice(&live[at..end]);
        }
        Ok(())
    }

    fn opened(&self) -> Result<(BeforeStore, Option<BeforeKept>), BeforeError<Infallible>> {
        let mut read = |at: u64, buffer: &mut [u8]| Self::read(&self.live, at, buffer);
        BeforeStore::open(&mut read, self.live.len() as u64, CHUNK, 1, crc32c)
    }

    /// As a starting daemon finds it, behind a flush.
    pub(crate) fn open(&mut self) -> Option<BeforeKept> {
        self.flush();
        let Ok((store, kept)) = self.opened() else {
            panic!("a crash made both headers unreadable")
        };
        (self.store, self.failed) = (Some(store), false);
        self.index = self.kept().unwrap_or_default();
        self.batch.clear();
        kept
    }

    /// What a restore would put back, if an image is kept: the stamp of each block that would change hands.
    #[must_use]
    pub fn kept(&self) -> Option<BTreeMap<Place, Stamp>> {
        let (store, kept) = self.opened().ok()?;
        let kept = kept.filter(|kept| !kept.damaged)?;
        let mut stamps = BTreeMap::new();
        for number in 0..kept.chunks.len() as u64 {
            let (chunk, bytes) = self.load(&store, number)?;
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
        self.opened().ok()?.1.map(|kept| kept.image.head.0)
    }

    fn load(&self, store: &BeforeStore, number: u64) -> Option<(Chunk, Vec<u8>)> {
        let mut read = |at: u64, buffer: &mut [u8]| Self::read(&self.live, at, buffer);
        store.load(number, &mut read).ok()?
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        if self.live.len() < at + bytes.len() {
            self.live.resize((at + bytes.len()).next_multiple_of(SECTOR), 0);
        }
        self.live[at..at + bytes.len()].copy_from_slice(bytes);
        self.dirty.extend(at / SECTOR..(at + bytes.len()).div_ceil(SECTOR));
    }

    fn put_page(&mut self, write: &BeforeWrite) {
        self.put(write.offset, &write.bytes);
    }

    fn flush(&mut self) {
        self.durable.resize(self.live.len(), 0);
        for sector in core::mem::take(&mut self.dirty) {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            self.durable[range.clone()].copy_from_slice(&self.live[range]);
        }
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
        let (fails, reads) =
            (core::mem::take(&mut self.fails), matches!(job, Job::Check | Job::Load { .. }));
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
        self.flush();
        store.flushed();
        if let Some(note) = store.note() {
            self.put_page(&note);
        }
        match job {
            Job::Begin(_) | Job::End => self.index.clear(),
            _ => self.index.extend(self.batch.drain(..)),
        }
    }

    /// Does it; returns how it ended, unless it is to be flushed first.
    fn work(&mut self, store: &mut BeforeStore, job: &Job, pool: &mut Pool) -> Option<PoolOutcome> {
        match job {
            Job::Reserve { chunks } if *chunks > self.room => {
                let free = Bytes(self.room.saturating_mul(CHUNK_BYTES));
                return Some(PoolOutcome::NoRoom { free });
            }
            Job::Reserve { .. } => return Some(PoolOutcome::Done),
            Job::Check => {
                let sound = (0..store.records()).all(|n| self.load(store, n).is_some());
                return Some(if sound { PoolOutcome::Done } else { PoolOutcome::Damaged });
            }
            Job::Load { first, most } => {
                let all = *first..store.records().min(first + most);
                let Some(found) = all.map(|n| self.load(store, n)).collect::<Option<Vec<_>>>()
                else {
                    return Some(PoolOutcome::Damaged);
                };
                let row = |((volume, extent), bytes): (Chunk, Vec<u8>)| {
                    let blocks = blocks((volume, extent)).count();
                    let payload = pool.take(stamps_of(&bytes)[..blocks].to_vec());
                    Row { volume, extent, payload }
                };
                return Some(PoolOutcome::Loaded(found.into_iter().map(row).collect()));
            }
            Job::Begin(_) | Job::Append(_) | Job::End => self.write(store, job),
        }
        None
    }

    fn write(&mut self, store: &mut BeforeStore, job: &Job) {
        match job {
            Job::Begin(label) => {
                let page = store.begin(**label);
                self.put_page(&page);
            }
            Job::Append(chunks) => {
                for (chunk, stamps) in chunks {
                    let bytes = bytes_of(stamps);
                    let page = store.record(*chunk, &bytes);
                    self.batch.extend(blocks(*chunk).zip(stamps.iter().copied()));
                    self.put_page(&page);
                    self.put(page.offset + PAGE_BYTES as u64, &bytes);
                }
            }
            Job::End => {
                let page = store.end();
                self.put_page(&page);
            }
            Job::Reserve { .. } | Job::Check | Job::Load { .. } => {}
        }
    }

    /// The process is gone; with the power, too, every sector that was not flushed is the new or the old one. What was
    /// under way was done in part.
    pub(crate) fn crash(&mut self, power: bool) {
        if let (Some((job, Stage::Work)), Some(mut store)) =
            (self.under_way.take(), self.store.take())
            && self.dice.chance(1, 2)
            && !matches!(job, Job::Begin(_))
        {
            self.write(&mut store, &job);
        }
        (self.under_way, self.store) = (None, None);
        if power {
            self.durable.resize(self.live.len(), 0);
            for sector in core::mem::take(&mut self.dirty) {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                if self.dice.chance(1, 2) {
                    self.live[range.clone()].copy_from_slice(&self.durable[range]);
                } else {
                    self.durable[range.clone()].copy_from_slice(&self.live[range]);
                }
            }
        }
    }
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
