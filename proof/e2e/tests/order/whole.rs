// SPDX-License-Identifier: Apache-2.0
//! A member is the volume only at rest. While a restore is written, or members are merged, no command hands out the bytes of a member as
//! those of the volume; the steps that its refusal names lead to the bytes that clients read.

use crate::snapshot::names;
use helio_e2e::{
    Book, Load, begin, connect, exported, member_bytes, number, wait, wait_level, wait_members,
};
use helio_testkit::{Dice, Pair, Plan, TempDir, eventually, require};
use helio_units::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const SIZE: Bytes = Bytes::mib(16);
/// Background copies go on, or wait. The file of the pair begins with the first.
const GOES_ON: &str = "copies-at-once = 4";
const WAITS: &str = "copies-at-once = 0";
/// What a refusal says of members that are not the volume.
const NOT_WHOLE: &str = "do not hold what its clients read";

fn apply(pair: &Pair, from: &str, to: &str) {
    let text = std::fs::read_to_string(pair.config()).expect("it is there");
    assert!(text.contains(from), "{text}");
    std::fs::write(pair.config(), text.replace(from, to)).expect("there is room");
    pair.helio("paris", &["apply"]).expect_success();
}

/// Writes twice to the primary paris, with a snapshot between, and goes back to that, but writes none of it to the members. Returns what
/// clients read.
fn restore_that_waits(pair: &Pair, dice: &Dice) -> Vec<u8> {
    let book = Arc::new(Book::new(dice.seed()));
    Load { count: Some(500), ..Load::PLAIN }.run(pair, "paris", &dice.fork(1), &book);
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    eventually(PATIENCE, "the snapshot", || {
        names(pair, "paris").contains(&"one".to_owned()).then_some(())
    });
    let expected = exported(pair, "paris", "data");
    Load { count: Some(500), ..Load::PLAIN }.run(pair, "paris", &dice.fork(2), &book);
    apply(pair, GOES_ON, WAITS);
    pair.helio("paris", &["snapshot", "restore", "db@one", "--yes"]).expect_success();
    wait(pair, "paris", "a restore that waits", |status| !status["restoring"].is_null());
    assert!(member_bytes(pair, "paris") != expected, "the member is a mixture");
    expected
}

/// Refuses the command for that reason, naming what holds the end of it back.
#[track_caller]
fn refused(pair: &Pair, command: &[&str], why: &str) {
    let told = pair.helio("paris", command).expect_failure();
    assert!(told.contains(NOT_WHOLE) && told.contains(why), "{command:?}: {told}");
    assert!(told.contains("hint: wait until") && told.contains("copies-at-once"), "{told}");
}

/// Does what the refusals of a restore say.
fn let_it_end(pair: &Pair) {
    apply(pair, WAITS, GOES_ON);
    wait(pair, "paris", "the end of the restore", |status| status["restoring"].is_null());
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("it is there")
}

const RESTORING: &str = "of a restored snapshot are not written to the members yet";

#[test]
fn a_disk_is_given_back_only_with_all_of_a_restore_on_it() {
    require!("qemu-img");
    let dice = Dice::of_test("a_disk_is_given_back_only_with_all_of_a_restore_on_it");
    let plan = Plan::new("db").volume("data", SIZE).node_line("paris", GOES_ON);
    let pair = plan.start();
    begin(&pair, "paris");
    let expected = restore_that_waits(&pair, &dice);
    refused(&pair, &["release", "db", "--yes"], RESTORING);
    let_it_end(&pair);
    let member = pair.member("paris", "data");
    pair.helio("paris", &["release", "db", "--yes"]).expect_success();
    assert!(bytes(&member) == expected, "what clients read");
}

#[test]
fn what_is_asked_of_the_snapshots_ends_a_restore_that_waits() {
    require!("qemu-img");
    let dice = Dice::of_test("what_is_asked_of_the_snapshots_ends_a_restore_that_waits");
    let pair =
        Plan::new("db").only("paris").volume("data", SIZE).node_line("paris", GOES_ON).start();
    pair.helio("paris", &["promote", "db"]).expect_success();
    pair.helio("paris", &["snapshot", "create", "db@zero"]).expect_success();
    let expected = restore_that_waits(&pair, &dice);
    pair.helio("paris", &["snapshot", "delete", "db@zero", "--yes"]).expect_success();
    wait(&pair, "paris", "the end of the restore", |status| status["restoring"].is_null());
    assert!(member_bytes(&pair, "paris") == expected, "all of it is written");
}

#[test]
fn what_a_reversal_saves_is_what_clients_read() {
    require!("qemu-img");
    let dice = Dice::of_test("what_a_reversal_saves_is_what_clients_read");
    let plan = Plan::new("db").volume("data", SIZE).node_line("paris", GOES_ON);
    let pair = plan.start();
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    pair.helio("paris", &["pause", "db"]).expect_success();
    let expected = restore_that_waits(&pair, &dice);
    let reverse = ["resync", "db", "--reverse", "--yes"];
    refused(&pair, &reverse, RESTORING);
    let_it_end(&pair);
    pair.helio("paris", &reverse).expect_success();
    let list = pair.helio("paris", &["saved", "list", "db", "--json"]).json();
    let image = list["saved"][0]["volumes"][0]["path"].as_str().expect("a path").to_owned();
    // Only regions that differ are saved; the rest of the image is empty.
    let saved = bytes(Path::new(&image));
    let regions: Vec<usize> =
        (0..saved.len() / BLOCK).filter(|n| piece(&saved, *n) != ZEROS).collect();
    assert!(!regions.is_empty(), "something was saved");
    assert!(regions.iter().all(|n| piece(&saved, *n) == piece(&expected, *n)), "other bytes");
}

const BLOCK: usize = 4096;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

fn piece(image: &[u8], n: usize) -> &[u8] {
    &image[n * BLOCK..(n + 1) * BLOCK]
}

#[test]
fn a_member_leaves_for_backup_or_a_seed_only_as_the_volume() {
    require!("qemu-img");
    let dice = Dice::of_test("a_member_leaves_for_backup_or_a_seed_only_as_the_volume");
    let scratch = TempDir::new();
    let second = scratch.file("second", SIZE);
    let plan = Plan::new("db").volume("data", SIZE).node_line("paris", GOES_ON);
    let mut pair = plan.mirror("paris", "data", &second).prepare();
    pair.start("paris");
    pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    wait_members(&pair, "paris", ["full", "full"]);
    let expected = restore_that_waits(&pair, &dice);
    let path = second.display().to_string();
    let backup = ["member", "remove", "db/data", &path, "--for-backup"];
    let seed = ["seed", "begin", "db"];
    let release = ["release", "db", "--yes"];
    for command in [&backup[..], &seed[..], &release[..]] {
        refused(&pair, command, RESTORING);
    }
    let_it_end(&pair);
    // Members that may differ are not the volume either.
    apply(&pair, GOES_ON, WAITS);
    pair.helio("paris", &["member", "merge", "db/data"]).expect_success();
    wait(&pair, "paris", "a merge that waits", |status| {
        number(status, "/volumes/0/unmerged_bytes") > 0
    });
    for command in [&backup[..], &seed[..], &release[..]] {
        refused(&pair, command, "its full members may differ in");
    }
    apply(&pair, WAITS, GOES_ON);
    wait(&pair, "paris", "merged members", |status| {
        number(status, "/volumes/0/unmerged_bytes") == 0
    });
    pair.helio("paris", &backup).expect_success();
    assert!(bytes(&second) == expected, "the backup");
    pair.helio("paris", &seed).expect_success();
    assert!(bytes(&pair.member("paris", "data")) == expected, "the disk that is shipped");
    connect(&pair, "paris").read(0, &mut [0; BLOCK]).expect("it is served");
}

/// Starts the daemon of paris, which serves nothing, and says why.
pub(crate) fn not_served(pair: &Pair) -> String {
    let (state, config) = (pair.state("paris"), pair.config());
    let (state, config) = (state.display().to_string(), config.display().to_string());
    let line = ["daemon", "--node", "paris", "--config", &config, "--state", &state];
    helio_testkit::helio(&line).expect_failure()
}

/// The record of a restore that waits is lost with the metadata, or an older file takes its place. What is named then leads to the
/// bytes that clients read.
#[test]
fn a_restore_that_the_metadata_forgot_is_finished_and_not_dropped() {
    require!("qemu-img");
    let dice = Dice::of_test("a_restore_that_the_metadata_forgot_is_finished_and_not_dropped");
    for lost in [true, false] {
        let plan = Plan::new("db").only("paris").volume("data", SIZE);
        let mut pair = plan.node_line("paris", GOES_ON).start();
        pair.helio("paris", &["promote", "db"]).expect_success();
        let groups = pair.state("paris").join("groups");
        let (metadata, before) = (groups.join("db.meta"), groups.join("db.before"));
        let older = bytes(&metadata);
        let expected = restore_that_waits(&pair, &dice.fork(u64::from(lost)));
        pair.daemon("paris").kill9();
        let shown = before.display().to_string();
        let finish = format!("--finish-restore {shown}");
        let (state, config) = (pair.state("paris"), pair.config().to_owned());
        let (state, config) = (state.display().to_string(), config.display().to_string());
        let create = ["metadata", "create", "db", "--node", "paris", "--config", &config];
        let accept = ["metadata", "accept", "db"];
        let command = if lost {
            std::fs::remove_file(&metadata).expect("it is there");
            assert!(not_served(&pair).contains("helio metadata create db --node paris"));
            &create[..]
        } else {
            std::fs::write(&metadata, &older).expect("there is room");
            let told = not_served(&pair);
            assert!(told.contains(&format!("helio metadata accept db {finish}")), "{told}");
            &accept[..]
        };
        let line = [command, &["--state", &state, "--yes"]].concat();
        if lost {
            let told = helio_testkit::helio(&line).expect_failure();
            assert!(told.contains(&finish), "{told}");
        }
        let line = [&line[..], &["--finish-restore", &shown]].concat();
        helio_testkit::helio(&line).expect_success();
        pair.start("paris");
        pair.helio("paris", &["promote", "db"]).expect_success();
        let read = exported(&pair, "paris", "data");
        assert!(read == expected, "lost {lost}: clients read something else");
        let_it_end(&pair);
        assert!(member_bytes(&pair, "paris") == expected, "lost {lost}: all of it is written");
    }
}
