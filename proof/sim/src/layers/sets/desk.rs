// SPDX-License-Identifier: Apache-2.0
//! One story of sets: what is asked, and in which order things end.

use super::super::member::{Members, Payloads};
use super::super::reference::Reference;
use super::super::story::ensure;
use super::super::{BLOCK, Stamp};
use super::SetsWalk;
use super::hot::Hot;
use super::ledger::Ledger;
use super::trouble::Odds;
use helio_format::members::{CopyHealth, MEMBERS_MAX};
use helio_netmodel::Dice;
use helio_shadow::blank_pages;
use helio_stack::{LayerSetting, Leg, Out, Outcome, SetStatus, Stack, StoreOp};
use helio_units::{Bytes, Extent, MemberIndex, Moment, PayloadId, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a story.
const STEPS: u64 = 500;
/// What members of blank volumes hold at first.
const BLANK: Stamp = u64::MAX / 2;
/// Most operations of clients at once.
const DEPTH: usize = 10;

/// What a client asked for, and what it is judged by.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) volume: usize,
    pub(super) op: StoreOp,
    /// What a change puts there.
    pub(super) stamp: Stamp,
    /// When it began, counted.
    pub(super) began: u64,
    /// What a read may see.
    pub(super) may: Vec<BTreeSet<Stamp>>,
    /// The number of a flush.
    pub(super) flush: u64,
}

pub(super) struct Desk {
    pub(super) dice: Dice,
    pub(super) sizes: Vec<Bytes>,
    pub(super) region: Bytes,
    /// Layers that hand on everything, above and below.
    pub(super) around: (u64, u64),
    pub(super) stack: Stack,
    /// By the number of the member.
    pub(super) disks: Vec<Members>,
    pub(super) payloads: Payloads,
    pub(super) reference: Reference,
    pub(super) ledger: Ledger,
    pub(super) hot: Hot,
    pub(super) asked: BTreeMap<u64, Asked>,
    pub(super) names: u64,
    /// Which member carries out the operation of that name.
    pub(super) legs: BTreeMap<u64, Leg>,
    pub(super) comparing: BTreeMap<u64, [PayloadId; 2]>,
    pub(super) odds: Odds,
    /// Members whose disks do not respond, and whether the layer was told.
    pub(super) silent: BTreeMap<Leg, bool>,
    /// Members that were given up, and have not ended everything.
    pub(super) given_up: BTreeSet<Leg>,
    /// Disks that are not the ones that the ledger means.
    pub(super) foreign: BTreeSet<Leg>,
    /// The ledger was restored from a backup, and what follows of that is not durable: the one member of every volume that counts.
    pub(super) believed: Option<Vec<usize>>,
    /// Volumes of which a command asked for a merge that is not done.
    pub(super) merges: BTreeSet<VolumeIndex>,
    /// When a member failed something last, counted, and those that failed a flush since the process began.
    pub(super) failed_at: BTreeMap<Leg, u64>,
    pub(super) unflushed: BTreeSet<Leg>,
    /// How sets were before this step.
    pub(super) before: Vec<SetStatus>,
    /// Members that get all of their volume.
    pub(super) whole: BTreeSet<Leg>,
    pub(super) now: Moment,
    pub(super) walked: SetsWalk,
}

pub(super) fn tell(seed: u64) -> Result<SetsWalk, String> {
    let mut desk = Desk::new(Dice::new(seed ^ 0x5e75));
    for _ in 0..STEPS {
        desk.step()?;
    }
    desk.rest()?;
    if desk.dice.chance(1, 2) {
        desk.read_everything()?;
    }
    desk.crash(true)?;
    desk.rest()?;
    desk.read_everything()?;
    desk.walked.seeds = 1;
    Ok(desk.walked)
}

impl Desk {
    fn new(mut dice: Dice) -> Self {
        let volumes: Vec<usize> = (0..=dice.below(2)).map(|_| volume(&mut dice)).collect();
        let sizes: Vec<Bytes> = volumes.iter().map(|n| Bytes(*n as u64 * BLOCK)).collect();
        let mut found = vec![[None; MEMBERS_MAX]; sizes.len()];
        for members in &mut found {
            let count = [1, 2, 2, 2, 3, 3, 4, 6][dice.below(8) as usize];
            members[..count].fill(Some(CopyHealth::Good));
        }
        let odds = Odds::draw(&mut dice);
        let mut desk = Self {
            region: Bytes::kib(64 << dice.below(5)),
            around: (dice.below(2), dice.below(2)),
            reference: Reference::new(&volumes),
            disks: (0..MEMBERS_MAX).map(|_| Members::new(&volumes)).collect(),
            payloads: Payloads::default(),
            ledger: Ledger::new(found),
            hot: Hot::new(&sizes),
            stack: Stack::default(),
            dice,
            sizes,
            asked: BTreeMap::new(),
            names: 0,
            legs: BTreeMap::new(),
            comparing: BTreeMap::new(),
            odds,
            silent: BTreeMap::new(),
            given_up: BTreeSet::new(),
            foreign: BTreeSet::new(),
            believed: None,
            merges: BTreeSet::new(),
            failed_at: BTreeMap::new(),
            unflushed: BTreeSet::new(),
            before: Vec::new(),
            whole: BTreeSet::new(),
            now: Moment::ZERO,
            walked: SetsWalk::default(),
        };
        desk.create_blank();
        desk.start();
        desk
    }

    /// Some of the volumes with several members are created blank: each member holds something else.
    fn create_blank(&mut self) {
        for volume in self.volumes() {
            let (v, size) = (usize::from(volume.0), self.sizes[usize::from(volume.0)]);
            let members: Vec<Leg> = self
                .places()
                .filter(|leg| leg.volume == volume && self.ledger.is_full(*leg))
                .collect();
            if members.len() < 2 || self.dice.chance(1, 2) {
                continue;
            }
            let first = BLANK + self.names;
            self.names += members.len() as u64;
            self.reference.never_written(v, (first..).take(members.len()));
            for (leg, stamp) in members.into_iter().zip(first..) {
                self.disk(leg).replace(v, stamp);
                self.ledger.create_blank(leg, blank_pages(size, self.region));
            }
            self.walked.blank += 1;
        }
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = VolumeIndex> + use<> {
        (0..self.sizes.len() as u16).map(VolumeIndex)
    }

    /// Every place for a member.
    pub(super) fn places(&self) -> impl Iterator<Item = Leg> + use<> {
        let members = |volume| (0..MEMBERS_MAX as u8).map(move |n| (volume, MemberIndex(n)));
        self.volumes().flat_map(members).map(|(volume, member)| Leg { volume, member })
    }

    fn step(&mut self) -> Result<(), String> {
        match self.dice.below(100) {
            0..30 => self.ask(),
            30..34 => self.command(),
            34..37 => self.make_trouble(),
            37 => {
                let (again, power) = (self.dice.chance(1, 3), self.dice.chance(1, 2));
                self.crash(power)?;
                if again {
                    self.some_steps()?;
                    self.crash(!power)?;
                }
            }
            38..44 => self.pass_time()?,
            44 => self.permit(),
            45..47 => self.hot.cool(&mut self.dice),
            _ => self.end_one(false),
        }
        self.after()
    }

    /// The host permits work in the background where it likes, has merges yield as much as it likes, and may wait for hot extents that
    /// are to stay hot.
    fn permit(&mut self) {
        let (volumes, factor) =
            (self.dice.below(4), [100, 200, 100_000][self.dice.below(3) as usize]);
        self.stack.set(LayerSetting::Background(volumes), self.now);
        self.stack.set(LayerSetting::MergeDelay(factor), self.now);
        if self.dice.chance(1, 2) {
            self.stack.set(LayerSetting::LetCool, self.now);
        }
    }

    /// A few things happen between two crashes.
    fn some_steps(&mut self) -> Result<(), String> {
        for _ in 0..self.dice.below(30) {
            self.pass_time()?;
            self.after()?;
            self.end_one(false);
            self.after()?;
        }
        Ok(())
    }

    pub(super) fn after(&mut self) -> Result<(), String> {
        self.drain()?;
        self.observe();
        if self.dice.chance(1, 16) { self.judge_settled() } else { Ok(()) }
    }

    /// A client asks for something. No two of its changes overlap.
    fn ask(&mut self) {
        let volume = self.dice.below(self.sizes.len() as u64) as usize;
        let extent = self.place(volume);
        let fua = self.dice.chance(1, 8);
        self.names += 1;
        let stamp = self.names;
        let count = (extent.length / BLOCK) as usize;
        let (op, stamp) = match self.dice.below(24) {
            0..9 => {
                let payload = self.payloads.take(vec![stamp; count]);
                (StoreOp::Write { extent, payload, fua }, stamp)
            }
            9 => (StoreOp::Zero { extent, punch: self.dice.chance(1, 2), fua }, 0),
            10 => (StoreOp::Discard { extent, fua }, 0),
            11..15 => (StoreOp::Flush, 0),
            15 => (StoreOp::Map { extent }, 0),
            _ => (StoreOp::Read { extent }, 0),
        };
        let busy = |asked: &Asked| {
            let both = op.changes().zip(asked.op.changes());
            asked.volume == volume && both.is_some_and(|(one, other)| one.overlaps(other))
        };
        if self.asked.len() >= DEPTH || self.asked.values().any(busy) {
            return self.let_go(op);
        }
        if op.changes().is_some() {
            self.reference.begins(volume, extent, stamp);
            self.may_see(volume, extent, stamp);
        }
        let began = self.reference.count();
        let may = op.reads().map(|extent| self.reference.sees(volume, extent)).unwrap_or_default();
        let flush = if op == StoreOp::Flush { self.hot.flush_begins(volume) } else { 0 };
        self.asked.insert(self.names, Asked { volume, op, stamp, began, may, flush });
        self.walked.operations += 1;
        self.stack.begin(self.names, VolumeIndex(volume as u16), op);
    }

    /// A client reads everything: nothing is blank any more, and members are equal everywhere.
    fn read_everything(&mut self) -> Result<(), String> {
        for (volume, size) in self.volumes().zip(self.sizes.clone()) {
            let total = size.0 / BLOCK;
            for first in (0..total).step_by(DEPTH) {
                let count = (total - first).min(DEPTH as u64);
                let extent = Extent::new(first * BLOCK, count * BLOCK);
                self.names += 1;
                self.ask_read(volume, extent);
            }
        }
        self.rest()?;
        let is_blank = |volume| self.stack.set_status(volume).is_some_and(|set| set.blank.0 > 0);
        let blank = self.volumes().find(|volume| is_blank(*volume));
        ensure(blank.is_none(), || format!("{blank:?} was read, and stays blank"))
    }

    fn ask_read(&mut self, volume: VolumeIndex, extent: Extent) {
        let (v, op) = (usize::from(volume.0), StoreOp::Read { extent });
        let may = self.reference.sees(v, extent);
        let began = self.reference.count();
        self.asked.insert(self.names, Asked { volume: v, op, stamp: 0, began, may, flush: 0 });
        self.stack.begin(self.names, volume, op);
    }

    /// Where operations go: to few places, so that they meet, and over the borders of regions and hot extents.
    fn place(&mut self, volume: usize) -> Extent {
        let total = self.sizes[volume].0 / BLOCK;
        let count = 1 + self.dice.below(12).min(total - 1);
        let hub = [0, 250, 508, total / 2, total][self.dice.below(5) as usize];
        let first = if self.dice.chance(1, 5) { self.dice.below(total) } else { hub };
        let first = (first + self.dice.below(8)).min(total - count);
        Extent::new(first * BLOCK, count * BLOCK)
    }

    /// Reads under way may see what a change puts there.
    fn may_see(&mut self, volume: usize, change: Extent, stamp: Stamp) {
        for asked in self.asked.values_mut().filter(|asked| asked.volume == volume) {
            let Some(read) = asked.op.reads() else { continue };
            for (may, block) in asked.may.iter_mut().zip(super::super::blocks(read)) {
                if super::super::blocks(change).contains(&block) {
                    may.insert(stamp);
                }
            }
        }
    }

    /// Reads under way may see again what was there before a change that failed.
    fn may_see_again(&mut self, volume: usize, change: Extent) {
        for asked in self.asked.values_mut().filter(|asked| asked.volume == volume) {
            let Some(read) = asked.op.reads().filter(|read| read.overlaps(change)) else {
                continue;
            };
            let sees = self.reference.sees(volume, read);
            asked.may.iter_mut().zip(sees).for_each(|(may, sees)| may.extend(sees));
        }
    }

    pub(super) fn let_go(&mut self, op: StoreOp) {
        if let StoreOp::Write { payload, .. } = op {
            self.payloads.release(payload.id);
        }
    }

    pub(super) fn pass_time(&mut self) -> Result<(), String> {
        let deadline = self.stack.deadline();
        if deadline != Moment::NEVER {
            self.now = self.now.max(deadline);
        }
        self.stack.tick(self.now);
        let idles = self.drain()? == 0 && self.stack.deadline() <= self.now;
        ensure(!idles, || String::from("a tick changes nothing, and the next one is due"))
    }

    /// One of the things under way ends.
    pub(super) fn end_one(&mut self, gently: bool) {
        match self.dice.below(6) {
            0 if self.ledger.is_busy() => {
                let fails = !gently && self.odds.ledger(&mut self.dice);
                self.walked.unrecorded += u64::from(fails && !self.ledger.has_failed());
                let (ok, of_members) = self.ledger.end(fails);
                if ok && of_members {
                    self.members_recorded();
                }
                self.stack.recorded(ok, self.now);
            }
            1 if !self.comparing.is_empty() => {
                let at = self.dice.below(self.comparing.len() as u64) as usize;
                let Some((name, pair)) = self.comparing.iter().nth(at) else { return };
                let (name, pair) = (*name, *pair);
                self.comparing.remove(&name);
                let equal = self.payloads.are_equal(pair);
                self.stack.compared(name, equal, self.now);
            }
            _ => self.end_leg(gently),
        }
    }

    /// Does what the stack wants done. Returns how much that was.
    fn drain(&mut self) -> Result<u64, String> {
        let mut done = 0;
        while let Some(out) = self.stack.next(self.now) {
            done += 1;
            match out {
                Out::Member { name, leg, op } => {
                    ensure(!self.given_up.contains(&leg), || {
                        format!("{op:?} goes to {leg:?}, which was given up")
                    })?;
                    if let Some(extent) = op.changes() {
                        self.hot.enter(leg.volume, extent);
                    }
                    if op.is_flush() && op != StoreOp::Flush {
                        self.stack.member_issued(name);
                    }
                    self.legs.insert(name, leg);
                    self.disks[usize::from(leg.member.0)].begin(
                        name,
                        leg.volume,
                        op,
                        &self.payloads,
                    );
                }
                Out::Ended { name, outcome } => self.ended(name, outcome)?,
                Out::LetCool { volume, extent, .. } => self.hot.let_cool(volume, extent)?,
                Out::Own { volume, extent, .. } => self.hot.own(volume, extent)?,
                Out::Record(record) => self.ledger.begin(record),
                Out::Compare { name, pair } => _ = self.comparing.insert(name, pair),
                Out::GiveUp(leg) => self.give_up(leg)?,
                Out::FlushFailed(volume, _) => {
                    self.judge_own_flush(volume)?;
                    self.hot.flush_failed(usize::from(volume.0));
                }
                Out::Release(id) => self.payloads.release(id),
                Out::Pool(_) | Out::Copied(_) | Out::CutReady | Out::Over(_) => {
                    panic!("no layer here has copies: {out:?}")
                }
            }
        }
        Ok(done)
    }

    fn ended(&mut self, name: u64, outcome: Outcome) -> Result<(), String> {
        let Some(asked) = self.asked.remove(&name) else {
            return Err(format!("operation {name} ended twice"));
        };
        let Asked { volume, op, stamp, began, .. } = asked;
        let trusted = !self.hot.has_failed(volume);
        match (op, outcome) {
            (StoreOp::Read { extent }, Outcome::Read(payload)) => {
                let read = self.payloads.stamps(payload).to_vec();
                // Where nothing can be recorded, a crash may bring back what a member missed that was removed.
                let began = if self.ledger.has_failed() { 0 } else { began };
                let right = self.reference.saw((volume, extent, began), &read, &asked.may);
                let may = &asked.may;
                ensure(right, || {
                    format!("a read of {extent} of volume {volume} is wrong: {read:?} of {may:?}")
                })?;
                self.payloads.release(payload.id);
            }
            (StoreOp::Flush, Outcome::Done) if trusted => {
                self.reference.flushed(volume, began);
                self.hot.flush_ended(volume, asked.flush);
            }
            (StoreOp::Flush, Outcome::Done) => {}
            (op, Outcome::Done) if let Some(extent) = op.changes() => {
                self.reference.done(volume, extent, stamp, op.is_flush() && trusted);
            }
            (op, Outcome::Unsure(fault) | Outcome::Failed(fault)) => {
                let unsure = matches!(outcome, Outcome::Unsure(_));
                ensure(op.is_flush() == unsure, || format!("{op:?} ended as {outcome:?}"))?;
                self.judge_failure(&asked, fault)?;
                if let Some(extent) = op.changes() {
                    self.reference.failed(volume, extent);
                    self.may_see_again(volume, extent);
                }
                if unsure {
                    self.hot.flush_failed(volume);
                }
            }
            (StoreOp::Map { .. }, Outcome::Mapped { .. }) => {}
            (op, outcome) => return Err(format!("{op:?} ended as {outcome:?}")),
        }
        self.let_go(op);
        Ok(())
    }
}

/// Blocks of a volume: often of several hot extents.
fn volume(dice: &mut Dice) -> usize {
    match dice.below(3) {
        0 => 1 + dice.below(60) as usize,
        1 => 200 + dice.below(150) as usize,
        _ => 400 + dice.below(300) as usize,
    }
}
