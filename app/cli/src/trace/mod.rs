// SPDX-License-Identifier: Apache-2.0
//! `helio trace`: recordings of what applications ask, begun and ended on a node, and read from files of any origin.

mod file;
mod json;
mod text;

use crate::args::{At, OfGroup, Trace};
use crate::client::Client;
use crate::failure::failed;
use crate::verbs::{accepted, done, plain, print};
use crate::which;
use anyhow::{Result, bail};
use helio_api::{Accepted, TraceRequest, paths};
use helio_units::Bytes;
use helio_workload::Summary;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(at: &At, verb: Trace) -> Result<ExitCode> {
    match verb {
        Trace::Start { of, file, limit, lasting } => start(at, of, file, limit, lasting),
        Trace::Stop(of) => plain(at, paths::TRACE_STOP, of),
        Trace::Show { file, format, every, json } => {
            show(&file, format.map(Into::into), every, json)
        }
        Trace::Convert { file, to, format, json } => {
            convert(&file, &to, format.map(Into::into), json)
        }
    }
}

fn start(
    at: &At,
    of: OfGroup,
    file: Option<PathBuf>,
    limit_bytes: Option<Bytes>,
    for_seconds: Option<Duration>,
) -> Result<ExitCode> {
    // The daemon has a working directory of its own, so a file near us must be named from the root.
    let file = file
        .map(std::path::absolute)
        .transpose()
        .map_err(failed("--file", "give the path from the root, /..."))?;
    let file = file.map(|path| path.to_string_lossy().into_owned());
    let wish = TraceRequest { file, limit_bytes, for_seconds };
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let done: Accepted = client.post(&paths::of_group(paths::TRACE_START, &group), &wish)?;
    accepted(&done, of.json)
}

fn show(
    path: &Path,
    format: Option<helio_workload::Format>,
    every: Option<Duration>,
    json: bool,
) -> Result<ExitCode> {
    if every.is_some_and(|every| every.is_zero()) {
        bail!("--every must be greater than zero\n  hint: give a time, for example --every 1s");
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

fn convert(
    from: &Path,
    to: &Path,
    format: Option<helio_workload::Format>,
    json: bool,
) -> Result<ExitCode> {
    let (_, reading) = file::read(from, format)?;
    let remark = |remark: &String| format!("{}: {remark}", from.display());
    let warnings = reading.remarks.iter().map(remark).collect();
    file::write(to, &reading)?;
    let count = reading.workload.requests().len();
    done(format!("{count} requests are written to {}", to.display()), warnings, json)
}
