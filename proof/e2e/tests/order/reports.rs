// SPDX-License-Identifier: Apache-2.0
//! What operators decide by: what a loss of the primary would cost, and a promotion by force while nothing comes from it.

use helio_e2e::{Book, Load, PATIENCE, begin, group, number, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn level(dice: &Dice, peer_timeout: &str) -> (Pair, Arc<Book>) {
    let plan = Plan::new("db")
        .volume("data", Bytes::mib(16))
        .group_line(&format!("peer-timeout = \"{peer_timeout}\""));
    let pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    Load { count: Some(50), ..Load::PLAIN }.run(&pair, "paris", dice, &book);
    wait_level(&pair, "paris");
    (pair, book)
}

#[test]
fn dirty_regions_are_lag_on_both_nodes_and_at_stake_in_a_promotion() {
    let dice = Dice::of_test("dirty_regions_are_lag_on_both_nodes_and_at_stake_in_a_promotion");
    let (mut pair, book) = level(&dice, "1s");
    pair.helio("paris", &["log", "db"]).expect_success();
    let logged = Load { count: Some(100), ..Load::PLAIN };
    logged.run(&pair, "paris", &dice.fork(1), &book);
    let lag = number(&group(&pair, "paris"), "/lag/bytes");
    assert!(lag >= 64 << 10, "{lag} bytes are said to be missing");
    wait(&pair, "lyon", "the report", |status| number(status, "/lag/bytes") == lag);
    pair.daemon("paris").kill9();
    wait(&pair, "lyon", "the loss", |status| status["peer"]["connection"] != "connected");
    let told = pair.helio("lyon", &["promote", "db"]);
    assert!(told.stderr.contains("then at most"), "{told}");
    assert!(!told.stderr.contains("0 B"), "{told}");
}

#[test]
fn force_goes_on_once_nothing_comes_from_the_old_primary() {
    let dice = Dice::of_test("force_goes_on_once_nothing_comes_from_the_old_primary");
    let (mut pair, _book) = level(&dice, "30s");
    let force = ["promote", "db", "--force", "--yes"];
    let told = pair.helio("lyon", &force).expect_failure();
    assert!(told.contains("repeat this in"), "a live primary is not passed over: {told}");
    pair.daemon("paris").freeze();
    let frozen = Instant::now();
    eventually(PATIENCE, "the promotion", || {
        pair.helio("lyon", &force).status.success().then_some(())
    });
    assert!(frozen.elapsed() < Duration::from_secs(15), "that was the loss of the connection");
    pair.daemon("paris").kill9();
}
