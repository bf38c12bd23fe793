// SPDX-License-Identifier: Apache-2.0
//! A queue that is too small, and each of the three things that may happen at its bound.

use helio_e2e::{
    BLOCK, Book, Load, Promise, assert_members_equal, begin, connect, copies_begun, group, image,
    number, relayed, wait, wait_level, wait_state,
};
use helio_nbd::ErrorCode;
use helio_testkit::{Dice, Pair, Plan};
use helio_units::Bytes;
use helio_wan::{Cut, Relay};
use std::sync::Arc;
use std::time::Duration;

const BOUND: u64 = 256 << 10;

/// A pair that replicates over a slow link, with such a queue.
#[track_caller]
fn small_queue(dice: &Dice, when_full: &str, line: &str) -> (Pair, Relay, Arc<Book>) {
    let plan = Plan::new("db")
        .volume("data", Bytes::mib(16))
        .group_line(&format!("queue = {{ memory = \"256KiB\", when-full = \"{when_full}\" }}"))
        .group_line(line);
    let (plan, relay) = relayed(plan, Duration::from_millis(10), 100, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    (pair, relay, Arc::new(Book::new(dice.seed())))
}

/// The connection is lost and made anew.
#[track_caller]
fn meet_again(pair: &Pair, relay: &Relay) {
    relay.control().cut(Cut::Reset);
    wait(pair, "paris", "the loss", |status| status["peer"]["connection"] != "connected");
    relay.control().heal();
    wait(pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
}

/// Everything answered is on the secondary, and the members are equal.
#[track_caller]
fn all_is_there(pair: &Pair, book: &Book) {
    wait_level(pair, "paris");
    assert_members_equal(pair, "data");
    book.assert_holds("lyon", &image(pair, "lyon", book.run()), Promise::Everything);
}

#[test]
fn block_lets_writes_wait_and_counts_them() {
    let dice = Dice::of_test("block_lets_writes_wait_and_counts_them");
    let (mut pair, _relay, book) = small_queue(&dice, "block", "");
    Load { count: Some(1000), depth: 100, ..Load::PLAIN }.run(&pair, "paris", &dice, &book);
    let status = group(&pair, "paris");
    assert!(number(&status, "/throttle/count") > 500, "most writes had to wait: {status:#}");
    assert!(status["throttle"]["total_seconds"].as_f64().is_some_and(|total| total > 0.1));
    let high = number(&status, "/queue/bytes_high_water");
    assert!((BOUND / 2..=BOUND).contains(&high), "the queue held {high} of {BOUND}");
    all_is_there(&pair, &book);
    assert_eq!(number(&group(&pair, "paris"), "/throttle/waiting"), 0);
    assert_eq!(copies_begun(&mut pair, "paris"), 1, "only the first meeting copies");
}

#[test]
fn log_keeps_marks_and_the_next_meeting_updates_by_itself() {
    let dice = Dice::of_test("log_keeps_marks_and_the_next_meeting_updates_by_itself");
    let (mut pair, relay, book) = small_queue(&dice, "log", "");
    Load { count: Some(1000), depth: 100, ..Load::PLAIN }.run(&pair, "paris", &dice, &book);
    wait_state(&pair, "paris", "logging");
    assert!(pair.daemon("paris").log().contains("queue dropped: the queue was full"));
    meet_again(&pair, &relay);
    all_is_there(&pair, &book);
    assert!(pair.daemon("paris").log().contains("lyon connected as update-marks"));
    assert_eq!(copies_begun(&mut pair, "paris"), 2, "the first meeting, and this one");
}

#[test]
fn log_without_autosync_waits_for_an_update() {
    let dice = Dice::of_test("log_without_autosync_waits_for_an_update");
    let (mut pair, relay, book) = small_queue(&dice, "log", "autosync = false");
    Load { count: Some(1000), depth: 100, ..Load::PLAIN }.run(&pair, "paris", &dice, &book);
    let status = wait_state(&pair, "paris", "logging");
    assert_eq!(status["verdict"]["word"], "at-risk");
    assert!(number(&status, "/volumes/0/dirty_bytes") > 0, "{status:#}");

    // Neither more writes nor another connection begin it.
    Load { count: Some(100), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(2), &book);
    meet_again(&pair, &relay);
    wait_state(&pair, "paris", "logging");
    assert_eq!(copies_begun(&mut pair, "paris"), 1, "nobody asked for an update");

    pair.helio("paris", &["resync", "db", "--wait"]).expect_success();
    assert_eq!(group(&pair, "paris")["state"], "replicating", "--wait returns when it is done");
    all_is_there(&pair, &book);
}

#[test]
fn fail_refuses_what_does_not_fit_and_loses_nothing() {
    let dice = Dice::of_test("fail_refuses_what_does_not_fit_and_loses_nothing");
    let (mut pair, relay, book) = small_queue(&dice, "fail", "");
    relay.control().cut(Cut::Freeze);
    // More than the queue takes, and the sockets on the way.
    Load { count: Some(8192), ..Load::PLAIN }.start(&pair, "paris", &dice, &book).finish();
    let failures = book.failures();
    assert!(!failures.is_empty(), "the bound was never met");
    assert!(failures.iter().all(|why| why.code == ErrorCode::NoSpace), "{:?}", failures[0]);
    assert!(book.count() >= BOUND / BLOCK as u64, "what fits is written: {}", book.count());

    relay.control().heal();
    all_is_there(&pair, &book);
    let mut client = connect(&pair, "paris");
    let (number, data) = book.submit(0, 1);
    assert!(client.write(0, &data, false).is_ok(), "there is room again");
    book.answered(number, Ok(()));
    all_is_there(&pair, &book);
    assert_eq!(copies_begun(&mut pair, "paris"), 1, "only the first meeting copies");
}
