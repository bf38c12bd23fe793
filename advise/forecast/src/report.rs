// SPDX-License-Identifier: Apache-2.0
//! Cells as rows for people and as JSON for programs.

use crate::grid::Cell;
use core::time::Duration;
use helio_twin::{Figures, Outcome, Spread};
use helio_units::Bytes;
use serde_json::{Value, json};

/// Percentiles that a curve is drawn of.
const CURVE: [f64; 13] =
    [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0];
/// The most points of a series that are told; of what lies between, the worst.
const POINTS: usize = 400;
const DAY: f64 = 86_400.0;

const HEAD: [&str; 17] = [
    "link",
    "buffers",
    "queue",
    "mode",
    "write p50",
    "p99",
    "p99.9",
    "flush p99",
    "MiB/s",
    "queue high",
    "full after",
    "throttled",
    "lag p99",
    "behind p99",
    "per day",
    "level after",
    "ended",
];

fn brief(time: Duration) -> String {
    match time.as_nanos() {
        0 => "0".into(),
        1..10_000_000 => format!("{:.0} us", time.as_secs_f64() * 1e6),
        10_000_000..10_000_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

fn per_day(cell: &Cell, figures: &Figures) -> Bytes {
    let seconds = cell.measured.as_secs_f64();
    if seconds > 0.0 { Bytes((figures.sent.0 as f64 / seconds * DAY) as u64) } else { Bytes::ZERO }
}

fn ended(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Level => "level",
        Outcome::Behind => "behind",
        Outcome::Unanswered => "unanswered",
    }
}

/// The grid as a table, its head first.
#[must_use]
pub fn table_rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let head = HEAD.map(str::to_owned).to_vec();
    core::iter::once(head).chain(cells.iter().map(row)).collect()
}

fn row(cell: &Cell) -> Vec<String> {
    let point = &cell.point;
    let mut row = vec![
        point.link.name.clone(),
        point.buffer.to_string(),
        point.queue.to_string(),
        point.mode.to_string(),
    ];
    let figures = match &cell.figures {
        Ok(figures) => figures,
        Err(stuck) => {
            row.push(stuck.to_string());
            return row;
        }
    };
    let time = |spread: &Spread, percent| {
        if spread.count() == 0 { "-".into() } else { brief(spread.time_at(percent)) }
    };
    row.extend([
        time(&figures.writes, 50.0),
        time(&figures.writes, 99.0),
        time(&figures.writes, 99.9),
        time(&figures.flushes, 99.0),
        format!("{:.2}", figures.throughput().0 as f64 / f64::from(1 << 20)),
        figures.queue_high.to_string(),
        figures.full_after.map_or_else(|| "-".into(), brief),
        brief(figures.throttle_time),
        Bytes(figures.lag.at(99.0)).to_string(),
        brief(figures.behind.time_at(99.0)),
        per_day(cell, figures).to_string(),
        figures.level_after.map_or_else(|| "-".into(), brief),
        ended(figures.outcome).into(),
    ]);
    row
}

/// A cell for programs: times in microseconds, sizes in bytes.
#[must_use]
pub fn cell_json(cell: &Cell) -> Value {
    let point = &cell.point;
    let mut told = json!({
        "link": point.link.name,
        "round_trip_us": point.link.round_trip.as_micros() as u64,
        "rate": point.link.rate.map(|rate| rate.0),
        "buffer": point.buffer.window().0,
        "queue": point.queue.to_string(),
        "mode": point.mode.word(),
        "measured_seconds": cell.measured.as_secs_f64(),
    });
    match &cell.figures {
        Ok(figures) => told["figures"] = figures_json(cell, figures),
        Err(stuck) => told["stuck"] = json!(stuck.to_string()),
    }
    told
}

fn figures_json(cell: &Cell, figures: &Figures) -> Value {
    let micros = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
    json!({
        "writes": times(&figures.writes),
        "responses": times(&figures.responses),
        "flushes": times(&figures.flushes),
        "reads": times(&figures.reads),
        "lag_bytes": values(&figures.lag, 1.0),
        "behind": times(&figures.behind),
        "throughput": figures.throughput().0,
        "answered": figures.answered.0,
        "denied": figures.denied.0,
        "queue_bound": figures.bound.0,
        "queue_high": figures.queue_high.0,
        "items_high": figures.items_high.0,
        "full_after_us": micros(figures.full_after),
        "throttled": figures.throttled.0,
        "throttle_time_us": figures.throttle_time.as_micros() as u64,
        "dropped": figures.dropped.0,
        "sent": figures.sent.0,
        "received": figures.received.0,
        "sent_per_day": per_day(cell, figures).0,
        "level_after_us": micros(figures.level_after),
        "ended": ended(figures.outcome),
        "series": series(figures),
    })
}

/// A distribution of times, in microseconds.
fn times(spread: &Spread) -> Value {
    values(spread, 1000.0)
}

fn values(spread: &Spread, divisor: f64) -> Value {
    let curve: Vec<_> =
        CURVE.iter().map(|at| json!([at, spread.at(*at) as f64 / divisor])).collect();
    json!({
        "count": spread.count(),
        "p50": spread.at(50.0) as f64 / divisor,
        "p99": spread.at(99.0) as f64 / divisor,
        "p999": spread.at(99.9) as f64 / divisor,
        "most": spread.most() as f64 / divisor,
        "curve": if spread.count() > 0 { curve } else { Vec::new() },
    })
}

fn series(figures: &Figures) -> Value {
    let step = figures.samples.len().div_ceil(POINTS).max(1);
    let points = figures.samples.chunks(step).map(|chunk| {
        let most = |of: fn(&helio_twin::Sample) -> u64| chunk.iter().map(of).max().unwrap_or(0);
        json!({
            "at_ms": chunk[0].at.as_millis() as u64,
            "lag": most(|sample| sample.lag.0),
            "behind_ms": most(|sample| sample.behind.as_millis() as u64),
            "queue": most(|sample| sample.queue.0),
            "p99_us": most(|sample| sample.p99.as_micros() as u64),
            "answered": chunk.iter().map(|sample| sample.answered.0).sum::<u64>(),
            "state": chunk[chunk.len() - 1].state.word(),
        })
    });
    points.collect()
}
