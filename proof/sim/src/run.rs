// SPDX-License-Identifier: Apache-2.0
//! One seed, one story.

mod rewind;
mod rot;

use crate::client::Client;
use crate::coverage::Coverage;
use crate::driver::{Act, Driver};
use crate::faulty_peer;
use crate::kinds::Kind;
use crate::operator::owes_restart;
use crate::oracle::Oracle;
use crate::promise::{Promise, Violation, hold};
use crate::scenario::{Scenario, fair_weather, span};
use crate::sets::{self, Watch};
use crate::telling::Telling;
use core::fmt;
use core::time::Duration;
use helio_engine::Engine;
use helio_netmodel::Dice;
use helio_twin::{Cluster, Disk, Happening, Hook, Node, Side};
use helio_units::{Bytes, Moment, State};

/// The second must be over within this.
const MENDED_WITHIN: Duration = Duration::from_secs(300);
/// A restore of small volumes has begun within that.
const RESTORED_WITHIN: Duration = Duration::from_secs(10);
/// No story is this long unless an engine spins.
const STEPS_MAX: u64 = 2_000_000;

/// What a node says of a disk that does not respond, and what the coverage report calls it.
const OF_SILENCE: [(&str, &str); 3] = [
    ("is silent: an operation", "disk-silent"),
    ("the disk does not respond; the volume is served", "silent-disk-given-up"),
    ("every operation on the disk of volume", "late-operations-end"),
];

/// What happened in one story, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Writes, zeroes and discards of clients.
    pub writes: u64,
    /// Stories in which a client changed data 2,000 times and more.
    pub long: u64,
    /// Requests that were answered "done".
    pub answered: u64,
    /// Processes killed.
    pub crashes: u64,
    /// Nodes whose power went.
    pub power_cuts: u64,
    /// Links broken.
    pub link_cuts: u64,
    /// Nodes that became primary.
    pub promotions: u64,
    /// Copies that became consistent again behind an update.
    pub resyncs: u64,
    /// Nodes that joined as new after a refusal.
    pub wipes: u64,
    /// Nodes that gave their side up after a refusal.
    pub yields: u64,
    /// Kept images restored.
    pub restores: u64,
    /// Primaries that took their peer's copy over their own.
    pub reversals: u64,
    /// Point-in-time copies that operators created, by node.
    pub copies: u64,
    /// Verifies that went over whole images.
    pub verifies: u64,
    /// Blocks that rotted, and were found.
    pub rotten: u64,
    /// Events.
    pub steps: u64,
}

impl Counts {
    /// Adds another story's.
    pub fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.long += other.long;
        self.answered += other.answered;
        self.crashes += other.crashes;
        self.power_cuts += other.power_cuts;
        self.link_cuts += other.link_cuts;
        self.promotions += other.promotions;
        self.resyncs += other.resyncs;
        self.wipes += other.wipes;
        self.yields += other.yields;
        self.restores += other.restores;
        self.reversals += other.reversals;
        self.copies += other.copies;
        self.verifies += other.verifies;
        self.rotten += other.rotten;
        self.steps += other.steps;
    }
}

/// How a story ended.
#[derive(Debug)]
pub struct Verdict {
    /// Its numbers.
    pub counts: Counts,
    /// Where it went.
    pub coverage: Coverage,
    /// The first broken promise, and when.
    pub broken: Option<(Violation, Moment)>,
}

/// Told while a story runs.
pub struct Story<'a>(pub &'a mut dyn FnMut(Moment, &dyn fmt::Display));

struct Stage<'a> {
    cluster: Cluster,
    oracle: Oracle,
    sets: Watch,
    client: Client,
    driver: Driver,
    calm: Duration,
    breaking: Duration,
    /// Until then layers fail.
    layers_fail: Moment,
    counts: Counts,
    journal: Vec<Happening>,
    story: Option<Story<'a>>,
    /// What each node showed last, in its present life.
    shown: [Option<(State, &'static str)>; 2],
}

/// Runs a story; tells it where somebody listens. The engine's own assertions panic.
pub fn run(telling: &Telling, story: Option<Story<'_>>) -> Verdict {
    let dice = Dice::new(telling.seed);
    let mut scenario = Scenario::new(&dice);
    scenario.requests = telling.requests.unwrap_or(u64::MAX).min(scenario.requests);
    if let Some(script) = &telling.script {
        scenario.follow(script);
    }
    scenario.clocks_differ &= !telling.without.contains(&Kind::Clock);
    let cluster = scenario.cluster(&dice, story.is_some());
    let layered = Side::BOTH.iter().any(|side| !cluster.node(*side).layers.is_empty());
    let layers_fail = if layered { Moment::ZERO + scenario.layers_fail } else { Moment::ZERO };
    let mut stage = Stage {
        oracle: Oracle::new(&cluster, scenario.volumes.len()),
        sets: Watch::default(),
        client: Client::new(&scenario, &dice),
        driver: Driver::new(&dice, telling),
        calm: scenario.calm,
        breaking: scenario.breaking,
        layers_fail,
        counts: Counts::default(),
        journal: Vec::new(),
        cluster,
        story,
        shown: [None; 2],
    };
    if scenario.clocks_differ {
        stage.driver.coverage.struck("clock-drifts");
    }
    if let Some(script) = &telling.script {
        stage.driver.follow(script);
    }
    stage.tell(&format_args!("{scenario:#?}"));
    let mut ended = stage.play();
    if ended.is_ok() && telling.script.is_none() {
        ended = faulty_peer::run(&dice, &mut stage.driver.coverage);
    }
    let broken = ended.err().map(|violation| (violation, stage.cluster.now()));
    let tally = stage.driver.tally;
    let counts = Counts {
        writes: stage.client.writes + tally.scripted_writes,
        long: u64::from(stage.client.writes >= 2_000),
        crashes: tally.crashes,
        power_cuts: tally.power_cuts,
        link_cuts: tally.link_cuts,
        verifies: stage.counts.verifies + tally.verifies,
        wipes: tally.wipes,
        yields: tally.yields,
        restores: stage.oracle.restores,
        reversals: stage.oracle.reversals,
        copies: stage.oracle.copies_seen,
        ..stage.counts
    };
    Verdict { counts, coverage: stage.driver.coverage, broken }
}

impl Stage<'_> {
    fn play(&mut self) -> Result<(), Violation> {
        for side in Side::BOTH {
            self.driver.at(Moment::ZERO, Act::Start(side));
        }
        let first = Act::Promote(Side::Paris, 6);
        self.driver.at(Moment::ZERO + Duration::from_millis(300), first);
        if self.driver.scripted == 0 {
            self.driver.at(Moment::ZERO + Duration::from_millis(900), Act::Round);
            // Mostly the two have found each other before the first misfortune, and sometimes not.
            let (least, most) = (Duration::from_millis(300), Duration::from_secs(4));
            let peace = span(&mut self.driver.dice, least, most);
            self.driver.at(Moment::ZERO + peace, Act::Misfortune);
        }
        let until = Moment::ZERO + self.breaking;
        self.advance(until, |stage| {
            let over = stage.client.is_done() && stage.driver.scripted == 0;
            Ok(over && stage.cluster.now() >= stage.layers_fail)
        })?;
        self.client.retire(&mut self.cluster);
        self.mend();
        let until = self.cluster.now() + MENDED_WITHIN;
        let over = self.advance(until, |stage| Ok(stage.is_settled()))?;
        hold(over, Promise::Converges, || self.describe())?;
        for side in Side::BOTH {
            self.sets.judge(side, self.cluster.node(side))?;
        }
        if self.oracle.expects_less() || self.oracle.was_lied_to() {
            return self.find_lies();
        }
        self.restore_when_mended()?;
        if self.oracle.was_rewritten() {
            return Ok(());
        }
        if self.rewinds() {
            return self.rewind();
        }
        self.rot_and_repair()
    }

    /// Lets time pass until `over` or `until`; returns whether it was over.
    fn advance(
        &mut self,
        until: Moment,
        over: impl Fn(&Self) -> Result<bool, Violation>,
    ) -> Result<bool, Violation> {
        loop {
            if over(self)? {
                return Ok(true);
            }
            let next = self.cluster.next_at().unwrap_or(Moment::NEVER);
            let outside = self.client.next_at().min(self.driver.next_at());
            if next.min(outside) > until {
                self.cluster.pass_to(until);
                return Ok(false);
            }
            self.counts.steps += 1;
            hold(self.counts.steps < STEPS_MAX, Promise::Converges, || {
                format!("{STEPS_MAX} events and no end: {}", self.describe())
            })?;
            if next <= outside {
                self.cluster.step();
            } else {
                self.cluster.pass_to(outside);
                self.act();
            }
            self.observe()?;
        }
    }

    /// What the outside does now.
    fn act(&mut self) {
        if self.driver.next_at() <= self.cluster.now() {
            let Some(act) = self.driver.take() else { return };
            if !matches!(act, Act::Round | Act::Misfortune) {
                self.tell(&format_args!("** {act:?}"));
            }
            if matches!(act, Act::Misfortune) {
                let (number, strikes) = self.driver.next_misfortune();
                let fault = self.driver.draw_fault();
                // Misfortunes come together, but nodes must also live for a while between them.
                let bearable = self.driver.ailing() < 2 || self.driver.dice.chance(1, 5);
                if strikes && bearable && !self.driver.leaves_out(fault.class().0) {
                    self.tell(&format_args!("** {number}: {fault:?}"));
                    self.driver.strike(fault, &mut self.cluster, &mut self.oracle);
                }
                let least = self.calm / 8;
                let pause = span(&mut self.driver.dice, least, self.calm * 2);
                self.driver.at(self.cluster.now() + pause, Act::Misfortune);
            }
            self.driver.perform(act, &mut self.cluster, &mut self.oracle);
            return;
        }
        if let Some(ask) = self.client.ask(&mut self.cluster) {
            self.oracle.ask(&self.cluster, ask.side, ask.id, ask.volume, ask.operation);
            let stamp = helio_twin::Stamp(ask.id.0);
            self.cluster.submit(ask.side, ask.id, ask.volume, ask.operation, stamp);
        }
    }

    fn observe(&mut self) -> Result<(), Violation> {
        let mut journal = core::mem::take(&mut self.journal);
        self.cluster.take_journal(&mut journal);
        self.count(&journal);
        let now = self.cluster.now();
        for happening in &journal {
            match happening {
                Happening::Told { side, words } => {
                    self.tell(&format_args!("{side:>5} {words}"));
                }
                Happening::Died { side, how } => self.tell(&format_args!("{side:>5} DIED {how:?}")),
                Happening::Started { side } => self.tell(&format_args!("{side:>5} STARTED")),
                Happening::TurnedAway { side } => {
                    self.tell(&format_args!("{side:>5} REFUSED: the group is not served"));
                }
                _ => {}
            }
        }
        let judged = self.oracle.observe(&self.cluster, &journal);
        let alike = self.sets.observe(&self.cluster, &journal, &mut self.driver.coverage);
        self.look(&journal);
        self.client.notice(now, &journal);
        self.driver.notice(&self.cluster, &journal);
        let misfit = journal.iter().find_map(|happening| match happening {
            Happening::Misfit { side, words } => {
                Some(format!("{side}'s store is asked for {words}"))
            }
            _ => None,
        });
        let misled =
            self.client.misled.map(|id| format!("request {} is refused for its blocks", id.0));
        journal.clear();
        self.journal = journal;
        let misapplied = self.driver.misapplied.take();
        hold(misapplied.is_none(), Promise::Applied, || misapplied.unwrap_or_default())?;
        hold(misfit.is_none() && misled.is_none(), Promise::Blocks, || {
            misfit.or(misled).unwrap_or_default()
        })?;
        judged.and(alike)
    }

    /// Notices changes of state and standing.
    fn look(&mut self, journal: &[Happening]) {
        for happening in journal {
            if let Happening::Died { side, .. } | Happening::Started { side } = happening {
                self.shown[side.index()] = None;
            }
        }
        for side in Side::BOTH {
            let engine = self.cluster.node(side).engine.as_ref();
            let shows = self.oracle.state(side).zip(engine.map(|engine| engine.view().standing()));
            let shown = core::mem::replace(&mut self.shown[side.index()], shows);
            let (Some((from, stood)), Some((to, stands))) = (shown, shows) else { continue };
            if from != to {
                self.driver.coverage.changed_state(from, to);
            }
            if stood != stands {
                self.driver.coverage.changed_standing(stood, stands);
            }
        }
    }

    fn count(&mut self, journal: &[Happening]) {
        for happening in journal {
            match happening {
                Happening::Replied { answer: helio_twin::Replied::Done, .. } => {
                    self.counts.answered += 1;
                }
                Happening::Saved { side } => {
                    let Some(record) = self.cluster.node(*side).superblock() else { continue };
                    let primary = record.role == helio_units::Role::Primary;
                    self.counts.promotions += u64::from(primary && !record.clean);
                    self.counts.resyncs +=
                        u64::from(!primary && !record.clean && record.consistent);
                }
                Happening::Noted { side, words } => {
                    if words.starts_with("this process was suspended") {
                        self.driver.pause_noticed(*side);
                    }
                    self.driver.coverage.heard(words);
                    for (part, label) in OF_SILENCE {
                        if words.contains(part) {
                            self.driver.coverage.struck(label);
                        }
                    }
                    if self.cluster.node(side.other()).is_unserved()
                        && words.starts_with("the daemon on ")
                    {
                        self.driver.coverage.struck("unserved-ends-check");
                    }
                }
                Happening::HookAsked { slow, refuses } => {
                    let coverage = &mut self.driver.coverage;
                    if *slow {
                        coverage.struck("hook-delays");
                    }
                    if *refuses {
                        coverage.struck("hook-refuses");
                    }
                }
                Happening::Torn { side } => {
                    let up = self.cluster.node(*side).is_up();
                    let label = if up { "write-fails-torn" } else { "torn-at-end" };
                    self.driver.coverage.struck(label);
                }
                Happening::TurnedAway { .. } => self.driver.coverage.struck("unserved"),
                Happening::Lied { lie, .. } => self.driver.coverage.struck(lie.label()),
                Happening::FlushOverlapped => {
                    self.driver.coverage.struck("overlapped-flush-fails");
                }
                Happening::Dropped { side, hidden, visible, .. } => {
                    for label in drops(self.cluster.node(*side), *hidden, visible.len()) {
                        self.driver.coverage.struck(label);
                    }
                }
                _ => {}
            }
        }
    }

    /// Where the operator restores volumes: once more from what is left, and nothing breaks in the resync that follows.
    fn restore_when_mended(&mut self) -> Result<(), Violation> {
        let serves = |side: &Side| self.cluster.node(*side).serves();
        let Some(side) = Side::BOTH.into_iter().find(serves) else { return Ok(()) };
        let command = self.driver.restore_command(&self.cluster, side);
        let Some(command) = command else { return Ok(()) };
        let generation = |stage: &Self| {
            let record = stage.cluster.node(side).superblock();
            record.map(|record| record.lineage.generation)
        };
        let before = generation(self);
        self.oracle.is_rewritten();
        self.driver.command(&mut self.cluster, &mut self.oracle, side, command);
        let until = self.cluster.now() + RESTORED_WITHIN;
        // It may be refused.
        self.advance(until, |stage| Ok(generation(stage) != before))?;
        let until = self.cluster.now() + MENDED_WITHIN;
        let over = self.advance(until, |stage| Ok(stage.is_settled()))?;
        hold(over, Promise::Converges, || self.describe())
    }

    /// Everything that broke is whole again, and the operator sees to the rest.
    fn mend(&mut self) {
        self.tell(&format_args!("** everything is mended"));
        self.driver.clear();
        self.driver.healing = true;
        self.driver.link_returns(&self.cluster);
        self.cluster.mend_link(Some(&fair_weather()));
        for side in Side::BOTH {
            let node = self.cluster.node_mut(side);
            node.disks_mut().for_each(Disk::mend);
            node.metadata.mend();
            node.before.mend();
            node.hook = Hook::default();
            self.driver.start(side, &mut self.cluster);
        }
        self.driver.at(self.cluster.now(), Act::Round);
    }

    /// Equal images, replicating, one verdict on both nodes, no request or command waits, nothing is left over, and no node waits for
    /// the operator to restart it. The operator acts no more in the last part of a story, and a daemon whose metadata failed writes none.
    fn is_settled(&self) -> bool {
        let engine = |side: &Side| self.cluster.node(*side).engine.as_ref();
        // Of both: where a store fails at this very moment, its peer has not heard of it yet.
        let level = [State::Replicating, State::Periodic];
        let replicates = |side| engine(side).is_some_and(|e| level.contains(&e.view().state()));
        let quiet = |side: &Side| {
            let node = self.cluster.node(*side);
            node.pool.is_empty()
                && node.under_way() == 0
                && !node.hangs(self.cluster.now())
                && !sets::is_uneven(node)
        };
        let awaits_restart =
            |side: &Side| owes_restart(self.cluster.node(*side), self.cluster.now());
        // In async it is answered before it is there; where images may differ, they are the same as long as it is not.
        let is_there = |e: &Engine| {
            let cursors = e.view().status(self.cluster.now()).cursors;
            let all = e.view().reported_lag().is_some_and(|lag| lag.bytes == Bytes::ZERO);
            cursors.peer_completed >= cursors.head || e.view().state() == State::Periodic && all
        };
        let [here, there] = Side::BOTH.map(|side| engine(&side).map(|e| e.view().words().verdict));
        Side::BOTH.iter().all(replicates)
            && here == there
            && Side::BOTH.iter().filter_map(engine).any(|e| e.view().is_primary() && is_there(e))
            && (self.oracle.images_equal() || self.oracle.expects_less())
            && self.oracle.waiting() == 0
            && self.driver.open.is_empty()
            && Side::BOTH.iter().all(quiet)
            && !Side::BOTH.iter().any(awaits_restart)
    }

    fn describe(&self) -> String {
        let mut words = format!("{} requests wait", self.oracle.waiting());
        words += if self.oracle.images_equal() { ", images equal" } else { ", images differ" };
        for side in Side::BOTH {
            let node = self.cluster.node(side);
            match &node.engine {
                None => words += &format!("; {side} is down"),
                Some(engine) => {
                    let status = engine.view().status(node.clock.read(self.cluster.now()));
                    let (payloads, ios) = (node.pool.len(), node.under_way());
                    words += &format!(
                        "; {side}: {} {} ({}), fault {:?}, {payloads} payloads, {ios} operations, queue {:?}, {:?}, \
                         sync {:?}{}",
                        status.role,
                        status.state,
                        status.reason,
                        status.fault,
                        status.queue.map(|q| (q.bytes, q.items, q.waiting)),
                        status.cursors,
                        status.sync,
                        sets::describe(node)
                    );
                }
            }
        }
        words
    }

    fn tell(&mut self, words: &dyn fmt::Display) {
        if let Some(Story(tell)) = &mut self.story {
            tell(self.cluster.now(), words);
        }
    }
}

/// What the coverage report calls what a failed flush dropped.
fn drops(node: &Node, hidden: usize, visible: usize) -> impl Iterator<Item = &'static str> {
    let labels = match (node.is_up(), node.serves()) {
        (false, _) => ["drops-hidden", "drops-at-restart"],
        (true, false) => ["drops-hidden", "drops-visible"],
        (true, true) => ["drops-hidden-leading", "drops-visible-leading"],
    };
    labels
        .into_iter()
        .zip([hidden, visible])
        .filter(|(_, count)| *count > 0)
        .map(|(label, _)| label)
}
