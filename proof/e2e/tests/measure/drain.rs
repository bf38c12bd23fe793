// SPDX-License-Identifier: Apache-2.0
//! A backlog of small writes drains at the link's rate, not at one write a round trip.

use crate::alone;
use helio_e2e::{
    BLOCK, Book, Load, PATIENCE, assert_members_equal, begin, group, number, relayed, wait,
    wait_level,
};
use helio_testkit::{Dice, Plan, eventually, in_rate, in_time};
use helio_units::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Of the link, each way.
const MBIT: u64 = 100;
/// Payload of a write, in bytes.
const PAYLOAD: u64 = 2 * BLOCK as u64;
/// What a write's frame has besides its payload, in bytes: header 32, item 36.
const OVERHEAD: u64 = 68;
/// The least share of the link's payload rate.
const SHARE: f64 = 0.95;
/// The least span of the measurement, in milliseconds, and how many writes are left out before it begins.
const SPAN_MS: u64 = 2000;
const WARM_UP: u64 = 512;

/// The link carries `rate × PAYLOAD / (PAYLOAD + OVERHEAD)` bytes of payload a second: 12.5 MB/s × 8192 / 8260 =
/// 12.40 MB/s. Measured is `PAYLOAD × items completed at the peer / time`, from two looks at the status of a
/// primary that has a backlog at both.
#[test]
fn a_backlog_drains_at_the_rate_of_the_link() {
    let _alone = alone();
    let dice = Dice::of_test("a_backlog_drains_at_the_rate_of_the_link");
    let plan =
        Plan::new("db").volume("data", Bytes::mib(64)).group_line("queue = { memory = \"64MiB\" }");
    let (plan, _relay) = relayed(plan, Duration::from_millis(50), MBIT, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let start = number(&group(&pair, "paris"), "/cursors/accepted");
    let load = Load { depth: 64, blocks: (2, 2), count: Some(7000), ..Load::PLAIN };
    load.run(&pair, "paris", &dice, &book);

    wait(&pair, "paris", "a steady drain", |status| {
        number(status, "/cursors/peer_completed") >= start + WARM_UP
    });
    let first = look(&pair.status("paris"));
    let last = eventually(PATIENCE, "the end of the span", || {
        let now = look(&pair.status("paris"));
        (now.at_ms >= first.at_ms + SPAN_MS).then_some(now)
    });
    // Behind twice the span the backlog may be gone.
    let span = Duration::from_millis(last.at_ms - first.at_ms);
    in_time(span, Duration::from_millis(2 * SPAN_MS), "the way from one status to the next");
    assert!(last.backlog > 0, "the backlog was gone before the span ended");

    let measured = ((last.completed - first.completed) * PAYLOAD) as f64 / span.as_secs_f64();
    let payload_rate = (MBIT * 1_000_000 / 8 * PAYLOAD) as f64 / (PAYLOAD + OVERHEAD) as f64;
    let share = measured / payload_rate;
    println!(
        "drain over 50 ms, {MBIT} Mbit/s, 8 KiB writes: {:.2} MB/s of {:.2} MB/s payload rate, {:.1} %",
        measured / 1e6,
        payload_rate / 1e6,
        share * 100.0
    );
    in_rate(measured, payload_rate * SHARE, "the drain, in B/s,");
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
}

/// What one status says of the drain.
struct Look {
    at_ms: u64,
    completed: u64,
    backlog: u64,
}

fn look(status: &serde_json::Value) -> Look {
    let completed = number(status, "/groups/0/cursors/peer_completed");
    Look {
        at_ms: number(status, "/at_ms"),
        completed,
        backlog: number(status, "/groups/0/cursors/accepted") - completed,
    }
}
