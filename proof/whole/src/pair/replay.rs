// SPDX-License-Identifier: Apache-2.0
//! A script told again: its requests by one client of each volume, at the node that serves; its commands by the operator, and its link
//! cuts and failed writes, at their moments.

use super::act::{Luck, Order};
use super::operator::promotion;
use super::run::{Group, Run, Wish};
use super::telling::Telling;
use super::watch::Effect;
use crate::client::{Habits, Leaving};
use crate::model::Violation;
use helio_engine::Command;
use helio_netmodel::Dice;
use helio_replay::{Script, Step};
use helio_units::Moment;
use serde_json::json;
use std::time::Duration;

/// The group that a script is about.
const GROUP: usize = 0;
/// So long clients may take for requests whose moment has come, once nothing else of the script is left.
const LATE: u32 = 10;

impl Run {
    /// Tells a script, and counts the steps that were told.
    ///
    /// # Errors
    /// The promise that was broken.
    pub(super) fn replay(&mut self, script: &Script, telling: &Telling) -> Result<(), Violation> {
        let told = self.take_steps(script, telling);
        self.steps -= self.unmade_requests();
        told
    }

    fn take_steps(&mut self, script: &Script, telling: &Telling) -> Result<(), Violation> {
        // The clients are connected by then.
        let begins = self.world.now() + Duration::from_secs(1);
        let mut dice = self.world.dice("script");
        self.change_link(&mut dice);
        self.invite_scripted(script, telling, begins);
        for (number, (at, node, step)) in (1..).zip(script.steps()) {
            self.pass((begins + *at).since(self.world.now()))?;
            if telling.skips(number) {
                continue;
            }
            let name = self.nodes[*node].name;
            self.world.tell(format_args!("step {number} at {name}: {step:?}"));
            // Each has dice of its own, so that leaving one out leaves the others as they are.
            self.take_step_of_script(*node, *step, &mut dice.split_nth("step", number));
            self.check_clients()?;
        }
        for _ in 0..LATE {
            if self.unmade_requests() > 0 {
                self.pass(Duration::from_secs(1))?;
            }
        }
        Ok(())
    }

    /// A client of each volume, so many at most, which makes the requests for it.
    fn invite_scripted(&mut self, script: &Script, telling: &Telling, begins: Moment) {
        let shape = self.groups[GROUP].shape.clone();
        let most = telling.clients.unwrap_or(usize::MAX);
        for (n, volume) in (0_u16..).zip(&shape.volumes).take(most) {
            let requests =
                (1..).zip(script.steps()).filter_map(|(number, (at, _, step))| match step {
                    Step::Request { volume, operation }
                        if volume.0 == n && !telling.skips(number) =>
                    {
                        Some((begins + *at, *operation))
                    }
                    _ => None,
                });
            let mut dice = self.world.dice(&format!("habits of client {n}"));
            let export = format!("{}/{}", shape.name, volume.name);
            let habits = Habits {
                depth: usize::MAX,
                leaving: Leaving::Politely,
                mischief: None,
                ..Habits::draw(&export, n, &mut |below| dice.below(below))
            };
            let requests: Vec<_> = requests.collect();
            self.steps += requests.len();
            self.add_scripted_client(GROUP, habits, &requests);
        }
    }

    fn take_step_of_script(&mut self, node: usize, step: Step, dice: &mut Dice) {
        let [one, other] = [0, 1].map(|node| self.nodes[node].machine.clone());
        match step {
            // Its client makes it, and it is counted there.
            Step::Request { .. } => return,
            Step::Command(_) if self.nodes[node].daemon.is_none() => return,
            Step::Command(command) => self.command(node, command, dice),
            Step::LinkLost => {
                self.world.reset_connections(&one, &other);
                self.world.cut(&one, &other);
                self.struck(Luck::Cut, Effect::Once);
            }
            Step::LinkBack => self.world.heal(&one, &other),
            Step::StoreFails => self.fail_a_write(node, dice),
        }
        self.steps += 1;
    }

    /// Gives the order that a command came from.
    fn command(&mut self, node: usize, command: Command, dice: &mut Dice) {
        let order = match command {
            Command::Promote { force: false } => Order::Promote,
            Command::Promote { force: true } => Order::ForcePromote,
            Command::Demote => Order::Demote,
            Command::Pause => Order::Pause,
            Command::Resume => Order::Resume,
            Command::Resync => Order::Resync,
            Command::FullResync => Order::FullResync,
            Command::Mode(_) => Order::Mode,
            Command::Stop => Order::Stop,
            // A script has no others.
            _ => return,
        };
        if order == Order::Demote {
            // It is refused while clients are connected. In the field they had left.
            self.disconnect_clients(GROUP);
        }
        let Group { shape, serves, .. } = &self.groups[GROUP];
        let daemon = self.nodes[node].daemon.as_mut();
        let is_primary = daemon.is_some_and(|it| it.serving(shape.name).is_some());
        // Both nodes may be primary. A promotion of one that is already does not bring it the clients of the other one.
        let is_idle = is_primary && *serves != Some(node);
        self.in_order(order, |run| match command {
            // With force also if the daemon of the peer runs.
            Command::Promote { force } => {
                let promotes = Wish::Promote { forced: force, restored: false };
                let wish = if is_idle { Wish::Other } else { promotes };
                run.post(node, GROUP, "promote", &promotion(force), wish);
            }
            Command::Mode(mode) => {
                let body = json!({ "mode": mode.to_string() });
                run.post(node, GROUP, "mode", &body, Wish::Other);
            }
            _ => run.give(order, (node, GROUP), dice),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::run;
    use super::*;
    use helio_engine::Operation;
    use helio_world::World;
    use std::sync::Arc;

    /// The node that served first: it is cut off for a while, and its peer takes over in order.
    const FIRST: &[(u64, &str)] = &[
        (0, "promote 1 0"),
        (100, "write 1 0 8192 @0"),
        (200, "write 2 65536 4096 @1"),
        (300, "flush 3 0"),
        (400, "disconnected 0 0"),
        (500, "write 4 65536 4096 @0"),
        (600, "zero 5 0 4096 @1"),
        (3000, "connected 0 0"),
        (3100, "read 6 0 8192 @0"),
        (20_000, "demote 7 0"),
    ];
    const SECOND: &[(u64, &str)] = &[
        (410, "disconnected 0 0"),
        (2990, "connected 0 0"),
        (25_000, "promote 1 0"),
        (26_000, "write 2 131072 4096 @0"),
        (26_500, "read 3 65536 4096 @0"),
    ];

    fn dump(name: &str, events: &[(u64, &str)]) -> (String, String) {
        let events: Vec<_> = events
            .iter()
            .map(|(at, what)| json!({ "at_ms": 1_795_000_000_000 + at, "what": what }))
            .collect();
        (name.to_owned(), json!({ "events": events }).to_string())
    }

    fn telling(dumps: &[(String, String)]) -> Telling {
        let script = Script::read(dumps).unwrap();
        Telling { script: Some(Arc::new(script)), ..Telling::of(SEED) }
    }

    /// In it the nodes are in sync again by themselves.
    const SEED: u64 = 1;

    /// What a volume has at the end, on a node.
    fn content(run: &Run, node: usize, volume: usize) -> Vec<u8> {
        let shape = &run.groups[GROUP].shape;
        let path = &shape.volumes[volume].paths(shape.name, node)[0];
        run.nodes[node].machine.content(path).unwrap()
    }

    /// What the recorder of a node has.
    fn recorded(run: &mut Run, node: usize) -> (String, String) {
        let (request, path) = (u64::MAX, "/v2/groups/db/debug/events".to_owned());
        let (world, name) = (run.world.clone(), run.nodes[node].name.to_owned());
        let daemon = run.nodes[node].daemon.as_mut().unwrap();
        daemon.request(request, "GET", path, Vec::new());
        loop {
            world.alarm(daemon.next());
            world.advance();
            daemon.step(world.now()).unwrap();
            if let Some(response) =
                daemon.responses().into_iter().find(|it| it.request() == request)
            {
                return (name, String::from_utf8(response.body().to_vec()).unwrap());
            }
        }
    }

    fn requests(telling: &Telling) -> Vec<(u16, Operation)> {
        let steps = telling.script.iter().flat_map(|script| script.steps());
        let request = |step: &Step| match step {
            Step::Request { volume, operation } => Some((volume.0, *operation)),
            _ => None,
        };
        steps.filter_map(|(.., step)| request(step)).collect()
    }

    #[test]
    fn writes_a_cut_and_a_promotion_are_told_and_reach_both_nodes() {
        let telling = telling(&[dump("a", FIRST), dump("b", SECOND)]);
        assert_eq!(run(&telling, false).broken, None);
        let world = World::new(telling.seed, false);
        let mut run = Run::new(&world, &telling).unwrap();
        run.begin().unwrap();
        run.replay(telling.script.as_ref().unwrap(), &telling).unwrap();
        run.pass(Duration::from_secs(5)).unwrap();
        assert_eq!((run.steps, run.groups[GROUP].last_served), (15, Some(1)));
        for node in 0..2 {
            let (data, logs) = (content(&run, node, 0), content(&run, node, 1));
            let is_written = |at: usize| data[at..at + 4096].iter().any(|byte| *byte != 0);
            assert!([0, 4096, 65_536, 131_072].into_iter().all(is_written), "node {node}");
            assert!(logs[65_536..69_632].iter().any(|byte| *byte != 0), "node {node}");
            assert!(logs[..4096].iter().all(|byte| *byte == 0), "node {node}");
        }
        run.nodes.iter_mut().for_each(super::super::node::Node::kill);
    }

    #[test]
    fn a_script_and_a_seed_tell_one_story() {
        let telling = telling(&[dump("a", FIRST), dump("b", SECOND)]);
        let (one, other) = (run(&telling, false), run(&telling, false));
        assert_eq!((one.digest, one.steps), (other.digest, other.steps));
        assert_ne!(one.digest, run(&telling.with_seed(SEED + 1), false).digest);
        let shorter = Telling { skipped: [2].into(), acts: Some(8), ..telling };
        assert_eq!(run(&shorter, false).steps, 7);
    }

    #[test]
    fn the_dump_of_a_daemon_that_was_told_a_script_tells_it_again() {
        let told = telling(&[dump("a", &FIRST[..9])]);
        let world = World::new(told.seed, false);
        let mut first = Run::new(&world, &told).unwrap();
        first.begin().unwrap();
        first.replay(told.script.as_ref().unwrap(), &told).unwrap();
        first.pass(Duration::from_secs(1)).unwrap();
        let again = telling(&[recorded(&mut first, 0)]);
        first.nodes.iter_mut().for_each(super::super::node::Node::kill);
        assert_eq!(requests(&again), requests(&told));
        let steps = again.script.as_ref().unwrap().steps();
        assert!(steps.iter().any(|(.., step)| *step == Step::LinkLost), "{steps:?}");
        let verdict = run(&again, false);
        assert_eq!((verdict.broken, verdict.steps), (None, steps.len()));
    }
}
