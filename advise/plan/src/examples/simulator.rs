// SPDX-License-Identifier: Apache-2.0
//! The run of IBM's HADR simulator that its documentation interprets.

use super::Source::Simulator;
use super::{Claim, Example};
use crate::{CATCH_UP, Disk, FlushMode, Link, Transfer, granted_by_linux};
use helio_units::{Bytes, Rate};
use std::time::Duration;

const SPAN: Duration = Duration::from_micros(4_000_821);
const FLUSHES: u64 = 3130;
/// 32 pages.
const FLUSH: Bytes = Bytes(CATCH_UP.0 * 2);
const SENT: Transfer = Transfer { bytes: Bytes(410_255_360), span: SPAN };
const RECEIVED: Transfer = Transfer { bytes: Bytes(150_240), span: SPAN };
/// "Compared to .1 millisecond round trip time on this network", and what ASYNC reached on it.
const LINK: Link = Link { rate: Rate(115_000_000), rtt: Duration::from_micros(100) };

pub(super) fn examples() -> Vec<Example> {
    let mut all = lines();
    all.extend(averages());
    all.extend(words());
    all
}

fn number(words: (&'static str, &'static str), figures: (Claim, f64, &'static str)) -> Example {
    Example::number(Simulator, words, figures)
}

fn lines() -> Vec<Example> {
    let line = |words, stated, computed| Example::words(Simulator, words, stated, computed);
    let flush = format!(
        "{:.6} sec/flush, {} pages ({} bytes)/flush",
        SENT.span_each(FLUSHES).as_secs_f64(),
        crate::pages(FLUSH),
        FLUSH.0
    );
    vec![
        line(
            ("what was sent", "bytes ÷ seconds ÷ 10^6"),
            "410255360 bytes in 4.000821 seconds, 102.542793 MBytes/sec",
            SENT.to_string(),
        ),
        line(
            ("what was received", "bytes ÷ seconds ÷ 10^6"),
            "150240 bytes in 4.000821 seconds, 0.037552 MBytes/sec",
            RECEIVED.to_string(),
        ),
        line(
            ("flushes", "4.000821 s ÷ 3130; 32 pages × 4 KiB"),
            "0.001278 sec/flush, 32 pages (131072 bytes)/flush",
            flush,
        ),
    ]
}

fn averages() -> Vec<Example> {
    let whole = |figure| Claim::Figure(figure, 1.0);
    let shipping = Transfer { span: Duration::from_micros(3_989_623), ..SENT };
    let calls = SENT.each_second(10_893).0 / SENT.each_second(FLUSHES).0;
    let congested = Transfer { span: Duration::from_micros(848_714), ..SENT };
    vec![
        number(
            ("bytes of 3130 flushes", "3130 × 131072 B"),
            (whole(410_255_360.0), (FLUSH * FLUSHES).0 as f64, "B"),
        ),
        number(
            ("a send call", "410255360 B ÷ 10893 ÷ 1000"),
            (Claim::Figure(37.662, 0.001), SENT.bytes_each(10_893) / 1e3, "KB"),
        ),
        number(
            ("average send size", "410255360 B ÷ 10893"),
            (whole(37_662.0), SENT.bytes_each(10_893), "B"),
        ),
        number(("send calls for a flush", "10893 ÷ 3130"), (whole(3.0), calls, "")),
        number(
            ("a receive call", "150240 B ÷ 3130 ÷ 1000"),
            (Claim::Figure(0.048, 0.001), RECEIVED.bytes_each(FLUSHES) / 1e3, "KB"),
        ),
        number(
            ("an acknowledgement", "150240 B ÷ 3130"),
            (whole(48.0), RECEIVED.bytes_each(FLUSHES), "B"),
        ),
        number(
            ("a congestion", "0.848714 s ÷ 3136"),
            (Claim::Figure(0.000_270, 0.000_001), congested.span_each(3136).as_secs_f64(), "s"),
        )
        .note("cut off, not rounded: 270.6 µs"),
        number(
            ("average log shipping time", "3989623 µs ÷ 3130"),
            (whole(1274.0), shipping.span_each(FLUSHES).as_secs_f64() * 1e6, "µs"),
        ),
    ]
}

fn words() -> Vec<Example> {
    let no_disk = Disk { rate: Rate(u64::MAX), overhead: Duration::ZERO };
    let shipping = FlushMode::HadrNearsync.flush(FLUSH, no_disk, LINK);
    vec![
        number(
            ("SO_SNDBUF asked for 64000", "2 × 64000 B, on Linux"),
            (Claim::Figure(128_000.0, 1.0), granted_by_linux(Bytes(64_000)).0 as f64, "B"),
        ),
        number(
            ("NEARSYNC: shipping a flush", "131072 B ÷ 115 MB/s + 0.1 ms, at least"),
            (Claim::AtLeast(1274.0), shipping.time.as_secs_f64() * 1e6, "µs"),
        ),
        number(
            ("NEARSYNC: throughput", "131072 B in that time, at most"),
            (Claim::UpTo(102.542_793), shipping.rate.0 as f64 / 1e6, "MB/s"),
        ),
        number(
            ("ASYNC: throughput", "1000 Mbit/s ÷ 8, at most"),
            (Claim::UpTo(115.0), Rate::mbit(1000).0 as f64 / 1e6, "MB/s"),
        ),
    ]
}
