// SPDX-License-Identifier: Apache-2.0
//! What a seed decides before the story begins.

use crate::merges::Merges;
use crate::replay::BEGINS;
use core::time::Duration;
use helio_engine::{Config, OnError, QUEUE_ITEMS_SNDR, QueueConfig, SafeCopy, WhenFull};
use helio_netmodel::{Dice, Ppm, Profile};
use helio_replay::Script;
use helio_stack::{Faults, Layer, Odds, Pass};
use helio_twin::{
    BLOCK, Before, Clock, Cluster, Disk, Latency, Metadata, Node, Place, Side, Stamp, Wire,
};
use helio_units::{Bytes, Items, Mode, Moment, Rate};

/// Stamps of what lay on the disks before the story; requests never get that far.
pub(crate) const FOREIGN: u64 = 1 << 60;

/// The fixed facts of one story.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) volumes: Vec<Bytes>,
    pub(crate) config: Config,
    pub(crate) profile: Profile,
    pub(crate) socket: Bytes,
    /// How many requests the client makes while things break.
    pub(crate) requests: u64,
    /// How many it has under way at once.
    pub(crate) depth: usize,
    /// How long it thinks between two bursts, at most.
    pub(crate) thinks: Duration,
    /// The mean time between two misfortunes.
    pub(crate) calm: Duration,
    /// The nodes' clocks show different times and run at different speeds.
    pub(crate) clocks_differ: bool,
    /// Things break for so long at most.
    pub(crate) breaking: Duration,
    /// Layers fail for so long.
    pub(crate) layers_fail: Duration,
    /// How many members the volumes of each node have behind the first.
    pub(crate) mirrors: [u64; 2],
}

/// Sectors of a disk, in bytes.
pub(crate) const BLOCKS: [u32; 3] = [512, 512, 4096];
/// How much too fast a clock is, in parts per million: sound ones stay below 200, and there are others.
const DRIFTS: [i32; 7] = [0, 20, -20, 200, -200, 10_000, -10_000];
/// One story in so many is a long one; not every one of them comes to its 2,000 writes.
const LONG_ONE_IN: u64 = 80;
/// The requests of a long story: at least 2,000 of them change data, whatever the dice say.
const LONG_REQUESTS: u64 = 2_700;
/// Within this the client of an ordinary story is done, mostly.
const BREAKING: Duration = Duration::from_secs(40);
/// A long story's client is, always but for a node that hangs at every turn.
const LONG_BREAKING: Duration = Duration::from_secs(600);

/// One of the given, each as likely.
pub(crate) fn pick<T: Copy>(dice: &mut Dice, from: &[T]) -> T {
    from[dice.below(from.len() as u64) as usize]
}

/// Between two spans, evenly by magnitude: a millisecond is as likely as a second.
pub(crate) fn span(dice: &mut Dice, least: Duration, most: Duration) -> Duration {
    let (least, most) = (least.as_secs_f64().ln(), most.as_secs_f64().ln());
    Duration::from_secs_f64((least + (most - least) * dice.uniform()).exp())
}

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A quarter of the stories begin in mode periodic. In all of them an operator may change to it.
fn periodic(dice: &Dice, config: Config) -> Config {
    let mut dice = dice.split("periodic");
    let period = pick(&mut dice, &[0, 0, 50, 300, 1000, 3000]);
    let config = Config { period: millis(period), ..config };
    // Then nothing is leased. The configuration refuses it without a safe copy.
    let begins = dice.chance(1, 4) && config.safe_copy != SafeCopy::Off;
    if begins { Config { mode: Mode::Periodic, hold: Duration::ZERO, ..config } } else { config }
}

impl Scenario {
    pub(crate) fn new(dice: &Dice) -> Self {
        let mut dice = dice.split("scenario");
        let mut volumes = Vec::new();
        // A wide volume has several hot extents, and coarse marks, so that copying it stays a short story.
        let wide = dice.chance(1, 4);
        let fine = [Bytes::kib(4), Bytes::kib(16), Bytes::kib(64), Bytes::kib(64), Bytes::kib(64)];
        let granularity = if wide {
            pick(&mut dice, &[Bytes::kib(512), Bytes::mib(1)])
        } else {
            pick(&mut dice, &fine)
        };
        if wide {
            volumes.push(Bytes(Bytes::mib(9 + dice.below(20)).0 + BLOCK.0 * dice.below(3)));
        }
        for _ in 0..=dice.below(2) {
            // Not always a multiple of a region, so that the last one is short.
            let odd = if dice.chance(1, 3) { BLOCK.0 * dice.below(15) } else { 0 };
            volumes.push(Bytes(Bytes::kib(64).0 * (8 + dice.below(25)) + odd));
        }
        let memory = [None, Some(Bytes::kib(32)), Some(Bytes::kib(128)), Some(Bytes::kib(512))];
        let policies = [WhenFull::Block, WhenFull::Log, WhenFull::Fail];
        let queue = QueueConfig {
            memory: pick(&mut dice, &memory),
            items: if dice.chance(1, 4) { Items(2 + dice.below(30)) } else { QUEUE_ITEMS_SNDR },
            connected: pick(&mut dice, &policies),
            disconnected: pick(&mut dice, &policies),
            ..QueueConfig::default()
        };
        let config = Config {
            names: ["data", "log", "index"].map(String::from).into(),
            mode: pick(&mut dice, &Mode::IN_ORDER),
            queue,
            peer_timeout: span(&mut dice, millis(800), millis(4000)),
            flush_limit: span(&mut dice, millis(2000), millis(10_000)),
            member_timeout: span(&mut dice.split("member"), millis(100), millis(2000)),
            autosync: dice.chance(5, 6),
            granularity,
            hot_extents: pick(&mut dice, &[2, 3, 4, 508, 2032]),
            safe_copy: safe_copy(&mut dice, &volumes),
            on_error: if dice.chance(1, 2) { OnError::ServeFromPeer } else { OnError::Pass },
            hook_before_sync: dice.split("hook").chance(1, 3),
            ..Config::new("db", Side::Paris.name(), Side::Lyon.name(), volumes.clone())
        };
        let config = periodic(&dice, leased(&dice, config));
        let profile = weather(&mut dice);
        let socket = pick(&mut dice, &[Bytes::kib(16), Bytes::kib(128), Bytes::mib(4)]);
        let long = dice.chance(1, LONG_ONE_IN);
        let requests = 150 + dice.below(350) + if long { LONG_REQUESTS } else { 0 };
        let depth = pick(&mut dice, &[1, 2, 4, 8, 16]);
        let thinks = span(&mut dice, millis(20), millis(400)) * depth as u32;
        let calm = span(&mut dice, millis(100), millis(2500));
        let clocks_differ = dice.chance(1, 2);
        let breaking = if long { LONG_BREAKING } else { BREAKING };
        Self {
            volumes,
            config,
            profile,
            socket,
            requests,
            depth,
            thinks,
            calm,
            clocks_differ,
            breaking,
            layers_fail: span(&mut dice.split("layers"), millis(1000), BREAKING / 4),
            mirrors: mirrors(&mut dice.split("mirrors")),
        }
    }

    /// What a file of the field decides instead of the seed.
    pub(crate) fn follow(&mut self, script: &Script) {
        self.volumes = script.volumes().to_vec();
        self.config.volumes.clone_from(&self.volumes);
        self.requests = 0;
        self.breaking += BEGINS + script.lasts();
    }

    /// The two nodes with what lies on their disks, not running yet.
    pub(crate) fn cluster(&self, dice: &Dice, telling: bool) -> Cluster {
        let mut roll = dice.split("disks");
        let filled = roll.chance(1, 2);
        let node = |side: Side| {
            let mut config = self.config.clone();
            config.node = side.name().into();
            config.peer = side.other().name().into();
            let own = dice.split_nth("disk", side.index() as u64);
            let mut speed = own.split("speed");
            let block = pick(&mut dice.split_nth("blocks", side.index() as u64), &BLOCKS);
            let disk = |speed: &mut Dice, own: Dice| {
                let latency = Latency {
                    read: span(speed, micros(20), micros(400)),
                    write: span(speed, micros(20), micros(4000)),
                    flush: span(speed, micros(100), micros(20_000)),
                };
                let mut disk = Disk::new(&self.volumes, latency, own);
                if filled {
                    let salt = FOREIGN | (side.index() as u64) << 56;
                    disk.fill(|Place { volume, block }| {
                        Stamp(salt | u64::from(volume.0) << 32 | u64::from(block))
                    });
                }
                disk.set_block(block);
                disk
            };
            let first = disk(&mut speed, own.split("disk"));
            let mirror = |n| {
                let own = own.split_nth("mirror", n);
                disk(&mut own.split("speed"), own.split("disk"))
            };
            let saves = span(&mut speed, micros(50), micros(5000));
            let owner = (config.group.as_str(), config.node.as_str());
            let grain = (config.granularity.0 as u32, config.hot_extents);
            let metadata = Metadata::new(owner, &self.volumes, grain, saves, own.split("metadata"));
            let keeps = span(&mut speed, micros(50), micros(10_000));
            let before = Before::new(keeps, own.split("before"));
            let mut node = Node::new(config, first, metadata, before);
            node.mirrors = (0..self.mirrors[side.index()]).map(mirror).collect();
            let mut bound = own.split("received");
            node.receive_items = bound.chance(1, 2).then(|| 2 + bound.below(30) as usize);
            if self.clocks_differ {
                let mut own = own.split("clock");
                let drift = pick(&mut own, &DRIFTS);
                node.clock = Clock::new(Duration::from_millis(own.below(1 << 40)), drift);
            }
            let mended = node.clock.read(Moment::ZERO + self.layers_fail);
            node.layers = layers(&mut own.split("layers"), mended);
            let mut merges = own.split("merges");
            if merges.chance(1, 4) {
                let pause = span(&mut merges, micros(50), millis(500));
                node.layers.insert(0, Box::new(Merges::new(pause)));
            }
            node
        };
        let nodes = [node(Side::Paris), node(Side::Lyon)];
        let wire = Wire::new(&self.profile, self.socket, dice);
        Cluster::new(nodes, wire, dice, telling)
    }
}

/// In a quarter of the stories the volumes of one node or of both have one or two further members.
fn mirrors(dice: &mut Dice) -> [u64; 2] {
    if !dice.chance(1, 4) {
        return [0; 2];
    }
    let which = dice.below(3);
    [0, 1].map(|side| if which == side { 0 } else { 1 + dice.below(2) })
}

/// What stands between an engine and its disk: in a quarter of the nodes a layer that delays, which in half of these fails, too,
/// until things are mended; and maybe the layer that does nothing, above or below it. What a layer neither delays nor fails has
/// a witness on the disk: an oracle compares when a write reached the disk with when it was sent, and takes a block that could not
/// be read for a rotten one. A layer above them that owns what a crash left hot is drawn apart.
fn layers(dice: &mut Dice, mended: Moment) -> Vec<Box<dyn Layer>> {
    if !dice.chance(1, 4) {
        return Vec::new();
    }
    let longest = span(dice, micros(20), millis(5));
    let mut odds = Odds { waits: 300, longest, until: mended, ..Odds::NONE };
    if dice.chance(1, 2) {
        let rare = |dice: &mut Dice| pick(dice, &[0, 1, 2]);
        odds.lost = rare(dice);
        odds.flush = rare(dice);
    }
    let faults: Box<dyn Layer> = Box::new(Faults::new(dice.next_u64(), odds, BLOCK));
    let pass = || -> Box<dyn Layer> { Box::new(Pass::default()) };
    match dice.below(3) {
        0 => vec![faults],
        1 => vec![pass(), faults],
        _ => vec![faults, pass()],
    }
}

/// Mostly a consistent image is kept, half of the time with a bound that some updates pass in their middle.
pub(crate) fn safe_copy(dice: &mut Dice, volumes: &[Bytes]) -> SafeCopy {
    if !dice.chance(9, 10) {
        return SafeCopy::Off;
    }
    let all = volumes.iter().fold(Bytes::ZERO, |sum, size| sum + *size);
    let bound = Bytes(all.0 / 32 * (1 + dice.below(32)));
    SafeCopy::On { bound: if dice.chance(1, 2) { Some(bound) } else { None } }
}

/// In a third of the stories there are hold leases, mostly long enough to outlive the loss of a peer, and mostly in a mode
/// in which one can be granted.
fn leased(dice: &Dice, config: Config) -> Config {
    let mut dice = dice.split("hold");
    if !dice.chance(1, 3) {
        return config;
    }
    let hold = span(&mut dice, millis(500), config.peer_timeout * 5);
    let strict = pick(&mut dice, &[Mode::Sync, Mode::NearSync]);
    let mode = if config.mode == Mode::Async && dice.chance(4, 5) { strict } else { config.mode };
    Config { hold, mode, ..config }
}

/// A link of some kind, from a hall to an ocean.
pub(crate) fn weather(dice: &mut Dice) -> Profile {
    let round_trip = span(dice, micros(100), millis(120));
    let rate = pick(dice, &[10, 100, 1000]);
    let mut profile = Profile::wan(round_trip, Rate::mbit(rate));
    profile.jitter = if dice.chance(1, 2) { round_trip / 4 } else { Duration::ZERO };
    profile.loss = if dice.chance(1, 3) { Ppm(5_000) } else { Ppm::NONE };
    profile
}

/// A link on which nothing is in the way.
pub(crate) fn fair_weather() -> Profile {
    Profile::wan(millis(2), Rate::mbit(1000))
}
