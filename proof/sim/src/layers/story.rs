// SPDX-License-Identifier: Apache-2.0
//! One story of a stack of layers: what is asked, in which order things end, and what is judged.

use super::branches::Users;
use super::member::{Members, Payloads};
use super::pool::{Pool, UNLIMITED};
use super::reference::Reference;
use super::rollbacks::Turn;
use super::{BLOCK, LayersWalk, Stamp};
use core::time::Duration;
use helio_format::before::{
    CHUNK_BYTES, CopyClass, CopyNumber, CopyOwner, CopyStage, KeptCopy, KeptImage,
};
use helio_ledger::BeforeFound;
use helio_netmodel::Dice;
use helio_snapshot::Snapshot;
use helio_stack::{
    CopyOp, CopyOutcome, CopyRecord, Faults, Layer, LayerRecord, Odds, Out, Outcome, Pass, PoolOp,
    PoolOutcome, Stack, StoreOp,
};
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a story.
const STEPS: u64 = 400;
/// Steps without which a story that is to come to rest never does.
const STEPS_TO_REST: u64 = 20_000;

/// What a client asked for, and what it is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    volume: usize,
    pub(super) op: StoreOp,
    /// What a change puts there.
    stamp: Stamp,
    /// When it began, counted.
    began: u64,
}

/// What the owner of the copy waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    Cut(CopyClass),
    Other,
    Restore(CopyNumber),
    Drop(CopyNumber),
    Rollback(CopyNumber),
}

/// What is known of a copy.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// What each block may hold: several, where a change was on its way at the moment of the cut.
    pub(super) blocks: Vec<Vec<BTreeSet<Stamp>>>,
    /// Operations that were on their way then.
    older: BTreeSet<u64>,
    /// Its owner gave it up, or the ledger says that it is over.
    of_no_use: bool,
}

pub(super) struct Desk {
    pub(super) dice: Dice,
    pub(super) sizes: Vec<Bytes>,
    pub(super) kinds: Vec<u64>,
    pub(super) stack: Stack,
    pub(super) members: Members,
    pub(super) payloads: Payloads,
    pub(super) pool: Pool,
    pub(super) reference: Reference,
    pub(super) asked: BTreeMap<u64, Asked>,
    pub(super) names: u64,
    waits: Waits,
    /// The images of copies, by their numbers.
    pub(super) images: BTreeMap<CopyNumber, Image>,
    /// A cut may have its moment.
    ready: bool,
    /// The list that was written last, if it is durable.
    listed: Vec<KeptCopy>,
    /// What clients do with copies.
    pub(super) users: Users,
    /// The last name that there was while room was short, ...
    pub(super) tight: u64,
    /// ... and what bounds it.
    bound: Option<Bytes>,
    /// The list that is being written.
    listing: Option<Vec<KeptCopy>>,
    /// What the ledger is to say of copies.
    recording: Option<CopyRecord>,
    /// It says that copies up to this one are over, ...
    over: CopyNumber,
    /// ... and a rollback of that number may be under way.
    pub(super) rollback: Option<CopyNumber>,
    /// The rollback whose moment was last, as long as it may or may not hold.
    pub(super) turn: Option<Turn>,
    pub(super) now: Moment,
    pub(super) walked: LayersWalk,
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
            pool: Pool::new(UNLIMITED),
            stack: Stack::default(),
            dice,
            sizes,
            kinds,
            asked: BTreeMap::new(),
            names: 0,
            waits: Waits::Nothing,
            images: BTreeMap::new(),
            ready: false,
            listed: Vec::new(),
            users: Users::default(),
            tight: 0,
            bound: None,
            listing: None,
            recording: None,
            over: CopyNumber(0),
            rollback: None,
            turn: None,
            now: Moment::ZERO,
            walked: LayersWalk::default(),
        };
        desk.compose(&BeforeFound::default());
        desk
    }

    /// The process starts, with its layers as the host composes them.
    fn compose(&mut self, found: &BeforeFound) {
        let snapshot = Snapshot::new(&self.sizes, found, self.over, self.rollback);
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
        self.bound = None;
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
        self.note_room();
        match self.dice.below(100) {
            0..40 => self.ask(),
            40..44 => self.ask_copy(),
            44..46 => {
                let room = self.dice.below(30);
                self.pool.limit(if self.dice.chance(1, 2) { UNLIMITED } else { room });
            }
            46 => {
                let power = self.dice.chance(2, 3);
                self.walked.crashes += 1;
                self.crash(power)?;
            }
            47 => self.abandon(),
            48..54 => self.pass_time(),
            54 | 55 => self.moment(false)?,
            56..68 => self.use_copy(),
            _ => self.end_one(false),
        }
        self.note_room();
        self.drain()?;
        if self.dice.chance(1, 3) {
            self.judge_held()?;
            self.judge_settled()?;
        }
        Ok(())
    }

    fn note_room(&mut self) {
        if self.bound.is_some() || self.pool.is_limited() {
            self.tight = self.names + 1;
        }
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
        let restores = matches!(self.waits, Waits::Restore(_)) && op != StoreOp::Flush;
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

    pub(super) fn let_go(&mut self, op: StoreOp) {
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
        self.bound = self.dice.chance(1, 2).then_some(bound);
        self.stack.bound(self.bound);
        let held: Vec<CopyNumber> = self.held().map(|copy| copy.number).collect();
        let one = held.get(self.dice.below(held.len().max(1) as u64) as usize).copied();
        // What changes everything waits until nothing is under way.
        let quiet = self.asked.is_empty();
        let (op, waits) = match (self.dice.below(7), one) {
            (0, Some(one)) if quiet => (CopyOp::Restore(one), Waits::Restore(one)),
            (1, Some(one)) => (CopyOp::Drop(one), Waits::Drop(one)),
            (2, Some(_)) => (CopyOp::Reserve { overwritten }, Waits::Other),
            (3, Some(one)) => (CopyOp::Rollback(one), Waits::Rollback(one)),
            _ if held.len() > 5 => return,
            _ => {
                let class = match self.dice.below(2) {
                    0 => CopyClass::Required,
                    _ => CopyClass::Expendable,
                };
                let owner = CopyOwner::Resync;
                (CopyOp::Cut { class, owner, overwritten }, Waits::Cut(class))
            }
        };
        if let Waits::Restore(one) = waits {
            let image = self.given(one);
            self.reference.may_be(&image);
        }
        self.waits = waits;
        self.stack.copy(op, self.now);
    }

    /// The copies that are held and of use.
    pub(super) fn held(&self) -> impl Iterator<Item = &KeptCopy> {
        let of_use =
            |copy: &&KeptCopy| self.images.get(&copy.number).is_some_and(|image| !image.of_no_use);
        self.pool.held().filter(of_use)
    }

    /// What a copy gives: what the pool holds, laid over what the members hold.
    pub(super) fn given(&self, number: CopyNumber) -> Vec<Vec<Stamp>> {
        let volumes = self.members.live().iter().enumerate();
        let block = |volume, (block, live): (usize, &Stamp)| {
            self.pool.kept_block(number, volume, block).unwrap_or(*live)
        };
        volumes
            .map(|(volume, live)| live.iter().enumerate().map(|it| block(volume, it)).collect())
            .collect()
    }

    /// The owner gives a required copy up, whatever the layer is doing for it.
    fn abandon(&mut self) {
        if self.waits != Waits::Nothing || self.dice.chance(7, 8) {
            return;
        }
        let needed = self.rolls_back().map(|(to, _)| to);
        let required =
            |copy: &&KeptCopy| copy.class == CopyClass::Required && needed != Some(copy.number);
        let number = self.held().find(required).map(|copy| copy.number);
        if let Some(number) = number {
            self.no_use(number);
            self.walked.abandoned += 1;
            self.stack.abandon(number, self.now);
        }
    }

    fn no_use(&mut self, number: CopyNumber) {
        if let Some(image) = self.images.get_mut(&number) {
            image.of_no_use = true;
        }
    }

    fn ledger_says(&mut self, record: CopyRecord) {
        match record {
            CopyRecord::Over(over) => self.ledger_says_over(over),
            CopyRecord::Rollback(by) => self.rollback = by,
        }
    }

    /// By the ledger, expendable copies up to that one are over.
    fn ledger_says_over(&mut self, over: CopyNumber) {
        self.over = over;
        let expendable = |copy: &&KeptCopy| copy.class == CopyClass::Expendable;
        let numbers: Vec<CopyNumber> = self
            .pool
            .held()
            .chain(&self.listed)
            .filter(expendable)
            .map(|copy| copy.number)
            .collect();
        for number in numbers.into_iter().filter(|number| *number <= over) {
            self.no_use(number);
            self.walked.over += 1;
        }
    }

    /// The moment of a cut that is ready comes, or never does.
    fn moment(&mut self, surely: bool) -> Result<(), String> {
        // It may have failed since.
        self.drain()?;
        if matches!(self.waits, Waits::Rollback(_)) && !self.may_turn() {
            return Ok(());
        }
        if !core::mem::take(&mut self.ready) {
            return Ok(());
        }
        if !surely && self.dice.chance(1, 8) {
            self.stack.cut(None, self.now);
            return Ok(());
        }
        let Some(copy) = self.listed.last().filter(|copy| copy.stage == CopyStage::Coming) else {
            return Err(String::from("a cut is ready whose copy is not listed as coming"));
        };
        let blocks = |live: &Vec<Stamp>| live.iter().map(|stamp| [*stamp].into()).collect();
        let changes = self.asked.iter().filter(|(_, asked)| asked.op.changes().is_some());
        let image = Image {
            blocks: self.members.live().iter().map(blocks).collect(),
            older: changes.map(|(name, _)| *name).collect(),
            of_no_use: false,
        };
        let by = copy.number;
        self.images.insert(by, image);
        if let Waits::Rollback(to) = self.waits {
            self.turn = Some(Turn { by, image: self.given(to) });
        }
        let image = KeptImage { head: Sequence(7), ..KeptImage::default() };
        self.stack.cut(Some(image), self.now);
        Ok(())
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
            if fails && self.dice.chance(1, 2) {
                self.pool.reach(&self.payloads);
            }
            let outcome = self.pool.end(fails, &mut self.payloads);
            if let Some(list) = self.listing.take()
                && outcome == PoolOutcome::Done
            {
                self.listed(&list);
            }
            return self.stack.pool_ended(outcome, self.now);
        }
        let names = self.members.names();
        if let Some(record) = self.recording
            && (names.is_empty() || self.dice.chance(1, 4))
        {
            let ok = gently || !self.dice.chance(1, 50);
            if ok {
                self.ledger_says(record);
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
                Out::CutReady => self.ready = true,
                Out::Over(copy) => ensure(copy.class == CopyClass::Expendable, || {
                    format!("copy {} is required, and over", copy.number)
                })?,
                Out::Record(LayerRecord::Copies(record)) => self.recording = Some(record),
                Out::LetCool { .. }
                | Out::Own { .. }
                | Out::Record(LayerRecord::Members(_) | LayerRecord::Page { .. })
                | Out::Compare { .. }
                | Out::GiveUp(_) => panic!("no layer here keeps several members: {out:?}"),
                // A cut or a restore had failed before its flushes ended.
                Out::FlushFailed(..) => {}
                Out::Release(id) => self.payloads.release(id),
            }
        }
        Ok(())
    }

    fn ask_pool(&mut self, op: PoolOp) -> Result<(), String> {
        if let PoolOp::List { copies, .. } = &op {
            let gone = |copy: &&KeptCopy| !copies.iter().any(|it| it.number == copy.number);
            let over = self.held().filter(gone).filter(|it| self.waits != Waits::Drop(it.number));
            self.walked.over += over.count() as u64;
            for copy in self.held().filter(gone) {
                let dropped = self.waits == Waits::Drop(copy.number);
                // A flush failed while the list was written: the cut fails.
                let newest = self.listed.last().is_some_and(|last| last.number == copy.number);
                let cut = newest && matches!(self.waits, Waits::Cut(_));
                ensure(dropped || cut || copy.class == CopyClass::Expendable, || {
                    format!("copy {} is required, and goes", copy.number)
                })?;
            }
            self.judge_list(copies)?;
            for copy in copies.iter().filter(|copy| copy.stage != CopyStage::Coming) {
                let waits = |image: &Image| !image.older.is_empty() && self.kinds.is_empty();
                let early = self.images.get(&copy.number).is_some_and(waits);
                ensure(!early, || format!("copy {} does not wait for older changes", copy.number))?;
            }
            self.listing = Some(copies.clone());
        }
        self.pool.begin(op);
        Ok(())
    }

    /// This list is durable.
    fn listed(&mut self, list: &[KeptCopy]) {
        self.listed = list.to_vec();
    }

    /// A change that was on its way at the moment of a cut has ended: the copy holds what it left, if it had reached the layer.
    fn settle_images(&mut self, name: u64, volume: usize, extent: Extent) {
        let delayed = self.kinds.iter().any(|kind| *kind > 1);
        for image in self.images.values_mut().filter(|image| image.older.contains(&name)) {
            image.older.remove(&name);
            for block in super::blocks(extent) {
                let live = self.members.live()[volume][block];
                let may = &mut image.blocks[volume][block];
                if !delayed {
                    may.clear();
                }
                may.insert(live);
            }
        }
    }

    fn ended(&mut self, name: u64, outcome: Outcome) -> Result<(), String> {
        if let Some(io) = self.users.ended(name) {
            return self.copy_ended(io, outcome);
        }
        let Some(asked) = self.asked.remove(&name) else {
            return Err(format!("operation {name} ended twice"));
        };
        let Asked { volume, op, stamp, began } = asked;
        if let Some(extent) = op.changes() {
            self.settle_images(name, volume, extent);
        }
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
                self.judge_turn()?;
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
        self.ready = false;
        let waits = core::mem::replace(&mut self.waits, Waits::Nothing);
        match (waits, outcome) {
            (Waits::Nothing, outcome) => return Err(format!("nothing was asked: {outcome:?}")),
            (Waits::Cut(class), CopyOutcome::Cut(number)) => {
                self.walked.cuts += 1;
                let held = self.pool.held().find(|copy| copy.number == number);
                ensure(held.is_some_and(|copy| copy.class == class), || {
                    format!("copy {number} is cut; the pool has {held:?}")
                })?;
            }
            (Waits::Restore(number), CopyOutcome::Done) => {
                self.walked.restores += 1;
                let image = self.given(number);
                ensure(self.members.live() == &image[..], || {
                    format!(
                        "copy {number} is restored as {:?}, and was {image:?}",
                        self.members.live()
                    )
                })?;
                ensure(self.members.is_durable(), || String::from("a restore is not durable"))?;
                self.reference.is(&image);
            }
            (Waits::Rollback(_), CopyOutcome::Cut(number)) => {
                self.walked.rollbacks += 1;
                self.turned(number)?;
            }
            // The list may say that it is held: the owner's ledger says what that is worth.
            (Waits::Cut(CopyClass::Required), CopyOutcome::PoolFailed(_)) => {
                let coming = self.listed.last().filter(|copy| copy.stage == CopyStage::Coming);
                coming.map(|copy| copy.number).into_iter().for_each(|number| self.no_use(number));
            }
            (Waits::Drop(number), CopyOutcome::Done) => {
                let there = self.pool.held().any(|copy| copy.number == number);
                ensure(!there, || format!("copy {number} is not dropped"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn judge_held(&self) -> Result<(), String> {
        self.judge_copies()?;
        self.judge_changed()
    }

    /// What the pool holds, laid over what the members hold, is the image that was cut.
    fn judge_copies(&self) -> Result<(), String> {
        for copy in self.held() {
            let (number, image) = (copy.number, &self.images[&copy.number]);
            for (volume, given) in self.given(number).iter().enumerate() {
                for (block, gives) in given.iter().enumerate() {
                    let may = &image.blocks[volume][block];
                    ensure(may.contains(gives), || {
                        format!(
                            "block {block} of volume {volume} held {may:?}; copy {number} gives {gives}"
                        )
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The process ends, and maybe the power with it; another one starts.
    fn crash(&mut self, power: bool) -> Result<(), String> {
        self.pool.crash(power, &mut self.dice, &self.payloads);
        self.members.crash(power, &mut self.dice);
        if let Some(record) = self.recording.take()
            && self.dice.chance(1, 2)
        {
            self.ledger_says(record);
        }
        (self.asked, self.waits, self.listing) = (BTreeMap::new(), Waits::Nothing, None);
        self.ready = false;
        self.users.restart();
        self.payloads.forget();
        let found = self.pool.found()?;
        if let Some(turn) = self.turn.take()
            && self.rolls_back().is_some_and(|(_, by)| by == turn.by)
        {
            self.reference.is(&turn.image);
        }
        let volumes = self.volumes();
        if let Some((volume, block)) = self.reference.wrong(&volumes, power) {
            let live = volumes[volume][block];
            return Err(format!("after a crash block {block} of volume {volume} holds {live}"));
        }
        self.judge_copies()?;
        self.judge_branches(power)?;
        self.reference.restarts(&volumes, power);
        self.compose(&found);
        Ok(())
    }

    /// Everything ends, and nothing is left over.
    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..STEPS_TO_REST {
            let idle = self.asked.is_empty() && self.users.rest() && self.waits == Waits::Nothing;
            let works =
                !self.members.names().is_empty() || self.pool.is_busy() || self.recording.is_some();
            let works = works || self.ready;
            if idle && !works && self.stack.deadline() == Moment::NEVER {
                let held = self.payloads.held();
                return ensure(held == 0, || format!("{held} payloads are left over"));
            }
            self.end_one(true);
            self.moment(true)?;
            self.pass_time();
            self.drain()?;
            self.judge_held()?;
        }
        let (asked, waits) = (&self.asked, self.waits);
        Err(format!("it never rests: {asked:?}, {waits:?}, {:?}", self.stack))
    }
}
