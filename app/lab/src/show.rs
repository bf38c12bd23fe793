// SPDX-License-Identifier: Apache-2.0
//! What a run or a search told, in our words: as text, and as JSON. Sizes and rates carry their unit; MB is 10^6.

use crate::outcome::{End, Latencies, Outcome, Wire, total};
use crate::search::{Advice, Step};
use crate::series::{Point, micros};
use crate::store::{DiskResult, Trial};
use crate::watch::Event;
use crate::wire::{Granted, Mode};
use helio_units::Bytes;
use helio_workload::{Bucket, Distribution};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// Columns and rows of a plot.
const COLUMNS: usize = 64;
const ROWS: usize = 5;
/// Eighths of a row.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is said of something that happens; empty where nothing is.
#[must_use]
pub fn event(event: &Event) -> String {
    match event {
        Event::Listening(at) => format!("listening on {at}\n"),
        Event::Calling(at) => format!("connecting to {at}\n"),
        Event::Connected(peer) => format!("connected with {peer}\n"),
        Event::Terms { sent: false, mode, flush, .. } => {
            format!("parameters: {}, flushes of {}\n", mode.word(), Bytes(*flush))
        }
        Event::Refused(why) => format!("{why}\n"),
        Event::Did { what, bytes, took } => {
            format!("{what} {bytes} B, {} us\n", micros(*took))
        }
        _ => String::new(),
    }
}

/// Latencies as JSON has them, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    /// How many.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// Half of them.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// The most.
    pub max: u64,
}

impl From<&Latencies> for Percentiles {
    fn from(all: &Latencies) -> Self {
        let (min, max) = all.range();
        let at = |percent| all.at(percent).min(max);
        Self {
            count: all.count(),
            min,
            mean: all.mean(),
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            max,
        }
    }
}

/// A distribution as JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DistributionJson {
    /// How many values.
    pub count: u64,
    /// Their sum; 2^64 - 1 if it is larger.
    pub sum: u64,
    /// The smallest; 0 if there is none.
    pub min: u64,
    /// The largest; 0 if there is none.
    pub max: u64,
    /// The mean, rounded down; 0 if there is none.
    pub avg: u64,
    /// Values one by one if there are at most eight different ones, otherwise ranges.
    pub lines: Vec<BucketJson>,
}

/// One value or range of a distribution as JSON has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BucketJson {
    /// The smallest value it counts.
    pub from: u64,
    /// The largest.
    pub to: u64,
    /// How many there were.
    pub count: u64,
}

impl From<&Distribution> for DistributionJson {
    fn from(all: &Distribution) -> Self {
        let bucket = |Bucket { from, to, count }| BucketJson { from, to, count };
        Self {
            count: all.count(),
            sum: total(all),
            min: all.min(),
            max: all.max(),
            avg: all.mean(),
            lines: all.buckets().into_iter().map(bucket).collect(),
        }
    }
}

/// One connection as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct WireJson {
    /// Which standby, from 0.
    pub standby: usize,
    /// The other end.
    pub peer: String,
    /// Buffers here.
    pub send_buffer: Granted,
    /// Buffers here.
    pub receive_buffer: Granted,
    /// Buffers of a standby, as it told: send and receive.
    pub peer_buffers: Option<[Granted; 2]>,
    /// Congestion control.
    pub congestion: String,
    /// Shifts of the offered windows, here and there; none where scaling is off.
    pub window_scale: Option<[u8; 2]>,
    /// Least round trip, microseconds.
    pub rtt_min_us: u64,
    /// Smoothed round trip, microseconds.
    pub rtt_us: u64,
    /// How much it varies, microseconds.
    pub rtt_variance_us: u64,
    /// Segments sent.
    pub segments: u32,
    /// Those sent again.
    pub resent: u32,
    /// Bytes a second that the standby received, once settled.
    pub arrived_rate: Option<f64>,
    /// How long the standby stood still since too much waited to be applied, microseconds.
    pub apply_blocked_us: Option<u64>,
}

impl From<&Wire> for WireJson {
    fn from(wire: &Wire) -> Self {
        let it = &wire.figures;
        Self {
            standby: wire.standby,
            peer: wire.peer.to_string(),
            send_buffer: wire.here[0],
            receive_buffer: wire.here[1],
            peer_buffers: wire.there,
            congestion: it.congestion.clone(),
            window_scale: it.window_scale,
            rtt_min_us: micros(it.round_trip_min),
            rtt_us: micros(it.round_trip),
            rtt_variance_us: micros(it.round_trip_variance),
            segments: it.segments,
            resent: it.retransmits,
            arrived_rate: wire.report.map(|told| match told.late_span.is_zero() {
                true => crate::outcome::per_second(told.bytes, told.span),
                false => crate::outcome::per_second(told.late_bytes, told.late_span),
            }),
            apply_blocked_us: wire.report.map(|told| micros(told.blocked)),
        }
    }
}

/// A run as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct OutcomeJson {
    /// `primary` or `standby`.
    pub role: &'static str,
    /// The mode.
    pub mode: &'static str,
    /// Bytes of a flush.
    pub flush_bytes: u64,
    /// Streams to each standby.
    pub streams: u16,
    /// Seconds from the handshake, at a standby from the first bytes that came, to the end of the last flush.
    pub seconds: f64,
    /// Bytes of flushes.
    pub bytes: u64,
    /// Bytes of them on the wire; fewer where they were compressed.
    pub wire_bytes: u64,
    /// Bytes a second at this end.
    pub rate: f64,
    /// Bytes a second that the slowest standby received, once settled.
    pub arrived_rate: Option<f64>,
    /// Until a flush was over for whoever wrote it, microseconds.
    pub answered_us: Percentiles,
    /// Until its acknowledgement was here, microseconds.
    pub delivered_us: Percentiles,
    /// Mean difference between neighbouring deliveries, microseconds.
    pub jitter_us: u64,
    /// Share of the segments that were sent again.
    pub resent_share: f64,
    /// Microseconds in which nothing was received since too much waited to be applied.
    pub apply_blocked_us: u64,
    /// Sizes of flushes.
    pub flushes: DistributionJson,
    /// Microseconds until each was shipped.
    pub shipping_us: DistributionJson,
    /// Microseconds of each congestion.
    pub congestion_us: DistributionJson,
    /// Bytes of each send call.
    pub sends: DistributionJson,
    /// Bytes of each receive call.
    pub receives: DistributionJson,
    /// Connections.
    pub connections: Vec<WireJson>,
    /// Milliseconds of a point of the series.
    pub slot_ms: f64,
    /// The run over time.
    pub series: Vec<Point>,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// What broke it off.
    pub failure: Option<String>,
}

impl From<&Outcome> for OutcomeJson {
    fn from(it: &Outcome) -> Self {
        Self {
            role: if it.end == End::Primary { "primary" } else { "standby" },
            mode: it.mode.word(),
            flush_bytes: it.flush,
            streams: it.streams,
            seconds: it.span.as_secs_f64(),
            bytes: it.bytes(),
            wire_bytes: it.counts.wire,
            rate: it.rate(),
            arrived_rate: it.arrived(),
            answered_us: (&it.counts.answered).into(),
            delivered_us: (&it.counts.delivered).into(),
            jitter_us: micros(it.counts.jitter.mean()),
            resent_share: resent(it),
            apply_blocked_us: micros(it.counts.blocked),
            flushes: (&it.counts.flushes).into(),
            shipping_us: (&it.counts.shipping).into(),
            congestion_us: (&it.tally.congestion).into(),
            sends: (&it.tally.sent).into(),
            receives: (&it.tally.received).into(),
            connections: it.wires.iter().map(Into::into).collect(),
            slot_ms: it.counts.series.width().as_secs_f64() * 1e3,
            series: it.counts.series.points(),
            interrupted: it.interrupted,
            failure: it.failure.as_ref().map(ToString::to_string),
        }
    }
}

/// The share of the segments that the kernel sent again.
fn resent(it: &Outcome) -> f64 {
    let sum = |of: fn(&Wire) -> u32| it.wires.iter().map(|wire| f64::from(of(wire))).sum::<f64>();
    let all = sum(|wire| wire.figures.segments);
    if all > 0.0 { sum(|wire| wire.figures.retransmits) / all } else { 0.0 }
}

fn rate(bytes_a_second: f64) -> String {
    format!("{:.2} MiB/s", bytes_a_second / f64::from(1 << 20))
}

fn ms(us: u64) -> String {
    format!("{:.3}", us as f64 / 1e3)
}

fn buffer(granted: Granted) -> String {
    match granted.asked {
        0 => format!("the kernel's own, {} now", Bytes(granted.actual)),
        asked => format!("{} requested, {} granted", Bytes(asked), Bytes(granted.actual)),
    }
}

/// A run as text.
#[must_use]
pub fn outcome(it: &Outcome) -> String {
    let mut text = format!(
        "{}: {} in {:.3} s, {}: {} flushes of {}, {} stream{}\n",
        it.mode.word(),
        Bytes(it.bytes()),
        it.span.as_secs_f64(),
        rate(it.rate()),
        it.counts.flushes.count(),
        Bytes(it.flush),
        it.streams,
        if it.streams == 1 { "" } else { "s" }
    );
    if let Some(arrived) = it.arrived() {
        let _ = writeln!(text, "arrived: {}, in the second half of the run", rate(arrived));
    }
    if it.counts.wire < it.bytes() {
        let ratio = it.bytes() as f64 / it.counts.wire as f64;
        let _ =
            writeln!(text, "on the link: {}, compressed {ratio:.2} times", Bytes(it.counts.wire));
    }
    if it.end == End::Primary {
        text += &latencies(it);
    }
    let stuck = &it.tally.congestion;
    let _ = writeln!(
        text,
        "calls: {} sends, {} congestions of {} ms on average and {} ms at most, {} receives",
        it.tally.sent.count(),
        stuck.count(),
        ms(stuck.mean()),
        ms(stuck.max()),
        it.tally.received.count()
    );
    it.wires.iter().for_each(|one| wire(&mut text, one, it.end));
    if it.counts.most_waiting > 0 {
        let _ = writeln!(
            text,
            "applying: {} waited at most, nothing received for {} ms because of it",
            Bytes(it.counts.most_waiting),
            ms(micros(it.counts.blocked))
        );
    }
    if it.interrupted {
        text += "ended by a signal\n";
    }
    text
}

fn latencies(it: &Outcome) -> String {
    let mut text = String::from("ms             p50       p90       p99     p99.9       max\n");
    for (what, of) in [("answered", &it.counts.answered), ("delivered", &it.counts.delivered)] {
        let at = Percentiles::from(of);
        let _ = writeln!(
            text,
            "{what:<9}{:>9} {:>9} {:>9} {:>9} {:>9}",
            ms(at.p50),
            ms(at.p90),
            ms(at.p99),
            ms(at.p999),
            ms(at.max)
        );
    }
    let _ = writeln!(
        text,
        "jitter {} ms from one delivery to the next; {:.3} % of the segments sent again",
        ms(micros(it.counts.jitter.mean())),
        resent(it) * 100.0
    );
    text + &plot(&it.counts.series.points(), it.counts.series.width())
}

fn wire(text: &mut String, it: &Wire, end: End) {
    let figures = &it.figures;
    let scale = match figures.window_scale {
        Some([here, there]) => format!("window scaling on (2^{here} here, 2^{there} there)"),
        None => "window scaling off: no window beyond 64 KiB".to_owned(),
    };
    let _ = writeln!(
        text,
        "{}: round trip {} ms at least, {} ± {} ms at the end, {}, {scale}",
        it.peer,
        ms(micros(figures.round_trip_min)),
        ms(micros(figures.round_trip)),
        ms(micros(figures.round_trip_variance)),
        figures.congestion
    );
    let _ = writeln!(text, "  send buffer here: {}", buffer(it.here[0]));
    let _ = writeln!(text, "  receive buffer here: {}", buffer(it.here[1]));
    if let Some([send, receive]) = it.there {
        let _ = writeln!(text, "  send buffer there: {}", buffer(send));
        let _ = writeln!(text, "  receive buffer there: {}", buffer(receive));
    }
    if let Some(told) = it.report.filter(|told| told.most_waiting > 0 && end == End::Primary) {
        let _ = writeln!(
            text,
            "  {} waited there to be applied at most; it received nothing for {} ms because of it",
            Bytes(told.most_waiting),
            ms(micros(told.blocked))
        );
    }
}

/// Deliveries over time: the mean of each column.
fn plot(points: &[Point], slot: Duration) -> String {
    if points.len() < 2 {
        return String::new();
    }
    let per_column = points.len().div_ceil(COLUMNS);
    let columns: Vec<u64> = points
        .chunks(per_column)
        .map(|some| {
            let flushes: u64 = some.iter().map(|point| point.flushes).sum();
            let sum: u64 = some.iter().map(|point| point.mean_us * point.flushes).sum();
            sum / flushes.max(1)
        })
        .collect();
    let most = columns.iter().copied().max().unwrap_or(0).max(1);
    let mut text = String::from("delivery over time, mean in ms:\n");
    for row in (0..ROWS).rev() {
        let label = if row + 1 == ROWS { ms(most) } else { String::new() };
        let bars: String = columns
            .iter()
            .map(|value| {
                let eighths = (value * (ROWS * 8) as u64).div_ceil(most) as usize;
                BARS[eighths.saturating_sub(row * 8).min(8)]
            })
            .collect();
        let _ = writeln!(text, "{label:>10} {}", bars.trim_end());
    }
    let whole = slot.as_secs_f64() * points.len() as f64;
    let _ = writeln!(text, "{:>10} 0 s to {whole:.2} s", "");
    text
}

/// The heading of a search's table.
#[must_use]
pub fn heading(exact: bool) -> String {
    let what = if exact { "window" } else { "buffer" };
    format!(
        "{what:<10}{:>12}  {}\n",
        "throughput", "granted here/at the standby, and what was the limit"
    )
}

/// A row of it.
#[must_use]
pub fn step(it: &Step, exact: bool) -> String {
    let asked = match (it.asked, exact) {
        (0, true) => "none".to_owned(),
        (0, false) => "kernel's".to_owned(),
        (asked, _) => Bytes(asked).to_string(),
    };
    let limit = if it.buffer_limited > 0.5 {
        ", send buffer the limit"
    } else if it.window_limited > 0.5 {
        ", receive window the limit"
    } else {
        ""
    };
    let lost = if it.resent[0] > 0 {
        format!(
            ", {:.2} % resent",
            100.0 * f64::from(it.resent[0]) / f64::from(it.resent[1].max(1))
        )
    } else {
        String::new()
    };
    format!(
        "{asked:<10}{:>12}  send {}/{}, receive {}/{}{limit}{lost}\n",
        rate(it.rate),
        Bytes(it.here[0].actual),
        Bytes(it.there[0].actual),
        Bytes(it.here[1].actual),
        Bytes(it.there[1].actual)
    )
}

/// What a search comes to.
#[must_use]
pub fn advice(it: &Advice) -> String {
    let what = if it.exact { "exact windows" } else { "socket buffers" };
    let level = match it.plateau {
        Some(size) => format!("{what} are sufficient from {} on", Bytes(size)),
        None => "no tested size reached 95 % of the best".to_owned(),
    };
    let mut text = format!(
        "\nbandwidth {} over a round trip of {} ms; {level}\n2 x bandwidth x delay: {}\n",
        rate(it.bandwidth),
        ms(it.rtt_us),
        Bytes(it.computed)
    );
    if let Some(room) = it.hiccup {
        let _ = writeln!(text, "space for the hiccup: {}", Bytes(room));
    }
    let _ = writeln!(text, "recommended: {} for all four socket buffers", Bytes(it.recommended));
    if let Some(wanted) = it.beyond {
        let _ = writeln!(text, "{} would be needed, which no socket can have", Bytes(wanted));
    }
    if let Some(asked) = it.capped {
        let _ = writeln!(
            text,
            "stopped at {}: the kernel grants no more (net.core.rmem_max, net.core.wmem_max; --write-sysctl)",
            Bytes(asked)
        );
    }
    if it.scaling {
        text += "window scaling is on at both ends\n";
    } else {
        text += "window scaling is off at one end: no window beyond 64 KiB (net.ipv4.tcp_window_scaling)\n";
    }
    if it.kernel.as_ref().is_some_and(|own| own.rate >= 0.95 * it.bandwidth) {
        text += "the kernel's own sizes reach the same rate: leave the buffers at \"auto\" unless they must hold a \
                 hiccup\n";
    }
    text
}

/// A disk test as text.
#[must_use]
pub fn disk(trial: Trial, it: &DiskResult) -> String {
    let (bytes, times) = (total(&it.sizes), &it.times);
    format!(
        "{} {} in {:.3} s, {}: {} of {} on average, {} ms on average, {} ms at least, {} ms at most\n",
        if trial == Trial::Write { "wrote" } else { "read" },
        Bytes(bytes),
        it.span.as_secs_f64(),
        rate(crate::outcome::per_second(bytes, it.span)),
        it.sizes.count(),
        Bytes(it.sizes.mean()),
        ms(times.mean()),
        ms(times.min()),
        ms(times.max())
    )
}

/// A disk test as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct DiskJson {
    /// Seconds it took.
    pub seconds: f64,
    /// Bytes a second.
    pub rate: f64,
    /// Bytes of each operation.
    pub sizes: DistributionJson,
    /// Microseconds of each.
    pub times_us: DistributionJson,
}

impl From<&DiskResult> for DiskJson {
    fn from(it: &DiskResult) -> Self {
        Self {
            seconds: it.span.as_secs_f64(),
            rate: crate::outcome::per_second(total(&it.sizes), it.span),
            sizes: (&it.sizes).into(),
            times_us: (&it.times).into(),
        }
    }
}

/// The mode of that name.
///
/// # Errors
/// There is none; the names there are.
pub fn mode(word: &str) -> Result<Mode, String> {
    Mode::from_word(word).ok_or_else(|| "one of sync, nearsync, async, superasync".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_keeps_its_json() {
        let mut all = Distribution::default();
        let json = |all: &Distribution| serde_json::to_string(&DistributionJson::from(all));
        assert_eq!(
            json(&all).expect("it is written"),
            r#"{"count":0,"sum":0,"min":0,"max":0,"avg":0,"lines":[]}"#
        );
        [5, 2, 5].into_iter().for_each(|value| all.add(value));
        assert_eq!(
            json(&all).expect("it is written"),
            r#"{"count":3,"sum":12,"min":2,"max":5,"avg":4,"lines":[{"from":2,"to":2,"count":1},{"from":5,"to":5,"count":2}]}"#
        );
        (0..8).for_each(|_| all.add(u64::MAX));
        (10..16).for_each(|value| all.add(value));
        let told = DistributionJson::from(&all);
        assert_eq!((told.sum, told.avg), (u64::MAX, ((u128::from(u64::MAX) * 8 + 87) / 17) as u64));
        let bucket = |from, to, count| BucketJson { from, to, count };
        assert_eq!(
            told.lines,
            [bucket(2, 3, 1), bucket(4, 7, 2), bucket(8, 15, 6), bucket(1 << 63, u64::MAX, 8)]
        );
    }

    #[test]
    fn a_plot_is_as_high_as_its_highest_and_nothing_is_below_the_ground() {
        let point = |n: u64| Point {
            at_ms: 10.0 * n as f64,
            flushes: 1,
            bytes: 1,
            min_us: n,
            mean_us: n * 1000,
            max_us: n,
        };
        let text = plot(&[point(1), point(5), point(0)], Duration::from_millis(10));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + ROWS);
        assert_eq!(lines[1], "     5.000  █", "the middle column alone reaches the top");
        assert_eq!(lines[ROWS], "           ██", "one fifth is one row, and nothing is none");
        assert_eq!(lines[ROWS + 1], "           0 s to 0.03 s");
        assert_eq!(plot(&[point(1)], Duration::from_millis(10)), "");
    }
}
