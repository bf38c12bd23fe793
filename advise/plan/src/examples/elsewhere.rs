// SPDX-License-Identifier: Apache-2.0
//! Figures published elsewhere: manuals of the same systems, and of DRBD and Crucible.

use super::Source::Elsewhere;
use super::{Claim, Example};
use crate::{
    Disk, FlushMode, Link, PAGE, PerSecond, Sample, Transfer, block_at, blocks, longer_percent,
    predict, product, socket_buffer, times,
};
use helio_units::{Bytes, Rate};
use std::time::Duration;

pub(super) fn examples() -> Vec<Example> {
    let mut all = of_sun();
    all.extend(of_hadr());
    all.extend(of_calculator());
    all.extend(of_drbd());
    all
}

fn number(words: (&'static str, &'static str), figures: (Claim, f64, &'static str)) -> Example {
    Example::number(Elsewhere, words, figures)
}

fn exact(figure: f64) -> Claim {
    Claim::Figure(figure, 1.0)
}

fn of_sun() -> Vec<Example> {
    let thousands = |per_second| PerSecond(per_second).of(Bytes::kib(32)).0 as f64 / 1024.0 / 1e3;
    vec![
        number(
            ("SNDR 4.0: low mark of a queue of 16384 blocks", "85 % of it, the next whole block"),
            (exact(13_927.0), block_at(blocks(16_384), 85) as f64, "blocks"),
        ),
        number(
            ("SNDR 4.0: most in a traced write", "2048 × 512 B"),
            (exact(1.0), blocks(2048).0 as f64 / f64::from(1 << 20), "MiB"),
        ),
        number(
            ("dsstat example 3: synchronous, 161 writes/s", "161/s × 32 KiB"),
            (Claim::Figure(5.2, 0.1), thousands(161.0), "1000 KiB/s"),
        ),
        number(
            ("dsstat example 3: synchronous, 165 writes/s", "165/s × 32 KiB"),
            (Claim::Figure(5.2, 0.1), thousands(165.0), "1000 KiB/s"),
        ),
    ]
}

fn of_hadr() -> Vec<Example> {
    let second = Duration::from_secs(1);
    let span = |bytes: u64| Rate(1_000_000).time_for(Bytes(bytes));
    let portland = product(Rate(4_800_000), Duration::from_millis(32));
    vec![
        number(
            ("HADR calculator: a MB of 2^20 against one of 10^6", "2^20 ÷ 10^6 − 1"),
            (Claim::Figure(4.9, 0.1), longer_percent(span(1 << 20), second), "%"),
        ),
        number(
            ("Portland: product", "4.8 MB/s × 32 ms"),
            (Claim::Figure(153.6, 0.1), portland.0 as f64 / 1e3, "KB"),
        ),
        number(
            ("Portland: plateau at 256 KiB", "256 KiB ÷ 153.6 KB"),
            (Claim::Figure(1.7, 0.1), times(span(1 << 18), span(portland.0)), "× product"),
        ),
    ]
}

/// The tuning guide's run: `-disk 200 0.001 -network 10 0.1`, and the log scanner's line of 7.307 MB/s. MB are 2^20 bytes.
fn of_calculator() -> Vec<Example> {
    let disk = Disk { rate: Rate(200 << 20), overhead: Duration::from_millis(1) };
    let link = Link { rate: Rate(10 << 20), rtt: Duration::from_millis(100) };
    let pages = |count: f64| Bytes((count * PAGE.0 as f64).round() as u64);
    let sample = Sample::new(Rate(7_661_945), pages(17.6), pages(15.9), 22.7);
    let row = |words, mode, stated| {
        let flush = predict(mode, sample, disk, link).expected.size;
        number(words, (exact(stated), flush.0 as f64 / PAGE.0 as f64, "pages"))
    };
    let short = "15.9 pages × 22.7 open: the rate is out of reach";
    vec![
        row(("HADR calculator, SYNC: predicted flush", short), FlushMode::HadrSync, 360.0),
        row(("HADR calculator, NEARSYNC: predicted flush", short), FlushMode::HadrNearsync, 360.0),
        row(
            ("HADR calculator, ASYNC: predicted flush", "17.6 pages: the rate is reached as it is"),
            FlushMode::HadrAsync,
            17.0,
        ),
        number(
            ("tuning guide: socket buffer for 1126 pages", "1126 × 4 KiB, doubled up from 64 KiB"),
            (exact(8.0), socket_buffer(PAGE * 1126, link).0 as f64 / f64::from(1 << 20), "MiB"),
        ),
    ]
}

fn of_drbd() -> Vec<Example> {
    let us = Duration::from_micros;
    let gib = |extents: u64| (Bytes::mib(4) * extents).0 as f64 / f64::from(1 << 30);
    let day = Transfer { bytes: Bytes(1_000_000_000_000), span: Duration::from_secs(2 * 3600) };
    let third =
        |rate: u64| Rate(rate * 1_000_000).bytes_in(Duration::from_millis(300)).0 as f64 / 1e6;
    let of_crucible = |size| PerSecond(505.0).of(size).0 as f64 / 1e6;
    vec![
        number(
            ("DRBD: 3 ms of disk and 0.2 ms of network", "(3.2 − 3) ÷ 3 ms"),
            (exact(7.0), longer_percent(us(3200), us(3000)), "%"),
        ),
        number(("DRBD: resync rate of 110 MB/s", "30 %"), (exact(33.0), third(110), "MB/s")),
        number(("DRBD: resync rate of 80 MB/s", "30 %"), (exact(24.0), third(80), "MB/s")),
        number(("DRBD: resync rate of 800 MB/s", "30 %"), (exact(240.0), third(800), "MB/s")),
        number(
            ("DRBD: activity log of 1237 extents", "1237 × 4 MiB"),
            (Claim::Figure(4.8, 0.1), gib(1237), "GiB"),
        ),
        number(
            ("DRBD: 6433 extents cover more than 25 GiB", "6433 × 4 MiB"),
            (exact(25.0), gib(6433), "GiB"),
        ),
        number(
            ("LINSTOR: 1 TB in about 2 h", "10^12 B ÷ 7200 s"),
            (Claim::About(145.0), day.megabytes_per_second(), "MB/s"),
        ),
        number(
            ("DRBD: reads balanced over two copies", "(180k − 100k) ÷ 100k"),
            (exact(80.0), longer_percent(us(180), us(100)), "%"),
        ),
        number(
            ("Crucible: 505 writes/s of 16 KiB", "505/s × 16 KiB"),
            (Claim::Figure(2.07, 0.01), of_crucible(Bytes::kib(16)), "MB/s"),
        )
        .note("2.07 MB/s are 505/s of 4 KiB"),
        number(
            ("Crucible: 505 writes/s of 4 KiB", "505/s × 4 KiB"),
            (Claim::Figure(2.07, 0.01), of_crucible(Bytes::kib(4)), "MB/s"),
        ),
    ]
}
