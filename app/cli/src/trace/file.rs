// SPDX-License-Identifier: Apache-2.0
//! Files of traces, read and written.

use crate::newfile;
use crate::verbs::unreadable;
use anyhow::{Context, Result, anyhow};
use crc_fast::CrcAlgorithm;
use helio_workload::{Format, Reading, TextReader, read_recorded, write_csv, write_recorded};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// What is read at a time; the format is told by what comes first.
const PIECE: usize = 1 << 16;
/// A line that is longer is none: it is refused before the rest of it is read.
const LINE: u64 = 1 << 13;

fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// What a file holds, in the format that is said or that it begins like.
pub(super) fn read(path: &Path, format: Option<Format>) -> Result<(Format, Reading)> {
    let name = || path.display().to_string();
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(unreadable(path))?)
    };
    let mut source = BufReader::with_capacity(PIECE, source);
    let guessed = Format::guess(source.fill_buf().map_err(unreadable(path))?);
    let format = format.or(guessed).ok_or_else(|| {
        anyhow!("unrecognised trace format (expected helio, blkparse, fio iolog or CSV)\n  hint: give it with \
                 --format")
    });
    let format = format.with_context(name)?;
    let reading = match TextReader::new(format) {
        Some(reader) => lines(source, reader),
        None => read_recorded(|buffer| source.read(buffer), checksum).map_err(|error| {
            anyhow!("{error}\n  hint: record it again, or give its format with --format")
        }),
    };
    Ok((format, reading.with_context(name)?))
}

fn lines(mut source: impl BufRead, mut reader: TextReader) -> Result<Reading> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if source.by_ref().take(LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        reader.line(&line).map_err(|error| {
            anyhow!("{error}\n  hint: repair the line, or remove it; a truncated last line can be removed")
        })?;
    }
    Ok(reader.finish()?)
}

/// Writes a new file: CSV where its name ends so, otherwise a trace of our own.
pub(super) fn write(path: &Path, reading: &Reading) -> Result<()> {
    let name = || path.display().to_string();
    newfile::check(path, "what is converted")?;
    let file = File::create_new(path).with_context(name)?;
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
    written
        .with_context(|| format!("cannot write {}; hint: free space on its disk", path.display()))
}
