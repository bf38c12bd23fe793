// SPDX-License-Identifier: Apache-2.0
//! `helio plan queue`: fill, drain, time to full, and Sun's TABLE 2.
//!
//! Beside each other: a queue drained as Sun's remote mirror drains it, a call per round trip, and ours, a stream.

use super::span;
use super::table::table;
use crate::args::QueuePlan;
use crate::render::line;
use helio_plan::{
    Advice, ENLARGE_PERCENT, Flow, HighWater, PerSecond, QUEUE_BYTES_SNDR, Situation,
    WATCH_PERCENT, advise, automatic_bound, drain_by_calls, high_water, throughput,
};
use helio_units::{Bytes, Rate};
use serde_json::{Value, json};
use std::time::Duration;

/// One way to drain.
pub(super) struct Way {
    name: &'static str,
    key: &'static str,
    bound: Bytes,
    flow: Flow,
    advice: Advice,
}

/// What is told of a wish.
pub(super) struct Told<'a> {
    wish: &'a QueuePlan,
    /// What the application writes.
    fill: Rate,
    ways: [Way; 2],
}

pub(super) fn told(wish: &QueuePlan) -> Told<'_> {
    let fill = PerSecond(wish.writes).of(wish.write_size);
    let calls = drain_by_calls(wish.write_size, wish.rtt, wish.flushers).min(wish.rate);
    let stream = wish.window.map_or(wish.rate, |window| throughput(window, wish.rtt, wish.rate));
    let way = |name, key, bound, drain| {
        let flow = Flow { fill, drain };
        let advice = advise(Situation { work: wish.work, rtt: wish.rtt, flow });
        Way { name, key, bound: wish.bound.unwrap_or(bound), flow, advice }
    };
    let ways = [
        way("a call per round trip (Sun)", "calls", QUEUE_BYTES_SNDR, calls),
        way("a stream (Heliograph)", "stream", automatic_bound(wish.rate, wish.rtt), stream),
    ];
    Told { wish, fill, ways }
}

impl Way {
    /// What an outage leaves in the queue, and how long that takes to drain behind it.
    fn outage(&self, span: Duration) -> (Bytes, bool, Option<Duration>) {
        let away = Flow { drain: Rate(0), ..self.flow };
        let piled = away.piled_up(span);
        let fits = piled <= self.bound;
        (piled, fits, self.flow.time_to_empty(piled.min(self.bound)))
    }
}

impl Told<'_> {
    pub(super) fn text(&self) -> String {
        let wish = self.wish;
        let mut out = String::new();
        let fill = format!("{}: {} writes/s of {}", self.fill, wish.writes, wish.write_size);
        line(&mut out, "fill", &fill);
        out = format!("{out}\n{}\n", table(&self.rows()));
        let [_, ours] = &self.ways;
        line(
            &mut out,
            "advice",
            &format!("{}: {}", ours.advice.choice.words(), ours.advice.choice.here()),
        );
        line(&mut out, "", ours.advice.place);
        for reason in &ours.advice.reasons {
            line(&mut out, "", reason);
        }
        out
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let each = |label: &str, cell: &dyn Fn(&Way) -> String| {
            std::iter::once(label.to_owned()).chain(self.ways.iter().map(cell)).collect::<Vec<_>>()
        };
        let mut rows = vec![
            each("", &|way| way.name.to_owned()),
            each("drain", &|way| way.flow.drain.to_string()),
            each("bound", &|way| way.bound.to_string()),
            each("full", &|way| match way.flow.time_to_full(way.bound) {
                Some(time) => format!("in {}", span(time)),
                None => "never".to_owned(),
            }),
        ];
        if let Some(outage) = self.wish.outage {
            rows.push(each(&format!("{} away", span(outage)), &|way| {
                let (piled, fits, empty) = way.outage(outage);
                let held =
                    if fits { format!("{piled} held") } else { format!("{piled} do not fit") };
                match empty {
                    Some(time) => format!("{held}, drained in {}", span(time)),
                    None => format!("{held}, never drained"),
                }
            }));
        }
        if let Some(mark) = self.wish.high_water {
            rows.push(each("high water", &|way| format!("{mark}: {}", judged(mark, way.bound))));
        }
        rows.push(each("TABLE 2", &|way| way.advice.choice.words().to_owned()));
        rows
    }

    pub(super) fn json(&self) -> Value {
        let ways = self.ways.iter().map(|way| {
            let outage = self.wish.outage.map(|outage| {
                let (piled, fits, empty) = way.outage(outage);
                json!({
                    "seconds": outage.as_secs_f64(),
                    "piled_up_bytes": piled.0,
                    "fits": fits,
                    "drain_seconds": empty.map(|time| time.as_secs_f64()),
                })
            });
            json!({
                "drained_by": way.key,
                "bound_bytes": way.bound.0,
                "drain_bytes_per_second": way.flow.drain.0,
                "full_in_seconds": way.flow.time_to_full(way.bound).map(|time| time.as_secs_f64()),
                "outage": outage,
                "high_water": self.wish.high_water.map(|mark| word(high_water(mark, way.bound))),
                "advice": {
                    "choice": way.advice.choice.words(),
                    "here": way.advice.choice.here(),
                    "place": way.advice.place,
                    "reasons": way.advice.reasons,
                },
            })
        });
        json!({
            "fill_bytes_per_second": self.fill.0,
            "writes_per_second": self.wish.writes,
            "write_bytes": self.wish.write_size.0,
            "rate_bytes_per_second": self.wish.rate.0,
            "rtt_seconds": self.wish.rtt.as_secs_f64(),
            "work": self.wish.work.word(),
            "queues": ways.collect::<Vec<_>>(),
        })
    }
}

fn word(judged: HighWater) -> &'static str {
    match judged {
        HighWater::Fine => "fine",
        HighWater::Watch => "watch",
        HighWater::Enlarge => "enlarge",
    }
}

fn judged(mark: Bytes, bound: Bytes) -> String {
    match high_water(mark, bound) {
        HighWater::Fine => format!("good, below {WATCH_PERCENT} %"),
        HighWater::Watch => format!("watch it, from {WATCH_PERCENT} % on"),
        HighWater::Enlarge => format!("enlarge it, from {ENLARGE_PERCENT} % on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_plan::Work;

    /// Example 2 of Sun's paper.
    fn example() -> QueuePlan {
        QueuePlan {
            writes: 50.0,
            write_size: Bytes::kib(8),
            rate: Rate::mbit(100),
            rtt: Duration::from_millis(50),
            window: None,
            bound: None,
            flushers: 1,
            outage: Some(Duration::from_secs(10)),
            high_water: Some(Bytes(16_380 * 512)),
            work: Work::Oltp,
            json: false,
        }
    }

    #[test]
    fn calls_fill_in_half_a_minute_what_a_stream_never_fills() {
        let wish = example();
        let told = told(&wish);
        let shown = told.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("full in 34.1 s never"), "{shown}");
        assert!(shown.contains("3.91 MiB held, never drained"), "{shown}");
        assert!(shown.contains("3.91 MiB held, drained in 338.8 ms"), "{shown}");
        assert!(shown.contains("8.00 MiB: enlarge it, from 85 % on"), "{shown}");
        let json = told.json();
        assert_eq!(json["queues"][0]["advice"]["choice"], "point-in-time copies");
        assert_eq!(json["queues"][1]["full_in_seconds"], Value::Null);
    }

    #[test]
    fn a_fixed_window_is_what_a_stream_drains_by() {
        let wish = QueuePlan { window: Some(Bytes::kib(24)), ..example() };
        let [_, stream] = told(&wish).ways;
        assert_eq!(stream.flow.drain, Rate(491_520));
    }
}
