// SPDX-License-Identifier: Apache-2.0
//! Snapshots of a frozen application: `freeze` runs before each, and `thaw` once for each `freeze` that was started.

use crate::snapshot::{names, places};
use helio_e2e::{BLOCK, begin, group, wait_level};
use helio_nbd::Client;
use helio_testkit::{
    Daemon, FaultyStore, Group, Pair, Plan, StorePlan, TempDir, eventually, faulty_stores_possible,
    helio_binary, rounds,
};
use helio_units::Bytes;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Far longer than a snapshot should take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The hooks of a group, in a folder in which they find and leave their files.
struct Hooks(TempDir);

impl Hooks {
    /// Each writes its facts, does this, waits as long as `NAME.waits` is there, and ends with the code in `NAME.code`.
    fn new(freeze: &str, thaw: &str) -> Self {
        let hooks = Self(TempDir::new());
        for (name, does) in [("freeze", freeze), ("thaw", thaw)] {
            let script = format!(
                "#!/bin/sh\ncd {}\n\
                 echo \"$HELIO_EVENT $HELIO_GROUP $HELIO_NODE $HELIO_PEER $HELIO_STATE $HELIO_SNAPSHOT\" >> ran\n\
                 {does}\nwhile [ -e {name}.waits ]; do sleep 0.02; done\n\
                 exit $(cat {name}.code 2>/dev/null || echo 0)\n",
                hooks.0.path().display()
            );
            let file = hooks.0.write(name, &script);
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(file, mode).expect("it may be run");
        }
        hooks
    }

    /// The line of the configuration.
    fn line(&self, timeout: &str) -> String {
        let path = |name: &str| self.0.join(name).display().to_string();
        let (freeze, thaw) = (path("freeze"), path("thaw"));
        format!("hooks = {{ freeze = \"{freeze}\", thaw = \"{thaw}\", timeout = \"{timeout}\" }}")
    }

    /// What they wrote.
    fn ran(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.join("ran")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The hooks and snapshots of what ran.
    fn names(&self) -> Vec<String> {
        let ends = |row: &String| {
            let words: Vec<&str> = row.split(' ').collect();
            format!("{} {}", words[0], words[words.len() - 1])
        };
        self.ran().iter().map(ends).collect()
    }

    #[track_caller]
    fn wait_for(&self, names: &[&str]) {
        let what = names.join(", ");
        eventually(PATIENCE, &what, || (self.names() == names).then_some(()));
    }

    fn set(&self, file: &str, text: &str) {
        self.0.write(file, text);
    }

    fn unset(&self, file: &str) {
        fs::remove_file(self.0.join(file)).expect("it is there");
    }
}

/// A pair with these hooks, and paris as its primary.
fn pair(hooks: &Hooks, timeout: &str) -> Pair {
    let plan = Plan::new("db").volume("data", Bytes::mib(4));
    let pair = plan.group_line(&hooks.line(timeout)).start();
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    pair
}

/// Begins to create a snapshot, and returns at once.
fn creating(pair: &Pair, name: &str) -> Group {
    let mut command = Command::new(helio_binary());
    command.args(["snapshot", "create", &format!("db@{name}")]);
    command.env("HELIO_STATE_DIR", pair.state("paris"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Group::spawn(&mut command).expect("it starts")
}

#[track_caller]
fn refused(pair: &Pair, line: &[&str]) -> Value {
    let error = pair.helio("paris", &[line, &["--json"]].concat()).expect_failure();
    serde_json::from_str(&error).unwrap_or_else(|why| panic!("{why}: {error}"))
}

/// The daemon of paris has recorded that the application is frozen.
fn is_recorded(pair: &Pair) -> bool {
    pair.state("paris").join("groups/db.frozen").exists()
}

fn open(pair: &Pair, node: &str, export: &str) -> Client {
    let (socket, export) = (pair.state(node).join("nbd.sock"), format!("db/{export}"));
    Client::connect_unix(&socket, &export).unwrap_or_else(|why| panic!("{export}: {why}"))
}

/// The two places of the application.
const PLACES: [u64; 2] = [0, 1 << 20];

/// Writes each number to one place, then to the other, and stands still between two numbers while there is a file `stop`.
fn application(pair: &Pair, folder: &Path) {
    let mut client = open(pair, "paris", "data");
    for number in 1u64.. {
        if folder.join("stop").exists() {
            fs::write(folder.join("stands"), "").expect("room");
            eventually(PATIENCE, "the thaw", || (!folder.join("stop").exists()).then_some(()));
            fs::remove_file(folder.join("stands")).expect("it is there");
        }
        if folder.join("end").exists() {
            return;
        }
        for place in PLACES {
            let data = number.to_le_bytes().repeat(BLOCK / 8);
            client.write(place, &data, false).expect("it is written");
        }
    }
}

/// Ends the application, also if the test fails.
struct Ends<'a>(&'a Hooks);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.set("end", "");
    }
}

/// What the two places hold in a snapshot of a node.
fn shown(pair: &Pair, node: &str, snapshot: &str) -> [u64; 2] {
    let mut client = open(pair, node, &format!("data@{snapshot}"));
    PLACES.map(|place| {
        let mut block = [0; BLOCK];
        client.read(place, &mut block).expect("it is read");
        let (words, _) = block.as_chunks::<8>();
        u64::from_le_bytes(words[0])
    })
}

#[test]
fn a_snapshot_shows_the_application_as_it_was_frozen_on_both_nodes() {
    let freeze = "touch stop; while ! [ -e stands ]; do sleep 0.005; done";
    let hooks = Hooks::new(freeze, "rm stop; while [ -e stands ]; do sleep 0.005; done");
    let pair = pair(&hooks, "20s");
    thread::scope(|scope| {
        let _ends = Ends(&hooks);
        scope.spawn(|| application(&pair, hooks.0.path()));
        let mut last = 0;
        for round in 0..rounds(10) {
            let verb: &[&str] = if round == 0 { &["create"] } else { &["refresh", "--yes"] };
            let told =
                pair.helio("paris", &[&["snapshot", "db@one"][..1], verb, &["db@one"]].concat());
            let told = told.expect_success();
            assert!(told.contains("ed; the application was frozen for 0."), "{told}");
            let here = shown(&pair, "paris", "one");
            assert!(here[0] == here[1] && here[0] > last, "{here:?} behind {last}");
            eventually(PATIENCE, "the same snapshot on lyon", || {
                (places(&pair, "lyon") == places(&pair, "paris")).then_some(())
            });
            assert_eq!(shown(&pair, "lyon", "one"), here);
            last = here[0];
        }
    });
    let ran = hooks.ran();
    let fact = |hook: &str| format!("{hook} db paris lyon replicating one");
    assert!(ran.chunks(2).all(|pair| pair == [fact("freeze"), fact("thaw")]), "{ran:?}");
    assert_eq!(ran.len(), 2 * rounds(10) as usize);
    assert!(!is_recorded(&pair));
}

#[test]
fn without_a_successful_freeze_there_is_no_snapshot_and_thaw_runs_all_the_same() {
    let hooks = Hooks::new(":", ":");
    let pair = pair(&hooks, "2s");
    hooks.set("freeze.code", "3");
    let error = refused(&pair, &["snapshot", "create", "db@one"]);
    assert_eq!(error["code"], "hook-refused");
    let expected = "snapshot one of db was not created: the hook freeze failed: exit code 3";
    assert_eq!(error["error"], expected);
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("`helio snapshot create db@one`"), "{hint}");
    hooks.wait_for(&["freeze one", "thaw one"]);
    hooks.unset("freeze.code");

    hooks.set("freeze.waits", "");
    let error = refused(&pair, &["snapshot", "create", "db@two"]);
    let late = error["error"].as_str().expect("a text");
    assert!(late.ends_with("was not created: the hook freeze failed: killed after 2s"), "{late}");
    hooks.wait_for(&["freeze one", "thaw one", "freeze two", "thaw two"]);
    hooks.unset("freeze.waits");
    assert!(names(&pair, "paris").is_empty() && !is_recorded(&pair));

    // A thaw that fails is reported, with the snapshot and without.
    hooks.set("thaw.code", "4");
    let done = pair.helio("paris", &["snapshot", "create", "db@three", "--json"]).json();
    let warning = done["warnings"][0].as_str().expect("a warning");
    let still = "the application of db may still be frozen: the hook thaw failed: exit code 4";
    assert!(warning.starts_with(&format!("{still}\n  hint: ")), "{warning}");
    hooks.set("freeze.code", "3");
    let error = refused(&pair, &["snapshot", "refresh", "db@three", "--yes"]);
    let expected = format!(
        "{still}; snapshot three of db was not refreshed: the hook freeze failed: exit code 3"
    );
    assert_eq!((&error["code"], &error["error"]), (&"hook-refused".into(), &expected.into()));
    assert_eq!(names(&pair, "paris"), ["three"]);
    assert_eq!(hooks.ran().len(), 8);
}

#[test]
fn what_is_refused_without_it_and_what_needs_no_application_freezes_none() {
    let hooks = Hooks::new(":", ":");
    let pair = pair(&hooks, "20s");
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    hooks.wait_for(&["freeze one", "thaw one"]);
    assert_eq!(refused(&pair, &["snapshot", "create", "db@one"])["code"], "snapshot-exists");
    let error = refused(&pair, &["snapshot", "refresh", "db@two", "--yes"]);
    assert_eq!(error["code"], "unknown-snapshot");
    let error = pair.helio("lyon", &["snapshot", "create", "db@two"]).expect_failure();
    assert!(error.contains("db is secondary on this node"), "{error}");
    pair.helio("lyon", &["snapshot", "create", "db@here", "--here"]).expect_success();
    pair.helio("paris", &["snapshot", "delete", "db@one", "--yes"]).expect_success();
    hooks.wait_for(&["freeze one", "thaw one"]);

    // A second one waits for its turn, and freezes nothing that is frozen.
    hooks.set("freeze.waits", "");
    let first = creating(&pair, "three");
    hooks.wait_for(&["freeze one", "thaw one", "freeze three"]);
    let error = refused(&pair, &["snapshot", "create", "db@four"]);
    assert_eq!((&error["code"], &error["retry"]), (&"busy".into(), &true.into()), "{error}");
    // Who asked is gone, and the rest is done.
    drop(first);
    hooks.unset("freeze.waits");
    hooks.wait_for(&["freeze one", "thaw one", "freeze three", "thaw three"]);
    eventually(PATIENCE, "the snapshot", || (names(&pair, "paris") == ["three"]).then_some(()));
    assert!(!is_recorded(&pair));
}

#[test]
fn a_daemon_that_stops_thaws_before_and_one_that_was_killed_thaws_at_its_next_start() {
    let hooks = Hooks::new(":", ":");
    let mut pair = pair(&hooks, "60s");
    hooks.set("freeze.waits", "");
    let asked = creating(&pair, "one");
    hooks.wait_for(&["freeze one"]);
    assert!(is_recorded(&pair));
    let daemon = pair.daemon("paris");
    let id = daemon.id().to_string();
    helio_testkit::run(Command::new("kill").args(["-TERM", &id])).expect_success();
    eventually(PATIENCE, "the stop", || daemon.log().contains("stopping cleanly").then_some(()));
    hooks.unset("freeze.waits");
    assert!(daemon.wait_exit(PATIENCE).success());
    drop(asked);
    hooks.wait_for(&["freeze one", "thaw one"]);
    assert!(!is_recorded(&pair));
    pair.start("paris");
    begin(&pair, "paris");
    assert_eq!(names(&pair, "paris"), ["one"], "it was asked for in time");

    // Killed while freeze runs, and then while thaw runs.
    hooks.set("freeze.waits", "");
    let asked = creating(&pair, "two");
    hooks.wait_for(&["freeze one", "thaw one", "freeze two"]);
    pair.daemon("paris").kill9();
    drop(asked);
    hooks.set("thaw.waits", "");
    hooks.unset("freeze.waits");
    pair.start("paris");
    hooks.wait_for(&["freeze one", "thaw one", "freeze two", "thaw two"]);
    begin(&pair, "paris");
    assert_eq!(refused(&pair, &["snapshot", "create", "db@two"])["code"], "busy");
    pair.daemon("paris").kill9();
    hooks.unset("thaw.waits");
    pair.start("paris");
    hooks.wait_for(&["freeze one", "thaw one", "freeze two", "thaw two", "thaw two"]);
    eventually(PATIENCE, "the end of thaw", || (!is_recorded(&pair)).then_some(()));
    pair.daemon("paris").kill9();
    pair.start("paris");
    begin(&pair, "paris");
    pair.helio("paris", &["snapshot", "create", "db@three"]).expect_success();
    assert_eq!(names(&pair, "paris"), ["one", "three"]);
    assert_eq!(hooks.names()[5..], ["freeze three", "thaw three"], "nothing is thawed again");
}

#[test]
fn an_application_is_not_frozen_longer_than_its_limit_whatever_a_disk_does() {
    if !faulty_stores_possible() {
        return;
    }
    let hooks = Hooks::new(":", ":");
    let store: FaultyStore = StorePlan::new(Bytes::mib(4)).mount();
    let pair = Plan::new("db")
        .volume("data", Bytes::mib(4))
        .volume_line("sparse = true")
        .group_line(&hooks.line("1s"))
        .member("paris", "data", store.path())
        .start();
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    let line = ["snapshot", "create", "db@one", "--json"];
    thread::scope(|scope| {
        store.hang();
        let asked = scope.spawn(|| pair.helio("paris", &line).json());
        hooks.wait_for(&["freeze one", "thaw one"]);
        store.respond();
        let done = asked.join().expect("it ends");
        let warning = done["warnings"][0].as_str().expect("a warning");
        assert!(warning.contains("one of db may not be application-consistent: "), "{warning}");
        assert!(
            warning.ends_with("hint: `helio snapshot refresh db@one` replaces it"),
            "{warning}"
        );
    });
    assert_eq!(names(&pair, "paris"), ["one"]);
    assert_eq!(group(&pair, "paris")["role"], "primary");
}

#[test]
fn automatic_snapshots_and_those_of_a_group_of_one_node_freeze_the_application_too() {
    let hooks = Hooks::new(":", ":");
    let plan = Plan::new("db").only("paris").volume("data", Bytes::mib(4));
    let plan = plan.group_line(&hooks.line("20s")).group_line("retain = \"12 per minute\"");
    let pair = plan.start();
    let ran = eventually(PATIENCE, "an automatic snapshot", || {
        let ran = hooks.ran();
        (ran.len() >= 2).then_some(ran)
    });
    for (hook, ran) in ["freeze", "thaw"].iter().zip(&ran) {
        assert!(ran.starts_with(&format!("{hook} db paris  logging auto-20")), "{ran}");
    }
    let name = ran[0].rsplit(' ').next().expect("a name");
    eventually(PATIENCE, name, || names(&pair, "paris").iter().any(|it| it == name).then_some(()));
}

#[test]
fn a_start_that_can_serve_no_group_thaws_what_was_left_frozen() {
    let hooks = Hooks::new(":", ":");
    let mut pair = pair(&hooks, "60s");
    hooks.set("freeze.waits", "");
    let asked = creating(&pair, "one");
    hooks.wait_for(&["freeze one"]);
    pair.daemon("paris").kill9();
    drop(asked);
    hooks.unset("freeze.waits");
    let member = pair.member("paris", "data");
    let aside = member.with_extension("aside");
    fs::rename(&member, &aside).expect("it is moved");
    let refuses = || {
        let mut daemon = Daemon::start("paris", pair.config(), &pair.state("paris"));
        assert!(!daemon.wait_exit(PATIENCE).success(), "it serves");
        daemon.log()
    };
    // The device may be missing that is to be thawed.
    hooks.set("thaw.code", "1");
    assert!(refuses().contains("the daemon ended while the application was frozen"));
    assert!(is_recorded(&pair) && hooks.names() == ["freeze one", "thaw one"]);
    hooks.unset("thaw.code");
    refuses();
    assert!(!is_recorded(&pair), "it is thawed");

    fs::rename(&aside, &member).expect("it is back");
    pair.start("paris");
    begin(&pair, "paris");
    assert_eq!(hooks.names(), ["freeze one", "thaw one", "thaw one"]);
}
