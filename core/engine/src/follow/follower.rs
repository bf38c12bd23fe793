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

use crate::effect::{Effect, StoreOp};
use crate::event::StoreOutcome;
use crate::shared::Shared;
use crate::stream::blocks::check_member;
use crate::stream::gate::Gate;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use applying::Applying;
use core::time::Duration;
use helio_format::message::{Ack, Item, ItemKind, Message, Ranges, Start};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Mode, Moment, Sequence, VolumeIndex};

/// A completion waits at most this long to become durable.
const FLUSH_AFTER: Duration = Duration::from_millis(50);
/// The copier's bytes count to a flush with this part of them.
const COPIED_SHARE: u64 = 16;
/// Payload received and not yet applied, beyond which the socket is not read (rule 19). Large enough for the
/// product of a long fast link; one item beyond it is always taken.
const MEMORY_MAX: Bytes = Bytes::mib(64);
/// The same in items, which take memory whether or not they carry payload: some 10 MiB.
pub(crate) const ITEMS_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Issued,
    /// The store failed it, and its extent stays in the gate.
    Failed,
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    item: Item,
    stage: Stage,
}

/// What the follower asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowerIo {
    /// Apply an item.
    Apply(Sequence),
    /// A flush of its own on a volume.
    Flush(VolumeIndex),
}

/// What the follower wants done that only the engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Record this start in the superblock, then call [`Follower::adopted`].
    Adopt(Start),
    /// Record that the image is consistent, then call [`Follower::marker_saved`].
    RecordConsistent,
}

/// News nobody waits for is told after that long at most, in one message with what came meanwhile: each message of its
/// own would wake the primary for nothing.
const TELL_AFTER: Duration = Duration::from_millis(10);

/// When the primary must be told how far we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// It knows.
    No,
    /// By then.
    By(Moment),
    /// With this batch.
    Now,
}

impl Due {
    /// There is news that can wait until `by`, or cannot.
    fn add(&mut self, by: Option<Moment>) {
        *self = match (*self, by) {
            (Self::Now, _) | (_, None) => Self::Now,
            (Self::No, Some(by)) => Self::By(by),
            (Self::By(earlier), Some(by)) => Self::By(earlier.min(by)),
        };
    }
}

/// Whether what is still on its way is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deaf {
    /// Yes.
    No,
    /// No: a start was refused. Its source begins anew, if at all.
    Start,
    /// No: applying stopped within a stream that was taken up. What is let go is counted: until its source hears of that it
    /// may go on behind it, and in another generation it says so with a start.
    Stream { next: Sequence },
}

/// A flush of the follower's own.
#[derive(Clone, Debug, Default)]
struct SelfFlush {
    /// Volumes whose flush has not ended.
    running: u32,
    /// The completed prefix when it began.
    upto: Sequence,
    /// Bytes completed and in no flush yet.
    bytes: Bytes,
    /// When the completed prefix first passed the durable one.
    since: Option<Moment>,
    /// The sender waits.
    hurry: bool,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    pub(crate) received: Sequence,
    pub(crate) completed: Sequence,
    pub(crate) durable: Sequence,
    slots: VecDeque<Slot>,
    /// Items up to here were offered to the gate.
    offered: Sequence,
    gate: Gate<Sequence>,
    starting: Option<Start>,
    adopting: bool,
    /// Items behind a start that is not adopted yet.
    held: VecDeque<Item>,
    flush: SelfFlush,
    last_write: Vec<Sequence>,
    flushed: Vec<Sequence>,
    unannounced: VecDeque<Sequence>,
    ack_due: Due,
    memory: Bytes,
    paused: bool,
    marker: Option<Sequence>,
    applying: Applying,
    /// What was written here before this incarnation follows may not be durable. A copy that counts as consistent from
    /// its first item on is read and built upon, so it must be.
    unsure: bool,
    /// A stream was adopted in this incarnation, so the cursors mean something.
    pub(crate) streaming: bool,
    /// A stream began on this connection. Before that our cursors may belong to another line than the peer's.
    begun: bool,
    /// What was received before it is no part of it, whatever its source believes of that.
    before: Sequence,
    /// The stream that was taken up last, as its source numbers them.
    stream: u32,
    deaf: Deaf,
}

impl Follower {
    pub(crate) fn new(volumes: usize, head: Sequence) -> Self {
        Self {
            received: head,
            completed: head,
            durable: head,
            slots: VecDeque::new(),
            offered: head,
            gate: Gate::new(volumes),
            starting: None,
            adopting: false,
            held: VecDeque::new(),
            flush: SelfFlush::default(),
            last_write: vec![Sequence::ZERO; volumes],
            flushed: vec![Sequence::ZERO; volumes],
            unannounced: VecDeque::new(),
            ack_due: Due::No,
            memory: Bytes::ZERO,
            paused: false,
            marker: None,
            applying: Applying::Running,
            unsure: true,
            streaming: false,
            begun: false,
            before: Sequence::ZERO,
            stream: 0,
            deaf: Deaf::No,
        }
    }

    /// The primary begins to stream. `continues`: same generation and consistency as the superblock says.
    /// Where an earlier start is not adopted yet, this one takes its place, and what came behind it is forgotten: its
    /// source goes on in order only once it heard that a stream was taken up.
    pub(crate) fn start(&mut self, start: Start, continues: bool, s: &mut Shared) {
        self.begun = true;
        self.deaf = Deaf::No;
        self.forget_held(s);
        // What was received on a connection before may still wait here.
        self.pause_if_full(s);
        if continues
            && self.streaming
            && self.starting.is_none()
            && start.from == self.received.next()
        {
            self.before = self.received;
            self.stream = start.stream;
            self.announce_all();
            return;
        }
        self.starting = Some(start);
        self.flush.hurry = true;
    }

    /// The start that waits to be adopted.
    pub(crate) fn starting(&self) -> Option<Start> {
        self.starting.filter(|_| !self.adopting)
    }

    /// The start, or the stream, is not followed: what is still on its way is not taken.
    pub(crate) fn refuse(&mut self, s: &mut Shared) {
        let taken_up = self.starting.is_none() && self.begun;
        self.deaf = match self.deaf {
            Deaf::No if taken_up => Deaf::Stream { next: self.received.next() },
            Deaf::No => Deaf::Start,
            already => already,
        };
        self.starting = None;
        self.begun = false;
        self.forget_held(s);
    }

    /// A start was refused, or a stream, and no other one came.
    pub(crate) fn is_deaf(&self) -> bool {
        self.deaf != Deaf::No
    }

    /// Whether a start may count on items that were let go: it goes on where the stream was when applying stopped.
    pub(crate) fn missed_before(&self, start: &Start) -> bool {
        self.deaf == Deaf::Stream { next: start.from }
    }

    /// What was received and not applied is let go; nothing of it is under way.
    pub(crate) fn lay_down(&mut self, s: &mut Shared) {
        self.forget_held(s);
        let payloads = self.slots.drain(..).filter_map(|slot| slot.item.payload);
        payloads.for_each(|payload| s.release(payload.id));
    }

    /// Nothing is under way.
    pub(crate) fn is_still(&self) -> bool {
        self.flush.running == 0 && self.slots.iter().all(|slot| slot.stage != Stage::Issued)
    }

    /// What items behind `at` will change that were received and are not issued yet.
    pub(crate) fn waiting_behind(
        &self,
        at: Sequence,
    ) -> impl Iterator<Item = (VolumeIndex, Extent)> {
        let waiting = |slot: &&Slot| matches!(slot.stage, Stage::Waiting | Stage::Failed);
        let waiting = self.slots.iter().filter(waiting);
        let items = waiting.map(|slot| slot.item);
        let behind = items.filter(move |item| item.sequence > at && item.kind.changes_data());
        behind.map(|item| (item.volume, item.extent))
    }

    fn forget_held(&mut self, s: &mut Shared) {
        for item in self.held.drain(..) {
            item.payload.into_iter().for_each(|p| s.release(p.id));
            self.memory =
                self.memory.saturating_sub(Bytes(item.payload.map_or(0, |p| u64::from(p.length))));
        }
        self.read_on(s);
    }

    /// A connection stands again: everything that has completed is told anew.
    fn announce_all(&mut self) {
        self.unannounced.clear();
        let done = self.slots.iter().filter(|slot| slot.stage == Stage::Done);
        self.unannounced.extend(done.map(|slot| slot.item.sequence));
        self.ack_due = Due::Now;
    }

    /// The connection is gone: what was behind an unadopted start is forgotten, what was received is applied.
    pub(crate) fn disconnected(&mut self, s: &mut Shared) {
        self.begun = false;
        self.deaf = Deaf::No;
        self.paused = false;
        self.forget_held(s);
        if !self.adopting {
            self.starting = None;
        }
    }

    /// The start is recorded: cursors move to where it says. Another one may have arrived meanwhile; it is next.
    pub(crate) fn adopted(&mut self, start: Start) {
        let at = Sequence(start.from.0 - 1);
        self.adopting = false;
        self.streaming = true;
        self.before = Sequence::ZERO;
        self.stream = start.stream;
        self.received = at;
        self.completed = at;
        self.durable = at;
        self.offered = at;
        self.marker = None;
        self.last_write.fill(Sequence::ZERO);
        self.flushed.fill(Sequence::ZERO);
        self.unannounced.clear();
        self.ack_due = Due::Now;
        if self.starting == Some(start) {
            self.starting = None;
            while let Some(item) = self.held.pop_front() {
                self.take(item, None);
            }
        }
    }

    /// An item arrives.
    ///
    /// # Errors
    /// It is not the next one, or it leaves its volume: the connection must end.
    pub(crate) fn receive(&mut self, item: Item, s: &mut Shared) -> Result<(), String> {
        if self.is_deaf() {
            if let Deaf::Stream { next } = &mut self.deaf
                && item.sequence == *next
            {
                *next = next.next();
            }
            item.payload.into_iter().for_each(|p| s.release(p.id));
            return Ok(());
        }
        let expected = match (&self.starting, self.held.back()) {
            (_, Some(last)) => last.sequence.next(),
            (Some(start), None) => start.from,
            (None, None) => self.received.next(),
        };
        let size = s.config.volumes.get(usize::from(item.volume.0)).map_or(0, |b| b.0);
        if item.sequence != expected {
            return Err(format!("item {} arrived in place of item {expected}", item.sequence));
        }
        if item.kind == ItemKind::Verify && !compare::is_whole(&item) {
            return Err(format!("item {} has not a digest for every block", item.sequence));
        }
        if item.extent.end() > size || (!self.streaming && self.starting.is_none()) {
            return Err(format!(
                "item {} does not fit: {} of volume {}",
                item.sequence,
                item.extent,
                s.config.name_of(item.volume)
            ));
        }
        check_member(s, item.volume, item.extent)
            .map_err(|why| format!("item {}: {why}", item.sequence))?;
        let payload = item.payload.map_or(0, |p| u64::from(p.length));
        self.memory += Bytes(payload);
        if self.starting.is_some() {
            self.held.push_back(item);
        } else {
            // Only one mode answers for what was received.
            let patient = s.config.mode != Mode::NearSync;
            self.take(item, patient.then(|| s.now + TELL_AFTER));
        }
        self.pause_if_full(s);
        Ok(())
    }

    fn pause_if_full(&mut self, s: &mut Shared) {
        let full = self.memory > MEMORY_MAX || self.items() > s.receive_items;
        if full && !self.paused {
            self.paused = true;
            s.out.push(Effect::PauseReceiving(true));
        }
    }

    /// Items received and not complete in order, those behind an unadopted start included.
    pub(crate) fn items(&self) -> usize {
        if planted(Plant::FreeItems) { 0 } else { self.holds() }
    }

    /// The socket is read again once there is room.
    fn read_on(&mut self, s: &mut Shared) {
        let room = self.memory.0 < MEMORY_MAX.0 / 2 && self.items() <= s.receive_items / 2;
        if self.paused && room {
            self.paused = false;
            s.out.push(Effect::PauseReceiving(false));
        }
    }

    fn take(&mut self, item: Item, tell_by: Option<Moment>) {
        self.received = item.sequence;
        self.slots.push_back(Slot { item, stage: Stage::Waiting });
        self.ack_due.add(tell_by);
    }

    fn slot_mut(&mut self, at: Sequence) -> Option<&mut Slot> {
        let index = at.0.checked_sub(self.completed.0 + 1)?;
        self.slots.get_mut(index as usize)
    }

    /// Issues what may be issued and begins flushes that are due.
    pub(crate) fn keep_flowing(&mut self, s: &mut Shared) {
        self.retry_if_due(s);
        self.offer(s);
        self.flush_if_due(s);
    }

    /// Keeps items flowing. Returns what only the engine can do.
    pub(crate) fn step(&mut self, s: &mut Shared) -> Option<Wish> {
        self.keep_flowing(s);
        if self.adopting || self.failed().is_some() {
            return None;
        }
        if let Some(start) = self.starting
            && self.is_drained()
            && !self.owes_first_flush()
            && s.keeper.is_ready_for(&start)
        {
            self.adopting = true;
            return Some(Wish::Adopt(start));
        }
        if let Some(marker) = self.marker
            && self.durable.next() >= marker
            && self.completed.next() == marker
            && self.flush.running == 0
        {
            self.marker = None;
            return Some(Wish::RecordConsistent);
        }
        None
    }

    /// A stream began on this connection.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Only items of this stream change the image from here on: what was received before it is applied.
    pub(crate) fn is_settled(&self) -> bool {
        self.completed >= self.before
    }

    /// Everything received is applied and durable.
    pub(crate) fn is_drained(&self) -> bool {
        self.slots.is_empty() && self.durable == self.completed && self.flush.running == 0
    }

    fn offer(&mut self, s: &mut Shared) {
        while self.offered < self.received && self.failed().is_none() {
            let next = self.offered.next();
            let completed = self.completed;
            let Some(slot) = self.slot_mut(next) else { panic!("item {next} is not held") };
            if slot.item.after > completed && !planted(Plant::IgnoreAfter) {
                return;
            }
            let item = slot.item;
            self.offered = next;
            match item.kind {
                ItemKind::Consistent => {
                    self.marker = Some(next);
                    self.flush.hurry = true;
                }
                ItemKind::Flush if planted(Plant::SkipFlush) => self.nothing_to_apply(next, s),
                ItemKind::Same => self.nothing_to_apply(next, s),
                ItemKind::Flush => self.issue(next, s),
                _ if self.gate.enter(next, item.volume, item.extent) => self.issue(next, s),
                _ => {}
            }
        }
    }

    /// The copier found our copy equal there: the item is complete where it stands.
    fn nothing_to_apply(&mut self, at: Sequence, s: &mut Shared) {
        let before = self.completed;
        if let Some(slot) = self.slot_mut(at) {
            slot.stage = Stage::Done;
            let volume = usize::from(slot.item.volume.0);
            // What is equal may lie in a cache alone, written by a process that is gone: durable is said of it only
            // behind a flush, as of a write.
            self.last_write[volume] = self.last_write[volume].max(at);
        }
        self.unannounced.push_back(at);
        self.advance(before, None, s);
    }

    pub(crate) fn issue(&mut self, at: Sequence, s: &mut Shared) {
        let Some(slot) = self.slot_mut(at) else { panic!("item {at} is not held") };
        let Item { kind, extent, volume, .. } = slot.item;
        if kind.changes_data() && !s.keeper.admits(at, volume, extent) {
            return;
        }
        slot.stage = Stage::Issued;
        let Item { kind, extent, fua, punch, volume, payload, .. } = slot.item;
        let op = match (kind, payload) {
            (ItemKind::Write, Some(payload)) => StoreOp::Write { extent, payload, fua },
            (ItemKind::Zero, _) => StoreOp::Zero { extent, punch, fua },
            (ItemKind::Discard, _) => StoreOp::Discard { extent, fua },
            (ItemKind::Flush, _) => StoreOp::Flush,
            (ItemKind::Verify, Some(payload)) => StoreOp::Verify { extent, payload },
            (ItemKind::Write | ItemKind::Consistent | ItemKind::Same | ItemKind::Verify, _) => {
                panic!("item {at} ({kind:?}) cannot be issued")
            }
        };
        s.store(volume, op, FollowerIo::Apply(at));
    }

    /// An operation of its own ended.
    pub(crate) fn ended(&mut self, io: FollowerIo, outcome: StoreOutcome, s: &mut Shared) {
        match io {
            FollowerIo::Apply(at) => self.applied(at, outcome, s),
            FollowerIo::Flush(volume) => self.flushed(volume, outcome, s),
        }
    }

    /// The store is done with an item.
    fn applied(&mut self, at: Sequence, outcome: StoreOutcome, s: &mut Shared) {
        let (completed, Some(slot)) = (self.completed, self.slot_mut(at)) else {
            panic!("item {at} was applied twice")
        };
        let item = slot.item;
        if item.kind == ItemKind::Verify {
            return self.compared(at, outcome, s);
        }
        if let StoreOutcome::Failed(fault) = outcome {
            return self.item_failed(at, fault, s);
        }
        slot.stage = Stage::Done;
        if let Some(payload) = slot.item.payload.take() {
            s.release(payload.id);
            self.memory = self.memory.saturating_sub(Bytes(u64::from(payload.length)));
        }
        if item.kind == ItemKind::Flush {
            let flushed = &mut self.flushed[usize::from(item.volume.0)];
            *flushed = (*flushed).max(item.after);
        } else {
            if !item.fua {
                let last = &mut self.last_write[usize::from(item.volume.0)];
                *last = (*last).max(at);
                // Of the copier's items the sender holds no payload any more: little waits for their flush.
                let share = if item.resync { COPIED_SHARE } else { 1 };
                self.flush.bytes += Bytes(item.extent.length / share);
            }
            self.item_applied(at, s);
            self.let_through(&item, s);
        }
        self.unannounced.push_back(at);
        // In async nobody waits for a client's item; the copier waits for its own.
        let patient = s.config.mode == Mode::Async && !item.resync;
        self.advance(completed, patient.then(|| s.now + TELL_AFTER), s);
    }

    /// Gives an item's extent back to the gate, and issues what may pass now.
    fn let_through(&mut self, item: &Item, s: &mut Shared) {
        self.gate.leave(item.volume, item.extent);
        while self.failed().is_none() && self.gate.has_waiters() {
            let Some(next) = self.gate.next_ready() else { break };
            self.issue(next, s);
        }
    }

    /// Moves the completed prefix over what is done.
    fn advance(&mut self, before: Sequence, tell_by: Option<Moment>, s: &mut Shared) {
        while self.slots.front().is_some_and(|slot| slot.stage == Stage::Done) {
            self.slots.pop_front();
            self.completed = self.completed.next();
        }
        self.ack_due.add(tell_by);
        if self.completed > before {
            self.count_durable();
        }
        if self.completed > self.durable {
            self.flush.since.get_or_insert(s.now);
        }
        self.read_on(s);
    }

    /// The marker's record is durable, so the marker is complete.
    pub(crate) fn marker_saved(&mut self, s: &mut Shared) {
        let before = self.completed;
        if let Some(slot) = self.slots.front_mut()
            && slot.item.kind == ItemKind::Consistent
        {
            slot.stage = Stage::Done;
            self.unannounced.push_back(before.next());
            self.advance(before, None, s);
        }
    }

    /// The largest position up to which everything is durable. A volume without writes since its last flush
    /// constrains nothing; what was durable stays so.
    fn count_durable(&mut self) {
        let constraint =
            |(last, flushed): (&Sequence, &Sequence)| (last > flushed).then_some(*flushed);
        let pairs = self.last_write.iter().zip(&self.flushed);
        let pairs = pairs.filter(|_| !planted(Plant::DurableUnflushed));
        let computed =
            pairs.filter_map(constraint).min().unwrap_or(self.completed).min(self.completed);
        if computed > self.durable {
            self.durable = computed;
            self.ack_due = Due::Now;
        }
    }

    /// A start waits that takes everything of before for durable, and nobody flushed it yet.
    fn owes_first_flush(&self) -> bool {
        self.unsure && self.starting.is_some_and(|start| start.consistent)
    }

    fn flush_if_due(&mut self, s: &mut Shared) {
        let undurable = self.completed > self.durable;
        let full = self.flush.bytes >= s.config.flush_bytes();
        let old = self.flush.since.is_some_and(|since| s.now - since >= FLUSH_AFTER);
        let first = self.owes_first_flush() && !self.adopting && self.failed().is_none();
        let due = undurable && (full || old || self.flush.hurry);
        if self.flush.running > 0 || !(due || first) || self.failed().is_some() {
            return;
        }
        self.unsure &= !first;
        self.flush = SelfFlush { upto: self.completed, ..SelfFlush::default() };
        for volume in 0..self.last_write.len() {
            if first || self.last_write[volume] > self.flushed[volume] {
                self.flush.running += 1;
                let volume = VolumeIndex(volume as u16);
                s.store(volume, StoreOp::Flush, FollowerIo::Flush(volume));
            }
        }
        if self.flush.running == 0 {
            self.count_durable();
        }
    }

    /// A flush of our own ended on one volume.
    fn flushed(&mut self, volume: VolumeIndex, outcome: StoreOutcome, s: &mut Shared) {
        // One that was begun before this node began to follow anew says nothing of what came since.
        if self.flush.running == 0 {
            return;
        }
        self.flush.running -= 1;
        if let StoreOutcome::Failed(fault) = outcome {
            return self.flush_failed(volume, fault, s);
        }
        let flushed = &mut self.flushed[usize::from(volume.0)];
        *flushed = (*flushed).max(self.flush.upto);
        self.count_durable();
        // What completed while the flush ran is due next.
        if self.flush.running == 0 && self.completed > self.durable {
            self.flush.since.get_or_insert(s.now);
        }
    }

    /// The sender waits for room or for an answer.
    pub(crate) fn hurry(&mut self) {
        self.flush.hurry = self.completed > self.durable || self.flush.running > 0;
        if self.ack_due != Due::No {
            self.ack_due = Due::Now;
        }
    }

    /// Whether a flush is under way, for the pong.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flush.running > 0
    }

    /// When the next flush or the next news falls due by time.
    pub(crate) fn deadline(&self) -> Moment {
        let flushes = self.flush.running == 0 && self.failed().is_none();
        let undurable = flushes && self.completed > self.durable;
        let flush = self.flush.since.filter(|_| undurable).map(|since| since + FLUSH_AFTER);
        let news = match self.ack_due {
            Due::By(by) if self.may_tell() => by,
            _ => Moment::NEVER,
        };
        news.min(flush.unwrap_or(Moment::NEVER)).min(self.retry_deadline())
    }

    /// Whether the stream of this connection is the one our cursors belong to: only its items change the image then.
    pub(crate) fn is_following(&self) -> bool {
        self.streaming && self.may_tell()
    }

    /// Whether our cursors mean something to the primary.
    fn may_tell(&self) -> bool {
        self.starting.is_none() && self.begun
    }

    /// Says how far we are, if there is something new.
    pub(crate) fn acknowledge(&mut self, s: &mut Shared) {
        let due = match self.ack_due {
            Due::No => false,
            Due::By(by) => s.now >= by,
            Due::Now => true,
        };
        if !due || !self.may_tell() {
            return;
        }
        let mut ranges = Ranges::default();
        let mut left = false;
        while let Some(at) = self.unannounced.pop_front() {
            if at > self.completed && !ranges.push(at) {
                self.unannounced.push_front(at);
                left = true;
                break;
            }
        }
        self.ack_due = if left { Due::Now } else { Due::No };
        let Self { stream, received, completed, durable, .. } = *self;
        s.send(Message::Ack(Ack { stream, received, completed, durable, ranges }));
    }

    /// How many there are.
    pub(crate) fn holds(&self) -> usize {
        self.slots.len() + self.held.len()
    }

    /// Bytes received and not applied.
    pub(crate) fn memory(&self) -> Bytes {
        self.memory
    }
}
