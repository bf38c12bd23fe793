// SPDX-License-Identifier: Apache-2.0
//! Bad luck: what it does, and how it ends.

use super::act::{Luck, Order};
use super::run::Run;
use super::upkeep::Task;
use super::watch::{Effect, Until};
use crate::coverage::{Change, Met};
use helio_netmodel::{Dice, Ppm, Profile};
use helio_units::{Moment, Rate};
use helio_world::{FileFault, Odds};
use std::path::PathBuf;
use std::time::Duration;

/// Descriptors of a process, without bad luck and with.
const DESCRIPTORS: usize = 1024;
const FEW_DESCRIPTORS: u64 = 24;

/// A daemon that runs that long has started.
pub(super) const STARTS: Duration = Duration::from_secs(1);

/// Something that ends at a moment.
#[derive(Clone, Debug)]
pub(super) enum Ends {
    /// The daemon of that node starts again, with its machine if that has no power.
    Start(usize),
    Link,
    Disks(usize),
    Room(usize),
    Descriptors(usize),
    Odds(usize),
    /// The file is as it should be again.
    File,
    /// That node is promoted by force, if its peer is still gone.
    TakeOver {
        node: usize,
        group: usize,
    },
    /// The clients of a group have left.
    Task {
        node: usize,
        group: usize,
        task: Task,
    },
    /// New metadata of a group, if the daemon is stopped.
    Create {
        node: usize,
        group: usize,
    },
    /// A disk that a node filled arrives at its peer.
    Ship {
        from: usize,
        group: usize,
    },
    /// What was released on both nodes is adopted.
    Adopt {
        node: usize,
        group: usize,
    },
    /// A released group is served again.
    Return(usize, usize),
    /// A fault strikes that waited for the request of an order.
    Strike(Luck, Dice),
}

impl Run {
    /// Lets something go wrong.
    pub(super) fn strike(&mut self, luck: Luck, dice: &mut Dice) {
        let node = dice.below(2) as usize;
        let name = self.nodes[node].name;
        self.world.tell(format_args!("luck: {luck:?} at {name}"));
        let longest = if dice.chance(1, 4) { 40_000 } else { 4000 };
        let lasts = Duration::from_millis(50 + dice.below(longest));
        if luck.is_local() {
            self.nodes[node].has_faults = true;
        }
        let until = self.world.now() + lasts;
        let ends = match luck {
            Luck::Kill | Luck::PowerCut => {
                // What it meets ends with it.
                self.struck(luck, Effect::Until(until));
                self.down(node, luck == Luck::PowerCut);
                return self.ends.push((until, Ends::Start(node)));
            }
            Luck::Cut => {
                self.world.cut(&self.nodes[0].machine, &self.nodes[1].machine);
                Ends::Link
            }
            Luck::CutWay => {
                self.world.cut_way(&self.nodes[node].machine, &self.nodes[1 - node].machine);
                Ends::Link
            }
            Luck::Reset => {
                let [one, other] = [0, 1].map(|node| &self.nodes[node].machine);
                if self.world.reset_connections(one, other) {
                    self.struck(luck, Effect::Once);
                }
                return;
            }
            Luck::LinkQuality => {
                self.change_link(dice);
                return self.struck(luck, Effect::Stays);
            }
            Luck::Devices => {
                if self.upset_devices(node, dice) || self.upset_devices(1 - node, dice) {
                    self.struck(luck, Effect::Once);
                }
                return;
            }
            Luck::BadReads | Luck::BadWrites | Luck::BadFlush | Luck::BadMetadata => {
                return self.spoil(luck, node, dice);
            }
            Luck::Hang | Luck::Slow | Luck::Full | Luck::Descriptors | Luck::Rough => {
                self.burden(luck, node, dice)
            }
            Luck::Calendar => {
                let shown = Duration::from_secs(1_600_000_000 + dice.below(200_000_000));
                self.nodes[node].machine.set_calendar(shown);
                return self.struck(luck, Effect::Once);
            }
        };
        if matches!(luck, Luck::Hang | Luck::Slow | Luck::Rough) {
            self.nodes[node].disks_respond_since = Moment::NEVER;
        }
        self.struck(luck, Effect::Until(until));
        self.ends.push((until, ends));
    }

    /// A machine does less than it should, or takes longer, for a while.
    fn burden(&mut self, luck: Luck, node: usize, dice: &mut Dice) -> Ends {
        let machine = self.nodes[node].machine.clone();
        match luck {
            Luck::Hang => {
                let path = self.a_member(node, dice);
                let _ = machine.hang(&path);
                Ends::Disks(node)
            }
            Luck::Slow => {
                machine.slow_down(2 + dice.below(200) as u32);
                Ends::Disks(node)
            }
            Luck::Full => {
                self.note_lossy(node);
                machine.set_room(dice.below(1 << 20));
                Ends::Room(node)
            }
            Luck::Descriptors => {
                machine.set_descriptors(dice.below(FEW_DESCRIPTORS) as usize);
                Ends::Descriptors(node)
            }
            _ => {
                let ppm = |dice: &mut Dice, most: u64| Ppm(dice.below(most) as u32);
                machine.set_odds(Odds {
                    short: ppm(dice, 200_000),
                    slow: ppm(dice, 20_000),
                    reset: ppm(dice, 2000),
                    open: ppm(dice, 20_000),
                    accept: ppm(dice, 200_000),
                    ..Odds::default()
                });
                Ends::Odds(node)
            }
        }
    }

    /// Makes a few calls on a file fail. A file that does not exist does not fail.
    fn spoil(&mut self, luck: Luck, node: usize, dice: &mut Dice) {
        self.note_lossy(node);
        let (path, fault, times) = match luck {
            Luck::BadReads => (self.a_member(node, dice), FileFault::Read, 1 + dice.below(20)),
            Luck::BadWrites => (self.a_member(node, dice), FileFault::Write, 1 + dice.below(20)),
            Luck::BadFlush => (self.a_member(node, dice), FileFault::Flush, 1),
            _ => {
                let group = &self.groups[dice.below(self.groups.len() as u64) as usize];
                let folder = ["/state/groups", "/second"][dice.below(2) as usize];
                let path = PathBuf::from(format!("{folder}/{}.meta", group.shape.name));
                (path, [FileFault::Write, FileFault::Flush][dice.below(2) as usize], 1)
            }
        };
        if self.nodes[node].machine.fail(&path, fault, times).is_ok() {
            self.struck(luck, Effect::Fails(node, path, fault));
        }
    }

    /// Makes the next write of a member fail.
    pub(super) fn fail_a_write(&mut self, node: usize, dice: &mut Dice) {
        self.nodes[node].has_faults = true;
        self.note_lossy(node);
        let (path, fault) = (self.a_member(node, dice), FileFault::Write);
        if self.nodes[node].machine.fail(&path, fault, 1).is_ok() {
            self.struck(Luck::BadWrites, Effect::Fails(node, path, fault));
        }
    }

    /// Draws another link.
    pub(super) fn change_link(&mut self, dice: &mut Dice) {
        let rtt =
            Duration::from_micros([100, 5000, 80_000][dice.below(3) as usize] + dice.below(1000));
        let profile = Profile {
            jitter: Duration::from_micros(dice.below(3000)),
            loss: if dice.chance(1, 2) { Ppm::NONE } else { Ppm(dice.below(30_000) as u32) },
            ..Profile::wan(rtt, Rate::mbit([1, 20, 1000][dice.below(3) as usize]))
        };
        self.world.set_link(&self.nodes[0].machine, &self.nodes[1].machine, &profile);
    }

    /// A file that is a member on a node.
    pub(super) fn a_member(&self, node: usize, dice: &mut Dice) -> PathBuf {
        self.a_member_of_a_group(node, dice).1
    }

    /// The same, and its group.
    pub(super) fn a_member_of_a_group(&self, node: usize, dice: &mut Dice) -> (usize, PathBuf) {
        let members = self.groups.iter().enumerate().flat_map(|(n, group)| {
            let paths =
                |volume: &super::scenario::VolumeShape| volume.paths(group.shape.name, node);
            group.shape.volumes.iter().flat_map(paths).map(move |path| (n, path))
        });
        let all: Vec<(usize, PathBuf)> = members.collect();
        all[dice.below(all.len() as u64) as usize].clone()
    }

    /// A daemon is gone at once, and with `power` its machine.
    pub(super) fn down(&mut self, node: usize, power: bool) {
        if power {
            self.nodes[node].cut_power();
        } else {
            self.nodes[node].kill();
        }
        self.note_end(node, power);
        self.daemon_gone(node, false);
    }

    /// What lasted until now ends.
    pub(super) fn end_luck(&mut self, now: Moment) {
        let due = self.ends.iter().position(|(at, _)| *at <= now);
        let Some(due) = due else { return };
        let (_, ends) = self.ends.swap_remove(due);
        match ends {
            Ends::Start(node) => self.start(node),
            Ends::Link => self.world.heal(&self.nodes[0].machine, &self.nodes[1].machine),
            Ends::Disks(node) => {
                self.disks_respond(node);
                self.nodes[node].machine.slow_down(1);
                self.nodes[node].machine.resume();
            }
            Ends::Room(node) => self.nodes[node].machine.set_room(self.scenario.room),
            Ends::Descriptors(node) => self.nodes[node].machine.set_descriptors(DESCRIPTORS),
            Ends::Odds(node) => {
                self.disks_respond(node);
                self.nodes[node].machine.set_odds(Odds::default());
            }
            Ends::File => self.write_file(),
            Ends::TakeOver { node, group } => {
                self.in_order(Order::TakeOver, |run| run.force_promote(node, group));
            }
            Ends::Task { node, group, task } => {
                self.in_order(task.order(), |run| run.do_task(node, group, task));
            }
            Ends::Create { node, group } if self.nodes[node].daemon.is_none() => {
                _ = self.create_metadata(node, group);
            }
            Ends::Create { .. } => {}
            Ends::Ship { from, group } => self.place_disk(from, group),
            Ends::Adopt { node, group } => {
                self.in_order(Order::Adopt, |run| run.adopt(node, group));
            }
            Ends::Return(node, group) => self.take_back(node, group),
            Ends::Strike(luck, mut dice) => self.strike(luck, &mut dice),
        }
        self.end_luck(now);
    }

    /// Of what keeps operations on the disks of a node from ending in time, something has ended.
    fn disks_respond(&mut self, node: usize) {
        let lasts = |ends: &Ends| matches!(ends, Ends::Disks(at) | Ends::Odds(at) if *at == node);
        if !self.ends.iter().any(|(_, ends)| lasts(ends)) {
            self.nodes[node].disks_respond_since = self.world.now();
        }
    }

    /// Starts a node that is down. One that cannot be started is started again later.
    pub(super) fn start(&mut self, node: usize) {
        let now = self.world.now();
        if !self.nodes[node].has_power {
            self.nodes[node].boot();
        }
        if let Some(daemon) = &self.nodes[node].daemon {
            // A service manager starts it once the one before has ended.
            if daemon.is_stopping() {
                self.ends.push((now + Duration::from_millis(100), Ends::Start(node)));
            }
            return;
        }
        self.date_back(node);
        self.exchange_images(node);
        if let Err(why) = self.nodes[node].start(now) {
            self.world.tell(format_args!("{} does not start: {why}", self.nodes[node].name));
            self.nodes[node].why = Some(why);
            // The operator restarts it, too.
            if !self.ends.iter().any(|(_, ends)| matches!(ends, Ends::Start(of) if *of == node)) {
                self.ends.push((now + Duration::from_secs(2), Ends::Start(node)));
            }
            return;
        }
        self.follow(Met::Change(Change::Start), Until::Passed(now + STARTS));
        self.note_start(node);
    }

    /// Nothing goes wrong any more.
    pub(super) fn end_all_luck(&mut self) {
        self.world.tell(format_args!("no more faults"));
        for node in 0..2 {
            self.nodes[node].disks_respond_since = self.world.now();
            self.nodes[node].images.restore(false);
            let machine = &self.nodes[node].machine;
            machine.set_odds(Odds::default());
            machine.slow_down(1);
            machine.clear_faults();
            machine.refuse_nothing();
            machine.resume();
            machine.set_room(self.scenario.room);
            machine.set_descriptors(DESCRIPTORS);
        }
        for group in &mut self.groups {
            group.hints.clear();
        }
        self.world.heal(&self.nodes[0].machine, &self.nodes[1].machine);
        let profile = Profile::wan(Duration::from_millis(1), Rate::mbit(1000));
        self.world.set_link(&self.nodes[0].machine, &self.nodes[1].machine, &profile);
        self.ends.clear();
        self.forget_effects();
        // A machine has to have power to be given the file.
        self.nodes.iter_mut().filter(|node| !node.has_power).for_each(super::node::Node::boot);
        self.write_file();
        self.start(0);
        self.start(1);
    }
}
