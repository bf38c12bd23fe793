// SPDX-License-Identifier: Apache-2.0
//! `helio plan calculator`: the log rate each mode allows, as the HADR calculator tells it.

use super::span;
use super::table::table;
use crate::args::Calculator;
use crate::failure::failed;
use crate::render::line;
use anyhow::{Result, anyhow};
use helio_plan::{
    Disk, Flush, FlushMode, Impact, Link, Prediction, Sample, Scan, catch_up, pages, predict, scan,
    socket_buffer,
};
use helio_units::{Bandwidth, Bytes};
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;

/// The most that is read of a scan.
const MOST_SCAN: u64 = 256 << 20;

/// What is told of a wish.
pub(super) struct Told {
    disk: Disk,
    link: Link,
    /// Of flushes of that size where no log rate is known.
    flush: Bytes,
    scan: Scan,
}

/// The largest flushes one mode comes to, over all samples.
struct Largest {
    mode: FlushMode,
    predicted: Bytes,
    workload: Bytes,
    buffer: Bytes,
}

pub(super) fn told(wish: &Calculator) -> Result<Told> {
    let scan = match &wish.scan {
        Some(path) => read(path)?,
        None => of_options(wish),
    };
    let disk = Disk { rate: wish.disk, overhead: wish.disk_overhead };
    let link = Link { rate: wish.network, rtt: wish.rtt };
    Ok(Told { disk, link, flush: wish.flush, scan })
}

fn of_options(wish: &Calculator) -> Scan {
    let samples = wish.log_rate.map(|rate| {
        let transaction = wish.transaction.unwrap_or(wish.flush);
        (String::new(), Sample::new(rate, wish.flush, transaction, wish.open_transactions))
    });
    Scan { samples: samples.into_iter().collect(), average: wish.log_rate }
}

fn read(path: &Path) -> Result<Scan> {
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().lock().take(MOST_SCAN).read_to_string(&mut text),
        _ => std::fs::File::open(path)
            .and_then(|file| file.take(MOST_SCAN).read_to_string(&mut text)),
    };
    let name = path.display();
    let hint = "name a file with the output of db2logscan";
    read.map_err(failed(format!("cannot read --scan {name}"), hint))?;
    let found = scan(&text).map_err(|why| anyhow!("--scan {name}, {why}\n  hint: {hint}"))?;
    if found.samples.is_empty() {
        return Err(anyhow!(
            "--scan {name} has no sample, such as `2013-02-26 15:32:09  7.307 MB/s, 60 sec, …`\n  hint: {hint}"
        ));
    }
    Ok(found)
}

impl Told {
    fn predictions(&self, sample: Sample) -> impl Iterator<Item = Prediction> {
        FlushMode::ALL.into_iter().map(move |mode| predict(mode, sample, self.disk, self.link))
    }

    fn largest(&self) -> Vec<Largest> {
        let of = |mode| {
            let all = self
                .scan
                .samples
                .iter()
                .map(|(_, sample)| predict(mode, *sample, self.disk, self.link));
            let (predicted, workload) =
                all.fold((Bytes::ZERO, Bytes::ZERO), |(predicted, workload), one| {
                    (predicted.max(one.expected.size), workload.max(one.most.size))
                });
            Largest { mode, predicted, workload, buffer: socket_buffer(workload, self.link) }
        };
        FlushMode::ALL.map(of).into()
    }

    pub(super) fn text(&self) -> String {
        let (disk, link) = (self.disk, self.link);
        let mut out = String::new();
        line(
            &mut out,
            "network",
            &format!("{}, round trip {}", Bandwidth(link.rate), span(link.rtt)),
        );
        line(&mut out, "disk", &format!("{}, and {} a write", disk.rate, span(disk.overhead)));
        if self.scan.samples.is_empty() {
            let rows = FlushMode::ALL.map(|mode| {
                vec![mode.name().to_owned(), flush_text(mode.flush(self.flush, disk, link))]
            });
            return out + "\n" + &table(&rows);
        }
        for (when, sample) in &self.scan.samples {
            let text = format!(
                "{} in flushes of {}, at most {} in one{}{when}",
                sample.rate,
                sample.flush,
                sample.most,
                if when.is_empty() { "" } else { ", " }
            );
            out.push('\n');
            line(&mut out, "log", &text);
            out.push_str(&table(&self.sample_rows(*sample)));
        }
        out + "\n" + &self.catch_up_text() + "\n" + &self.largest_text()
    }

    fn sample_rows(&self, sample: Sample) -> Vec<Vec<String>> {
        let head = ["", "", "expected", "with the flushes there are", "with the largest"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.predictions(sample).map(|one| {
            let mut cells = vec![one.mode.name().to_owned(), one.impact.mark().to_owned()];
            cells.extend([one.expected, one.least, one.most].map(flush_text));
            cells
        }));
        rows
    }

    fn catch_up_text(&self) -> String {
        let Some(average) = self.scan.average else { return String::new() };
        let (flush, impact) = catch_up(average, self.disk, self.link);
        let cells = ["HADR remote catch-up", impact.mark(), &flush_text(flush)].map(str::to_owned);
        table(&[cells.to_vec()])
    }

    fn largest_text(&self) -> String {
        let head = ["largest flush", "predicted", "workload", "socket buffer at least"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let size = |size: Bytes| format!("{} pages, {size}", pages(size));
        rows.extend(self.largest().into_iter().map(|one| {
            vec![
                one.mode.name().to_owned(),
                size(one.predicted),
                size(one.workload),
                one.buffer.to_string(),
            ]
        }));
        table(&rows)
    }

    pub(super) fn json(&self) -> Value {
        let samples = self.scan.samples.iter().map(|(when, sample)| {
            let modes = self.predictions(*sample).map(|one| {
                json!({
                    "mode": one.mode.name(),
                    "mark": one.impact.mark(),
                    "reaches_the_rate": !one.short_of(sample.rate),
                    "expected": flush_json(one.expected),
                    "least": flush_json(one.least),
                    "most": flush_json(one.most),
                })
            });
            json!({
                "at": when,
                "log_bytes_per_second": sample.rate.0,
                "flush_bytes": sample.flush.0,
                "most_bytes": sample.most.0,
                "modes": modes.collect::<Vec<_>>(),
            })
        });
        let flushes = FlushMode::ALL.map(|mode| {
            json!({ "mode": mode.name(), "flush": flush_json(mode.flush(self.flush, self.disk, self.link)) })
        });
        let alone = self.scan.samples.is_empty();
        let largest = self.largest().into_iter().filter(|_| !alone).map(|one| {
            json!({
                "mode": one.mode.name(),
                "predicted_bytes": one.predicted.0,
                "workload_bytes": one.workload.0,
                "socket_buffer_bytes": one.buffer.0,
            })
        });
        json!({
            "network_bytes_per_second": self.link.rate.0,
            "rtt_seconds": self.link.rtt.as_secs_f64(),
            "disk_bytes_per_second": self.disk.rate.0,
            "disk_overhead_seconds": self.disk.overhead.as_secs_f64(),
            "flushes": if alone { json!(flushes) } else { Value::Null },
            "samples": samples.collect::<Vec<_>>(),
            "catch_up": self.scan.average.map(|average| {
                let (flush, impact): (Flush, Impact) = catch_up(average, self.disk, self.link);
                json!({ "mark": impact.mark(), "flush": flush_json(flush) })
            }),
            "largest_flushes": largest.collect::<Vec<_>>(),
        })
    }
}

fn flush_text(flush: Flush) -> String {
    format!("{}, {} in {}", flush.rate, flush.size, span(flush.time))
}

fn flush_json(flush: Flush) -> Value {
    json!({
        "bytes": flush.size.0,
        "seconds": flush.time.as_secs_f64(),
        "bytes_per_second": flush.rate.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Rate;
    use std::io::Write;
    use std::time::Duration;

    /// The tuning guide's `-disk 200 0.001 -network 10 0.1`.
    fn guide() -> Calculator {
        Calculator {
            network: Rate(10 << 20),
            rtt: Duration::from_millis(100),
            disk: Rate(200 << 20),
            disk_overhead: Duration::from_millis(1),
            flush: Bytes(72_090),
            log_rate: Some(Rate(7_661_945)),
            transaction: Some(Bytes(65_126)),
            open_transactions: 22.7,
            scan: None,
            json: false,
        }
    }

    #[test]
    fn the_guides_run_predicts_what_it_prints() {
        let told = told(&guide()).expect("it can be told");
        let shown = told.text();
        assert!(
            shown.contains("HADR SYNC        ???  5.48 MiB/s, 1.41 MiB in 257.1 ms"),
            "{shown}"
        );
        assert!(shown.contains("HADR SYNC        361 pages, 1.41 MiB"), "{shown}");
        assert!(shown.contains("HADR ASYNC       18 pages, 70.40 KiB"), "{shown}");
        let json = told.json();
        assert_eq!(json["samples"][0]["modes"][0]["mark"], "???");
        assert_eq!(json["samples"][0]["modes"][0]["reaches_the_rate"], false);
        assert_eq!(json["flushes"], Value::Null);
    }

    #[test]
    fn without_a_log_rate_each_mode_tells_one_flush() {
        let wish = Calculator { log_rate: None, transaction: None, ..guide() };
        let told = told(&wish).expect("it can be told");
        assert!(!told.text().contains('?'), "{}", told.text());
        assert_eq!(told.json()["flushes"].as_array().map(Vec::len), Some(FlushMode::ALL.len()));
    }

    #[test]
    fn a_scan_that_is_none_is_refused_with_what_is_wanted() {
        let mut file = tempfile::NamedTempFile::new().expect("there is room");
        writeln!(file, "nothing of that kind").expect("it can be written");
        let wish = Calculator { scan: Some(file.path().to_owned()), log_rate: None, ..guide() };
        let why = told(&wish).map(|_| ()).expect_err("it is no scan").to_string();
        assert!(why.starts_with("--scan ") && why.contains("db2logscan"), "{why}");
        writeln!(file, "2013-02-26 15:32:09  7.307 MB/s, 60 sec,  17.6")
            .expect("it can be written");
        let why = told(&wish).map(|_| ()).expect_err("it is cut short").to_string();
        assert!(
            why.contains("line 2 has no pg/f: the scan is truncated or changed there\n  hint: "),
            "{why}"
        );
    }
}
