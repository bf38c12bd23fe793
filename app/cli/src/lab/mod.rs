// SPDX-License-Identifier: Apache-2.0
//! `helio lab`: lines to try things on, in the foreground, governed from standard input in one language; and the
//! measurement of real ones.

mod agenda;
mod copy;
mod disk;
mod govern;
mod link;
mod mirror;
mod orders;
mod record;
mod relay;
mod schedule;
mod search;
mod shape;
mod simhadr;
mod wan;

pub(crate) use agenda::weather_of;
pub(crate) use copy::run as copy;
pub(crate) use disk::run as disk;
pub(crate) use link::run as link;
pub(crate) use record::{answer, record};
pub(crate) use relay::run as relay;
pub(crate) use search::run as search;
pub(crate) use simhadr::run as simhadr;
pub(crate) use wan::run as wan;

use std::io::{self, Write};
use std::time::Duration;

/// Says it at once: a program may be reading.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// A moment in seconds, to the millisecond.
fn seconds(span: Duration) -> String {
    format!("{}s", (span.as_secs_f64() * 1e3).round() / 1e3)
}

/// A delay in milliseconds, to the microsecond.
fn millis(span: Duration) -> String {
    format!("{} ms", (span.as_secs_f64() * 1e6).round() / 1e3)
}
