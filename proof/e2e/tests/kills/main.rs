// SPDX-License-Identifier: Apache-2.0
//! Daemons are killed under load, again and again, and links cut: what was promised is there.

mod either;
mod refreshed;
mod restored;
mod story;
mod updated;

use helio_e2e::{Load, Promise, relayed};
use helio_testkit::{Dice, Plan, require, rounds};
use helio_units::{Bytes, Mode};
use std::time::Duration;
use story::Story;

/// Small, so that the copy after every kill is quick.
const VOLUME: Bytes = Bytes::mib(16);
const ROUNDS: u64 = 20;

#[test]
fn sync_every_answered_write_is_on_the_secondary() {
    let dice = Dice::of_test("sync_every_answered_write_is_on_the_secondary");
    let pair = Plan::new("db").mode(Mode::Sync).volume("data", VOLUME).start();
    let mut story = Story::begin(pair, None, &dice);
    let load = Load { connections: 3, depth: 8, blocks: (1, 1), count: None };
    for round in 0..rounds(ROUNDS) {
        let verdict = story.round(&mut dice.fork(round), load, Promise::Everything);
        println!("round {round}: {verdict:?}");
    }
}

#[test]
fn async_the_secondary_is_closed_under_answered_before_accepted() {
    let dice = Dice::of_test("async_the_secondary_is_closed_under_answered_before_accepted");
    let plan = Plan::new("db").mode(Mode::Async).volume("data", VOLUME);
    let (plan, relay) = relayed(plan, Duration::from_millis(10), 100, dice.seed());
    let mut story = Story::begin(plan.start(), Some(relay), &dice);
    let load = Load { connections: 3, depth: 8, blocks: (1, 4), count: None };
    let mut lost = 0;
    for round in 0..rounds(ROUNDS) {
        let verdict = story.round(&mut dice.fork(round), load, Promise::Closed);
        println!("round {round}: {verdict:?}");
        lost += verdict.lost;
    }
    assert!(lost > 0, "no kill ever met a backlog, so nothing was tried");
}

#[test]
fn a_restore_that_is_killed_is_done_or_never_was() {
    require!("qemu-img");
    let dice = Dice::of_test("a_restore_that_is_killed_is_done_or_never_was");
    let pair = Plan::new("db").volume("data", VOLUME).group_line("peer-timeout = \"1s\"").start();
    let mut story = restored::Story::begin(pair, &dice);
    let mut restored = [0, 0];
    for round in 0..rounds(ROUNDS / 2) {
        let (what, done) = story.round(&mut dice.fork(round));
        println!("round {round}: {what}, restored: {done}");
        restored[usize::from(done)] += 1;
    }
    assert!(restored[1] > 0, "no restore was done: {restored:?}");
}

#[test]
fn a_refresh_that_is_killed_leaves_the_old_snapshot_or_the_new_one() {
    require!("qemu-img");
    let dice = Dice::of_test("a_refresh_that_is_killed_leaves_the_old_snapshot_or_the_new_one");
    let pair = Plan::new("db").volume("data", VOLUME).group_line("peer-timeout = \"1s\"").start();
    let mut story = refreshed::Story::begin(pair, &dice);
    let mut refreshed = [0, 0];
    for round in 0..rounds(ROUNDS / 2) {
        let (what, done) = story.round(&mut dice.fork(round));
        println!("round {round}: {what}");
        refreshed[usize::from(done)] += 1;
    }
    assert!(refreshed[1] > 0, "no refresh was done: {refreshed:?}");
}

#[test]
fn an_update_that_is_killed_leaves_a_copy_that_can_be_promoted() {
    require!("qemu-img");
    let dice = Dice::of_test("an_update_that_is_killed_leaves_a_copy_that_can_be_promoted");
    let plan = Plan::new("db").volume("data", VOLUME).group_line("peer-timeout = \"1s\"");
    let (plan, relay) = relayed(plan, Duration::from_millis(10), 100, dice.seed());
    let mut story = updated::Story::begin(plan.start(), relay, &dice);
    let mut restored = 0;
    for round in 0..rounds(ROUNDS / 2) {
        let round_was = story.round(&mut dice.fork(round));
        println!("round {round}: {round_was}");
        restored += u64::from(round_was.image == updated::Image::Restored);
    }
    assert!(restored > 0, "no kill came while the update was under way");
}

/// Rounds of a pair that loses either daemon or both, and its link or not.
fn either(test: &'static str, mode: Mode, load: Load) {
    let dice = Dice::of_test(test);
    // A small queue, so that a link that is away for a moment costs the order, and only marks are left.
    let plan = Plan::new("db")
        .mode(mode)
        .volume("data", VOLUME)
        .group_line("queue = { memory = \"1MiB\", when-full = { disconnected = \"log\" } }");
    let (plan, relay) = relayed(plan, Duration::from_millis(5), 100, dice.seed());
    let mut story = either::Story::begin(plan.start(), relay, mode, &dice);
    for round in 0..rounds(ROUNDS) {
        println!("round {round}: {}", story.round(&mut dice.fork(round), load));
    }
}

#[test]
fn sync_either_or_both_die_with_the_link_and_no_promised_write_is_lost() {
    let load = Load { connections: 3, depth: 8, blocks: (1, 1), count: None };
    let name = "sync_either_or_both_die_with_the_link_and_no_promised_write_is_lost";
    either(name, Mode::Sync, load);
}

#[test]
fn async_either_or_both_die_with_the_link_and_the_image_is_a_prefix() {
    let load = Load { connections: 3, depth: 8, blocks: (1, 4), count: None };
    let name = "async_either_or_both_die_with_the_link_and_the_image_is_a_prefix";
    either(name, Mode::Async, load);
}
