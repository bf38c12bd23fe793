// SPDX-License-Identifier: Apache-2.0
//! A first sync by a disk that is shipped.

use helio_e2e::{Book, Load, assert_members_equal, group, number, wait, wait_level, wait_state};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

const VOLUME: Bytes = Bytes::mib(256);

/// Paris is primary alone, holds data, and marks what changes for the disk that is to be shipped.
fn seeding(dice: &Dice, book: &Arc<Book>) -> Pair {
    let mut pair = Plan::new("db").mode(Mode::Async).volume("data", VOLUME).prepare();
    pair.start("paris");
    pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    wait(&pair, "paris", "the primary", |status| status["role"] == "primary");
    let load = Load { count: Some(3000), blocks: (1, 16), ..Load::PLAIN };
    load.run(&pair, "paris", &dice.fork(0), book);
    let told = pair.helio("paris", &["seed", "begin", "db"]).expect_success();
    assert!(told.contains("seed end"), "{told}");
    pair
}

/// The store is copied while it is written to, and put in place on lyon. Gives the bytes written since.
fn shipped(pair: &mut Pair, dice: &Dice, book: &Arc<Book>) -> u64 {
    let before = book.count();
    let load = Load { depth: 2, ..Load::PLAIN };
    let mut writers = load.start(pair, "paris", &dice.fork(1), book);
    fs::copy(pair.member("paris", "data"), pair.member("lyon", "data")).expect("it is copied");
    writers.write_for(Duration::from_millis(20));
    writers.stop();
    (book.count() - before) * 4096
}

/// The disk is said to be in place: so many bytes travel at most, and then both are equal.
fn ends_equal(pair: &Pair, book: &Book, most: u64) {
    let refused = pair.helio("paris", &["resync", "db"]).expect_failure();
    assert!(refused.contains("seed end"), "{refused}");
    pair.helio("paris", &["seed", "end", "db", "--wait"]).expect_success();
    wait_level(pair, "paris");
    assert_members_equal(pair, "data");
    let sent = number(&group(pair, "paris"), "/counters/sent_bytes");
    println!("{sent} bytes travelled, {most} were written since the disk was copied");
    assert!(sent <= most, "{sent} bytes travelled, {most} were written since");
    assert!(["paris", "lyon"].iter().all(|node| group(pair, node)["seeding"].is_null()));
    assert_eq!(book.failures(), [], "every write should have been answered well");
}

#[test]
fn only_what_changed_since_travels_to_a_shipped_disk() {
    let dice = Dice::of_test("only_what_changed_since_travels_to_a_shipped_disk");
    let book = Arc::new(Book::new(dice.seed()));
    let mut pair = seeding(&dice, &book);
    let written = shipped(&mut pair, &dice, &book);
    pair.start("lyon");
    wait(&pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
    let status = wait_state(&pair, "paris", "logging");
    let changed = number(&status, "/seeding/changed_bytes");
    assert!(changed > 0 && changed <= written * 16 && changed < VOLUME.0, "{changed} changed");
    for (node, next) in [("paris", "`helio seed end db`"), ("lyon", "`helio seed end db` on paris")]
    {
        wait(&pair, node, "the seeding", |status| {
            let advised = status["next"].as_str().unwrap_or_default();
            !status["seeding"].is_null() && advised.ends_with(next)
        });
        let shown = pair.helio(node, &["status", "db"]).expect_success();
        assert!(shown.contains("   seeding   ") && !shown.contains("resync"), "{shown}");
    }
    ends_equal(&pair, &book, written);
}

#[test]
fn a_seeding_outlives_both_daemons() {
    let dice = Dice::of_test("a_seeding_outlives_both_daemons");
    let book = Arc::new(Book::new(dice.seed()));
    let mut pair = seeding(&dice, &book);
    let written = shipped(&mut pair, &dice, &book);
    pair.daemon("paris").kill9();
    pair.start("lyon");
    pair.daemon("lyon").kill9();
    pair.start("paris");
    pair.start("lyon");
    wait(&pair, "paris", "the peer", |status| {
        status["role"] == "primary" && status["peer"]["connection"] == "connected"
    });
    // What was hot counts as changed; of what is equal there, nothing travels but digests.
    ends_equal(&pair, &book, written * 16);
}

#[test]
fn a_disk_that_is_not_the_shipped_one_is_refused_and_may_be_copied_to_whole() {
    let dice = Dice::of_test("a_disk_that_is_not_the_shipped_one_is_refused");
    let book = Arc::new(Book::new(dice.seed()));
    let mut pair = seeding(&dice, &book);
    pair.start("lyon");
    wait(&pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
    let refused = pair.helio("paris", &["seed", "end", "db"]).expect_failure();
    assert!(
        refused.contains("helio resync db --full") && refused.contains("volume data"),
        "{refused}"
    );
    assert!(!group(&pair, "paris")["seeding"].is_null(), "nothing has changed");
    pair.helio("paris", &["resync", "db", "--full", "--yes", "--wait"]).expect_success();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
}
