// SPDX-License-Identifier: Apache-2.0
//! One real daemon in a world of its own. The caller chooses each step, and plays the peer if the group has one; this room promises
//! what the stories of two nodes promise, as far as it can be judged with one.
//!
//! ```text
//!   bytes ── steps of the caller ──> users (clients, programs), orders, faults, time ──> daemon
//!                                    model <── responses
//! ```
//! Absent on purpose: dice for what happens. A world is the same for the same steps.

mod finish;
mod users;

use crate::model::{Model, Promise, Violation};
use crate::pair::{Node, Scenario};
use crate::panics::{note_panics_too, noted};
use helio_daemon::stepped::Census;
use helio_driver::{Address, Errno};
use helio_netmodel::Dice;
use helio_units::{Moment, State};
use helio_world::{
    FileFault, MachineOptions, Response, SimListener, SimMachine, SimStream, Upset, World,
};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use users::{Opened, User};

/// The group whose volume `data` is judged.
pub(crate) const GROUP: &str = "db";
/// A daemon on a sound disk serves within that time.
const SERVES: Duration = Duration::from_secs(10);
/// A daemon that cannot start now is started again so often.
const STARTS: usize = 8;
/// How often it is looked whether something that is waited for is there.
pub(super) const LOOKS: Duration = Duration::from_millis(5);

/// Which groups the node has. Each has the volumes `data` and `junk`; the model judges `db/data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The group `db` of one node.
    Alone,
    /// `db` with a peer that the daemon connects to.
    Dials,
    /// `db` with a peer that connects to the daemon.
    Accepts,
    /// `db` with a peer that the daemon connects to, and `spool` of one node.
    Both,
}

/// Where a connection without judgement goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The socket for NBD clients.
    Nbd,
    /// The port for peers, from the machine of the peer.
    Peer,
}

/// Something that goes wrong between the kernel and the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Requests that no sound kernel makes, and such that the daemon does not serve.
    Strange,
    /// An administrator aborts a connection.
    Abort,
    /// Another program unmounts a file, lazily.
    Unmount,
    /// The same by force.
    UnmountByForce,
    /// Another program releases a loop device.
    Detach,
    /// The next devices cannot be made.
    Refusals,
}

/// See the module.
pub struct Single {
    world: World,
    shape: Shape,
    node: Node,
    /// The machine of the peer. No daemon runs on it.
    peer: SimMachine,
    model: Model,
    /// The node kept the role that it began with, and no request gave up what it had confirmed.
    judged: bool,
    /// Calls on the member failed.
    failed: bool,
    users: BTreeMap<usize, User>,
    programs: BTreeMap<usize, Opened>,
    requests: u64,
    /// Requests to the control plane that have no response yet, and whether each may give data up.
    open: BTreeMap<u64, bool>,
    responses: Vec<Response>,
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Single({:?})", self.shape)
    }
}

const fn serves(detail: String) -> Violation {
    Violation::new(Promise::Serves, detail)
}

impl Single {
    /// A daemon that serves the group `db` as primary.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn new(shape: Shape) -> Result<Self, Violation> {
        note_panics_too();
        let _earlier = noted();
        let world = World::new(0, false).untold();
        let groups: &[_] = match shape {
            Shape::Alone => &[(GROUP, Some(0))],
            Shape::Dials | Shape::Accepts => &[(GROUP, None)],
            Shape::Both => &[(GROUP, None), ("spool", Some(0))],
        };
        let scenario = Scenario::plain(groups);
        let refused = |errno: Errno| Violation::starts(format!("the disk of a machine: {errno}"));
        let node = Node::new(&world, shape.index(), &scenario).map_err(refused)?;
        let file = scenario.file(&[Vec::new(), Vec::new()]);
        let mut dice = world.dice("members");
        node.set_up(shape.index(), &scenario, &file, &mut dice).map_err(refused)?;
        let peer = world.machine(MachineOptions {
            name: "the peer".to_owned(),
            address: address_of(&scenario, 1 - shape.index())?.ip(),
            disk: 0,
            calendar: Duration::from_secs(1_700_000_000),
        });
        let sectors = scenario.groups[0].volumes[0].size.0 / 512;
        let mut single = Self {
            world,
            shape,
            node,
            peer,
            model: Model::new(&[sectors]),
            judged: false,
            failed: false,
            users: BTreeMap::new(),
            programs: BTreeMap::new(),
            requests: 0,
            open: BTreeMap::new(),
            responses: Vec::new(),
        };
        single.node.start(single.world.now()).map_err(Violation::starts)?;
        if shape != Shape::Alone {
            let body = br#"{"force":true,"confirmed":true}"#.to_vec();
            single.order("POST", format!("/v2/groups/{GROUP}/promote"), body);
        }
        let is_primary = |single: &mut Self| single.is_primary();
        if single.wait(SERVES, is_primary)? {
            single.responses.clear();
            single.judged = true;
            return Ok(single);
        }
        let told =
            single.responses.iter().map(|it| String::from_utf8_lossy(it.body()).into_owned());
        Err(serves(format!("the node does not become primary: {}", told.collect::<String>())))
    }

    /// Whether the node serves `db` as primary now.
    #[must_use]
    pub fn is_primary(&mut self) -> bool {
        self.state().is_some()
    }

    /// The state of `db` if the node serves it as primary.
    #[must_use]
    pub fn state(&mut self) -> Option<State> {
        self.node.daemon.as_mut()?.serving(GROUP).map(|serving| serving.state)
    }

    /// How many requests about the judged volume were acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.model.acknowledgements()
    }

    /// Whether contents are judged.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.judged && !self.may_give_up()
    }

    /// Whether a request without a response may give data up.
    fn may_give_up(&self) -> bool {
        self.open.values().any(|gives_up| *gives_up)
    }

    /// The virtual time since the world began.
    #[must_use]
    pub fn passed(&self) -> Duration {
        self.world.now().since(Moment::ZERO)
    }

    /// What the shard of the daemon holds, while it serves.
    #[must_use]
    pub fn census(&self) -> Option<Census> {
        self.node.daemon.as_ref()?.census()
    }

    /// Lets so much time pass.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn pass(&mut self, span: Duration) -> Result<(), Violation> {
        let end = self.world.now() + span;
        self.world.alarm(end);
        while self.world.now() < end {
            self.settle()?;
            let daemon = self.node.daemon.as_ref().map_or(Moment::NEVER, |it| it.next());
            self.world.advance_until(daemon.min(self.users_due()));
        }
        self.settle()
    }

    /// Lets time pass until something is there, so long at most. Returns whether it is.
    fn wait(
        &mut self,
        most: Duration,
        mut is_there: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, Violation> {
        let (until, mut looks) = (self.world.now() + most, LOOKS);
        loop {
            if is_there(self) {
                return Ok(true);
            }
            if self.world.now() >= until {
                return Ok(false);
            }
            self.pass(looks)?;
            looks = (looks * 2).min(LOOKS * 100);
        }
    }

    /// Everything that can go on does.
    fn settle(&mut self) -> Result<(), Violation> {
        let now = self.world.now();
        loop {
            if self.node.has_new_failed_flushes()
                && self.node.has_failed_flushes_of(vec![self.member()])
            {
                self.model.flush_failed(0);
            }
            let progress = self.node.step(now)?;
            for response in &progress.responses {
                let gives_up = self.open.remove(&response.request()) == Some(true);
                self.judged &= !gives_up || is_refusal(response);
            }
            self.responses.extend(progress.responses);
            if progress.ended.is_some() {
                self.lose_requests();
            }
            // A node that a peer or an order made secondary may take what its peer has.
            let serves = self.node.daemon.as_ref().filter(|daemon| daemon.census().is_some());
            self.judged &= serves.is_none_or(|daemon| daemon.is_primary(GROUP)) || self.is_alone();
            self.step_users(now)?;
            self.step_programs(now)?;
            if let Some(why) = self.world.device_violation() {
                return Err(Violation::new(Promise::Protocol, why));
            }
            if let Some(panic) = noted() {
                return Err(panic);
            }
            if !progress.did {
                return Ok(());
            }
        }
    }

    fn is_alone(&self) -> bool {
        self.shape == Shape::Alone
    }

    fn member(&self) -> PathBuf {
        PathBuf::from("/disks/0/db-data.img")
    }

    /// Opens a connection that is not judged.
    #[must_use]
    pub fn open(&self, door: Door) -> SimStream {
        match door {
            Door::Nbd => self.world.connect(&self.node.machine, &nbd_socket()),
            Door::Peer => self.world.connect(&self.peer, &self.address(self.shape.index())),
        }
    }

    /// Listens as the peer does.
    ///
    /// # Errors
    /// It listens already.
    pub fn listen(&self) -> Result<SimListener, Violation> {
        let address = self.address(1 - self.shape.index());
        self.world
            .listen(&self.peer, &address)
            .map_err(|errno| Violation::starts(errno.to_string()))
    }

    fn address(&self, node: usize) -> Address {
        Address::Inet(([127, 0, 0, node as u8 + 1], 7121).into())
    }

    /// Sends a request to the control plane. Returns its number; none if no daemon runs.
    pub fn order(&mut self, method: &'static str, path: String, body: Vec<u8>) -> Option<u64> {
        let daemon = self.node.daemon.as_mut()?;
        self.requests += 1;
        self.open.insert(self.requests, false);
        daemon.request(self.requests, method, path, body);
        Some(self.requests)
    }

    /// That request may give up what the node had confirmed. From now on contents are not judged, unless it is refused.
    pub fn may_lose(&mut self, request: u64) {
        if let Some(gives_up) = self.open.get_mut(&request) {
            *gives_up = true;
        }
    }

    /// The daemon that requests were sent to is gone.
    fn lose_requests(&mut self) {
        self.judged &= !self.may_give_up();
        self.open.clear();
    }

    /// Responses of the control plane since the last call.
    pub fn responses(&mut self) -> Vec<Response> {
        std::mem::take(&mut self.responses)
    }

    /// How many requests to the control plane wait for their response.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.open.len()
    }

    /// Kills the daemon, as SIGKILL does.
    pub fn kill(&mut self) {
        self.node.kill();
        self.lose_requests();
    }

    /// Cuts the power of the machine. It has power again at once; the daemon does not run.
    ///
    /// # Errors
    /// The promise that was broken before.
    pub fn cut_power(&mut self) -> Result<(), Violation> {
        self.node.cut_power();
        self.lose_requests();
        self.settle()?;
        self.node.boot();
        self.model.power_cut();
        Ok(())
    }

    /// Starts the daemon if none runs.
    ///
    /// # Errors
    /// It does not start, and nothing explains that.
    pub fn start(&mut self) -> Result<(), Violation> {
        for _ in 0..STARTS {
            if self.node.daemon.is_some() {
                return Ok(());
            }
            let now = self.world.now();
            match self.node.start(now) {
                // What the one before left may hold its files for a while.
                Err(why) => self.node.why = Some(why),
                Ok(()) => return Ok(()),
            }
            self.pass(Duration::from_secs(1))?;
        }
        if self.node.has_faults {
            return Ok(());
        }
        Err(Violation::starts(self.node.why.clone().unwrap_or_default()))
    }

    /// Does what SIGTERM does.
    pub fn stop(&mut self) {
        if let Some(daemon) = &mut self.node.daemon {
            daemon.stop();
        }
    }

    /// Makes the next calls of one kind on the member of `data` fail.
    pub fn fail(&mut self, fault: FileFault, times: u64) {
        (self.failed, self.node.has_faults) = (true, true);
        // A file that does not exist does not fail.
        let _ = self.node.machine.fail(&self.member(), fault, times);
    }

    /// Operations on the member of `data` do not end until [`Single::resume`].
    pub fn hang(&mut self) {
        self.node.has_faults = true;
        self.node.disks_respond_since = Moment::NEVER;
        let _ = self.node.machine.hang(&self.member());
    }

    /// Operations end again.
    pub fn resume(&mut self) {
        self.node.disks_respond_since = self.world.now();
        self.node.machine.resume();
    }

    /// Something goes wrong with devices. Numbers choose which of them, and how.
    pub fn trouble(&mut self, what: Trouble, choice: u64) {
        let mut dice = Dice::new(choice);
        let upset = match what {
            Trouble::Strange => Upset::Strange,
            Trouble::Abort => Upset::Abort,
            Trouble::Unmount => Upset::Unmount,
            Trouble::UnmountByForce => Upset::UnmountByForce,
            Trouble::Detach => Upset::Detach,
            Trouble::Refusals => [Upset::NoFuse, Upset::NoLoop, Upset::LoopFails, Upset::Version]
                [choice as usize % 4],
        };
        let _none_is_attached = self.node.machine.upset(upset, &mut dice);
    }

    /// The kernel sends a request about the attached volume `junk`, with a body of any kind.
    pub fn message(&mut self, opcode: u32, body: &[u8]) {
        let place = (GROUP, "junk");
        let _none_is_attached = self.world.send_any(&self.node.machine, place, (opcode, body));
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        // What waits in the world for an event holds it.
        self.node.kill();
    }
}

impl Shape {
    /// The number of the node that the daemon is: the first one connects to the second one.
    const fn index(self) -> usize {
        match self {
            Self::Accepts => 1,
            Self::Alone | Self::Dials | Self::Both => 0,
        }
    }
}

/// Whether what a request asks for is not carried out. A response that allows a retry may be about work that goes on.
fn is_refusal(response: &Response) -> bool {
    (400..500).contains(&response.status())
}

fn nbd_socket() -> Address {
    Address::Unix(PathBuf::from("/state/nbd.sock"))
}

fn address_of(scenario: &Scenario, node: usize) -> Result<std::net::SocketAddr, Violation> {
    scenario.addresses()[node]
        .parse()
        .map_err(|_| Violation::starts("an address of a node".to_owned()))
}
