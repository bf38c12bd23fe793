// SPDX-License-Identifier: Apache-2.0
//! Workloads from files: traces of our own, and what other tools write. Bytes and lines are handed in; nothing here
//! opens a file. Whatever they hold, the answer is a workload whose promises hold, or an error that names the place.

mod blkparse;
mod csv;
mod fio;
mod gather;
mod line;
mod recorded;

use crate::{Workload, WorkloadError};
use alloc::string::String;
use alloc::vec::Vec;
use blkparse::Blkparse;
use core::fmt;
use csv::Csv;
pub use csv::write_csv;
use fio::Fio;
use helio_format::trace::MAGIC;
use helio_units::WallTime;
pub use line::LineError;
use line::Place;
pub use recorded::{ReadError, read_recorded, write_recorded};

/// What a file of a workload looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What `helio trace start` records.
    Recorded,
    /// What `blkparse` prints of what `blktrace` recorded.
    Blkparse,
    /// What fio's `write_iolog` writes, version 2 or 3.
    Fio,
    /// Lines of values between commas, under a line that names them.
    Csv,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Recorded, Self::Blkparse, Self::Fio, Self::Csv];

    /// The word on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Recorded => "helio",
            Self::Blkparse => "blkparse",
            Self::Fio => "fio",
            Self::Csv => "csv",
        }
    }

    /// The format that a file with this beginning has, where it can be told. A few hundred bytes are enough.
    #[must_use]
    pub fn guess(beginning: &[u8]) -> Option<Self> {
        if beginning.starts_with(&MAGIC) {
            return Some(Self::Recorded);
        }
        let mut lines = beginning.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.find(|line| !line.is_empty())?;
        if first.starts_with(b"fio version") {
            Some(Self::Fio)
        } else if blkparse::looks_so(first) {
            Some(Self::Blkparse)
        } else if first.starts_with(b"#") || first.contains(&b',') {
            Some(Self::Csv)
        } else {
            None
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The workload.
    pub workload: Workload,
    /// The group it was recorded of, where the file says so.
    pub group: Option<String>,
    /// When it began, where the file says so.
    pub began: Option<WallTime>,
    /// What whoever relies on it should know: what is missing, and what was taken for granted.
    pub remarks: Vec<String>,
}

/// Why lines are no workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextError {
    /// A line cannot be read.
    Line(LineError),
    /// There is no request in it; why that may be.
    Nothing(&'static str),
    /// What came together is no workload.
    Workload(WorkloadError),
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(error) => error.fmt(f),
            Self::Nothing(why) => write!(f, "it has no requests: {why}"),
            Self::Workload(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TextError {}

/// The longest line there is, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Reads a text, line by line.
#[derive(Debug)]
pub struct TextReader {
    lines: u64,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Blkparse(Blkparse),
    Fio(Fio),
    Csv(Csv),
}

impl TextReader {
    /// A reader of that format; none for [`Format::Recorded`], which is no text.
    #[must_use]
    pub fn new(format: Format) -> Option<Self> {
        let of = match format {
            Format::Recorded => return None,
            Format::Blkparse => Of::Blkparse(Blkparse::default()),
            Format::Fio => Of::Fio(Fio::default()),
            Format::Csv => Of::Csv(Csv::default()),
        };
        Some(Self { lines: 0, of })
    }

    /// Reads the next line, with or without its end.
    ///
    /// # Errors
    /// Names the line and the field.
    pub fn line(&mut self, line: &[u8]) -> Result<(), LineError> {
        self.lines += 1;
        let number = self.lines;
        let whole = |what| LineError::new(number, Place::line(), "", what);
        if line.len() > LINE_BYTES_MAX {
            return Err(whole("is longer than any line of a trace"));
        }
        let text = core::str::from_utf8(line).map_err(|_| whole("is not text"))?.trim_end();
        if text.trim_start().is_empty() {
            return Ok(());
        }
        match &mut self.of {
            Of::Blkparse(reader) => reader.line(number, text),
            Of::Fio(reader) => reader.line(number, text),
            Of::Csv(reader) => reader.line(number, text),
        }
    }

    /// What all lines come to.
    ///
    /// # Errors
    /// They have no request, or break a bound.
    pub fn finish(self) -> Result<Reading, TextError> {
        match self.of {
            Of::Blkparse(reader) => reader.finish(),
            Of::Fio(reader) => reader.finish(),
            Of::Csv(reader) => reader.finish(),
        }
    }
}

#[cfg(test)]
mod tests;
