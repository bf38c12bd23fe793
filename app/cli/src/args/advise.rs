// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio advise`.

use super::duration;
use super::plan::work;
use clap::Args;
use helio_plan::Work;
use std::path::PathBuf;
use std::time::Duration;

/// Limits of the measurement time. Rates of a shorter time are not meaningful.
const OVER: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3600)];

/// What to measure, and what to compare it with.
#[derive(Debug, Args)]
pub struct Advise {
    /// Measure only this group.
    pub group: Option<String>,
    /// Compare with this output of `helio plan forecast --json`.
    #[arg(long, value_name = "FILE", requires = "group")]
    pub forecast: Option<PathBuf>,
    /// Run of the forecast to compare with, from 0; default: the recommended run.
    ///
    /// If the forecast recommends no run, the default is the only run in the current mode.
    #[arg(long, value_name = "NUMBER", requires = "forecast")]
    pub cell: Option<usize>,
    /// File with the peer's `helio status GROUP --json`, to check its socket buffers.
    #[arg(long, value_name = "FILE", requires = "group")]
    pub peer_status: Option<PathBuf>,
    /// Workload: oltp, redo-logs, loading, read-only, few-writes or restore.
    #[arg(long, value_name = "WORKLOAD", value_parser = work, default_value = "oltp")]
    pub work: Work,
    /// Measurement time, 500ms to 3600s.
    #[arg(long, value_name = "TIME", value_parser = over, default_value = "2s")]
    pub over: Duration,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn over(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    let [least, most] = OVER;
    if (least..=most).contains(&span) {
        Ok(span)
    } else {
        Err(format!("must be from {least:?} to {} s", most.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_time_has_limits() {
        assert!(over("500ms").is_ok() && over("3600s").is_ok());
        assert!(over("499ms").is_err_and(|error| error.contains("500ms")));
        assert!(over("3601s").is_err() && over("5").is_err());
    }
}
