// SPDX-License-Identifier: Apache-2.0
//! The line is what was ordered.

use crate::common::*;
use helio_testkit::{Side, run};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

#[test]
fn a_round_trip_takes_what_was_ordered() {
    let Some(mut line) = lay(&["--rtt", "10ms"]) else { return };
    for (order, ms) in [("rtt 10ms", 10), ("rtt 50ms", 50)] {
        line.wan.tell(order);
        let took = pings(&datagrams(&line.wan), 15);
        let (ordered, typical) = (Duration::from_millis(ms), took[took.len() / 2]);
        assert!(took[0] >= ordered, "no packet is early: {took:?}");
        let most = ordered + ordered * 3 / 100 + Duration::from_millis(1);
        assert!(typical <= most, "half of them came within {most:?}: {took:?}");
    }
}

#[test]
fn a_line_that_is_cut_drops_what_sets_out_and_tcp_outlives_it() {
    let Some(mut line) = lay(&["--rtt", "2ms"]) else { return };
    let [left, right] = datagrams(&line.wan);
    let [mut caller, mut called] = connection(&line.wan, "cubic");
    assert!(passes(&left, &right) && passes(&right, &left));

    assert!(line.wan.tell("cut there").contains("from left to right"));
    assert!(!passes(&left, &right) && passes(&right, &left), "one way alone is cut");
    assert!(line.wan.tell("cut").contains("both directions"));
    assert!(!passes(&left, &right) && !passes(&right, &left));
    assert!(line.wan.tell("heal back").contains("from left to right"));
    assert!(!passes(&left, &right) && passes(&right, &left));
    caller.write_all(b"through").expect("TCP keeps it");

    assert_eq!(line.wan.tell("heal"), "the link is up");
    let mut heard = [0; 7];
    called.read_exact(&mut heard).expect("TCP sends it again");
    assert_eq!(&heard, b"through");
    assert!(passes(&left, &right), "nothing that was cut off arrives later");
    let stats = line.wan.tell("stats");
    assert!(stats.starts_with("there ") && stats.contains("at a cut"), "{stats}");
}

#[test]
fn a_full_queue_drops_and_a_longer_one_delays() {
    let Some(mut line) = lay(&["--rate", "8Mbit/s", "--queue", "10kB"]) else { return };
    let [left, right] = datagrams(&line.wan);
    let burst = |count: u32| {
        let begun = Instant::now();
        // 972 bytes and 28 of headers: a millisecond each.
        (0..count).for_each(|_| assert!(left.send(&[0; 972]).is_ok()));
        right.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout is not zero");
        let (mut heard, mut last) = (0, Duration::ZERO);
        while heard < count && right.recv(&mut [0; 2048]).is_ok() {
            (heard, last) = (heard + 1, begun.elapsed());
        }
        (heard, last)
    };
    let (heard, _) = burst(60);
    assert!((10..40).contains(&heard), "ten wait, and some leave meanwhile: {heard}");
    line.wan.tell("queue 1MB");
    let (heard, last) = burst(60);
    assert_eq!(heard, 60);
    assert!(last >= Duration::from_millis(60), "the line is no faster for it: {last:?}");
}

#[test]
fn a_program_runs_at_an_end_and_sees_that_alone() {
    let Some(line) = lay(&["--mtu", "9000"]) else { return };
    let said = line.wan.introduction().join("\n");
    assert!(said.contains("congestion control: ") && said.contains("cubic"), "{said}");
    assert!(said.contains("MTU 9000") && said.contains("5 of 5 datagrams returned"), "{said}");
    for side in [Side::Left, Side::Right] {
        let told = run(line.wan.command(side, "cat").arg("/proc/net/dev")).expect_success();
        assert_eq!(told.lines().count(), 4, "two lines of heading, lo and wan0: {told}");
        assert!(told.contains("wan0:"), "{told}");
    }
}
