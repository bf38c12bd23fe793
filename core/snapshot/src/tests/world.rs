// SPDX-License-Identifier: Apache-2.0
//! Members and a pool of bytes over a layer of faults: what copies give is what the members held.

use super::*;
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;
use helio_stack::{Faults, Odds, lay_over};

/// From then on nothing fails by seed.
const QUIET: Moment = Moment(50_000_000);
/// Writes of a story.
const WRITES: u64 = 60;

/// Of each block what was written last.
type Blocks = BTreeMap<(VolumeIndex, u64), u64>;

/// See the module.
struct World {
    desk: Desk,
    blocks: Blocks,
    /// What lies in payloads, block by block.
    bytes: BTreeMap<PayloadId, Vec<u64>>,
    copies: Vec<KeptCopy>,
    pool: BTreeMap<Slot, (CopyView, Chunk, Vec<u64>)>,
    /// What the members held at the moment of each cut, and what older writes brought later.
    images: BTreeMap<CopyNumber, Blocks>,
    /// Writes on their way at the moment of the newest cut.
    older: BTreeSet<u64>,
    writes: u64,
    dice: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let odds = Odds { reads: 20, untouched: 50, short: 50, lost: 50, flush: 50, ..Odds::NONE };
        let odds = Odds { waits: 200, changes_wait: 200, until: QUIET, ..odds };
        let odds = Odds { longest: Duration::from_millis(3), ..odds };
        let faults = Faults::new(seed, odds, Bytes(4096)).boxed();
        let snapshot = Snapshot::new(&SIZES, &BeforeFound::default(), CopyNumber(0), None).boxed();
        Self {
            desk: Desk::new(vec![snapshot, faults]),
            blocks: BTreeMap::new(),
            bytes: BTreeMap::new(),
            copies: Vec::new(),
            pool: BTreeMap::new(),
            images: BTreeMap::new(),
            older: BTreeSet::new(),
            writes: 0,
            dice: seed,
        }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.dice >> 33) % below
    }

    fn places(volume: VolumeIndex, extent: Extent) -> impl Iterator<Item = (VolumeIndex, u64)> {
        (extent.offset / 4096..extent.end() / 4096).map(move |block| (volume, block))
    }

    fn held(&self, volume: VolumeIndex, extent: Extent) -> Vec<u64> {
        let held = |place| self.blocks.get(&place).copied().unwrap_or(0);
        Self::places(volume, extent).map(held).collect()
    }

    fn payload(&mut self, extent: Extent, bytes: Vec<u64>) -> Payload {
        let payload = self.desk.payload(extent);
        self.bytes.insert(payload.id, bytes);
        payload
    }

    /// One write, of a few blocks with its own name in them, if any is left.
    fn write(&mut self) {
        let name = self.writes;
        if name == WRITES {
            return;
        }
        self.writes += 1;
        let volume = VolumeIndex(self.roll(2) as u16);
        let most = SIZES[usize::from(volume.0)].0 / 4096;
        let (first, count) = (self.roll(most), 1 + self.roll(20));
        let extent = Extent::new(first * 4096, count.min(most - first) * 4096);
        let payload = Payload { id: PayloadId(1 << 32 | name), length: extent.length as u32 };
        let fua = self.roll(8) == 0;
        self.bytes.insert(payload.id, vec![name; (extent.length / 4096) as usize]);
        self.desk.stack.begin(name, volume, StoreOp::Write { extent, payload, fua });
        self.desk.drain();
    }

    /// A member or the pool does one thing, in any order, or time goes on. Returns whether anything was left to do.
    fn step(&mut self) -> bool {
        let ops = self.desk.members.len() as u64;
        if ops > 0 && (self.desk.pools.is_empty() || self.roll(3) > 0) {
            let chosen = self.roll(ops);
            self.desk.members.swap(0, chosen as usize);
            let (_, volume, op) = self.desk.members[0];
            let outcome = self.perform(volume, op);
            self.desk.member(outcome);
        } else if let Some(op) = self.desk.pools.front().cloned() {
            let outcome = self.keep(op);
            self.desk.pool(outcome);
        } else if self.desk.stack.deadline() < Moment::NEVER {
            self.desk.tick();
        } else {
            return false;
        }
        true
    }

    fn perform(&mut self, volume: VolumeIndex, op: StoreOp) -> Outcome {
        match op {
            StoreOp::Read { extent } => {
                let bytes = self.held(volume, extent);
                Outcome::Read(self.payload(extent, bytes))
            }
            StoreOp::Write { extent, payload, .. } => {
                let places = Self::places(volume, extent);
                let written: Blocks = places.zip(self.bytes[&payload.id].clone()).collect();
                let is_older = self.older.iter().any(|name| payload.id.0 == 1 << 32 | name);
                if let Some(mut image) = self.images.last_entry().filter(|_| is_older) {
                    image.get_mut().extend(written.clone());
                }
                self.blocks.extend(written);
                Outcome::Done
            }
            _ => Outcome::Done,
        }
    }

    fn keep(&mut self, op: PoolOp) -> PoolOutcome {
        match op {
            PoolOp::List { copies, .. } => self.list(copies),
            PoolOp::Append { of, rows, slots } => {
                let mut slots = slots.into_iter();
                for row in rows {
                    let bytes = self.bytes[&row.payload.id].clone();
                    for (chunk, part) in row.chunks(&bytes, Bytes(4096)) {
                        let slot = slots.next().expect("a slot for each chunk");
                        self.pool.insert(slot, (of, chunk, part.to_vec()));
                    }
                }
                assert_eq!(slots.next(), None, "a chunk for each slot");
            }
            PoolOp::Load { records } => {
                let mut rows = Vec::new();
                for (slot, (volume, extent)) in records {
                    let (_, chunk, bytes) = self.pool[&slot].clone();
                    assert_eq!(chunk, (volume, extent), "what lies in slot {slot:?}");
                    rows.push(Row { volume, extent, payload: self.payload(extent, bytes) });
                }
                return PoolOutcome::Loaded(rows);
            }
            PoolOp::Overlay { base, records } => {
                let mut bytes = self.bytes[&base.payload.id].clone();
                for (slot, (volume, extent)) in records {
                    let (_, chunk, from) = &self.pool[&slot];
                    assert_eq!((*chunk, volume), ((volume, extent), base.volume));
                    lay_over((base.extent, &mut bytes), (extent, from), Bytes(4096));
                }
                let payload = self.payload(base.extent, bytes);
                return PoolOutcome::Loaded(vec![Row { payload, ..base }]);
            }
            PoolOp::Check { records } => {
                let is_there = |(slot, chunk): &(Slot, Chunk)| self.pool[slot].1 == *chunk;
                assert!(records.iter().all(is_there), "{records:?}");
            }
            PoolOp::Reserve { .. } => {}
            PoolOp::Amend { .. } | PoolOp::Flush => panic!("no client writes to a copy here"),
        }
        PoolOutcome::Done
    }

    /// A new copy in the list is cut at this moment.
    fn list(&mut self, copies: Vec<KeptCopy>) {
        let listed = |number: &CopyNumber| copies.iter().any(|copy| copy.number == *number);
        if !self.images.keys().last().is_none_or(listed) {
            self.older.clear();
        }
        self.images.retain(|number, _| listed(number));
        for copy in &copies {
            if !self.images.contains_key(&copy.number) {
                self.images.insert(copy.number, self.blocks.clone());
                let ended = |name: &u64| self.desk.ended.iter().any(|(it, _)| it == name);
                self.older = (0..self.writes).filter(|name| !ended(name)).collect();
            }
        }
        self.copies = copies;
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    /// A copy is cut while writes go on, if that succeeds in some tries.
    fn cut(&mut self, overwritten: Bytes) {
        for _ in 0..10 {
            self.desk.copied.clear();
            self.desk.copy(cut(overwritten));
            while self.desk.copied.is_empty() {
                if self.roll(4) == 0 {
                    self.write();
                }
                assert!(self.step(), "a cut does not end: {:?}", self.desk.stack);
            }
            if let Some(CopyOutcome::Cut(_)) = self.desk.copied() {
                return;
            }
        }
    }

    /// Another process starts, and finds what the pool holds.
    fn restart(&mut self) {
        let mut found = BeforeFound { copies: self.copies.clone(), ..BeforeFound::default() };
        found.last = found.copies.last().map_or(CopyNumber(0), |copy| copy.number);
        found.slots = self.pool.keys().last().map_or(0, |slot| slot.0 + 1);
        let mut records: Vec<_> = self.pool.iter().collect();
        records.sort_by_key(|(_, (number, ..))| *number);
        for (slot, (number, chunk, _)) in records {
            let older = self.copies.iter().rev().find(|copy| copy.number <= number.copy());
            let Some(copy) = older.map(|copy| copy.number) else { continue };
            let of = CopyView::Cut(copy);
            if !found.records.iter().any(|it| (it.of, it.chunk) == (of, *chunk)) {
                found.records.push(BeforeRecord { slot: *slot, of, chunk: *chunk });
            }
        }
        let snapshot = Snapshot::new(&SIZES, &found, CopyNumber(0), None).boxed();
        self.desk.stack = Stack::new(vec![snapshot]);
    }

    /// Restores a copy, and judges what the members hold.
    fn restore(&mut self, number: CopyNumber, seed: u64) {
        self.desk.copied.clear();
        self.desk.copy(CopyOp::Restore(number));
        self.settle();
        assert_eq!(self.desk.copied(), Some(CopyOutcome::Done), "seed {seed}, copy {number}");
        for (volume, size) in (0..).map(VolumeIndex).zip(SIZES) {
            let all = Extent::new(0, size.0);
            let image = |place| self.images[&number].get(&place).copied().unwrap_or(0);
            let image: Vec<u64> = Self::places(volume, all).map(image).collect();
            let held = self.held(volume, all);
            assert_eq!(held, image, "seed {seed}, copy {number}, volume {}", volume.0);
        }
    }

    fn some_copy(&mut self) -> Option<CopyNumber> {
        let count = self.copies.len() as u64;
        (count > 0).then(|| self.roll(count)).map(|nth| self.copies[nth as usize].number)
    }
}

#[test]
fn over_a_layer_of_faults_everything_ends_once_and_every_copy_gives_what_was_cut() {
    let (mut failed, mut refused, mut preserved, mut several) = (0, 0, 0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        for overwritten in [if seed % 2 == 0 { ALL } else { Bytes(CHUNK_BYTES) }, Bytes::ZERO, ALL]
        {
            (0..10).for_each(|_| world.write());
            world.cut(overwritten);
            for _ in 0..world.roll(20) {
                world.write();
                (0..world.roll(6)).for_each(|_| _ = world.step());
            }
        }
        (0..WRITES).for_each(|_| world.write());
        world.settle();
        world.desk.now = world.desk.now.max(QUIET);
        let mut names: Vec<u64> = world.desk.ended.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(names, (0..WRITES).collect::<Vec<_>>(), "seed {seed}");
        for (_, outcome) in &world.desk.ended {
            failed += u32::from(matches!(outcome, Outcome::Failed(_) | Outcome::Unsure(_)));
            refused += u32::from(matches!(outcome, Outcome::Refused(_)));
        }
        preserved += world.pool.len();
        several += usize::from(world.copies.len() > 1);
        if seed % 3 == 0 || world.desk.health() != PoolHealth::Works {
            world.restart();
        }
        for _ in 0..4 {
            world.some_copy().into_iter().for_each(|number| world.restore(number, seed));
        }
        if let Some(number) = world.some_copy() {
            world.desk.copy(CopyOp::Drop(number));
            world.settle();
            assert_eq!(world.desk.copied(), Some(CopyOutcome::Done), "seed {seed}");
        }
        for number in world.images.keys().copied().collect::<Vec<_>>() {
            world.restore(number, seed);
        }
        assert!(world.desk.everything_is_released(), "seed {seed}");
    }
    let counts = [failed, refused, preserved as u32, several as u32];
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}
