// SPDX-License-Identifier: Apache-2.0
//! The pool of a desk, where before-images lie: the ledger's own store over sectors that tear. It runs out of room, fails, and does
//! what is under way in part when the process ends.

use super::member::Payloads;
use super::{BLOCK, Stamp, blocks};
use helio_format::before::{
    CHUNK_BYTES, CopyNumber, CopyStage, CopyView, KeptCopy, PAGE_BYTES, Slot,
};
use helio_ledger::{BeforeFound, BeforeStore, Chunk};
use helio_netmodel::Dice;
use helio_stack::{PoolOp, PoolOutcome, Row, StoreFault, lay_over};
use helio_twin::{Sectors, crc32c};
use helio_units::{Bytes, Extent, WallTime};
use std::collections::BTreeMap;

/// Bytes of a chunk in the file: a stamp for each block.
const CHUNK: Bytes = Bytes(CHUNK_BYTES / BLOCK * 8);

/// Records that there is always room for.
pub(super) const UNLIMITED: u64 = u64::MAX >> 20;

/// See the module.
pub(super) struct Pool {
    file: Sectors,
    store: BeforeStore,
    /// The copies that count, as it is durable.
    copies: Vec<KeptCopy>,
    /// What was preserved of a block, and for which copy.
    kept: BTreeMap<(usize, usize), BTreeMap<CopyNumber, Stamp>>,
    /// Chunks of branches.
    branches: BTreeMap<CopyNumber, Vec<(Chunk, Slot)>>,
    asked: Option<PoolOp>,
    /// Records that it has room for.
    room: u64,
    failed: bool,
    /// Something failed since the process began.
    ever: bool,
}

/// What each record of these rows holds, and where it goes.
fn records(rows: &[Row], slots: &[Slot], payloads: &Payloads) -> Vec<(Slot, Chunk, Vec<Stamp>)> {
    let chunks = |row: &Row| {
        let chunks = row.chunks(payloads.stamps(row.payload), Bytes(BLOCK));
        chunks.map(|(chunk, stamps)| (chunk, stamps.to_vec())).collect::<Vec<_>>()
    };
    let records = slots.iter().zip(rows.iter().flat_map(chunks));
    records.map(|(slot, (chunk, stamps))| (*slot, chunk, stamps)).collect()
}

fn open(file: &Sectors) -> Result<(BeforeStore, BeforeFound), String> {
    let mut read = |at: u64, buffer: &mut [u8]| file.read(at, buffer);
    BeforeStore::open(&mut read, file.bytes().len() as u64, CHUNK, 1, crc32c)
        .map_err(|error| format!("the pool cannot be opened: {error}"))
}

impl Pool {
    pub(super) fn new(room: u64) -> Self {
        let Ok((store, _)) = open(&Sectors::default()) else { panic!("an empty file opens") };
        Self {
            file: Sectors::default(),
            store,
            copies: Vec::new(),
            kept: BTreeMap::new(),
            branches: BTreeMap::new(),
            asked: None,
            room,
            failed: false,
            ever: false,
        }
    }

    /// There is room for so many records from now on.
    pub(super) const fn limit(&mut self, room: u64) {
        self.room = room;
    }

    /// It may run out of room.
    pub(super) const fn is_limited(&self) -> bool {
        self.room < UNLIMITED
    }

    /// The copies that are held.
    pub(super) fn held(&self) -> impl Iterator<Item = &KeptCopy> {
        self.copies.iter().filter(|copy| copy.stage == CopyStage::Held)
    }

    /// The rollback that is listed: to which copy, and its number.
    pub(super) fn rollback(&self) -> Option<(CopyNumber, CopyNumber)> {
        self.copies.iter().find_map(|copy| match copy.stage {
            CopyStage::Rollback(to) => Some((to, copy.number)),
            CopyStage::Coming | CopyStage::Held => None,
        })
    }

    /// What a copy says that block held, where it was preserved.
    pub(super) fn kept_block(
        &self,
        copy: CopyNumber,
        volume: usize,
        block: usize,
    ) -> Option<Stamp> {
        self.kept.get(&(volume, block))?.range(copy..).next().map(|(_, stamp)| *stamp)
    }

    /// Whether an operation failed since the process began.
    pub(super) const fn has_failed(&self) -> bool {
        self.ever
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.asked.is_some()
    }

    pub(super) fn begin(&mut self, op: PoolOp) {
        assert!(self.asked.is_none(), "two operations on the pool at once");
        self.asked = Some(op);
    }

    /// What was asked ends. `fails`: it fails; nothing is written behind a write that failed until the process starts again, unless
    /// that was to a branch.
    pub(super) fn end(&mut self, fails: bool, payloads: &mut Payloads) -> PoolOutcome {
        let Some(op) = self.asked.take() else { panic!("nothing was asked of the pool") };
        let (reads, amends) = (op.reads(), matches!(op, PoolOp::Amend { .. }));
        self.failed |= fails && !reads && !amends;
        self.ever |= fails;
        if fails || self.failed && !reads {
            return PoolOutcome::Failed(StoreFault::Io);
        }
        match op {
            PoolOp::Reserve { records } if records > self.room => {
                return PoolOutcome::NoRoom { free: Bytes(self.room * (CHUNK_BYTES + 4096)) };
            }
            PoolOp::Reserve { .. } => {}
            PoolOp::Check { records } => {
                if records.iter().any(|(slot, chunk)| self.load(*slot, *chunk).is_none()) {
                    return PoolOutcome::Damaged;
                }
            }
            PoolOp::Load { records } => {
                let mut rows = Vec::new();
                for (slot, chunk) in records {
                    let Some(stamps) = self.load(slot, chunk) else { return PoolOutcome::Damaged };
                    let (volume, extent) = chunk;
                    rows.push(Row { volume, extent, payload: payloads.take(stamps) });
                }
                return PoolOutcome::Loaded(rows);
            }
            PoolOp::Overlay { base, records } => {
                let mut stamps = payloads.stamps(base.payload).to_vec();
                for (slot, chunk) in records {
                    let Some(from) = self.load(slot, chunk) else { return PoolOutcome::Damaged };
                    lay_over((base.extent, &mut stamps), (chunk.1, &from), Bytes(BLOCK));
                }
                return PoolOutcome::Loaded(vec![Row { payload: payloads.take(stamps), ..base }]);
            }
            op @ PoolOp::Amend { .. } => self.write(&op, usize::MAX, payloads),
            op => {
                self.write(&op, usize::MAX, payloads);
                self.file.flush();
                self.store.flushed();
                self.note();
                self.done(op, payloads);
            }
        }
        PoolOutcome::Done
    }

    fn note(&mut self) {
        if let Some(note) = self.store.note() {
            self.file.put(note.offset, &note.bytes);
        }
    }

    /// What the branch of a copy has there, where it has a chunk.
    pub(super) fn branch_block(
        &self,
        copy: CopyNumber,
        volume: usize,
        block: usize,
    ) -> Option<Stamp> {
        let there = |(chunk, _): &&(Chunk, Slot)| {
            usize::from(chunk.0.0) == volume && blocks(chunk.1).contains(&block)
        };
        let (chunk, slot) = self.branches.get(&copy)?.iter().find(there)?;
        let stamps = self.load(*slot, *chunk)?;
        stamps.get(block - blocks(chunk.1).start).copied()
    }

    /// What is under way is written, and is going to fail all the same.
    pub(super) fn reach(&mut self, payloads: &Payloads) {
        if self.failed {
            return;
        }
        let Some(op) = self.asked.take() else { return };
        self.write(&op, usize::MAX, payloads);
        if let PoolOp::List { copies, .. } = &op {
            self.copies.clone_from(copies);
        }
        self.asked = Some(op);
    }

    fn load(&self, slot: Slot, chunk: Chunk) -> Option<Vec<Stamp>> {
        let mut read = |at: u64, buffer: &mut [u8]| self.file.read(at, buffer);
        let (_, bytes) = self.store.load(slot, chunk, &mut read).ok()??;
        let (words, _) = bytes.as_chunks::<8>();
        let stamps = words.iter().map(|word| u64::from_le_bytes(*word));
        Some(stamps.take(blocks(chunk.1).len()).collect())
    }

    /// Writes what is asked, of several records the first ones.
    fn write(&mut self, op: &PoolOp, most: usize, payloads: &Payloads) {
        match op {
            PoolOp::List { copies, freed } => {
                let write = self.store.list(copies.clone(), *freed, WallTime(1));
                self.file.put(write.offset, &write.bytes);
            }
            PoolOp::Append { of, rows, slots } => {
                self.store.begin_batch();
                for (slot, chunk, stamps) in records(rows, slots, payloads).iter().take(most) {
                    let mut bytes: Vec<u8> = stamps.iter().flat_map(|s| s.to_le_bytes()).collect();
                    bytes.resize(CHUNK.0 as usize, 0);
                    let write = self.store.record(*of, *slot, *chunk, &bytes);
                    self.file.put(write.offset, &write.bytes);
                    self.file.put(write.offset + PAGE_BYTES as u64, &bytes);
                }
            }
            PoolOp::Amend { extent, payload, records } => {
                let zeros = || vec![0; blocks(*extent).len()];
                let stamps = payload.map_or_else(zeros, |it| payloads.stamps(it).to_vec());
                for (slot, (_, chunk)) in records.iter().take(most) {
                    let (first, end) =
                        (extent.offset.max(chunk.offset), extent.end().min(chunk.end()));
                    let stamps = &stamps[blocks(Extent::new(first - extent.offset, end - first))];
                    let bytes: Vec<u8> = stamps.iter().flat_map(|s| s.to_le_bytes()).collect();
                    let at = self.store.record_at(*slot) + PAGE_BYTES as u64;
                    self.file.put(at + (first - chunk.offset) / BLOCK * 8, &bytes);
                }
            }
            PoolOp::Reserve { .. }
            | PoolOp::Check { .. }
            | PoolOp::Load { .. }
            | PoolOp::Overlay { .. }
            | PoolOp::Flush => {}
        }
    }

    fn done(&mut self, op: PoolOp, payloads: &Payloads) {
        match op {
            PoolOp::List { copies, .. } => {
                if copies.is_empty() {
                    self.file.truncate(self.store.header_bytes());
                }
                self.copies = copies;
            }
            PoolOp::Append { of, rows, slots } => {
                for (slot, chunk, stamps) in records(&rows, &slots, payloads) {
                    self.appended(of, slot, chunk, stamps);
                }
            }
            _ => {}
        }
    }

    /// A record is there.
    fn appended(&mut self, of: CopyView, slot: Slot, chunk: Chunk, stamps: Vec<Stamp>) {
        match of {
            CopyView::Branch(copy) => self.branches.entry(copy).or_default().push((chunk, slot)),
            CopyView::Cut(copy) => {
                for (block, stamp) in blocks(chunk.1).zip(stamps) {
                    let place = (usize::from(chunk.0.0), block);
                    self.kept.entry(place).or_default().insert(copy, stamp);
                }
            }
        }
    }

    /// The process ends: what was under way is done, in part, or not at all. With the power every sector that was not flushed is the
    /// new or the old one.
    pub(super) fn crash(&mut self, power: bool, dice: &mut Dice, payloads: &Payloads) {
        if let Some(op) = self.asked.take()
            && !self.failed
            && dice.chance(2, 3)
        {
            let most = if dice.chance(1, 2) { usize::MAX } else { dice.below(4) as usize };
            self.write(&op, most, payloads);
            if most == usize::MAX && dice.chance(1, 2) {
                self.file.flush();
                self.store.flushed();
                self.note();
            }
        }
        (self.failed, self.ever) = (false, false);
        match power {
            true => self.file.tear(dice),
            false => self.file.flush(),
        }
    }

    /// As a starting process finds it.
    pub(super) fn found(&mut self) -> Result<BeforeFound, String> {
        let (store, found) = open(&self.file)?;
        if found.damaged {
            return Err(String::from("the pool is damaged, and nothing damaged it"));
        }
        for page in &found.torn {
            self.file.put(*page, &[0; PAGE_BYTES]);
        }
        self.file.flush();
        self.store = store;
        self.note();
        self.file.flush();
        self.store.flushed();
        self.copies.clone_from(&found.copies);
        self.kept.clear();
        self.branches.clear();
        for record in &found.records {
            let Some(stamps) = self.load(record.slot, record.chunk) else {
                return Err(format!("{record:?} is not whole"));
            };
            self.appended(record.of, record.slot, record.chunk, stamps);
        }
        Ok(found)
    }
}
