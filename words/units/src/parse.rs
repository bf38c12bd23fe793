// SPDX-License-Identifier: Apache-2.0
//! Sizes, times and rates as people write them: `64MiB`, `6s`, `100Mbit/s`.

use crate::{Bytes, Rate};
use core::fmt;
use core::time::Duration;

/// Why a quantity was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It does not begin with a number.
    NotANumber,
    /// The unit is missing or unknown; the units that would do.
    Unit(&'static str),
    /// The value does not fit.
    TooLarge,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => f.write_str("does not begin with a number"),
            Self::Unit(known) => write!(f, "needs a unit: {known}"),
            Self::TooLarge => f.write_str("is too large"),
        }
    }
}

impl core::error::Error for ParseError {}

/// Splits `64MiB` into 64 and `MiB`. Fractions and spaces before the unit are allowed.
fn split(text: &str) -> Result<(f64, &str), ParseError> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..at].parse::<f64>().map_err(|_| ParseError::NotANumber)?;
    Ok((number, text[at..].trim()))
}

/// Scales, refusing what would lose meaning in a `u64`.
fn scale(number: f64, factor: f64) -> Result<u64, ParseError> {
    let value = number * factor;
    if value.is_finite() && value < 9.0e18 { Ok(value as u64) } else { Err(ParseError::TooLarge) }
}

/// Reads a size. `MB` is 10^6 and `MiB` is 2^20; a bare number is refused, since the field's tools mix the two.
///
/// # Errors
/// Names what is wrong with the text.
pub fn parse_bytes(text: &str) -> Result<Bytes, ParseError> {
    const KNOWN: &str = "B, KiB, MiB, GiB, TiB (2^10 steps) or kB, MB, GB, TB (10^3 steps)";
    let (number, unit) = split(text)?;
    let factor = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return Err(ParseError::Unit(KNOWN)),
    };
    scale(number, factor).map(Bytes)
}

/// Reads a span: `250ms`, `6s`, `2min`.
///
/// # Errors
/// Names what is wrong with the text.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    const KNOWN: &str = "us, ms, s, min or h";
    let (number, unit) = split(text)?;
    let nanos = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(ParseError::Unit(KNOWN)),
    };
    scale(number, nanos).map(Duration::from_nanos)
}

/// Reads a rate: `100Mbit/s`, `1Gbit/s`, `12.5MB/s`, `4MiB/s`.
///
/// # Errors
/// Names what is wrong with the text.
pub fn parse_rate(text: &str) -> Result<Rate, ParseError> {
    const KNOWN: &str = "kbit/s, Mbit/s, Gbit/s, kB/s, MB/s, GB/s, KiB/s, MiB/s or GiB/s";
    let (number, unit) = split(text)?;
    let factor = match unit {
        "kbit/s" => 1e3 / 8.0,
        "Mbit/s" => 1e6 / 8.0,
        "Gbit/s" => 1e9 / 8.0,
        "kB/s" => 1e3,
        "MB/s" => 1e6,
        "GB/s" => 1e9,
        "KiB/s" => 1024.0,
        "MiB/s" => 1024.0 * 1024.0,
        "GiB/s" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(ParseError::Unit(KNOWN)),
    };
    scale(number, factor).map(Rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_binary_units_are_kept_apart() {
        assert_eq!(parse_bytes("64MiB"), Ok(Bytes(67_108_864)));
        assert_eq!(parse_bytes("64 MB"), Ok(Bytes(64_000_000)));
        assert_eq!(parse_bytes("1.5KiB"), Ok(Bytes(1536)));
        assert_eq!(parse_rate("100Mbit/s"), Ok(Rate(12_500_000)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn a_bare_or_broken_quantity_says_what_it_lacks() {
        assert!(matches!(parse_bytes("64"), Err(ParseError::Unit(_))));
        assert_eq!(parse_bytes("MiB"), Err(ParseError::NotANumber));
        assert_eq!(parse_bytes("99999999TiB"), Err(ParseError::TooLarge));
        assert!(matches!(parse_duration("6"), Err(ParseError::Unit(_))));
    }
}
