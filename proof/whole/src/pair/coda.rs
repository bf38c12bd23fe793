// SPDX-License-Identifier: Apache-2.0
//! What is promised once everything is in sync and no client is left: nothing is held, nothing grows, and no group waits for another.
//!
//! Two equal rounds follow the end of a story: clients come, make requests and leave, and connections between the nodes are reset. Then a
//! disk of one group hangs, and the clients of the other one go on.

use super::run::{Group, Run};
use crate::client::{Ending, Habits};
use crate::model::{Promise, Violation};
use helio_daemon::stepped::{Census, Table};
use helio_driver::{Machine, Mode, OFlags};
use helio_units::{Bytes, Role};
use helio_world::Held;
use std::path::PathBuf;
use std::time::Duration;

/// One of so many stories has it: it takes more time than all before.
const SHARE: u64 = 4;
/// A control plane responds within that time once everything is in sync, also to so many requests at once.
const RESPONDS: Duration = Duration::from_secs(2);
const AT_ONCE: usize = 3;
/// What is under way ends within that time once no client is left.
const RESTS: Duration = Duration::from_secs(3);
/// How often a node is looked at then, and how many times: in all for longer than automatic snapshots take, which come every 5 s at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS: usize = 40;
/// Rounds at most, if daemons are started again in some of them.
const ROUNDS: usize = 5;
/// Clients of each volume that come in a round, one or two at once.
const VISITS: usize = 6;
/// Connections between the nodes that are reset in a round.
const RESETS: usize = 3;
/// Entries that a table may have more after a round than before, since what happens at once differs: connections, and the rest. A round has
/// more requests than that.
const SLACK: [usize; 2] = [2, 64];
/// A visit takes no longer than that, also while a disk of another group hangs.
const VISIT: Duration = Duration::from_secs(2);
/// The nodes are in sync again by then.
const REJOINS: Duration = Duration::from_secs(60);

const fn serves(detail: String) -> Violation {
    Violation::new(Promise::Serves, detail)
}

const fn rests(detail: String) -> Violation {
    Violation::new(Promise::Rests, detail)
}

const fn steady(detail: String) -> Violation {
    Violation::new(Promise::Steady, detail)
}

/// What a node holds.
#[derive(Clone, Copy, Debug)]
struct Inventory {
    census: Census,
    tasks: usize,
    held: Held,
    /// Disks of members that it uses: one that an error removed returns by itself.
    members: usize,
}

impl Run {
    /// Goes through all of it, in some stories that end in sync.
    ///
    /// # Errors
    /// The promise that was broken.
    pub(super) fn coda(&mut self) -> Result<(), Violation> {
        let is_drawn = self.world.dice("coda").chance(1, SHARE);
        let are_listed = self.groups.iter().all(|group| group.shape.listed);
        if !is_drawn || !are_listed || !self.all_level() {
            return Ok(());
        }
        self.world.tell(format_args!("nothing grows from here on"));
        for group in 0..self.groups.len() {
            // Those of the story have left.
            let _left = self.take_endings(group);
        }
        self.choose_primaries();
        self.all_respond()?;
        self.rounds()?;
        self.neighbour()
    }

    /// After two equal rounds a node holds the same. If its daemon was started again in a round, its tables are of what came since, which
    /// says nothing: then two others follow.
    fn rounds(&mut self) -> Result<(), Violation> {
        let (mut before, mut compared) = ([None::<Inventory>; 2], [false; 2]);
        for _ in 0..ROUNDS {
            let starts = self.starts();
            self.round()?;
            for (node, now) in self.inventories()?.into_iter().enumerate() {
                let now = Some(now).filter(|_| self.starts()[node] == starts[node]);
                if let (Some(before), Some(now)) = (&before[node], &now) {
                    before.grew_to(now).map_err(|why| why.at(self.nodes[node].name))?;
                    compared[node] = true;
                }
                before[node] = now;
            }
            if compared == [true; 2] {
                return Ok(());
            }
        }
        Err(steady(format!("of {ROUNDS} rounds a daemon has no two without a restart")))
    }

    /// How often the daemon of each node was started.
    fn starts(&self) -> [u64; 2] {
        [0, 1].map(|node: usize| self.nodes[node].starts)
    }

    /// Requests to the control planes get their responses, also several at once.
    fn all_respond(&mut self) -> Result<(), Violation> {
        for _ in 0..AT_ONCE {
            self.look(0);
            self.look(1);
        }
        self.pass(RESPONDS)?;
        match self.asked.first_key_value() {
            Some((request, asked)) => {
                let name = self.nodes[asked.node].name;
                Err(serves(format!("{name} does not respond to request {request}, and is in sync")))
            }
            None => Ok(()),
        }
    }

    /// Clients use the node that is primary.
    fn choose_primaries(&mut self) {
        for group in 0..self.groups.len() {
            let is_primary = |node: &usize| {
                self.group_status(*node, group).is_some_and(|it| it.role == Role::Primary)
            };
            let primary = (0..2).find(is_primary);
            (self.groups[group].serves, self.groups[group].last_served) = (primary, primary);
        }
    }

    fn round(&mut self) -> Result<(), Violation> {
        for visit in 0..VISITS {
            for group in 0..self.groups.len() {
                self.visit(group, if self.clients_max < 5 { 1 } else { 1 + visit % 2 })?;
            }
        }
        for _ in 0..RESETS {
            self.world.reset_connections(&self.nodes[0].machine, &self.nodes[1].machine);
            self.pass(Duration::from_millis(300))?;
        }
        self.become_level()
    }

    /// Waits until everything is in sync again. Only a group that does not resync by itself has an operator: a queue that becomes full may
    /// have been given up.
    fn become_level(&mut self) -> Result<(), Violation> {
        let until = self.world.now() + REJOINS;
        while self.world.now() < until {
            self.status = [None, None];
            self.look(0);
            self.look(1);
            self.pass(Duration::from_millis(500))?;
            if self.all_level() {
                return Ok(());
            }
            for group in 0..self.groups.len() {
                if !self.groups[group].shape.autosync && !self.is_level(group) {
                    self.follow_advice(group);
                }
            }
            self.pass(Duration::from_secs(1))?;
        }
        let detail = format!("not in sync {REJOINS:?} after a connection was reset");
        Err(Violation::new(Promise::InSyncAgain, detail))
    }

    /// So many clients at once come to each volume of a group, make requests, and leave.
    fn visit(&mut self, group: usize, at_once: usize) -> Result<(), Violation> {
        self.invite(group, at_once, 8);
        self.wait_for_clients(group, VISIT)
    }

    /// Waits until the clients of a group have left, in order.
    fn wait_for_clients(&mut self, group: usize, within: Duration) -> Result<(), Violation> {
        let (name, until) = (self.groups[group].shape.name, self.world.now() + within);
        loop {
            self.pass(Duration::from_millis(5))?;
            if let Some(endings) = self.take_endings(group) {
                return match endings.into_iter().flatten().find(|it| *it != Ending::Left) {
                    Some(ending) => {
                        Err(serves(format!("without a fault a client of {name} {ending:?}")))
                    }
                    None => Ok(()),
                };
            }
            if self.world.now() >= until {
                return Err(serves(format!("a client of {name} was not served within {within:?}")));
            }
        }
    }

    /// Lets clients that behave come to each volume of a group, once each.
    fn invite(&mut self, group: usize, at_once: usize, depth: usize) {
        for (volume, shape) in self.groups[group].shape.volumes.clone().iter().enumerate() {
            for _ in 0..at_once {
                let export = format!("{}/{}", self.groups[group].shape.name, shape.name);
                let habits = Habits { depth, ..Habits::plain(&export, volume as u16) };
                self.add_client(group, habits, 1);
            }
        }
    }

    /// While a disk of the first group hangs, the clients of the second one are served.
    fn neighbour(&mut self) -> Result<(), Violation> {
        let fit = self.groups.len() > 1 && self.clients_max >= 5;
        let Some(first) = self.groups[0].serves.filter(|_| fit) else { return Ok(()) };
        let volume = self.groups[0].shape.volumes[0].clone();
        for path in volume.paths(self.groups[0].shape.name, first) {
            let _ = self.nodes[first].machine.hang(&path);
        }
        self.invite(0, 1, 16);
        self.pass(Duration::from_millis(20))?;
        let served = self.visit(1, 1);
        self.nodes[first].machine.resume();
        served?;
        self.wait_for_clients(0, REJOINS)?;
        self.become_level()
    }

    /// What the nodes hold at rest. Daemons have work at times of their own, also without clients, such as automatic snapshots of every group
    /// at once. It ends, and what leaked does not: so of several looks the one counts that finds the fewest tasks, of those that find rest.
    fn inventories(&mut self) -> Result<[Inventory; 2], Violation> {
        self.pass(RESTS)?;
        let mut calmest = [self.inventory(0), self.inventory(1)];
        let tasks = |it: &Result<Inventory, _>| it.as_ref().map_or(usize::MAX, |it| it.tasks);
        for _ in 1..LOOKS {
            self.pass(LOOK_EVERY)?;
            for (node, calmest) in calmest.iter_mut().enumerate() {
                let now = self.inventory(node);
                if tasks(&now) < tasks(calmest) {
                    *calmest = now;
                }
            }
        }
        let [one, other] = calmest;
        Ok([one?, other?])
    }

    /// How many disks of members a node uses.
    fn used_members(&self, node: usize) -> usize {
        let volumes = |group: &Group| {
            let shape = &group.shape;
            shape
                .volumes
                .iter()
                .flat_map(|volume| volume.paths(shape.name, node))
                .collect::<Vec<_>>()
        };
        let machine = &self.nodes[node].machine;
        let is_used = |path: &PathBuf| {
            let file = machine.open(path, OFlags::RDWR, Mode::empty());
            file.is_ok_and(|file| file.body().lock() == Ok(false))
        };
        self.groups.iter().flat_map(volumes).filter(is_used).count()
    }

    fn inventory(&mut self, node: usize) -> Result<Inventory, Violation> {
        let members = self.used_members(node);
        let node = &mut self.nodes[node];
        let Some(daemon) = &mut node.daemon else {
            return Err(rests(format!("{} is gone", node.name)));
        };
        let census = daemon.census().ok_or_else(|| rests("a daemon ends by itself".to_owned()))?;
        let (tasks, held) = (daemon.tasks(), daemon.process().held());
        let inventory = Inventory { census, tasks, held, members };
        inventory.is_at_rest().map_err(|why| why.at(node.name))?;
        Ok(inventory)
    }
}

impl Inventory {
    /// No client is connected, and both nodes hold the same.
    fn is_at_rest(&self) -> Result<(), Violation> {
        let Census { commands, sockets, awaiting, written, received, .. } = self.census;
        for (name, table, _) in self.tables() {
            if table.in_use > 0 || table.lost > 0 {
                return Err(rests(format!("{name} has {table:?}")));
            }
        }
        if commands > 0 {
            return Err(rests(format!("{commands} orders have not ended")));
        }
        for (name, pool, held) in
            [("written", written, awaiting), ("received", received, Bytes::ZERO)]
        {
            if pool.in_use != held || pool.high_water > pool.bound {
                return Err(rests(format!("the pool of what is {name} has {pool:?}")));
            }
        }
        if self.held.sockets != sockets {
            return Err(rests(format!(
                "{} sockets are open, and {sockets} are used",
                self.held.sockets
            )));
        }
        Ok(())
    }

    /// Each table, and how many entries it may have more after a round.
    fn tables(&self) -> [(&'static str, Table, usize); 6] {
        let Census { requests, clients, strangers, parting, payloads, operations, .. } =
            self.census;
        [
            ("the table of requests", requests, SLACK[1]),
            ("the table of clients", clients, SLACK[0]),
            ("the table of unknown peers", strangers, SLACK[0]),
            ("the table of connections that end", parting, SLACK[0]),
            ("the table of payloads", payloads, SLACK[1]),
            ("the table of operations on members", operations, SLACK[1]),
        ]
    }

    /// After an equal round there is not more of anything.
    fn grew_to(&self, other: &Self) -> Result<(), Violation> {
        for ((name, before, slack), (_, now, _)) in self.tables().into_iter().zip(other.tables()) {
            if now.entries > before.entries + slack {
                return Err(steady(format!(
                    "{name} grew from {} to {} entries in a round like the one before",
                    before.entries, now.entries
                )));
            }
        }
        let returned = other.members.saturating_sub(self.members);
        if other.tasks > self.tasks || other.held.files > self.held.files + returned {
            return Err(steady(format!(
                "tasks or files grew in a round: from {self:?} to {other:?}"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Node;
    use super::super::telling::Telling;
    use super::*;
    use helio_world::World;

    /// It has a coda, and a group that does not resync by itself: an operator follows advice.
    const SEED: u64 = 1;

    #[test]
    fn what_was_recommended_before_a_group_was_level_is_no_advice_in_the_coda() {
        let telling = Telling { acts: Some(0), ..Telling::of(SEED) };
        let world = World::new(telling.seed, false);
        let mut run = Run::new(&world, &telling).unwrap();
        run.tell(&telling).unwrap();
        let starts = run.starts();
        run.groups[0].hints.push((0, "restart the daemon".to_owned()));
        run.coda().unwrap();
        assert!(run.groups[0].hints.is_empty(), "there was a coda");
        assert_eq!(run.starts(), starts, "there was no reason for a restart");
        run.nodes.iter_mut().for_each(Node::kill);
    }
}
