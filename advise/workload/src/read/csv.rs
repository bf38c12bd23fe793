// SPDX-License-Identifier: Apache-2.0
//! Values between commas. The first line names the columns, in any order:
//!
//! | column | what |
//! |---|---|
//! | `time_s`, `time_ms`, `time_us` or `time_ns` | when; fractions are fine |
//! | `kind` | `read`, `write`, `zero`, `discard` or `flush` |
//! | `offset_bytes` or `offset_sectors` | where; of 512 bytes |
//! | `length_bytes` or `length_sectors` | how long |
//! | `volume` | which; one volume where the column is missing |
//! | `fua` | 1 where it is answered only once it is durable, otherwise 0; nothing has it where the column is missing |
//!
//! A flush has offset and length 0, or nothing there. Lines that begin with `#` are remarks, two of which mean
//! something: `#span_s,SECONDS` says that times count from zero and how long it lasted, `#volume,NAME,BYTES` how large a
//! volume is.

use super::gather::{Gather, Wrong};
use super::line::{LineError, Place, nanoseconds, whole};
use super::{Reading, TextError};
use crate::{Kind, Request, Workload};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_units::{Bytes, Extent, Moment, SECTOR};

/// What a column holds, and in which unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// In so many nanoseconds.
    Time(u64),
    Kind,
    /// In so many bytes.
    Offset(u64),
    Length(u64),
    Volume,
    Fua,
}

const COLUMNS: [(&str, Column); 11] = [
    ("time_s", Column::Time(1_000_000_000)),
    ("time_ms", Column::Time(1_000_000)),
    ("time_us", Column::Time(1_000)),
    ("time_ns", Column::Time(1)),
    ("kind", Column::Kind),
    ("offset_bytes", Column::Offset(1)),
    ("offset_sectors", Column::Offset(SECTOR)),
    ("length_bytes", Column::Length(1)),
    ("length_sectors", Column::Length(SECTOR)),
    ("volume", Column::Volume),
    ("fua", Column::Fua),
];

/// The volume of lines that name none.
const ONLY_VOLUME: &str = "volume";

#[derive(Debug, Default)]
pub(super) struct Csv {
    columns: Vec<(Column, &'static str)>,
    gather: Gather,
    sizes: BTreeMap<String, Bytes>,
    span: Option<Duration>,
}

impl Csv {
    pub(super) fn line(&mut self, number: u64, text: &str) -> Result<(), LineError> {
        if let Some(remark) = text.strip_prefix('#') {
            self.remark(number, remark)
        } else if self.columns.is_empty() {
            self.head(number, text)
        } else {
            self.request(number, text)
        }
    }

    fn remark(&mut self, number: u64, text: &str) -> Result<(), LineError> {
        let wrong = |field, name, found: &str, what| {
            LineError::new(number, Place::new(field, name), found, what)
        };
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        match fields[..] {
            ["span_s", seconds] => {
                let nanos = nanoseconds(seconds, 1_000_000_000);
                let nanos = nanos.map_err(|what| wrong(2, "seconds", seconds, what))?;
                self.span = Some(Duration::from_nanos(nanos));
            }
            ["volume", name, bytes] => {
                let size = whole(bytes).map_err(|what| wrong(3, "bytes", bytes, what))?;
                self.gather.volume(name).map_err(|what| wrong(2, "name", name, what))?;
                self.sizes.insert(name.into(), Bytes(size));
            }
            ["span_s", ..] => return Err(wrong(1, "header", text, "needs a number of seconds")),
            ["volume", ..] => {
                return Err(wrong(
                    1,
                    "header",
                    text,
                    "needs a name, without commas, and its bytes",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn head(&mut self, number: u64, text: &str) -> Result<(), LineError> {
        let mut columns: Vec<(Column, &'static str)> = Vec::new();
        for (at, name) in text.split(',').map(str::trim).enumerate() {
            let wrong = |what| LineError::new(number, Place::new(at + 1, "column"), name, what);
            let Some((name, column)) = COLUMNS.iter().find(|(known, _)| *known == name) else {
                return Err(wrong(match name {
                    "time" => "has no unit: use time_s, time_ms, time_us or time_ns",
                    "offset" => "has no unit: use offset_bytes or offset_sectors",
                    "length" | "size" => "has no unit: use length_bytes or length_sectors",
                    _ => {
                        "is not a column: use time_s, kind, offset_bytes, length_bytes, volume, fua"
                    }
                }));
            };
            let same = |of: &(Column, _)| {
                core::mem::discriminant(&of.0) == core::mem::discriminant(column)
            };
            if columns.iter().any(same) {
                return Err(wrong("repeats another column"));
            }
            columns.push((*column, name));
        }
        let has = |wanted: fn(&Column) -> bool| columns.iter().any(|(column, _)| wanted(column));
        let whole_line = |what| LineError::new(number, Place::line(), text, what);
        if !has(|c| matches!(c, Column::Time(_))) {
            return Err(whole_line(
                "has no column for the time: time_s, time_ms, time_us or time_ns",
            ));
        }
        if !has(|c| *c == Column::Kind) {
            return Err(whole_line("has no column kind"));
        }
        if !has(|c| matches!(c, Column::Offset(_))) || !has(|c| matches!(c, Column::Length(_))) {
            return Err(whole_line("has no column offset_bytes or length_bytes"));
        }
        self.columns = columns;
        Ok(())
    }

    fn request(&mut self, number: u64, text: &str) -> Result<(), LineError> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != self.columns.len() {
            let what = "does not have as many fields as the first line has columns";
            return Err(LineError::new(number, Place::line(), text, what));
        }
        let (mut at, mut kind, mut fua) = (0, Kind::Flush, false);
        let (mut extent, mut volume) = (Extent::default(), ONLY_VOLUME);
        let mut places = [Place::line(); 4];
        for (n, (found, (column, name))) in fields.iter().copied().zip(&self.columns).enumerate() {
            let place = Place::new(n + 1, name);
            let wrong = |what| LineError::new(number, place, found, what);
            let bytes = |unit: u64| match found {
                "" => Ok(0),
                _ => whole(found).and_then(|n| n.checked_mul(unit).ok_or("is beyond 8 EiB")),
            };
            match column {
                Column::Time(unit) => {
                    (at, places[0]) = (nanoseconds(found, *unit).map_err(wrong)?, place);
                }
                Column::Offset(unit) => {
                    (extent.offset, places[1]) = (bytes(*unit).map_err(wrong)?, place);
                }
                Column::Length(unit) => {
                    (extent.length, places[2]) = (bytes(*unit).map_err(wrong)?, place);
                }
                Column::Kind => {
                    let known = Kind::from_word(found);
                    kind =
                        known.ok_or_else(|| wrong("is not read, write, zero, discard or flush"))?;
                }
                Column::Volume => (volume, places[3]) = (found, place),
                Column::Fua => {
                    fua = match found {
                        "0" | "" => false,
                        "1" => true,
                        _ => return Err(wrong("is neither 0 nor 1")),
                    };
                }
            }
        }
        let found = |place: Place| LineError::new(number, place, "", "");
        let wrong = |place: Place, what| {
            let at = found(place).field();
            LineError::new(number, place, at.map_or(text, |at| fields[at - 1]), what)
        };
        if self.sizes.get(volume).is_some_and(|size| extent.end() > size.0) {
            return Err(wrong(places[1], "and its length exceed the end of the volume"));
        }
        if self.span.is_some_and(|span| Duration::from_nanos(at) > span) {
            return Err(wrong(places[0], "is after the end of the workload (#span_s)"));
        }
        let volume = self.gather.volume(volume).map_err(|what| wrong(places[3], what))?;
        let request = Request { at: Moment(at), extent, volume, kind, fua };
        self.gather.add(request).map_err(|(field, what)| match field {
            Wrong::Time => wrong(places[0], what),
            Wrong::Offset => wrong(places[1], what),
            Wrong::Length => wrong(places[2], what),
            Wrong::Line => wrong(Place::line(), what),
        })
    }

    pub(super) fn finish(self) -> Result<Reading, TextError> {
        let nothing = "a first line that names the columns, then a line for each request";
        self.gather.finish(&self.sizes, self.span, nothing)
    }
}

/// The workload as CSV, a line at a time; what [`super::TextReader`] reads from it is the workload again, but for names of
/// volumes with what CSV cannot have in one: `8,0`, as blkparse calls a disk, becomes `8:0`.
pub fn write_csv<E>(
    workload: &Workload,
    mut line: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let seconds = |span: Duration| format!("{}.{:09}", span.as_secs(), span.subsec_nanos());
    line(&format!("#span_s,{}", seconds(workload.span())))?;
    let names = plain_names(workload);
    for (name, volume) in names.iter().zip(workload.volumes()) {
        line(&format!("#volume,{name},{}", volume.size.0))?;
    }
    line("time_s,volume,kind,offset_bytes,length_bytes,fua")?;
    for request in workload.requests() {
        let Request { at, extent, volume, kind, fua } = *request;
        line(&format!(
            "{},{},{kind},{},{},{}",
            seconds(at - Moment::ZERO),
            names[usize::from(volume.0)],
            extent.offset,
            extent.length,
            u8::from(fua)
        ))?;
    }
    Ok(())
}

/// Names that hold no comma, nor spaces at their ends, and are still different.
fn plain_names(workload: &Workload) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for volume in workload.volumes() {
        let mut name = volume.name.trim().replace([',', '\n'], ":");
        while names.contains(&name) {
            name.push('+');
        }
        names.push(name);
    }
    names
}
