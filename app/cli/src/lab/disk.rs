// SPDX-License-Identifier: Apache-2.0
//! `helio lab disk`: the times of a disk, as a forecast wants them told.

use super::link::tell;
use crate::args::DiskOf;
use crate::render::line;
use crate::stopping::{Second, Stopping};
use crate::verbs::{print, printed};
use anyhow::Result;
use helio_lab::{Stage, Times, gauge};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Measures, and prints.
///
/// # Errors
/// No file can be made there, the disk fails, or a signal came.
pub(crate) fn run(it: &DiskOf) -> Result<ExitCode> {
    if it.mirror.mirror {
        return super::mirror::run(it, &it.mirror);
    }
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: false };
    let found = gauge(&it.folder, it.size, &stage)?.shared_by(it.members);
    let micros = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
    if it.json {
        let times = |of: Times| json!({ "median_us": micros(of.median), "p99_us": micros(of.p99) });
        let told = json!({
            "driver": found.driver,
            "direct": found.direct,
            "size": it.size.0,
            "read": times(found.read),
            "write": times(found.write),
            "flush": times(found.flush),
            "lanes": found.lanes,
            "bytes_per_second": found.rate.0,
            "disk": found.to_string(),
        });
        return printed(&told);
    }
    let way = if found.direct { "past" } else { "through" };
    let folder = it.folder.display();
    let mut out =
        format!("{folder}, {} of it, {way} the page cache, driver {}\n", it.size, found.driver);
    let times = |of: Times| format!("median {} us, p99 {} us", micros(of.median), micros(of.p99));
    line(&mut out, "read", &format!("{}; 4 KiB, one at a time", times(found.read)));
    line(&mut out, "write", &format!("{}; 4 KiB, one at a time", times(found.write)));
    line(&mut out, "flush", &format!("{}; after 20 writes", times(found.flush)));
    line(&mut out, "lanes", &format!("{}; writes that it does in the time of one", found.lanes));
    line(&mut out, "rate", &format!("{}; writes of 1 MiB", found.rate));
    line(&mut out, "forecast", &format!("--disk {found}"));
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}
