// SPDX-License-Identifier: Apache-2.0
//! Mode periodic over a thin link: the secondary always has a complete copy, whichever node dies at whatever moment, and the mode
//! changes while clients write.

use helio_e2e::{
    Book, Load, Promise, assert_members_equal, begin, begin_periodic, image, number, relayed,
    take_over, wait, wait_level,
};
use helio_testkit::{Dice, Pair, Plan, rounds};
use helio_units::{Bytes, Mode};
use helio_wan::{Cut, Relay};
use std::sync::Arc;
use std::time::Duration;

/// A pair in mode periodic over 10 Mbit/s and 100 ms, with an empty copy on both nodes.
#[track_caller]
fn periodic(dice: &Dice, size: Bytes, period: &str) -> (Pair, Relay) {
    let plan = Plan::new("db")
        .volume("data", size)
        .mode(Mode::Periodic)
        .group_line(&format!("period = \"{period}\""))
        .group_line("peer-timeout = \"2s\"");
    let (plan, relay) = relayed(plan, Duration::from_millis(100), 10, dice.seed());
    let pair = plan.start();
    begin_periodic(&pair, "paris");
    (pair, relay)
}

/// Whether the peer has everything.
fn has_all(status: &serde_json::Value) -> bool {
    status["state"] == "periodic" && number(status, "/lag/bytes") == 0
}

#[test]
fn whichever_node_is_killed_the_secondary_has_a_cut_as_a_whole() {
    let dice = Dice::of_test("whichever_node_is_killed_the_secondary_has_a_cut_as_a_whole");
    for round in 0..rounds(4) {
        let mut dice = dice.fork(round);
        // Without a period a cut is always on its way; with one, the last that arrived is often the newest.
        let period = *dice.pick(&["0s", "2s"]);
        let (mut pair, relay) = periodic(&dice, Bytes::mib(1), period);
        let book = Arc::new(Book::new(dice.seed()));
        let mut writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
        writers.write_for(Duration::from_millis(200 + dice.below(4000)));
        let secondary = dice.chance(50);
        if secondary {
            pair.daemon("lyon").kill9();
            pair.start("lyon");
            writers.write_for(Duration::from_millis(dice.below(300)));
        }
        relay.control().cut(Cut::Reset);
        pair.daemon("paris").kill9();
        writers.broken();
        let copy = if take_over(&pair, "lyon") { "the safe copy" } else { "its volumes" };
        let name = if secondary { "lyon, killed" } else { "lyon" };
        let held = book.assert_holds(name, &image(&pair, "lyon", book.run()), Promise::Closed);
        println!("round {round}: period {period}, {name}, with {copy}: {held:?}");
    }
}

#[test]
fn a_thin_link_carries_what_changed_and_not_what_was_written() {
    let dice = Dice::of_test("a_thin_link_carries_what_changed_and_not_what_was_written");
    let (pair, _relay) = periodic(&dice, Bytes::mib(4), "1s");
    let book = Arc::new(Book::new(dice.seed()));
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
    writers.write_for(Duration::from_secs(5));
    writers.stop();
    wait(&pair, "paris", "the last cut", has_all);
    assert_members_equal(&pair, "data");
    let held = book.assert_holds("lyon", &image(&pair, "lyon", book.run()), Promise::Everything);
    // The link carries so many blocks in a second, and many times that many were written.
    assert!(held.answered as u64 * 4096 > 5 * 1_250_000, "{held:?}");
    let refused = pair.helio("paris", &["verify", "start", "db"]).expect_failure();
    assert!(refused.contains("helio mode db async"), "{refused}");
}

#[test]
fn the_mode_changes_in_both_directions_while_clients_write() {
    let dice = Dice::of_test("the_mode_changes_in_both_directions_while_clients_write");
    let plan = Plan::new("db").volume("data", Bytes::mib(4)).group_line("period = \"0s\"");
    let (plan, _relay) = relayed(plan, Duration::from_millis(10), 100, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
    for mode in ["periodic", "async", "periodic", "sync"] {
        pair.helio("paris", &["mode", "db", mode]).expect_success();
        writers.write_for(Duration::from_millis(800));
    }
    writers.stop();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    pair.helio("paris", &["mode", "db", "periodic"]).expect_success();
    let refused = pair.helio("paris", &["switch", "db"]).expect_failure();
    assert!(refused.contains("helio mode db async"), "{refused}");
    pair.helio("paris", &["mode", "db", "sync"]).expect_success();
    wait_level(&pair, "paris");
    pair.helio("lyon", &["switch", "db"]).expect_success();
    let image = image(&pair, "lyon", book.run());
    book.assert_holds("lyon", &image, Promise::Everything);
}
