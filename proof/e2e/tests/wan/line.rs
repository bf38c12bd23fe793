// SPDX-License-Identifier: Apache-2.0
//! The line is what was ordered.

use crate::common::*;
use helio_testkit::{Side, eventually, in_time, run, timely};
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
        in_time(typical, most, "half of the round trips");
    }
}

#[test]
fn a_line_that_is_cut_drops_what_sets_out_and_tcp_outlives_it() {
    let Some(mut line) = lay(&["--rtt", "2ms"]) else { return };
    let [left, right] = datagrams(&line.wan);
    let [mut caller, mut called] = connection(&line.wan, "cubic");
    passes(&left, &right);
    passes(&right, &left);

    // One way alone is cut, then both, then the one again.
    assert!(line.wan.tell("cut there").contains("from left to right"));
    is_held_up(&left, &right);
    passes(&right, &left);
    assert!(line.wan.tell("cut").contains("both directions"));
    is_held_up(&left, &right);
    is_held_up(&right, &left);
    assert!(line.wan.tell("heal back").contains("from left to right"));
    is_held_up(&left, &right);
    passes(&right, &left);
    caller.write_all(b"through").expect("TCP keeps it");

    assert_eq!(line.wan.tell("heal"), "the link is up");
    let mut heard = [0; 7];
    timely(called.read_exact(&mut heard), "what TCP sends again").expect("TCP sends it again");
    assert_eq!(&heard, b"through");
    passes(&left, &right);
    let stats = line.wan.tell("stats");
    assert!(stats.starts_with("there ") && stats.contains("at a cut"), "{stats}");
}

#[test]
fn a_full_queue_drops_and_a_longer_one_delays() {
    let Some(mut line) = lay(&["--rate", "8Mbit/s", "--queue", "10kB"]) else { return };
    let [left, right] = datagrams(&line.wan);
    // 972 bytes and 28 of headers: a millisecond each. How long it took to send them.
    let burst = || {
        let begun = Instant::now();
        (0..60).for_each(|_| assert!(left.send(&[0; 972]).is_ok()));
        begun.elapsed()
    };
    let sent = burst();
    in_time(sent, Duration::from_millis(25), "the way of sixty datagrams to their queue");
    eventually(DEADLINE, "an empty line", || {
        let stats = line.wan.tell("stats");
        let there = stats.strip_prefix("there ")?.split("; back ").next()?;
        let taken: u64 = there.split(' ').next()?.parse().ok()?;
        (taken >= 60 && there.contains(", 0 in transit")).then_some(())
    });
    right.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout is not zero");
    let heard = (0..60).take_while(|_| right.recv(&mut [0; 2048]).is_ok()).count();
    right.set_read_timeout(Some(DEADLINE)).expect("a timeout is not zero");
    assert!((10..40).contains(&heard), "ten wait, and some leave meanwhile: {heard}");
    line.wan.tell("queue 1MB");
    let begun = Instant::now();
    burst();
    let receive = || timely(right.recv(&mut [0; 2048]), "a datagram").expect("none is dropped");
    (0..60).for_each(|_| assert_eq!(receive(), 972));
    let last = begun.elapsed();
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
