// SPDX-License-Identifier: Apache-2.0
//! The last complete copy is discarded only if the operator names it as that; and of two nodes with writes of their own, the second is not
//! discarded once the first was.

use crate::diverged::{split, wait_row};
use helio_e2e::{Book, PATIENCE, assert_members_equal, group, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan, eventually, in_time};
use helio_units::{Bytes, Mode};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: Bytes = Bytes::mib(64);
/// What the settings allow a resync, and what lets it end.
const SLOW: &str = "resync.max-rate = \"1MiB\"";
const FAST: &str = "resync.max-rate = \"1GiB\"";

fn resolve<'a>(node: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["resolve", "db", "--discard", node, "--yes"], more].concat()
}

#[track_caller]
fn refused(pair: &Pair, node: &str, why: &str) -> String {
    let told = pair.helio(node, &resolve(node, &[])).expect_failure();
    let last = format!("the copy of db on {node} may be the last complete one: {why}");
    assert!(told.contains(&last), "{told}");
    assert!(told.contains(&format!("add `--last-copy {node}`")), "{told}");
    told
}

/// Without lyon. It warns, since lyon lacks something.
fn demote(pair: &Pair) {
    let told = pair.helio("paris", &["demote", "db"]);
    assert!(told.stdout.contains("secondary now"), "{told}");
}

/// Two secondaries: paris has all that clients wrote, and lyon a part of it.
fn half_copied(pair: &mut Pair) {
    wait(pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
    let file = pair.member("paris", "data");
    std::fs::write(&file, vec![7; SIZE.0 as usize]).expect("there is room");
    pair.helio("paris", &["promote", "db"]).expect_success();
    wait(pair, "lyon", "an inconsistent copy", |status| {
        status["state"] == "syncing" && status["consistent"] == false
    });
    pair.daemon("lyon").kill9();
    demote(pair);
}

#[test]
fn the_last_complete_copy_is_discarded_only_if_it_is_named() {
    let mut pair = Plan::new("db").volume("data", SIZE).group_line(SLOW).start();
    half_copied(&mut pair);
    // Away or connected, lyon has no complete copy.
    refused(&pair, "paris", "the copy of lyon is inconsistent");
    pair.start("lyon");
    wait(&pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
    let told = refused(&pair, "paris", "the copy of lyon is inconsistent");
    assert!(
        told.contains("hint: `helio promote db` on paris, which then copies to lyon"),
        "{told}"
    );
    let told = pair.helio("paris", &resolve("paris", &["--last-copy", "lyon"])).expect_failure();
    assert!(told.contains("is the one of paris, not of lyon"), "{told}");

    // The step that the refusal names leads to two equal copies.
    let text = std::fs::read_to_string(pair.config()).expect("it is there");
    std::fs::write(pair.config(), text.replace(SLOW, FAST)).expect("there is room");
    pair.helio("paris", &["apply"]).expect_success();
    pair.helio("lyon", &["apply"]).expect_success();
    pair.helio("paris", &["promote", "db"]).expect_success();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");

    // A node that its peer has not connected to since the start knows nothing of the peer's copy.
    pair.daemon("lyon").kill9();
    demote(&pair);
    pair.daemon("paris").kill9();
    pair.start("paris");
    refused(&pair, "paris", "lyon has not connected since this daemon started");
    pair.helio("paris", &resolve("paris", &["--last-copy", "paris"])).expect_success();
}

#[test]
fn a_choice_reaches_the_other_node_at_once_and_is_not_made_twice() {
    let dice = Dice::of_test("a_choice_reaches_the_other_node_at_once_and_is_not_made_twice");
    for (lost, kept) in [("paris", "lyon"), ("lyon", "paris")] {
        let mut pair = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).start();
        let book = Arc::new(Book::new(dice.seed()));
        split(&mut pair, &dice, &book);
        for node in [lost, kept] {
            wait_row(&pair, node, |label| label == "two-primaries");
        }
        pair.helio(lost, &["demote", "db"]).expect_success();
        // The two have just refused each other: the next attempt is a pause away.
        let before = wait_row(&pair, kept, |label| label == "split-brain")["row"]["at_ms"].clone();
        eventually(PATIENCE, "another refusal", || {
            let row = pair.helio(kept, &["explain", "db", "--json"]).json();
            (row["row"]["at_ms"] != before).then_some(())
        });
        assert_eq!(group(&pair, kept)["verdict"]["word"], "split-brain");
        pair.helio(lost, &resolve(lost, &[])).expect_success();
        let begin = Instant::now();
        let shown =
            wait(&pair, kept, "the choice", |status| status["verdict"]["word"] != "split-brain");
        in_time(begin.elapsed(), Duration::from_secs(1), "the news of the choice");
        assert!(!shown["next"].to_string().contains("helio resolve"), "{shown}");
        wait_level(&pair, kept);
        assert_members_equal(&pair, "data");
    }
}
