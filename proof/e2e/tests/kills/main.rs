// SPDX-License-Identifier: Apache-2.0
//! The primary is killed under load, again and again: what was promised is on the other node.

mod story;

use helio_e2e::{Load, Promise, relayed};
use helio_testkit::{Dice, Plan, rounds};
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
