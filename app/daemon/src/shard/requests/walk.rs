// SPDX-License-Identifier: Apache-2.0
//! Every operation of a front end on every target, in every standing and state of a node: what is admitted, and how the
//! rest is refused. Two engines in virtual time go through the states; each probe asks a copy of the engine.

use super::operation::{Course, Operation};
use super::place::Target;
use super::reply::{self, Failure, Reply};
use crate::shard::payloads::Payloads;
use core::time::Duration;
use helio_driver::{Buffer, Outcome};
use helio_engine::{
    Answer, Command, CommandId, Config, CopyIo, CopyNumber, CopyView, Denial, Effect, Engine,
    Event, Operation as EngineOp, QueueConfig, Request, StoreFault, WhenFull,
};
use helio_netmodel::{Dice, Profile};
use helio_twin::{BLOCK, Breakage, Cluster, Side, Stamp, StoreVerb};
use helio_units::{Bytes, Extent, Moment, Payload, Rate, RequestId, Role, State, VolumeIndex};
use std::collections::BTreeSet;

const V: VolumeIndex = VolumeIndex(0);
const TICK: Duration = Duration::from_micros(100);
/// The number of a probe's request; no other has it.
const PROBE: RequestId = RequestId(u64::MAX);

/// In the order of the columns below.
const TARGETS: [Target; 5] = [
    Target::Volume { read_only: false },
    Target::Volume { read_only: true },
    Target::Copy,
    Target::Snapshot(CopyView::Cut(CopyNumber(1))),
    Target::Snapshot(CopyView::Branch(CopyNumber(1))),
];

/// What is admitted: by standing, what can be opened to be written and to be read only, and then for each target the
/// operations read, write, zero, discard, flush, map.
///
/// E: the engine takes it. S: the store performs it. D: done at once. Refused: p, not primary; r, read-only; i, the copy is
/// inconsistent; f, the queue is full and its policy is to fail. During a switch a node takes what clients sent before they
/// were disconnected, until it saves its record.
const TABLE: [&str; 17] = [
    "accepting - - pppppS prrrpS irrrDS ErrrDE EEErEE",
    "asking - - pppppS prrrpS irrrDS ErrrDE EEErEE",
    "asking - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "closing - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "handing - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "leaving-by-demote - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "leaving-by-stop - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "leaving-by-switch - copy EEEEES ErrrES SrrrDS ErrrDE EEErEE",
    "leaving-by-switch - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "primary volume volume EEEEES ErrrES SrrrDS ErrrDE EEErEE",
    "primary volume volume EffffS ErrrfS SrrrDS ErrrDE EEErEE",
    "promoting - - pppppS prrrpS irrrDS ErrrDE EEErEE",
    "promoting - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "returning - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "secondary - - pppppS prrrpS irrrDS ErrrDE EEErEE",
    "secondary - copy pppppS prrrpS SrrrDS ErrrDE EEErEE",
    "stopped - copy pppppS prrrpS SrrrDS prrrDE ppprpE",
];

/// The states of a primary and of a secondary that the walk goes through. A primary never needs a sync; a secondary is
/// told of a state over the link, which is down while its primary queues.
const PRIMARY: [State; 6] = [
    State::Replicating,
    State::Queuing,
    State::CatchingUp,
    State::Logging,
    State::Syncing,
    State::NeedsRoom,
];
const SECONDARY: [State; 6] = [
    State::Replicating,
    State::CatchingUp,
    State::Logging,
    State::Syncing,
    State::NeedsSync,
    State::NeedsRoom,
];

/// Every operation that a front end can ask for, in the order of the columns.
fn operations() -> [Operation; 6] {
    let (extent, fua) = (Extent::new(0, BLOCK.0), false);
    [
        Operation::Read(extent),
        Operation::Write { extent, payload: Buffer::zeroed(BLOCK.0 as usize), fua },
        Operation::Zero { extent, punch: true, fua },
        Operation::Discard { extent, fua },
        Operation::Flush,
        Operation::Map(extent),
    ]
}

/// What becomes of an operation on a target.
fn probe(operation: Operation, target: Target, engine: &Engine, now: Moment) -> char {
    let view = engine.view();
    let read = || Outcome::Read { buffer: Buffer::zeroed(BLOCK.0 as usize), result: Ok(()) };
    let reply = match Course::of(operation, target, &mut Payloads::default()) {
        Course::Engine(operation, rest) => {
            assert_eq!(rest, None, "one block is no long effect");
            let request = Request { id: PROBE, volume: V, operation };
            match answer(Event::Request(request), engine.clone(), now) {
                Some(Answer::Denied(denial)) => Reply::Failed(Failure::Denied(denial)),
                Some(Answer::Done(_) | Answer::Branch | Answer::Read(_)) | None => return 'E',
            }
        }
        // The engine looks for it, in any role.
        Course::MapOnCopy(_) => return 'E',
        Course::OnCopy(on, op) => {
            let io = CopyIo { name: PROBE.0, on, volume: V, op };
            match answer(Event::CopyIo(io), engine.clone(), now) {
                None | Some(Answer::Denied(Denial::Store(StoreFault::Io))) => return 'E',
                Some(Answer::Denied(denial)) => Reply::Failed(Failure::Denied(denial)),
                Some(other) => panic!("a copy is used at once: {other:?}"),
            }
        }
        Course::Store(super::StoreOp::Read(_)) => reply::of_copy(read(), view.words().consistent),
        Course::Store(super::StoreOp::Map(_)) => {
            reply::of_map(Outcome::Map(Ok(Vec::new())), view.lacks_regions())
        }
        Course::Ended(reply) => reply,
    };
    match reply {
        Reply::Done => 'D',
        Reply::Read(_) | Reply::Map(_) => 'S',
        Reply::Failed(Failure::ReadOnly) => 'r',
        Reply::Failed(Failure::Inconsistent) => 'i',
        Reply::Failed(Failure::Denied(Denial::NotPrimary)) => 'p',
        Reply::Failed(Failure::Denied(Denial::QueueFull)) => 'f',
        Reply::Failed(Failure::Denied(
            denial @ (Denial::OutOfBounds | Denial::Unaligned | Denial::Store(_)),
        )) => panic!("{denial:?} has nothing to do with a state"),
    }
}

/// The engine's answer, if it has one at once.
fn answer(asked: Event, mut engine: Engine, now: Moment) -> Option<Answer> {
    let mut effects = Vec::new();
    engine.handle(now, asked, &mut effects);
    engine.settle(now, &mut effects);
    effects.into_iter().find_map(|effect| match effect {
        Effect::Reply { request: PROBE, answer } => Some(answer),
        _ => None,
    })
}

/// A row of the table, as a node stands.
fn row(standing: &str, engine: &Engine, now: Moment) -> String {
    let opened = [false, true].map(|read_only| match Target::open(read_only, engine.view()) {
        Ok(Target::Volume { read_only: opened }) => {
            assert_eq!(opened, read_only);
            "volume"
        }
        Ok(Target::Copy) => "copy",
        Ok(Target::Snapshot(_)) => panic!("no snapshot was named"),
        Err(_) => "-",
    });
    let cells = TARGETS.map(|target| {
        let cells = operations().map(|operation| probe(operation, target, engine, now));
        String::from_iter(cells)
    });
    format!("{standing} {} {}", opened.join(" "), cells.join(" "))
}

/// The engine once its last record is saved, if it closes and is about to ask for that. The process of a node ends with it; a
/// shard goes on, and may still ask the group.
fn stopped(mut engine: Engine, now: Moment) -> Option<Engine> {
    if engine.view().standing() != "closing" {
        return None;
    }
    let mut effects = Vec::new();
    engine.settle(now, &mut effects);
    effects.iter().find(|effect| matches!(effect, Effect::SaveSuperblock(_)))?;
    engine.handle(now, Event::SuperblockSaved { ok: true, sequence: 1 }, &mut effects);
    Some(engine).filter(|engine| engine.view().standing() == "stopped")
}

/// Two nodes, and what was seen of them.
struct Walk {
    cluster: Cluster,
    rows: BTreeSet<String>,
    states: BTreeSet<(bool, &'static str)>,
    last: [Option<(&'static str, State, bool)>; 2],
    /// The standing of a primary that leaves, with the command that it leaves by.
    leaves_by: &'static str,
    commands: u64,
    writes: u64,
}

fn config(side: Side) -> Config {
    Config {
        peer_timeout: Duration::from_secs(2),
        flush_limit: Duration::from_secs(10),
        on_error: helio_engine::OnError::Pass,
        ..Config::new("db", side.name(), side.other().name(), vec![Bytes::mib(1)])
    }
}

impl Walk {
    /// Two new nodes 20 ms apart, both secondary.
    fn begin() -> Self {
        let profile = Profile::wan(Duration::from_millis(20), Rate::mbit(100));
        let cluster = Cluster::of_two(config, TICK, &profile, &Dice::new(7));
        let (rows, states) = (BTreeSet::new(), BTreeSet::new());
        let mut walk = Self {
            cluster,
            rows,
            states,
            last: [None; 2],
            leaves_by: "leaving",
            commands: 0,
            writes: 0,
        };
        Side::BOTH.into_iter().for_each(|side| walk.start(side));
        walk.pass(1000);
        walk
    }

    fn start(&mut self, side: Side) {
        self.cluster.start(side).expect("its metadata can be read");
        self.look();
    }

    /// So many milliseconds pass; every step is looked at.
    fn pass(&mut self, milliseconds: u64) {
        let until = self.cluster.now() + Duration::from_millis(milliseconds);
        while self.cluster.next_at().is_some_and(|at| at < until) {
            self.cluster.step();
            self.look();
        }
        self.cluster.run_until(until);
        self.cluster.take_journal(&mut Vec::new());
    }

    /// Adds what is seen of both nodes to the rows. A node that stands as before is not asked again, but for one that
    /// leaves, which takes requests up to some step.
    fn look(&mut self) {
        for side in Side::BOTH {
            let node = self.cluster.node(side);
            let Some(engine) = &node.engine else { continue };
            let words = engine.view().words();
            let stands = (engine.view().standing(), words.state, words.consistent);
            let before = self.last[side.index()].replace(stands);
            if before != Some(stands) || stands.0 == "leaving" {
                self.ask(side);
            }
        }
    }

    fn ask(&mut self, side: Side) {
        let node = self.cluster.node(side);
        let engine = node.engine.as_ref().expect("it runs");
        let now = node.clock.read(self.cluster.now());
        let role = engine.view().words().role;
        self.states.insert((role == Role::Primary, engine.view().state().word()));
        let standing = match engine.view().standing() {
            "leaving" => self.leaves_by,
            standing => standing,
        };
        self.rows.insert(row(standing, engine, now));
        self.rows.extend(stopped(engine.clone(), now).map(|it| row("stopped", &it, now)));
    }

    fn command(&mut self, side: Side, command: Command) {
        self.commands += 1;
        self.leaves_by = match command {
            Command::Switch => "leaving-by-switch",
            Command::Demote => "leaving-by-demote",
            Command::Stop => "leaving-by-stop",
            _ => self.leaves_by,
        };
        assert!(self.cluster.command(side, CommandId(self.commands), command), "{side} runs");
        self.look();
    }

    fn write(&mut self, side: Side, blocks: u64) {
        for block in 0..blocks {
            self.writes += 1;
            let extent = Extent::new(block * BLOCK.0, BLOCK.0);
            let operation = EngineOp::Write { extent, payload: Payload::default(), fua: false };
            let id = RequestId(self.writes);
            assert!(self.cluster.submit(side, id, V, operation, Stamp(self.writes)), "{side} runs");
        }
    }
}

impl Walk {
    /// Through the states of a pair whose roles stay.
    fn states(&mut self) {
        let (paris, lyon) = (Side::Paris, Side::Lyon);
        self.command(paris, Command::Promote { force: false });
        self.pass(3000);
        // Queuing, and catching up.
        self.cluster.break_link(Breakage::Silent);
        self.write(paris, 200);
        self.pass(5000);
        self.cluster.mend_link(None);
        self.pass(10_000);
        // Logging, and no room for the safe copy.
        self.command(paris, Command::Pause);
        self.pass(500);
        self.write(paris, 200);
        self.pass(500);
        self.cluster.node_mut(lyon).before.limit(0);
        self.command(paris, Command::Resume);
        self.pass(3000);
        // Syncing, and a sync that was interrupted.
        self.cluster.node_mut(lyon).before.limit(u64::MAX);
        self.command(paris, Command::Resync);
        self.pass(80);
        self.cluster.break_link(Breakage::Silent);
        self.pass(5000);
        self.cluster.mend_link(None);
        self.pass(10_000);
    }

    /// Through changes of roles.
    fn roles(&mut self) {
        let (paris, lyon) = (Side::Paris, Side::Lyon);
        self.command(paris, Command::Switch);
        self.pass(5000);
        self.command(lyon, Command::Switch);
        self.pass(5000);
        // With writes that the peer does not have yet.
        self.write(paris, 200);
        self.command(paris, Command::Demote);
        self.pass(5000);
        self.command(paris, Command::Promote { force: false });
        self.pass(5000);
        // A primary that crashed comes back.
        self.cluster.kill(paris, false);
        self.pass(1000);
        self.start(paris);
        self.pass(10_000);
    }

    /// Through a suspect copy, a full queue, and stops.
    fn faults(&mut self) {
        let (paris, lyon) = (Side::Paris, Side::Lyon);
        self.cluster.node_mut(lyon).disk.fail_next(StoreVerb::Flush, StoreFault::Io);
        self.write(paris, 1);
        self.pass(1000);
        self.cluster.kill(paris, false);
        self.pass(5000);
        self.command(lyon, Command::Accept { volume: V });
        self.pass(5000);
        self.start(paris);
        self.pass(10_000);
        let queue = QueueConfig {
            memory: Some(Bytes::kib(64)),
            disconnected: WhenFull::Fail,
            ..QueueConfig::default()
        };
        self.cluster.reconfigure(paris, Config { queue, ..config(paris) });
        self.cluster.break_link(Breakage::Silent);
        self.pass(5000);
        self.write(paris, 200);
        self.pass(100);
        self.ask(paris);
        self.command(lyon, Command::Stop);
        self.command(paris, Command::Stop);
        self.pass(20_000);
    }
}

#[test]
fn a_front_end_can_ask_what_the_table_says_and_nothing_else() {
    let mut walk = Walk::begin();
    walk.states();
    walk.roles();
    walk.faults();
    let rows: Vec<&str> = walk.rows.iter().map(String::as_str).collect();
    assert_eq!(rows, TABLE);
    let states = |primary, states: [State; 6]| states.map(|state| (primary, state.word()));
    let expected = states(true, PRIMARY).into_iter().chain(states(false, SECONDARY));
    assert_eq!(walk.states, expected.collect());
}
