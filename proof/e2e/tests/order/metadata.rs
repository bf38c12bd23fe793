// SPDX-License-Identifier: Apache-2.0
//! A state directory is lost: nothing is overwritten by that, nobody leads by the word of the node that lost it, and the
//! refusals name what loses nothing. And of two nodes that one command could confuse, the one with newer writes is named.

use helio_e2e::{
    Book, Load, PATIENCE, assert_members_equal, begin, group, image, wait, wait_level,
};
use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::{Bytes, Mode};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

const SOME: Load = Load { count: Some(200), ..Load::PLAIN };

fn pair() -> Pair {
    Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).start()
}

/// A node's state directory is gone, and its member is a file without an identity, as a block device is. Returns where both
/// are kept.
fn lose_state(pair: &Pair, node: &str) -> (PathBuf, PathBuf) {
    let (groups, member) = (pair.state(node).join("groups"), pair.member(node, "data"));
    let kept = (groups.with_file_name("kept"), member.with_extension("kept"));
    fs::rename(&groups, &kept.0).expect("it is there");
    fs::rename(&member, &kept.1).expect("it is there");
    fs::copy(&kept.1, &member).expect("a copy without attributes");
    kept
}

/// Both nodes explain by a row.
#[track_caller]
fn await_row(pair: &Pair, label: &str) {
    for node in ["paris", "lyon"] {
        eventually(PATIENCE, label, || {
            let told = pair.helio(node, &["explain", "db", "--json"]).json();
            (told["row"]["label"] == label).then_some(())
        });
    }
}

#[test]
fn a_primary_does_not_go_on_by_the_word_of_a_node_that_took_over_and_lost_its_state() {
    let dice =
        Dice::of_test("a_primary_does_not_go_on_by_the_word_of_a_node_that_took_over_and_lost");
    let (mut pair, book) = (pair(), Arc::new(Book::new(dice.seed())));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    pair.daemon("paris").kill9();
    eventually(PATIENCE, "lyon loses paris", || {
        (group(&pair, "lyon")["peer"]["connection"] != "connected").then_some(())
    });
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    SOME.run(&pair, "lyon", &dice.fork(2), &book);
    assert!(pair.daemon("lyon").terminate().success());
    let newest = image(&pair, "lyon", book.run());

    let (groups, member) = lose_state(&pair, "lyon");
    pair.start("lyon");
    pair.start("paris");
    await_row(&pair, "metadata-lost");
    assert_ne!(group(&pair, "paris")["role"], "primary");
    for node in ["paris", "lyon"] {
        let told = pair.helio(node, &["promote", "db"]).expect_failure();
        assert!(
            told.contains("metadata-lost") && told.contains("restore the state directory of lyon"),
            "{told}"
        );
    }
    assert_eq!(image(&pair, "lyon", book.run()), newest, "nothing was copied over it");

    // What loses nothing: the state directory is put back.
    assert!(pair.daemon("lyon").terminate().success());
    fs::remove_dir_all(pair.state("lyon").join("groups")).expect("it is there");
    fs::rename(groups, pair.state("lyon").join("groups")).expect("it was kept");
    fs::rename(member, pair.member("lyon", "data")).expect("it was kept");
    pair.start("lyon");
    // It leads again; what paris alone may hold since its forced succession is an operator's to decide on.
    await_row(&pair, "diverged");
    assert_eq!(group(&pair, "lyon")["role"], "primary");
    assert_eq!(image(&pair, "lyon", book.run()), newest, "all that was answered is there");
}

#[test]
fn a_secondary_is_not_promoted_unforced_while_its_primary_has_lost_its_state() {
    let dice = Dice::of_test("a_secondary_is_not_promoted_unforced_while_its_primary_has_lost");
    let (mut pair, book) = (pair(), Arc::new(Book::new(dice.seed())));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    pair.daemon("lyon").kill9();
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    assert!(pair.daemon("paris").terminate().success());
    let newest = image(&pair, "paris", book.run());

    lose_state(&pair, "paris");
    pair.start("paris");
    pair.start("lyon");
    await_row(&pair, "metadata-lost");
    let told = pair.helio("lyon", &["promote", "db"]).expect_failure();
    assert!(told.contains("paris may hold acknowledged writes that lyon does not have"), "{told}");
    let told = pair.helio("paris", &["promote", "db"]).expect_failure();
    assert!(!told.contains("promote db` on lyon"), "it would lose the newest writes: {told}");

    // It cannot be restored: the operator keeps the copy of the node that was primary last.
    pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    await_row(&pair, "source-metadata-lost");
    pair.helio("lyon", &["resolve", "db", "--discard", "lyon", "--yes"]).expect_success();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    assert_eq!(image(&pair, "lyon", book.run()), newest);
}

#[test]
fn a_secondary_that_never_was_primary_is_told_who_holds_newer_writes() {
    let dice = Dice::of_test("a_secondary_that_never_was_primary_is_told_who_holds_newer_writes");
    let mut pair = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(16)).start();
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    pair.daemon("lyon").kill9();
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    assert_eq!(pair.helio("paris", &["demote", "db"]).status.code(), Some(8), "lyon is behind");
    pair.start("lyon");
    wait(&pair, "lyon", "the peer", |status| status["peer"]["connection"] == "connected");
    let told = pair.helio("lyon", &["promote", "db"]).expect_failure();
    assert!(told.contains("newer-elsewhere: paris holds newer writes"), "{told}");
    assert!(
        told.contains("`helio promote db` on paris instead") && told.contains("nothing is lost"),
        "{told}"
    );
    assert!(!told.contains("--force") && !told.contains("both answered"), "{told}");
    pair.helio("paris", &["promote", "db"]).expect_success();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
}
