// SPDX-License-Identifier: Apache-2.0
//! A pair under load that is updated, loses its link and its daemons, and changes roles, with a record of every file.

use crate::judge::{Journal, SECTOR};
use crate::{Cut, torn};
use helio_e2e::{begin, connect, other, relayed, wait, wait_level, wait_state};
use helio_testkit::{Dice, FaultyStore, Images, Pair, Plan, Recorded, StorePlan, TempDir};
use helio_units::{Bytes, Mode};
use helio_wan::Cut as LinkCut;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) const NODES: [&str; 2] = ["lyon", "paris"];
const SIZE: Bytes = Bytes::mib(8);
/// The time that a message takes at least from one node to the other.
pub(crate) const TRANSIT: Duration = Duration::from_millis(5);
/// Clients at the same time.
const CLIENTS: u64 = 2;
/// How long a client waits between two requests.
const PAUSE: Duration = Duration::from_millis(1);
/// The files of a node: its member, its metadata, its before-images.
const FILES: usize = 3;

/// What was played.
pub(crate) struct Story {
    pub(crate) mode: Mode,
    pub(crate) journal: Arc<Journal>,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// From when on which node was primary. Nobody was for sure in the stretch before.
    roles: Vec<(Instant, Instant, &'static str)>,
    /// Stretches in which the secondary may lack what was acknowledged.
    weak: Vec<(Instant, Instant)>,
    recorded: [[Recorded; FILES]; 2],
}

fn plan(mode: Mode) -> Plan {
    Plan::new("db")
        .mode(mode)
        .volume("data", SIZE)
        .volume_line("sparse = true")
        .group_line("peer-timeout = \"500ms\"")
}

/// Where the metadata and the before-images of a node lie.
fn records(pair: &Pair, node: &str) -> [PathBuf; 2] {
    ["db.meta", "db.before"].map(|name| pair.state(node).join("groups").join(name))
}

/// The pair while the story is played.
struct Stage {
    // Dropped in this order: some stores are mounted in the pair's folder.
    stores: [[FaultyStore; FILES]; 2],
    pair: Pair,
    relay: helio_wan::Relay,
    journal: Arc<Journal>,
    roles: Vec<(Instant, Instant, &'static str)>,
    weak: Vec<(Instant, Instant)>,
}

impl Story {
    pub(crate) fn play(mode: Mode, dice: &Dice) -> Self {
        let mut stage = Stage::new(mode, dice.seed());
        let from = Instant::now();
        stage.scenes(dice);
        let to = Instant::now();
        for node in NODES {
            stage.pair.daemon(node).kill9();
        }
        let Stage { stores, pair: _pair, relay: _relay, journal, roles, weak } = stage;
        let recorded = stores.each_ref().map(|node| node.each_ref().map(FaultyStore::recording));
        // Some stores are mounted in the pair's folder.
        drop(stores);
        Self { mode, journal, from, to, roles, weak, recorded }
    }

    /// The moments of all flushes.
    pub(crate) fn flushes(&self) -> Vec<Instant> {
        let all = self.recorded.iter().flatten().flat_map(Recorded::flushes);
        all.filter(|at| (self.from..self.to).contains(at)).collect()
    }

    /// The primary at a cut, if there was one for sure.
    pub(crate) fn primary(&self, cut: Cut) -> Option<&'static str> {
        let [first, last] = [cut.at.into_iter().min()?, cut.at.into_iter().max()?];
        let next = self.roles.iter().position(|(changing, ..)| *changing > last);
        let (_, since, node) = self.roles[next.unwrap_or(self.roles.len()).checked_sub(1)?];
        (since <= first).then_some(node)
    }

    /// Whether the secondary holds everything that a FLUSH covered in sync.
    pub(crate) fn is_strong(&self, cut: Cut) -> bool {
        let weak =
            |(from, to): &(Instant, Instant)| cut.at.iter().any(|at| (*from..=*to).contains(at));
        self.mode == Mode::Sync && !self.weak.iter().any(weak)
    }

    pub(crate) fn shown(&self, cut: Cut) -> String {
        let [lyon, paris] = cut.at.map(|at| (at - self.from).as_secs_f64());
        format!("cut at {lyon:.4} s and {paris:.4} s, seed {}", cut.seed)
    }

    pub(crate) fn images(&self) -> Pairs<'_> {
        let folder = TempDir::new();
        let images = [0, 1].map(|node| {
            [0, 1, 2].map(|file| {
                let durable = folder.join(&format!("durable-{node}-{file}"));
                Images::new(self.recorded[node][file].clone(), durable)
            })
        });
        Pairs { story: self, images, _folder: folder }
    }
}

/// Makes a pair of nodes of each cut, which must rise.
pub(crate) struct Pairs<'a> {
    story: &'a Story,
    images: [[Images; FILES]; 2],
    _folder: TempDir,
}

impl Pairs<'_> {
    pub(crate) fn make(&mut self, cut: Cut) -> Pair {
        let pair = plan(self.story.mode).prepare();
        let mut dice = Dice::new(cut.seed);
        for (at, node) in NODES.into_iter().enumerate() {
            let [metadata, before] = records(&pair, node);
            fs::create_dir_all(metadata.parent().expect("a folder")).expect("a folder of our own");
            let member = pair.member(node, "data");
            fs::remove_file(&member).expect("it was prepared");
            for (images, file) in self.images[at].iter_mut().zip([member, metadata, before]) {
                images.make(cut.at[at], torn(&mut dice), &file);
            }
        }
        pair
    }
}

impl Stage {
    fn new(mode: Mode, run: u64) -> Self {
        let members = [0, 1].map(|_| StorePlan::new(SIZE).recorded().mount());
        let plan = plan(mode).member(NODES[0], "data", members[0].path()).member(
            NODES[1],
            "data",
            members[1].path(),
        );
        let (plan, relay) = relayed(plan, TRANSIT * 2, 200, run);
        let mut pair = plan.start();
        // The daemons have made their files.
        for node in NODES {
            assert!(pair.daemon(node).terminate().success());
        }
        let mut members = members.into_iter();
        let stores = NODES.map(|node| {
            let member = members.next().expect("each node has one");
            let [metadata, before] = records(&pair, node)
                .map(|file| StorePlan::new(Bytes::ZERO).over(&file).recorded().mount());
            [member, metadata, before]
        });
        for node in NODES {
            pair.start(node);
        }
        let changing = Instant::now();
        begin(&pair, "paris");
        let now = Instant::now();
        let (roles, weak) = (vec![(changing, now, "paris")], Vec::new());
        Self { stores, pair, relay, journal: Arc::new(Journal::new(run)), roles, weak }
    }

    /// Lets clients write to a node until they are stopped.
    fn load(&self, node: &str, dice: &Dice) -> Load {
        let clients = (0..CLIENTS).map(|label| {
            let (client, journal) = (connect(&self.pair, node), Arc::clone(&self.journal));
            let (stop, stopped) = sync_channel(1);
            let mut dice = dice.fork(label);
            let writes = move || {
                let mut client = client;
                while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                    // It breaks when the daemon is killed.
                    if step(&mut client, &journal, &mut dice).is_err() {
                        return;
                    }
                }
            };
            (stop, thread::spawn(writes))
        });
        Load { clients: clients.collect() }
    }

    /// The secondary is not level from before `scene` until behind it.
    fn weak(&mut self, scene: impl FnOnce(&mut Self)) {
        let from = Instant::now();
        scene(self);
        self.weak.push((from, Instant::now()));
    }

    fn scenes(&mut self, dice: &Dice) {
        let load = self.load("paris", &dice.fork(1));
        load.go_on(600);
        self.weak(|stage| {
            stage.pair.helio("paris", &["pause", "db"]).expect_success();
            wait_state(&stage.pair, "paris", "logging");
            load.go_on(400);
            stage.pair.helio("paris", &["resync", "db"]).expect_success();
            wait_level_under_load(&stage.pair, "paris");
        });
        load.go_on(200);
        self.weak(|stage| {
            stage.pair.daemon("lyon").kill9();
            load.go_on(200);
            stage.pair.start("lyon");
            wait_level_under_load(&stage.pair, "paris");
        });
        load.stop();
        let changing = Instant::now();
        self.pair.helio("lyon", &["switch", "db"]).expect_success();
        wait_level(&self.pair, "lyon");
        self.roles.push((changing, Instant::now(), "lyon"));

        let load = self.load("lyon", &dice.fork(2));
        load.go_on(400);
        self.weak(|stage| {
            stage.relay.control().cut(LinkCut::Reset);
            load.go_on(300);
            stage.relay.control().heal();
            wait_level_under_load(&stage.pair, "lyon");
        });
        load.go_on(200);
        let changing = Instant::now();
        self.weak(|stage| {
            stage.pair.daemon("lyon").kill9();
            load.stop();
            stage.pair.start("lyon");
            wait_level(&stage.pair, "lyon");
        });
        self.roles.push((changing, Instant::now(), "lyon"));
        let load = self.load("lyon", &dice.fork(3));
        load.go_on(300);
        load.stop();
    }
}

/// Waits until the group replicates and nothing is copied; the queue is seldom empty under load.
fn wait_level_under_load(pair: &Pair, primary: &str) {
    wait(pair, primary, "replicating", |status| status["state"] == "replicating");
    wait(pair, other(primary), "a consistent copy", |status| status["consistent"] == true);
}

/// Running clients.
struct Load {
    clients: Vec<(SyncSender<()>, JoinHandle<()>)>,
}

impl Load {
    /// Lets them write for so many milliseconds.
    fn go_on(&self, span: u64) {
        let (_never, waits) = sync_channel::<()>(0);
        let over = waits.recv_timeout(Duration::from_millis(span));
        assert_eq!(over, Err(RecvTimeoutError::Timeout));
    }

    fn stop(self) {
        for (stop, thread) in self.clients {
            // It may have ended with its connection.
            let _ended = stop.try_send(());
            thread.join().expect("a client has no reason to panic");
        }
    }
}

/// One request: a write, of which some have FUA, or a FLUSH.
fn step(
    client: &mut helio_nbd::Client,
    journal: &Journal,
    dice: &mut Dice,
) -> Result<(), helio_nbd::ClientError> {
    if dice.chance(12) {
        let number = journal.flush();
        client.flush()?;
        journal.flushed(number);
        return Ok(());
    }
    let sectors = 1 + dice.below(24);
    // Some sectors are written often.
    let most = SIZE.0 / SECTOR as u64 - sectors;
    let most = if dice.chance(60) { 512 } else { most };
    let first = dice.below(most);
    let fua = dice.chance(10);
    let (number, data) = journal.write(first, sectors, fua);
    client.write(first * SECTOR as u64, &data, fua)?;
    journal.written(number);
    Ok(())
}
