// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio advise`.

use super::plan::work;
use super::{At, duration};
use clap::Args;
use helio_plan::Work;
use std::path::PathBuf;
use std::time::Duration;

/// The shortest time in which rates mean something, and the longest anybody waits for advice.
const OVER: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3600)];

/// What is looked at, and what it is held against.
#[derive(Debug, Args)]
pub struct Advise {
    /// Only this group.
    pub group: Option<String>,
    /// Hold what happens against what `helio plan forecast --json` wrote there.
    #[arg(long, value_name = "FILE", requires = "group")]
    pub forecast: Option<PathBuf>,
    /// Which run of the forecast, counted from 0; without it its answer's, or the only one in the mode that runs.
    #[arg(long, value_name = "NUMBER", requires = "forecast")]
    pub cell: Option<usize>,
    /// What `helio status GROUP --json` said on the other node: its socket buffers are looked at, too.
    #[arg(long, value_name = "FILE", requires = "group")]
    pub peer_status: Option<PathBuf>,
    /// What writes: oltp, redo-logs, loading, read-only, few-writes or restore.
    #[arg(long, value_name = "WORD", value_parser = work, default_value = "oltp")]
    pub work: Work,
    /// For how long to look.
    #[arg(long, value_name = "TIME", value_parser = over, default_value = "2s")]
    pub over: Duration,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub at: At,
}

fn over(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    let [least, most] = OVER;
    if (least..=most).contains(&span) {
        Ok(span)
    } else {
        Err(format!("look for {least:?} to {} s", most.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_for_no_time_or_for_ever() {
        assert!(over("500ms").is_ok() && over("3600s").is_ok());
        assert!(over("499ms").is_err_and(|told| told.contains("500ms")));
        assert!(over("3601s").is_err() && over("5").is_err());
    }
}
