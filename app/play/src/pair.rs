// SPDX-License-Identifier: Apache-2.0
//! Two nodes in one world with their clients: virtual time that passes, and requests to the daemons.

use crate::NODES;
use crate::clients::Clients;
use crate::node::{MEMBER, Node};
use crate::simulation::{Settings, Simulation};
use helio_api::{ApiError, GroupStatus, Status, paths};
use helio_netmodel::{Ppm, Profile};
use helio_units::{Bytes, Mode, Moment, Rate};
use helio_world::{Response, World};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::oneshot;

pub(crate) const GROUP: &str = "db";
pub(crate) const VOLUME: &str = "data";
const EXPORT: &str = "db/data";
/// The size of the volume.
pub(crate) const SIZE: Bytes = Bytes::mib(64);
const ADDRESSES: [[u8; 4]; 2] = [[127, 0, 0, 1], [127, 0, 0, 2]];
const FIRST: Settings = Settings {
    rtt_ms: 20.0,
    rate_mbit: 100.0,
    loss_percent: 0.0,
    writes_per_second: 100.0,
    mode: Mode::Async,
};
/// Within this time a new pair is in sync.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);
/// How much virtual time may pass for requests while time is paused.
const PAUSED_MAX: Duration = Duration::from_secs(5);
/// After this time the clients have left, and what was refused because of them is requested again.
const LEFT_WITHIN: Duration = Duration::from_millis(100);

/// The response to a request: status and body, or why there is none.
pub(crate) type Answer = Result<(u16, Vec<u8>), ApiError>;

/// How a change ended: what people cannot see otherwise, or why it was not done.
pub(crate) type Changed = Result<String, ApiError>;

/// What a request to a daemon is for.
pub(crate) enum Purpose {
    /// A caller gets the response.
    Call(oneshot::Sender<Answer>),
    /// A caller gets the state of the simulation, with the mode of the response.
    Look(oneshot::Sender<Simulation>),
    /// A caller gets to know whether it was done.
    Change(oneshot::Sender<Changed>),
    /// Whether the copy on a new disk is complete.
    Inspect,
}

/// A request to the daemon of a node.
pub(crate) struct Asked {
    pub(crate) node: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    pub(crate) purpose: Purpose,
    /// It was refused because clients used the volume; they left for it.
    again: bool,
}

impl Asked {
    pub(crate) fn post(
        node: usize,
        template: &str,
        body: &serde_json::Value,
        purpose: Purpose,
    ) -> Self {
        let (path, body) = (paths::of_group(template, GROUP), body.to_string().into_bytes());
        Self { node, method: "POST".to_owned(), path, body, purpose, again: false }
    }

    pub(crate) fn call(
        node: usize,
        (method, path, body): (String, String, Vec<u8>),
        reply: oneshot::Sender<Answer>,
    ) -> Self {
        Self { node, method, path, body, purpose: Purpose::Call(reply), again: false }
    }

    /// A request of the status of the group.
    fn status(node: usize, purpose: Purpose) -> Self {
        let (method, path) = ("GET".to_owned(), paths::of_group(paths::GROUP, GROUP));
        Self { node, method, path, body: Vec::new(), purpose, again: false }
    }
}

/// See the module.
pub(crate) struct Pair {
    pub(crate) seed: u64,
    /// Virtual seconds per second.
    pub(crate) speed: f64,
    /// Virtual seconds per second that this machine reaches.
    pub(crate) reached: Option<f64>,
    pub(crate) world: World,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Clients,
    pub(crate) settings: Settings,
    pub(crate) link_up: bool,
    requests: u64,
    asked: BTreeMap<u64, Asked>,
    /// What is requested again, and when.
    later: Vec<(Moment, Asked)>,
}

impl Pair {
    /// A pair that is in sync, with clients.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn new(seed: u64, speed: f64) -> Result<Self, String> {
        let world = World::new(seed, false).untold();
        let config = config();
        let node =
            |n: usize| Node::new(&world, (NODES[n], IpAddr::from(ADDRESSES[n])), &config, SIZE);
        let nodes = (0..NODES.len()).map(node).collect::<Result<Vec<_>, _>>();
        let nodes = nodes.map_err(|errno| format!("a simulated disk refuses: {errno}"))?;
        let clients = Clients::new(EXPORT, SIZE.0, world.dice("clients"));
        let mut pair = Self {
            seed,
            speed,
            reached: None,
            world,
            nodes,
            clients,
            settings: FIRST,
            link_up: true,
            requests: 0,
            asked: BTreeMap::new(),
            later: Vec::new(),
        };
        pair.set_link();
        for node in &mut pair.nodes {
            node.start(Moment::ZERO).map_err(|error| error.error)?;
        }
        pair.begin()?;
        pair.clients.set_rate(pair.settings.writes_per_second, pair.world.now());
        Ok(pair)
    }

    /// The first node becomes primary, and replicates.
    fn begin(&mut self) -> Result<(), String> {
        self.pass(Duration::from_secs(2), || true);
        let (promoted, mut told) = oneshot::channel();
        let body = serde_json::json!({ "force": false, "confirmed": false });
        self.ask(Asked::post(0, paths::PROMOTE, &body, Purpose::Change(promoted)));
        let end = self.world.now() + BEGIN_WITHIN;
        while !self.nodes[0].replicates(GROUP) {
            if let Ok(Err(error)) = told.try_recv() {
                return Err(format!("{} is not promoted: {}", NODES[0], error.error));
            }
            if self.world.now() >= end {
                return Err(format!("the pair is not in sync after {BEGIN_WITHIN:?}"));
            }
            self.pass(Duration::from_millis(100), || true);
        }
        Ok(())
    }

    /// Gives the link the profile of the settings.
    pub(crate) fn set_link(&self) {
        let Settings { rtt_ms, rate_mbit, loss_percent, .. } = self.settings;
        let rtt = Duration::from_secs_f64(rtt_ms / 1000.0);
        let rate = Rate((rate_mbit * 1e6 / 8.0) as u64);
        let loss = Ppm((loss_percent * 10_000.0) as u32);
        let profile = Profile { loss, ..Profile::wan(rtt, rate) };
        self.world.set_link(&self.nodes[0].machine, &self.nodes[1].machine, &profile);
    }

    /// Lets so much virtual time pass, as long as it is to go on. Whether all of it passed.
    pub(crate) fn pass(&mut self, span: Duration, mut goes_on: impl FnMut() -> bool) -> bool {
        let end = self.world.now() + span;
        self.inspect();
        loop {
            self.settle(false);
            if self.world.now() >= end {
                return true;
            }
            if !goes_on() {
                return false;
            }
            self.advance(end);
        }
    }

    /// Answers what is requested while time is paused: without time that passes if that is possible, and otherwise with the least.
    pub(crate) fn answer(&mut self) {
        self.settle(true);
        let end = self.world.now() + PAUSED_MAX;
        while !(self.asked.is_empty() && self.later.is_empty()) && self.world.now() < end {
            self.advance(end);
            self.settle(false);
        }
        let late = std::mem::take(&mut self.later).into_iter().map(|(_, asked)| asked);
        let late = std::mem::take(&mut self.asked).into_values().chain(late);
        for asked in late.collect::<Vec<_>>() {
            let text = format!("{} has not responded, because time is paused", NODES[asked.node]);
            let error = ApiError::new("slow", text, "let time pass, then look at the status");
            self.finish(asked, Err(error));
        }
    }

    /// To the next event, at most to `end`.
    fn advance(&self, end: Moment) {
        let serves = self.nodes[self.clients.at()].is_primary(GROUP);
        let nodes = self.nodes.iter().map(Node::next);
        let later = self.later.iter().map(|(at, _)| *at);
        let due = nodes.chain(later).chain([self.clients.next(serves)]).min();
        self.world.advance_until(due.map_or(end, |due| due.min(end)));
    }

    /// Everything that can go on does, with `control` also the control planes although their time has not come.
    fn settle(&mut self, control: bool) {
        let now = self.world.now();
        let due = |(at, _): &mut (Moment, Asked)| *at <= now;
        for (_, asked) in self.later.extract_if(.., due).collect::<Vec<_>>() {
            self.ask(asked);
        }
        loop {
            let mut did = false;
            for node in 0..self.nodes.len() {
                let (goes_on, responses) = self.nodes[node].step(now, control);
                did |= goes_on;
                responses.iter().for_each(|response| self.responded(response));
            }
            self.refuse_for_the_dead();
            self.step_clients(now);
            if !did {
                return;
            }
        }
    }

    /// The clients go on, at the node that serves.
    fn step_clients(&mut self, now: Moment) {
        let at = self.clients.at();
        if !self.nodes[at].is_primary(GROUP) && self.nodes[1 - at].is_primary(GROUP) {
            self.clients.go_to(1 - at, now);
        }
        let node = &self.nodes[self.clients.at()];
        let machine = node.is_primary(GROUP).then_some(&node.machine);
        self.clients.step(&self.world, machine, now);
    }

    /// Sends a request to a daemon.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.requests += 1;
        let request = (asked.method.as_str(), asked.path.as_str(), asked.body.as_slice());
        match self.nodes[asked.node].request(self.requests, request) {
            Ok(()) => drop(self.asked.insert(self.requests, asked)),
            Err(error) => self.finish(asked, Err(error)),
        }
    }

    /// Sends a caller the state of the simulation.
    pub(crate) fn look(&mut self, reply: oneshot::Sender<Simulation>) {
        let at = self.clients.at();
        let node = if self.nodes[at].runs() { at } else { 1 - at };
        self.ask(Asked::status(node, Purpose::Look(reply)));
    }

    /// Asks the nodes with a new disk whether the copy on it is complete, also if no page looks.
    fn inspect(&mut self) {
        let is_asked = |node| {
            let inspects = |it: &Asked| it.node == node && matches!(it.purpose, Purpose::Inspect);
            self.asked.values().any(inspects)
        };
        let open = |node: &usize| self.nodes[*node].fills_disk() && !is_asked(*node);
        for node in (0..self.nodes.len()).filter(open).collect::<Vec<_>>() {
            self.ask(Asked::status(node, Purpose::Inspect));
        }
    }

    /// Requests to a node without a daemon end.
    pub(crate) fn refuse_for_the_dead(&mut self) {
        let dead = |asked: &Asked| !self.nodes[asked.node].runs();
        if !self.asked.values().any(dead) {
            return;
        }
        let all = std::mem::take(&mut self.asked);
        for (number, asked) in all {
            let node = &self.nodes[asked.node];
            if node.runs() {
                self.asked.insert(number, asked);
            } else {
                let error = node.no_daemon();
                self.finish(asked, Err(error));
            }
        }
    }

    fn responded(&mut self, response: &Response) {
        let Some(mut asked) = self.asked.remove(&response.request()) else { return };
        let in_use = response.status() >= 400
            && !asked.again
            && ApiError::of_response(response.status(), response.body()).code == "in-use";
        if in_use {
            // As an operator who stops the applications first.
            asked.again = true;
            let now = self.world.now();
            self.clients.away = true;
            self.clients.disconnect(now);
            self.later.push((now + LEFT_WITHIN, asked));
            return;
        }
        self.finish(asked, Ok((response.status(), response.body().to_vec())));
    }

    /// What a daemon did on request, for what is around it.
    fn done(&mut self, node: usize, path: &str) {
        let is = |template| paths::of_group(template, GROUP) == path;
        if is(paths::PROMOTE) {
            // As applications that an operator starts again there.
            self.clients.go_to(node, self.world.now());
        } else if is(paths::MEMBER_REPLACE) || is(paths::MEMBER_ACCEPT) {
            self.nodes[node].uses_disk();
        }
    }

    /// A request has ended.
    fn finish(&mut self, asked: Asked, answer: Answer) {
        if asked.again {
            self.clients.away = false;
        }
        if matches!(answer, Ok((0..400, _))) {
            self.done(asked.node, &asked.path);
        }
        // A caller that is gone waits for nothing.
        match asked.purpose {
            Purpose::Call(reply) => drop(reply.send(answer)),
            Purpose::Change(reply) => drop(reply.send(match answer {
                Ok((0..400, _)) => Ok(String::new()),
                Ok((status, body)) => Err(ApiError::of_response(status, &body)),
                Err(error) => Err(error),
            })),
            Purpose::Look(reply) => {
                if let Some(group) = group_of(answer) {
                    self.settings.mode = group.mode.requested;
                }
                drop(reply.send(self.shown()));
            }
            Purpose::Inspect => {
                if let Some(group) = group_of(answer) {
                    self.nodes[asked.node].reported(&group);
                }
            }
        }
    }

    fn shown(&self) -> Simulation {
        let now = self.world.now();
        Simulation {
            time_ms: now.since(Moment::ZERO).as_millis() as u64,
            speed: self.speed,
            reached: self.reached,
            settings: self.settings,
            link_up: self.link_up,
            nodes: self.nodes.iter().map(|node| node.shown(GROUP)).collect(),
            clients: self.clients.tell(NODES[self.clients.at()], now),
            seed: self.seed,
        }
    }
}

impl Drop for Pair {
    /// What waits in a world holds it: the processes end first.
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill("the simulation ended");
        }
    }
}

/// The group of a status; none if no status arrived, or the group is not served.
fn group_of(answer: Answer) -> Option<GroupStatus> {
    let (_, body) = answer.ok()?;
    serde_json::from_slice::<Status>(&body).ok()?.groups.pop()
}

/// The configuration file of both nodes.
fn config() -> String {
    let mut out = String::new();
    for (name, [a, b, c, d]) in NODES.iter().zip(ADDRESSES) {
        out += &format!("[node.{name}]\naddress = \"{a}.{b}.{c}.{d}:7121\"\n\n");
    }
    let [paris, lyon] = NODES;
    out += &format!("[group.{GROUP}]\nnodes = [\"{paris}\", \"{lyon}\"]\nmode = \"async\"\n\n");
    out +=
        &format!("[group.{GROUP}.volume.{VOLUME}]\nsize = \"{}MiB\"\nblank = true\n", SIZE.0 >> 20);
    out += &format!("members.{paris} = [\"{MEMBER}\"]\nmembers.{lyon} = [\"{MEMBER}\"]\n");
    out
}
