// SPDX-License-Identifier: Apache-2.0
//! A secondary with a hold lease takes over without force while its primary waits, and no later.

use helio_e2e::{
    Book, Load, PATIENCE, assert_members_equal, begin, group, relayed, wait, wait_level,
};
use helio_testkit::{Dice, Pair, Plan, eventually, in_time};
use helio_units::{Bytes, Mode};
use helio_wan::{Cut, Relay};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PEER_TIMEOUT: Duration = Duration::from_millis(500);
const ONE: Load = Load { count: Some(1), ..Load::PLAIN };

/// A pair in sync whose secondary holds a lease.
fn leased(hold: &str, dice: &Dice) -> (Pair, Relay, Arc<Book>) {
    let plan = Plan::new("db")
        .mode(Mode::Sync)
        .volume("data", Bytes::mib(16))
        .group_line(&format!("peer-timeout = \"{}ms\"", PEER_TIMEOUT.as_millis()))
        .group_line(&format!("hold = \"{hold}\""));
    let (plan, relay) = relayed(plan, Duration::from_millis(1), 1000, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    Load { count: Some(50), ..Load::PLAIN }.run(&pair, "paris", dice, &book);
    wait_level(&pair, "paris");
    if hold != "0s" {
        wait(&pair, "lyon", "the lease", |status| status["lease"]["held"] == true);
    }
    (pair, relay, book)
}

fn is_alone(pair: &Pair, node: &str) {
    wait(pair, node, "the loss", |status| status["peer"]["connection"] != "connected");
}

#[test]
fn with_a_lease_the_secondary_takes_over_and_its_old_primary_follows() {
    let dice = Dice::of_test("with_a_lease_the_secondary_takes_over_and_its_old_primary_follows");
    let (pair, relay, book) = leased("60s", &dice);
    relay.control().cut(Cut::Freeze);
    let cut = Instant::now();
    let answered = book.count();
    let writer = ONE.start(&pair, "paris", &dice.fork(1), &book);
    is_alone(&pair, "lyon");
    let told = pair.helio("lyon", &["promote", "db"]).expect_success();
    assert!(told.contains("by the hold lease, which ends in"), "{told}");
    let told_at = book.count();
    Load { count: Some(50), ..Load::PLAIN }.run(&pair, "lyon", &dice.fork(2), &book);
    // Behind its lease the old primary goes on alone, and this test has nothing to say.
    in_time(cut.elapsed(), Duration::from_secs(60), "a takeover within the lease");
    assert_eq!((told_at, book.count()), (answered, answered + 50), "the old primary waits");
    assert_eq!(group(&pair, "paris")["lease"]["held"], false);

    relay.control().heal();
    wait_level(&pair, "lyon");
    writer.stop();
    assert_eq!(book.failures().len(), 1, "the write that waited was never done");
    assert_eq!(group(&pair, "paris")["role"], "secondary", "nobody had to resolve anything");
    assert_members_equal(&pair, "data");
}

#[test]
fn a_write_waits_for_the_hold_and_the_lease_is_over_before_it_is_answered() {
    let dice =
        Dice::of_test("a_write_waits_for_the_hold_and_the_lease_is_over_before_it_is_answered");
    let (pair, relay, book) = leased("2s", &dice);
    let answered = book.count();
    relay.control().cut(Cut::Freeze);
    let writer = ONE.start(&pair, "paris", &dice.fork(1), &book);
    is_alone(&pair, "lyon");
    eventually(PATIENCE, "the end of the lease", || {
        // Counted before the lease is looked at: if it is held then, it was held when this was counted.
        let count = book.count();
        let ended = group(&pair, "lyon")["lease"].is_null();
        assert!(ended || count == answered, "the primary waits longer than the lease lasts");
        ended.then_some(())
    });
    let told = pair.helio("lyon", &["promote", "db"]).expect_failure();
    assert!(told.contains("the hold lease ended"), "{told}");
    writer.finish();
    assert_eq!(book.count(), answered + 1, "then it goes on alone");
    assert_eq!(book.failures(), []);
    relay.control().heal();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
}

/// Lets a pause be as long as that.
fn outlast(since: Instant, pause: Duration) {
    eventually(PATIENCE, "the end of the pause", || (since.elapsed() >= pause).then_some(()));
}

/// Longer than the wait of 4 s x 1.01 + 1 s for a lease of 4 s, and than any peer timeout here.
const PAUSE: Duration = Duration::from_millis(6500);

#[test]
fn a_paused_primary_that_was_succeeded_meanwhile_acknowledges_nothing() {
    let dice = Dice::of_test("a_paused_primary_that_was_succeeded_meanwhile_acknowledges_nothing");
    let (mut pair, relay, book) = leased("4s", &dice);
    let answered = book.count();
    relay.control().cut(Cut::Freeze);
    let cut = Instant::now();
    let writer = ONE.start(&pair, "paris", &dice.fork(1), &book);
    is_alone(&pair, "paris");
    pair.daemon("paris").freeze();
    let frozen = Instant::now();
    is_alone(&pair, "lyon");
    let told = pair.helio("lyon", &["promote", "db"]);
    in_time(cut.elapsed(), Duration::from_secs(4), "a pause and a takeover within the lease");
    let told = told.expect_success();
    assert!(told.contains("by the hold lease"), "{told}");
    Load { count: Some(50), ..Load::PLAIN }.run(&pair, "lyon", &dice.fork(2), &book);
    relay.control().heal();
    // The pause is what is tested: it outlasts the wait for the lease.
    outlast(frozen, PAUSE);
    pair.daemon("paris").thaw();
    wait_level(&pair, "lyon");
    writer.stop();
    assert_eq!(book.count(), answered + 50, "the write that was blocked was never done");
    assert_eq!(book.failures().len(), 1);
    assert_eq!(group(&pair, "paris")["role"], "secondary", "nobody had to resolve anything");
    assert_members_equal(&pair, "data");
}

#[test]
fn a_paused_primary_whose_peer_was_forced_meanwhile_acknowledges_nothing() {
    let dice =
        Dice::of_test("a_paused_primary_whose_peer_was_forced_meanwhile_acknowledges_nothing");
    let (mut pair, relay, book) = leased("0s", &dice);
    let answered = book.count();
    relay.control().cut(Cut::Freeze);
    let cut = Instant::now();
    let writer = ONE.start(&pair, "paris", &dice.fork(1), &book);
    pair.daemon("paris").freeze();
    let frozen = Instant::now();
    // Its peer counts as lost that long after its last message, which was a little before the cut.
    in_time(cut.elapsed(), PEER_TIMEOUT / 2, "a pause before the primary goes on alone");
    is_alone(&pair, "lyon");
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    Load { count: Some(50), ..Load::PLAIN }.run(&pair, "lyon", &dice.fork(2), &book);
    relay.control().heal();
    outlast(frozen, Duration::from_secs(3));
    pair.daemon("paris").thaw();
    wait_level(&pair, "lyon");
    writer.stop();
    assert_eq!(book.count(), answered + 50, "the write that was blocked was never done");
    assert_members_equal(&pair, "data");
}
