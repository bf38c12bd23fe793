// SPDX-License-Identifier: Apache-2.0
//! A workload from a file, whatever tool wrote it.

use crate::failure::{failed, unreadable};
use anyhow::{Result, anyhow};
use helio_workload::{Format, Reading, TextReader, read_recorded};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes a format is guessed by.
const BEGINNING: usize = 4096;
/// What helps if a trace is damaged.
const RECORD: &str = "record it again";

/// Reads a file.
pub(super) fn load(path: &Path) -> Result<Reading> {
    let of = || path.display().to_string();
    let file = File::open(path).map_err(unreadable(path))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let beginning = file.fill_buf().map_err(unreadable(path))?;
    let format = Format::guess(&beginning[..beginning.len().min(BEGINNING)])
        .ok_or_else(|| {
            anyhow!(
                "{}: unrecognised trace format\n  hint: name a helio trace, the output of blkparse, a fio iolog or a CSV file",
                of()
            )
        })?;
    let Some(mut reader) = TextReader::new(format) else {
        return read_recorded(|buffer| file.read(buffer), helio_link::checksum)
            .map_err(failed(of(), RECORD));
    };
    let mut line = Vec::new();
    // A line that never ends is cut where no line of a trace is that long; the reader then names it.
    while file.by_ref().take(1 << 16).read_until(b'\n', &mut line).map_err(unreadable(path))? > 0 {
        reader.line(&line).map_err(failed(of(), "repair or remove the line"))?;
        line.clear();
    }
    reader.finish().map_err(failed(of(), RECORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<Reading> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("work.csv");
        std::fs::write(&path, text).expect("it is written");
        load(&path)
    }

    #[test]
    fn a_file_is_known_by_its_beginning_and_errors_name_file_and_line() {
        let head = "time_s,kind,offset_bytes,length_bytes\n";
        let read = loaded(&format!("{head}0.5,write,0,4096\n1.5,flush,,\n"));
        assert_eq!(read.expect("two requests").workload.requests().len(), 2);
        let error = loaded(&format!("{head}0.5,write,0,4096\n0.6,wrote,0,4096\n"))
            .expect_err("no such word");
        let told = error.to_string();
        assert!(told.contains("work.csv") && told.contains("line 3"), "{told}");
        let error = loaded("hello\n").expect_err("no format").to_string();
        assert!(error.contains("blkparse"), "{error}");
        assert!(load(Path::new("/nowhere/at-all")).is_err());
    }
}
