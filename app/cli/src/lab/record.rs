// SPDX-License-Identifier: Apache-2.0
//! `helio lab record` and `helio lab answer`: what a real link is like, into a file.

use super::link::tell;
use super::shape::{Change, Shape};
use super::{say, seconds};
use crate::args::{Answer, Record};
use crate::failure::unwritable;
use crate::newfile;
use crate::stopping::{Second, Stopping};
use anyhow::{Result, bail};
use helio_lab::{Asking, Listen, Stage, run_answer, run_record};
use helio_netmodel::{WayWeather, WeatherWriter};
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Records, and says every row as it is written.
///
/// # Errors
/// The file is there or cannot be written, or nobody is at the other end.
pub(crate) fn record(it: Record, patience: Duration) -> Result<ExitCode> {
    let shown = it.file.display();
    newfile::check(&it.file, "the recording")?;
    let asking = Asking {
        remote: it.remote,
        local: it.local,
        time: it.time,
        every: it.every,
        probe: it.probe,
        rates: (!it.no_rate).then_some(it.rate_every),
        patience,
    };
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: false };
    let mut file = None;
    let (mut writer, head) = WeatherWriter::begin(helio_link::checksum);
    let (mut rows, mut last) = (0_u64, Duration::ZERO);
    let lasts = run_record(&asking, &stage, &mut |row| {
        // Made when there is something to write.
        let file = match &mut file {
            Some(file) => file,
            none => {
                let made = OpenOptions::new().write(true).create_new(true).open(&it.file)?;
                let made = none.insert(made);
                made.write_all(head.as_bytes())?;
                made
            }
        };
        file.write_all(writer.row(row).as_bytes())?;
        (rows, last) = (rows + 1, row.at);
        let way = WayWeather::default();
        let mut shape = Shape { rtt: Duration::ZERO, there: way, back: way, queue: None };
        shape.change(Change::Weather(*row));
        say(&format!("at {}: {shape}", seconds(row.at)))
    });
    // What was recorded before it broke off is whole, too.
    let Some(mut file) = file else {
        lasts?;
        bail!(
            "interrupted before anything was recorded; {shown} is not made\n  hint: record for longer"
        );
    };
    // A signal may come at once behind the beginning of a row.
    let least = last + Duration::from_millis(1);
    let until = lasts.as_ref().map_or(least, |lasts| least.max(*lasts));
    let end = writer.end(until);
    let written = file.write_all(end.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(unwritable(&it.file))?;
    lasts?;
    let long = seconds(until);
    say(&format!("{shown}: {rows} rows, {long}; to replay it: helio lab wan --recording {shown}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Answers until a signal.
///
/// # Errors
/// It may not or cannot listen there.
pub(crate) fn answer(it: Answer) -> Result<ExitCode> {
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: false };
    run_answer(Listen { local: it.local, remote: it.remote }, &stage)?;
    Ok(ExitCode::SUCCESS)
}
