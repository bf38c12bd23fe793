// SPDX-License-Identifier: Apache-2.0
//! The shard: one thread that owns clients, engines, members and peer connections of its groups, and runs each
//! request to completion.
//!
//! ```text
//!   driver.wait ─completions─> dispatch ─events─> engines ─settle─> effects ─> driver.submit
//!        ^                                                                          │
//!        └──────────────────────────────────────────────────────────────────────────┘
//! ```
//! The control plane lives on threads of its own and asks through a bounded queue and the driver's waker. A group
//! lives on one shard; today there is one shard.

mod ask;
mod asked;
mod attached;
mod before;
mod callers;
pub(crate) mod census;
mod clients;
mod clock;
mod copies;
mod crowd;
mod dials;
mod events;
mod explain;
mod group;
mod guard;
mod handshake;
mod introduce;
mod isolate;
mod link;
mod log;
mod looks;
mod metadata;
mod payloads;
mod plan;
mod release;
mod replace;
mod requests;
mod reverse;
mod rota;
mod route;
mod serve;
mod set;
mod show;
pub(crate) mod step;
mod stop;
mod strangers;
mod stream;
mod token;
mod used;

use crate::events::Hub;
use crate::failed::Failures;
use anyhow::{Context, Result};
pub(crate) use ask::{
    Ask, DeviceAsk, LookAsk, LossAsk, MemberAsk, NodeAsk, ServiceAsk, Shown, ShownGroups, TraceAsk,
};
use attached::Attached;
pub(crate) use attached::{ATTACHED, End, Hold, Offer, Plug};
pub(crate) use before::Before;
use clients::Clients;
pub(crate) use clients::guests_of;
pub(crate) use clients::{Closing, ListedClients, Protection, export_of, is_in_copy};
pub(crate) use clock::Clock;
use copies::Copies;
use events::Watch;
pub(crate) use explain::Losing;
use group::{CommandReply, Group, User, Wanted};
use guard::Door;
pub(crate) use guard::Guard;
use helio_driver::{Address, Completion, Driver, Host, Op, Outcome, Socket, end_the_vanished};
use helio_engine::{Command, Refusal};
use helio_plant::{Plant, planted};
use helio_units::Moment;
pub(crate) use log::{Port, RefusalLog};
pub(crate) use metadata::Metadata;
use payloads::{Pools, clients_memory};
pub(crate) use plan::{
    GroupPlan, Listeners, MemberPlan, MemberStore, Outbox, Settings, VolumePlan, listen,
};
pub(crate) use release::Released;
pub(crate) use replace::Seat;
use requests::{Asker, Ended, Io, Origin, Proof, Requests};
use rota::Rota;
pub(crate) use route::Dialler;
pub(crate) use set::{Adding, Removal, RemovedMember, Room, SetAsk};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
pub(crate) use step::Turn;
use stop::Stop;
pub(crate) use strangers::STRANGERS_MAX;
use strangers::Strangers;
use token::{Kind, token, unpack};

/// Last words on a connection given up must be taken by then.
const PARTING_PATIENCE: Duration = Duration::from_secs(1);

/// A listener that failed to accept, for want of descriptors say, rests that long: at once it would only fail again.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Two random numbers for a group: its incarnation and its seed.
///
/// # Errors
/// The machine has no random numbers.
pub(crate) fn dice(host: &Host) -> std::io::Result<(u64, u64)> {
    let both = u128::from_ne_bytes(host.random_bytes()?);
    Ok((both as u64, (both >> 64) as u64))
}

/// A connection given up whose last words are on their way.
#[derive(Debug)]
struct Leaving {
    socket: Socket,
    until: Moment,
}

/// See the drawing above.
pub(crate) struct Shard<D: Driver> {
    driver: D,
    clock: Clock,
    watch: Watch,
    groups: Vec<Group>,
    rota: Rota,
    clients: Clients,
    attached: Attached,
    requests: Requests,
    copies: Copies,
    strangers: Strangers,
    client_listeners: Vec<Socket>,
    client_addresses: Vec<Address>,
    peer_listener: Option<Socket>,
    pools: Pools,
    /// Groups whose connection waits for a buffer.
    starving: Vec<usize>,
    asks: Receiver<Ask>,
    /// What was taken from there, and is done once the batch is dispatched.
    asked: Vec<Ask>,
    leaving: Vec<Option<Leaving>>,
    wanted: Vec<Wanted>,
    /// Listeners that rest, and until when.
    resting: Vec<(Kind, usize, Moment)>,
    /// Groups of this node that are not served.
    failures: Arc<Failures>,
    stop: Stop,
}

impl<D: Driver> Shard<D> {
    /// A shard over its plans. Incarnations and seeds are drawn by the machine: they differ at every start.
    ///
    /// # Errors
    /// An address cannot be listened on; the message names it. Or the machine has no random numbers.
    pub(crate) fn new(
        driver: D,
        mut plans: Vec<GroupPlan>,
        listeners: Listeners,
        asks: Receiver<Ask>,
        (hub, failures): (Arc<Hub>, Arc<Failures>),
    ) -> Result<Self> {
        let host = Host::clone(driver.host());
        let clock = Clock::new(&host);
        let pools = Pools::new(listeners.buffer_memory);
        let most = pools.fit(plans.iter().map(|plan| &plan.engine));
        plans.iter_mut().for_each(|plan| plan.engine.queue.automatic_most = most);
        let mut groups = Vec::new();
        for (index, plan) in plans.into_iter().enumerate() {
            let now = clock.now();
            let dice = dice(&host).context("no random numbers")?;
            let time = (now, clock.wall(now));
            groups.push(Group::new(index, plan, dice, time, pools.received.clone()));
        }
        let door = Door::of(groups.iter().map(|g| &g.link.guard));
        let at = |address| listen(&host, address);
        let client_listeners = listeners.clients.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let tcp = listeners.clients.iter().zip(&client_listeners).filter(|(it, _)| is_tcp(it));
        for listener in tcp.filter_map(|(_, listener)| listener.descriptor()) {
            end_the_vanished(listener)?;
        }
        let peer_listener = listeners.peers.as_ref().map(at).transpose()?;
        Ok(Self {
            driver,
            clock,
            watch: Watch::new(hub, groups.len()),
            clients: Clients::new(
                listeners.most_clients,
                clients_memory(listeners.buffer_memory),
                listeners.protection,
                &groups,
            ),
            attached: Attached::default(),
            requests: Requests::default(),
            copies: Copies::new(listeners.most_copies),
            rota: Rota::new(groups.len()),
            groups,
            strangers: Strangers::new(door),
            client_listeners,
            client_addresses: listeners.clients.clone(),
            peer_listener,
            pools,
            starving: Vec::new(),
            asks,
            asked: Vec::new(),
            leaving: Vec::new(),
            wanted: Vec::new(),
            resting: Vec::new(),
            failures,
            stop: Stop::No,
        })
    }

    /// Notices what a turn changed about a group.
    fn look_at(&mut self, index: usize, now: Moment) {
        let group = &self.groups[index];
        self.clients.role_seen(index, group.engine.view().is_primary(), &mut self.driver);
        self.attached.role_seen(index, &group.engine, &mut self.driver);
        let Self { groups, watch, clients, clock, .. } = self;
        groups[index].guarded(|group| {
            watch.look(index, group, clients, (clock, now));
            group.keep_verified();
        });
        self.go_on_releasing(index);
    }

    fn stir_clients_groups(&mut self) {
        let now = self.clock.now();
        for index in self.attached.changed() {
            let devices = self.attached.writers(index);
            let by = (!devices.is_empty()).then(|| format!("attached as {}", devices.join(", ")));
            self.rota.stir(index);
            self.groups[index].guarded(|group| group.tell(now, helio_engine::Event::Held { by }));
            self.groups[index].used_by(User::Devices, self.attached.used(index), now);
        }
        for index in self.clients.changed() {
            self.rota.stir(index);
            self.groups[index].used_alone(self.clients.are_alone(index));
            self.groups[index].used_by(User::Clients, self.clients.used(index), now);
        }
        let Self { requests, rota, .. } = self;
        requests.groups_told().for_each(|index| rota.stir(index));
    }

    fn turn_group(&mut self, index: usize, now: Moment) {
        let Self { groups, driver, stop, .. } = self;
        let group = &mut groups[index];
        group.guarded(|group| {
            group.look_at_metadata(now, driver);
            group.look_at_before(now);
        });
        if group.stopped {
            group.guarded(|group| {
                group.look_at_finishing(now);
                group.free_late();
            });
            return;
        }
        group.guarded(|group| {
            if let Some(since) = group.engine.view().awaits_check()
                && let Some(began) = group.link.check(since, now, group.config.peer_timeout)
            {
                group.tell(now, helio_engine::Event::DialFailed { began });
            }
            if let Some(since) = group.engine.view().has_news_for_peer() {
                group.link.seek(since, now);
            }
            if group.dials(*stop != Stop::No) {
                group.link.dial_if_due(now, driver);
            }
            if let Some(figures) = group.link.measure_if_due(now) {
                let (round_trip, rate) = (figures.round_trip, figures.delivery_rate);
                group.tell(now, helio_engine::Event::LinkMeasured { round_trip, rate });
            }
        });
        // Answering may free a client to send more, which is the same batch still.
        while self.settle(index) && !self.wanted.is_empty() {
            self.grant(index);
        }
        // What clients told this group meanwhile it knows; others may have been told something too.
        let Self { requests, rota, .. } = self;
        let told = requests.groups_told().filter(|told| *told != index);
        told.for_each(|told| rota.stir(told));
        let Self { groups, driver, .. } = self;
        groups[index].guarded(|group| {
            group.hear(now);
            group.link.receive(driver);
        });
        if self.settle(index) && !self.wanted.is_empty() {
            self.grant(index);
        }
    }

    /// Settles a group. Returns whether what it wants may be done: nothing of what one that panicked wanted.
    fn settle(&mut self, index: usize) -> bool {
        let Self { groups, clock, pools, driver, wanted, .. } = self;
        groups[index].guarded(|group| group.settle(clock, &pools.written, driver, wanted)).is_some()
    }

    /// Does what a group wanted of the shard.
    fn grant(&mut self, index: usize) {
        let now = self.clock.now();
        let mut touched: Vec<Origin> = Vec::new();
        for wanted in std::mem::take(&mut self.wanted) {
            match wanted {
                Wanted::Answer { request, answer, data } => {
                    let proof = Proof::Volume(answer, data);
                    touched.extend(self.complete(request.0 as usize, proof, now));
                }
                Wanted::Part { socket, words } => self.part(socket, words),
                Wanted::Dismiss | Wanted::Stopped => {
                    self.clients.dismiss(Some(index), &mut self.driver);
                    let why = "the volume is no longer served on this node";
                    self.attached.dismiss(Some(index), why, &mut self.driver);
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        if planted(Plant::WakeLost) {
            touched.truncate(1);
        }
        for origin in touched {
            self.wake(origin);
        }
    }

    /// Ends a request by its proof, and has its front end reply. Returns whose it was.
    fn complete(&mut self, request: usize, proof: Proof, now: Moment) -> Option<Origin> {
        let Self { clients, attached, requests, groups, driver, pools, .. } = self;
        let pool = &pools.written;
        let mut io = Io { requests, groups, driver, pool, now };
        let Ended { asker, bytes, reply } = io.complete(request, proof)?;
        match asker {
            Asker::Client { slot, request } => {
                clients.ended((slot, &request), (bytes, reply), io.groups);
            }
            Asker::Device { slot, unique, work } => {
                attached.ended(slot, (unique, &work), (bytes, reply));
            }
        }
        Some(asker.origin())
    }

    /// Goes on with a client or device: a request of it ended, or there may be memory for one.
    fn wake(&mut self, origin: Origin) {
        let now = self.clock.now();
        match origin {
            Origin::Client(slot) => {
                let (clients, mut io) = self.clients_and_io(now);
                clients.wake(slot, &mut io);
            }
            Origin::Device(slot) => {
                let (attached, mut io) = self.attached_and_io(now);
                attached.wake(slot, &mut io);
            }
        }
    }

    fn attached_and_io(&mut self, now: Moment) -> (&mut Attached, Io<'_>) {
        let Self { attached, requests, groups, driver, pools, .. } = self;
        let pool = &pools.written;
        (attached, Io { requests, groups, driver, pool, now })
    }

    fn clients_and_io(&mut self, now: Moment) -> (&mut Clients, Io<'_>) {
        let Self { clients, requests, groups, driver, pools, .. } = self;
        let pool = &pools.written;
        (clients, Io { requests, groups, driver, pool, now })
    }

    /// Lets a connection go once its last words are taken.
    fn part(&mut self, socket: Socket, words: Option<Op>) {
        self.driver.cancel(&socket);
        let Some(op) = words else { return };
        let slot = self.leaving.iter().position(Option::is_none).unwrap_or_else(|| {
            self.leaving.push(None);
            self.leaving.len() - 1
        });
        self.leaving[slot] = Some(Leaving { socket, until: self.clock.now() + PARTING_PATIENCE });
        self.driver.submit(token(Kind::PartingSend, slot, 0), op);
    }

    fn expire_leaving(&mut self, now: Moment) {
        for slot in &mut self.leaving {
            if let Some(gone) = slot.as_mut().filter(|l| now >= l.until) {
                // Its send ends now, and that frees the slot.
                gone.until = Moment::NEVER;
                self.driver.cancel(&gone.socket);
            }
        }
    }

    fn dispatch(&mut self, completion: Completion) {
        let (kind, index, detail) = unpack(completion.token);
        let now = self.clock.now();
        match (kind, completion.outcome) {
            (Kind::Woken, _) => self.take_asked(),
            (Kind::AcceptClient | Kind::AcceptPeer, Outcome::Accept(result)) => {
                self.accepted(kind, index, result, now)
            }
            (Kind::ClientRecv, Outcome::Recv { buffer, result }) => {
                let (clients, mut io) = self.clients_and_io(now);
                clients.received((index, detail), buffer, result.ok(), &mut io);
            }
            (Kind::ClientSend, Outcome::Send { pieces, result }) => {
                let (clients, mut io) = self.clients_and_io(now);
                clients.sent((index, detail), pieces, result.is_ok(), &mut io);
            }
            (Kind::ClientShake, Outcome::Compute) => {
                let (clients, mut io) = self.clients_and_io(now);
                clients.shaken((index, detail), &mut io);
            }
            (Kind::Request, outcome) => {
                if let Some(origin) = self.complete(index, Proof::Store(outcome), now) {
                    self.wake(origin);
                }
            }
            (Kind::AttachReady, _) => {
                let (attached, mut io) = self.attached_and_io(now);
                attached.ready(index, detail, &mut io);
            }
            (Kind::Store | Kind::StoreSync, outcome) => {
                self.rota.stir(index);
                let Self { groups, pools, driver, .. } = self;
                groups[index].guarded(|group| {
                    group.store_done(detail, outcome, now, (&pools.written, driver))
                });
            }
            (Kind::Stamp, outcome) => {
                self.rota.stir(index);
                let Self { groups, driver, .. } = self;
                groups[index].guarded(|group| group.stamp_done(detail, &outcome, now, driver));
            }
            (Kind::Metadata, outcome) => {
                self.rota.stir(index);
                let Self { groups, driver, .. } = self;
                groups[index].guarded(|group| group.metadata_done(detail, &outcome, now, driver));
            }
            (Kind::Before, outcome) => {
                self.rota.stir(index);
                let Self { groups, pools, driver, .. } = self;
                groups[index].guarded(|group| {
                    group.before_done(detail, outcome, now, (&pools.written, driver))
                });
            }
            (Kind::LinkConnect | Kind::LinkRecv | Kind::LinkSend, outcome) => {
                self.link_done(index, detail, outcome, now)
            }
            (Kind::PartingSend, _) => self.leaving[index] = None,
            (Kind::StrangerRecv | Kind::StrangerSend | Kind::StrangerShake, outcome) => {
                self.stranger_done(kind, (index, detail), outcome, now);
            }
            (kind, outcome) => panic!("a {kind:?} cannot end as {outcome:?}"),
        }
    }

    fn accepted(
        &mut self,
        kind: Kind,
        index: usize,
        result: Result<helio_driver::Accepted, helio_driver::OpError>,
        now: Moment,
    ) {
        match result {
            Ok(accepted) if kind == Kind::AcceptClient => {
                // Not by the peer's name: one that has gone again has none.
                let tcp = self.client_addresses.get(index).is_none_or(is_tcp);
                self.clients.accept(accepted, tcp, now, &mut self.driver);
            }
            Ok(accepted) => {
                self.strangers.accept(accepted.socket, accepted.peer, now, &mut self.driver);
            }
            // A stop cancels what waits for connections.
            Err(_) if self.stop != Stop::No => {}
            Err(error) => {
                let log = match kind {
                    Kind::AcceptClient => &mut self.clients.log,
                    _ => &mut self.strangers.log,
                };
                log.not_accepted(&error.to_string(), now);
                if !planted(Plant::AcceptOnce) {
                    self.resting.push((kind, index, now + ACCEPT_PAUSE));
                }
                return;
            }
        }
        self.accept_next(kind, index);
    }

    /// Waits for the next connection on a listener.
    fn accept_next(&mut self, kind: Kind, index: usize) {
        let listener = match kind {
            Kind::AcceptClient => self.client_listeners.get(index).cloned(),
            _ => self.peer_listener.clone(),
        };
        if let Some(listener) = listener.filter(|_| self.stop == Stop::No) {
            self.driver.submit(token(kind, index, 0), Op::Accept { listener });
        }
    }

    /// Wakes the listeners that have rested long enough.
    fn accept_again(&mut self, now: Moment) {
        while let Some(at) = self.resting.iter().position(|(_, _, until)| now >= *until) {
            let (kind, index, _) = self.resting.swap_remove(at);
            self.accept_next(kind, index);
        }
    }

    fn link_done(&mut self, index: usize, epoch: u32, outcome: Outcome, now: Moment) {
        self.rota.stir(index);
        let Self { groups, driver, .. } = self;
        groups[index].guarded(|group| Self::link_step(group, (epoch, outcome), now, driver));
    }

    fn link_step(group: &mut Group, (epoch, outcome): (u32, Outcome), now: Moment, driver: &mut D) {
        if !group.link.is_current(epoch) {
            return;
        }
        match outcome {
            Outcome::Connect(Ok(())) => {
                group.link.connected(now, driver);
                group.connected(now);
            }
            Outcome::Connect(Err(error)) => {
                if let Some(began) = group.link.failed(&error.to_string(), now) {
                    group.tell(now, helio_engine::Event::DialFailed { began });
                }
            }
            Outcome::Recv { buffer, result } => match result {
                Ok(count) if count > 0 => {
                    group.link.received(buffer, count);
                    group.hear(now);
                }
                Ok(_) => {
                    let closed = || String::from("the peer closed the connection");
                    let why = group.link.take_send_error().unwrap_or_else(closed);
                    group.lost(now, why);
                }
                Err(error) => group.lost(now, error.to_string()),
            },
            Outcome::Send { pieces, result } => match result {
                Ok(()) => {
                    let bytes = group.link.sent(pieces);
                    group.tell(now, helio_engine::Event::LinkTook { bytes });
                }
                // The peer may have said why before it closed: the receive brings that, and then the end.
                Err(error) if group.link.is_receiving() => group.link.send_failed(&error),
                Err(error) => group.lost(now, error.to_string()),
            },
            outcome => panic!("an operation on a connection cannot end as {outcome:?}"),
        }
    }

    fn trust(&mut self, guards: Vec<(String, Guard)>, now: Moment) {
        for (group, guard) in guards {
            if let Some(index) = self.find(&group) {
                self.rota.stir(index);
                self.groups[index].guarded(|group| group.trust(guard, now));
            }
        }
        self.strangers.door = Door::of(self.groups.iter().map(|g| &g.link.guard));
    }

    fn find(&self, group: &str) -> Option<usize> {
        self.groups.iter().position(|g| g.name == group && g.is_served())
    }

    fn command(&mut self, index: usize, command: Command, reply: CommandReply, now: Moment) {
        let group = &self.groups[index];
        let clients = self.nbd_clients(index);
        if command == Command::Demote && clients > 0 && group.engine.view().is_primary() {
            let then = format!("`helio demote {}`", group.name);
            let _gone = reply.send(Err(self.used_by_clients(index, "", &then)));
            return;
        }
        if matches!(command, Command::RestoreSnapshot(_))
            && let Err(refusal) = self.refuse_in_use(index)
        {
            let _gone = reply.send(Err(refusal));
            return;
        }
        let devices = self.attached.writers(index);
        let gives_up = matches!(command, Command::Demote | Command::Switch);
        if gives_up && !devices.is_empty() && group.engine.view().is_primary() {
            let refusal = self.attached.refusal(index, &self.groups, &devices);
            let _gone = reply.send(Err(refusal));
            return;
        }
        self.rota.stir(index);
        self.groups[index].guarded(|group| group.command(now, command, reply));
    }
}

const fn is_tcp(address: &Address) -> bool {
    matches!(address, Address::Inet(_))
}

fn unknown(group: &str) -> Refusal {
    Refusal::new(
        "unknown-group",
        format!("group {group} is not configured on this node"),
        "`helio status` lists the groups",
    )
}

fn unknown_volume(group: &str, volume: &str) -> Refusal {
    let text = format!("this node has no volume {group}/{volume}");
    Refusal::new("unknown-volume", text, "`helio status` lists the volumes")
}
