// SPDX-License-Identifier: Apache-2.0
//! `helio lab`: lines to try things on, in the foreground, governed from standard input in one language.

mod orders;
mod relay;
mod shape;
mod wan;

pub(crate) use relay::run as relay;
pub(crate) use shape::Shape;
pub(crate) use wan::run as wan;

use std::io::{self, Write};

/// Says it at once: a program may be reading.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
