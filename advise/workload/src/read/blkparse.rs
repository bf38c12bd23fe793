// SPDX-License-Identifier: Apache-2.0
//! What `blkparse` prints, in its own default form:
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [kjournald]
//! device  cpu  sequence  seconds        pid  action  kind  sector + sectors
//! ```
//! Only requests as they were queued (action `Q`) are what applications asked; all others tell what became of them.
//! In the kind, `F` in front is a flush before the request and behind it FUA; `N` with sectors is a write of zeros.

use super::gather::{Gather, Wrong};
use super::line::{LineError, Place, nanoseconds, whole};
use super::{Reading, TextError};
use crate::{Kind, Request};
use alloc::collections::BTreeMap;
use alloc::format;
use helio_units::{Extent, Moment, SECTOR};

const DEVICE: Place = Place::new(1, "device");
const TIME: Place = Place::new(4, "seconds");
const ACTION: Place = Place::new(6, "action");
const KIND: Place = Place::new(7, "kind");
const OFFSET: Place = Place::new(8, "sector");
const LENGTH: Place = Place::new(10, "sectors");

/// What the summary behind the requests begins with.
const SUMMARY: [&str; 3] = ["CPU", "Total", "Input file"];

#[derive(Debug, Default)]
pub(super) struct Blkparse {
    gather: Gather,
    others: u64,
    summary: bool,
}

/// Whether a line may be one of blkparse.
pub(super) fn looks_so(line: &[u8]) -> bool {
    let device = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    core::str::from_utf8(device).is_ok_and(is_device) && line.len() > device.len()
}

/// `MAJOR,MINOR`.
fn is_device(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once(',').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// What the letters of a kind say: a flush before it, what it does itself, and FUA.
fn letters(text: &str) -> Option<(bool, Option<Kind>, bool)> {
    let (before, rest) = match text.strip_prefix('F') {
        // Alone, or before modifiers, it is a flush and nothing else.
        Some(rest) if rest.starts_with(['W', 'R', 'D', 'N']) => (true, rest),
        Some(rest) => {
            let plain = rest.bytes().all(|letter| b"FASMU".contains(&letter));
            return plain.then_some((true, None, false));
        }
        None => (false, text),
    };
    let kind = match rest.as_bytes().first()? {
        b'R' => Kind::Read,
        b'W' => Kind::Write,
        b'D' => Kind::Discard,
        b'N' => Kind::Zero,
        _ => return None,
    };
    let modifiers = &rest.as_bytes()[1..];
    let known = modifiers.iter().all(|letter| b"FASMUE".contains(letter));
    known.then_some((before, Some(kind), modifiers.contains(&b'F') && kind.changes()))
}

impl Blkparse {
    pub(super) fn line(&mut self, number: u64, text: &str) -> Result<(), LineError> {
        if self.summary {
            return Ok(());
        }
        let wrong = |place, found: &str, what| LineError::new(number, place, found, what);
        let mut fields = text.split_ascii_whitespace();
        let mut next = || fields.next().unwrap_or_default();
        let device = next();
        if !is_device(device) {
            if SUMMARY.iter().any(|word| text.starts_with(word)) {
                self.summary = true;
                return Ok(());
            }
            return Err(wrong(
                DEVICE,
                device,
                "is not a device such as 8,0; use the default output format of blkparse",
            ));
        }
        let (_cpu, _sequence, time, _pid, action) = (next(), next(), next(), next(), next());
        let at = nanoseconds(time, 1_000_000_000).map_err(|what| wrong(TIME, time, what))?;
        match action {
            "Q" => {}
            "" => return Err(wrong(ACTION, "", "is missing: the line is truncated")),
            _ => {
                self.others += 1;
                return Ok(());
            }
        }
        let kind = next();
        let (before, itself, fua) =
            letters(kind).ok_or_else(|| wrong(KIND, kind, "is not a kind of request"))?;
        let volume = self.gather.volume(device).map_err(|what| wrong(DEVICE, device, what))?;
        let sector = next();
        let dataless = sector.is_empty() || sector.starts_with('[');
        let flush = Request {
            at: Moment(at),
            extent: Extent::default(),
            volume,
            kind: Kind::Flush,
            fua: false,
        };
        let told = |(field, what): (Wrong, _), sectors: &str| match field {
            Wrong::Time => wrong(TIME, time, what),
            Wrong::Offset => wrong(OFFSET, sector, what),
            Wrong::Length => wrong(LENGTH, sectors, what),
            Wrong::Line => wrong(Place::line(), text, what),
        };
        if before {
            self.gather.add(flush).map_err(|fault| told(fault, ""))?;
        }
        let Some(kind) = itself.filter(|_| !(before && dataless)) else { return Ok(()) };
        let (plus, sectors) = (next(), next());
        if plus != "+" {
            return Err(wrong(Place::new(9, "+"), plus, "is not the + between sector and sectors"));
        }
        let bytes = |place, text: &str| {
            let count = whole(text).map_err(|what| wrong(place, text, what))?;
            count.checked_mul(SECTOR).ok_or_else(|| wrong(place, text, "is beyond 8 EiB"))
        };
        if before && sectors == "0" {
            return Ok(());
        }
        let extent = Extent::new(bytes(OFFSET, sector)?, bytes(LENGTH, sectors)?);
        let request = Request { extent, kind, fua, ..flush };
        self.gather.add(request).map_err(|fault| told(fault, sectors))
    }

    pub(super) fn finish(mut self) -> Result<Reading, TextError> {
        if self.others > 0 {
            let remark =
                format!("{} lines describe later steps of requests and are ignored", self.others);
            self.gather.remarks.push(remark);
        }
        let nothing = "no line has the action Q; record with `blktrace -a queue`, or all actions";
        self.gather.finish(&BTreeMap::new(), None, nothing)
    }
}
