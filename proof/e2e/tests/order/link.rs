// SPDX-License-Identifier: Apache-2.0
//! The link is lost, by silence or by a reset, and heals: the backlog travels in order.

use helio_e2e::{
    Book, Load, PATIENCE, Promise, assert_members_equal, begin, copies_begun, group, halt, image,
    relayed, wait_level, wait_state,
};
use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::Bytes;
use helio_wan::Cut;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_silent_link_is_lost_and_the_backlog_travels_in_order() {
    lost_and_healed("a_silent_link_is_lost_and_the_backlog_travels_in_order", Cut::Freeze);
}

#[test]
fn a_reset_link_is_lost_and_the_backlog_travels_in_order() {
    lost_and_healed("a_reset_link_is_lost_and_the_backlog_travels_in_order", Cut::Reset);
}

fn lost_and_healed(test: &'static str, cut: Cut) {
    let dice = Dice::of_test(test);
    let plan = Plan::new("db")
        .volume("data", Bytes::mib(16))
        .group_line("queue = { memory = \"64MiB\" }")
        .group_line("peer-timeout = \"1s\"");
    let (plan, relay) = relayed(plan, Duration::from_millis(10), 60, dice.seed());
    let mut pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));

    // Cut under load, so that some of it is on its way.
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice.fork(1), &book);
    writers.write_for(Duration::from_millis(50));
    relay.control().cut(cut);
    book.wait_for(200, PATIENCE);
    writers.stop();
    wait_state(&pair, "paris", "queuing");
    assert_eq!(group(&pair, "paris")["verdict"]["word"], "at-risk", "it must not claim to be");
    Load { count: Some(2500), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(2), &book);

    relay.control().heal();
    wait_state(&pair, "paris", "catching-up");
    // Writes go on meanwhile, and the image is in order at every moment.
    let writers = Load { count: Some(300), ..Load::PLAIN };
    let writers = writers.start(&pair, "paris", &dice.fork(3), &book);
    watch_in_order(&mut pair, &book);
    writers.finish();

    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    let after = image(&pair, "lyon", book.run());
    book.assert_holds("lyon", &after, Promise::Everything);
    assert!(pair.daemon("paris").log().contains("lyon connected as resume-received"));
    assert_eq!(copies_begun(&mut pair, "paris"), 1, "only the first meeting copies");
    assert_eq!(book.failures(), []);
}

/// Judges the secondary's image again and again until it has caught up.
#[track_caller]
fn watch_in_order(pair: &mut Pair, book: &Book) {
    let mut midway = 0;
    eventually(PATIENCE, "the end of catching up", || {
        halt(pair, "lyon");
        let shown = image(pair, "lyon", book.run());
        pair.daemon("lyon").thaw();
        let verdict = book.assert_holds("lyon while catching up", &shown, Promise::Closed);
        midway += u32::from(verdict.visible > 0 && verdict.lost > 0);
        (group(pair, "paris")["state"] == "replicating").then_some(())
    });
    assert!(midway > 2, "the backlog was gone too soon for a look: {midway}");
}
