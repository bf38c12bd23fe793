// SPDX-License-Identifier: Apache-2.0
//! The story of one seed.

use super::act::{ACTS_MAX, Act};
use super::devices::Devices;
use super::luck::Ends;
use super::node::{Gone, Node};
use super::promised::Promised;
use super::scenario::{GroupShape, Scenario};
use super::shipping::Shipping;
use super::telling::Telling;
use super::watch::{Until, Watch};
use crate::client::{Client, Ending, Habits, Stepped, Turn};
use crate::coverage::Coverage;
use crate::model::{Model, Promise, Violation};
use crate::panics::noted;
use helio_api::Status;
use helio_driver::Address;
use helio_engine::Operation;
use helio_netmodel::{Dice, Profile};
use helio_units::{Moment, Rate};
use helio_world::{SimStream, Stream, World};
use serde_json::json;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

/// What came of a seed.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The promise that was broken.
    pub broken: Option<Violation>,
    /// The event log, if it was asked for.
    pub story: Vec<String>,
    /// Misfortune damaged both copies of a group, and both nodes say so.
    pub lost: Option<String>,
    /// What met what.
    pub coverage: Coverage,
    /// A digest of the event log.
    pub digest: u64,
    /// How long the story was.
    pub lasted: Duration,
    /// How many steps of a script were told.
    pub steps: usize,
}

/// A client connects so often.
const CONNECTIONS_MAX: u32 = 12;
/// Events of one moment.
const AT_ONCE_MAX: u64 = 1_000_000;

/// A client and where it is connected.
struct ClientSlot {
    client: Client,
    group: usize,
    stream: Option<SimStream>,
    next: Moment,
    dice: Dice,
    connections: u32,
    /// How its last connection ended.
    ending: Option<Ending>,
}

impl ClientSlot {
    /// The time until it connects again. One that follows a script is not to miss much of it.
    fn pause(&mut self) -> Duration {
        let longest = if self.client.left().is_some() { 50 } else { 2000 };
        Duration::from_millis(1 + self.dice.below(longest))
    }
}

/// A group, and what its clients may be answered.
pub(super) struct Group {
    pub(super) shape: GroupShape,
    pub(super) model: Model,
    /// The node that clients use.
    pub(super) serves: Option<usize>,
    /// The operator set the bound of its queue.
    pub(super) queue_was_set: bool,
    /// What refusals recommended since the operator looked last, and where.
    pub(super) hints: Vec<(usize, String)>,
    /// The node that they used last.
    pub(super) last_served: Option<usize>,
    pub(super) promised: Promised,
    /// Clients may not use it until something is done on that node.
    pub(super) closed: Option<usize>,
    /// It is released on both nodes, to be adopted on this one.
    pub(super) adopts: Option<usize>,
    /// Members that a release left incomplete, to be replaced by a copy of another one.
    pub(super) stale: Vec<Stale>,
    /// Nodes whose record of the group was removed since the last promotion or adoption.
    pub(super) forgotten: [bool; 2],
    /// How far the operator is with a shipped disk.
    pub(super) shipping: Shipping,
}

/// A member that is not a complete copy.
#[derive(Clone, Debug)]
pub(super) struct Stale {
    pub(super) node: usize,
    pub(super) path: PathBuf,
    /// A member that is.
    pub(super) full: PathBuf,
}

impl Group {
    /// The node that clients may connect to.
    fn open_at(&self) -> Option<usize> {
        self.serves.filter(|_| self.closed.is_none())
    }
}

/// Everything of one story.
pub(super) struct Run {
    pub(super) world: World,
    /// What the configuration file is to say.
    pub(super) scenario: Scenario,
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Vec<Group>,
    clients: Vec<ClientSlot>,
    pub(super) devices: Devices,
    /// How many clients a node accepts.
    pub(super) clients_max: u64,
    /// How many clients there have been.
    invited: u64,
    /// What the nodes said last.
    pub(super) status: [Option<Status>; 2],
    /// How many requests were sent to control planes, and what those that wait for their response mean.
    pub(super) requests: u64,
    /// The copies of a group were both damaged, and the nodes say so.
    pub(super) lost: Option<String>,
    /// How often the operator looked for advice.
    pub(super) advised: usize,
    pub(super) asked: BTreeMap<u64, Asked>,
    pub(super) watch: Watch,
    /// What lasts, and until when.
    pub(super) ends: Vec<(Moment, Ends)>,
    /// How many steps of a script were told.
    pub(super) steps: usize,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Status,
    Attachments,
    Detach,
    Promote {
        forced: bool,
        restored: bool,
    },
    Demote,
    Switch,
    Resolve,
    Accept,
    Replace,
    Release,
    Reverse,
    SeedBegin,
    SeedEnd,
    /// It must be refused.
    Refusal,
    Apply,
    Other,
}

/// A request to a control plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) node: usize,
    pub(super) group: Option<usize>,
    pub(super) wish: Wish,
}

/// Tells a story. With `story` the verdict has its event log.
#[must_use]
pub fn run(telling: &Telling, story: bool) -> Verdict {
    let world = World::new(telling.seed, story);
    let _earlier = noted();
    let (mut coverage, mut steps) = (Coverage::default(), 0);
    let told = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(&world, telling)?;
        let told = run.tell(telling);
        run.nodes.iter_mut().for_each(Node::kill);
        (coverage, steps) = (run.watch.coverage, run.steps);
        told.map(|()| run.lost)
    }));
    // A panic that nothing isolated, or one of the last steps.
    let told = match (told, noted()) {
        (Ok(told), None) => told,
        (Ok(Err(why)), Some(_)) => Err(why),
        (_, panic) => {
            Err(panic.unwrap_or_else(|| Violation::new(Promise::NoPanic, "a panic".into())))
        }
    };
    let (broken, lost) = match told {
        Ok(lost) => (None, lost),
        Err(why) => (Some(why), None),
    };
    Verdict {
        broken,
        lost,
        coverage,
        story: world.story(),
        digest: world.digest(),
        lasted: world.now().since(Moment::ZERO),
        steps,
    }
}

impl Run {
    pub(super) fn new(world: &World, telling: &Telling) -> Result<Self, Violation> {
        let mut scenario = Scenario::draw(&mut world.dice("scenario"));
        if let Some(script) = &telling.script {
            scenario.follow(script, &mut world.dice("volumes of a script"));
        }
        let refused = |errno| Violation::starts(format!("the disk of a machine: {errno}"));
        let node = |n| Node::new(world, n, &scenario).map_err(refused);
        let nodes = vec![node(0)?, node(1)?];
        let file = scenario.file(&nodes.iter().map(|node| node.keys.clone()).collect::<Vec<_>>());
        for (n, node) in nodes.iter().enumerate() {
            let mut dice = world.dice(&format!("members {n}"));
            node.set_up(n, &scenario, &file, &mut dice).map_err(refused)?;
        }
        world.set_link(
            &nodes[0].machine,
            &nodes[1].machine,
            &Profile::wan(Duration::from_millis(10), Rate::mbit(100)),
        );
        world.tell(format_args!("the configuration:\n{file}"));
        let sectors =
            |shape: &GroupShape| shape.volumes.iter().map(|v| v.size.0 / 512).collect::<Vec<_>>();
        let group = |shape: &GroupShape| Group {
            model: Model::new(&sectors(shape)),
            shape: shape.clone(),
            serves: None,
            queue_was_set: false,
            hints: Vec::new(),
            last_served: None,
            promised: Promised::default(),
            closed: None,
            adopts: None,
            stale: Vec::new(),
            forgotten: [false; 2],
            shipping: Shipping::default(),
        };
        Ok(Self {
            groups: scenario.groups.iter().map(group).collect(),
            clients_max: scenario.clients,
            scenario,
            world: world.clone(),
            nodes,
            clients: Vec::new(),
            devices: Devices::new(world),
            invited: 0,
            status: Default::default(),
            requests: 0,
            lost: None,
            advised: 0,
            asked: BTreeMap::new(),
            watch: Watch::default(),
            ends: Vec::new(),
            steps: 0,
        })
    }

    pub(super) fn tell(&mut self, telling: &Telling) -> Result<(), Violation> {
        self.begin()?;
        match &telling.script {
            Some(script) => self.replay(script, telling)?,
            None => self.take_acts(telling)?,
        }
        self.pass(Duration::from_secs(1))?;
        self.retire_clients();
        self.calm_down()?;
        self.judge()?;
        self.coda()?;
        self.judge()
    }

    /// Both nodes start, and one of each group is promoted.
    pub(super) fn begin(&mut self) -> Result<(), Violation> {
        for node in 0..2 {
            self.nodes[node].start(self.world.now()).map_err(Violation::starts)?;
        }
        self.pass(Duration::from_secs(2))?;
        for n in 0..self.groups.len() {
            if let Some(node) = self.groups[n].shape.alone {
                let serves = self.groups[n].shape.listed.then_some(node);
                (self.groups[n].serves, self.groups[n].last_served) = (serves, serves);
                continue;
            }
            self.post(
                0,
                n,
                "promote",
                &json!({ "force": false, "confirmed": false }),
                Wish::Promote { forced: false, restored: false },
            );
        }
        self.pass(Duration::from_secs(2))
    }

    /// Clients come, and acts that are drawn follow.
    fn take_acts(&mut self, telling: &Telling) -> Result<(), Violation> {
        self.connect_clients();
        let most = telling.clients.unwrap_or(usize::MAX);
        self.clients.truncate(most);
        self.begin_devices(most - self.clients.len());
        let mut dice = self.world.dice("acts");
        for number in 1..=dice.below(ACTS_MAX + 1) {
            self.pass(Duration::from_millis(dice.below(3000)))?;
            self.check_clients()?;
            (0..2).for_each(|node| self.make_backup(node));
            let act = Act::draw(&mut dice);
            // Each has dice of its own, so that leaving one out leaves the others as they are.
            let mut own = dice.split_nth("act", number);
            if !telling.skips(number) {
                self.act(act, &mut own)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, act: Act, dice: &mut Dice) -> Result<(), Violation> {
        match act {
            Act::Luck(luck) => self.strike(luck, dice),
            Act::Order(order) => self.order(order, None, dice),
            Act::Both { luck, order, order_first: true, between } if luck.is_short() => {
                let strikes = dice.split_nth("strikes", 0);
                self.order(order, Some((luck, between, strikes)), dice);
            }
            Act::Both { luck, order, order_first: true, between } => {
                self.order(order, None, dice);
                self.pass(between)?;
                self.strike(luck, dice);
            }
            Act::Both { luck, order, order_first: false, between } => {
                self.strike(luck, dice);
                self.pass(between)?;
                self.order(order, None, dice);
            }
        }
        Ok(())
    }

    fn connect_clients(&mut self) {
        for n in 0..self.groups.len() {
            for (volume, shape) in self.groups[n].shape.volumes.clone().iter().enumerate() {
                for _ in 0..2 {
                    let number = self.clients.len();
                    let mut dice = self.world.dice(&format!("habits of client {number}"));
                    let export = format!("{}/{}", self.groups[n].shape.name, shape.name);
                    let habits =
                        Habits::draw(&export, volume as u16, &mut |below| dice.below(below));
                    self.add_client(n, habits, CONNECTIONS_MAX);
                }
            }
        }
    }

    /// A client that connects so often.
    pub(super) fn add_client(&mut self, group: usize, habits: Habits, connects: u32) {
        self.invited += 1;
        self.clients.push(ClientSlot {
            client: Client::new(habits, &mut self.groups[group].model),
            group,
            stream: None,
            next: Moment::ZERO,
            dice: self.world.dice(&format!("client {}", self.invited)),
            connections: CONNECTIONS_MAX - connects,
            ending: None,
        });
    }

    /// Clients make no further requests; those that are connected leave once everything is answered.
    fn retire_clients(&mut self) {
        self.devices.retire();
        self.clients.retain(|slot| slot.stream.is_some());
        for slot in &mut self.clients {
            slot.client.retire();
            slot.connections = CONNECTIONS_MAX;
        }
    }

    /// A client that makes the requests of a script.
    pub(super) fn add_scripted_client(
        &mut self,
        group: usize,
        habits: Habits,
        requests: &[(Moment, Operation)],
    ) {
        self.add_client(group, habits, CONNECTIONS_MAX);
        if let Some(ClientSlot { client, dice, .. }) = self.clients.last_mut() {
            client.follow(requests.iter().copied(), &mut |below| dice.below(below));
        }
    }

    /// How many requests of a script its clients have not made.
    pub(super) fn unmade_requests(&self) -> usize {
        self.clients.iter().filter_map(|slot| slot.client.left()).sum()
    }

    /// The operator ends the clients of a group, whatever they wait for.
    pub(super) fn end_clients(&mut self, group: usize) {
        self.end_programs(group);
        self.disconnect_clients(group);
    }

    /// The clients of a group disconnect, whatever they wait for.
    pub(super) fn disconnect_clients(&mut self, group: usize) {
        let now = self.world.now();
        let Group { model, .. } = &mut self.groups[group];
        for slot in self.clients.iter_mut().filter(|slot| slot.group == group) {
            if let Some(mut stream) = slot.stream.take() {
                slot.client.give_up(&mut stream, model);
                slot.next = now + slot.pause();
            }
        }
    }

    /// The connections of a group's clients end.
    pub(super) fn send_clients_away(&mut self, group: usize) {
        for slot in self.clients.iter_mut().filter(|slot| slot.group == group) {
            if let Some(stream) = &mut slot.stream {
                stream.reset();
            }
        }
    }

    /// Takes the clients of a group that have left. Returns how each left, if none is connected, or may connect again.
    pub(super) fn take_endings(&mut self, group: usize) -> Option<Vec<Option<Ending>>> {
        let ours = |slot: &&ClientSlot| slot.group == group;
        let is_here =
            |slot: &ClientSlot| slot.stream.is_some() || slot.connections < CONNECTIONS_MAX;
        if self.clients.iter().filter(ours).any(is_here) {
            return None;
        }
        let (left, others) = self.clients.drain(..).partition(|slot| slot.group == group);
        self.clients = others;
        Some(Vec::from_iter(left).into_iter().map(|slot: ClientSlot| slot.ending).collect())
    }

    /// What clients wait for.
    pub(super) fn waiting_clients(&self) -> Vec<&'static str> {
        self.clients.iter().flat_map(|slot| slot.client.waits_for()).collect()
    }

    /// Whether a client waits for a response, or for the end of its connection.
    pub(super) fn clients_wait(&self, group: usize) -> bool {
        let connected = |slot: &ClientSlot| slot.group == group && slot.stream.is_some();
        self.clients.iter().any(connected) || self.devices.wait(group)
    }

    /// Lets so much time pass.
    pub(super) fn pass(&mut self, span: Duration) -> Result<(), Violation> {
        let end = self.world.now() + span;
        self.world.alarm(end);
        let mut at_once = (self.world.now(), 0);
        loop {
            let now = self.world.now();
            if now >= end {
                return self.settle();
            }
            if at_once.0 != now {
                at_once = (now, 0);
            }
            at_once.1 += 1;
            if at_once.1 > AT_ONCE_MAX {
                let detail = format!("{AT_ONCE_MAX} events without time that passes");
                return Err(Violation::new(Promise::Waits, detail));
            }
            self.end_luck(now);
            self.followed(true, |until| matches!(until, Until::Passed(end) if end <= now));
            self.settle()?;
            let own = self.nodes.iter().filter_map(|node| node.daemon.as_ref()).map(|it| it.next());
            let clients = self.clients.iter().map(|slot| self.client_due(slot));
            let ends = self.ends.iter().map(|(at, _)| *at);
            let due = own.chain(clients).chain(ends).min().unwrap_or(Moment::NEVER);
            let due = due.min(self.devices.due());
            self.world.advance_until(due);
        }
    }

    /// What a failed flush of a member covered may be lost at the node that serves its volume.
    fn note_failed_flushes(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !node.has_new_failed_flushes() {
                continue;
            }
            for group in &mut self.groups {
                for (volume, shape) in (0..).zip(&group.shape.volumes) {
                    let fails = node.has_failed_flushes_of(shape.paths(group.shape.name, index));
                    if fails && group.serves == Some(index) {
                        group.model.flush_failed(volume);
                    } else if fails {
                        group.promised.lost(index);
                    }
                }
            }
        }
    }

    /// When a client does something by itself. One without a daemon to connect to does nothing.
    fn client_due(&self, slot: &ClientSlot) -> Moment {
        let node = self.groups[slot.group].open_at().filter(|_| slot.connections < CONNECTIONS_MAX);
        let reachable = node.is_some_and(|node| self.nodes[node].daemon.is_some());
        if slot.stream.is_some() || reachable { slot.next } else { Moment::NEVER }
    }

    /// Everything that can go on does.
    fn settle(&mut self) -> Result<(), Violation> {
        let now = self.world.now();
        loop {
            self.note_failed_flushes();
            let mut did = false;
            let (mut responses, mut gone) = (Vec::new(), Vec::new());
            for (index, node) in self.nodes.iter_mut().enumerate() {
                let progress = node.step(now)?;
                did |= progress.did;
                responses.extend(progress.responses.into_iter().map(|it| (index, it)));
                gone.extend(progress.ended.map(|it| (index, it)));
            }
            for (node, response) in responses {
                let (request, status) = (response.request(), response.status());
                self.responded(node, request, status, response.body())?;
                self.detached(node, request, status)?;
            }
            for (node, Gone { stopping, cleanly }) in gone {
                self.note_end(node, false);
                self.daemon_gone(node, cleanly);
                if !stopping {
                    self.ends.push((now + Duration::from_secs(1), Ends::Start(node)));
                }
            }
            self.note_modes();
            let mut asked = Vec::new();
            for n in 0..self.clients.len() {
                self.step_client(n, now)?;
                asked.extend(self.clients[n].client.begun());
            }
            self.step_devices(now)?;
            self.clients_asked(asked);
            if let Some(panic) = noted() {
                return Err(panic);
            }
            if !did {
                return Ok(());
            }
        }
    }

    fn step_client(&mut self, n: usize, now: Moment) -> Result<(), Violation> {
        let slot = &mut self.clients[n];
        let group = &mut self.groups[slot.group];
        if slot.stream.is_none() {
            let Some(node) = group.open_at() else { return Ok(()) };
            let spent = slot.connections >= CONNECTIONS_MAX;
            if now < slot.next || spent || self.nodes[node].daemon.is_none() {
                return Ok(());
            }
            let socket = Address::Unix(PathBuf::from("/state/nbd.sock"));
            slot.stream = Some(self.world.connect(&self.nodes[node].machine, &socket));
        }
        let Some(stream) = &mut slot.stream else { return Ok(()) };
        let dice = &mut slot.dice;
        let mut turn =
            Turn { stream, now, dice: &mut |below| dice.below(below), model: &mut group.model };
        let stepped = slot.client.step(&mut turn)?;
        match stepped {
            // It is stepped whenever something happens, too.
            Stepped::Waits(next) => slot.next = next.max(now + Duration::from_micros(100)),
            Stepped::Ended(ending) => {
                self.world.tell(format_args!("client {n}: {ending:?}"));
                slot.stream = None;
                slot.ending = Some(ending);
                slot.connections = match slot.client.left() {
                    None => slot.connections + u32::from(!matches!(ending, Ending::Refused(_))),
                    Some(0) => CONNECTIONS_MAX,
                    Some(_) => slot.connections,
                };
                slot.next = now + slot.pause();
                slot.client.connected(&mut group.model);
            }
        }
        Ok(())
    }
}
