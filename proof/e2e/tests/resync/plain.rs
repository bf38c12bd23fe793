// SPDX-License-Identifier: Apache-2.0
//! Updates that nobody disturbs.

use crate::stage::Stage;
use helio_e2e::{Load, assert_members_equal, begin, differing, group, number, wait_level};
use helio_testkit::Plan;
use helio_units::{Bytes, Mode};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

#[test]
fn what_was_written_while_logging_travels_with_the_update() {
    let stage = Stage::logging("what_was_written_while_logging_travels_with_the_update", 1000, 300);
    let regions = differing(&stage.pair, "data").len() as u64;
    let status = group(&stage.pair, "paris");
    let marked = status["volumes"][0]["dirty_bytes"].as_u64().unwrap_or_default();
    assert!(marked >= regions << 16, "{marked} marked, and {regions} regions differ");
    let told = stage.pair.helio("paris", &["resync", "db", "--wait"]);
    told.expect_success();
    assert_members_equal(&stage.pair, "data");
    stage.ends_equal();
}

#[test]
fn an_update_with_nothing_marked_copies_nothing() {
    let stage = Stage::level("an_update_with_nothing_marked_copies_nothing", 1000);
    stage.write(1, 50);
    wait_level(&stage.pair, "paris");
    stage.pair.helio("paris", &["pause", "db"]).expect_success();
    let sent = |stage: &Stage| {
        let status = group(&stage.pair, "paris");
        status["counters"]["sent_bytes"].as_u64().unwrap_or_default()
    };
    let before = sent(&stage);
    stage.ends_equal();
    let more = sent(&stage) - before;
    assert!(more < 64 << 10, "{more} bytes travelled for nothing");
}

#[test]
fn writes_go_on_during_an_update() {
    let stage = Stage::logging("writes_go_on_during_an_update", 100, 1500);
    let load = Load { connections: 2, blocks: (1, 4), ..Load::PLAIN };
    let mut writers = load.start(&stage.pair, "paris", &stage.dice.fork(2), &stage.book);
    stage.update();
    stage.midway();
    writers.write_for(Duration::from_millis(300));
    writers.stop();
    stage.ends_equal();
}

#[test]
fn a_second_log_in_the_middle_of_an_update_ends_it_and_the_next_update_completes_it() {
    let name = "a_second_log_in_the_middle_of_an_update_ends_it_and_the_next_update_completes_it";
    let stage = Stage::logging(name, 60, 2000);
    stage.update();
    stage.midway();
    stage.pair.helio("paris", &["pause", "db"]).expect_success();
    assert!(!differing(&stage.pair, "data").is_empty(), "it should not have been over");
    stage.write(2, 300);
    stage.ends_equal();
}

#[test]
fn a_new_sparse_pair_of_any_size_is_level_at_once_for_almost_no_bytes() {
    const LARGE: Bytes = Bytes(256 << 30);
    let mut pair = Plan::new("db").mode(Mode::Async).volume("data", LARGE).prepare();
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    let sparse = text.replacen("volume.data]\n", "volume.data]\nsparse = true\n", 1);
    pair.scratch().write("heliograph.toml", &sparse);
    // One node alone holds something, in the middle: only what surrounds it is read and compared.
    let mut new = OpenOptions::new();
    let image = new.write(true).create(true).truncate(false).open(pair.member("paris", "data"));
    let image = image.expect("a member can be made");
    image.set_len(LARGE.0).expect("a sparse file");
    image.write_all_at(&[7; 4096], 100 << 30).expect("a write");
    drop(image);
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    let status = group(&pair, "paris");
    let travelled =
        number(&status, "/counters/sent_bytes") + number(&status, "/counters/received_bytes");
    assert!((4096..8 << 20).contains(&travelled), "{travelled} bytes travelled");
    let mut block = [0; 4096];
    let there = File::open(pair.member("lyon", "data")).expect("the other member");
    there.read_exact_at(&mut block, 100 << 30).expect("a read");
    assert_eq!(block, [7; 4096]);
}
