// SPDX-License-Identifier: Apache-2.0
//! The primary's own disk fails while clients use it: its level peer serves in its place, and a new disk comes back level.

use helio_e2e::{
    Book, Load, PATIENCE, Promise, assert_members_equal, begin, connect, group, image, wait_level,
};
use helio_testkit::{Dice, Plan, eventually};
use helio_units::{Bytes, Mode};
use std::fs::OpenOptions;
use std::sync::Arc;

const SOME: Load = Load { count: Some(200), ..Load::PLAIN };
const SIZE: Bytes = Bytes::mib(16);

#[test]
fn a_primary_without_its_disk_serves_its_peers_copy_and_a_new_disk_becomes_level() {
    let dice = Dice::of_test(
        "a_primary_without_its_disk_serves_its_peers_copy_and_a_new_disk_becomes_level",
    );
    let plan = Plan::new("db").mode(Mode::Async).group_line("on-error = \"serve-from-peer\"");
    let mut pair = plan.volume("data", SIZE).start();
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let (before, mark) = (image(&pair, "lyon", book.run()), book.mark());

    let member = pair.member("paris", "data");
    let cut = |size| {
        OpenOptions::new()
            .write(true)
            .open(&member)
            .expect("the member")
            .set_len(size)
            .expect("cut")
    };
    cut(0);
    let mut client = connect(&pair, "paris");
    let mut bytes = vec![0; SIZE.0 as usize];
    client.read(0, &mut bytes).expect("the peer's copy is read");
    assert!(bytes == std::fs::read(pair.member("lyon", "data")).expect("the peer's copy"));
    client.disconnect().expect("it may go");
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    let shown = group(&pair, "paris");
    let fault = shown["fault"].as_str().unwrap_or_default();
    assert!(fault.contains("the disk of volume data failed; served from lyon"), "{shown}");
    assert_eq!((&shown["consistent"], &shown["role"]), (&false.into(), &"primary".into()));
    let said = pair.helio("lyon", &["release", "db", "--yes"]).expect_failure();
    assert!(said.contains("the copy of db on this node may be the only complete one"), "{said}");

    let refused = || pair.helio("paris", &["demote", "db"]).status.success().then_some(());
    eventually(PATIENCE, "the clients are gone", refused);
    pair.helio("lyon", &["promote", "db"]).expect_success();
    pair.daemon("paris").kill9();
    cut(SIZE.0);
    pair.start("paris");
    wait_level(&pair, "lyon");
    assert_members_equal(&pair, "data");
    let after = image(&pair, "paris", book.run());
    let judged = book.judge(mark, &before, &after, Promise::Everything);
    assert!(judged.is_ok(), "{judged:?}");
}
