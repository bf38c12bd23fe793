// SPDX-License-Identifier: Apache-2.0
//! The pair: what is due next, and who takes it.

use super::disk::{Disk, DiskModel};
use super::figures::{Figures, Outcome, Sample};
use super::link::Link;
use super::records::Records;
use super::shard::Shard;
use super::sizes::{Count, Sizes, Timer};
use super::socket::LinkModel;
use super::work::Work;
use crate::Side;
use crate::host::Host;
use crate::node::Node;
use core::fmt;
use core::time::Duration;
use helio_engine::{Command, CommandId, Config, Event, Status, View};
use helio_ledger::BeforeFound;
use helio_netmodel::Dice;
use helio_units::{Bytes, Items, Moment, Sequence, State};
use helio_workload::Request;

/// The one that clients use.
const PRIMARY: Side = Side::Paris;
/// The two must mirror each other within that long.
const BEGIN_WITHIN: Duration = Duration::from_secs(600);
/// Greeting takes a few round trips and the time of the records.
const GREETED_AFTER: Duration = Duration::from_secs(2);
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
    host: Host<Sizes>,
    config: PairConfig,
}

impl Pair {
    /// A pair that mirrors: connected, promoted, both disks empty and equal.
    ///
    /// # Errors
    /// They do not come to that.
    pub fn new(config: PairConfig) -> Result<Self, Stuck> {
        let dice = Dice::new(config.seed);
        let nodes = Side::BOTH.map(|side| node(side, &config, &dice));
        let link = Link::new(config.link.clone(), &dice);
        let mut pair = Self { host: Host::with(nodes, link, Sizes::new(config.processor)), config };
        pair.begin()?;
        Ok(pair)
    }

    fn begin(&mut self) -> Result<(), Stuck> {
        for timer in [Timer::Dial, Timer::Turn(Side::Paris), Timer::Turn(Side::Lyon)] {
            self.host.set_timer(timer, Moment::ZERO);
        }
        let until = self.now() + BEGIN_WITHIN;
        while !self.host.nodes.iter().all(|node| node.process.connected) {
            if !self.step(until) {
                return Err(self.stuck());
            }
        }
        // They greet each other before one of them leads.
        let greeted = self.now() + GREETED_AFTER + self.host.wire.round_trip() * 4;
        while self.step(greeted) {}
        let command =
            Event::Command { id: CommandId(1), command: Command::Promote { force: false } };
        self.host.inbox(PRIMARY, command);
        while !self.is_level() {
            if !self.step(until) {
                return Err(self.stuck());
            }
        }
        self.host.content.young = false;
        Ok(())
    }

    fn stuck(&self) -> Stuck {
        let Status { state, reason, .. } = self.status();
        Stuck { state, reason }
    }

    fn now(&self) -> Moment {
        self.host.now
    }

    fn primary(&self) -> View<'_> {
        let engine = self.host.node(PRIMARY).engine.as_ref();
        engine.expect("processes do not end here").view()
    }

    fn status(&self) -> Status {
        self.primary().status(self.now())
    }

    /// The copies are level and order is kept.
    #[must_use]
    pub fn is_level(&self) -> bool {
        self.primary().state() == State::Replicating
    }

    /// Payloads that the engines hold: none once everything is durable on both nodes.
    #[must_use]
    pub fn held(&self) -> i64 {
        self.host.nodes.iter().map(|node| node.pool.held()).sum()
    }

    /// Blocks that differ between the copies, as far as they are known apart.
    #[must_use]
    pub fn differing(&self) -> u64 {
        self.host.content.differing.count()
    }

    /// Lets time pass without requests.
    pub fn pass(&mut self, span: Duration) {
        self.host.run_until(self.now() + span);
        self.host.content.handled = 0;
    }

    /// What is due next.
    fn next(&self) -> Moment {
        self.host.next_at().unwrap_or(Moment::NEVER)
    }

    /// Takes what is due next, unless that is behind `until`. Returns whether anything was.
    fn step(&mut self, until: Moment) -> bool {
        self.host.next_at().is_some_and(|at| at <= until) && self.host.step()
    }

    /// Runs a part of a workload.
    pub fn run(&mut self, run: &Run<'_>) -> Figures {
        let begun = self.now();
        self.host.begin_run(run.begin);
        let shifted = |at: Moment| begun + at.since(run.begin);
        let outages = self.config.link.forth.outages.iter().filter(|outage| outage.to > run.begin);
        let healed = outages.map(|outage| shifted(outage.to)).max();
        let mut healing = healed.map(|at| Healing { at, upto: None });
        let carried = self.host.wire.carried();
        let mut work = Work::new(run, begun, self.config.depth, self.config.client);
        let end = begun + run.end.since(run.begin);
        let until = end + run.patience;
        let mut sample = work.measured_from();
        let before = self.status().queue;
        loop {
            let (next, asked) = (self.next(), work.next());
            let due = next.min(asked.max(self.now())).min(sample);
            if due > until || due == Moment::NEVER {
                break;
            }
            if due >= sample && next > sample && asked > sample {
                self.host.pass_to(sample);
                self.look(&mut work, begun);
                sample = sample + run.every;
                let over = self.now() >= end && work.is_over() && self.is_level();
                if over && (healed.is_none() || work.figures.level_after.is_some()) {
                    break;
                }
                continue;
            }
            if asked <= next {
                self.host.pass_to(asked);
                self.make(&mut work);
            } else {
                self.step(until);
            }
            self.reap(&mut work, healing.as_mut());
        }
        self.sum_up(work, before.map_or(0, |queue| queue.throttled), carried)
    }

    /// Hands over requests that are due.
    fn make(&mut self, work: &mut Work<'_>) {
        let now = self.now();
        while work.next() <= now
            && let Some(request) = work.make(now, &mut self.host.node_mut(PRIMARY).pool)
        {
            if let helio_engine::Operation::Write { payload, .. } = request.operation {
                self.host.node_mut(PRIMARY).process.moved += u64::from(payload.length);
            }
            self.host.inbox(PRIMARY, Event::Request(request));
        }
    }

    /// Counts what was answered.
    fn reap(&mut self, work: &mut Work<'_>, healing: Option<&mut Healing>) {
        let now = self.now();
        let at = self.host.node(PRIMARY).process.busy.max(now);
        for (id, denied) in self.host.content.replies.drain(..) {
            work.answered(at, id, denied);
        }
        work.count(core::mem::take(&mut self.host.content.handled));
        if let Some(Healing { at, upto }) = healing
            && now >= *at
            && work.figures.level_after.is_none()
        {
            let cursors = self.status().cursors;
            let upto = *upto.get_or_insert(cursors.head);
            if self.is_level() && cursors.peer_completed >= upto {
                work.figures.level_after = Some(now.since(*at));
            }
        }
    }

    /// Takes a sample.
    fn look(&mut self, work: &mut Work<'_>, begun: Moment) {
        let (now, status) = (self.now(), self.status());
        let Some(queue) = status.queue else { return };
        // What dirty regions come to is no part of a forecast's lag.
        let lag = status.lag.bytes - status.lag.dirty;
        if !self.host.content.order_lost && status.lag.dirty == Bytes::ZERO {
            let oldest = now.0.saturating_sub(status.lag.oldest.as_nanos() as u64);
            work.since.image = work.since.image.max(Moment(oldest));
        }
        let behind = now.since(work.since.image);
        let figures = &mut work.figures;
        if figures.full_after.is_none() && (queue.waiting > 0 || queue.dropped + queue.refused > 0)
        {
            figures.full_after = Some(now.since(begun));
        }
        figures.lag.add(lag.0);
        figures.behind.add_time(behind);
        let at = now.since(begun) + work.run.begin.since(Moment::ZERO);
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

    fn sum_up(&self, work: Work<'_>, throttled: u64, carried: [Bytes; 2]) -> Figures {
        let over = work.is_over();
        let mut figures = work.figures;
        if let Some(queue) = self.status().queue {
            (figures.queue_high, figures.items_high) = (queue.bytes_high, queue.items_high);
            figures.bound = queue.bound;
            figures.throttled = Items(queue.throttled - throttled);
            figures.throttle_time = queue.throttle_time;
            figures.dropped = Items(queue.dropped);
        }
        let [sent, received] = self.host.wire.carried();
        figures.sent = sent - carried[0];
        figures.received = received - carried[1];
        figures.outcome = match (over, self.is_level()) {
            (false, _) => Outcome::Unanswered,
            (true, false) => Outcome::Behind,
            (true, true) => Outcome::Level,
        };
        figures
    }
}

/// One node, whose process begins: its disk was never written.
fn node(side: Side, config: &PairConfig, dice: &Dice) -> Node<Sizes> {
    let mut settings = config.settings.clone();
    (settings.node, settings.peer) = (side.name().into(), side.other().name().into());
    let mut own = dice.split_nth("lean", side.index() as u64);
    let disk = Disk::new(config.disks[side.index()], own.split("disk"));
    let files = (disk, Records::default(), ());
    let mut node = Node::with(settings, files, Count::default(), Shard::default());
    node.begin(
        Moment::ZERO,
        (None, None),
        Vec::new(),
        &BeforeFound::default(),
        (own.next_u64(), own.next_u64()),
    );
    node
}
