// SPDX-License-Identifier: Apache-2.0
//! How good the line is on this machine, in numbers. Ignored by default, since they mean something only in a release
//! build on an idle machine:
//! `cargo test -p helio-e2e --test wan -- --ignored --nocapture --test-threads=1`

use crate::common::*;
use crate::weather::{Figures, record};
use helio_testkit::TempDir;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
#[ignore = "measures; see the head of the file"]
fn round_trips_of_an_idle_line() {
    for ms in [0, 1, 10, 50] {
        let rtt = format!("{ms}ms");
        let Some(mut line) = lay(&["--rtt", &rtt]) else { return };
        let took = pings(&datagrams(&line.wan), 100);
        let at = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        let (least, half, most) = (at(0), at(50), at(100));
        println!(
            "{rtt}: least {least:.3} ms, half {half:.3} ms, 95 % {:.3} ms, most {most:.3} ms",
            at(95)
        );
        println!("  {}", line.wan.tell("stats"));
    }
}

#[test]
#[ignore = "measures; see the head of the file"]
fn goodput_by_congestion_control() {
    for (rtt, rate) in [("50ms", "100Mbit/s"), ("10ms", "1Gbit/s")] {
        for congestion in ["cubic", "bbr"] {
            let Some(mut line) = lay(&["--rtt", rtt, "--rate", rate]) else { return };
            let (settled, span) = (Duration::from_secs(3), Duration::from_secs(8));
            let goodput = pour(connection(&line.wan, congestion), settled, span) / 1e6;
            println!("{rate}, {rtt}, {congestion}: {goodput:.1} Mbit/s");
            println!("  {}", line.wan.tell("stats"));
        }
    }
}

#[test]
#[ignore = "measures; see the head of the file"]
fn windows() {
    let Some(mut line) = lay(&["--rate", "100Mbit/s"]) else { return };
    for window in [24 << 10, 256 << 10] {
        for ms in [10, 20, 50, 100, 200] {
            line.wan.tell(&format!("rtt {ms}ms"));
            let (settled, span) = (Duration::from_secs(3), Duration::from_secs(6));
            // Cubic may leave its slow start early, and would then measure itself.
            let connection = connection(&line.wan, "reno");
            let goodput = windowed(&connection, window, settled, span) / 1e6;
            let law = (window * 8) as f64 / (f64::from(ms) * 1e3);
            println!(
                "{} KiB, {ms} ms: {goodput:.2} Mbit/s, law {:.2}",
                window >> 10,
                law.min(96.5)
            );
        }
    }
}

#[test]
#[ignore = "measures; see the head of the file"]
fn without_a_limit() {
    let Some(mut line) = lay(&[]) else { return };
    let (settled, span) = (Duration::from_millis(500), Duration::from_secs(3));
    let goodput = pour(connection(&line.wan, "cubic"), settled, span) / 1e9;
    println!("TCP, MTU 1500: {goodput:.2} Gbit/s");
    println!("  {}", line.wan.tell("stats"));
    let [left, right] = datagrams(&line.wan);
    println!("datagrams of 64 bytes: {:.0} /s heard", flood(&left, &right, span));
    println!("  {}", line.wan.tell("stats"));
}

#[test]
#[ignore = "measures; see the head of the file"]
fn recordings_of_named_lines() {
    for link in ["t1", "portland", "t3", "100baset", "atm622", "gigabit"] {
        let Some(line) = lay(&["--link", link, "--rtt", "32ms"]) else { return };
        let folder = TempDir::new();
        let told = ["--time", "10s", "--rate-every", "1s"];
        let weather = record(&line, &folder.path().join("line.csv"), &told);
        for (way, of) in ["there", "back"].iter().zip(Figures::of(&weather)) {
            let Figures { round_trip, jitter, rate, .. } = of;
            println!("{link} {way}: {round_trip:?}, {jitter:?}, {:.3} MB/s", rate as f64 / 1e6);
        }
    }
}

/// Sends small datagrams as fast as possible; returns how many per second are heard.
fn flood(left: &UdpSocket, right: &UdpSocket, span: Duration) -> f64 {
    right.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout is not zero");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < span {
                left.send(&[0; 36]).expect("the device is up");
            }
        });
        let mut heard = 0_u64;
        while right.recv(&mut [0; 64]).is_ok() {
            heard += 1;
        }
        heard as f64 / span.as_secs_f64()
    })
}
