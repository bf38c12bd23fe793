// SPDX-License-Identifier: Apache-2.0
//! `helio lab disk --mirror`: small writes on a local disk, a remote one, and both, beside what SRDF and host mirroring took.

use super::link::tell;
use super::millis;
use crate::args::{DiskOf, MirrorOf};
use crate::stopping::{Second, Stopping};
use crate::verbs::{print, printed};
use anyhow::Result;
use helio_lab::{MirrorRow, MirrorTest, Stage, mirror_experiment};
use helio_netmodel::Profile;
use helio_units::{Bandwidth, Bytes};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

/// The sizes of writes in the source.
const BLOCKS: [Bytes; 2] = [Bytes::kib(2), Bytes::kib(5)];
const DISKS: [&str; 3] = ["local", "remote", "mirrored"];
/// I/O per second in the source: a local disk, a remote one, and a local one that the array mirrors.
const SOURCE: [[u32; 3]; 2] = [[1516, 1370, 566], [1350, 1281, 562]];

/// Measures, and prints.
///
/// # Errors
/// No file can be made there, the disk fails or has no direct I/O, or a signal came.
pub(super) fn run(it: &DiskOf, mirror: &MirrorOf) -> Result<ExitCode> {
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: false };
    let remote = mirror.remote.clone().unwrap_or_else(|| it.folder.clone());
    let test = MirrorTest {
        folders: [it.folder.clone(), remote],
        size: Bytes(it.size.0 / (1 << 20) * (1 << 20)),
        blocks: BLOCKS.to_vec(),
        writes: mirror.writes,
        link: Profile::wan(mirror.rtt, mirror.rate),
    };
    let rows = mirror_experiment(&test, &stage)?;
    if it.json {
        let told = json!({
            "size": test.size.0,
            "writes": test.writes,
            "rtt_us": mirror.rtt.as_micros() as u64,
            "rate_bytes_per_second": mirror.rate.0,
            "rows": rows.iter().flat_map(machine).collect::<Vec<_>>(),
        });
        return printed(&told);
    }
    let [local, remote] = test.folders.each_ref().map(|folder| folder.display());
    let mut out = format!(
        "{} durable writes of each kind, one at a time, past the page cache\n\
         local {local}; remote {remote}, round trip {} and {}\n\
         {:<6} {:<9} {:>8} {:>12} {:>7}  {}\n",
        test.writes,
        millis(mirror.rtt),
        Bandwidth(mirror.rate),
        "size",
        "disk",
        "I/O/s",
        "I/O time",
        "MB/s",
        "the source, I/O/s"
    );
    rows.iter().zip(SOURCE).for_each(|(row, source)| text(&mut out, row, source));
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a second, and the mean time of one.
fn rates(row: &MirrorRow, span: Duration) -> (f64, Duration) {
    let seconds = span.as_secs_f64();
    (row.writes as f64 / seconds, Duration::from_secs_f64(seconds / row.writes as f64))
}

fn text(out: &mut String, row: &MirrorRow, source: [u32; 3]) {
    for (n, (disk, source)) in DISKS.into_iter().zip(source).enumerate() {
        let (rate, time) = rates(row, row.spans[n]);
        let (size, time) = (row.block.to_string(), millis(time));
        let megabytes = rate * row.block.0 as f64 / 1e6;
        let note = if n == 2 {
            format!("{source} with SRDF; here {:.2} times the slower disk", row.above_slower())
        } else {
            source.to_string()
        };
        let _infallible =
            writeln!(out, "{size:<6} {disk:<9} {rate:>8.0} {time:>12} {megabytes:>7.1}  {note}");
    }
}

fn machine(row: &MirrorRow) -> impl Iterator<Item = serde_json::Value> + '_ {
    DISKS.into_iter().zip(row.spans).map(|(disk, span)| {
        let (rate, time) = rates(row, span);
        json!({
            "bytes": row.block.0,
            "disk": disk,
            "writes_per_second": rate,
            "mean_us": time.as_secs_f64() * 1e6,
        })
    })
}
