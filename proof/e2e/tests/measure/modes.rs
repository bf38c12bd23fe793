// SPDX-License-Identifier: Apache-2.0
//! What a write waits for in each mode, and what the status says of a mode that is changed under way.

use crate::alone;
use helio_e2e::{
    BLOCK, Book, Load, assert_members_equal, begin, connect, group, halt, relayed, wait, wait_level,
};
use helio_nbd::Client;
use helio_testkit::{Dice, Plan, in_time};
use helio_units::{Bytes, Mode};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RTT: Duration = Duration::from_millis(20);
const WRITES: usize = 60;
const TRIES: u32 = 4;

#[test]
fn each_mode_waits_for_what_it_says() {
    let _alone = alone();
    let mut dice = Dice::of_test("each_mode_waits_for_what_it_says");
    let plan = Plan::new("db").volume("data", Bytes::mib(8));
    let (plan, _relay) = relayed(plan, RTT, 1000, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    let mut client = connect(&pair, "paris");
    let (least, most, little) = (RTT, Duration::from_millis(35), Duration::from_millis(5));
    for (mode, bounds) in [
        ("async", Duration::ZERO..little),
        ("sync", least..most),
        ("nearsync", least..most),
        ("async", Duration::ZERO..little),
    ] {
        pair.helio("paris", &["mode", "db", mode]).expect_success();
        assert_eq!(group(&pair, "paris")["mode"]["requested"], mode, "it shows what was asked");
        let status = wait(&pair, "paris", "the mode in force", |status| {
            status["mode"]["effective"] == mode && status["state"] == "replicating"
        });
        assert_eq!(status["verdict"]["word"], "ok", "{status:#}");
        let median = best_median(&mut client, &mut dice, &bounds);
        println!("{mode}: p50 {:.2} ms over {RTT:?}", median.as_secs_f64() * 1e3);
        assert!(bounds.start <= median, "{mode}: p50 {median:?}, the round trip is {RTT:?}");
        in_time(median, bounds.end, &format!("half of the writes in {mode}"));
    }
    wait_level(&pair, "paris");
}

#[test]
fn a_hung_peer_is_lost_and_the_mode_that_needs_it_is_not_in_force() {
    let _alone = alone();
    let dice = Dice::of_test("a_hung_peer_is_lost_and_the_mode_that_needs_it_is_not_in_force");
    let mut pair = Plan::new("db")
        .mode(Mode::Sync)
        .volume("data", Bytes::mib(8))
        .group_line("peer-timeout = \"500ms\"")
        .start();
    begin(&pair, "paris");
    // Its connection lives on: its kernel takes what comes, and nobody reads it.
    halt(&mut pair, "lyon");
    let book = Arc::new(Book::new(dice.seed()));
    let load = Load { depth: 1, count: Some(10), ..Load::PLAIN };
    let writers = load.start(&pair, "paris", &dice, &book);
    let status = wait(&pair, "paris", "the loss of its peer", |status| {
        status["mode"]["effective"] == "async"
    });
    assert_eq!(status["mode"]["requested"], "sync");
    assert_eq!(status["verdict"]["word"], "at-risk", "{status:#}");
    // The first write waited for the peer until it counted as lost.
    writers.finish();
    pair.daemon("lyon").thaw();
    let status = wait_level(&pair, "paris");
    assert_eq!(status["mode"]["effective"], "sync");
    assert_eq!(status["verdict"]["word"], "ok", "{status:#}");
    assert_members_equal(&pair, "data");
}

/// The median, and again where it is too long: a busy machine adds time, and nothing takes any away.
fn best_median(client: &mut Client, dice: &mut Dice, bounds: &Range<Duration>) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        best = best.min(median_write(client, dice));
        if best < bounds.end {
            break;
        }
    }
    best
}

/// The median time of writes of one block, one after the other.
fn median_write(client: &mut Client, dice: &mut Dice) -> Duration {
    let mut data = vec![0; BLOCK];
    let mut times: Vec<Duration> = (0..WRITES)
        .map(|_| {
            dice.fill(&mut data);
            let at = dice.below(client.size().0 / BLOCK as u64) * BLOCK as u64;
            let begun = Instant::now();
            client.write(at, &data, false).unwrap_or_else(|why| panic!("{why}"));
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
