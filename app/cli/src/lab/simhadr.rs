// SPDX-License-Identifier: Apache-2.0
//! `helio simhadr`: IBM's HADR simulator by its own options and words.

use crate::stopping::{Second, Stopping};
use anyhow::Result;
use helio_lab::simhadr;
use std::io::Write;
use std::process::ExitCode;

/// Runs one end.
///
/// # Errors
/// The options are wrong, nobody is at the other end, or the run breaks off.
pub(crate) fn run(options: &[String]) -> Result<ExitCode> {
    // IBM's lists its options where none is given; our users ask as everywhere else.
    let asks = matches!(options, [only] if ["-h", "-help", "--help"].contains(&only.as_str()));
    let options = if asks { &[] } else { options };
    let stopping = Stopping::catch(Second::Waits)?;
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        // Nobody who reads is no reason to end: the other end prints its side, too.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    };
    let warn = |text: &str| eprintln!("warning: {text}");
    simhadr::run(options, &say, &warn, stopping.flag())?;
    Ok(ExitCode::SUCCESS)
}
