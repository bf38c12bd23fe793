// SPDX-License-Identifier: Apache-2.0
//! Databases on attached volumes, whose daemon is killed under load: afterwards they recover, are whole, and hold every
//! transaction they had acknowledged. So does the other node's copy in `sync`; in `async` it holds those of some moment.
//!
//! A run has three crashes of each database; the seed moves them. The full count:
//! `HELIO_CRASHES=50 cargo test -p helio-e2e --test attach databases`.

mod drill;
mod postgres;
mod sets;
mod snapshots;
mod sqlite;

use crate::common::{Stage, VOLUME, attachable, on};
use crate::databases::postgres::Postgres;
use crate::databases::sqlite::Sqlite;
use helio_e2e::{PATIENCE, assert_members_equal, forget, other, take_over, wait, wait_level};
use helio_testkit::{Dice, Group, eventually, require, run, times};
use helio_units::{Bytes, Mode};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

const CRASHES: u64 = 3;

/// What the story needs of a database.
trait Database {
    /// How many write at a time.
    const CLIENTS: u64;

    /// Makes it, in a folder of its own.
    fn make(&mut self, place: &Path);
    /// Opens it, which recovers it.
    fn open(&mut self, place: &Path);
    /// Ends at once whatever runs of it.
    fn end(&mut self);
    /// A client that commits one transaction after the other from a number on, and prints the number of each when it is
    /// acknowledged.
    fn client(&self, place: &Path, client: u64, from: u64) -> Writer;
    /// Looks at everything, and returns each client's last transaction. All before it must be there, whole.
    fn check(&self, place: &Path) -> Vec<u64>;
}

/// A client that runs, and the number it printed last.
struct Writer {
    process: Group,
    last: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Group::spawn(command).expect("it is installed");
        let last = Arc::new(AtomicU64::new(0));
        let (told, seen) = (process.take_output().0.expect("piped"), Arc::clone(&last));
        let reading = std::thread::spawn(move || {
            let lines = BufReader::new(told).lines().map_while(Result::ok);
            for number in lines.filter_map(|line| line.trim().parse().ok()) {
                seen.store(number, Ordering::Release);
            }
        });
        Self { process, last, threads: vec![reading] }
    }

    /// Whether it has failed, or ended otherwise.
    fn ended(&mut self) -> bool {
        self.process.ended().is_some()
    }

    /// Waits until it has failed, and returns what was acknowledged last.
    fn broken(mut self) -> u64 {
        eventually(PATIENCE, "a client to see its database fail", || self.process.ended());
        for thread in self.threads.drain(..) {
            thread.join().expect("no panic");
        }
        self.last.load(Ordering::Acquire)
    }
}

/// Waits until every client has committed some transactions more than it has now, or held when it began.
fn commit_more(writers: &[Writer], held: &[u64], dice: &mut Dice) {
    for (writer, before) in writers.iter().zip(held) {
        let last = || writer.last.load(Ordering::Acquire);
        let enough = last().max(*before) + 10 + dice.below(60);
        eventually(PATIENCE, "transactions", || (last() >= enough).then_some(()));
    }
}

#[test]
fn postgres_keeps_what_it_acknowledged_over_kills_and_failovers() {
    attachable!();
    require!("mke2fs", "setpriv");
    let Some(database) = Postgres::find() else { return };
    let dice = Dice::of_test("postgres_keeps_what_it_acknowledged_over_kills_and_failovers");
    crashes(database, &dice, Bytes::mib(256));
}

#[test]
fn sqlite_keeps_what_it_acknowledged_over_kills_and_failovers() {
    attachable!();
    require!("mke2fs", helio_testkit::PYTHON);
    let dice = Dice::of_test("sqlite_keeps_what_it_acknowledged_over_kills_and_failovers");
    crashes(Sqlite::new(dice.seed()), &dice, Bytes::mib(48));
}

/// The crashes of one database: two thirds in `sync`, one in `async`.
fn crashes<D: Database>(mut database: D, dice: &Dice, size: Bytes) {
    let count = times("HELIO_CRASHES", CRASHES);
    let shares = [(Mode::Sync, count - count / 3), (Mode::Async, count / 3)];
    for ((mode, share), label) in shares.into_iter().zip(0..) {
        let mut dice = dice.fork(label);
        let stage = Stage::new(mode, size);
        let mut story = Story { stage, mode, primary: "paris", database };
        let place = story.begin();
        let mut held = story.database.check(&place);
        // Every other crash is a failover; in `async` the first.
        for round in 0..share {
            let fails_over = (round % 2 == 1) ^ (mode == Mode::Async);
            held = story.crash(&held, fails_over, &mut dice);
            println!("{mode}, crash {round}, failover: {fails_over}: {held:?}");
        }
        story.finish();
        database = story.database;
    }
}

struct Story<D> {
    stage: Stage,
    mode: Mode,
    primary: &'static str,
    database: D,
}

impl<D: Database> Story<D> {
    fn begin(&mut self) -> PathBuf {
        let device = self.stage.attach();
        on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
        let place = self.stage.mount(&device);
        self.database.make(&place);
        run(Command::new("sync").arg("-f").arg(&place)).expect_success();
        self.database.open(&place);
        place
    }

    /// Kills the daemon under load, goes on here or there, and returns what is held then.
    fn crash(&mut self, held: &[u64], fails_over: bool, dice: &mut Dice) -> Vec<u64> {
        let writers = self.load(held, dice);
        let old = self.primary;
        let found = self.kill(writers, fails_over);
        if fails_over {
            forget(&self.stage.pair, old);
            self.stage.pair.start(old);
            wait_level(&self.stage.pair, self.primary);
        }
        found
    }

    /// Starts the clients behind what each of them holds, and waits for some transactions.
    fn load(&self, held: &[u64], dice: &mut Dice) -> Vec<Writer> {
        // A copy that a resync is still changing cannot be promoted.
        wait_level(&self.stage.pair, self.primary);
        let clients = (0..D::CLIENTS).zip(held);
        let writers: Vec<Writer> =
            clients.map(|(n, last)| self.database.client(&self.place(), n, last + 1)).collect();
        commit_more(&writers, held, dice);
        writers
    }

    /// Kills the daemon of the primary, goes on here or there, and returns what is held then.
    fn kill(&mut self, writers: Vec<Writer>, fails_over: bool) -> Vec<u64> {
        self.stage.pair.daemon(self.primary).kill9();
        let acknowledged: Vec<u64> = writers.into_iter().map(Writer::broken).collect();
        self.close();
        if fails_over {
            self.fail_over();
        } else {
            self.come_back();
        }
        let place = self.stage.mount(&self.stage.attached(self.primary));
        self.database.open(&place);
        let found = self.database.check(&place);
        for (found, acknowledged) in found.iter().zip(&acknowledged) {
            let lost = *found < *acknowledged;
            assert!(
                !lost || (fails_over && self.mode == Mode::Async),
                "in {} {acknowledged} was acknowledged, and {found} is there; failover: {fails_over}",
                self.mode
            );
        }
        found
    }

    fn place(&self) -> PathBuf {
        self.stage.pair.scratch().join("mnt")
    }

    /// Ends the database, and unmounts its file system.
    fn close(&mut self) {
        self.database.end();
        eventually(PATIENCE, "the file system to be unused", || {
            run(Command::new("umount").arg(self.place())).status.success().then_some(())
        });
    }

    fn come_back(&mut self) {
        self.stage.pair.start(self.primary);
        wait(&self.stage.pair, self.primary, "the primary", |status| status["role"] == "primary");
    }

    /// The other node takes over.
    fn fail_over(&mut self) {
        let heir = other(self.primary);
        let pair = &self.stage.pair;
        assert!(!take_over(pair, heir), "its volumes are consistent");
        pair.helio(heir, &["attach", VOLUME]).expect_success();
        self.primary = heir;
    }

    fn finish(&mut self) {
        self.close();
        let device = self.stage.link(self.primary);
        on("fsck.ext4", &["-fn"], &device).expect_success();
        // Somebody else's mount namespace, made while ours was mounted, holds it until its process ends.
        eventually(PATIENCE, "the device to be unused", || {
            let told = self.stage.pair.helio(self.primary, &["detach", VOLUME]);
            told.status.success().then_some(())
        });
        self.stage.assert_nothing_left(self.primary);
        wait_level(&self.stage.pair, self.primary);
        assert_members_equal(&self.stage.pair, "data");
    }
}
