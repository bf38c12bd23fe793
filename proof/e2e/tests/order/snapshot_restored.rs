// SPDX-License-Identifier: Apache-2.0
//! A group is restored from a snapshot in place: its volumes can be used at once, the peer follows, and a crash changes nothing of that.

use crate::snapshot::names;
use helio_e2e::{
    Book, Load, assert_members_equal, begin, exported, member_bytes, wait, wait_level,
};
use helio_testkit::{Dice, Pair, Plan, eventually, require};
use helio_units::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Far longer than anything here should take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A pair with a snapshot `one`, what that holds, and more on both nodes since.
fn changed_since(dice: &Dice, size: Bytes) -> (Pair, Arc<Book>, Vec<u8>) {
    let pair = Plan::new("db").volume("data", size).start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    Load { count: Some(1000), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let expected = member_bytes(&pair, "paris");
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    eventually(PATIENCE, "lyon's snapshot", || (names(&pair, "lyon") == ["one"]).then_some(()));
    Load { count: Some(1000), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(2), &book);
    wait_level(&pair, "paris");
    assert!(member_bytes(&pair, "paris") != expected, "something changed since");
    (pair, book, expected)
}

#[test]
fn a_restored_group_can_be_used_at_once_and_its_peer_follows() {
    require!("qemu-img");
    let dice = Dice::of_test("a_restored_group_can_be_used_at_once_and_its_peer_follows");
    let (pair, book, expected) = changed_since(&dice, Bytes::mib(64));
    pair.helio("paris", &["snapshot", "create", "db@two"]).expect_success();
    let later = member_bytes(&pair, "paris");
    let told = pair.helio("paris", &["snapshot", "restore", "db@one", "--yes"]).expect_success();
    assert_eq!(told, "db was restored from snapshot one\n");
    assert!(exported(&pair, "paris", "data") == expected, "what is read at once");
    wait(&pair, "paris", "the restore to end", |status| status["restoring"].is_null());
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    assert!(member_bytes(&pair, "lyon") == expected, "the peer follows");
    for node in ["paris", "lyon"] {
        assert!(exported(&pair, node, "data@two") == later, "{node}: what was overwritten");
        assert!(exported(&pair, node, "data@one") == expected, "{node}: the snapshot itself");
    }
    // What was overwritten comes back the same way, and writes go on as on any volume.
    let line = ["snapshot", "restore", "db@two", "--yes", "--wait"];
    let told = pair.helio("paris", &line).expect_success();
    assert_eq!(told, "db was restored from snapshot two\ndb is restored\n");
    assert!(member_bytes(&pair, "paris") == later, "everything is written");
    assert!(exported(&pair, "paris", "data") == later, "what was lost is back");
    Load { count: Some(500), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(3), &book);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    assert!(exported(&pair, "lyon", "data@one") == expected, "older snapshots stay");
}

#[test]
fn volumes_in_use_are_not_restored_and_neither_is_what_is_no_snapshot() {
    let dice = Dice::of_test("volumes_in_use_are_not_restored_and_neither_is_what_is_no_snapshot");
    let (pair, book, _) = changed_since(&dice, Bytes::mib(16));
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice.fork(3), &book);
    writers.write_for(Duration::from_millis(50));
    let refused = |node: &str, snapshot: &str| {
        let line = ["snapshot", "restore", snapshot, "--yes"];
        pair.helio(node, &line).expect_failure()
    };
    assert!(refused("paris", "db@one").contains("NBD connection(s) use db"));
    writers.stop();
    wait_level(&pair, "paris");
    let before = member_bytes(&pair, "paris");
    assert!(refused("paris", "db@two").contains("has no snapshot two"));
    let told = refused("lyon", "db@one");
    assert!(told.contains("`helio snapshot restore db@one` on the primary, which may be paris"));
    let asked = pair.helio("paris", &["snapshot", "restore", "db@one"]).expect_failure();
    assert!(asked.contains("everything that was written to db since snapshot one"), "{asked}");
    assert!(member_bytes(&pair, "paris") == before && names(&pair, "paris") == ["one"]);
    wait_level(&pair, "paris");
}

#[test]
fn without_the_rest_of_a_restore_the_group_is_not_served() {
    let dice = Dice::of_test("without_the_rest_of_a_restore_the_group_is_not_served");
    let (mut pair, _, expected) = changed_since(&dice, Bytes::mib(64));
    let file = pair.state("paris").join("groups/db.before");
    // Killed before everything was written: with luck at the first try.
    let interrupted = (0..20).any(|_| {
        let line = ["snapshot", "restore", "db@one", "--yes"];
        pair.helio("paris", &line).expect_success();
        pair.daemon("paris").kill9();
        let shown = pair.helio("paris", &["inspect", &file.display().to_string()]).expect_success();
        if shown.contains("rollback to copy") {
            return true;
        }
        pair.start("paris");
        wait(&pair, "paris", "the primary", |status| status["role"] == "primary");
        false
    });
    assert!(interrupted, "every restore ended before its process could be killed");
    let aside = pair.scratch().join("aside");
    std::fs::rename(&file, &aside).expect("it is moved");
    let (config, state) =
        (pair.config().display().to_string(), pair.state("paris").display().to_string());
    let line = ["daemon", "--node", "paris", "--config", &config, "--state", &state];
    let told = pair.helio("paris", &line).expect_failure();
    assert!(told.contains("were being restored from a snapshot"), "{told}");
    std::fs::rename(&aside, &file).expect("it is put back");
    pair.start("paris");
    wait(&pair, "paris", "the rest to be written", |status| {
        status["role"] == "primary" && status["restoring"].is_null()
    });
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    assert!(member_bytes(&pair, "lyon") == expected, "the rest was written, too");
}
