// SPDX-License-Identifier: Apache-2.0
//! What one turn of the engine is given, and what it gives back: the configuration, the time, and the effects.

use crate::calendar::Calendar;
use crate::config::Config;
use crate::effect::{Answer, Done, Effect, Loudness, Note};
use crate::event::{Command, CommandId, Operation, Request, StoreOutcome};
use crate::refusal::{Denial, Refusal};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use helio_format::message::Message;
use helio_stack::CopyIo;
use helio_units::{Bytes, Mode, Moment, Payload, PayloadId, RequestId};

/// Items that a follower holds at most; they take memory whether or not they carry payload: some 10 MiB.
pub(crate) const ITEMS_MAX: usize = 65_536;

/// Counters for status; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads asked for by clients.
    pub reads: u64,
    /// Writes accepted from clients.
    pub writes: u64,
    /// Flushes accepted from clients.
    pub flushes: u64,
    /// Discards accepted from clients.
    pub discards: u64,
    /// Write-zeroes accepted from clients.
    pub zeroes: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub write_bytes: u64,
    /// Requests answered.
    pub answered: u64,
    /// Of these, writes, zeroes, discards and flushes that took their way over the line.
    pub timed: u64,
    /// How long those took from acceptance to answer, added up.
    pub time: Duration,
}

impl Counters {
    /// Counts a request that was accepted.
    fn count(&mut self, operation: Operation) {
        match operation {
            Operation::Read(extent) => {
                self.reads += 1;
                self.read_bytes += extent.length;
            }
            Operation::Write { extent, .. } => {
                self.writes += 1;
                self.write_bytes += extent.length;
            }
            Operation::Zero { .. } => self.zeroes += 1,
            Operation::Discard { .. } => self.discards += 1,
            Operation::Flush => self.flushes += 1,
        }
    }

    /// Counts the time that one took.
    fn took(&mut self, time: Duration) {
        self.timed += 1;
        self.time += time;
    }
}

/// Rooms read the configuration and the time, and add effects. It holds no state of a room.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    config: Config,
    now: Moment,
    /// What time it is for people.
    calendar: Calendar,
    effects: Vec<Effect>,
    counters: Counters,
    /// When a client changed data last.
    last_write: Option<Moment>,
    /// A follower holds this many items at most, and one more.
    receive_items: usize,
    /// Payloads that late operations may still read.
    late: BTreeMap<PayloadId, Held>,
}

/// A payload that late operations hold.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// By so many, and who brought it needs it still.
    Needed { by: u32, length: u32 },
    /// By so many, and by nothing else: it is released with the last of them.
    Released { by: u32, length: u32 },
}

impl Turn {
    pub(crate) fn new(config: Config, now: Moment) -> Self {
        Self {
            config,
            now,
            calendar: Calendar::default(),
            effects: Vec::new(),
            counters: Counters::default(),
            last_write: None,
            receive_items: ITEMS_MAX,
            late: BTreeMap::new(),
        }
    }

    #[inline]
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    #[inline]
    pub(crate) const fn now(&self) -> Moment {
        self.now
    }

    /// What time it is for people.
    pub(crate) const fn calendar(&self) -> Calendar {
        self.calendar
    }

    pub(crate) fn set_calendar(&mut self, calendar: Calendar) {
        self.calendar = calendar;
    }

    pub(crate) const fn counters(&self) -> Counters {
        self.counters
    }

    pub(crate) const fn last_write(&self) -> Option<Moment> {
        self.last_write
    }

    pub(crate) const fn receive_items(&self) -> usize {
        self.receive_items
    }

    pub(crate) fn bound_received(&mut self, items: usize) {
        self.receive_items = items;
    }

    /// The clock shows `now`.
    pub(crate) fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    pub(crate) fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// The primary's mode is the mode of the group.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.config.mode = mode;
    }

    /// Exchanges the effects that it collects with the caller's.
    pub(crate) fn swap(&mut self, effects: &mut Vec<Effect>) {
        mem::swap(&mut self.effects, effects);
    }

    /// The effects collected so far, to add to.
    pub(crate) fn effects(&mut self) -> &mut Vec<Effect> {
        &mut self.effects
    }

    #[inline]
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// A request was accepted.
    #[inline]
    pub(crate) fn count(&mut self, operation: Operation) {
        self.counters.count(operation);
        if !matches!(operation, Operation::Read(_) | Operation::Flush) {
            self.last_write = Some(self.now);
        }
    }

    /// A change or a flush was answered, so long after it was accepted.
    #[inline]
    pub(crate) fn took(&mut self, time: Duration) {
        self.counters.took(time);
    }

    /// Nothing can be recorded.
    pub(crate) fn metadata_refusal(&self) -> Refusal {
        let (group, node) = (&self.config.group, &self.config.node);
        Refusal::new(
            "metadata-failed",
            format!("the metadata file of {group} on {node} cannot be written"),
            format!("the log shows the error; {}", self.config.repair_metadata()),
        )
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.push(Effect::Send(message));
    }

    /// Lets a payload go; one that a late operation holds goes with the end of that.
    pub(crate) fn release(&mut self, payload: PayloadId) {
        if let Some(held) = self.late.get_mut(&payload)
            && let Held::Needed { by, length } = *held
        {
            *held = Held::Released { by, length };
            return;
        }
        self.push(Effect::Release(payload));
    }

    /// A late operation may still read that payload.
    pub(crate) fn hold(&mut self, payload: Payload) {
        let Payload { id, length } = payload;
        let held = self.late.entry(id).or_insert(Held::Needed { by: 0, length });
        let (Held::Needed { by, .. } | Held::Released { by, .. }) = held;
        *by += 1;
    }

    /// A late operation has ended on its disk: what it brought and held goes.
    pub(crate) fn late_ended(&mut self, held: Option<PayloadId>, outcome: &StoreOutcome) {
        self.let_go(outcome);
        let Some(id) = held else { return };
        match self.late.get_mut(&id) {
            Some(Held::Needed { by: by @ 2.., .. } | Held::Released { by: by @ 2.., .. }) => {
                *by -= 1
            }
            Some(Held::Released { .. }) => {
                self.late.remove(&id);
                self.push(Effect::Release(id));
            }
            Some(Held::Needed { .. }) => _ = self.late.remove(&id),
            None => panic!("payload {} was held by no late operation", id.0),
        }
    }

    /// Bytes of payload that late operations alone hold.
    pub(crate) fn late_bytes(&self) -> Bytes {
        let of = |held: &Held| match *held {
            Held::Needed { .. } => 0,
            Held::Released { length, .. } => u64::from(length),
        };
        Bytes(self.late.values().map(of).sum())
    }

    /// Nobody needs what a message brought.
    pub(crate) fn release_stray(&mut self, message: &Message) {
        if let Some(payload) = message.payload() {
            self.release(payload.id);
        }
    }

    /// Answers a client with what its read of this node's store came to.
    pub(crate) fn answer_read(&mut self, request: RequestId, outcome: StoreOutcome) {
        let answer = match outcome {
            StoreOutcome::Read { payload, .. } => Answer::Read(payload),
            StoreOutcome::Failed(fault) | StoreOutcome::CopyFailed(fault) => {
                Answer::Denied(Denial::Store(fault))
            }
            other => panic!("a read ended as {other:?}"),
        };
        self.reply(request, answer);
    }

    /// What a client asked of a copy ended; what it wrote is needed no more.
    pub(crate) fn copy_ended(
        &mut self,
        (request, written): (RequestId, Option<PayloadId>),
        outcome: StoreOutcome,
    ) {
        written.into_iter().for_each(|payload| self.release(payload));
        match outcome {
            StoreOutcome::Done => self.reply(request, Answer::Branch),
            outcome => self.answer_read(request, outcome),
        }
    }

    /// Refuses what a client asked of a copy.
    pub(crate) fn deny_copy(&mut self, io: &CopyIo, denial: Denial) {
        if let Some(payload) = io.op.payload() {
            self.release(payload.id);
        }
        self.reply(RequestId(io.name), Answer::Denied(denial));
    }

    /// Nobody needs what an operation brought.
    pub(crate) fn let_go(&mut self, outcome: &StoreOutcome) {
        match outcome {
            StoreOutcome::Read { payload, .. } => self.release(payload.id),
            StoreOutcome::Differing(runs) => {
                runs.iter().filter_map(|run| run.payload).for_each(|p| self.release(p.id));
            }
            _ => {}
        }
    }

    /// Refuses a request to a node that serves nobody.
    pub(crate) fn deny_not_primary(&mut self, request: Request) {
        if let Operation::Write { payload, .. } = request.operation {
            self.release(payload.id);
        }
        self.reply(request.id, Answer::Denied(Denial::NotPrimary));
    }

    pub(crate) fn reply(&mut self, request: RequestId, answer: Answer) {
        self.counters.answered += 1;
        self.push(Effect::Reply { request, answer });
    }

    pub(crate) fn info(&mut self, text: String) {
        self.push(Effect::Note(Note { loudness: Loudness::Info, text }));
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.push(Effect::Note(Note { loudness: Loudness::Warning, text }));
    }

    /// A command has come to its end.
    pub(crate) fn done(&mut self, id: CommandId, result: Result<String, Refusal>) {
        self.push(Effect::CommandDone { id, result: result.map(Done::from) });
    }

    /// Refuses a command that needs a peer, if the group has none. Returns whether it did.
    pub(crate) fn refuses_without_peer(&mut self, id: CommandId, command: Command) -> bool {
        let refuses = command.needs_peer() && self.config.peer_name().is_none();
        if refuses {
            self.done(id, Err(Refusal::no_peer(&self.config.group)));
        }
        refuses
    }

    /// The metadata could not be written, so a command is refused.
    pub(crate) fn refuse_command(&mut self, command: Option<CommandId>, text: String) {
        let Refusal { code, hint, .. } = self.metadata_refusal();
        if let Some(id) = command {
            self.done(id, Err(Refusal::new(code, text, hint)));
        }
    }
}
