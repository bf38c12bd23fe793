// SPDX-License-Identifier: Apache-2.0
//! One story of a stack of layers: what is asked, in which order things end, and what is judged.

use super::member::{Members, Payloads};
use super::pool::Pool;
use super::reference::Reference;
use super::{BLOCK, LayersWalk, Stamp};
use core::time::Duration;
use helio_format::before::{CHUNK_BYTES, KeptImage};
use helio_netmodel::Dice;
use helio_snapshot::Snapshot;
use helio_stack::{
    CopyClass, CopyOp, CopyOutcome, Faults, Layer, LayerRecord, Odds, Out, Outcome, Pass, PoolOp,
    Stack, StoreOp,
};
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a story.
const STEPS: u64 = 400;
/// Steps without which a story that is to come to rest never does.
const STEPS_TO_REST: u64 = 20_000;

/// What a client asked for, and what it is judged by.
#[derive(Clone, Copy, Debug)]
struct Asked {
    volume: usize,
    op: StoreOp,
    /// What a change puts there.
    stamp: Stamp,
    /// When it began, counted.
    began: u64,
}

/// What the owner of the copy waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    Cut,
    Other,
    Restore,
    Drop,
}

struct Desk {
    dice: Dice,
    sizes: Vec<Bytes>,
    kinds: Vec<u64>,
    stack: Stack,
    members: Members,
    payloads: Payloads,
    pool: Pool,
    reference: Reference,
    asked: BTreeMap<u64, Asked>,
    names: u64,
    waits: Waits,
    /// The images of copies, by their numbers.
    images: BTreeMap<u64, Vec<Vec<Stamp>>>,
    copies: u64,
    /// Those that are expendable.
    expendable: BTreeSet<u64>,
    /// The ledger is to say that this copy is over.
    recording: Option<u64>,
    /// The copy that is of no use any more, by its number.
    abandoned: Option<u64>,
    /// What has been written of it since.
    wasted: u32,
    now: Moment,
    walked: LayersWalk,
}

/// Tells the story of a seed.
pub(super) fn tell(seed: u64) -> Result<LayersWalk, String> {
    let mut desk = Desk::new(Dice::new(seed));
    for _ in 0..STEPS {
        desk.step()?;
    }
    desk.rest()?;
    desk.crash(true)?;
    desk.walked.seeds = 1;
    Ok(desk.walked)
}

pub(super) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

impl Desk {
    fn new(mut dice: Dice) -> Self {
        let volumes: Vec<usize> =
            (0..=dice.below(2)).map(|_| 1 + dice.below(60) as usize).collect();
        let sizes: Vec<Bytes> = volumes.iter().map(|n| Bytes(*n as u64 * BLOCK)).collect();
        // Which layers stand above and below the one that preserves copies.
        let kinds: Vec<u64> = (0..dice.below(4)).map(|_| dice.below(4)).collect();
        let mut desk = Self {
            reference: Reference::new(&volumes),
            members: Members::new(&volumes),
            payloads: Payloads::default(),
            pool: Pool::new(u64::MAX >> 20),
            stack: Stack::default(),
            dice,
            sizes,
            kinds,
            asked: BTreeMap::new(),
            names: 0,
            waits: Waits::Nothing,
            images: BTreeMap::new(),
            copies: 0,
            expendable: BTreeSet::new(),
            recording: None,
            abandoned: None,
            wasted: 0,
            now: Moment::ZERO,
            walked: LayersWalk::default(),
        };
        desk.start();
        desk
    }

    /// The process starts, with its layers as the host composes them.
    fn start(&mut self) {
        // What was abandoned is of no use, which the owner has recorded; what is over, the ledger tells.
        let found = self.held().and_then(|_| self.pool.found());
        let is_expendable = self.held().is_some_and(|label| self.expendable.contains(&label));
        let class = if is_expendable { CopyClass::Expendable } else { CopyClass::Required };
        let snapshot = Snapshot::new(&self.sizes, found.as_ref()).of_class(class);
        let mut layers: Vec<Box<dyn Layer>> = vec![Box::new(snapshot)];
        for kind in self.kinds.clone() {
            let layer: Box<dyn Layer> = match kind {
                0 | 1 => Box::new(Pass::default()),
                _ => Box::new(Faults::new(self.dice.next_u64(), self.odds(), Bytes(BLOCK))),
            };
            let at = if kind % 2 == 0 { 0 } else { layers.len() };
            layers.insert(at, layer);
        }
        self.stack = Stack::new(layers);
    }

    fn odds(&mut self) -> Odds {
        let mut rare = || [0, 0, 5, 20][self.dice.below(4) as usize];
        let odds = Odds {
            reads: rare(),
            untouched: rare(),
            short: rare(),
            lost: rare(),
            flush: rare(),
            waits: 200,
            changes_wait: 200,
            ..Odds::NONE
        };
        Odds { longest: Duration::from_millis(3), ..odds }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.dice.below(100) {
            0..40 => self.ask(),
            40..44 => self.ask_copy(),
            44..46 => {
                let room = self.dice.below(30);
                self.pool.limit(if self.dice.chance(1, 2) { u64::MAX >> 20 } else { room });
            }
            46 => {
                let power = self.dice.chance(2, 3);
                self.walked.crashes += 1;
                self.crash(power)?;
            }
            47 => self.abandon()?,
            48..56 => self.pass_time(),
            _ => self.end_one(false),
        }
        self.drain()?;
        self.judge_copy()
    }

    /// A client asks for something that overlaps nothing under way.
    fn ask(&mut self) {
        let volume = self.dice.below(self.sizes.len() as u64) as usize;
        let total = self.sizes[volume].0 / BLOCK;
        let first = self.dice.below(total);
        let count = 1 + self.dice.below((total - first).min(9));
        let extent = Extent::new(first * BLOCK, count * BLOCK);
        let fua = self.dice.chance(1, 6);
        self.names += 1;
        let stamp = self.names;
        let (op, stamp) = match self.dice.below(20) {
            0..10 => {
                let payload = self.payloads.take(vec![stamp; count as usize]);
                (StoreOp::Write { extent, payload, fua }, stamp)
            }
            10 | 11 => (StoreOp::Zero { extent, punch: self.dice.chance(1, 2), fua }, 0),
            12 => (StoreOp::Discard { extent, fua }, 0),
            13..16 => (StoreOp::Flush, 0),
            16 => (StoreOp::Map { extent }, 0),
            _ => (StoreOp::Read { extent }, 0),
        };
        let place = op.changes().or(op.reads());
        let busy = |asked: &Asked| {
            let other = asked.op.changes().or(asked.op.reads());
            let change = asked.op.changes().is_some() || op.changes().is_some();
            let overlaps = place.zip(other).is_some_and(|(one, other)| one.overlaps(other));
            asked.volume == volume && change && overlaps
        };
        // A restore changes everything.
        let restores = self.waits == Waits::Restore && op != StoreOp::Flush;
        if restores || self.asked.len() > 12 || self.asked.values().any(busy) {
            return self.let_go(op);
        }
        if op.changes().is_some() {
            self.reference.begins(volume, extent, stamp);
        }
        let began = self.reference.count();
        self.asked.insert(self.names, Asked { volume, op, stamp, began });
        self.walked.operations += 1;
        self.stack.begin(self.names, VolumeIndex(volume as u16), op);
    }

    fn let_go(&mut self, op: StoreOp) {
        if let StoreOp::Write { payload, .. } = op {
            self.payloads.release(payload.id);
        }
    }

    /// The owner of copies asks for what it may ask for now.
    fn ask_copy(&mut self) {
        if self.waits != Waits::Nothing {
            return;
        }
        let all = self.sizes.iter().fold(0, |sum, size| sum + size.0);
        let bound = Bytes(self.dice.below(30) * (CHUNK_BYTES + 4096));
        let overwritten = Bytes(if self.dice.chance(1, 3) { all } else { self.dice.below(all) });
        self.stack.bound(if self.dice.chance(1, 2) { Some(bound) } else { None });
        let held = self.held().is_some();
        // What changes everything waits until nothing is under way.
        let quiet = self.asked.is_empty();
        let (op, waits) = match self.dice.below(6) {
            0 if held && quiet => (CopyOp::Restore, Waits::Restore),
            0..2 if held => (CopyOp::Drop, Waits::Drop),
            2 if held => (CopyOp::Reserve { overwritten }, Waits::Other),
            _ => {
                self.copies += 1;
                let label = KeptImage { head: Sequence(self.copies), ..KeptImage::default() };
                let class = match self.dice.below(2) {
                    0 => CopyClass::Required,
                    _ => CopyClass::Expendable,
                };
                if class == CopyClass::Expendable {
                    self.expendable.insert(self.copies);
                }
                (CopyOp::Cut { class, label: Box::new(label), overwritten }, Waits::Cut)
            }
        };
        if waits == Waits::Restore
            && let Some(image) = self.held().and_then(|label| self.images.get(&label))
        {
            self.reference.may_be(image);
        }
        self.waits = waits;
        self.stack.copy(op, self.now);
    }

    /// The number of the copy that counts.
    fn held(&self) -> Option<u64> {
        self.pool.label().filter(|label| self.abandoned != Some(*label))
    }

    /// The owner gives the copy up, whatever the layer is doing for it; what the pool holds counts no more.
    fn abandon(&mut self) -> Result<(), String> {
        if self.waits != Waits::Nothing || self.held().is_none() || self.dice.chance(3, 4) {
            return Ok(());
        }
        (self.abandoned, self.wasted) = (self.held(), 0);
        self.walked.abandoned += 1;
        self.stack.abandon(self.now);
        self.drain()?;
        let changes = self.asked.values().filter(|asked| asked.op.changes().is_some()).count();
        let none_waits =
            self.kinds.iter().any(|kind| *kind > 1) || changes == self.members.changes();
        ensure(none_waits, || String::from("a change waits for a copy that was abandoned"))
    }

    fn pass_time(&mut self) {
        if self.stack.deadline() != Moment::NEVER {
            self.now = self.now.max(self.stack.deadline());
        }
        self.stack.tick(self.now);
    }

    /// One of the things under way ends.
    fn end_one(&mut self, gently: bool) {
        if self.pool.is_busy() && self.dice.chance(1, 4) {
            let fails = !gently && self.dice.chance(1, 200);
            let outcome = self.pool.end(fails, &mut self.payloads);
            return self.stack.pool_ended(outcome, self.now);
        }
        let names = self.members.names();
        if let Some(label) = self.recording
            && (names.is_empty() || self.dice.chance(1, 4))
        {
            let ok = gently || !self.dice.chance(1, 50);
            if ok {
                (self.abandoned, self.wasted) = (Some(label), 0);
                self.walked.over += 1;
            }
            self.recording = None;
            return self.stack.recorded(ok, self.now);
        }
        if names.is_empty() {
            return;
        }
        let name = names[self.dice.below(names.len() as u64) as usize];
        let outcome = self.members.end(name, &mut self.payloads);
        self.stack.member_ended(name, outcome);
    }

    /// Does what the stack wants done.
    fn drain(&mut self) -> Result<(), String> {
        while let Some(out) = self.stack.next(self.now) {
            match out {
                Out::Member { name, leg, op } => {
                    self.members.begin(name, leg.volume, op, &self.payloads);
                }
                Out::Ended { name, outcome } => self.ended(name, outcome)?,
                Out::Pool(op) => self.ask_pool(op)?,
                Out::Copied(outcome) => self.copied(outcome)?,
                Out::Record(LayerRecord::CopyOver) => {
                    let held = self.held();
                    ensure(held.is_some_and(|label| self.expendable.contains(&label)), || {
                        format!("copy {held:?} is called over, and is required")
                    })?;
                    self.recording = held;
                }
                Out::LetCool { .. }
                | Out::Own { .. }
                | Out::Record(LayerRecord::Members(_) | LayerRecord::Page { .. })
                | Out::Compare { .. }
                | Out::GiveUp(_)
                | Out::FlushFailed(..) => panic!("no layer here keeps several members: {out:?}"),
                Out::Release(id) => self.payloads.release(id),
            }
        }
        Ok(())
    }

    fn ask_pool(&mut self, op: PoolOp) -> Result<(), String> {
        if let PoolOp::Begin { label } = &op {
            // Everything done before the cut is durable, and this is what the copy holds.
            ensure(self.members.is_durable(), || String::from("a cut begins unflushed"))?;
            self.images.insert(label.head.0, self.members.live().to_vec());
        }
        if matches!(op, PoolOp::Append { .. }) && self.held().is_none() {
            // Its bytes may have been read already.
            self.wasted += 1;
            ensure(self.wasted < 2, || String::from("a copy that was abandoned is preserved"))?;
        }
        self.pool.begin(op, &self.payloads);
        Ok(())
    }

    fn ended(&mut self, name: u64, outcome: Outcome) -> Result<(), String> {
        let Some(asked) = self.asked.remove(&name) else {
            return Err(format!("operation {name} ended twice"));
        };
        let Asked { volume, op, stamp, began } = asked;
        match (op, outcome) {
            (StoreOp::Read { extent }, Outcome::Read(payload)) => {
                let right = {
                    let read = self.payloads.stamps(payload);
                    self.reference.may_read(volume, extent, read)
                };
                ensure(right, || format!("a read of {extent} of volume {volume} is wrong"))?;
                self.payloads.release(payload.id);
            }
            (StoreOp::Flush, Outcome::Done) => self.reference.flushed(volume, began),
            (op, Outcome::Done) if let Some(extent) = op.changes() => {
                self.reference.done(volume, extent, stamp, op.is_flush());
            }
            (op, Outcome::Refused(_)) if let Some(extent) = op.changes() => {
                self.walked.refused += 1;
                self.reference.refused(volume, extent);
                ensure(stamp == 0 || !self.members.has_reached(stamp), || {
                    format!("write {stamp} was refused and reached {extent} of volume {volume}")
                })?;
            }
            (op, Outcome::Unsure(_) | Outcome::Failed(_)) => {
                let unsure = matches!(outcome, Outcome::Unsure(_));
                ensure(op.is_flush() == unsure, || format!("{op:?} ended as {outcome:?}"))?;
                op.changes().into_iter().for_each(|it| self.reference.failed(volume, it));
            }
            (StoreOp::Map { .. }, Outcome::Mapped { .. }) => {}
            (op, outcome) => return Err(format!("{op:?} ended as {outcome:?}")),
        }
        self.let_go(op);
        Ok(())
    }

    fn copied(&mut self, outcome: CopyOutcome) -> Result<(), String> {
        let waits = core::mem::replace(&mut self.waits, Waits::Nothing);
        match (waits, outcome) {
            (Waits::Nothing, outcome) => return Err(format!("nothing was asked: {outcome:?}")),
            (Waits::Cut, CopyOutcome::Done) => {
                self.walked.cuts += 1;
                let (held, cut) = (self.pool.label(), self.copies);
                ensure(held == Some(cut), || {
                    format!("copy {cut} is cut; the pool holds {held:?}")
                })?;
            }
            (Waits::Restore, CopyOutcome::Done) => {
                self.walked.restores += 1;
                let Some(image) = self.held().and_then(|label| self.images.get(&label)) else {
                    return Err(String::from("nothing was preserved that could be restored"));
                };
                ensure(self.members.live() == &image[..], || {
                    String::from("a restore gives another image than was cut")
                })?;
                ensure(self.members.is_durable(), || String::from("a restore is not durable"))?;
                self.reference.is(image);
            }
            (Waits::Drop, CopyOutcome::Done) => {
                ensure(self.pool.label().is_none(), || String::from("a copy is not dropped"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What the pool holds, laid over what the members hold, is the image that was cut.
    fn judge_copy(&self) -> Result<(), String> {
        let image = self.held().and_then(|label| self.images.get(&label));
        let Some(image) = image else { return Ok(()) };
        for (volume, image) in image.iter().enumerate() {
            for (block, wanted) in image.iter().enumerate() {
                let live = self.members.live()[volume][block];
                let gives = self.pool.kept_block(volume, block).unwrap_or(live);
                ensure(gives == *wanted, || {
                    format!(
                        "block {block} of volume {volume} held {wanted}; its copy gives {gives}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// The process ends, and maybe the power with it; another one starts.
    fn crash(&mut self, power: bool) -> Result<(), String> {
        self.pool.crash(&mut self.dice);
        self.members.crash(power, &mut self.dice);
        if let Some(label) = self.recording.take()
            && self.dice.chance(1, 2)
        {
            self.abandoned = Some(label);
        }
        (self.asked, self.waits) = (BTreeMap::new(), Waits::Nothing);
        self.payloads.forget();
        if let Some((volume, block)) = self.reference.wrong(self.members.live(), power) {
            let live = self.members.live()[volume][block];
            return Err(format!("after a crash block {block} of volume {volume} holds {live}"));
        }
        self.judge_copy()?;
        self.reference.restarts(self.members.live(), power);
        self.start();
        Ok(())
    }

    /// Everything ends, and nothing is left over.
    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..STEPS_TO_REST {
            let idle = self.asked.is_empty() && self.waits == Waits::Nothing;
            let works =
                !self.members.names().is_empty() || self.pool.is_busy() || self.recording.is_some();
            if idle && !works && self.stack.deadline() == Moment::NEVER {
                let held = self.payloads.held();
                return ensure(held == 0, || format!("{held} payloads are left over"));
            }
            self.end_one(true);
            self.pass_time();
            self.drain()?;
            self.judge_copy()?;
        }
        let (asked, waits) = (&self.asked, self.waits);
        Err(format!("it never rests: {asked:?}, {waits:?}, {:?}", self.stack))
    }
}
