// SPDX-License-Identifier: Apache-2.0
//! What a trace comes to, for people: blocks and wording of distributions as IBM's log scanner and simulator have them.

use helio_units::{Bytes, Rate};
use helio_workload::{Distribution, Format, Peak, REGION, Reading, Summary, Tally};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

pub(super) fn of(path: &Path, format: Format, reading: &Reading, summary: &Summary) -> String {
    let mut out = String::new();
    head(&mut out, path, format, reading, summary);
    kinds(&mut out, summary);
    steps(&mut out, summary);
    peaks(&mut out, summary);
    distribution(&mut out, "Write sizes (bytes)", &summary.write_sizes);
    distribution(&mut out, "Read sizes (bytes)", &summary.read_sizes);
    if let Some(transactions) = &summary.transactions {
        let title = "Transactions: bytes written up to each flush or FUA";
        distribution(&mut out, title, &transactions.bytes);
        let title = "Transactions: writes up to each flush or FUA";
        distribution(&mut out, title, &transactions.writes);
    }
    overwriting(&mut out, summary);
    out
}

/// Appends a line; writing into memory cannot fail.
macro_rules! tell {
    ($out:expr, $($words:tt)*) => { let _infallible = writeln!($out, $($words)*); };
}

fn head(out: &mut String, path: &Path, format: Format, reading: &Reading, summary: &Summary) {
    let group = reading.group.as_ref().map(|name| format!(", group {name}")).unwrap_or_default();
    let began = reading.began.map(|at| format!(", began {at}")).unwrap_or_default();
    tell!(out, "{}: {format}{group}{began}", path.display());
    tell!(out, "  lasted     {}", seconds(summary.span));
    for volume in reading.workload.volumes() {
        tell!(out, "  volume     {}: {}", volume.name, volume.size);
    }
    for remark in &reading.remarks {
        tell!(out, "  remark     {remark}");
    }
}

fn kinds(out: &mut String, summary: &Summary) {
    tell!(out, "\nRequests");
    tell!(
        out,
        "  {:<8}{:>12}{:>14}{:>12}{:>14}{:>10}",
        "kind",
        "number",
        "bytes",
        "per second",
        "",
        "FUA"
    );
    for of in &summary.kinds {
        let (number, bytes) = (of.tally.requests, of.tally.bytes);
        tell!(
            out,
            "  {:<8}{:>12}{:>14}{:>12}{:>14}{:>10}",
            of.kind,
            number.0,
            bytes.to_string(),
            per_second(of.tally, summary.span),
            rate(bytes, summary.span),
            of.fua.0
        );
    }
}

fn steps(out: &mut String, summary: &Summary) {
    let length = summary.steps.first().map_or(Duration::ZERO, |step| step.length);
    tell!(out, "\nOver time, in steps of {}", seconds(length));
    tell!(
        out,
        "  {:>12}{:>12}{:>14}{:>12}{:>14}{:>12}",
        "from",
        "writes/s",
        "written",
        "reads/s",
        "read",
        "flushes/s"
    );
    for step in &summary.steps {
        let flushes = Tally { requests: step.flushes, bytes: Bytes::ZERO };
        tell!(
            out,
            "  {:>12}{:>12}{:>14}{:>12}{:>14}{:>12}",
            seconds(step.from),
            per_second(step.writes, step.length),
            rate(step.writes.bytes, step.length),
            per_second(step.reads, step.length),
            rate(step.reads.bytes, step.length),
            per_second(flushes, step.length)
        );
    }
}

fn peaks(out: &mut String, summary: &Summary) {
    tell!(out, "\nPeaks of writing");
    tell!(out, "  {:>12}{:>14}{:>12}{:>14}{:>12}", "within", "written", "from", "writes/s", "from");
    for Peak { window, bytes, writes } in &summary.peaks {
        let most = Tally { requests: writes.0, bytes: bytes.0 };
        tell!(
            out,
            "  {:>12}{:>14}{:>12}{:>14}{:>12}",
            seconds(*window),
            rate(bytes.0, *window),
            seconds(bytes.1),
            per_second(most, *window),
            seconds(writes.1)
        );
    }
}

fn distribution(out: &mut String, title: &str, of: &Distribution) {
    if of.count() == 0 {
        return;
    }
    tell!(out, "\n{title}");
    let (count, sum) = (of.count(), of.sum());
    let (min, max, mean) = (of.min(), of.max(), of.mean());
    tell!(out, "  Total {count} numbers, Sum {sum}, Min {min}, Max {max}, Avg {mean}");
    for bucket in of.buckets() {
        let place = if bucket.from == bucket.to {
            format!("Exactly {:>12}", bucket.from)
        } else {
            format!("From {} to {}", bucket.from, bucket.to)
        };
        let percent = bucket.count as f64 / count as f64 * 100.0;
        tell!(out, "  {place:<34}{:>10} numbers {percent:>6.2} %", bucket.count);
    }
}

fn overwriting(out: &mut String, summary: &Summary) {
    tell!(
        out,
        "\nWritten again within the same window, and the maximum of dirty regions of {REGION} in one window"
    );
    tell!(
        out,
        "  {:>12}{:>14}{:>14}{:>10}{:>14}",
        "window",
        "written",
        "distinct",
        "again",
        "dirty"
    );
    for of in &summary.overwriting {
        tell!(
            out,
            "  {:>12}{:>14}{:>14}{:>8.1} %{:>14}",
            seconds(of.window),
            of.written.to_string(),
            of.distinct.to_string(),
            of.share() * 100.0,
            of.marked.to_string()
        );
    }
}

/// A count a second, or a dash where no time passed.
fn per_second(tally: Tally, span: Duration) -> String {
    match span.is_zero() {
        true => "-".to_owned(),
        false => format!("{:.1}", tally.requests.0 as f64 / span.as_secs_f64()),
    }
}

fn rate(bytes: Bytes, span: Duration) -> String {
    match span.is_zero() {
        true => "-".to_owned(),
        false => Rate((bytes.0 as f64 / span.as_secs_f64()) as u64).to_string(),
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.3} s", span.as_secs_f64())
}
