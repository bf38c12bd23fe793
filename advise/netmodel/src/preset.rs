// SPDX-License-Identifier: Apache-2.0
//! Lines with a name: the one list that every tool reads.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use helio_units::Rate;

/// A line with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// Each way, in bytes per second; the source states bits.
    pub rate: Rate,
    /// There and back, where the line has an end: the other names say what a line is made of, not how long it is.
    pub round_trip: Option<Duration>,
    /// The figure in the source's words, and the source.
    pub source: &'static str,
}

impl Preset {
    /// Every line with a name, slowest first.
    pub const ALL: [Self; 6] = [
        line("t1", 1_544_000, "DS1, 1.544 Mbit/s (ANSI T1.102)"),
        Self {
            name: "portland",
            rate: Rate(4_800_000),
            round_trip: Some(Duration::from_millis(32)),
            source: "Portland to San Francisco, 4.8 MB/s at 32 ms (measured in IBM's HADR tutorial)",
        },
        line("t3", 44_736_000, "DS3, 44.736 Mbit/s (ANSI T1.102)"),
        line("100baset", 100_000_000, "100BaseT, 100 Mbit/s (IEEE 802.3u)"),
        line(
            "atm622",
            622_080_000,
            "ATM622, 622.08 Mbit/s (OC-12; ATM's cells leave 48 of 53 bytes of it)",
        ),
        line("gigabit", 1_000_000_000, "gigabit Ethernet, 1 Gbit/s (IEEE 802.3z)"),
    ];

    /// Every name, between commas.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(|preset| preset.name).join(", ")
    }
}

const fn line(name: &'static str, bits: u64, source: &'static str) -> Preset {
    Preset { name, rate: Rate(bits / 8), round_trip: None, source }
}

/// Prints its name.
impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// What a name that no line has is told: the names there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPreset;

impl fmt::Display for NoPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is not a named link; the names are {}", Preset::names())
    }
}

impl core::error::Error for NoPreset {}

impl FromStr for Preset {
    type Err = NoPreset;

    fn from_str(name: &str) -> Result<Self, NoPreset> {
        Self::ALL.into_iter().find(|preset| preset.name == name).ok_or(NoPreset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_line_is_found_by_its_name_and_slower_ones_come_first() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert!(Preset::ALL.is_sorted_by_key(|preset| preset.rate.0));
        let t1: Preset = "t1".parse().expect("it is a name");
        assert_eq!((t1.rate, t1.round_trip), (Rate(193_000), None));
        let why = "t2".parse::<Preset>().expect_err("no such line").to_string();
        assert!(why.ends_with("t1, portland, t3, 100baset, atm622, gigabit"), "{why}");
    }
}
