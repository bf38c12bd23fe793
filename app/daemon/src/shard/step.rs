// SPDX-License-Identifier: Apache-2.0
//! One turn after the other: what begins a shard, what each turn does, and what it waits for between two. A thread runs them ([`Shard::run`]),
//! or a simulator does.

use super::requests::Origin;
use super::stop::Stop;
use super::token::{Kind, token};
use super::{Shard, isolate};
use anyhow::{Context, Result};
use helio_driver::{Completion, Driver, Op};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Mode, Moment, State};
use std::time::Duration;

/// What a shard needs to go on.
#[derive(Debug)]
pub(crate) enum Turn {
    /// A completion, or the time that passes; none if only a completion helps.
    Waits(Option<Duration>),
    /// Everything has stopped: cleanly, or why not.
    Ended(Result<()>),
}

/// How a primary serves a group: what its status shows of the promises that hold now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Its state.
    pub state: State,
    /// The mode in force.
    pub mode: Mode,
    /// The lag that it reports, in bytes and in writes; none while regions are only at the peer, or on a disk that is being shipped.
    pub lag: Option<(Bytes, u64)>,
}

impl<D: Driver> Shard<D> {
    /// Runs until everything has stopped.
    ///
    /// # Errors
    /// The kernel refuses to wait; or a group did not stop cleanly.
    pub(crate) fn run(mut self) -> Result<()> {
        self.begin();
        let mut completions = Vec::new();
        loop {
            match self.turn() {
                Turn::Ended(result) => return result,
                Turn::Waits(timeout) => {
                    self.driver.wait(timeout, &mut completions).context("the reactor failed")?;
                }
            }
            self.go_on(completions.drain(..));
        }
    }

    /// What it runs on.
    pub(crate) fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// How this node serves a group as primary now.
    pub(crate) fn serving(&self, group: &str) -> Option<Serving> {
        let view = self.groups.get(self.find(group)?)?.engine.view();
        let mode = view.effective().filter(|_| view.is_primary())?;
        let whole = !view.lacks_regions() && view.seeding().is_none();
        let lag = view.reported_lag().filter(|_| whole);
        Some(Serving { state: view.state(), mode, lag: lag.map(|lag| (lag.bytes, lag.writes)) })
    }

    /// Whether this node is primary for a group now.
    pub(crate) fn is_primary(&self, group: &str) -> bool {
        let found = self.find(group).and_then(|index| self.groups.get(index));
        found.is_some_and(|group| group.engine.view().is_primary())
    }

    /// Begins to listen, and to serve its groups.
    pub(crate) fn begin(&mut self) {
        self.driver.submit(token(Kind::Woken, 0, 0), Op::Wait);
        for (n, listener) in self.client_listeners.clone().into_iter().enumerate() {
            self.driver.submit(token(Kind::AcceptClient, n, 0), Op::Accept { listener });
        }
        if let Some(listener) = self.peer_listener.clone() {
            self.driver.submit(token(Kind::AcceptPeer, 0, 0), Op::Accept { listener });
        }
        let now = self.clock.now();
        for group in &mut self.groups {
            group.guarded(|group| group.begin(now, &mut self.driver));
        }
    }

    /// Does what is due. Returns for what the shard waits then.
    pub(crate) fn turn(&mut self) -> Turn {
        self.settle_all();
        let now = self.clock.now();
        if self.ends(now) {
            return Turn::Ended(self.ended(now));
        }
        Turn::Waits(match self.deadline() {
            Moment::NEVER => None,
            due => Some(due - now),
        })
    }

    /// Goes on with what has completed. What the control plane asked is done behind the rest: if a client left before a command was given,
    /// and the driver tells both, it is not in the way of that command.
    pub(crate) fn go_on(&mut self, completions: impl Iterator<Item = Completion>) {
        self.follow_calendar();
        completions.for_each(|completion| self.dispatch(completion));
        if !self.asked.is_empty() {
            self.do_asked();
        }
    }

    /// What the control plane asked until now; the next thing wakes this thread again.
    pub(super) fn take_asked(&mut self) {
        self.driver.submit(token(Kind::Woken, 0, 0), Op::Wait);
        let most = if planted(Plant::AskLost) { 1 } else { usize::MAX };
        self.asked.extend(self.asks.try_iter().take(most));
    }

    fn do_asked(&mut self) {
        self.stir_clients_groups();
        let now = self.clock.now();
        for ask in std::mem::take(&mut self.asked) {
            self.asked(ask, now);
        }
    }

    /// Tells every group if the calendar was set.
    fn follow_calendar(&mut self) {
        if !self.clock.follow() {
            return;
        }
        let now = self.clock.now();
        let shows = self.clock.wall(now);
        tracing::info!(%shows, "the wall clock was set");
        for (index, group) in self.groups.iter_mut().enumerate() {
            self.rota.stir(index);
            group.guarded(|group| group.tell(now, helio_engine::Event::Calendar(shows)));
        }
    }

    fn deadline(&self) -> Moment {
        let leaving = self.leaving.iter().flatten().map(|l| l.until);
        let resting = self.resting.iter().map(|(_, _, until)| *until);
        leaving
            .chain(resting)
            .chain([self.rota.deadline(), self.strangers.deadline(), self.clients.deadline()])
            .chain([self.stop.deadline()])
            .min()
            .unwrap_or(Moment::NEVER)
    }

    /// Everything that depends on the whole batch: timers, settling, answers, sends.
    fn settle_all(&mut self) {
        let now = self.clock.now();
        self.strangers.expire(now, &mut self.driver);
        self.expire_leaving(now);
        self.accept_again(now);
        self.clients.expire(now, &mut self.driver);
        self.stir_clients_groups();
        let due = self.rota.take(now);
        for &index in &due {
            if planted(Plant::GroupStarves)
                && self.groups[..index].iter().any(|group| group.still_writes(now))
            {
                self.rota.looked_at(index, now + Duration::from_millis(10));
                continue;
            }
            self.turn_group(index, now);
            if !self.end_failed(index, now) {
                self.look_at(index, now);
            }
            self.look_at_copies(index, now);
            if self.groups[index].link.is_starving() {
                self.starving.push(index);
            }
            let stops = self.stop != Stop::No;
            let alerts = self.watch.deadline(index);
            let due =
                self.groups[index].guarded(|group| group.deadline(group.dials(stops)).min(alerts));
            // One that panicked just now is ended with the next turn.
            let failed = matches!(self.groups[index].health, isolate::Health::Failed(_));
            let quiet = if failed { Moment::ZERO } else { Moment::NEVER };
            self.rota.looked_at(index, due.unwrap_or(quiet));
        }
        self.rota.give_back(due);
        self.feed_links();
        for slot in self.clients.starved() {
            self.wake(Origin::Client(slot));
        }
        for slot in self.attached.starved() {
            self.wake(Origin::Device(slot));
        }
        // What was asked of a group after its look is looked at without waiting first.
        self.stir_clients_groups();
    }

    /// Gives buffers that came home to the connections that wait for one; their groups go on with the next turn.
    fn feed_links(&mut self) {
        let Self { starving, groups, rota, .. } = self;
        starving.sort_unstable();
        starving.dedup();
        starving.retain(|&index| {
            let found = groups[index].guarded(|group| group.link.finds_room());
            if found == Some(true) {
                rota.stir(index);
            }
            found == Some(false)
        });
    }
}
