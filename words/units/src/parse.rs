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

/// A decimal number as it was written: nothing of it is lost before it meets its unit.
#[derive(Clone, Copy)]
struct Decimal<'a> {
    whole: &'a str,
    fraction: &'a str,
}

/// Splits `64MiB` into 64 and `MiB`. Fractions and spaces before the unit are allowed.
fn split(text: &str) -> Result<(Decimal<'_>, &str), ParseError> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (whole, fraction) = text[..at].split_once('.').unwrap_or((&text[..at], ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(ParseError::NotANumber);
    }
    Ok((Decimal { whole, fraction }, text[at..].trim()))
}

/// The number in units of `factor`, exact, and rounded down where it is not whole; refuses more than a file offset or
/// a signed clock holds.
fn scale(number: Decimal<'_>, factor: u64) -> Result<u64, ParseError> {
    let mut value: u64 = 0;
    for digit in number.whole.bytes().map(|digit| u64::from(digit - b'0')) {
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit))
            .ok_or(ParseError::TooLarge)?;
    }
    // Digit by digit from the last: rounding down at every step is rounding down once.
    let part = number
        .fraction
        .bytes()
        .rev()
        .fold(0, |part, digit| (u128::from(digit - b'0') * u128::from(factor) + part) / 10);
    let whole = u128::from(value) * u128::from(factor) + part;
    match u64::try_from(whole) {
        Ok(whole) if whole <= i64::MAX as u64 => Ok(whole),
        _ => Err(ParseError::TooLarge),
    }
}

/// Reads a size. `MB` is 10^6 and `MiB` is 2^20; a bare number is refused, since the field's tools mix the two.
///
/// # Errors
/// Names what is wrong with the text.
pub fn parse_bytes(text: &str) -> Result<Bytes, ParseError> {
    const KNOWN: &str = "B, KiB, MiB, GiB, TiB (2^10 steps) or kB, MB, GB, TB (10^3 steps)";
    let (number, unit) = split(text)?;
    let factor = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
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
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
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
        "kbit/s" => 125,
        "Mbit/s" => 125_000,
        "Gbit/s" => 125_000_000,
        "kB/s" => 1_000,
        "MB/s" => 1_000_000,
        "GB/s" => 1_000_000_000,
        "KiB/s" => 1 << 10,
        "MiB/s" => 1 << 20,
        "GiB/s" => 1 << 30,
        _ => return Err(ParseError::Unit(KNOWN)),
    };
    scale(number, factor).map(Rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    const MOST: u64 = i64::MAX as u64;
    const UNITS: [(&str, u64); 9] = [
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];

    proptest! {
        #[test]
        fn every_size_is_read_to_the_last_byte(bytes in any::<u64>(), unit in 0..UNITS.len()) {
            let (unit, factor) = UNITS[unit];
            let read = parse_bytes(&format!("{bytes}{unit}"));
            match bytes.checked_mul(factor).filter(|all| *all <= MOST) {
                Some(all) => prop_assert_eq!(read, Ok(Bytes(all))),
                None => prop_assert_eq!(read, Err(ParseError::TooLarge)),
            }
        }

        #[test]
        fn a_fraction_is_exact_and_rounds_down(
            whole in 0..1_000_000u64,
            fraction in 0..1_000_000_000u64,
            unit in 0..UNITS.len(),
        ) {
            let (unit, factor) = UNITS[unit];
            let read = parse_bytes(&format!("{whole}.{fraction:09} {unit}"));
            let billion = u128::from(whole) * 1_000_000_000 + u128::from(fraction);
            let all = u64::try_from(billion * u128::from(factor) / 1_000_000_000);
            match all.ok().filter(|all| *all <= MOST) {
                Some(all) => prop_assert_eq!(read, Ok(Bytes(all))),
                None => prop_assert_eq!(read, Err(ParseError::TooLarge)),
            }
        }
    }

    #[test]
    fn a_size_beyond_what_a_double_holds_keeps_its_last_bit() {
        assert_eq!(parse_bytes("9007199254740993B"), Ok(Bytes(9_007_199_254_740_993)));
        assert_eq!(parse_bytes("9223372036854775807B"), Ok(Bytes(MOST)));
        assert_eq!(parse_bytes("9223372036854775808B"), Err(ParseError::TooLarge));
        assert_eq!(parse_bytes(&format!("0.{}1TiB", "0".repeat(60))), Ok(Bytes(0)));
    }

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
        for broken in ["MiB", ".MiB", "1.2.3MiB", "-1MiB", ""] {
            assert_eq!(parse_bytes(broken), Err(ParseError::NotANumber), "{broken}");
        }
        assert_eq!(parse_bytes(".5KiB"), parse_bytes("512.B"));
        assert_eq!(parse_bytes("99999999TiB"), Err(ParseError::TooLarge));
        assert!(matches!(parse_duration("6"), Err(ParseError::Unit(_))));
    }
}
