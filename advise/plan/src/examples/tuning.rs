// SPDX-License-Identifier: Apache-2.0
//! IBM's page on tuning the socket buffers of DB2 HADR.

use super::Source::Tuning;
use super::{Claim, Example};
use crate::{Transfer, buffer, doubled, hiccup_room, product, throughput};
use helio_units::{Bytes, Rate};
use std::time::Duration;

/// What was shipped between Portland and San Francisco in a minute, 600 miles, by the size of the socket buffers: KiB,
/// MB/s, and what the window allows.
const PORTLAND: [(u64, f64, &str, &str); 5] = [
    (64, 1.554_048, "Portland, 64k buffer", "64 KiB ÷ 32 ms, at most the link"),
    (128, 3.347_476, "Portland, 128k buffer", "128 KiB ÷ 32 ms, at most the link"),
    (256, 4.734_673, "Portland, 256k buffer", "256 KiB ÷ 32 ms, at most the link"),
    (512, 4.834_047, "Portland, 512k buffer", "512 KiB ÷ 32 ms, at most the link"),
    (1024, 4.821_998, "Portland, 1M buffer", "1 MiB ÷ 32 ms, at most the link"),
];
const RTT: Duration = Duration::from_millis(32);
/// "The highest throughput you get is the bandwidth."
const LINK: Rate = Rate(4_834_047);
/// What the page calls it.
const NOMINAL: Rate = Rate(4_800_000);

pub(super) fn examples() -> Vec<Example> {
    let mut all = windows();
    all.extend(PORTLAND.map(|(kib, measured, what, formula)| {
        let most = throughput(Bytes::kib(kib), RTT, LINK).0 as f64 / 1e6;
        Example::number(Tuning, (what, formula), (Claim::UpTo(measured), most, "MB/s"))
    }));
    all
}

fn windows() -> Vec<Example> {
    let number = |words, figures| Example::number(Tuning, words, figures);
    let exact = |figure| Claim::Figure(figure, 1.0);
    let golden = Transfer { bytes: Bytes(2_097_152), span: Duration::from_micros(12_460_158) };
    let minute = Transfer {
        bytes: hiccup_room(Rate(4_821_998), Duration::from_secs(60)),
        span: Duration::from_secs(60),
    };
    vec![
        number(
            ("window of a LAN", "1000 Mbit/s × 0.1 ms"),
            (exact(12_500.0), product(Rate::mbit(1000), Duration::from_micros(100)).0 as f64, "B"),
        ),
        number(
            ("window of a WAN", "10 Mbit/s × 100 ms"),
            (
                exact(125.0),
                product(Rate::mbit(10), Duration::from_millis(100)).0 as f64 / 1e3,
                "KB",
            ),
        ),
        Example::words(
            Tuning,
            ("the line to look for", "bytes ÷ seconds ÷ 10^6"),
            "2097152 bytes in 12.460158 seconds, 0.168309 MBytes/sec",
            golden.to_string(),
        ),
        number(
            ("data of the 1M run", "4.821998 MB/s × 60 s"),
            (exact(289.0), minute.bytes.0 as f64 / 1e6, "MB"),
        ),
        number(
            ("window of Portland", "4.8 MB/s × 0.032 s"),
            (exact(153.0), product(NOMINAL, RTT).0 as f64 / 1e3, "KB"),
        ),
        number(
            ("buffer advised for Portland", "2 × 4.8 MB/s × 0.032 s, doubled up from 64 KiB"),
            (exact(512.0), doubled(buffer(NOMINAL, RTT)).0 as f64 / 1024.0, "KiB"),
        ),
        number(
            ("room for a hiccup", "3 MB/s × 10 s"),
            (
                exact(30.0),
                hiccup_room(Rate(3_000_000), Duration::from_secs(10)).0 as f64 / 1e6,
                "MB",
            ),
        ),
    ]
}
