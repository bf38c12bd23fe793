// SPDX-License-Identifier: Apache-2.0
//! Stories of real connections through a relay: it takes the time it says, carries the rate it says, keeps every
//! byte in order, and passes ends and resets on.

use crate::common::*;
use helio_netmodel::Outage;
use helio_units::{Bytes, Items, Moment, Rate};
use helio_wan::{Cut, Profile};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

const NEAR: Duration = Duration::from_millis(2);

#[test]
fn an_echo_takes_a_round_trip_and_little_more() {
    let rtt = Duration::from_millis(20);
    let (address, echoes) = target(1, echo);
    let relay = wan(address, rtt, Rate::mbit(1000), 1);
    // No relay, and an echo that waits for two round trips: what a busy machine adds, it adds to both.
    let (far, late_echoes) = target(1, move |stream| late_echo(stream, rtt * 2));
    let clients = [call(relay.local_addr()), call(far)];
    let mut trips = [const { Vec::new() }; 2];
    for _ in 0..15 {
        clients.iter().zip(&mut trips).for_each(|(client, trips)| trips.push(ping(client)));
    }
    trips.iter_mut().for_each(|trips| trips.sort());
    assert!(trips[0][0] >= rtt, "faster than the link: {trips:?}");
    assert!(trips[0][7] < trips[1][7], "half of them take less than two round trips: {trips:?}");
    drop(clients);
    assert!(late_echoes.join().expect("the echo is sound")[0].is_ok());
    assert!(echoes.join().expect("the echo is sound")[0].is_ok());
}

#[test]
fn a_greeting_from_the_target_takes_a_round_trip_from_the_call() {
    let rtt = Duration::from_millis(20);
    let (address, _greeter) = target(1, |mut stream| stream.write_all(b"hello"));
    let relay = wan(address, rtt, Rate::mbit(1000), 1);
    let begun = Instant::now();
    call(relay.local_addr()).read_exact(&mut [0; 5]).expect("a greeting");
    assert!(begun.elapsed() >= rtt);
}

#[test]
fn a_stream_gets_no_more_than_the_rate() {
    let rate = Rate::mbit(100);
    let (address, sink) = target(1, |mut stream: TcpStream| {
        let mut buffer = vec![0; 64 << 10];
        // What comes first starts the clock and does not count: it took its time before.
        assert!(stream.read(&mut buffer).expect("a first byte") > 0);
        let begun = Instant::now();
        let mut total = 0;
        loop {
            match stream.read(&mut buffer).expect("an orderly stream") {
                0 => return total as f64 / begun.elapsed().as_secs_f64(),
                n => total += n,
            }
        }
    });
    let relay = wan(address, Duration::from_millis(50), rate, 1);
    let client = call(relay.local_addr());
    recite(&client, 1, 12_500_000).expect("the relay reads");
    drop(client);
    let share = sink.join().expect("the sink is sound")[0] / rate.0 as f64;
    // That it gets all of it shows in `measure/drain.rs` of the end-to-end tests, where a busy machine is told apart.
    assert!(share < 1.01, "{share:.3} of the rate");
}

#[test]
fn two_streams_share_one_line() {
    let (address, sinks) = target(2, |stream| stream);
    let relay = wan(address, NEAR, Rate::mbit(40), 1);
    let control = relay.control();
    let clients = [call(relay.local_addr()), call(relay.local_addr())];
    let received = sinks.join().expect("two callers");
    let (done, finished) = sync_channel(2);
    std::thread::scope(|scope| {
        for client in clients {
            scope.spawn(move || {
                recite(&client, 3, 2_500_000).expect("the relay reads");
                client.shutdown(Shutdown::Write).expect("still open");
            });
        }
        for stream in &received {
            let done = done.clone();
            let control = &control;
            scope.spawn(move || done.send((check(stream, 3), control.stats().there.delivered)));
        }
    });
    let (a, b) = (finished.recv().expect("one"), finished.recv().expect("two"));
    assert_eq!((a.0, b.0), (Ok(2_500_000), Ok(2_500_000)));
    // Served in turn both end together. Served one after the other, half of all would have passed at the first end.
    assert!(a.1.min(b.1) >= Bytes(4_375_000), "{:?} had passed at the first end", a.1.min(b.1));
}

#[test]
fn a_freeze_holds_everything_and_healing_loses_nothing() {
    for seed in 0..3 {
        let (done, finished) = sync_channel(1);
        let (address, _sink) = target(1, move |stream| done.send(check(&stream, seed)));
        let relay = wan(address, Duration::from_millis(10), Rate::mbit(200), seed);
        let control = relay.control();
        let client = call(relay.local_addr());
        let talk = std::thread::spawn(move || recite(&client, seed, 8_000_000));
        let story = format!("seed {seed}");
        for share in [1, 3] {
            until(|| control.stats().there.delivered >= Bytes(share * 1_500_000));
            control.cut(Cut::Freeze);
            let held = control.stats();
            assert_eq!(held.cut, Some(Cut::Freeze), "{story}");
            assert!(held.there.queued > Bytes::ZERO, "{story}");
            let early = finished.recv_timeout(Duration::from_millis(50));
            assert_eq!(early, Err(RecvTimeoutError::Timeout), "{story}");
            assert_eq!(control.stats(), held, "{story}");
            control.heal();
        }
        assert!(talk.join().expect("the client is sound").is_ok(), "{story}");
        assert_eq!(finished.recv(), Ok(Ok(8_000_000)), "{story}");
    }
}

#[test]
fn a_call_into_a_frozen_link_is_taken_and_answered_after_healing() {
    let (address, _echoes) = target(1, echo);
    let relay = wan(address, NEAR, Rate::mbit(100), 1);
    let control = relay.control();
    control.cut(Cut::Freeze);
    let mut client = call(relay.local_addr());
    client.write_all(b"anybody?").expect("the kernel takes it");
    client.set_read_timeout(Some(Duration::from_millis(50))).expect("not zero");
    assert!(client.read(&mut [0; 8]).is_err(), "a dead link answered");
    until(|| control.stats().connections == Items(1));
    control.heal();
    client.set_read_timeout(None).expect("none is fine");
    let mut answer = [0; 8];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"anybody?");
}

#[test]
fn a_cut_behind_the_first_bytes_passes_these_of_each_connection_and_the_rest_once_healed() {
    let (address, _echoes) = target(2, echo);
    let relay = wan(address, NEAR, Rate::mbit(100), 1);
    let control = relay.control();
    for _ in 0..2 {
        control.cut(Cut::After(Bytes(5)));
        let mut client = call(relay.local_addr());
        client.write_all(b"hello, anybody?").expect("the kernel takes it");
        let mut answer = [0; 5];
        client.read_exact(&mut answer).expect("first words pass");
        assert_eq!(&answer, b"hello");
        client.set_read_timeout(Some(Duration::from_millis(50))).expect("not zero");
        assert!(client.read(&mut [0; 1]).is_err(), "more than the first bytes passed");
        client.set_read_timeout(None).expect("none is fine");
        control.heal();
        let mut rest = [0; 10];
        client.read_exact(&mut rest).expect("the rest follows");
        assert_eq!(&rest, b", anybody?");
        drop(client);
        until(|| control.stats().connections == Items(0));
    }
}

#[test]
fn a_reset_cut_closes_both_sides_until_healed() {
    let (address, sides) = target(2, |stream| stream);
    let relay = wan(address, NEAR, Rate::mbit(100), 1);
    let control = relay.control();
    let client = call(relay.local_addr());
    until(|| control.stats().connections == Items(1));
    // Something must reach the target before the cut, or there would be nothing there to reset.
    (&client).write_all(b"x").expect("the relay reads");
    until(|| control.stats().there.delivered == Bytes(1));
    control.cut(Cut::Reset);
    assert_eq!(not_reset(&client), None);
    let again = call(relay.local_addr());
    assert_eq!(not_reset(&again), None);
    assert_eq!(control.stats().connections, Items(0));
    control.heal();
    let healed = call(relay.local_addr());
    (&healed).write_all(b"y").expect("the relay reads");
    let sides = sides.join().expect("two callers");
    let mut byte = [0];
    (&sides[0]).read_exact(&mut byte).expect("what came before the cut");
    assert_eq!(not_reset(&sides[0]), None);
    (&sides[1]).read_exact(&mut byte).expect("what came after it");
    assert_eq!(&byte, b"y");
}

#[test]
fn a_half_close_passes_and_the_other_half_goes_on() {
    let (address, _answering) = target(1, |stream| {
        let heard = check(&stream, 5).expect("an orderly question");
        recite(&stream, 6, heard * 2)
    });
    let relay = wan(address, NEAR, Rate::mbit(1000), 1);
    let client = call(relay.local_addr());
    recite(&client, 5, 300_000).expect("the relay reads");
    client.shutdown(Shutdown::Write).expect("still open");
    assert_eq!(check(&client, 6), Ok(600_000));
    until(|| relay.control().stats().connections == Items(0));
}

#[test]
fn a_reset_passes_in_either_direction() {
    let abort = |stream: &TcpStream| {
        SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("TCP knows linger");
    };
    let (address, sides) = target(2, |stream| stream);
    let relay = wan(address, NEAR, Rate::mbit(100), 1);
    let (first, second) = (call(relay.local_addr()), call(relay.local_addr()));
    let mut sides = sides.join().expect("two callers");
    abort(&first);
    drop(first);
    assert_eq!(not_reset(&sides[0]), None);
    let far = sides.remove(1);
    abort(&far);
    drop(far);
    assert_eq!(not_reset(&second), None);
    until(|| relay.control().stats().connections == Items(0));
}

#[test]
fn a_refused_call_is_passed_on_as_a_reset() {
    let (address, nobody) = target(0, |_| ());
    nobody.join().expect("nothing to do");
    let relay = wan(address, NEAR, Rate::mbit(100), 1);
    assert_eq!(not_reset(&call(relay.local_addr())), None);
    assert_eq!(relay.control().stats().accepted, Items(1));
}

#[test]
fn an_outage_makes_the_line_wait() {
    let (address, _echoes) = target(1, echo);
    let begun = Instant::now();
    let end = Duration::from_millis(80);
    let outages = vec![Outage { from: Moment::ZERO, to: Moment::ZERO + end }];
    let there = Profile { outages, ..Profile::ideal() };
    let relay = relay(address, there, Profile::ideal(), 1);
    let client = call(relay.local_addr());
    ping(&client);
    // The relay's clock began a little after ours.
    assert!(begun.elapsed() >= end);
    ping(&client);
}

#[test]
fn a_new_profile_holds_at_once_even_for_what_is_on_the_line() {
    let (address, _echoes) = target(1, echo);
    let hour = Profile { delay: Duration::from_secs(3600), ..Profile::ideal() };
    let relay = relay(address, Profile::ideal(), hour, 1);
    let control = relay.control();
    let mut client = call(relay.local_addr());
    client.write_all(b"x").expect("the relay reads");
    until(|| control.stats().back.queued == Bytes(1));
    control.set_profile(Profile::ideal(), Profile::ideal());
    client.read_exact(&mut [0]).expect("an answer");
    let trip = Duration::from_millis(30);
    let half = Profile { delay: trip / 2, ..Profile::ideal() };
    control.set_profile(half.clone(), half);
    assert!(ping(&client) >= trip);
}

#[test]
fn a_receiver_that_does_not_read_stops_its_sender() {
    let (address, sides) = target(1, |stream| stream);
    let there = Profile::wan(NEAR, Rate::mbit(1000));
    let bound = there.capacity().expect("a rate bounds it");
    let relay = relay(address, there, Profile::ideal(), 1);
    let client = call(relay.local_addr());
    client.set_write_timeout(Some(Duration::from_millis(300))).expect("not zero");
    let stopped = recite(&client, 1, 64_000_000);
    assert!(stopped.is_err(), "64 MB vanished into a stream nobody reads");
    let queued = relay.control().stats().there.queued;
    assert!(queued <= bound + Bytes::kib(16), "{queued} held, {bound} allowed");
    drop(sides);
}

#[test]
fn dropping_a_relay_ends_everything_it_had() {
    let (address, _echoes) = target(1, echo);
    let relay = wan(address, NEAR, Rate::mbit(100), 1);
    let (control, local) = (relay.control(), relay.local_addr());
    let mut client = call(local);
    ping(&client);
    drop(relay);
    // The drop returned, so its thread is gone, and with it every descriptor it owned.
    assert!(TcpStream::connect(local).is_err(), "still listening");
    assert!(!matches!(client.read(&mut [0; 1]), Ok(1..)), "still talking");
    control.cut(Cut::Freeze);
    control.heal();
}
