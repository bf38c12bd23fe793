// SPDX-License-Identifier: Apache-2.0
//! The same for programs: every field with its unit in its name, as the API's have.

use helio_workload::{Distribution, Format, Overwriting, Peak, Reading, Step, Summary, Tally};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn of(format: Format, reading: &Reading, summary: &Summary) -> Value {
    let volumes = reading.workload.volumes().iter();
    let volume = |v: &helio_workload::Volume| json!({ "name": v.name, "size_bytes": v.size.0 });
    let kind = |of: &helio_workload::OfKind| {
        json!({
            "kind": of.kind.word(),
            "requests": of.tally.requests.0,
            "bytes": of.tally.bytes.0,
            "fua": of.fua.0,
        })
    };
    let transactions = summary
        .transactions
        .as_ref()
        .map(|of| json!({ "bytes": distribution(&of.bytes), "writes": distribution(&of.writes) }));
    json!({
        "format": format.word(),
        "group": reading.group,
        "began_ms": reading.began.map(|at| at.0),
        "remarks": reading.remarks,
        "span_seconds": seconds(summary.span),
        "volumes": volumes.map(volume).collect::<Vec<_>>(),
        "kinds": summary.kinds.iter().map(kind).collect::<Vec<_>>(),
        "steps": summary.steps.iter().map(step).collect::<Vec<_>>(),
        "peaks": summary.peaks.iter().map(peak).collect::<Vec<_>>(),
        "write_bytes": distribution(&summary.write_sizes),
        "read_bytes": distribution(&summary.read_sizes),
        "transactions": transactions,
        "overwriting": summary.overwriting.iter().map(overwriting).collect::<Vec<_>>(),
    })
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

fn tally(of: Tally) -> Value {
    json!({ "requests": of.requests.0, "bytes": of.bytes.0 })
}

fn step(step: &Step) -> Value {
    json!({
        "from_seconds": seconds(step.from),
        "seconds": seconds(step.length),
        "writes": tally(step.writes),
        "reads": tally(step.reads),
        "flushes": step.flushes.0,
    })
}

fn peak(peak: &Peak) -> Value {
    json!({
        "window_seconds": seconds(peak.window),
        "bytes": peak.bytes.0.0,
        "bytes_from_seconds": seconds(peak.bytes.1),
        "writes": peak.writes.0.0,
        "writes_from_seconds": seconds(peak.writes.1),
    })
}

fn distribution(of: &Distribution) -> Value {
    let buckets = of.buckets();
    let bucket =
        |b: &helio_workload::Bucket| json!({ "from": b.from, "to": b.to, "count": b.count });
    json!({
        "count": of.count(),
        "sum": u64::try_from(of.sum()).ok(),
        "min": of.min(),
        "max": of.max(),
        "mean": of.mean(),
        "buckets": buckets.iter().map(bucket).collect::<Vec<_>>(),
    })
}

fn overwriting(of: &Overwriting) -> Value {
    json!({
        "window_seconds": seconds(of.window),
        "written_bytes": of.written.0,
        "distinct_bytes": of.distinct.0,
        "share": of.share(),
        "dirty_bytes_most": of.marked.0,
    })
}
