// SPDX-License-Identifier: Apache-2.0
//! What operators decide by: how much a loss of the primary would cost and how old that information is, why two nodes stand
//! to each other as they do, and a promotion by force while nothing comes from the primary.

use crate::diverged::wait_row;
use helio_e2e::{Book, Load, PATIENCE, begin, connect, group, number, relayed, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::{Bytes, Mode};
use helio_wan::{Cut, Relay};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const SOME: Load = Load { count: Some(100), ..Load::PLAIN };
const BLOCK: usize = 4096;

/// A level pair in async behind a link, with some writes.
pub(crate) fn level(dice: &Dice, mbit: u64, lines: &[&str]) -> (Pair, Relay, Arc<Book>) {
    let mut plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16));
    for line in lines {
        plan = plan.group_line(line);
    }
    let (plan, relay) = relayed(plan, Duration::from_millis(2), mbit, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", dice, &book);
    wait_level(&pair, "paris");
    (pair, relay, book)
}

fn seconds(status: &Value, path: &str) -> f64 {
    status.pointer(path).and_then(Value::as_f64).unwrap_or_default()
}

/// The bytes in which the members differ, in blocks. Nothing may be writing.
fn difference(pair: &Pair) -> u64 {
    let [one, two] = ["lyon", "paris"]
        .map(|node| std::fs::read(pair.member(node, "data")).expect("it is there"));
    let blocks = one.chunks(BLOCK).zip(two.chunks(BLOCK));
    (blocks.filter(|(one, two)| one != two).count() * BLOCK) as u64
}

#[test]
fn dirty_regions_are_lag_on_both_nodes_and_at_stake_in_a_promotion() {
    let dice = Dice::of_test("dirty_regions_are_lag_on_both_nodes_and_at_stake_in_a_promotion");
    let (mut pair, _relay, book) = level(&dice, 100, &["peer-timeout = \"1s\""]);
    pair.helio("paris", &["pause", "db"]).expect_success();
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    let lag = number(&group(&pair, "paris"), "/lag/bytes");
    let differs = difference(&pair);
    assert!(lag >= differs && differs > 0, "{lag} bytes are reported, and {differs} differ");
    wait(&pair, "lyon", "the report", |status| number(status, "/lag/bytes") == lag);
    pair.daemon("paris").kill9();
    wait(&pair, "lyon", "the loss", |status| status["peer"]["connection"] != "connected");
    let told = pair.helio("lyon", &["promote", "db"]);
    assert!(told.stderr.contains("At that time at most"), "{told}");
    assert!(!told.stderr.contains(" 0 B"), "{told}");
}

/// All that is written lies in so many extents that may be hot.
const HOT: Bytes = Bytes::mib(4 * 4);

#[test]
fn what_a_returning_node_says_is_only_there_is_what_differs_and_at_most_hot_extents() {
    let dice = Dice::of_test("what_a_returning_node_says_is_only_there_is_what_differs");
    for crashes in [true, false] {
        let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(256));
        let mut pair = plan.start();
        begin(&pair, "paris");
        wait_level(&pair, "paris");
        // From now on its metadata is not new.
        pair.daemon("paris").terminate();
        pair.start("paris");
        wait_level(&pair, "paris");
        let mut client = connect(&pair, "paris");
        let data = vec![dice.seed() as u8 | 1; 1 << 20];
        client.write(0, &data, false).expect("paris serves");
        wait_level(&pair, "paris");
        pair.helio("paris", &["pause", "db"]).expect_success();
        for n in 64..76 {
            client.write(n << 20, &data, false).expect("paris serves alone");
        }
        client.disconnect().expect("it may go");
        if crashes {
            pair.daemon("paris").kill9();
        } else {
            pair.daemon("paris").terminate();
        }
        let differs = difference(&pair);
        assert_eq!(differs, 12 << 20);
        pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
        pair.start("paris");
        wait_row(&pair, "paris", |label| label == "diverged");
        let told = pair.helio("paris", &["resolve", "db", "--discard", "paris", "--json"]);
        let error: Value = serde_json::from_str(&told.stderr).expect("it is JSON");
        let only_there = number(&error, "/at_stake/bytes");
        let most = differs + if crashes { HOT.0 } else { 0 };
        assert!((differs..=most).contains(&only_there), "{only_there} of {differs}: {told}");
        assert!(error["at_stake"].get("unknown").is_none(), "{told}");
    }
}

#[test]
fn what_a_queue_that_overflowed_dropped_is_lag() {
    let dice = Dice::of_test("what_a_queue_that_overflowed_dropped_is_lag");
    let lines = ["peer-timeout = \"1s\"", "queue = { memory = \"64KiB\" }"];
    let (pair, relay, book) = level(&dice, 100, &lines);
    relay.control().cut(Cut::Reset);
    wait(&pair, "paris", "the loss", |status| status["peer"]["connection"] != "connected");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    let status = wait(&pair, "paris", "an overflow", |status| status["state"] == "logging");
    let (lag, differs) = (number(&status, "/lag/bytes"), difference(&pair));
    assert!(lag >= differs && differs > 0, "{lag} bytes are reported, and {differs} differ");
}

#[test]
fn a_relay_that_answers_for_a_peer_that_is_gone_does_not_make_its_last_message_younger() {
    let dice = Dice::of_test(
        "a_relay_that_answers_for_a_peer_that_is_gone_does_not_make_its_last_message_younger",
    );
    let (pair, relay, _book) = level(&dice, 100, &["peer-timeout = \"500ms\""]);
    relay.control().cut(Cut::Freeze);
    let cut = Instant::now();
    let mut connections = std::collections::BTreeSet::new();
    // Each redial is accepted, and ends when nothing comes.
    eventually(PATIENCE, "several redials", || {
        for node in ["lyon", "paris"] {
            let least = cut.elapsed().as_secs_f64();
            let status = group(&pair, node);
            let age = seconds(&status, "/peer/age_seconds");
            assert!(age >= least, "{node}: a message {age} s ago, {least} s behind the cut");
            connections.insert((node, status["peer"]["connection_since_ms"].to_string()));
        }
        (connections.len() >= 8).then_some(())
    });
}

#[test]
fn the_lag_of_a_secondary_is_as_old_as_its_oldest_write_and_no_level_is_claimed_meanwhile() {
    let dice = Dice::of_test(
        "the_lag_of_a_secondary_is_as_old_as_its_oldest_write_and_no_level_is_claimed_meanwhile",
    );
    let lines = ["peer-timeout = \"20s\"", "queue = { memory = \"64MiB\" }"];
    let (pair, _relay, book) = level(&dice, 20, &lines);
    Load { count: Some(3000), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(1), &book);
    wait(&pair, "lyon", "a lag older than its report", |status| {
        let (lag, age) = (seconds(status, "/lag/seconds"), seconds(status, "/peer/age_seconds"));
        if number(status, "/lag/bytes") > 0 {
            let reason = status["state_reason"].as_str().unwrap_or_default();
            assert!(!reason.contains("level"), "{status}");
        }
        number(status, "/lag/bytes") > 0 && lag > age + 0.5
    });
    let status = wait_level(&pair, "paris");
    assert_eq!(number(&status, "/lag/bytes"), 0, "{status}");
}

#[test]
fn a_link_that_comes_back_is_explained_with_the_positions_that_both_hold() {
    let dice =
        Dice::of_test("a_link_that_comes_back_is_explained_with_the_positions_that_both_hold");
    let (pair, relay, book) = level(&dice, 100, &["peer-timeout = \"1s\""]);
    let held = number(&group(&pair, "paris"), "/cursors/accepted");
    relay.control().cut(Cut::Reset);
    wait(&pair, "paris", "the loss", |status| status["peer"]["connection"] != "connected");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    relay.control().heal();
    wait_level(&pair, "paris");
    for node in ["lyon", "paris"] {
        let told = pair.helio(node, &["explain", "db"]).expect_success();
        assert!(told.contains("resume-received"), "{told}");
        assert!(told.contains(" ago, when paris and lyon connected\n"), "{told}");
        assert!(told.contains(&format!("position {held}")), "{held}: {told}");
        assert!(!told.contains("position 0") && !told.contains("order was lost"), "{told}");
    }
    // A decision that no longer holds says so, and advises nothing.
    relay.control().cut(Cut::Reset);
    wait(&pair, "paris", "the loss", |status| status["peer"]["connection"] != "connected");
    let told = pair.helio("paris", &["explain", "db"]).expect_success();
    assert!(told.contains("now lyon is not connected"), "{told}");
    assert!(told.contains("`helio status db` shows what to do now"), "{told}");
}

#[test]
fn force_goes_on_once_nothing_comes_from_the_old_primary() {
    let dice = Dice::of_test("force_goes_on_once_nothing_comes_from_the_old_primary");
    let (mut pair, _relay, _book) = level(&dice, 100, &["peer-timeout = \"10min\""]);
    let force = ["promote", "db", "--force", "--yes"];
    let told = pair.helio("lyon", &force).expect_failure();
    assert!(told.contains("repeat this in"), "a live primary is not passed over: {told}");
    pair.daemon("paris").freeze();
    // Long before the connection counts as lost.
    eventually(PATIENCE, "the promotion", || {
        pair.helio("lyon", &force).status.success().then_some(())
    });
    pair.daemon("paris").kill9();
}
