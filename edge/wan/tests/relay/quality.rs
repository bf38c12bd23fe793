// SPDX-License-Identifier: Apache-2.0
//! How good the relay is on this machine, in numbers. Ignored by default, since they mean something only in a
//! release build on an idle machine:
//! `cargo test --release -p helio-wan --test relay -- --ignored --nocapture --test-threads=1`

use crate::common::*;
use helio_units::Rate;
use helio_wan::{Profile, Relay};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Counts what it reads from the first byte on; returns the rate.
fn measure(mut stream: TcpStream) -> Rate {
    let mut buffer = vec![0; 256 << 10];
    let mut total = 0;
    stream.read_exact(&mut buffer[..1]).expect("a first byte");
    let begun = Instant::now();
    loop {
        match stream.read(&mut buffer).expect("an orderly stream") {
            0 => return Rate((total as f64 / begun.elapsed().as_secs_f64()) as u64),
            n => total += n,
        }
    }
}

/// Sends for `span` through what `lay` puts before a sink; returns the rate received.
fn pour(span: Duration, lay: impl FnOnce(SocketAddr) -> Relay) -> Rate {
    let (address, sink) = target(1, measure);
    let relay = lay(address);
    let mut client = call(relay.local_addr());
    let (water, begun) = (vec![9; 256 << 10], Instant::now());
    while begun.elapsed() < span {
        client.write_all(&water).expect("the relay reads");
    }
    drop(client);
    sink.join().expect("the sink is sound")[0]
}

fn echoes(rtt: Duration, count: usize) -> Vec<Duration> {
    let (address, _echoes) = target(1, echo);
    let half = Profile { delay: rtt / 2, ..Profile::ideal() };
    let relay = relay(address, half.clone(), half, 1);
    let client = call(relay.local_addr());
    let mut trips: Vec<Duration> = (0..count).map(|_| ping(&client)).collect();
    trips.sort();
    trips
}

#[test]
#[ignore = "numbers, for a release build on an idle machine"]
fn rates() {
    let rate = Rate::mbit(100);
    let rtt = Duration::from_millis(50);
    let got = pour(Duration::from_secs(4), |to| wan(to, rtt, rate, 1));
    let share = got.0 as f64 / rate.0 as f64;
    println!("{rate} at {rtt:?}: {got} ({:.2} %)", share * 100.0);
    assert!((0.95..1.01).contains(&share), "{share}");
    for (delay, least) in [(0, 300), (10, 300)] {
        let half = Profile { delay: Duration::from_millis(delay), ..Profile::ideal() };
        let got = pour(Duration::from_secs(3), |to| relay(to, half.clone(), half.clone(), 1));
        println!("no rate, {delay} ms one way: {got}");
        assert!(got >= Rate(least * 1_000_000), "{got}");
    }
}

#[test]
#[ignore = "numbers, for a release build on an idle machine"]
fn round_trips() {
    for (millis, count) in [(0, 5000), (1, 1000), (10, 200), (50, 60)] {
        let rtt = Duration::from_millis(millis);
        let trips = echoes(rtt, count);
        let over = |share: f64| trips[(share * (count - 1) as f64) as usize] - rtt;
        println!(
            "round trip {rtt:?} of {count}: least +{:?}, median +{:?}, p99 +{:?}, worst +{:?}",
            over(0.0),
            over(0.5),
            over(0.99),
            over(1.0)
        );
        assert!(over(0.5) < Duration::from_millis(1));
    }
}
