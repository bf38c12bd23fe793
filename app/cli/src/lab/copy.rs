// SPDX-License-Identifier: Apache-2.0
//! `helio lab copy`: the rates of copies from one member to another, beside what OpenVMS recommends.

use super::link::tell;
use crate::args::CopyOf;
use crate::stopping::{Second, Stopping};
use crate::verbs::{print, printed};
use anyhow::Result;
use helio_lab::{BLOCK, CopyRow, CopyTest, Data, Disk, Slow, Stage, copy_experiment};
use helio_units::Bytes;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Measures, and prints each row once it is there.
///
/// # Errors
/// No file can be made in a directory, a disk fails or has no direct I/O, or a signal came.
pub(crate) fn run(it: &CopyOf) -> Result<ExitCode> {
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: false };
    let test = CopyTest {
        folders: [it.folder.clone(), it.target.clone().unwrap_or_else(|| it.folder.clone())],
        size: Bytes(it.size.0 / (1 << 20) * (1 << 20)),
        transfers: it.transfer.clone(),
        rounds: it.rounds,
        slow: Disk { rate: it.slow.0 as f64, overhead: it.slow_overhead },
        longest: it.time,
    };
    if it.json {
        let mut rows = Vec::new();
        copy_experiment(&test, &stage, &mut |row| rows.push(machine(row)))?;
        let told = json!({
            "size": test.size.0,
            "rounds": test.rounds,
            "slow_bytes_per_second": it.slow.0,
            "slow_overhead_us": it.slow_overhead.as_micros() as u64,
            "rows": rows,
        });
        return printed(&told);
    }
    print(&head(&test, it))?;
    let mut shown = Ok(());
    copy_experiment(&test, &stage, &mut |row| {
        if shown.is_ok() {
            shown = print(&text(row));
        }
    })?;
    shown?;
    Ok(ExitCode::SUCCESS)
}

fn head(test: &CopyTest, it: &CopyOf) -> String {
    let [source, target] = test.folders.each_ref().map(|folder| folder.display());
    let (size, rounds) = (test.size, test.rounds);
    let slow = format!("{} and {:?} for each operation", it.slow, it.slow_overhead);
    let columns = test.transfers.iter().map(|size| format!("{:>9}", blocks(*size)));
    format!(
        "copy of {size} from {source} to {target}, median of {rounds}, in MiB/s by transfer size in blocks of 512 bytes\n\
         a slow disk: {slow}\n\
         {:<10} {:<7} {:<6}{} {:>8} {:>7} {:>10} {:>7} {:>10}  {}\n",
        "data",
        "slow",
        "cache",
        columns.collect::<String>(),
        "auto",
        "of best",
        "read+write",
        "of that",
        "written",
        "OpenVMS"
    )
}

/// A transfer size as the source names it.
fn blocks(size: Bytes) -> String {
    match size.0 / BLOCK.0 {
        128 => "127/128".to_owned(),
        blocks => blocks.to_string(),
    }
}

const fn words(row: &CopyRow) -> (&'static str, &'static str) {
    let data = match row.data {
        Data::Identical => "identical",
        Data::Different => "different",
    };
    let slow = match row.slow {
        Slow::Neither => "none",
        Slow::Source => "source",
        Slow::Target => "target",
    };
    (data, slow)
}

/// What the experiment of the source recommends: transfer sizes in blocks, and which caches are on.
const fn recommended(row: &CopyRow) -> &'static str {
    match (row.data, row.slow) {
        (_, Slow::Neither) => "not measured",
        (Data::Identical, _) => "32, all caches",
        (Data::Different, Slow::Target) => "128 or 32, all caches",
        (Data::Different, Slow::Source) => "128, no read-ahead",
    }
}

fn text(row: &CopyRow) -> String {
    let (data, slow) = words(row);
    let rate = |rate: Option<f64>, width: usize| {
        let rate =
            rate.map_or_else(|| "-".to_owned(), |r| format!("{:.1}", r / f64::from(1 << 20)));
        format!("{rate:>width$}")
    };
    let share = |of: Option<f64>| {
        let of = of.filter(|of| *of > 0.0);
        of.map_or_else(|| "-".to_owned(), |of| format!("{:.2}", row.auto / of))
    };
    let fixed = row.fixed.iter().map(|(_, it)| rate(*it, 9)).collect::<String>();
    let cache = if row.cached { "yes" } else { "no" };
    let (auto, ceiling) = (rate(Some(row.auto), 8), rate(row.ceiling, 10));
    let (best, most) = (share(row.best()), share(row.ceiling));
    let (written, openvms) = (row.written.to_string(), recommended(row));
    format!(
        "{data:<10} {slow:<7} {cache:<6}{fixed} {auto} {best:>7} {ceiling} {most:>7} {written:>10}  {openvms}\n"
    )
}

fn machine(row: &CopyRow) -> Value {
    let (data, slow) = words(row);
    let whole = |rate: Option<f64>| rate.map(|rate| rate as u64);
    let fixed = row
        .fixed
        .iter()
        .map(|(size, rate)| json!({ "transfer": size.0, "bytes_per_second": whole(*rate) }));
    json!({
        "data": data,
        "slow": slow,
        "cached": row.cached,
        "driver": row.driver,
        "fixed": fixed.collect::<Vec<_>>(),
        "auto_bytes_per_second": row.auto as u64,
        "read_write_bytes_per_second": whole(row.ceiling),
        "written": row.written.0,
        "openvms": recommended(row),
    })
}
