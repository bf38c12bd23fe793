// SPDX-License-Identifier: Apache-2.0
//! Sun's paper on the remote mirror in asynchronous mode.

use super::Source::Sun;
use super::{Claim, Example};
use crate::{
    Choice, Flow, PerSecond, Situation, Work, advise, block_at, blocks, buffer, drain_by_calls,
    longer_percent, product, room_each, throttled, throughput,
};
use helio_units::{Bytes, Rate};
use std::time::Duration;

const RTT: Duration = Duration::from_millis(50);
const FAST: Rate = Rate::mbit(100);

pub(super) fn examples() -> Vec<Example> {
    let mut all = links();
    all.extend(rates());
    all.extend(responses());
    all.extend(queues());
    all.extend(buffers());
    all.extend(table_b1());
    all.extend(table_2());
    all
}

fn number(words: (&'static str, &'static str), figures: (Claim, f64, &'static str)) -> Example {
    Example::number(Sun, words, figures)
}

fn exact(figure: f64) -> Claim {
    Claim::Figure(figure, 1.0)
}

/// In the units of 2^10 bytes that the paper calls Kbytes.
fn kib(size: Bytes) -> f64 {
    size.0 as f64 / 1024.0
}

fn megabytes(rate: Rate) -> f64 {
    rate.0 as f64 / 1e6
}

fn links() -> Vec<Example> {
    let line = "its line rate; 599.04 Mbit/s of it carry cells, which are 74.88 MB/s";
    vec![
        number(
            ("Gigabit Ethernet", "1000 Mbit/s ÷ 8"),
            (exact(125.0), megabytes(Rate::mbit(1000)), "MB/s"),
        ),
        number(("ATM622", "622 Mbit/s ÷ 8"), (exact(75.0), megabytes(Rate::mbit(622)), "MB/s"))
            .note(line),
        number(("100BaseT", "100 Mbit/s ÷ 8"), (Claim::Figure(12.5, 0.1), megabytes(FAST), "MB/s")),
    ]
}

fn rates() -> Vec<Example> {
    let rate = |rate: Rate| rate.0 as f64 / 1024.0;
    let writes = PerSecond::one_at_a_time(RTT);
    vec![
        number(("writes a second, one at a time", "1 ÷ 50 ms"), (exact(20.0), writes.0, "/s")),
        number(
            ("throughput of 8 KB writes", "8 KiB × 20/s"),
            (exact(160.0), rate(writes.of(Bytes::kib(8))), "KiB/s"),
        ),
        number(
            ("drain rate of 32 KB writes", "1 ÷ 50 ms × 32 KiB"),
            (exact(640.0), rate(drain_by_calls(Bytes::kib(32), RTT, 1)), "KiB/s"),
        ),
        number(
            ("drain rate of 8 KB writes", "1 ÷ 50 ms × 8 KiB"),
            (exact(160.0), rate(drain_by_calls(Bytes::kib(8), RTT, 1)), "KiB/s"),
        ),
    ]
}

fn responses() -> Vec<Example> {
    let ms = Duration::from_millis;
    let percent = |words, stated, slow, fast| {
        number(words, (exact(stated), longer_percent(ms(slow), ms(fast)), "%"))
    };
    vec![
        percent(("TABLE 4, 8 KB: improvement", "(60 − 10) ÷ 10 ms"), 500.0, 60, 10),
        percent(("TABLE 4, 32 KB: improvement", "(66 − 18) ÷ 18 ms"), 270.0, 66, 18)
            .note("recomputes to 267 %; 270 is that rounded to tens"),
        percent(("TABLE 4, 64 KB: improvement", "(124 − 25) ÷ 25 ms"), 395.0, 124, 25)
            .note("recomputes to 396 %, exactly"),
    ]
}

fn queues() -> Vec<Example> {
    let bound = blocks(16_384);
    let rate = |per_second: f64| PerSecond(per_second).of(Bytes::kib(8));
    let drain = drain_by_calls(Bytes::kib(8), RTT, 1);
    let busy = Flow { fill: rate(50.0), drain };
    let seconds = |span: Option<Duration>| span.map_or(f64::INFINITY, |span| span.as_secs_f64());
    let level = Flow { fill: rate(20.0), drain };
    let never = level.time_to_full(bound).map_or("never full", |_| "full");
    vec![
        number(
            ("queue of 3.0: 800 blocks", "800 × 512 B"),
            (exact(400.0), kib(blocks(800)), "KiB"),
        ),
        number(
            ("queue of 3.1: 16384 blocks", "16384 × 512 B"),
            (exact(8.0), kib(bound) / 1024.0, "MiB"),
        ),
        number(
            ("high-water mark to watch, from", "80 % of 16384 blocks"),
            (Claim::Figure(13_000.0, 1000.0), block_at(bound, 80) as f64, "blocks"),
        ),
        number(
            ("high-water mark to watch, to", "85 % of 16384 blocks"),
            (Claim::Figure(14_000.0, 1000.0), block_at(bound, 85) as f64, "blocks"),
        ),
        number(
            ("room for each of 4194304 writes", "8 MiB ÷ 4194304"),
            (exact(2048.0), room_each(bound, 4_194_304).0 as f64, "B"),
        )
        .note("\"each write consumes 2 Kbytes\" is 2 bytes; 2 KB would be 4096 writes"),
        number(
            ("high water of 878 blocks", "878 × 512 B"),
            (exact(439.0), kib(blocks(878)), "KiB"),
        ),
        number(
            ("throttle delay 16497", "16497 × 2 ms"),
            (exact(33.0), throttled(16_497).as_secs_f64(), "s"),
        )
        .note("the paper leaves the product to the reader"),
        number(
            ("example 1: fill rate", "20/s × 8 KiB"),
            (exact(160.0), level.fill.0 as f64 / 1024.0, "KiB/s"),
        ),
        Example::words(
            Sun,
            ("example 1: time to full", "fill 160, drain 160 KiB/s"),
            "never full",
            never.to_owned(),
        ),
        number(
            ("example 2: fill rate", "50/s × 8 KiB"),
            (exact(400.0), busy.fill.0 as f64 / 1024.0, "KiB/s"),
        ),
        number(
            ("example 2: growth", "400 − 160 KiB/s"),
            (exact(240.0), kib(busy.piled_up(Duration::from_secs(1))), "KiB/s"),
        ),
        number(
            ("example 2: time to full", "8 MiB ÷ (400 − 160) KiB/s"),
            (Claim::About(33.0), seconds(busy.time_to_full(bound)), "s"),
        )
        .note("33.3 s would be for 8000 KiB"),
    ]
}

fn buffers() -> Vec<Example> {
    vec![
        number(
            ("buffer for 100 Mbit/s and 50 ms", "2 × 50 ms × 100 Mbit/s ÷ 8"),
            (exact(625.0), buffer(FAST, RTT).0 as f64 / 1e3, "KB"),
        )
        .note("the rule says 2 × bandwidth × delay; the example took 1 ×"),
        number(
            ("the same without the 2", "50 ms × 100 Mbit/s ÷ 8"),
            (exact(625.0), product(FAST, RTT).0 as f64 / 1e3, "KB"),
        ),
        number(
            ("socket buffer 263536", "263536 B ÷ 1024"),
            (exact(256.0), kib(Bytes(263_536)), "KiB"),
        )
        .note("\"the 256 Kbyte buffer size\" would be 262144, as on the line that listens"),
        number(
            ("tcp_xmit_hiwat 262144", "262144 B ÷ 1024"),
            (exact(256.0), kib(Bytes(262_144)), "KiB"),
        ),
    ]
}

/// A row: round trip in ms, what 24 and 256 KB allow with the place they are written to, and what they are.
type RowB1 = (u64, [(f64, f64, &'static str, &'static str); 2]);

const TABLE_B1: [RowB1; 5] = [
    (
        10,
        [
            (18.75, 0.01, "TABLE B-1, 10 ms, 24 KB", "24 KiB ÷ 10 ms, at most 100 Mbit/s"),
            (100.0, 1.0, "TABLE B-1, 10 ms, 256 KB", "256 KiB ÷ 10 ms, at most 100 Mbit/s"),
        ],
    ),
    (
        20,
        [
            (9.38, 0.01, "TABLE B-1, 20 ms, 24 KB", "24 KiB ÷ 20 ms, at most 100 Mbit/s"),
            (100.0, 1.0, "TABLE B-1, 20 ms, 256 KB", "256 KiB ÷ 20 ms, at most 100 Mbit/s"),
        ],
    ),
    (
        50,
        [
            (3.75, 0.01, "TABLE B-1, 50 ms, 24 KB", "24 KiB ÷ 50 ms, at most 100 Mbit/s"),
            (40.0, 1.0, "TABLE B-1, 50 ms, 256 KB", "256 KiB ÷ 50 ms, at most 100 Mbit/s"),
        ],
    ),
    (
        100,
        [
            (1.88, 0.01, "TABLE B-1, 100 ms, 24 KB", "24 KiB ÷ 100 ms, at most 100 Mbit/s"),
            (20.0, 1.0, "TABLE B-1, 100 ms, 256 KB", "256 KiB ÷ 100 ms, at most 100 Mbit/s"),
        ],
    ),
    (
        200,
        [
            (0.94, 0.01, "TABLE B-1, 200 ms, 24 KB", "24 KiB ÷ 200 ms, at most 100 Mbit/s"),
            (10.0, 1.0, "TABLE B-1, 200 ms, 256 KB", "256 KiB ÷ 200 ms, at most 100 Mbit/s"),
        ],
    ),
];

/// The table counts 2^20 bits where the window rules, and 10^6 where the link does.
fn table_b1() -> Vec<Example> {
    let windows = [Bytes::kib(24), Bytes::kib(256)];
    let cell =
        |ms: u64,
         window: Bytes,
         (stated, place, what, formula): (f64, f64, &'static str, &'static str)| {
            let rate = throughput(window, Duration::from_millis(ms), FAST);
            let (unit, bits) =
                if rate == FAST { ("Mbit/s", 1e6) } else { ("Mibit/s", f64::from(1 << 20)) };
            number(
                (what, formula),
                (Claim::Figure(stated, place), rate.0 as f64 * 8.0 / bits, unit),
            )
        };
    TABLE_B1
        .iter()
        .flat_map(|(ms, cells)| {
            windows.iter().zip(cells).map(|(window, told)| cell(*ms, *window, *told))
        })
        .collect()
}

/// TABLE 2, row by row; the first figure of a flow is what is written, the second what drains.
fn table_2() -> Vec<Example> {
    let (light, heavy) = ((100_u64, 160_u64), (400, 160));
    let (low, high) = (Duration::from_millis(1), RTT);
    let row = |what, formula, stated, (work, (fill, drain), rtt)| {
        let flow = Flow { fill: Rate(fill << 10), drain: Rate(drain << 10) };
        let advice: Choice = advise(Situation { work, rtt, flow }).choice;
        Example::words(Sun, (what, formula), stated, advice.words().to_owned())
    };
    vec![
        row(
            "TABLE 2: OLTP, light, high latency",
            "fill ≤ drain, 50 ms",
            "asynchronous or point-in-time copies",
            (Work::Oltp, light, high),
        ),
        row(
            "TABLE 2: OLTP, light, low latency",
            "fill ≤ drain, 1 ms",
            "synchronous",
            (Work::Oltp, light, low),
        ),
        row(
            "TABLE 2: OLTP, heavy, low latency",
            "fill > drain, 1 ms",
            "synchronous",
            (Work::Oltp, heavy, low),
        ),
        row(
            "TABLE 2: OLTP, heavy, high latency",
            "fill > drain, 50 ms",
            "point-in-time copies",
            (Work::Oltp, heavy, high),
        ),
        row(
            "TABLE 2: the same, redo logs",
            "fill > drain, 50 ms",
            "synchronous or asynchronous",
            (Work::RedoLogs, heavy, high),
        ),
        row("TABLE 2: DSS/DWH, being loaded", "any", "logging", (Work::Loading, heavy, high)),
        row(
            "TABLE 2: DSS/DWH, read only, high latency",
            "fill ≤ drain, 50 ms",
            "asynchronous",
            (Work::ReadOnly, light, high),
        ),
        row(
            "TABLE 2: DSS/DWH, fewer writes, low latency",
            "fill ≤ drain, 1 ms",
            "synchronous",
            (Work::FewWrites, light, low),
        ),
        row("TABLE 2: import or tape restore", "any", "logging", (Work::Restore, heavy, low)),
    ]
}
