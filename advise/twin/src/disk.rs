// SPDX-License-Identifier: Apache-2.0
//! A disk with a volatile cache.
//!
//! What is done lies in the *live* image, which every reader sees and which a killed process leaves behind; a flush
//! carries what was done before it began to the *durable* image. When the power goes, each block keeps its durable
//! content or any content it had since, each for itself. Operations under way at a crash, and writes that fail, reached any
//! of their sectors (`disk/torn.rs`). A flush that fails drops all or part of what was not durable (`disk/drop.rs`). A disk that lies
//! loses or misdirects writes and reads what is out of date (`disk/lie.rs`).

mod drop;
mod lie;
mod torn;

pub(crate) use drop::Dropped;
pub use lie::Lie;
pub(crate) use lie::Lied;
use lie::Lies;

use crate::{Place, Stamp, places};
use core::time::Duration;
use helio_engine::{MemberFound, StoreFault, StoreOp};
use helio_netmodel::Dice;
use helio_units::{Bytes, Extent, IoId, Moment, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How long operations take: a base, and as much again of jitter at most.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// A read.
    pub read: Duration,
    /// A write, zero or discard.
    pub write: Duration,
    /// A flush.
    pub flush: Duration,
}

/// Kinds of operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Reads.
    Read,
    /// Writes, zeroes, discards.
    Write,
    /// Those without FUA.
    PlainWrite,
    /// Flushes.
    Flush,
}

#[derive(Clone, Debug)]
struct Image {
    live: Vec<Stamp>,
    durable: Vec<Stamp>,
    /// What was done and not flushed, oldest first; a hole where a later FUA made it moot.
    unflushed: VecDeque<Option<(u32, Stamp)>>,
    /// How many left `unflushed` at its front.
    flushed: u64,
    /// Blocks that read as written and are not durable, whatever is flushed.
    hidden: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
enum Work {
    Read { extent: Extent },
    Map { extent: Extent },
    Change { extent: Extent, stamps: Vec<Stamp>, fua: bool, upto: u64 },
    Flush { upto: u64 },
}

#[derive(Clone, Debug)]
struct UnderWay {
    volume: VolumeIndex,
    work: Work,
    fault: Option<StoreFault>,
    tag: bool,
    /// It fails as the same operation does on the first member.
    alike: bool,
}

/// How an operation ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Read(Vec<Stamp>),
    Empty(bool),
    Failed(StoreFault),
}

/// A block of the live image that changed; `tag` is what the operation was begun with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) place: Place,
    pub(crate) stamp: Stamp,
    pub(crate) tag: bool,
}

/// All volumes of one node.
#[derive(Clone, Debug)]
pub struct Disk {
    images: Vec<Image>,
    under_way: BTreeMap<IoId, UnderWay>,
    latency: Latency,
    /// Everything takes this many times as long.
    slowness: u32,
    failing: Vec<(StoreVerb, StoreFault)>,
    /// How the operation fails that begins next.
    fails: Option<StoreFault>,
    /// A flush fails as soon as it begins while another one of its volume is under way.
    failing_overlap: Option<StoreFault>,
    /// No write finds room.
    full: bool,
    /// What it calls flushed is not.
    lies: bool,
    /// What it says of its next reads and writes that is not so.
    false_io: Lies,
    /// FUA is a write and a flush of everything.
    fua_flushes: bool,
    /// Number of blocks left with a part of their sectors written, since the journal last recorded it.
    torn: u64,
    /// What a failed flush dropped, until somebody asks.
    dropped: Dropped,
    /// Of which volumes an operation has failed.
    failed: Vec<bool>,
    /// Of which volumes the disk is gone: whatever is asked of it fails.
    gone: Vec<bool>,
    /// Until when the disk of each volume ends nothing.
    silent: Vec<Moment>,
    /// What every request keeps to, in bytes.
    block: u32,
    /// Which disk each volume lies on.
    pub(crate) identities: Vec<u128>,
    dice: Dice,
}

impl Disk {
    /// A disk of zeros.
    #[must_use]
    pub fn new(volumes: &[Bytes], latency: Latency, mut dice: Dice) -> Self {
        let image = |size: &Bytes| {
            let zeros = vec![Stamp::ZEROS; (size.0 / crate::BLOCK.0) as usize];
            Image {
                live: zeros.clone(),
                durable: zeros,
                unflushed: VecDeque::new(),
                flushed: 0,
                hidden: BTreeSet::new(),
            }
        };
        Self {
            images: volumes.iter().map(image).collect(),
            under_way: BTreeMap::new(),
            latency,
            slowness: 1,
            failing: Vec::new(),
            fails: None,
            failing_overlap: None,
            full: false,
            lies: false,
            false_io: Lies::default(),
            fua_flushes: dice.chance(1, 2),
            torn: 0,
            dropped: Dropped::default(),
            failed: vec![false; volumes.len()],
            gone: vec![false; volumes.len()],
            silent: vec![Moment::ZERO; volumes.len()],
            block: 512,
            identities: vec![1; volumes.len()],
            dice,
        }
    }

    /// Puts content everywhere, durably: what was on the disk before the story began.
    pub fn fill(&mut self, mut content: impl FnMut(Place) -> Stamp) {
        for (volume, image) in self.images.iter_mut().enumerate() {
            for block in 0..image.live.len() as u32 {
                let place = Place { volume: VolumeIndex(volume as u16), block };
                image.live[block as usize] = content(place);
            }
            image.durable.clone_from(&image.live);
        }
    }

    /// What readers see.
    #[must_use]
    pub fn live(&self, volume: VolumeIndex) -> &[Stamp] {
        &self.images[usize::from(volume.0)].live
    }

    /// What survives the loss of power.
    #[must_use]
    pub fn durable(&self, volume: VolumeIndex) -> &[Stamp] {
        &self.images[usize::from(volume.0)].durable
    }

    /// Operations under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// What every request keeps to from now on, in bytes. No process uses it.
    pub fn set_block(&mut self, block: u32) {
        self.block = block;
    }

    /// What every request keeps to, in bytes.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// Whether an operation keeps to its blocks.
    pub(crate) fn fits(&self, op: StoreOp) -> bool {
        let Some(extent) = op.reads().or(op.changes()) else { return true };
        let block = u64::from(self.block);
        extent.offset.is_multiple_of(block) && extent.length.is_multiple_of(block)
    }

    /// Everything takes this many times as long from now on.
    pub fn slow_down(&mut self, times: u32) {
        self.slowness = times.max(1);
    }

    /// A block silently turns into something else, durably, and nobody is told.
    pub(crate) fn rot(&mut self, place: Place, stamp: Stamp) {
        let image = &mut self.images[usize::from(place.volume.0)];
        image.put(place.block, stamp, true);
    }

    /// The next operation of this kind fails.
    pub fn fail_next(&mut self, verb: StoreVerb, fault: StoreFault) {
        self.failing.push((verb, fault));
    }

    /// The next flush fails that begins while another one of its volume is under way, whenever that is.
    pub fn fail_overlapping(&mut self, fault: StoreFault) {
        self.failing_overlap = Some(fault);
    }

    /// How an operation under way will fail, if it will.
    pub(crate) fn fault_of(&self, io: IoId) -> Option<StoreFault> {
        self.under_way.get(&io).and_then(|under_way| under_way.fault)
    }

    /// The operation that begins next fails like that.
    pub(crate) const fn fail(&mut self, fault: Option<StoreFault>) {
        self.fails = fault;
    }

    /// Whether an operation under way fails as the same one does on the first member.
    pub(crate) fn fails_alike(&self, io: IoId) -> bool {
        self.under_way.get(&io).is_some_and(|under_way| under_way.alike)
    }

    /// Whether it waits for such a flush.
    pub(crate) const fn awaits_overlap(&self) -> bool {
        self.failing_overlap.is_some()
    }

    /// From now on no write finds room, or finds it again.
    pub fn fill_up(&mut self, full: bool) {
        self.full = full;
    }

    /// Whether an operation on that volume ever failed: one that found no space did only if it had to make something durable.
    #[must_use]
    pub fn has_failed(&self, volume: VolumeIndex) -> bool {
        self.failed[usize::from(volume.0)]
    }

    /// Whether something it is asked for next will fail, or something it was asked for and has not told yet.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        let untold = self.under_way.values().any(|work| work.fault.is_some());
        untold
            || self.full
            || !self.failing.is_empty()
            || self.failing_overlap.is_some()
            || self.gone.contains(&true)
    }

    /// From now on flushes, and writes that must be durable, are called done and are not; or no more.
    pub fn lie(&mut self, lies: bool) {
        self.lies = lies;
    }

    /// It lies about the next operation that this lie fits.
    pub fn lie_next(&mut self, lie: Lie) {
        self.false_io.arm(lie);
    }

    /// What it lied about since this was asked last.
    pub(crate) fn take_lied(&mut self) -> Option<Lied> {
        self.false_io.take()
    }

    /// What a daemon finds of it when it starts.
    pub(crate) fn members(&self) -> Vec<MemberFound> {
        let found = |(volume, identity): (usize, &u128)| MemberFound {
            identity: *identity,
            block: self.block,
            shown: format!("volume number {volume} on disk {identity}"),
        };
        self.identities.iter().enumerate().map(found).collect()
    }

    /// What readers see, for a snapshot.
    pub(crate) fn contents(&self) -> Vec<Vec<Stamp>> {
        self.images.iter().map(|image| image.live.clone()).collect()
    }

    /// Puts another disk in the place of this one, durably.
    pub(crate) fn put_back(&mut self, contents: &[Vec<Stamp>], changes: &mut Vec<Change>) {
        for (volume, blocks) in (0u16..).map(VolumeIndex).zip(contents) {
            self.put_one_back(volume, blocks, changes);
        }
    }

    /// Puts another disk in the place of one volume's, durably.
    pub(crate) fn put_one_back(
        &mut self,
        volume: VolumeIndex,
        blocks: &Vec<Stamp>,
        changes: &mut Vec<Change>,
    ) {
        let image = &mut self.images[usize::from(volume.0)];
        for (block, stamp) in (0u32..).zip(blocks) {
            if image.live[block as usize] != *stamp {
                let place = Place { volume, block };
                changes.push(Change { place, stamp: *stamp, tag: false });
            }
        }
        image.live.clone_from(blocks);
        image.durable.clone_from(blocks);
        image.flushed += image.unflushed.len() as u64;
        image.unflushed.clear();
        image.hidden.clear();
        self.silent[usize::from(volume.0)] = Moment::ZERO;
    }

    /// No operation is made to fail any more.
    pub fn mend(&mut self) {
        self.failing.clear();
        self.failing_overlap = None;
        self.full = false;
        self.lies = false;
        self.false_io.disarm();
        self.slowness = 1;
        self.find();
        self.silent.fill(Moment::ZERO);
    }

    /// The disk of every volume is there.
    pub fn find(&mut self) {
        self.gone.fill(false);
    }

    /// Until then the disk of that volume ends nothing that it is asked for.
    pub fn silence(&mut self, volume: VolumeIndex, until: Moment) {
        self.silent[usize::from(volume.0)] = until;
    }

    /// Until when the disk of that volume ends nothing.
    #[must_use]
    pub fn silent_until(&self, volume: VolumeIndex) -> Moment {
        self.silent[usize::from(volume.0)]
    }

    /// From now on the disk of that volume is gone, or there again.
    pub fn lose(&mut self, volume: VolumeIndex, gone: bool) {
        self.gone[usize::from(volume.0)] = gone;
    }

    /// Begins an operation; returns when it ends. `tag` comes back with the changes it makes.
    pub(crate) fn begin(
        &mut self,
        now: Moment,
        io: IoId,
        volume: VolumeIndex,
        op: StoreOp,
        payload: Option<&[Stamp]>,
        tag: bool,
    ) -> Moment {
        let fits = !(self.full && matches!(op, StoreOp::Write { .. }));
        let upto = self.images[usize::from(volume.0)].done();
        let flushes = op.is_flush() && (self.fua_flushes || matches!(op, StoreOp::Flush));
        let blocks = |extent| places(volume, extent).count();
        let (verb, base, work) = match op {
            StoreOp::Read { extent } => (StoreVerb::Read, self.latency.read, Work::Read { extent }),
            StoreOp::Map { extent } => (StoreVerb::Read, self.latency.read, Work::Map { extent }),
            StoreOp::Write { extent, fua, .. } => {
                let stamps = payload.unwrap_or_default().to_vec();
                assert_eq!(stamps.len(), blocks(extent), "a write without all of its bytes");
                (StoreVerb::Write, self.latency.write, Work::Change { extent, stamps, fua, upto })
            }
            StoreOp::Zero { extent, fua, .. } | StoreOp::Discard { extent, fua } => {
                let stamps = vec![Stamp::ZEROS; blocks(extent)];
                (StoreVerb::Write, self.latency.write, Work::Change { extent, stamps, fua, upto })
            }
            StoreOp::Flush => (StoreVerb::Flush, self.latency.flush, Work::Flush { upto }),
        };
        let plain = verb == StoreVerb::Write && !op.is_flush();
        let strikes = |kind| kind == verb || kind == StoreVerb::PlainWrite && plain;
        let failing = self.failing.iter().position(|(kind, _)| strikes(*kind));
        let failing = failing.filter(|_| self.fails.is_none());
        let fault = self.fails.take();
        let alike = fault.is_some();
        let fault = fault.or_else(|| Some(self.failing.swap_remove(failing?).1));
        let fault = fault.or((!fits).then_some(StoreFault::NoSpace));
        let beside = |other: &UnderWay| {
            other.volume == volume
                && other.fault.is_none()
                && matches!(other.work, Work::Flush { .. })
        };
        let overlaps = flushes && fault.is_none() && self.under_way.values().any(beside);
        let fault = fault.or_else(|| self.failing_overlap.take_if(|_| overlaps));
        let gone = self.gone[usize::from(volume.0)];
        let fault = if gone { Some(StoreFault::Io) } else { fault };
        // The error may be told long after the blocks were dropped, and a flush that overlaps it ends in between.
        if flushes && fault.is_some() && self.dice.chance(1, 2) {
            self.drop_undurable(volume, |_| true, &mut Vec::new());
        }
        let before = self.under_way.insert(io, UnderWay { volume, work, fault, tag, alike });
        assert!(before.is_none(), "store operation {} began twice", io.0);
        let jitter = self.dice.below(base.as_nanos() as u64 + 1);
        now + (base + Duration::from_nanos(jitter)) * self.slowness
    }

    /// Ends an operation that was begun.
    pub(crate) fn end(&mut self, io: IoId, changes: &mut Vec<Change>) -> Ended {
        let Some(UnderWay { volume, work, fault, tag, .. }) = self.under_way.remove(&io) else {
            panic!("store operation {} ends and never began", io.0)
        };
        // A disk that is full for a change did not fail. One that is so for a read or a flush did.
        let is_plain = matches!(work, Work::Change { fua: false, .. });
        self.failed[usize::from(volume.0)] |=
            fault.is_some_and(|fault| !is_plain || fault != StoreFault::NoSpace);
        match work {
            Work::Read { .. } | Work::Map { .. } if fault.is_some() => {
                fault.map_or(Ended::Done, Ended::Failed)
            }
            Work::Read { extent } => Ended::Read(self.seen(volume, extent)),
            // Zeros that were written are stored; here they always count as a hole.
            Work::Map { extent } => {
                let stamps = self.seen(volume, extent);
                Ended::Empty(stamps.iter().all(|stamp| *stamp == Stamp::ZEROS))
            }
            Work::Change { extent, stamps, fua, upto } => {
                let asked = places(volume, extent).zip(stamps).collect();
                self.change(volume, asked, (fua, fault, tag), changes);
                match fault {
                    None if fua && self.fua_flushes && !self.lies => {
                        self.images[usize::from(volume.0)].flush(upto);
                    }
                    Some(_) if fua && self.fua_flushes => self.drop_some(volume, changes),
                    _ => {}
                }
                fault.map_or(Ended::Done, Ended::Failed)
            }
            Work::Flush { upto } => match fault {
                Some(fault) => {
                    self.drop_some(volume, changes);
                    Ended::Failed(fault)
                }
                None => {
                    if !self.lies {
                        self.images[usize::from(volume.0)].flush(upto);
                    }
                    Ended::Done
                }
            },
        }
    }

    /// What a reader sees of these blocks.
    fn seen(&mut self, volume: VolumeIndex, extent: Extent) -> Vec<Stamp> {
        let stamps = self.images[usize::from(volume.0)].read(volume, extent);
        if !self.false_io.is_armed() {
            return stamps;
        }
        let mut blocks: Vec<_> = places(volume, extent).zip(stamps).collect();
        self.false_io.read(&mut blocks, &mut self.dice);
        blocks.into_iter().map(|(_, stamp)| stamp).collect()
    }

    /// A write ends.
    fn change(
        &mut self,
        volume: VolumeIndex,
        mut asked: Vec<(Place, Stamp)>,
        (fua, fault, tag): (bool, Option<StoreFault>, bool),
        changes: &mut Vec<Change>,
    ) {
        if fault.is_some() {
            asked = self.reached(asked);
        }
        let image = &mut self.images[usize::from(volume.0)];
        if fault.is_none() && self.false_io.is_armed() {
            asked = self.false_io.write(volume, asked, image, &mut self.dice);
        }
        for (place, stamp) in asked {
            self.false_io.remember(place, image.live[place.block as usize]);
            image.put(place.block, stamp, fua && fault.is_none() && !self.lies);
            changes.push(Change { place, stamp, tag });
        }
    }

    /// A flush failed: what was not durable is kept, dropped in secret, dropped for all to see, or each block in its way.
    fn drop_some(&mut self, volume: VolumeIndex, changes: &mut Vec<Change>) {
        match self.dice.below(5) {
            0 => {}
            1 | 2 => self.drop_undurable(volume, |_| true, changes),
            3 => self.drop_undurable(volume, |_| false, changes),
            _ => self.drop_undurable(volume, |dice| dice.chance(1, 2), changes),
        }
    }

    fn drop_undurable(
        &mut self,
        volume: VolumeIndex,
        hidden: impl Fn(&mut Dice) -> bool,
        changes: &mut Vec<Change>,
    ) {
        let image = &mut self.images[usize::from(volume.0)];
        image.drop_undurable(volume, hidden, &mut self.dice, &mut self.dropped, changes);
    }

    /// What failed flushes dropped since this was asked last.
    pub(crate) fn take_dropped(&mut self) -> Option<Dropped> {
        let dropped = core::mem::take(&mut self.dropped);
        (!dropped.is_empty()).then_some(dropped)
    }

    /// The process is gone: what was under way reached any of its sectors. With the power gone, too,
    /// what was not flushed is there or is not, block by block. `recorded`: of which volumes the node's record says that a
    /// flush failed, a bit each.
    pub(crate) fn crash(&mut self, power: bool, recorded: u64, changes: &mut Vec<Change>) {
        for UnderWay { volume, work, tag, .. } in core::mem::take(&mut self.under_way).into_values()
        {
            let Work::Change { extent, stamps, .. } = work else { continue };
            for (place, stamp) in self.reached(places(volume, extent).zip(stamps).collect()) {
                self.images[usize::from(volume.0)].put(place.block, stamp, false);
                changes.push(Change { place, stamp, tag });
            }
        }
        // A process that dies between a failed flush and its record leaves a cache that nobody distrusts: a limit that
        // docs/reference/recovery.md names. So the cache is gone then.
        for (volume, image) in (0u16..).map(VolumeIndex).zip(&mut self.images) {
            if power || recorded & 1 << volume.0 == 0 || self.dice.chance(1, 4) {
                image.reveal(volume, &mut self.dropped, changes);
            }
        }
        if power {
            for (volume, image) in self.images.iter_mut().enumerate() {
                image.lose_power(VolumeIndex(volume as u16), &mut self.dice, changes);
            }
        }
    }
}

impl Image {
    fn read(&self, volume: VolumeIndex, extent: Extent) -> Vec<Stamp> {
        places(volume, extent).map(|place| self.live[place.block as usize]).collect()
    }

    /// What was done so far, as a flush counts it.
    fn done(&self) -> u64 {
        self.flushed + self.unflushed.len() as u64
    }

    fn put(&mut self, block: u32, stamp: Stamp, fua: bool) {
        self.live[block as usize] = stamp;
        self.hidden.remove(&block);
        if fua {
            self.durable[block as usize] = stamp;
            let moot = |entry: &&mut Option<(u32, Stamp)>| entry.is_some_and(|(b, _)| b == block);
            self.unflushed.iter_mut().filter(moot).for_each(|entry| *entry = None);
        } else {
            self.unflushed.push_back(Some((block, stamp)));
        }
    }

    fn flush(&mut self, upto: u64) {
        while self.flushed < upto {
            let Some(entry) = self.unflushed.pop_front() else { break };
            self.flushed += 1;
            if let Some((block, stamp)) = entry {
                self.durable[block as usize] = stamp;
            }
        }
    }

    fn lose_power(&mut self, volume: VolumeIndex, dice: &mut Dice, changes: &mut Vec<Change>) {
        let mut versions: BTreeMap<u32, Vec<Stamp>> = BTreeMap::new();
        for (block, stamp) in self.unflushed.drain(..).flatten() {
            self.flushed += 1;
            versions.entry(block).or_default().push(stamp);
        }
        for (block, candidates) in versions {
            let at = block as usize;
            let roll = dice.below(candidates.len() as u64 + 1) as usize;
            let stamp = candidates.get(roll).copied().unwrap_or(self.durable[at]);
            self.durable[at] = stamp;
            if self.live[at] != stamp {
                self.live[at] = stamp;
                changes.push(Change { place: Place { volume, block }, stamp, tag: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: VolumeIndex = VolumeIndex(0);

    fn disk(seed: u64) -> Disk {
        let tick = Duration::from_micros(10);
        let latency = Latency { read: tick, write: tick, flush: tick };
        Disk::new(&[Bytes::kib(64)], latency, Dice::new(seed))
    }

    fn put(disk: &mut Disk, io: u64, block: u64, stamp: u64, fua: bool) {
        let extent = Extent::new(block * 4096, 4096);
        let payload = helio_units::Payload::default();
        let op = StoreOp::Write { extent, payload, fua };
        disk.begin(Moment::ZERO, IoId(io), V, op, Some(&[Stamp(stamp)]), false);
    }

    fn end(disk: &mut Disk, io: u64) {
        assert_eq!(disk.end(IoId(io), &mut Vec::new()), Ended::Done);
    }

    #[test]
    fn a_flush_carries_what_was_done_before_it_began_and_no_more() {
        let mut disk = disk(1);
        put(&mut disk, 1, 0, 10, false);
        end(&mut disk, 1);
        disk.begin(Moment::ZERO, IoId(2), V, StoreOp::Flush, None, false);
        put(&mut disk, 3, 1, 11, false);
        end(&mut disk, 3);
        put(&mut disk, 4, 2, 12, true);
        end(&mut disk, 4);
        end(&mut disk, 2);
        assert_eq!(disk.durable(V)[..3], [Stamp(10), Stamp::ZEROS, Stamp(12)]);
        assert_eq!(disk.live(V)[..3], [Stamp(10), Stamp(11), Stamp(12)]);
    }

    #[test]
    fn a_power_cut_leaves_any_version_since_the_flush_and_never_an_older_one() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..60 {
            let mut disk = disk(seed);
            for (io, stamp, fua) in [(1, 5, false), (2, 6, true), (3, 7, false), (4, 8, false)] {
                put(&mut disk, io, 0, stamp, fua);
                end(&mut disk, io);
            }
            disk.crash(true, 0, &mut Vec::new());
            assert_eq!(disk.live(V), disk.durable(V));
            seen.insert(disk.live(V)[0].0);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [6, 7, 8]);
    }
}
