// SPDX-License-Identifier: Apache-2.0
//! What a node holds while it follows a primary: items received, applied in a legal order, made durable, told.
//!
//! ```text
//!  receive ─> slot ─ all ≤ after completed ─> gate ─> store ─> completed (prefix, and ranges beyond it) ─> durable
//! ```
//! An item is issued when everything up to its `after` has completed here and no earlier item overlaps it; so the
//! image is always closed under "answered before accepted" (rule 2). Since `completed` is a contiguous prefix, the
//! first condition is `after ≤ completed`.
//!
//! A `Start` that continues what we have changes nothing. Any other one waits until everything received is
//! applied and durable, is recorded in the superblock (generation, and whether the image keeps its order), and
//! only then moves the cursors.
//!
//! The follower flushes by itself: 50 ms after the first completion that is not durable, after
//! [`Config::flush_bytes`](crate::Config::flush_bytes), and at once when the sender says it waits (rule 3).

mod applying;
mod compare;
mod cursors;
mod durability;
mod intake;
mod news;
mod recall;
mod snapshots;

use crate::effect::{Effect, ReadAs};
use crate::event::StoreOutcome;
use crate::local::Local;
use crate::purpose::FollowerIo;
use crate::stream::gate::Gate;
use crate::turn::Turn;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use applying::Applying;
use core::{iter, mem};
use cursors::Cursors;
use durability::Durability;
use helio_format::message::{Ack, Item, ItemKind, Message, Start};
use helio_plant::{Plant, planted};
use helio_stack::Shortage;
use helio_stack::StoreOp;
use helio_units::{Bytes, Extent, Mode, Moment, Sequence, VolumeIndex};
use intake::Intake;
use news::{News, TELL_AFTER};
use recall::Recall;
use snapshots::Snapshots;

/// The copier's bytes count to a flush with this part of them.
const COPIED_SHARE: u64 = 16;
/// Payload received and not yet applied, beyond which the socket is not read (rule 19). Large enough for the
/// product of a long fast link; one item beyond it is always taken.
const MEMORY_MAX: Bytes = Bytes::mib(64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Issued,
    /// The store stack has no room for what must be preserved first: nothing was touched.
    Refused,
    /// The store failed it, and its extent stays in the gate.
    Failed,
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    item: Item,
    stage: Stage,
}

/// What the follower wants done that only the engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Record this start in the superblock, then call [`Follower::adopted`].
    Adopt(Start),
    /// Record that the image is consistent, then call [`Follower::marker_saved`].
    RecordConsistent,
}

/// The stream that was adopted last in this incarnation.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// As its source numbers them.
    number: u32,
    /// What was received before it is no part of it, whatever its source believes of that.
    before: Sequence,
    positions: Positions,
}

impl Stream {
    /// The last item in the image, where that is less than what is complete.
    const fn image(&self) -> Option<Sequence> {
        match self.positions {
            Positions::Every => None,
            Positions::OfCut { image } => image,
        }
    }
}

/// Which positions of the line a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Positions {
    Every,
    /// A cut is shipped: regions that its source writes in the meantime are left out. `image`: the last item in it, once it has arrived, if
    /// that is not its marker.
    OfCut {
        image: Option<Sequence>,
    },
}

impl Positions {
    const fn of(start: &Start) -> Self {
        if start.ships { Self::OfCut { image: None } } else { Self::Every }
    }
}

/// What was received and not applied.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    bytes: Bytes,
    /// The socket is not read meanwhile.
    paused: bool,
}

impl Memory {
    fn take(&mut self, item: &Item) {
        self.bytes += payload_bytes(item);
    }

    fn give_back(&mut self, item: &Item) {
        self.bytes = self.bytes.saturating_sub(payload_bytes(item));
    }

    /// Whether the socket is not to be read from now on; `items` are received, of `most`.
    fn pauses(&mut self, items: usize, most: usize) -> bool {
        let full = self.bytes > MEMORY_MAX || items > most;
        full && !mem::replace(&mut self.paused, true)
    }

    /// Whether half of the memory is free; `items` are received, of `most`.
    fn has_room(&self, items: usize, most: usize) -> bool {
        self.bytes.0 < MEMORY_MAX.0 / 2 && items <= most / 2
    }

    /// It is read from now on. Returns whether it was not.
    const fn resumes(&mut self) -> bool {
        mem::replace(&mut self.paused, false)
    }
}

fn payload_bytes(item: &Item) -> Bytes {
    Bytes(item.payload.map_or(0, |payload| u64::from(payload.length)))
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    cursors: Cursors,
    slots: VecDeque<Slot>,
    gate: Gate<Sequence>,
    intake: Intake,
    /// Without one the cursors mean nothing.
    stream: Option<Stream>,
    durability: Durability,
    news: News,
    memory: Memory,
    applying: Applying,
    /// The store stack refused an item for want of that room.
    refused: Option<Shortage>,
    /// What is to be done about copies.
    snapshots: Snapshots,
    recall: Recall,
}

impl Follower {
    pub(crate) fn new(volumes: usize, head: Sequence) -> Self {
        Self {
            cursors: Cursors::all_at(head),
            slots: VecDeque::new(),
            gate: Gate::new(volumes),
            intake: Intake::new(),
            stream: None,
            durability: Durability::new(volumes),
            news: News::new(),
            memory: Memory::default(),
            applying: Applying::Running,
            refused: None,
            snapshots: Snapshots::default(),
            recall: Recall::default(),
        }
    }

    /// Items up to here were received.
    pub(crate) const fn received(&self) -> Sequence {
        self.cursors.received()
    }

    /// Items up to here are in the image, if it is consistent: fewer than are applied where the last ones shipped a cut.
    pub(crate) fn head(&self) -> Sequence {
        self.stream.and_then(|stream| stream.image()).unwrap_or(self.completed())
    }

    /// Items up to here may be in the image: those received, or fewer where the last ones shipped a cut.
    pub(crate) fn reach(&self) -> Sequence {
        self.stream.and_then(|stream| stream.image()).unwrap_or(self.received())
    }

    /// The last item in the image behind the marker that comes next.
    pub(crate) fn head_at_marker(&self) -> Option<Sequence> {
        let marker = self.slots.front().map(|slot| slot.item)?;
        let everything = marker.after.next() == marker.sequence;
        Some(if everything { marker.sequence } else { marker.after })
    }

    /// Items up to here are applied.
    pub(crate) const fn completed(&self) -> Sequence {
        self.cursors.completed()
    }

    /// Items up to here are durable.
    pub(crate) const fn durable(&self) -> Sequence {
        self.cursors.durable()
    }

    /// A stream was adopted in this incarnation, so the cursors mean something.
    pub(crate) const fn streams(&self) -> bool {
        self.stream.is_some()
    }

    /// The primary begins to stream. `continues`: same generation and consistency as the superblock says.
    /// Where an earlier start is not adopted yet, this one takes its place, and what came behind it is forgotten: its
    /// source goes on in order only once it heard that a stream was taken up.
    pub(crate) fn start(&mut self, start: Start, continues: bool, turn: &mut Turn) {
        self.intake.begin();
        self.forget_held(turn);
        // What was received on a connection before may still wait here.
        self.pause_if_full(turn);
        if continues
            && let Some(stream) = &mut self.stream
            && self.intake.is_adopted()
            && start.from == self.cursors.received().next()
            && stream.image().is_none()
        {
            let (number, before) = (start.stream, self.cursors.received());
            *stream = Stream { number, before, positions: Positions::of(&start) };
            let done = self.slots.iter().filter(|slot| slot.stage == Stage::Done);
            self.news.restart(done.map(|slot| slot.item.sequence));
            return;
        }
        self.intake.adopt(start);
        self.recall.starts_again();
        self.durability.start_waits();
    }

    /// A ping of the primary on the stream that was begun last says that its line reaches to there.
    pub(crate) fn primary_is_at(&mut self, accepted: Sequence) {
        if self.intake.is_adopted() {
            self.recall.primary_is_at(accepted, self.received());
        }
    }

    /// It has everything that it confirmed, and that a process before it confirmed.
    pub(crate) fn is_sure(&self) -> bool {
        self.recall == Recall::Whole
    }

    /// The start that waits to be adopted.
    pub(crate) fn starting(&self) -> Option<Start> {
        self.intake.waiting()
    }

    /// The start, or the stream, is not followed: what is still on its way is not taken.
    pub(crate) fn refuse(&mut self, turn: &mut Turn) {
        self.intake.refuse(self.cursors.received());
        self.forget_held(turn);
    }

    /// A start was refused, or a stream, and no other one came.
    pub(crate) fn is_deaf(&self) -> bool {
        self.intake.is_deaf()
    }

    /// Whether a start may count on items that were let go: it goes on where the stream was when applying stopped.
    pub(crate) fn missed_before(&self, start: &Start) -> bool {
        self.intake.missed_before(start)
    }

    /// What was received and not applied is let go; nothing of it is under way.
    pub(crate) fn lay_down(&mut self, turn: &mut Turn) {
        self.forget_held(turn);
        let payloads = self.slots.drain(..).filter_map(|slot| slot.item.payload);
        payloads.for_each(|payload| turn.release(payload.id));
        self.snapshots.forget();
    }

    /// The store has an item that it has not ended.
    pub(crate) fn is_applying(&self) -> bool {
        self.slots.iter().any(|slot| slot.stage == Stage::Issued)
    }

    /// Nothing is under way.
    pub(crate) fn is_still(&self) -> bool {
        !self.durability.is_flushing() && !self.is_applying()
    }

    /// The next item is a marker, and everything before it is durable.
    pub(crate) fn waits_for_record(&self) -> bool {
        let marker = |slot: &Slot| slot.item.kind == ItemKind::Consistent;
        self.slots.front().is_some_and(marker) && self.durable() == self.completed()
    }

    /// A marker was received, and its record is not durable: what the record says of the image is about to change.
    pub(crate) fn holds_marker(&self) -> bool {
        self.slots.iter().any(|slot| slot.item.kind == ItemKind::Consistent)
    }

    /// What items behind `at` will change, or have begun to, that were received and are not applied: one that was issued may
    /// wait in a layer.
    pub(crate) fn waiting_behind(
        &self,
        at: Sequence,
    ) -> impl Iterator<Item = (VolumeIndex, Extent)> {
        let waiting = self.slots.iter().filter(|slot| slot.stage != Stage::Done);
        let items = waiting.map(|slot| slot.item);
        let behind = items.filter(move |item| item.sequence > at && item.kind.changes_data());
        behind.map(|item| (item.volume, item.extent))
    }

    fn forget_held(&mut self, turn: &mut Turn) {
        self.snapshots.forget_held();
        for item in self.intake.forget_held() {
            item.payload.into_iter().for_each(|p| turn.release(p.id));
            self.memory.give_back(&item);
        }
        self.read_on(turn);
    }

    /// The connection is gone: what was behind an unadopted start is forgotten, what was received is applied.
    pub(crate) fn disconnected(&mut self, turn: &mut Turn) {
        self.memory.paused = false;
        self.forget_held(turn);
        self.intake.disconnected();
    }

    /// The start is recorded: cursors move to where it says. Another one may have arrived meanwhile; it is next.
    pub(crate) fn adopted(&mut self, start: Start) {
        let (number, positions) = (start.stream, Positions::of(&start));
        self.stream = Some(Stream { number, before: Sequence::ZERO, positions });
        self.cursors = Cursors::all_at(Sequence(start.from.0 - 1));
        self.durability.restart();
        self.news.restart(iter::empty());
        for item in self.intake.recorded(start) {
            self.snapshots.taken(item.sequence);
            self.take(item, None);
        }
    }

    /// An item arrives.
    ///
    /// # Errors
    /// It is not the next one, or it leaves its volume: the connection must end.
    pub(crate) fn receive(
        &mut self,
        item: Item,
        local: &Local,
        turn: &mut Turn,
    ) -> Result<(), String> {
        if self.intake.lets_go(item.sequence) {
            item.payload.into_iter().for_each(|p| turn.release(p.id));
            return Ok(());
        }
        let expected = self.intake.expected(self.cursors.received());
        let size = turn.config().volumes.get(usize::from(item.volume.0)).map_or(0, |b| b.0);
        let starting = self.intake.starting().map(|start| Positions::of(&start));
        let positions = starting.or(self.stream.map(|stream| stream.positions));
        let leaves_out = matches!(positions, Some(Positions::OfCut { .. }));
        if item.sequence < expected || (item.sequence > expected && !leaves_out) {
            return Err(format!("item {} arrived in place of item {expected}", item.sequence));
        }
        if item.kind == ItemKind::Verify && !compare::is_whole(&item) {
            return Err(format!("item {} has not a digest for every block", item.sequence));
        }
        if item.extent.end() > size || (!self.streams() && self.intake.starting().is_none()) {
            return Err(format!(
                "item {} does not fit: {} of volume {}",
                item.sequence,
                item.extent,
                turn.config().name_of(item.volume)
            ));
        }
        local
            .blocks()
            .check_member(item.volume, item.extent, turn.config())
            .map_err(|why| format!("item {}: {why}", item.sequence))?;
        if !self.snapshots.arrives(&item, self.intake.starting().is_some()) {
            return Err(format!("item {} is not what was announced", item.sequence));
        }
        self.memory.take(&item);
        if self.intake.starting().is_some() {
            self.intake.hold(item);
        } else {
            // Only one mode answers for what was received.
            let patient = turn.config().mode != Mode::NearSync;
            self.take(item, patient.then(|| turn.now() + TELL_AFTER));
        }
        self.pause_if_full(turn);
        Ok(())
    }

    fn pause_if_full(&mut self, turn: &mut Turn) {
        if self.memory.pauses(self.items(), turn.receive_items()) {
            turn.push(Effect::PauseReceiving(true));
        }
    }

    /// Items received and not complete in order, those behind an unadopted start included.
    pub(crate) fn items(&self) -> usize {
        if planted(Plant::FreeItems) { 0 } else { self.holds() }
    }

    /// The socket is read again once there is room. Where nothing is taken it is read, whatever waits here: what waits for room in the
    /// pool may get it by a later start alone, as of a source that gives the kept image up.
    fn read_on(&mut self, turn: &mut Turn) {
        let room = self.is_deaf() || self.memory.has_room(self.items(), turn.receive_items());
        if room && self.memory.resumes() {
            turn.push(Effect::PauseReceiving(false));
        }
    }

    fn take(&mut self, item: Item, tell_by: Option<Moment>) {
        self.cursors.receive(item.sequence);
        self.slots.push_back(Slot { item, stage: Stage::Waiting });
        self.news.add(tell_by);
    }

    /// Slots lie in the order of their items. Only where a cut is shipped, positions between them are left out.
    fn slot_mut(&mut self, at: Sequence) -> Option<&mut Slot> {
        let index = at.0.checked_sub(self.cursors.completed().0 + 1)? as usize;
        let is_there = self.slots.get(index).is_some_and(|slot| slot.item.sequence == at);
        let found = || self.slots.binary_search_by_key(&at, |slot| slot.item.sequence).ok();
        let index = if is_there { index } else { found()? };
        self.slots.get_mut(index)
    }

    /// The item that is to be offered next, if it was received.
    fn to_offer(&self) -> Option<Sequence> {
        let offered = self.cursors.offered();
        if offered >= self.cursors.received() {
            return None;
        }
        let index = offered.0.saturating_sub(self.cursors.completed().0) as usize;
        let is_next = |slot: &&Slot| slot.item.sequence == offered.next();
        let next = self.slots.get(index).filter(is_next).or_else(|| {
            self.slots.get(self.slots.partition_point(|slot| slot.item.sequence <= offered))
        });
        next.map(|slot| slot.item.sequence)
    }

    /// Issues what may be issued and begins flushes that are due.
    pub(crate) fn keep_flowing(&mut self, local: &mut Local, turn: &mut Turn) {
        self.retry_if_due(local, turn);
        self.offer(local, turn);
        self.flush_if_due(local, turn);
    }

    /// Keeps items flowing. Returns what only the engine can do.
    /// `ready`: the start that may be adopted.
    pub(crate) fn step(
        &mut self,
        ready: Option<&Start>,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Option<Wish> {
        self.keep_flowing(local, turn);
        if self.intake.is_recording() || self.failed().is_some() {
            return None;
        }
        if let Some(start) = self.intake.waiting()
            && self.is_drained()
            && !self.owes_first_flush()
            && ready == Some(&start)
        {
            self.intake.record();
            return Some(Wish::Adopt(start));
        }
        let next = self.slots.front().map(|slot| slot.item.sequence);
        self.durability.marker_reached(self.cursors, next).then_some(Wish::RecordConsistent)
    }

    /// A stream began on this connection.
    pub(crate) fn is_begun(&self) -> bool {
        self.intake.is_begun()
    }

    /// Only items of this stream change the image from here on: what was received before it is applied.
    pub(crate) fn is_settled(&self) -> bool {
        self.stream.is_none_or(|stream| self.cursors.completed() >= stream.before)
    }

    /// Everything received is applied and durable.
    pub(crate) fn is_drained(&self) -> bool {
        self.slots.is_empty()
            && self.durable() == self.completed()
            && !self.durability.is_flushing()
    }

    fn offer(&mut self, local: &mut Local, turn: &mut Turn) {
        while let Some(next) = self.to_offer().filter(|_| self.failed().is_none()) {
            // Everything before that one is complete.
            let first = self.slots.front().map_or(next, |slot| slot.item.sequence);
            let Some(slot) = self.slot_mut(next) else { panic!("item {next} is not held") };
            if slot.item.after >= first && !planted(Plant::IgnoreAfter) {
                return;
            }
            let item = slot.item;
            if self.snapshots.holds(&item) {
                return;
            }
            self.cursors.offer(next);
            match item.kind {
                ItemKind::Consistent => self.durability.marker_waits(next),
                ItemKind::Flush if planted(Plant::SkipFlush) => self.nothing_to_apply(next, turn),
                ItemKind::Same | ItemKind::Snapshot => self.nothing_to_apply(next, turn),
                ItemKind::Flush => self.issue(next, local, turn),
                _ if self.gate.enter(next, item.volume, item.extent) => {
                    self.issue(next, local, turn)
                }
                _ => {}
            }
        }
    }

    /// The copier found our copy equal there: the item is complete where it stands.
    fn nothing_to_apply(&mut self, at: Sequence, turn: &mut Turn) {
        let before = self.cursors.completed();
        if let Some(slot) = self.slot_mut(at) {
            slot.stage = Stage::Done;
            let volume = slot.item.volume;
            // What is equal may lie in a cache alone, written by a process that is gone: durable is said of it only
            // behind a flush, as of a write.
            self.durability.wrote(volume, at, Bytes::ZERO);
        }
        self.news.ended(at);
        self.advance(before, None, turn);
    }

    pub(crate) fn issue(&mut self, at: Sequence, local: &mut Local, turn: &mut Turn) {
        let Some(slot) = self.slot_mut(at) else { panic!("item {at} is not held") };
        slot.stage = Stage::Issued;
        let Item { kind, extent, fua, punch, volume, payload, .. } = slot.item;
        let op = match (kind, payload) {
            (ItemKind::Write, Some(payload)) => StoreOp::Write { extent, payload, fua },
            (ItemKind::Zero, _) => StoreOp::Zero { extent, punch, fua },
            (ItemKind::Discard, _) => StoreOp::Discard { extent, fua },
            (ItemKind::Flush, _) => StoreOp::Flush,
            (ItemKind::Verify, Some(payload)) => {
                let read_as = ReadAs::Unequal { payload };
                return local.read((volume, extent), read_as, FollowerIo::Apply(at), turn);
            }
            (
                ItemKind::Write
                | ItemKind::Consistent
                | ItemKind::Same
                | ItemKind::Verify
                | ItemKind::Snapshot,
                _,
            ) => {
                panic!("item {at} ({kind:?}) cannot be issued")
            }
        };
        local.store(volume, op, FollowerIo::Apply(at), turn);
    }

    /// An operation of its own ended.
    pub(crate) fn ended(
        &mut self,
        io: FollowerIo,
        outcome: StoreOutcome,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        match io {
            FollowerIo::Apply(at) => self.applied(at, outcome, local, turn),
            FollowerIo::Flush(volume) => self.flushed(volume, outcome, local, turn),
        }
    }

    /// The store is done with an item.
    fn applied(&mut self, at: Sequence, outcome: StoreOutcome, local: &mut Local, turn: &mut Turn) {
        let (completed, Some(slot)) = (self.cursors.completed(), self.slot_mut(at)) else {
            panic!("item {at} was applied twice")
        };
        let item = slot.item;
        if item.kind == ItemKind::Verify {
            return self.compared(at, outcome, local, turn);
        }
        if let StoreOutcome::Refused(shortage) = outcome {
            slot.stage = Stage::Refused;
            return self.refused = Some(shortage);
        }
        if let StoreOutcome::Failed(fault) = outcome {
            return self.item_failed(at, fault, local, turn);
        }
        slot.stage = Stage::Done;
        if let Some(payload) = slot.item.payload.take() {
            turn.release(payload.id);
            self.memory.give_back(&item);
        }
        if item.kind == ItemKind::Flush {
            self.durability.flushed(item.volume, item.after);
        } else {
            if !item.fua {
                // Of the copier's items the sender holds no payload any more: little waits for their flush.
                let share = if item.resync { COPIED_SHARE } else { 1 };
                self.durability.wrote(item.volume, at, Bytes(item.extent.length / share));
            }
            self.item_applied(at, local, turn);
            self.let_through(&item, local, turn);
        }
        self.news.ended(at);
        // In async nobody waits for a client's item; the copier waits for its own.
        let patient = turn.config().mode == Mode::Async && !item.resync;
        self.advance(completed, patient.then(|| turn.now() + TELL_AFTER), turn);
    }

    /// The want of room for which the store stack refused an item since this was asked last.
    pub(crate) const fn take_refused(&mut self) -> Option<Shortage> {
        self.refused.take()
    }

    /// There is room now, or what was preserved is no more: items that were refused are issued again.
    pub(crate) fn offer_again(&mut self, local: &mut Local, turn: &mut Turn) {
        let refused = self.slots.iter().filter(|slot| slot.stage == Stage::Refused);
        let refused: Vec<Sequence> = refused.map(|slot| slot.item.sequence).collect();
        refused.into_iter().for_each(|at| self.issue(at, local, turn));
    }

    /// Gives an item's extent back to the gate, and issues what may pass now.
    fn let_through(&mut self, item: &Item, local: &mut Local, turn: &mut Turn) {
        self.gate.leave(item.volume, item.extent);
        while self.failed().is_none() && self.gate.has_waiters() {
            let Some(next) = self.gate.next_ready() else { break };
            self.issue(next, local, turn);
        }
    }

    /// Moves the completed prefix over what is done.
    fn advance(&mut self, before: Sequence, tell_by: Option<Moment>, turn: &mut Turn) {
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.stage == Stage::Done) {
            self.cursors.complete(slot.item.sequence);
        }
        self.news.add(tell_by);
        if self.cursors.completed() > before {
            self.count_durable();
        }
        self.durability.count_from(self.cursors, turn.now());
        self.read_on(turn);
    }

    /// The marker's record is durable, so the marker is complete.
    pub(crate) fn marker_saved(&mut self, turn: &mut Turn) {
        let (before, head) = (self.cursors.completed(), self.head_at_marker());
        if let Some(slot) = self.slots.front_mut()
            && slot.item.kind == ItemKind::Consistent
        {
            slot.stage = Stage::Done;
            let marker = slot.item.sequence;
            if let Some(Stream { positions: Positions::OfCut { image }, .. }) = &mut self.stream {
                *image = head.filter(|head| *head < marker);
            }
            self.news.ended(marker);
            self.advance(before, None, turn);
        }
    }

    fn count_durable(&mut self) {
        if self.cursors.harden(self.durability.reaches(self.cursors.completed())) {
            self.news.add(None);
        }
    }

    /// A start waits that takes everything of before for durable, and nobody flushed it yet.
    fn owes_first_flush(&self) -> bool {
        self.durability.is_unsure() && self.intake.waiting().is_some_and(|start| start.consistent)
    }

    fn flush_if_due(&mut self, local: &mut Local, turn: &mut Turn) {
        if self.failed().is_some() {
            return;
        }
        let first = self.owes_first_flush();
        let full = turn.config().flush_bytes();
        let begun = self.durability.begin(self.cursors, turn.now(), full, first);
        let Some(running) = begun else { return };
        for volume in turn.config().indices().filter(|at| self.durability.covers(*at, first)) {
            local.store(volume, StoreOp::Flush, FollowerIo::Flush(volume), turn);
        }
        if running == 0 {
            self.count_durable();
        }
    }

    /// A flush of our own ended on one volume.
    fn flushed(
        &mut self,
        volume: VolumeIndex,
        outcome: StoreOutcome,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Some(upto) = self.durability.ended() else { return };
        if let StoreOutcome::Failed(fault) = outcome {
            return self.flush_failed(volume, fault, local, turn);
        }
        self.durability.flushed(volume, upto);
        self.count_durable();
        // What completed while the flush ran is due next.
        if !self.durability.is_flushing() {
            self.durability.count_from(self.cursors, turn.now());
        }
    }

    /// The sender waits for room or for an answer.
    pub(crate) fn hurry(&mut self) {
        self.durability.hurry(self.cursors);
        self.news.hurry();
    }

    /// Whether a flush is under way, for the pong.
    pub(crate) fn is_flushing(&self) -> bool {
        self.durability.is_flushing()
    }

    /// When the next flush or the next news falls due by time.
    pub(crate) fn deadline(&self) -> Moment {
        let news = if self.intake.is_adopted() { self.news.deadline() } else { Moment::NEVER };
        let applies = self.failed().is_none();
        let flush = if applies { self.durability.deadline(self.cursors) } else { Moment::NEVER };
        news.min(flush).min(self.retry_deadline())
    }

    /// Whether the stream of this connection is the one our cursors belong to: only its items change the image then.
    pub(crate) fn is_following(&self) -> bool {
        self.streams() && self.intake.is_adopted()
    }

    /// Says how far we are, if there is something new.
    pub(crate) fn acknowledge(&mut self, turn: &mut Turn) {
        if !self.news.is_due(turn.now()) || !self.intake.is_adopted() {
            return;
        }
        let (received, completed, durable) = (self.received(), self.completed(), self.durable());
        let (stream, ranges) = (self.stream.map_or(0, |it| it.number), self.news.take(completed));
        turn.send(Message::Ack(Ack { stream, received, completed, durable, ranges }));
    }

    /// How many there are.
    pub(crate) fn holds(&self) -> usize {
        self.slots.len() + self.intake.holds()
    }

    /// Bytes received and not applied.
    pub(crate) fn memory(&self) -> Bytes {
        self.memory.bytes
    }
}
