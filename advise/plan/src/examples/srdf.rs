// SPDX-License-Identifier: Apache-2.0
//! A bank's measurements of SRDF against a host mirror over 2.5 km of Fibre Channel.

use super::Source::Srdf;
use super::{Claim, Example};
use crate::{PerSecond, longer_percent, times};
use helio_units::Bytes;

/// Writes per second of blocks of 2 and of 5 KB: local, on the distant array, mirrored by SRDF.
const LOCAL: [f64; 2] = [1516.0, 1350.0];
const DISTANT: [f64; 2] = [1370.0, 1281.0];
const SRDF: [f64; 2] = [566.0, 562.0];

/// A row of the tables: I/O per second, KB a block, stated time in ms and its name, stated MB/s and its name.
type Row = (f64, u64, (f64, &'static str), (f64, &'static str));

const ROWS: [Row; 6] = [
    (LOCAL[0], 2, (0.66, "local, 2 KB: I/O time"), (3.0, "local, 2 KB: throughput")),
    (LOCAL[1], 5, (0.74, "local, 5 KB: I/O time"), (6.6, "local, 5 KB: throughput")),
    (DISTANT[0], 2, (0.73, "distant, 2 KB: I/O time"), (2.7, "distant, 2 KB: throughput")),
    (DISTANT[1], 5, (0.78, "distant, 5 KB: I/O time"), (6.3, "distant, 5 KB: throughput")),
    (SRDF[0], 2, (1.77, "SRDF, 2 KB: I/O time"), (1.1, "SRDF, 2 KB: throughput")),
    (SRDF[1], 5, (1.78, "SRDF, 5 KB: I/O time"), (2.7, "SRDF, 5 KB: throughput")),
];

pub(super) fn examples() -> Vec<Example> {
    let mut all: Vec<Example> = ROWS.into_iter().flat_map(row).collect();
    all.extend(degradation());
    all.extend(doubling());
    all
}

fn number(words: (&'static str, &'static str), figures: (Claim, f64, &'static str)) -> Example {
    Example::number(Srdf, words, figures)
}

fn row((per_second, kib, (ms, time), (megabytes, throughput)): Row) -> [Example; 2] {
    let rate = PerSecond(per_second);
    let mib = rate.of(Bytes::kib(kib)).0 as f64 / f64::from(1 << 20);
    [
        number(
            (time, "1 ÷ I/O per second"),
            (Claim::Figure(ms, 0.01), rate.span().as_secs_f64() * 1e3, "ms"),
        ),
        number(
            (throughput, "I/O per second × block"),
            (Claim::Figure(megabytes, 0.1), mib, "MiB/s"),
        ),
    ]
}

/// By how much longer one I/O of the second takes than one of the first.
fn longer(first: f64, second: f64) -> f64 {
    longer_percent(PerSecond(second).span(), PerSecond(first).span())
}

fn degradation() -> [Example; 4] {
    let below = Claim::Below(10.0);
    [
        number(
            ("distance, 2 KB: I/O time", "(1/1370 − 1/1516) ÷ 1/1516"),
            (below, longer(LOCAL[0], DISTANT[0]), "%"),
        )
        .note("\"less than 10%\" holds of what is done in a second, not of the time each takes"),
        number(
            ("distance, 2 KB: throughput lost", "(1516 − 1370) ÷ 1516"),
            (below, -longer(DISTANT[0], LOCAL[0]), "%"),
        ),
        number(
            ("distance, 5 KB: I/O time", "(1/1281 − 1/1350) ÷ 1/1350"),
            (below, longer(LOCAL[1], DISTANT[1]), "%"),
        ),
        number(
            ("distance, 5 KB: throughput lost", "(1350 − 1281) ÷ 1350"),
            (below, -longer(DISTANT[1], LOCAL[1]), "%"),
        ),
    ]
}

fn doubling() -> [Example; 2] {
    let times = |at: usize| times(PerSecond(SRDF[at]).span(), PerSecond(LOCAL[at]).span());
    let twice = Claim::About(2.0);
    [
        number(("SRDF, 2 KB: I/O time doubled", "1516 ÷ 566"), (twice, times(0), "×"))
            .note("\"double the I/O time and halve the throughput\": it is more than that"),
        number(("SRDF, 5 KB: I/O time doubled", "1350 ÷ 562"), (twice, times(1), "×"))
            .note("as with 2 KB"),
    ]
}
