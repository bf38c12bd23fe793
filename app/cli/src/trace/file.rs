// SPDX-License-Identifier: Apache-2.0
//! Files of traces, read and written.

use crate::failure::{failed, named, unreadable, unwritable};
use crate::newfile;
use anyhow::{Result, anyhow};
use helio_link::checksum;
use helio_workload::{Format, Reading, TextReader, read_recorded, write_csv, write_recorded};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// What is read at a time; the format is told by what comes first.
const PIECE: usize = 1 << 16;
/// A line that is longer is none: it is refused before the rest of it is read.
const LINE: u64 = 1 << 13;

/// What a file holds, in the format that is said or that it begins like.
pub(super) fn read(path: &Path, format: Option<Format>) -> Result<(Format, Reading)> {
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(unreadable(path))?)
    };
    let mut source = BufReader::with_capacity(PIECE, source);
    let guessed = Format::guess(source.fill_buf().map_err(unreadable(path))?);
    let format = format.or(guessed).ok_or_else(|| {
        anyhow!(
            "{}: unrecognised trace format\n  hint: name it with --format: helio, blkparse, fio or csv",
            path.display()
        )
    })?;
    let reading = match TextReader::new(format) {
        Some(reader) => lines(source, reader),
        None => read_recorded(|buffer| source.read(buffer), checksum).map_err(|error| {
            anyhow!("{error}\n  hint: record it again, or name its format with --format")
        }),
    };
    Ok((format, reading.map_err(named(path.display()))?))
}

fn lines(mut source: impl BufRead, mut reader: TextReader) -> Result<Reading> {
    let mut line = Vec::new();
    let broken = |why: io::Error| failed("the trace ends here", "check its disk")(why);
    loop {
        line.clear();
        if source.by_ref().take(LINE).read_until(b'\n', &mut line).map_err(broken)? == 0 {
            break;
        }
        reader.line(&line).map_err(|error| {
            anyhow!("{error}\n  hint: repair or remove the line; remove an incomplete last line")
        })?;
    }
    reader.finish().map_err(failed("the trace is incomplete", "record it again"))
}

/// Writes a new file: CSV where its name ends so, otherwise a trace of our own.
pub(super) fn write(path: &Path, reading: &Reading) -> Result<()> {
    newfile::check(path, "the new trace")?;
    let file = File::create_new(path).map_err(unwritable(path))?;
    let mut to = BufWriter::with_capacity(PIECE, file);
    let csv = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
    let written = if csv {
        write_csv(&reading.workload, |line| writeln!(to, "{line}"))
    } else {
        write_recorded(reading, checksum, |bytes| to.write_all(bytes))
    };
    let written = written.and_then(|()| to.flush());
    if written.is_err() {
        // Half a trace is none.
        let _left = std::fs::remove_file(path);
    }
    written.map_err(unwritable(path))
}
