// SPDX-License-Identifier: Apache-2.0
//! One file of a group takes ten seconds for each request of one kind. Meanwhile another group of the daemon gets a write every ten
//! milliseconds: the thread of the shard waits in no call, and no group loses its peer.
//!
//! An ordinary run draws some of the cases. `HELIO_ROUNDS=108 cargo test -p helio-e2e --test isolation slow_at -- --nocapture` plays all,
//! prints what it measured, and holds it to the bounds of a quiet machine.

use crate::groups::{begin_web, served, web, with_web};
use crate::writer::{PACE, Took, Writer};
use helio_e2e::{begin, group, wait};
use helio_nbd::Client;
use helio_testkit::{
    Dice, FaultyStore, Pair, Plan, Request, StorePlan, Traced, eventually, faulty_stores_possible,
    helio, in_time, require, rounds,
};
use helio_units::{Bytes, Mode};
use std::fs;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SIZE: Bytes = Bytes::mib(64);
const DELAY: Duration = Duration::from_secs(10);
/// No call of the shard's thread takes longer, on a quiet machine.
const LONGEST_CALL: Duration = Duration::from_millis(50);
/// On any machine: a call that waited for the file would take [`DELAY`].
const LONGEST_ANYWHERE: Duration = Duration::from_secs(1);

/// The files of `db` on paris: its member, its metadata and its before-images.
const FILES: [&str; 3] = ["member", "metadata", "before-images"];

/// What the daemon does with the group while a file is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// It serves clients and commands.
    Serving,
    /// It opens the group, whose member did not respond when the daemon started.
    Opening,
}

/// A driver, a moment, a file's place in [`FILES`], and what that file is slow at.
type Case = (&'static str, Moment, usize, Request);

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for driver in ["ring", "poll"] {
        for moment in [Moment::Serving, Moment::Opening] {
            for file in 0..FILES.len() {
                all.extend(Request::ALL.map(|request| (driver, moment, file, request)));
            }
        }
    }
    all
}

struct Stage {
    stores: [FaultyStore; 3],
    pair: Pair,
}

impl Stage {
    fn new(driver: &'static str) -> Self {
        let member = StorePlan::new(SIZE).mount();
        let plan = Plan::new("db")
            .mode(Mode::Sync)
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .group_line("member-timeout = \"1s\"")
            .group_line("on-error = \"pass\"")
            .node_line("paris", &format!("driver = \"{driver}\""))
            .member("paris", "data", member.path());
        let mut pair = with_web(plan);
        let groups = pair.state("paris").join("groups");
        fs::create_dir_all(&groups).expect("there is room");
        let [metadata, images] = ["db.meta", "db.before"].map(|name| {
            let file = groups.join(name);
            fs::write(&file, []).expect("there is room");
            StorePlan::new(Bytes::ZERO).over(&file).mount()
        });
        pair.start("lyon");
        pair.start("paris");
        begin(&pair, "paris");
        begin_web(&pair, "paris");
        Self { pair, stores: [member, metadata, images] }
    }

    /// The daemon starts again, and cannot open `db` yet.
    fn restart_without_db(&mut self) {
        assert!(self.pair.daemon("paris").terminate().success());
        self.stores[0].hang();
        self.pair.start("paris");
        begin_web(&self.pair, "paris");
        self.stores[0].respond();
    }

    /// When the peer of each group that is served connected.
    fn connected(&self) -> Vec<String> {
        let status = self.pair.status("lyon");
        let since = ["db", "web"].map(|group| served(&status, group)["peer"].clone());
        since.map(|peer| peer["connection_since_ms"].to_string()).to_vec()
    }

    /// Everything is done with `db` that makes its files work, by clients and an operator who may wait.
    fn busy(&self, round: u64) -> Vec<JoinHandle<()>> {
        let state = self.pair.state("paris");
        let clients: [fn(&mut Client, u64); 6] = [
            |client, at| drop(client.write(at, &[1; 4096], false)),
            |client, at| drop(client.write(at, &[2; 4096], true)),
            |client, at| drop(client.read(at, &mut [0; 65536])),
            |client, at| drop(client.trim(at, Bytes::kib(64), false)),
            |client, at| drop(client.write_zeroes(at, Bytes::kib(64), true, false)),
            |client, _| drop(client.flush()),
        ];
        let clients = clients.into_iter().enumerate().map(|(nth, does)| {
            let socket = state.join("nbd.sock");
            thread::spawn(move || {
                let Ok(mut client) = Client::connect_unix(socket, "db/data") else { return };
                does(&mut client, (round * 6 + nth as u64) << 20 & (SIZE.0 - 1));
            })
        });
        let snapshot = format!("db@s{round}");
        let commands = [vec!["snapshot", "create", &snapshot], vec!["apply"], vec!["status", "-v"]];
        let commands = commands.map(|command| {
            let words: Vec<String> = command.into_iter().map(String::from).collect();
            let state = state.display().to_string();
            thread::spawn(move || {
                let words: Vec<&str> =
                    words.iter().map(String::as_str).chain(["--state", &state]).collect();
                drop(helio(&words));
            })
        });
        clients.chain(commands).collect()
    }

    /// One file is slow at one kind of request.
    fn round(&mut self, round: u64, case: Case, calm: Duration, is_quiet: bool) {
        let (driver, moment, file, request) = case;
        if moment == Moment::Opening {
            self.restart_without_db();
        }
        let (before, connected) = (self.stores[file].counts().slowed, self.connected());
        self.stores[file].slow(request, DELAY);
        let Some((took, longest, busy)) = self.measured(DELAY, |stage| stage.busy(round)) else {
            return;
        };
        let slowed = self.stores[file].counts().slowed - before;
        self.stores[file].respond();
        let what = format!("{driver}, {moment:?}, {} slow at {request:?}", FILES[file]);
        println!(
            "{what}: {slowed} requests waited; the other group's writes: {took} (p99 before {calm:?}); longest call {longest:?}"
        );
        let web = self.connected();
        assert_eq!(web[1], connected[1], "{what}: web lost its peer");
        if moment == Moment::Serving {
            assert_eq!(web, connected, "{what}: db lost its peer");
        }
        busy.into_iter().for_each(|thread| thread.join().expect("it ends"));
        self.recover(round);
        let call = format!("{what}: the longest call of the shard");
        let writes = format!("{what}: p99 of the other group");
        if is_quiet {
            in_time(longest, LONGEST_CALL, &call);
            in_time(took.p99(), (2 * calm).max(PACE), &writes);
        }
        in_time(longest.max(took.p99()), LONGEST_ANYWHERE, &format!("{call}, or {writes}"));
    }

    /// `db` is served and replicates again.
    fn recover(&self, round: u64) {
        if group(&self.pair, "paris").is_null() {
            self.pair.helio("paris", &["apply"]).expect_success();
        }
        if group(&self.pair, "paris")["role"] != "primary" {
            begin(&self.pair, "paris");
        }
        wait(&self.pair, "paris", "the group", |shown| shown["state"] == "replicating");
        let snapshot = format!("db@s{round}");
        let _none = self.pair.helio("paris", &["snapshot", "delete", &snapshot, "--yes"]);
    }

    /// What the other group's writes took in that time, the longest call of the shard, and what `begin` began. None where processes may not be
    /// traced.
    fn measured<T>(
        &mut self,
        lasts: Duration,
        begin: impl FnOnce(&Self) -> T,
    ) -> Option<(Took, Duration, T)> {
        let writer = Writer::start(web(&self.pair, "paris"));
        let told = self.pair.scratch().join("calls");
        let traced = Traced::shard(self.pair.daemon("paris"), &["-T"], &told)?;
        let begun = begin(self);
        let began = Instant::now();
        eventually(2 * lasts, "the time to pass", || (began.elapsed() > lasts).then_some(()));
        Some((writer.stop(), longest(&traced.end()), begun))
    }
}

/// The longest system call in what strace told.
fn longest(told: &str) -> Duration {
    let seconds = told.lines().filter_map(|line| {
        let (_, took) = line.strip_suffix('>')?.rsplit_once('<')?;
        took.parse().ok().map(Duration::from_secs_f64)
    });
    seconds.max().expect("the shard calls the kernel")
}

#[test]
fn a_file_that_is_slow_at_any_request_keeps_no_other_group_waiting() {
    require!("strace");
    if !faulty_stores_possible() {
        return;
    }
    let mut dice = Dice::of_test("a_file_that_is_slow_at_any_request_keeps_no_other_group_waiting");
    let mut left = cases();
    let all = left.len() as u64;
    let drawn = rounds(4).min(all);
    let drawn: Vec<_> =
        (0..drawn).map(|_| left.swap_remove(dice.below(left.len() as u64) as usize)).collect();
    for driver in ["ring", "poll"] {
        let mut stage = Stage::new(driver);
        let Some((calm, longest, ())) = stage.measured(DELAY / 4, |_| ()) else { return };
        println!("{driver}, before: {calm}; longest call {longest:?}");
        for (round, case) in drawn.iter().filter(|case| case.0 == driver).enumerate() {
            stage.round(round as u64, *case, calm.p99(), drawn.len() as u64 == all);
        }
    }
}
