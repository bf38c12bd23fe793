// SPDX-License-Identifier: Apache-2.0
//! A disk of the metadata fails under writes. With two files clients notice nothing, the status names the file, and a restart
//! brings it back; with one file the bitmap fails.

use helio_e2e::{
    BLOCK, Book, Load, PATIENCE, assert_members_equal, begin, connect, group, wait, wait_level,
    wait_members,
};
use helio_nbd::{Client, Cookie};
use helio_testkit::faulty_stores_possible;
use helio_testkit::{Dice, FaultyStore, Pair, Plan, StorePlan, TempDir, eventually};
use helio_units::{Bytes, Extent, Mode};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SOME: Load = Load { count: Some(200), ..Load::PLAIN };

/// A pair whose writes need new hot extents, with a second metadata file of paris in `mirror`; neither daemon runs.
fn prepared(mirror: Option<&Path>, timeout: &str) -> Pair {
    let plan = Plan::new("db")
        .mode(Mode::Sync)
        .volume("data", Bytes::mib(512))
        .volume_line("sparse = true")
        .group_line("hot-extents = 64")
        .group_line(&format!("member-timeout = {timeout:?}"));
    match mirror {
        Some(folder) => {
            plan.node_line("paris", &format!("metadata = [\"state\", {folder:?}]")).prepare()
        }
        None => plan.prepare(),
    }
}

/// A file on a disk that fails on demand.
fn on_faulty_disk(path: &Path) -> FaultyStore {
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("there is room");
    fs::write(path, []).expect("there is room");
    StorePlan::new(Bytes::ZERO).over(path).mount()
}

fn fail(store: &FaultyStore) {
    store.fail_extent(Extent::new(0, 1 << 40), true);
}

fn files(pair: &Pair, mirror: &Path) -> [PathBuf; 2] {
    [pair.state("paris").join("groups/db.meta"), mirror.join("db.meta")]
}

#[test]
fn one_of_two_metadata_disks_fails_and_clients_notice_nothing() {
    if !faulty_stores_possible() {
        return;
    }
    for failing in [0, 1] {
        let dice = Dice::of_test("one_of_two_metadata_disks_fails_and_clients_notice_nothing");
        let mirror = TempDir::new();
        let mut pair = prepared(Some(&mirror.join("")), "120s");
        let paths = files(&pair, &mirror.join(""));
        let store = on_faulty_disk(&paths[failing]);
        pair.start("lyon");
        pair.start("paris");
        let book = Arc::new(Book::new(dice.seed()));
        begin(&pair, "paris");
        SOME.run(&pair, "paris", &dice.fork(1), &book);
        assert!(group(&pair, "paris")["fault"].is_null());

        fail(&store);
        SOME.run(&pair, "paris", &dice.fork(2), &book);
        let fault = group(&pair, "paris")["fault"].to_string();
        let [failed, used] = [failing, 1 - failing].map(|at| paths[at].display().to_string());
        assert!(
            fault.contains(&failed) && fault.contains(&format!("only {used} is used")),
            "{fault}"
        );
        assert!(!fault.contains("bitmap failed"), "{fault}");
        let peer =
            || group(&pair, "lyon")["peer"]["fault"].to_string().contains(&failed).then_some(());
        eventually(PATIENCE, "the peer shows it", peer);
        for node in ["paris", "lyon"] {
            assert_eq!(pair.helio(node, &["status", "--check"]).status.code(), Some(2));
            let shown = pair.helio(node, &["status", "db"]).expect_success();
            assert!(
                shown.contains("DISK FAILED") && shown.contains("restart the daemon"),
                "{shown}"
            );
        }
        let told = pair.helio("paris", &["explain", "db"]).expect_success();
        assert!(told.contains("metadata files failed"), "{told}");

        // The failed file is older, and never used again before it is like the other one.
        pair.daemon("paris").kill9();
        pair.start("paris");
        let fault = group(&pair, "paris")["fault"].to_string();
        assert!(fault.contains(&failed), "{fault}");
        pair.daemon("paris").kill9();
        store.heal();
        pair.start("paris");
        assert!(group(&pair, "paris")["fault"].is_null());
        wait_level(&pair, "paris");
        SOME.run(&pair, "paris", &dice.fork(3), &book);
        wait_level(&pair, "paris");
        assert_members_equal(&pair, "data");
        for node in ["paris", "lyon"] {
            assert!(pair.daemon(node).terminate().success());
        }
        drop(store);
    }
}

#[test]
fn one_of_two_metadata_disks_hangs_and_is_given_up_after_the_member_timeout() {
    if !faulty_stores_possible() {
        return;
    }
    let dice = Dice::of_test("one_of_two_metadata_disks_hangs_and_is_given_up");
    let mirror = TempDir::new();
    let mut pair = prepared(Some(&mirror.join("")), "1s");
    let paths = files(&pair, &mirror.join(""));
    let store = on_faulty_disk(&paths[1]);
    pair.start("lyon");
    pair.start("paris");
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    store.hold_flushes();
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    let fault = group(&pair, "paris")["fault"].to_string();
    let [used, hangs] = paths.map(|path| path.display().to_string());
    assert!(fault.contains(&format!("{hangs}: no operation has completed within 1s")), "{fault}");
    assert!(fault.contains(&format!("only {used} is used")), "{fault}");
    store.release();
    wait_level(&pair, "paris");
    pair.daemon("paris").kill9();
    pair.start("paris");
    assert!(group(&pair, "paris")["fault"].is_null());
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    for node in ["paris", "lyon"] {
        assert!(pair.daemon(node).terminate().success());
    }
    drop(store);
}

/// Paris stops while no flush of its metadata ends, and starts again.
fn stops_without_its_metadata(mirrored: bool) {
    if !faulty_stores_possible() {
        return;
    }
    let mirror = TempDir::new();
    let folder = mirror.join("");
    let mut pair = prepared(mirrored.then_some(&folder), "1s");
    let used = if mirrored { 2 } else { 1 };
    let paths = &files(&pair, &folder)[..used];
    let stores: Vec<_> = paths.iter().map(|path| on_faulty_disk(path)).collect();
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    stores.iter().for_each(FaultyStore::hold_flushes);
    assert!(!pair.daemon("paris").terminate().success(), "it did not stop cleanly");
    let log = pair.daemon("paris").log();
    for path in paths {
        let why = format!("the disk of the metadata file {} is silent", path.display());
        assert!(log.contains(&why), "{log}");
    }
    stores.iter().for_each(FaultyStore::release);
    pair.start("paris");
    wait_level(&pair, "paris");
    for node in ["paris", "lyon"] {
        assert!(pair.daemon(node).terminate().success());
    }
    drop(stores);
}

#[test]
fn the_only_metadata_disk_hangs_and_keeps_no_daemon_from_its_end() {
    stops_without_its_metadata(false);
}

#[test]
fn both_metadata_disks_hang_and_keep_no_daemon_from_its_end() {
    stops_without_its_metadata(true);
}

#[test]
fn a_stop_waits_for_the_peer_that_has_not_flushed_acknowledged_writes_although_metadata_is_silent()
{
    if !faulty_stores_possible() {
        return;
    }
    let dice = Dice::of_test("a_stop_waits_for_the_peer_although_metadata_is_silent");
    let mut pair = Plan::new("db")
        .mode(Mode::Sync)
        .volume("data", Bytes::mib(64))
        .volume("other", Bytes::mib(64))
        .group_line("member-timeout = \"1s\"")
        .group_line("on-error = \"serve-from-peer\"")
        .prepare();
    let store = on_faulty_disk(&pair.state("paris").join("groups/db.meta"));
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    // The disk of one volume fails, and the peer ends before it has flushed all writes to that volume.
    let cut = OpenOptions::new().write(true).open(pair.member("paris", "data"));
    cut.expect("the member").set_len(0).expect("it can be cut");
    connect(&pair, "paris").read(0, &mut [0; BLOCK]).expect("the peer's copy is read");
    let book = Arc::new(Book::new(dice.seed()));
    let writers = Load::PLAIN.start(&pair, "paris", &dice.fork(1), &book);
    book.wait_for(50, PATIENCE);
    pair.daemon("lyon").kill9();
    // A write to the other volume needs a hot extent, which cannot be recorded.
    store.hold_flushes();
    let client = Client::connect_unix(pair.state("paris").join("nbd.sock"), "db/other");
    let (mut sender, _replies) = client.expect("it is served").split();
    sender.send_write(Cookie(1), 32 << 20, &[1; BLOCK], false).expect("it is sent");
    let waits = || (store.counts().waiting > 0).then_some(());
    eventually(PATIENCE, "a flush that is held", waits);
    eventually(PATIENCE, "paris loses lyon", || {
        (group(&pair, "paris")["peer"]["connection"] != "connected").then_some(())
    });

    let id = Pid::from_raw(pair.daemon("paris").id().cast_signed()).expect("it has one");
    kill_process(id, Signal::TERM).expect("it runs");
    let goes_on = || pair.daemon("paris").log().contains("stopping without lyon").then_some(());
    eventually(PATIENCE, "the end of the wait for the peer", goes_on);
    store.release();
    pair.daemon("paris").kill9();
    writers.broken();
    drop(store);
}

#[test]
fn a_lone_file_that_may_be_old_is_refused_until_an_operator_accepts_it() {
    let dice = Dice::of_test("a_lone_file_that_may_be_old_is_refused_until_an_operator_accepts");
    let mirror = TempDir::new();
    let mut pair = prepared(Some(&mirror.join("")), "120s");
    pair.start("lyon");
    pair.start("paris");
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let [first, second] = files(&pair, &mirror.join(""));
    let apart = TempDir::new();
    for file in [&first, &second] {
        let shown = file.display().to_string();
        let line = [
            "metadata",
            "accept",
            &shown,
            "--yes",
            "--state",
            &apart.join("").display().to_string(),
        ];
        let refused = helio_testkit::helio(&line).expect_failure();
        assert!(refused.contains("another process writes this file"), "{refused}");
    }
    pair.daemon("paris").kill9();
    let state = pair.state("paris").display().to_string();
    let line = ["metadata", "accept", "db", "--state", &state, "--yes"];
    let refused = helio_testkit::helio(&line).expect_failure();
    assert!(refused.contains("db has two metadata files on paris"), "{refused}");
    fs::write(&second, [0xA5; 65536]).expect("it can be written");
    let shown = first.display().to_string();
    let (state, config) = (pair.state("paris"), pair.config().to_owned());
    let (state, config) = (state.display().to_string(), config.display().to_string());
    let line = ["daemon", "--node", "paris", "--config", &config, "--state", &state];
    let refused = helio_testkit::helio(&line).expect_failure();
    assert!(refused.contains("the other one may be newer"), "{refused}");
    assert!(refused.contains(&format!("helio metadata accept {shown}")), "{refused}");
    let told = pair.check("paris");
    assert!(!told.status.success() && told.stdout.contains("the other one may be newer"), "{told}");

    fs::remove_file(&second).expect("it is there");
    let line = ["metadata", "accept", &shown, "--state", &state, "--yes"];
    helio_testkit::helio(&line).expect_success();
    pair.start("paris");
    assert!(group(&pair, "paris")["fault"].is_null(), "the second file is made again");
    wait(&pair, "lyon", "the peer", |status| status["peer"]["connection"] == "connected");
    pair.helio("lyon", &["promote", "db"]).expect_success();
    wait_level(&pair, "lyon");
    assert_members_equal(&pair, "data");
}

#[test]
fn metadata_is_moved_beside_a_second_file_and_both_count_afterwards() {
    let dice = Dice::of_test("metadata_is_moved_beside_a_second_file_and_both_count_afterwards");
    let (mirror, elsewhere) = (TempDir::new(), TempDir::new());
    let mut pair = prepared(Some(&mirror.join("")), "120s");
    pair.start("lyon");
    pair.start("paris");
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    assert!(pair.daemon("paris").terminate().success());
    let [first, second] = files(&pair, &mirror.join(""));
    let state = pair.state("paris").display().to_string();
    let other = elsewhere.join("state").display().to_string();
    for (from, to) in [(&state, &other), (&other, &state)] {
        let line = ["metadata", "move", "db", "--to", to, "--state", from];
        let said = helio_testkit::helio(&line).expect_success();
        assert!(said.contains("its second metadata file stays where it is"), "{said}");
        assert!(second.exists() && first.exists() == (to == &state));
    }
    pair.check("paris").expect_success();
    pair.start("paris");
    assert!(group(&pair, "paris")["fault"].is_null());
    wait_level(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
}

#[test]
fn a_release_removes_or_renames_both_metadata_files() {
    for keep in [false, true] {
        let mirror = TempDir::new();
        let mut pair = prepared(Some(&mirror.join("")), "120s");
        pair.start("lyon");
        pair.start("paris");
        begin(&pair, "paris");
        let [first, second] = files(&pair, &mirror.join(""));
        assert!(first.exists() && second.exists());
        let line = ["release", "db", "--yes", "--keep-metadata"];
        let said = pair.helio("paris", &line[..if keep { 4 } else { 3 }]).expect_success();
        for file in [first, second] {
            let renamed = file.with_file_name("db.meta.released-1");
            assert!(!file.exists() && renamed.exists() == keep);
            assert_eq!(said.contains(&renamed.display().to_string()), keep, "{said}");
        }
    }
}

#[test]
fn the_only_metadata_disk_fails_and_the_bitmap_fails() {
    if !faulty_stores_possible() {
        return;
    }
    let dice = Dice::of_test("the_only_metadata_disk_fails_and_the_bitmap_fails");
    let mut pair = prepared(None, "120s");
    let path = pair.state("paris").join("groups/db.meta");
    let store = on_faulty_disk(&path);
    pair.start("lyon");
    pair.start("paris");
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    fail(&store);
    // Writes go on once the peer has recorded that the metadata of paris is invalid.
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    let fault = eventually(PATIENCE, "the bitmap fails", || {
        let fault = group(&pair, "paris")["fault"].to_string();
        fault.contains("bitmap failed").then_some(fault)
    });
    assert!(fault.contains("db.meta") && !fault.contains("is used"), "{fault}");
    for node in ["paris", "lyon"] {
        pair.daemon(node).kill9();
    }
    drop(store);
}

#[test]
fn a_member_that_fails_beside_the_metadata_leaves_the_fault_with_the_metadata() {
    if !faulty_stores_possible() {
        return;
    }
    let second = StorePlan::new(Bytes::mib(16)).mount();
    let plan = Plan::new("db").only("paris").volume("data", Bytes::mib(16));
    let plan = plan.volume_line("sparse = true").mirror("paris", "data", second.path());
    let mut pair = plan.prepare();
    let store = on_faulty_disk(&pair.state("paris").join("groups/db.meta"));
    pair.start("paris");
    wait_members(&pair, "paris", ["full", "full"]);
    let mut client = connect(&pair, "paris");
    client.write(0, &[7; 4096], true).expect("both members hold it");
    fail(&store);
    fail(&second);
    client.write(0, &[8; 4096], true).expect_err("a crash could bring the second member back");
    let fault = eventually(PATIENCE, "the fault", || {
        group(&pair, "paris")["fault"].as_str().map(ToOwned::to_owned)
    });
    for words in ["bitmap failed", "a member misses", "db.meta: "] {
        assert!(fault.contains(words), "{words}: {fault}");
    }
    assert!(!fault.contains("suspect") && !fault.contains("volume data"), "{fault}");
    let shown = pair.helio("paris", &["status", "db"]).stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("do repair the file system of"), "{shown}");
    client.read(0, &mut [0; 4096]).expect("the first member is read");
    pair.daemon("paris").kill9();
    drop((store, second));
}
