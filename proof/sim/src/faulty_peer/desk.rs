// SPDX-License-Identifier: Apache-2.0
//! One engine with everything it asks for, done in any order; and what is judged of what it asks.

use super::flood::{QUESTIONS_MAX, READ_AHEAD};
use crate::promise::{Promise, Violation, hold};
use crate::scenario::pick;
use core::time::Duration;
use helio_engine::{
    Answer, Config, Durable, Effect, Engine, Event, HookQuestion, Keep, OnError, PoolOp,
    PoolOutcome, QUEUE_ITEMS_SNDR, QueueConfig, ReadAs, Run, SafeCopy, Stack, StoreFault, StoreOp,
    StoreOutcome, WhenFull, digest_piece,
};
use helio_format::before::CopyNumber;
use helio_format::copying::Copying;
use helio_format::message::{Hello, Message, Start};
use helio_format::reading::Reading;
use helio_format::superblock::Superblock;
use helio_ledger::BeforeFound;
use helio_netmodel::Dice;
use helio_snapshot::Snapshot;
use helio_units::{
    Bytes, Extent, IoId, Mode, Moment, Payload, PayloadId, Sequence, State, VolumeIndex,
};
use std::collections::{BTreeMap, VecDeque};

/// What a follower may hold of its peer's payload: its bound, and the item that passed it.
const RECEIVED_MAX: u64 = (64 << 20) + (32 << 20);

/// What the engine said that the peer's next words depend on.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) hello: Option<Hello>,
    /// The last stream it began, and the last item of it.
    pub(super) start: Option<Start>,
    pub(super) sent: Sequence,
    pub(super) asked: VecDeque<Copying>,
    pub(super) reads: VecDeque<Reading>,
}

/// See the module's words.
pub(super) struct Desk {
    engine: Engine,
    config: Config,
    now: Moment,
    ios: Vec<(IoId, StoreOp, ReadAs)>,
    saves: u64,
    keeps: VecDeque<Keep>,
    pool_ops: VecDeque<PoolOp>,
    hooks: VecDeque<HookQuestion>,
    sequence: u64,
    /// Payloads by name: bytes, and whether the peer sent them.
    pool: BTreeMap<u64, (u32, bool)>,
    next_payload: u64,
    received: u64,
    /// Items that the engine may hold of its peer before it pauses.
    bound: usize,
    /// Questions of the peer that are open: about digests, and for reads.
    open: [usize; 2],
    connected: bool,
    paused: bool,
    pub(super) said: Said,
    /// It ended the connection in the last turn.
    pub(super) hung_up: bool,
    /// Requests put to it, and answered.
    pub(super) asked: u64,
    answered: u64,
    stopped: bool,
}

impl Desk {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let volumes = vec![Bytes::kib(256 + 64 * dice.below(8)), Bytes::kib(128)];
        let config = config(volumes, dice);
        let sizes = config.volumes.iter().map(|v| v.0).collect();
        let mut superblock = Superblock::new("db", "paris", sizes);
        superblock.granularity = config.granularity.0 as u32;
        let durable = Durable {
            sequence: 1,
            layers: Stack::new(vec![Box::new(Snapshot::new(
                &config.volumes,
                &BeforeFound::default(),
                CopyNumber(0),
                None,
            ))]),
            ..Durable::new(superblock)
        };
        let mut engine = Engine::new(config.clone(), durable, dice.next_u64(), 1, Moment::ZERO);
        let bound = pick(dice, &[4, 16, 64]);
        engine.bound_received(bound);
        Self {
            engine,
            config,
            now: Moment::ZERO,
            ios: Vec::new(),
            saves: 0,
            keeps: VecDeque::new(),
            pool_ops: VecDeque::new(),
            hooks: VecDeque::new(),
            sequence: 1,
            pool: BTreeMap::new(),
            next_payload: 0,
            received: 0,
            bound,
            open: [0; 2],
            connected: false,
            paused: false,
            said: Said::default(),
            hung_up: false,
            asked: 0,
            answered: 0,
            stopped: false,
        }
    }

    pub(super) fn sizes(&self) -> &[Bytes] {
        &self.config.volumes
    }

    pub(super) fn granularity(&self) -> u32 {
        self.config.granularity.0 as u32
    }

    pub(super) const fn bound(&self) -> usize {
        self.bound
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.connected
    }

    /// Nothing is read from the peer meanwhile.
    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether a stream of its own flows: what is acknowledged of it counts.
    pub(super) fn streams(&self) -> bool {
        let flows = [State::Syncing, State::CatchingUp, State::Replicating];
        self.engine.view().holds_line() && flows.contains(&self.engine.view().state())
    }

    /// For the report of a violation.
    pub(super) fn describe(&self) -> String {
        let status = self.engine.view().status(self.now);
        let (standing, cursors) = (self.engine.view().standing(), status.cursors);
        let hooks = self.hooks.len();
        let open = (self.ios.len(), self.keeps.len(), self.saves, self.pool_ops.len(), hooks);
        format!("{standing}, {}, {cursors:?}, under way {open:?}", status.state)
    }

    /// Whether it holds a line itself.
    pub(super) fn leads(&self) -> bool {
        self.engine.view().holds_line()
    }

    /// Payloads that the peer sent and that were not given back. What a failed store stopped is held until the restart.
    pub(super) fn leftovers(&self) -> usize {
        let status = self.engine.view().status(self.now);
        if status.fault.is_some() {
            return 0;
        }
        self.pool.values().filter(|(_, theirs)| *theirs).count()
    }

    pub(super) fn payload(&mut self, length: u32, theirs: bool) -> Payload {
        self.next_payload += 1;
        self.pool.insert(self.next_payload, (length, theirs));
        if theirs {
            self.received += u64::from(length);
        }
        Payload { id: PayloadId(self.next_payload), length }
    }

    pub(super) fn connect(&mut self) -> Result<(), Violation> {
        (self.connected, self.paused, self.said) = (true, false, Said::default());
        self.open = [0; 2];
        self.tell(Event::Connected)
    }

    pub(super) fn disconnect(&mut self) -> Result<(), Violation> {
        if !std::mem::replace(&mut self.connected, false) {
            return Ok(());
        }
        self.paused = false;
        self.tell(Event::Disconnected { why: String::from("cut") })
    }

    /// The peer says something, through its bytes. Returns whether it can be said at all.
    pub(super) fn hear(&mut self, message: &Message) -> Result<bool, Violation> {
        let mut body = Vec::new();
        message.encode(&mut body);
        let length = message.payload_length();
        let Ok(mut read) = Message::decode(message.code(), &body, length) else {
            return Ok(false);
        };
        if read.payload().is_some() {
            let payload = self.payload(length, true);
            read.name_payload(payload.id);
        }
        let question = [
            matches!(read, Message::Copying(Copying::DigestsWanted { .. })),
            matches!(read, Message::Reading(Reading::Wanted { .. })),
        ];
        for (open, asked) in self.open.iter_mut().zip(question) {
            *open += usize::from(asked);
        }
        self.tell(Event::Message(read))?;
        let most = self.open[0].max(self.open[1]);
        hold(!self.connected || most <= QUESTIONS_MAX, Promise::Bounded, || {
            format!("{most} questions of a peer are open")
        })?;
        Ok(true)
    }

    /// Tells the engine one thing, lets it settle, and takes down what it asks for.
    pub(super) fn tell(&mut self, event: Event) -> Result<(), Violation> {
        if self.stopped {
            return Ok(());
        }
        self.hung_up = false;
        self.now = self.now + Duration::from_micros(200);
        let mut effects = Vec::new();
        let heard = matches!(event, Event::Message(_));
        // A hello that the table refuses is no impossible one: of a peer that does not serve, it ends the wait behind a pause.
        let checks = self.engine.view().awaits_check().is_some()
            && matches!(&event, Event::Message(Message::Hello(hello)) if !hello.serving);
        self.engine.handle(self.now, event, &mut effects);
        // An answer that such words bring about comes before anything else does.
        let hangs_up = effects.iter().any(|effect| matches!(effect, Effect::Hangup { .. }));
        let first = effects.iter().find(|effect| {
            matches!(effect, Effect::Hangup { .. } | Effect::Reply { answer: Answer::Done(_), .. })
        });
        let early = heard && hangs_up && matches!(first, Some(Effect::Reply { .. }));
        let refuses =
            effects.iter().any(|effect| matches!(effect, Effect::Hangup { refused: true, .. }));
        let checked = checks && refuses && self.engine.view().awaits_check().is_none();
        hold(!early || checked, Promise::ChecksPeer, || {
            String::from("a client is answered by words for which the connection is ended")
        })?;
        self.engine.settle(self.now, &mut effects);
        for effect in effects {
            self.take_down(effect)?;
        }
        hold(self.received <= RECEIVED_MAX, Promise::Bounded, || {
            format!("{} of a peer's payload are held", Bytes(self.received))
        })?;
        let holds = self.engine.view().items_received();
        hold(holds <= self.bound + READ_AHEAD, Promise::Bounded, || {
            format!("{holds} items of a peer are held, of {} at most", self.bound)
        })
    }

    fn take_down(&mut self, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Store { io, leg, op, read_as } => {
                self.judge(leg.volume, op, &read_as)?;
                self.ios.push((io, op, read_as));
            }
            Effect::Look { io, extent, payload, read_as, .. } => {
                self.release(payload.id)?;
                self.ios.push((io, StoreOp::Read { extent }, read_as));
            }
            Effect::SaveSuperblock(_) => self.saves += 1,
            Effect::Keep(keep) => self.keeps.push_back(keep),
            Effect::Pool(op) => self.pool_ops.push_back(op),
            Effect::Record(_) | Effect::Compare { .. } => {
                panic!("no layer of this desk keeps several members")
            }
            Effect::AskHook(question) => self.hooks.push_back(question),
            Effect::Send(message) => {
                hold(self.connected, Promise::ChecksPeer, || {
                    format!("{message:?} is said where nobody is connected")
                })?;
                self.note(message);
            }
            Effect::Hangup { why, .. } => {
                hold(!why.is_empty(), Promise::ChecksPeer, || String::from("no reason is named"))?;
                (self.connected, self.paused, self.hung_up) = (false, false, true);
            }
            Effect::PauseReceiving(pause) => self.paused = pause,
            Effect::Release(id) => self.release(id)?,
            Effect::Reply { answer, .. } => {
                self.answered += 1;
                if let Answer::Read(payload) = answer {
                    self.release(payload.id)?;
                }
                hold(self.answered <= self.asked, Promise::AnsweredOnce, || {
                    format!("{} answers to {} requests", self.answered, self.asked)
                })?;
            }
            Effect::Stopped => self.stopped = true,
            Effect::DismissClients | Effect::CommandDone { .. } | Effect::Note(_) => {}
        }
        Ok(())
    }

    fn release(&mut self, id: PayloadId) -> Result<(), Violation> {
        match self.pool.remove(&id.0) {
            Some((length, true)) => self.received -= u64::from(length),
            Some(_) => {}
            None => {
                let detail = format!("payload {} is given back twice", id.0);
                return Err(Violation::new(Promise::Bounded, detail));
            }
        }
        Ok(())
    }

    /// Whether the store can be asked that.
    fn judge(&self, volume: VolumeIndex, op: StoreOp, read_as: &ReadAs) -> Result<(), Violation> {
        let size = self.config.volumes.get(usize::from(volume.0)).map_or(0, |size| size.0);
        let extent = match op {
            StoreOp::Read { extent }
            | StoreOp::Write { extent, .. }
            | StoreOp::Zero { extent, .. }
            | StoreOp::Discard { extent, .. }
            | StoreOp::Map { extent } => extent,
            StoreOp::Flush => Extent::new(0, 512),
        };
        let payload = match (op, read_as) {
            (StoreOp::Write { payload, .. }, _) => Some(payload),
            (StoreOp::Read { .. }, ReadAs::Unequal { payload }) => Some(*payload),
            _ => None,
        };
        let whole = extent.offset.is_multiple_of(512) && extent.length.is_multiple_of(512);
        let fits = extent.length > 0 && extent.end() <= size && whole;
        let there = payload.is_none_or(|payload| self.pool.contains_key(&payload.id.0));
        hold(fits && there, Promise::Bounded, || {
            format!("the store is asked for {op:?} of volume {}", volume.0)
        })
    }

    /// Remembers what the peer's words depend on.
    fn note(&mut self, message: Message) {
        let answered = match &message {
            Message::Copying(Copying::Digests { .. }) => Some(0),
            Message::Reading(Reading::Told { .. }) => Some(1),
            _ => None,
        };
        if let Some(kind) = answered {
            self.open[kind] = self.open[kind].saturating_sub(1);
        }
        match message {
            Message::Hello(hello) => self.said.hello = Some(hello),
            Message::Start(start) => {
                self.said.sent = Sequence(start.from.0 - 1);
                self.said.start = Some(start);
            }
            Message::Item(item) => self.said.sent = item.sequence,
            Message::Copying(
                talk @ (Copying::DigestsWanted { .. }
                | Copying::EmptyWanted { .. }
                | Copying::MarksWanted),
            ) => self.said.asked.push_back(talk),
            Message::Reading(talk @ Reading::Wanted { .. }) => self.said.reads.push_back(talk),
            _ => {}
        }
    }

    /// One thing that was asked for is done.
    pub(super) fn do_one(&mut self, dice: &mut Dice) -> Result<(), Violation> {
        self.sequence += 1;
        let sequence = self.sequence;
        if self.saves > 0 && dice.chance(1, 2) {
            self.saves -= 1;
            return self.tell(Event::SuperblockSaved { ok: true, sequence });
        }
        if let Some(keep) = self.keeps.pop_front() {
            let kept = keep.kept();
            return self.tell(Event::Kept { kept, ok: true, sequence });
        }
        if let Some(op) = self.pool_ops.pop_front() {
            return self.tell(Event::PoolDone(match op {
                PoolOp::Load { .. } => PoolOutcome::Loaded(Vec::new()),
                _ => PoolOutcome::Done,
            }));
        }
        if let Some(question) = self.hooks.pop_front() {
            let refused = dice.chance(1, 4).then(|| String::from("not now"));
            return self.tell(Event::HookAnswered { question, refused });
        }
        if self.ios.is_empty() {
            return Ok(());
        }
        let at = dice.below(self.ios.len() as u64) as usize;
        let (io, op, read_as) = self.ios.swap_remove(at);
        let outcome = self.outcome(op, &read_as, dice);
        self.tell(Event::StoreDone { io, outcome })
    }

    fn outcome(&mut self, op: StoreOp, read_as: &ReadAs, dice: &mut Dice) -> StoreOutcome {
        if dice.chance(1, 400) {
            return StoreOutcome::Failed(StoreFault::Io);
        }
        match op {
            StoreOp::Read { extent } => self.read(extent, read_as, dice),
            StoreOp::Map { .. } => StoreOutcome::Empty(dice.chance(1, 2)),
            StoreOp::Write { .. }
            | StoreOp::Zero { .. }
            | StoreOp::Discard { .. }
            | StoreOp::Flush => StoreOutcome::Done,
        }
    }

    fn read(&mut self, extent: Extent, read_as: &ReadAs, dice: &mut Dice) -> StoreOutcome {
        let of = |coarse| extent.length.div_ceil(digest_piece(coarse).0) as usize;
        match *read_as {
            ReadAs::Bytes | ReadAs::BytesOrZero => StoreOutcome::Read {
                payload: self.payload(extent.length as u32, false),
                zero: dice.chance(1, 2),
            },
            ReadAs::DigestPayload => StoreOutcome::Read {
                payload: self.payload(16 * of(false) as u32, false),
                zero: false,
            },
            ReadAs::Digests { coarse } => StoreOutcome::Digests(vec![[1; 16]; of(coarse)]),
            ReadAs::Runs { .. } | ReadAs::Differing { .. } => {
                let length = extent.length as u32;
                let payload = dice.chance(1, 2).then(|| self.payload(length, false));
                StoreOutcome::Differing(vec![Run { extent, payload }])
            }
            ReadAs::Unequal { .. } => {
                let some = Extent::new(extent.offset, extent.length.min(4096));
                StoreOutcome::Verified(if dice.chance(1, 2) { vec![some] } else { Vec::new() })
            }
        }
    }

    pub(super) fn let_time_pass(&mut self, dice: &mut Dice) -> Result<(), Violation> {
        self.now = self.now + Duration::from_millis(1 + dice.below(1500));
        self.tell(Event::Tick)
    }

    /// A setting is changed on this node alone.
    pub(super) fn reconfigure(&mut self, dice: &mut Dice) -> Result<(), Violation> {
        let volumes = self.config.volumes.clone();
        let granularity = self.config.granularity;
        self.config = Config { granularity, ..config(volumes, dice) };
        self.tell(Event::Reconfigure { config: self.config.clone() })
    }

    /// The peer is gone for good, and everything asked for is done.
    pub(super) fn end(&mut self, dice: &mut Dice) -> Result<(), Violation> {
        self.disconnect()?;
        for _ in 0..20_000 {
            let idle = self.ios.is_empty() && self.keeps.is_empty();
            if idle && self.saves == 0 && self.hooks.is_empty() && self.pool_ops.is_empty() {
                break;
            }
            self.do_one(dice)?;
        }
        self.let_time_pass(dice)
    }
}

fn config(volumes: Vec<Bytes>, dice: &mut Dice) -> Config {
    let policies = [WhenFull::Block, WhenFull::Log, WhenFull::Fail];
    let mut policy = || policies[dice.below(3) as usize];
    let (connected, disconnected) = (policy(), policy());
    Config {
        mode: Mode::ALL[dice.below(3) as usize],
        queue: QueueConfig {
            memory: dice.chance(1, 2).then_some(Bytes::kib(64)),
            items: QUEUE_ITEMS_SNDR,
            connected,
            disconnected,
            ..QueueConfig::default()
        },
        peer_timeout: Duration::from_millis(1500 + dice.below(4000)),
        flush_limit: Duration::from_secs(5),
        autosync: dice.chance(3, 4),
        safe_copy: if dice.chance(1, 2) { SafeCopy::On { bound: None } } else { SafeCopy::Off },
        on_error: if dice.chance(1, 2) { OnError::ServeFromPeer } else { OnError::Pass },
        hook_before_sync: dice.chance(1, 4),
        hold: if dice.chance(1, 4) { Duration::from_secs(2) } else { Duration::ZERO },
        ..Config::new("db", "paris", "lyon", volumes)
    }
}
