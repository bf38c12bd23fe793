// SPDX-License-Identifier: Apache-2.0
//! The pair: what is due next, and who takes it.

use super::content::Differing;
use super::disk::DiskModel;
use super::figures::{Figures, Outcome, Sample};
use super::node::Node;
use super::socket::{LinkModel, Way};
use super::work::Work;
use crate::Side;
use core::fmt;
use core::time::Duration;
use helio_engine::{Command, CommandId, Config, Effect, Event, Status};
use helio_netmodel::{Dice, Outage, Profile};
use helio_units::{Extent, Items, Moment, Sequence, State, VolumeIndex};
use helio_workload::Request;
use std::collections::VecDeque;

/// The two must mirror each other within that long.
const BEGIN_WITHIN: Duration = Duration::from_secs(600);
/// Greeting takes a few round trips and the time of the records.
const GREETED_AFTER: Duration = Duration::from_secs(2);
/// How often the sockets' figures are told.
pub(super) const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// What a shard's work costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// A turn: waking, waiting, settling.
    pub turn: Duration,
    /// An event in it: a request, a message, the end of an operation.
    pub event: Duration,
    /// A KiB of payload copied through a socket.
    pub kib: Duration,
}

/// A pair to forecast with.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// What both engines are told; names are the pair's own.
    pub settings: Config,
    /// The link; its outages count from the beginning of a run.
    pub link: LinkModel,
    /// The primary's disk and its peer's.
    pub disks: [DiskModel; 2],
    /// What their work costs.
    pub processor: Processor,
    /// What a request and its answer cost between application and shard, together.
    pub client: Duration,
    /// Requests the application has under way at most; the next one waits for an answer.
    pub depth: u32,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// Which part of a workload is run, and what of it counts.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Requests, in the order of their moments.
    pub requests: &'a [Request],
    /// The moment of the workload at which it begins.
    pub begin: Moment,
    /// What was asked for before is not counted: a queue has to fill first.
    pub measured: Moment,
    /// The moment at which it ends.
    pub end: Moment,
    /// How long it may take behind that until everything is answered and the copies are level.
    pub patience: Duration,
    /// From one sample to the next.
    pub every: Duration,
}

/// The end of the last outage, and what had been accepted by then: the copies are level once the peer has it.
#[derive(Clone, Copy, Debug)]
struct Healing {
    at: Moment,
    upto: Option<Sequence>,
}

/// The two did not come to mirror each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The state the primary shows.
    pub state: State,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, reason } = self;
        let within = BEGIN_WITHIN.as_secs();
        write!(
            f,
            "the two nodes do not mirror each other within {within} s ({state}: {reason}); is the link too slow?"
        )
    }
}

impl core::error::Error for Stuck {}

/// Two nodes in virtual time that mirror each other.
#[derive(Debug)]
pub struct Pair {
    pub(super) config: PairConfig,
    pub(super) now: Moment,
    pub(super) nodes: [Node; 2],
    pub(super) ways: [Way; 2],
    /// The next attempt to connect, and how many failed.
    pub(super) dial: Moment,
    pub(super) failures: u32,
    /// The connection under way stands then.
    pub(super) stands: Moment,
    /// When a side hears that the other one hung up.
    pub(super) parted: [Moment; 2],
    pub(super) measure: Moment,
    /// When the run began, and at which moment of the workload.
    laid: [Moment; 2],
    /// When the link becomes another.
    turn: Moment,
    pub(super) differing: Differing,
    /// What the primary wrote and its peer has not, while order is kept.
    pub(super) owed: VecDeque<(VolumeIndex, Extent)>,
    /// Marks took the place of the queue.
    pub(super) order_lost: bool,
    /// Both disks are still empty.
    pub(super) young: bool,
    /// Payloads made; and how many of them are held.
    pub(super) payloads: u64,
    pub(super) held: i64,
    pub(super) effects: Vec<Effect>,
    pub(super) events: Vec<Event>,
    pub(super) scratch: Vec<u8>,
    pub(super) replies: Vec<(helio_units::RequestId, bool)>,
    pub(super) handled: u64,
}

impl Pair {
    /// A pair that mirrors: connected, promoted, both disks empty and equal.
    ///
    /// # Errors
    /// They do not come to that.
    pub fn new(config: PairConfig) -> Result<Self, Stuck> {
        let dice = Dice::new(config.seed);
        let nodes = Side::BOTH.map(|side| Node::new(side, &config, &dice));
        // Outages belong to runs.
        let whole = |profile: &Profile| Profile { outages: Vec::new(), ..profile.clone() };
        let (forth, back) = (whole(&config.link.forth), whole(&config.link.back));
        let transport = config.link.transport;
        let ways = [
            Way::new(&forth, &back, transport, dice.split("forth")),
            Way::new(&back, &forth, transport, dice.split("back")),
        ];
        let mut pair = Self {
            config,
            now: Moment::ZERO,
            nodes,
            ways,
            dial: Moment::ZERO,
            failures: 0,
            stands: Moment::NEVER,
            parted: [Moment::NEVER; 2],
            measure: Moment::NEVER,
            laid: [Moment::ZERO; 2],
            turn: Moment::NEVER,
            differing: Differing::default(),
            owed: VecDeque::new(),
            order_lost: true,
            young: true,
            payloads: 1 << 40,
            held: 0,
            effects: Vec::new(),
            events: Vec::new(),
            scratch: Vec::new(),
            replies: Vec::new(),
            handled: 0,
        };
        pair.begin()?;
        Ok(pair)
    }

    fn begin(&mut self) -> Result<(), Stuck> {
        let until = self.now + BEGIN_WITHIN;
        while !self.nodes.iter().all(|node| node.connected) {
            if !self.step(until) {
                return Err(self.stuck());
            }
        }
        // They greet each other before one of them leads.
        let greeted = self.now + GREETED_AFTER + self.round_trip() * 4;
        while self.step(greeted) {}
        let command =
            Event::Command { id: CommandId(1), command: Command::Promote { force: false } };
        self.nodes[0].tell(self.now, command);
        while !self.is_level() {
            if !self.step(until) {
                return Err(self.stuck());
            }
        }
        self.young = false;
        Ok(())
    }

    fn stuck(&self) -> Stuck {
        let Status { state, reason, .. } = self.nodes[0].engine.view().status(self.now);
        Stuck { state, reason }
    }

    /// The copies are level and order is kept.
    #[must_use]
    pub fn is_level(&self) -> bool {
        self.nodes[0].engine.view().state() == State::Replicating
    }

    /// Payloads that the engines hold: none once everything is durable on both nodes.
    #[must_use]
    pub fn held(&self) -> i64 {
        self.held
    }

    /// Blocks that differ between the copies, as far as they are known apart.
    #[must_use]
    pub fn differing(&self) -> u64 {
        self.differing.count()
    }

    /// Lets time pass without requests.
    pub fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while self.step(until) {}
        self.now = until;
        self.handled = 0;
    }

    /// What is due next.
    fn next(&self) -> Moment {
        let nodes = self.nodes[0].next().min(self.nodes[1].next());
        let ways = self.ways.iter().map(|way| way.next_arrival().min(way.next_pump()));
        let parted = self.parted[0].min(self.parted[1]);
        let link = self.dial.min(self.stands).min(parted).min(self.measure).min(self.turn);
        ways.fold(nodes.min(link), Moment::min)
    }

    /// Takes what is due next, unless that is behind `until`. Returns whether anything was.
    pub(super) fn step(&mut self, until: Moment) -> bool {
        let at = self.next();
        if at > until || at == Moment::NEVER {
            return false;
        }
        self.now = self.now.max(at);
        if self.turn <= self.now {
            self.lay();
        }
        self.link_due();
        for side in Side::BOTH {
            self.way_due(side);
        }
        for side in Side::BOTH {
            self.node_due(side);
        }
        true
    }

    /// Gives the link what holds now: the outages of the run, and the weather of its moment.
    fn lay(&mut self) {
        let [now, begin] = self.laid;
        let link = &self.config.link;
        let mut lines = [&link.forth, &link.back].map(|profile| {
            let shifted = |at: Moment| now + at.since(begin);
            let of_run = profile.outages.iter().filter(|outage| outage.to > begin);
            let outages = of_run.map(|o| Outage { from: shifted(o.from), to: shifted(o.to) });
            Profile { outages: outages.collect(), ..profile.clone() }
        });
        if let Some(course) = &link.course {
            let (row, ends) = course.at(begin.since(Moment::ZERO) + self.now.since(now));
            let begun = begin.since(Moment::ZERO);
            self.turn = ends.map_or(Moment::NEVER, |at| now + at.saturating_sub(begun));
            for (line, (profile, passes)) in lines.iter_mut().zip(course.profiles(row)) {
                let mut outages = core::mem::take(&mut line.outages);
                if !passes {
                    outages.push(Outage { from: self.now, to: self.turn });
                }
                *line = Profile { outages, ..profile };
            }
        }
        let [there, back] = lines;
        self.ways[0].set_profile(&there, back.delay, self.now);
        self.ways[1].set_profile(&back, there.delay, self.now);
    }

    /// Runs a part of a workload.
    pub fn run(&mut self, run: &Run<'_>) -> Figures {
        self.laid = [self.now, run.begin];
        self.lay();
        let shifted = |at: Moment| self.now + at.since(run.begin);
        let outages = self.config.link.forth.outages.iter().filter(|outage| outage.to > run.begin);
        let healed = outages.map(|outage| shifted(outage.to)).max();
        let mut healing = healed.map(|at| Healing { at, upto: None });
        let (begun, carried) = (self.now, self.carried());
        let mut work = Work::new(run, begun, self.config.depth, self.config.client);
        let end = begun + run.end.since(run.begin);
        let until = end + run.patience;
        let mut sample = work.measured_from();
        let before = self.nodes[0].engine.view().status(self.now).queue;
        loop {
            let due = self.next().min(work.next().max(self.now)).min(sample);
            if due > until || due == Moment::NEVER {
                break;
            }
            if due >= sample && self.next() > sample && work.next() > sample {
                self.now = self.now.max(sample);
                self.look(&mut work, begun);
                sample = sample + run.every;
                let over = self.now >= end && work.is_over() && self.is_level();
                if over && (healed.is_none() || work.figures.level_after.is_some()) {
                    break;
                }
                continue;
            }
            if work.next() <= self.next() {
                self.now = self.now.max(work.next());
                self.make(&mut work);
            } else {
                self.step(until);
            }
            self.reap(&mut work, healing.as_mut());
        }
        self.sum_up(work, before.map_or(0, |queue| queue.throttled), carried)
    }

    fn carried(&self) -> [u64; 2] {
        [0, 1].map(|n| self.ways[n].carried.0)
    }

    /// Hands over requests that are due.
    fn make(&mut self, work: &mut Work<'_>) {
        while work.next() <= self.now
            && let Some(request) = work.make(self.now)
        {
            if let helio_engine::Operation::Write { payload, .. } = request.operation {
                self.held += 1;
                self.nodes[0].moved += u64::from(payload.length);
            }
            self.nodes[0].tell(self.now, Event::Request(request));
        }
    }

    /// Counts what was answered.
    fn reap(&mut self, work: &mut Work<'_>, healing: Option<&mut Healing>) {
        let at = self.nodes[0].busy.max(self.now);
        for (id, denied) in self.replies.drain(..) {
            work.answered(at, id, denied);
        }
        work.count(core::mem::take(&mut self.handled));
        if let Some(Healing { at, upto }) = healing
            && self.now >= *at
            && work.figures.level_after.is_none()
        {
            let cursors = self.nodes[0].engine.view().status(self.now).cursors;
            let upto = *upto.get_or_insert(cursors.head);
            if self.is_level() && cursors.peer_completed >= upto {
                work.figures.level_after = Some(self.now.since(*at));
            }
        }
    }

    /// Takes a sample.
    fn look(&mut self, work: &mut Work<'_>, begun: Moment) {
        let status = self.nodes[0].engine.view().status(self.now);
        let Some(queue) = status.queue else { return };
        // What dirty regions come to is no part of a forecast's lag.
        let lag = status.lag.bytes - status.lag.dirty;
        if !self.order_lost && status.lag.dirty == helio_units::Bytes::ZERO {
            let oldest = self.now.0.saturating_sub(status.lag.oldest.as_nanos() as u64);
            work.since.image = work.since.image.max(Moment(oldest));
        }
        let behind = self.now.since(work.since.image);
        let figures = &mut work.figures;
        if figures.full_after.is_none() && (queue.waiting > 0 || queue.dropped + queue.refused > 0)
        {
            figures.full_after = Some(self.now.since(begun));
        }
        figures.lag.add(lag.0);
        figures.behind.add_time(behind);
        let at = self.now.since(begun) + work.run.begin.since(Moment::ZERO);
        let writes = core::mem::take(&mut work.since.writes);
        figures.samples.push(Sample {
            at,
            lag,
            behind,
            queue: queue.bytes,
            answered: Items(writes.count()),
            p99: writes.time_at(99.0),
            state: status.state,
        });
    }

    fn sum_up(&self, work: Work<'_>, throttled: u64, carried: [u64; 2]) -> Figures {
        let over = work.is_over();
        let mut figures = work.figures;
        if let Some(queue) = self.nodes[0].engine.view().status(self.now).queue {
            (figures.queue_high, figures.items_high) = (queue.bytes_high, queue.items_high);
            figures.bound = queue.bound;
            figures.throttled = Items(queue.throttled - throttled);
            figures.throttle_time = queue.throttle_time;
            figures.dropped = Items(queue.dropped);
        }
        let [sent, received] = self.carried();
        figures.sent = helio_units::Bytes(sent - carried[0]);
        figures.received = helio_units::Bytes(received - carried[1]);
        figures.outcome = match (over, self.is_level()) {
            (false, _) => Outcome::Unanswered,
            (true, false) => Outcome::Behind,
            (true, true) => Outcome::Level,
        };
        figures
    }
}
