// SPDX-License-Identifier: Apache-2.0
//! A secondary keeps its last consistent image while it is updated, and goes back to it where the update never ends.

use crate::diverged::{saved_folder, wait_row};
use helio_e2e::{
    Book, Load, assert_members_equal, begin, exported, group, number, relayed, wait, wait_level,
    wait_state,
};
use helio_testkit::{Dice, Pair, Plan, require};
use helio_units::Bytes;
use helio_wan::{Cut, Relay};
use std::sync::Arc;
use std::time::Duration;

/// A pair over a slow link, with something on both sides, and then more on the primary alone.
#[track_caller]
fn diverged(dice: &Dice, line: &str) -> (Pair, Relay, Vec<u8>) {
    let plan = Plan::new("db").volume("data", Bytes::mib(16)).group_line(line);
    let (plan, relay) = relayed(plan, Duration::from_millis(10), 40, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    Load { count: Some(1000), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let consistent = bytes(&pair);
    pair.helio("paris", &["pause", "db"]).expect_success();
    Load { count: Some(2000), ..Load::PLAIN }.run(&pair, "paris", &dice.fork(2), &book);
    (pair, relay, consistent)
}

fn bytes(pair: &Pair) -> Vec<u8> {
    std::fs::read(pair.member("lyon", "data")).expect("the member can be read")
}

#[test]
fn an_update_that_never_ends_leaves_the_image_from_before_it() {
    require!("qemu-img");
    let dice = Dice::of_test("an_update_that_never_ends_leaves_the_image_from_before_it");
    let (mut pair, relay, consistent) = diverged(&dice, "peer-timeout = \"1s\"");
    pair.helio("paris", &["resync", "db"]).expect_success();
    wait(&pair, "lyon", "chunks to be overwritten", |status| {
        status["safe_copy"]["kept_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20)
    });
    relay.control().cut(Cut::Reset);
    // A clean stop saves the bitmap last.
    assert!(pair.daemon("paris").terminate().success());
    wait_state(&pair, "lyon", "needs-sync");
    let read = exported(&pair, "lyon", "data@safe-copy");
    assert!(read == consistent, "what is read is not the image from before the update");
    let listed = pair.helio("lyon", &["snapshot", "list", "db"]).expect_success();
    assert!(listed.starts_with("safe-copy  "), "{listed}");
    let images = pair.scratch().join("images");
    let line = ["snapshot", "export", "db@safe-copy", &images.display().to_string()];
    pair.helio("lyon", &line).expect_success();
    assert!(std::fs::read(images.join("data.img")).expect("an image") == read, "it is exported");
    for line in [&["create", "db@safe-copy"][..], &["delete", "db@safe-copy", "--yes"]] {
        let refused = pair.helio("lyon", &[&["snapshot"], line].concat()).expect_failure();
        assert!(refused.contains("reserved for the safe copy"), "{refused}");
    }

    let refused = pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_failure();
    assert!(refused.contains("promote db --restore"), "{refused}");
    pair.helio("lyon", &["promote", "db", "--force", "--restore", "--yes"]).expect_success();
    assert_eq!(group(&pair, "lyon")["role"], "primary");
    assert!(bytes(&pair) == consistent, "the image is not the one from before the update");
    relay.control().heal();
    all_that_only_paris_has_is_saved(&mut pair, &consistent);
}

/// The old primary returns, and is discarded: also what its peer had received of the update is on it alone.
#[track_caller]
fn all_that_only_paris_has_is_saved(pair: &mut Pair, consistent: &[u8]) {
    pair.start("paris");
    wait_row(pair, "paris", |label| label == "diverged");
    let left = std::fs::read(pair.member("paris", "data")).expect("the member can be read");
    let dir = pair.scratch().join("kept");
    let save = dir.to_string_lossy().into_owned();
    let line = ["resolve", "db", "--discard", "paris", "--yes", "--save", &save];
    pair.helio("paris", &line).expect_success();
    let saved = std::fs::read(saved_folder(&dir).join("data.img")).expect("an image");
    assert_eq!((saved.len(), consistent.len()), (left.len(), left.len()));
    let blocks = left.chunks(4096).zip(consistent.chunks(4096)).zip(saved.chunks(4096));
    let only_here: Vec<_> =
        blocks.enumerate().filter(|(_, ((left, theirs), _))| left != theirs).collect();
    assert!(only_here.len() > 100, "{} blocks are only there", only_here.len());
    let lost: Vec<usize> = only_here
        .into_iter()
        .filter(|(_, ((left, _), saved))| left != saved)
        .map(|(n, _)| n)
        .collect();
    assert_eq!(lost, Vec::<usize>::new(), "blocks were discarded and not saved");
}

#[test]
fn a_restart_in_the_middle_keeps_what_is_kept() {
    let dice = Dice::of_test("a_restart_in_the_middle_keeps_what_is_kept");
    let (mut pair, relay, consistent) = diverged(&dice, "peer-timeout = \"1s\"");
    pair.helio("paris", &["resync", "db"]).expect_success();
    wait(&pair, "lyon", "chunks to be overwritten", |status| {
        status["safe_copy"]["kept_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20)
    });
    pair.daemon("lyon").kill9();
    relay.control().cut(Cut::Reset);
    pair.daemon("paris").kill9();
    pair.start("lyon");
    wait_state(&pair, "lyon", "needs-sync");
    pair.helio("lyon", &["promote", "db", "--force", "--restore", "--yes"]).expect_success();
    assert!(bytes(&pair) == consistent, "the image is not the one from before the update");
}

#[test]
fn without_room_the_update_waits_until_the_safe_copy_is_given_up() {
    let dice = Dice::of_test("without_room_the_update_waits_until_the_safe_copy_is_given_up");
    let (pair, _relay, consistent) = diverged(&dice, "safe-copy = \"1MiB\"");
    pair.helio("paris", &["resync", "db"]).expect_success();
    let status = wait_state(&pair, "paris", "needs-room");
    let reason = status["state_reason"].as_str().unwrap_or_default();
    assert!(reason.contains("1 MiB available"), "{reason}");
    assert!(number(&status, "/volumes/0/dirty_bytes") > 0);
    assert!(bytes(&pair) == consistent, "nothing was overwritten");
    pair.helio("paris", &["resync", "db", "--give-up-safe-copy", "--wait", "--yes"])
        .expect_success();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
}
