// SPDX-License-Identifier: Apache-2.0
//! One group on a shard: its engine and everything that performs its effects.

mod costs;
mod disks;
mod epochs;
mod keep;
mod set;
mod store;

use crate::config::{Running, Setting, Timeouts};
use crate::names::Unresolved;
use crate::shard::Outbox;
use crate::shard::before::{Before, Means};
use crate::shard::clock::Clock;
use crate::shard::guard::Guard;
use crate::shard::isolate::Health;
use crate::shard::link::Link;
use crate::shard::log::GroupLog;
use crate::shard::metadata::Metadata;
use crate::shard::payloads::Payloads;
use crate::shard::plan::{GroupPlan, Settings, VolumePlan};
use crate::shard::release::Releasing;
use crate::shard::route::Route;
use crate::trace::{Tap, Why};
use crate::verified::Record;
use costs::Costs;
pub(crate) use costs::ReadCost;
use epochs::Stamps;
use helio_api::DrillStatus;
use helio_driver::{Driver, Op, Outcome, Pool, Shared, Socket};
use helio_engine::{
    Answer, Command, CommandId, CopyIo, Done, Durable, Effect, Engine, Event, Fault, Keep, Leg,
    Note, PoolOutcome, QUEUE_BYTES_MOST, QueueConfig, Refusal, Request, SetOp, Stack,
};
use helio_format::message::Message;
use helio_format::trace::Volume;
use helio_ledger::{BeforeFound, Change, MapOwner};
use helio_plant::{Plant, planted};
use helio_shadow::Shadow;
use helio_snapshot::Snapshot;
use helio_units::{Bytes, Moment, RequestId, WallTime};
pub(crate) use set::many;
use set::{Merges, Recorded};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use store::{Awaited, Io};
pub(crate) use store::{fault_of, read_buffer};
use tokio::sync::oneshot;

/// How a command's end is told.
pub(crate) type CommandReply = oneshot::Sender<Result<Done, Refusal>>;

/// What a group wants of the shard beyond its own means.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// Answer a client.
    Answer { request: RequestId, answer: Answer, data: Option<Shared> },
    /// The connection was given up; its last words.
    Part { socket: Socket, words: Option<Op> },
    /// Let the group's clients go.
    Dismiss,
    /// The group stopped cleanly.
    Stopped,
}

/// The dirty regions of that member are to be copied.
const fn add((id, leg): (CommandId, Leg)) -> Event {
    Event::Command { id, command: Command::Set(SetOp::Add { leg, by_bitmap: false }) }
}

/// With what stands between the engine of a group and its disks.
fn composed(durable: Durable, sizes: &[Bytes], copies: &BeforeFound, shadow: Shadow) -> Durable {
    let over = durable.superblock.copies_over(copies.last);
    let snapshot = Snapshot::new(sizes, copies, over, durable.superblock.rollback);
    let layers = Stack::new(vec![Box::new(snapshot), Box::new(shadow)]);
    Durable { layers, ..durable }
}

/// The names of volumes.
fn names(volumes: &[VolumePlan]) -> Vec<&str> {
    volumes.iter().map(|volume| volume.name.as_str()).collect()
}

/// By what volumes are used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum User {
    /// NBD clients.
    Clients,
    /// Attached devices.
    Devices,
}

/// One group.
pub(crate) struct Group {
    index: usize,
    pub(crate) engine: Engine,
    pub(crate) volumes: Vec<VolumePlan>,
    pub(crate) link: Link,
    pub(crate) payloads: Payloads,
    pub(crate) name: String,
    pub(crate) peer: String,
    pub(crate) config: helio_engine::Config,
    pub(crate) settings: Settings,
    /// What reads of members cost.
    costs: Costs,
    pub(crate) metadata: Metadata,
    pub(crate) before: Before,
    /// The last drills on this node, if there was one.
    pub(crate) drills: Option<DrillStatus>,
    /// The engine's count of what is new of verifies, when it was looked at last.
    verify_revision: u64,
    /// Volumes that clients use, and those that devices do: bit n volume n.
    used: [u64; 2],
    /// Who uses them does so alone.
    alone: bool,
    outbox: Outbox,
    log: GroupLog,
    /// What is durable of members, and what is to be.
    recorded: Recorded,
    /// That of the epochs of members.
    stamps: Stamps,
    /// Commands that add members, and which.
    adding: Vec<(CommandId, Leg)>,
    pub(crate) merges: Merges,
    /// Indexed by the engine's name for it.
    ios: Vec<Option<Io>>,
    pub(crate) commands: BTreeMap<CommandId, CommandReply>,
    next_command: u64,
    effects: Vec<Effect>,
    /// Connections given up outside of effects, with TLS's last words.
    parting: Vec<(Socket, Option<Op>)>,
    pub(crate) stopped: bool,
    /// How long a stop waits for what is under way on members and metadata files.
    finishing: Awaited,
    pub(crate) releasing: Releasing,
    pub(crate) health: Health,
    /// Where requests are recorded, while they are.
    pub(crate) tap: Option<Tap>,
}

pub(super) fn metadata_fault(Fault { what, hint }: Fault) -> Event {
    Event::MetadataFault { what, hint }
}

impl Group {
    pub(crate) fn new(
        index: usize,
        plan: GroupPlan,
        dice: (u64, u64),
        (now, shows): (Moment, WallTime),
        received: Pool,
    ) -> Self {
        let GroupPlan {
            engine: config,
            volumes,
            peer_address,
            dialler,
            tuning,
            guard,
            mut metadata,
            durable,
            shadow,
            new_members,
            before: (before, copies),
            sets,
            settings,
            results: (verified, drills),
            outbox,
        } = plan;
        let (route, mut effects) = (Route::new(peer_address, outbox.lookups.clone()), Vec::new());
        let durable = composed(durable, &config.volumes, &copies, shadow);
        let mut engine = Engine::new(config.clone(), durable, dice.0, dice.1, now);
        let remembered = Event::VerifyRemembered(verified.memory(&names(&volumes)));
        let found = (!copies.copies.is_empty()).then(|| Event::BeforeFound(Box::new(copies)));
        let adding: Vec<_> = (1..).map(CommandId).zip(new_members).collect();
        let news = metadata.news((&config.group, &config.node)).map(metadata_fault);
        let told = [Event::Calendar(shows), remembered].into_iter().chain(found);
        let told = told.chain(adding.iter().copied().map(add)).chain(news);
        told.for_each(|event| engine.handle(now, event, &mut effects));
        Self {
            index,
            drills,
            verify_revision: engine.view().verify_revision(),
            used: [0; 2],
            alone: false,
            engine,
            outbox,
            log: GroupLog::new(&config.group, config.peer_name()),
            volumes,
            link: Link::new(index, route, dialler, (tuning, guard), received),
            payloads: Payloads::default(),
            name: config.group.clone(),
            peer: config.peer.clone(),
            config,
            settings,
            costs: Costs::new(sets),
            recorded: Recorded::of(metadata.ledger()),
            stamps: Stamps::default(),
            metadata,
            before,
            ios: Vec::new(),
            commands: BTreeMap::new(),
            next_command: adding.len() as u64,
            adding,
            merges: Merges::default(),
            effects,
            parting: Vec::new(),
            stopped: false,
            finishing: Awaited::default(),
            releasing: Releasing::default(),
            health: Health::default(),
            tap: None,
        }
    }

    /// Tells the engine.
    pub(crate) fn tell(&mut self, now: Moment, event: Event) {
        self.engine.handle(now, event, &mut self.effects);
    }

    /// A client uses a point-in-time copy. The name is the request's number.
    pub(crate) fn begin_on_copy(&mut self, now: Moment, io: CopyIo) {
        self.guarded(|group| group.tell(now, Event::CopyIo(io)));
    }

    /// Tells it of a client's request.
    pub(crate) fn request(&mut self, now: Moment, request: Request) {
        self.guarded(|group| {
            if let Some(tap) = &mut group.tap
                && !tap.take(now, request.volume, request.operation)
            {
                group.tap = None;
            }
            group.tell(now, Event::Request(request));
        });
    }

    /// What was to be done is not done any more.
    pub(crate) fn discard_effects(&mut self) {
        self.effects.clear();
    }

    /// Clients, or devices, use these volumes and no others from now on.
    pub(crate) fn used_by(&mut self, user: User, volumes: u64, now: Moment) {
        if std::mem::replace(&mut self.used[user as usize], volumes) != volumes {
            let volumes = self.used[0] | self.used[1];
            self.guarded(|group| group.tell(now, Event::Used { volumes }));
        }
    }

    /// Whether clients use the volumes alone from now on.
    pub(crate) const fn used_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    /// Refuses who would use a volume, alone or not, beside others who exclude that.
    pub(crate) fn admits(&self, alone: bool) -> Result<(), String> {
        let group = &self.name;
        match (self.alone, alone) {
            (true, false) => Err(format!(
                "a client uses group {group} alone, as a restore from images does; try again when it has ended"
            )),
            (false, true) if self.used != [0; 2] => Err(format!(
                "group {group} is in use, and would be used alone; `helio status {group} -v` shows by whom"
            )),
            (true, true) | (false, _) => Ok(()),
        }
    }

    /// Records requests from now on; returns what they name by index.
    pub(crate) fn record(&mut self, mut tap: Tap, now: Moment) -> Vec<Volume> {
        tap.begin(now);
        self.tap = Some(tap);
        let volume = |v: &VolumePlan| Volume { name: v.name.clone(), size: v.size };
        self.volumes.iter().map(volume).collect()
    }

    /// Ends that recording, where it runs still.
    pub(crate) fn record_no_more(&mut self, id: u64, why: Why, now: Moment) {
        if let Some(tap) = self.tap.take_if(|tap| tap.is(id)) {
            tap.end(now, why);
        }
    }

    /// Gives an operator's command to the engine.
    pub(crate) fn command(&mut self, now: Moment, command: Command, reply: CommandReply) {
        self.next_command += 1;
        let id = CommandId(self.next_command);
        self.commands.insert(id, reply);
        self.tell(now, Event::Command { id, command });
    }

    /// Asks something of the members of a volume.
    pub(crate) fn ask_set(&mut self, now: Moment, op: SetOp, reply: CommandReply) {
        self.command(now, Command::Set(op), reply);
        let id = CommandId(self.next_command);
        match op {
            SetOp::Add { leg, .. } => self.adding.push((id, leg)),
            SetOp::Merge(volume) => self.merges.asked(id, volume),
            SetOp::Remove { .. } => {}
        }
    }

    fn command_done(&mut self, id: CommandId, result: Result<Done, Refusal>) {
        let added = self.adding.iter().position(|(adding, _)| *adding == id);
        if let Some(place) = added {
            self.adding.swap_remove(place);
            // A disk that was refused is let go.
            self.close_unused();
        }
        if let Some(reply) = self.commands.remove(&id)
            && let Some((reply, result)) = self.merges.begun(id, reply, result)
        {
            // The asker may have gone; the command was carried out all the same.
            let _gone = reply.send(result);
        }
    }

    /// Changes a setting that may change while running.
    pub(crate) fn change(&mut self, now: Moment, setting: Setting) {
        // `helio mode` may have changed the mode since; only an applied mode changes it back.
        self.config.mode = self.engine.view().words().mode;
        match setting {
            Setting::Mode(mode) => self.config.mode = mode,
            Setting::Period(period) => self.config.period = period,
            Setting::Queue(queue, source) => {
                let automatic_most = self.config.queue.automatic_most;
                self.config.queue = QueueConfig { automatic_most, ..queue };
                self.settings.queue_source = source;
            }
            Setting::Timeouts(Timeouts { peer, flush_limit, member, member_return }) => {
                self.settings.member_return = member_return;
                (self.config.peer_timeout, self.config.flush_limit) = (peer, flush_limit);
                self.config.member_timeout = member;
                self.metadata.set_timeout(now, member);
                self.before.set_timeout(now, member);
            }
            Setting::Autosync(on) => self.config.autosync = on,
            Setting::Resync(resync) => self.config.resync = resync,
            Setting::SafeCopy(safe_copy) => self.config.safe_copy = safe_copy,
            Setting::Hold(hold) => self.config.hold = hold,
            Setting::Alerts(alerts) => {
                self.settings.alerts = alerts;
                return;
            }
            Setting::Sets(sets) => return self.set_sets(now, |running| running.take_over(sets)),
            Setting::ReadCost { volume, member, cost } => {
                return self.set_sets(now, |sets| sets.set_read_cost(&volume, member, cost));
            }
        }
        let config = self.config.clone();
        self.tell(now, Event::Reconfigure { config });
    }

    /// Another largest bound of an automatic queue counts from now on.
    pub(crate) fn set_automatic_most(&mut self, most: Bytes, now: Moment) {
        let queue = QueueConfig { automatic_most: most, ..self.config.queue };
        self.config.queue = queue;
        self.change(now, Setting::Queue(queue, self.settings.queue_source));
    }

    /// What runs now, of all that can change while it runs.
    pub(crate) fn running(&self) -> Running {
        Running {
            mode: self.engine.view().words().mode,
            period: self.config.period,
            // The largest automatic bound is no setting.
            queue: QueueConfig { automatic_most: QUEUE_BYTES_MOST, ..self.config.queue },
            queue_source: self.settings.queue_source,
            timeouts: Timeouts {
                peer: self.config.peer_timeout,
                flush_limit: self.config.flush_limit,
                member: self.config.member_timeout,
                member_return: self.settings.member_return,
            },
            autosync: self.config.autosync,
            resync: self.config.resync,
            safe_copy: self.config.safe_copy,
            hold: self.config.hold,
            alerts: self.settings.alerts,
            sets: self.costs.sets().clone(),
        }
    }

    /// Settles the engine and performs effects until there are none.
    pub(crate) fn settle(
        &mut self,
        clock: &Clock,
        pool: &Pool,
        driver: &mut dyn Driver,
        wanted: &mut Vec<Wanted>,
    ) {
        let parting = self.parting.drain(..);
        wanted.extend(parting.map(|(socket, words)| Wanted::Part { socket, words }));
        loop {
            // If the process paused since these replies were decided, they are withdrawn before the engine gets the new time ...
            let now = clock.now();
            self.take_back(now, wanted);
            self.engine.settle(now, &mut self.effects);
            if self.effects.is_empty() {
                // ... and checked once more directly before they are submitted.
                if self.take_back(clock.now(), wanted) {
                    continue;
                }
                break;
            }
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                self.perform(effect, clock, pool, driver, wanted);
            }
            // What performing told the engine comes first; the vector's memory is kept either way.
            if self.effects.is_empty() {
                self.effects = effects;
            }
        }
        self.answer_merges();
        self.link.flush(driver);
    }

    /// Frees payloads after the engine stopped: those that it releases, and all of them once no operation on a member is under way. Other
    /// effects are not performed then.
    pub(super) fn free_late(&mut self) {
        if self.has_no_operation() {
            self.discard_effects();
            self.payloads = Payloads::default();
        }
        for effect in self.effects.drain(..) {
            if let Effect::Release(payload) = effect {
                self.payloads.release(payload);
            }
        }
    }

    /// Gives acknowledgements back to the engine if this process was paused since they were decided: it holds them until
    /// it has checked that the peer did not take over. Returns whether it was.
    fn take_back(&mut self, now: Moment, wanted: &mut Vec<Wanted>) -> bool {
        if !self.engine.view().was_paused(now) {
            return false;
        }
        for one in std::mem::take(wanted) {
            match one {
                Wanted::Answer { request, answer: answer @ Answer::Done(_), .. } => {
                    self.effects.push(Effect::Reply { request, answer });
                }
                other => wanted.push(other),
            }
        }
        true
    }

    fn perform(
        &mut self,
        effect: Effect,
        clock: &Clock,
        pool: &Pool,
        driver: &mut dyn Driver,
        wanted: &mut Vec<Wanted>,
    ) {
        match effect {
            Effect::Reply { request, answer } => {
                let data = match answer {
                    Answer::Read(payload) => {
                        let shared = Shared::clone(self.payloads.get(payload.id));
                        self.payloads.release(payload.id);
                        Some(shared)
                    }
                    Answer::Done(_) | Answer::Branch | Answer::Denied(_) => None,
                };
                wanted.push(Wanted::Answer { request, answer, data });
            }
            Effect::Store { io, leg, op, read_as } => {
                self.store(io, Io { leg, op, read_as }, clock, (pool, driver));
            }
            Effect::Look { io, extent, payload, read_as, .. } => {
                let outcome = self.look(extent, payload, read_as, pool);
                self.tell(clock.now(), Event::StoreDone { io, outcome });
            }
            Effect::Send(message) => self.send(&message),
            Effect::Hangup { why, refused } => {
                self.log.connection_ended(&why, clock.now());
                if let Some((socket, words)) =
                    self.link.part(refused, self.engine.view().is_unsteady(), clock.now())
                {
                    wanted.push(Wanted::Part { socket, words });
                }
            }
            Effect::SaveSuperblock(superblock) => {
                self.keep(Change::Superblock(Box::new(superblock)), clock.now(), driver);
            }
            Effect::Keep(Keep::Hot { ticket, add, remove }) => {
                self.keep(Change::Hot { ticket, add, remove }, clock.now(), driver);
            }
            Effect::Keep(Keep::Marks { page, bits }) => {
                let owner = MapOwner::Peer(0);
                self.keep(Change::Marks { owner, page, bits }, clock.now(), driver);
            }
            Effect::DismissClients => wanted.push(Wanted::Dismiss),
            Effect::Pool(op) => {
                let ended = self.with_pool(clock.now(), (pool, driver), |before, means| {
                    before.begin(op, means)
                });
                self.pool_ended(ended, clock.now());
            }
            Effect::Record(record) => self.record_layer(record, clock.now(), driver),
            Effect::Compare { name, pair } => {
                let [one, other] = pair.map(|id| self.payloads.get(id).as_ref());
                let equal = one[..] == other[..];
                self.tell(clock.now(), Event::Compared { name, equal });
            }
            Effect::Release(payload) => self.payloads.release(payload),
            Effect::PauseReceiving(paused) => self.link.paused = paused,
            Effect::CommandDone { id, result } => {
                self.replaced((id, result.is_ok()), clock.now(), driver);
                self.command_done(id, result);
            }
            Effect::Note(note) => self.note(&note, clock.now()),
            Effect::AskHook(question) => _ = self.outbox.asks.send_replace(question),
            Effect::Stopped => self.has_stopped(clock.now(), driver, wanted),
        }
    }

    fn has_stopped(&mut self, now: Moment, driver: &mut dyn Driver, wanted: &mut Vec<Wanted>) {
        self.stopped = true;
        self.raise_last_epochs(now, driver);
        self.finishing = Awaited::until(now + self.config.member_timeout);
        wanted.push(Wanted::Stopped);
        // The engine ended the connection, if there was one; an attempt to connect may be under way.
        let parted = self.link.part(false, false, now);
        wanted.extend(parted.map(|(socket, words)| Wanted::Part { socket, words }));
    }

    fn note(&mut self, note: &Note, now: Moment) {
        let view = self.engine.view();
        let state = Some(view.state()).filter(|_| !view.is_unsteady());
        self.log.note(note, state, now);
    }

    fn send(&mut self, message: &Message) {
        let payload = message.payload().map(|p| self.payloads.get(p.id));
        self.link.queue(message, payload);
    }

    /// Whether it has stopped, both copies of every metadata page are equal, and a stop waits for no stamp.
    pub(crate) fn at_rest(&self) -> bool {
        let is_kept = self.metadata.is_idle() || planted(Plant::StopUnfinished);
        self.health != Health::Sound || self.stopped && is_kept && !self.stamps.are_awaited()
    }

    /// What verifies left is handed over to be kept, where there is something new.
    pub(crate) fn keep_verified(&mut self) {
        let revision = self.engine.view().verify_revision();
        if revision == std::mem::replace(&mut self.verify_revision, revision) {
            return;
        }
        let status = self.engine.view().verify_status();
        self.outbox.verified.send_replace(Record::of(&names(&self.volumes), &status));
    }

    /// An operation for the before-image file ended.
    pub(crate) fn before_done(
        &mut self,
        detail: u32,
        outcome: Outcome,
        now: Moment,
        io_with: (&Pool, &mut dyn Driver),
    ) {
        let ended =
            self.with_pool(now, io_with, |before, means| before.done(detail, outcome, means));
        self.pool_ended(ended, now);
    }

    /// Gives the before-image file up if it completes nothing.
    pub(crate) fn look_at_before(&mut self, now: Moment) {
        let ended = self.before.look(now);
        self.pool_ended(ended, now);
    }

    fn pool_ended(&mut self, ended: Option<PoolOutcome>, now: Moment) {
        if let Some(outcome) = ended {
            self.tell(now, Event::PoolDone(outcome));
        }
    }

    /// Has the before-image file do something, with what that takes.
    fn with_pool<T>(
        &mut self,
        now: Moment,
        (buffers, driver): (&Pool, &mut dyn Driver),
        act: impl FnOnce(&mut Before, &mut Means<'_>) -> T,
    ) -> T {
        let Self { index, before, payloads, .. } = self;
        act(before, &mut Means { group: *index, now, payloads, buffers, driver })
    }

    /// The peer's name was resolved, or why not.
    pub(crate) fn resolved(&mut self, found: Result<Vec<SocketAddr>, Unresolved>, now: Moment) {
        if let Some(began) = self.link.resolved(found, now) {
            self.tell(now, Event::DialFailed { began });
        }
    }

    /// Hears what arrived on the connection, message by message.
    pub(crate) fn hear(&mut self, now: Moment) {
        loop {
            match self.link.next() {
                Ok(Some(arrived)) => self.heard(now, arrived),
                Ok(None) => return,
                Err(error) => {
                    let error = error.to_string();
                    if self.link.is_news(&error) {
                        tracing::warn!(group = %self.name, peer = %self.peer, error, "the connection cannot be read");
                    }
                    self.lost(now, error);
                    return;
                }
            }
        }
    }

    /// One message with its payload, if it has one.
    pub(crate) fn heard(&mut self, now: Moment, arrived: helio_link::Arrived) {
        let helio_link::Arrived { mut message, payload } = arrived;
        if let Some(buffer) = payload {
            message.name_payload(self.payloads.insert(buffer).id);
        }
        if matches!(message, Message::Hello(_)) {
            self.link.met(self.engine.view().is_unsteady());
        }
        self.tell(now, Event::Message(message));
    }

    /// The connection is gone, or must go; nothing more is said on it.
    pub(crate) fn lost(&mut self, now: Moment, why: String) {
        // What was to be done on that connection means nothing on the next.
        self.effects.retain(|effect| {
            !matches!(effect, Effect::Send(_) | Effect::Hangup { .. } | Effect::PauseReceiving(_))
        });
        let unsteady = self.engine.view().is_unsteady();
        self.parting.extend(self.link.part(false, unsteady, now));
        self.tell(now, Event::Disconnected { why });
    }

    /// Trusts other keys from now on; a connection of one that is trusted no more ends.
    pub(crate) fn trust(&mut self, guard: Guard, now: Moment) {
        self.link.guard = guard;
        if self.link.is_up() && !self.link.is_admitted() {
            self.lost(now, String::from("the peer's key is no longer accepted"));
        }
    }

    /// Whether it connects to its peer; `stops`: the daemon does.
    pub(crate) fn dials(&self, stops: bool) -> bool {
        !stops || self.engine.view().stop_wants_peer()
    }

    /// When the group has something to do although nothing happens. With `dials`, it connects to its peer.
    pub(crate) fn deadline(&self, dials: bool) -> Moment {
        let files = self.metadata.deadline().min(self.before.deadline());
        match self.health {
            Health::Sound if self.stopped => {
                return files.min(self.stamps.deadline()).min(self.writes_deadline());
            }
            Health::Sound => {}
            _ => return Moment::NEVER,
        }
        let timeout = self.config.peer_timeout;
        let check = self.engine.view().awaits_check().map(|s| self.link.check_deadline(s, timeout));
        let news = self.engine.view().has_news_for_peer().filter(|s| dials && self.link.seeks(*s));
        let seek = if news.is_some() { Moment::ZERO } else { Moment::NEVER };
        let link = self.link.deadline(dials).min(check.unwrap_or(Moment::NEVER)).min(seek);
        self.engine.view().deadline().min(link).min(files)
    }
}
