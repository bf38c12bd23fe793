// SPDX-License-Identifier: Apache-2.0
//! TCP's own behaviour shows, which a relay that ends TCP cannot show.

use crate::common::*;
use helio_driver::Socket;
use helio_link::Figures;
use helio_testkit::{in_rate, timely};
use std::io::{Read, Write};
use std::time::Duration;

#[test]
fn one_connection_fills_the_line() {
    let Some(line) = lay(&["--rtt", "10ms", "--rate", "100Mbit/s"]) else { return };
    let span = Duration::from_secs(3);
    let goodput = pour(connection(&line.wan, "cubic"), Duration::from_secs(1), span);
    // 1448 of 1500 bytes are payload.
    assert!(goodput <= 96.6e6, "{goodput:.0} bit/s of 100 Mbit/s");
    in_rate(goodput, 90e6, "one connection, in bit/s of 100 Mbit/s,");
}

#[test]
fn a_window_is_carried_once_a_round_trip() {
    let Some(line) = lay(&["--rtt", "50ms", "--rate", "100Mbit/s"]) else { return };
    let (window, settled) = (24 << 10, Duration::from_millis(500));
    let connection = connection(&line.wan, "cubic");
    let goodput = windowed(&connection, window, settled, Duration::from_millis(2500));
    let law = window as f64 * 8.0 / 0.050;
    assert!(goodput / law < 1.1, "{goodput:.0} bit/s, and the law says {law:.0}");
    in_rate(goodput, law * 0.9, "a window, in bit/s,");
}

#[test]
fn what_the_line_loses_the_kernel_sends_again() {
    let Some(mut line) = lay(&["--rtt", "2ms", "--seed", "7"]) else { return };
    let [left, mut right] = connection(&line.wan, "cubic");
    assert!(line.wan.tell("loss 1%").contains("1% lost"));
    let text: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 251) as u8).collect();
    let heard = std::thread::scope(|scope| {
        scope.spawn(|| (&left).write_all(&text).expect("the link is up"));
        let mut heard = vec![0; text.len()];
        timely(right.read_exact(&mut heard), "the text").expect("the link is up");
        heard
    });
    assert!(heard == text, "TCP repairs what is lost");
    let figures = Figures::of(&Socket::new(left)).expect("it is a TCP connection");
    // Of some 1400 packets 14 are lost on average.
    assert!((3..100).contains(&figures.retransmits), "{figures:?}");
}
