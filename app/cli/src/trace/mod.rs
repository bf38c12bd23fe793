// SPDX-License-Identifier: Apache-2.0
//! `helio trace`: recordings of what applications ask, begun and ended on a node, and read from files of any origin.

mod file;
mod json;
mod text;

use crate::args::{At, Trace};
use crate::client::Client;
use crate::verbs::{accepted, print};
use anyhow::{Context, Result, bail};
use helio_api::{Accepted, TraceRequest, paths};
use helio_units::Bytes;
use helio_workload::Summary;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(verb: Trace) -> Result<ExitCode> {
    match verb {
        Trace::Start { group, file, limit, lasting, at } => {
            start(&at, &group, file, limit, lasting)
        }
        Trace::Stop { group, at } => stop(&at, &group),
        Trace::Show { file, format, every, json } => {
            show(&file, format.map(Into::into), every, json)
        }
        Trace::Convert { file, to, format } => convert(&file, &to, format.map(Into::into)),
    }
}

fn start(
    at: &At,
    group: &str,
    file: Option<PathBuf>,
    limit_bytes: Option<Bytes>,
    for_seconds: Option<Duration>,
) -> Result<ExitCode> {
    // The daemon has a working directory of its own, so a file near us must be named from the root.
    let file = file.map(std::path::absolute).transpose().context("--file")?;
    let file = file.map(|path| path.to_string_lossy().into_owned());
    let wish = TraceRequest { file, limit_bytes, for_seconds };
    let done: Accepted =
        Client::new(at)?.post(&paths::of_group(paths::TRACE_START, group), &wish)?;
    accepted(&done)
}

fn stop(at: &At, group: &str) -> Result<ExitCode> {
    let done: Accepted = Client::new(at)?.post(&paths::of_group(paths::TRACE_STOP, group), &())?;
    accepted(&done)
}

fn show(
    path: &Path,
    format: Option<helio_workload::Format>,
    every: Option<Duration>,
    json: bool,
) -> Result<ExitCode> {
    if every.is_some_and(|every| every.is_zero()) {
        bail!("--every 0: steps of no length\n  hint: say one, as 1s");
    }
    let (format, reading) = file::read(path, format)?;
    let summary = Summary::of(&reading.workload, every);
    let text = if json {
        serde_json::to_string_pretty(&json::of(format, &reading, &summary))? + "\n"
    } else {
        text::of(path, format, &reading, &summary)
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn convert(from: &Path, to: &Path, format: Option<helio_workload::Format>) -> Result<ExitCode> {
    let (_, reading) = file::read(from, format)?;
    for remark in &reading.remarks {
        eprintln!("warning: {}: {remark}", from.display());
    }
    file::write(to, &reading)?;
    let count = reading.workload.requests().len();
    print(&format!("{count} requests are written to {}\n", to.display()))?;
    Ok(ExitCode::SUCCESS)
}
