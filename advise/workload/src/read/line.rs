// SPDX-License-Identifier: Apache-2.0
//! Lines, their fields, and what is wrong with them.

use alloc::string::String;
use core::fmt;

/// How much of a field an error repeats, in characters.
const SHOWN: usize = 40;

/// A field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Counted from 1; 0 is the whole line.
    number: usize,
    name: &'static str,
}

impl Place {
    pub(super) const fn new(number: usize, name: &'static str) -> Self {
        Self { number, name }
    }

    pub(super) const fn line() -> Self {
        Self::new(0, "")
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Which line, counted from 1.
    pub line: u64,
    place: Place,
    found: String,
    what: &'static str,
}

impl LineError {
    pub(super) fn new(line: u64, place: Place, found: &str, what: &'static str) -> Self {
        Self { line, place, found: found.chars().take(SHOWN).collect(), what }
    }

    /// Which field, counted from 1; none where it is the whole line.
    #[must_use]
    pub fn field(&self) -> Option<usize> {
        (self.place.number > 0).then_some(self.place.number)
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { number, name } = self.place;
        write!(f, "line {}", self.line)?;
        if number > 0 {
            write!(f, ", field {number} ({name})")?;
        }
        match self.found.as_str() {
            "" => write!(f, ": {}", self.what),
            found => write!(f, ": {found:?} {}", self.what),
        }
    }
}

impl core::error::Error for LineError {}

/// Why a text is no number.
pub(super) type Fault = &'static str;

/// A whole number.
pub(super) fn whole(text: &str) -> Result<u64, Fault> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a whole number");
    }
    text.parse().map_err(|_| "is too large for a size or a time")
}

/// A decimal number of units of `unit` nanoseconds, in nanoseconds, exact; what is finer is cut off.
pub(super) fn nanoseconds(text: &str, unit: u64) -> Result<u64, Fault> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let large = "is too large for a time";
    let whole = whole(seconds)?.checked_mul(unit).ok_or(large)?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a number");
    }
    let mut unit = unit;
    let mut part = 0;
    for digit in fraction.bytes() {
        // Units are powers of ten; below a nanosecond nothing is left.
        unit /= 10;
        part += u64::from(digit - b'0') * unit;
    }
    whole.checked_add(part).ok_or(large)
}
