// SPDX-License-Identifier: Apache-2.0
//! Forecast against reality: each scenario is forecast first, then run by two daemons over an emulated link.
//!
//! `cargo run --release -p helio-bench --bin reality` prints the table that docs/reference/forecast.md keeps. The
//! disk is measured on the file system the members lie on, and each line through the relay; everything else is what
//! `helio plan forecast` takes by itself.

mod disk;
mod line;
mod run;
mod scenario;

use anyhow::Result;
use clap::Parser;
use core::num::NonZeroUsize;
use helio_twin::Figures;
use run::Measured;
use scenario::{Scenario, scenarios};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// Forecast against reality.
#[derive(Parser)]
struct Asked {
    /// Only scenarios with this in their name.
    #[arg(long)]
    only: Option<String>,
}

/// A figure of both, and how far they may be apart.
struct Row {
    what: &'static str,
    forecast: f64,
    measured: f64,
    unit: &'static str,
    /// In percent; none where the figure is too small to hold anybody to it.
    within: Option<f64>,
}

impl Row {
    fn off(&self) -> f64 {
        (self.forecast / self.measured - 1.0) * 100.0
    }
}

fn main() -> Result<()> {
    let Asked { only } = Asked::parse();
    let (told, disk) = disk::measure()?;
    println!("disk: {told}\n");
    println!("| scenario | figure | forecast | measured | off | |");
    println!("|---|---|---|---|---|---|");
    let (mut held, mut bound) = (0, 0);
    let mut lines = BTreeMap::new();
    for scenario in scenarios() {
        if only.as_ref().is_some_and(|only| !scenario.name.contains(only.as_str())) {
            continue;
        }
        let link = match lines.entry(scenario.line) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(new) => {
                let found = line::measured(&scenario.link())?;
                eprintln!(
                    "line {}: rtt={:?},jitter={:?}",
                    found.name, found.round_trip, found.jitter
                );
                new.insert(found)
            }
        };
        let workload = scenario.workload()?;
        let cells = scenario.grid(disk, link.clone()).run(&workload, NonZeroUsize::MIN)?;
        let Some(Ok(figures)) = cells.into_iter().next().map(|cell| cell.figures) else {
            anyhow::bail!("{}: the forecast does not come up", scenario.name);
        };
        let measured = run::run(&scenario, &workload)?;
        for row in rows(&scenario, &figures, &measured) {
            let verdict = match row.within {
                Some(within) => {
                    bound += 1;
                    let holds = row.off().abs() <= within;
                    held += u32::from(holds);
                    if holds { "within" } else { "OUTSIDE" }
                }
                None => "",
            };
            println!(
                "| {} | {} | {:.2} {} | {:.2} {} | {:+.1} % | {verdict} |",
                scenario.name,
                row.what,
                row.forecast,
                row.unit,
                row.measured,
                row.unit,
                row.off()
            );
        }
    }
    println!("\n{held} of {bound} figures are within their bound");
    Ok(())
}

fn rows(scenario: &Scenario, forecast: &Figures, measured: &Measured) -> Vec<Row> {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    // Below these the figure is the machine's scheduling, not the mirror's.
    let from = |least: f64, found: f64, within| (found >= least).then_some(within);
    let (p50, p99) = (ms(measured.seen.writes.at(50.0)), ms(measured.seen.writes.at(99.0)));
    let rate = measured.seen.answered as f64 / measured.seen.took.as_secs_f64() / 1e6;
    let mut rows = vec![
        Row {
            what: "median",
            forecast: ms(forecast.writes.at(50.0)),
            measured: p50,
            unit: "ms",
            within: from(1.0, p50, 10.0),
        },
        Row {
            what: "p99",
            forecast: ms(forecast.writes.at(99.0)),
            measured: p99,
            unit: "ms",
            within: from(5.0, p99, 25.0),
        },
        Row {
            what: "throughput",
            forecast: forecast.throughput().0 as f64 / 1e6,
            measured: rate,
            unit: "MB/s",
            within: Some(10.0),
        },
        Row {
            what: "queue high",
            forecast: forecast.queue_high.0 as f64 / 1048576.0,
            measured: measured.queue_high as f64 / 1048576.0,
            unit: "MiB",
            within: Some(10.0),
        },
    ];
    let mut timed = |what, forecast: Option<Duration>, measured: Option<Duration>| {
        if forecast.is_none() && measured.is_none() {
            return;
        }
        // What only one of the two saw is far off.
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let (forecast, measured) = (seconds(forecast), seconds(measured));
        let within = from(1.0, forecast.max(measured), 10.0);
        rows.push(Row { what, forecast, measured, unit: "s", within });
    };
    timed("time to full", forecast.full_after, measured.full_after);
    if scenario.outage.is_some() {
        timed("level after", forecast.level_after, measured.level_after);
        // When the next attempt to connect falls is chance, up to a second of it.
        if let Some(row) = rows.last_mut() {
            row.within = None;
        }
    }
    rows
}
