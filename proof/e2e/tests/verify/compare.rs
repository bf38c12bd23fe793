// SPDX-License-Identifier: Apache-2.0
//! A verify of real stores: it finds nothing where there is nothing, whatever is written meanwhile, and every byte that
//! turned behind the daemon's back.

use helio_e2e::{Book, Load, assert_members_equal, begin, group, number, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const SIZE: Bytes = Bytes::mib(16);

fn pair(mode: Mode) -> Pair {
    let pair = Plan::new("db").mode(mode).volume("data", SIZE).start();
    begin(&pair, "paris");
    pair
}

/// Turns a byte in a member's file. The daemon reads past the page cache, so the file must be there.
fn turn(pair: &Pair, node: &str, at: u64) {
    let options =
        std::fs::OpenOptions::new().read(true).write(true).open(pair.member(node, "data"));
    let file = options.expect("the member opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it reads");
    file.write_all_at(&[!byte[0]], at).expect("it writes");
    file.sync_all().expect("it reaches the store");
}

#[test]
fn a_verify_under_load_finds_nothing_where_nothing_differs() {
    let dice = Dice::of_test("a_verify_under_load_finds_nothing_where_nothing_differs");
    let pair = pair(Mode::Async);
    let book = Arc::new(Book::new(dice.seed()));
    let writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
    for _ in 0..5 {
        let told = pair.helio("paris", &["verify", "start", "db", "--wait"]).expect_success();
        assert!(told.contains("data: 0 B differed"), "{told}");
    }
    writers.stop();
    let status = wait_level(&pair, "paris");
    assert_eq!(number(&status, "/verify/differing"), 0);
    assert!(number(&status, "/volumes/0/verified/at_ms") > 0, "{status:#}");
    assert_members_equal(&pair, "data");
}

#[test]
fn a_turned_byte_is_found_told_and_repaired() {
    let mut pair = pair(Mode::Sync);
    for at in [5000, 9_000_000] {
        turn(&pair, "lyon", at);
    }
    let told = pair.helio("paris", &["verify", "start", "db/data", "--wait"]);
    assert_eq!(told.status.code(), Some(1), "{told}");
    assert!(told.stderr.contains("2 extents of db differ on lyon, 8 KiB"), "{told}");
    let status = group(&pair, "paris");
    assert_eq!(status["verdict"]["word"], "at-risk", "a copy that differs protects nobody");

    // What was found outlives the daemon; what is known is mended by an update.
    wait(&pair, "paris", "a record of it", |_| {
        let file = pair.state("paris").join("groups/db.verify");
        std::fs::read_to_string(file).is_ok_and(|text| text.contains("8998912"))
    });
    let told = pair
        .helio("paris", &["verify", "start", "db", "--repair", "--yes", "--wait"])
        .expect_success();
    assert!(told.contains("compared"), "{told}");
    wait_level(&pair, "paris");
    let told = pair.helio("paris", &["verify", "start", "db", "--wait"]).expect_success();
    assert!(told.contains("data: 0 B differed"), "{told}");
    assert_members_equal(&pair, "data");

    // When it was verified last is still known after a restart.
    let before = number(&group(&pair, "paris"), "/volumes/0/verified/at_ms");
    assert!(pair.daemon("paris").terminate().success());
    pair.start("paris");
    assert_eq!(number(&group(&pair, "paris"), "/volumes/0/verified/at_ms"), before);
}

#[test]
fn a_slow_verify_goes_on_where_it_was_stopped() {
    let pair = pair(Mode::Async);
    let slow = ["verify", "start", "db", "--rate", "2MiB/s"];
    pair.helio("paris", &slow).expect_success();
    let again = pair.helio("paris", &slow);
    assert!(again.stderr.contains("runs already"), "{again}");
    wait(&pair, "paris", "some of it compared", |status| {
        status["verify"]["run"]["compared_bytes"].as_u64().is_some_and(|n| n >= 1 << 20)
    });
    pair.helio("paris", &["verify", "stop", "db"]).expect_success();
    let told = pair.helio("paris", &["verify", "start", "db", "--wait"]).expect_success();
    assert!(told.contains("continues at its position"), "{told}");
    let lyon = pair.helio("lyon", &["verify", "start", "db"]);
    assert_eq!(lyon.status.code(), Some(1), "only a primary verifies: {lyon}");
}
