// SPDX-License-Identifier: Apache-2.0
//! fio's I/O logs (`write_iolog`): version 2 tells waits between requests, version 3 the time of each.
//!
//! Version 2: `FILE add|open|close` and `FILE read|write|trim|sync|datasync|wait OFFSET LENGTH`, where a wait's offset
//! is how many microseconds behind the wait before it what follows begins. Version 3 has microseconds since the start
//! of the job in front of each line (fio 3.33 writes so) and no waits.

use super::gather::{Gather, Wrong};
use super::line::{LineError, Place, whole};
use super::{Reading, TextError};
use crate::{Kind, Request};
use alloc::collections::BTreeMap;
use helio_units::{Extent, Moment};

const MICROSECOND: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct Fio {
    version: Option<u8>,
    gather: Gather,
    /// The time of the line; of version 2, what waits came to.
    now: Moment,
    waits: bool,
}

impl Fio {
    pub(super) fn line(&mut self, number: u64, text: &str) -> Result<(), LineError> {
        match self.version {
            Some(3) => self.of_version_3(number, text),
            Some(_) => self.action(number, text, 0),
            None => {
                self.version = match text.trim() {
                    "fio version 2 iolog" => Some(2),
                    "fio version 3 iolog" => Some(3),
                    other => {
                        let what = "is not the start of an I/O log of fio of version 2 or 3";
                        return Err(LineError::new(number, Place::line(), other, what));
                    }
                };
                Ok(())
            }
        }
    }

    fn of_version_3(&mut self, number: u64, text: &str) -> Result<(), LineError> {
        let text = text.trim_start();
        let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
        let micros = whole(time).and_then(|n| n.checked_mul(MICROSECOND).ok_or("is too large"));
        let place = Place::new(1, "time");
        self.now = Moment(micros.map_err(|what| LineError::new(number, place, time, what))?);
        self.action(number, rest, 1)
    }

    /// `FILE ACTION [OFFSET LENGTH]`, behind so many fields.
    fn action(&mut self, number: u64, text: &str, before: usize) -> Result<(), LineError> {
        let mut fields = text.split_ascii_whitespace();
        let mut next = |place| {
            (
                Place::new(place + before, ["file", "action", "offset", "length"][place - 1]),
                fields.next().unwrap_or_default(),
            )
        };
        let (file, action, offset, length) = (next(1), next(2), next(3), next(4));
        let wrong =
            |(place, found): (Place, &str), what| LineError::new(number, place, found, what);
        if fields.next().is_some() {
            return Err(LineError::new(
                number,
                Place::line(),
                text,
                "has more fields than an I/O log has",
            ));
        }
        let kind = match action.1 {
            "add" | "open" | "close" => return Ok(()),
            "wait" => return self.wait(number, offset),
            "read" => Kind::Read,
            "write" => Kind::Write,
            "trim" => Kind::Discard,
            "sync" | "datasync" => Kind::Flush,
            _ => return Err(wrong(action, "is not an action of an I/O log of fio")),
        };
        let volume = self.gather.volume(file.1).map_err(|what| wrong(file, what))?;
        let extent = match kind {
            Kind::Flush => Extent::default(),
            _ => Extent::new(
                whole(offset.1).map_err(|what| wrong(offset, what))?,
                whole(length.1).map_err(|what| wrong(length, what))?,
            ),
        };
        let request = Request { at: self.now, extent, volume, kind, fua: false };
        self.gather.add(request).map_err(|(field, what)| match field {
            Wrong::Time => wrong((Place::new(1, "time"), ""), what),
            Wrong::Offset => wrong(offset, what),
            Wrong::Length => wrong(length, what),
            Wrong::Line => wrong((Place::line(), text), what),
        })
    }

    fn wait(&mut self, number: u64, (place, found): (Place, &str)) -> Result<(), LineError> {
        let wrong = |what| LineError::new(number, place, found, what);
        if self.version == Some(3) {
            return Err(wrong("is a wait, which version 3 does not have"));
        }
        let micros = whole(found).map_err(wrong)?;
        let later = micros.checked_mul(MICROSECOND).and_then(|span| self.now.0.checked_add(span));
        self.now = Moment(later.ok_or_else(|| wrong("is too large for a time"))?);
        self.waits = true;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Reading, TextError> {
        if self.version == Some(2) && !self.waits && !self.gather.is_empty() {
            let remark = "the log has no times, because it is version 2 without waits: rates have no meaning";
            self.gather.remarks.push(remark.into());
        }
        self.gather.finish(&BTreeMap::new(), None, "the log has no read, write, trim or sync")
    }
}
