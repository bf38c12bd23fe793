// SPDX-License-Identifier: Apache-2.0
//! Roles that change on purpose, daemons that stop and come back, and an old primary that was overtaken.

use helio_e2e::{
    Book, Load, Promise, assert_members_equal, begin, copies_begun, group, image, other, wait,
    wait_level,
};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
use std::sync::Arc;
use std::time::Duration;

const SOME: Load = Load { count: Some(300), ..Load::PLAIN };

/// A pair in that mode that replicates from paris, written to.
#[track_caller]
fn written(mode: Mode, dice: &Dice) -> (Pair, Arc<Book>) {
    let pair = Plan::new("db").mode(mode).volume("data", Bytes::mib(16)).start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", dice, &book);
    (pair, book)
}

/// The primary is level, the members are equal, and everything answered is in both.
#[track_caller]
fn all_is_there(pair: &Pair, primary: &str, book: &Book) {
    wait_level(pair, primary);
    assert_members_equal(pair, "data");
    book.assert_holds(primary, &image(pair, primary, book.run()), Promise::Everything);
}

#[test]
fn a_planned_hand_over_copies_nothing() {
    let dice = Dice::of_test("a_planned_hand_over_copies_nothing");
    let (mut pair, book) = written(Mode::Async, &dice);
    let mut primary = "paris";
    for round in 0..4 {
        pair.helio(primary, &["demote", "db"]).expect_success();
        let next = other(primary);
        wait(&pair, next, "the peer", |status| status["peer"]["connection"] == "connected");
        pair.helio(next, &["promote", "db"]).expect_success();
        primary = next;
        let status = wait_level(&pair, primary);
        let why = status["state_reason"].as_str().unwrap_or_default();
        assert!(why.contains("equal-at-fork"), "it should be known to be equal: {why}");
        SOME.run(&pair, primary, &dice.fork(round), &book);
        all_is_there(&pair, primary, &book);
    }
    assert_eq!(copies_begun(&mut pair, "paris"), 1, "only the first meeting copies");
    assert_eq!(copies_begun(&mut pair, "lyon"), 0);
}

#[test]
fn a_switch_that_is_waited_for_succeeds_on_either_node() {
    let dice = Dice::of_test("a_switch_that_is_waited_for_succeeds_on_either_node");
    let (pair, book) = written(Mode::Sync, &dice);
    for (asked, primary) in [("lyon", "lyon"), ("lyon", "paris"), ("paris", "lyon")] {
        let told = pair.helio(asked, &["switch", "db", "--wait"]).expect_success();
        assert!(told.contains("db is replicating"), "{told}");
        assert_eq!(group(&pair, primary)["role"], "primary");
    }
    all_is_there(&pair, "lyon", &book);
}

#[test]
fn roles_change_under_load_in_both_directions_and_nothing_is_lost() {
    let dice = Dice::of_test("roles_change_under_load_in_both_directions_and_nothing_is_lost");
    let (mut pair, book) = written(Mode::Async, &dice);
    let load = Load { connections: 2, ..Load::PLAIN };
    let mut primary = "paris";
    for round in 0..6 {
        wait_level(&pair, primary);
        let mut writers = load.start(&pair, primary, &dice.fork(round), &book);
        writers.write_for(Duration::from_millis(100));
        let next = other(primary);
        // Asked of the one and of the other in turn.
        let asked = if round % 2 == 0 { primary } else { next };
        pair.helio(asked, &["switch", "db"]).expect_success();
        assert_eq!(group(&pair, next)["role"], "primary", "the command ends when it serves");
        assert_eq!(group(&pair, primary)["role"], "secondary");
        writers.broken();
        assert_eq!(book.failures(), [], "clients are let go; nothing is answered badly");
        primary = next;
        all_is_there(&pair, primary, &book);
    }
    assert_eq!(copies_begun(&mut pair, "paris"), 1, "only the first meeting copies");
    assert_eq!(copies_begun(&mut pair, "lyon"), 0);
    // Nobody to change roles with: it stays what it is.
    pair.daemon(other(primary)).kill9();
    wait(&pair, primary, "the loss", |status| status["peer"]["connection"] != "connected");
    let told = pair.helio(primary, &["switch", "db"]).expect_failure();
    assert!(told.contains("hint"), "{told}");
    assert_eq!(group(&pair, primary)["role"], "primary");
}

#[test]
fn stopped_cleanly_and_started_in_any_order_nothing_is_copied() {
    let dice = Dice::of_test("stopped_cleanly_and_started_in_any_order_nothing_is_copied");
    let (mut pair, book) = written(Mode::Async, &dice);
    let generation = group(&pair, "paris")["generation"].clone();
    for (round, (first_down, first_up)) in
        [("paris", "lyon"), ("paris", "paris"), ("lyon", "paris"), ("lyon", "lyon")]
            .into_iter()
            .enumerate()
    {
        wait_level(&pair, "paris");
        for node in [first_down, other(first_down)] {
            assert!(pair.daemon(node).terminate().success(), "{node} should end well");
        }
        for node in [first_up, other(first_up)] {
            pair.start(node);
        }
        let status = wait_level(&pair, "paris");
        assert_eq!(status["role"], "primary", "it goes on where it was");
        assert_eq!(status["generation"], generation, "and in the same generation");
        SOME.run(&pair, "paris", &dice.fork(round as u64), &book);
        all_is_there(&pair, "paris", &book);
    }
    assert_eq!(copies_begun(&mut pair, "paris"), 1, "only the first meeting copies");
}

#[test]
fn a_crashed_primary_goes_on_in_a_new_generation() {
    let dice = Dice::of_test("a_crashed_primary_goes_on_in_a_new_generation");
    let (mut pair, book) = written(Mode::Async, &dice);
    let before = group(&pair, "paris")["generation"].clone();
    let load = Load { connections: 2, ..Load::PLAIN };
    let mut writers = load.start(&pair, "paris", &dice.fork(1), &book);
    writers.write_for(Duration::from_millis(100));
    pair.daemon("paris").kill9();
    writers.broken();

    pair.start("paris");
    let status = wait_level(&pair, "paris");
    assert_eq!(status["role"], "primary");
    assert_ne!(status["generation"], before, "what it wrote last may be unknown to its peer");
    all_is_there(&pair, "paris", &book);
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    all_is_there(&pair, "paris", &book);
}

#[test]
fn an_overtaken_primary_is_refused_and_left_alone() {
    let dice = Dice::of_test("an_overtaken_primary_is_refused_and_left_alone");
    let (mut pair, book) = written(Mode::Async, &dice);
    let load = Load { connections: 2, ..Load::PLAIN };
    let mut writers = load.start(&pair, "paris", &dice.fork(1), &book);
    writers.write_for(Duration::from_millis(100));
    pair.daemon("paris").kill9();
    writers.broken();
    let left = image(&pair, "paris", book.run());
    wait(&pair, "lyon", "the loss", |status| status["peer"]["connection"] != "connected");
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    SOME.run(&pair, "lyon", &dice.fork(2), &book);

    pair.start("paris");
    for node in ["lyon", "paris"] {
        let refused = wait(&pair, node, "the refusal", |status| {
            let reason = status["peer"]["reason"].as_str().unwrap_or_default();
            status["peer"]["connection"] == "refused" && reason.contains("diverged")
        });
        assert_ne!(refused["state"], "replicating", "{node}");
    }
    // Neither is held up by the other, and nothing travels.
    let told = pair.helio("paris", &["promote", "db"]).expect_failure();
    assert!(told.contains("hint"), "a refusal tells what to do: {told}");
    SOME.run(&pair, "lyon", &dice.fork(3), &book);
    assert_eq!(group(&pair, "lyon")["role"], "primary");
    assert_eq!(group(&pair, "paris")["role"], "secondary");
    assert_eq!(image(&pair, "paris", book.run()), left, "its last writes exist only there");
}
