// SPDX-License-Identifier: Apache-2.0
//! The secondary is killed under load and started again.

use helio_e2e::{
    Book, Load, PATIENCE, Promise, assert_members_equal, begin, copies_begun, image, wait,
    wait_level,
};
use helio_testkit::{Dice, Plan, rounds};
use helio_units::Bytes;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_killed_secondary_goes_on_behind_what_it_had_durable() {
    let dice = Dice::of_test("a_killed_secondary_goes_on_behind_what_it_had_durable");
    let plan = Plan::new("db").volume("data", Bytes::mib(32));
    let plan = plan.group_line("peer-timeout = \"4s\"");
    let mut pair = plan.group_line("queue = { memory = \"256MiB\" }").start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let load = Load { connections: 2, ..Load::PLAIN };
    for round in 0..rounds(4) {
        if round > 0 && round % 2 == 0 {
            // After three ends in a row the log leaves out lines that repeat.
            wait(&pair, "paris", "a connection that lasts", |it| it["peer"]["attempts"].is_null());
        }
        let mut dice = dice.fork(round);
        let mut writers = load.start(&pair, "paris", &dice, &book);
        writers.write_for(Duration::from_millis(20 + dice.below(200)));
        pair.daemon("lyon").kill9();
        book.wait_for(500, PATIENCE);
        // What it wrote before it died is in order too.
        let left = image(&pair, "lyon", book.run());
        book.assert_holds("the killed secondary", &left, Promise::Closed);

        pair.start("lyon");
        book.wait_for(500, PATIENCE);
        writers.stop();
        wait_level(&pair, "paris");
        assert_members_equal(&pair, "data");
        let log = pair.daemon("paris").log();
        let resumed = log.matches("lyon connected as resume-durable").count() as u64;
        assert_eq!(resumed, round + 1, "it should have been sent again what it lacked");
        assert_eq!(copies_begun(&mut pair, "paris"), 1, "only the first meeting copies");
    }
    let left = image(&pair, "lyon", book.run());
    let verdict = book.assert_holds("lyon", &left, Promise::Everything);
    assert!(verdict.answered > 1000, "{verdict:?}");
    assert_eq!(book.failures(), []);
}
