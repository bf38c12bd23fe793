// SPDX-License-Identifier: Apache-2.0
//! Sizes, counts and rates.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use core::time::Duration;

/// The smallest unit any volume is addressed in, in bytes.
pub const SECTOR: u64 = 512;

/// A size or a distance in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `n` binary kilobytes (2^10 bytes each).
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` binary megabytes (2^20 bytes each).
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` binary gigabytes (2^30 bytes each).
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The difference, or zero where `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0 * n)
    }
}

/// Prints with a binary unit: `1.50 GiB`, `64 KiB`, `512 B`. Whole numbers lose their fraction.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (name, shift) in UNITS {
            let unit = 1u64 << shift;
            if self.0 >= unit {
                if self.0.is_multiple_of(unit) {
                    return write!(f, "{} {name}", self.0 >> shift);
                }
                return write!(f, "{:.2} {name}", self.0 as f64 / unit as f64);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A count of items on a line or in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Items(pub u64);

impl fmt::Display for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// `n` decimal megabits per second, the unit links are sold in.
    #[must_use]
    pub const fn mbit(n: u64) -> Self {
        Self(n * 1_000_000 / 8)
    }

    /// How long `size` takes at this rate. A zero rate takes forever.
    #[must_use]
    pub fn time_for(self, size: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = u128::from(size.0) * 1_000_000_000 / u128::from(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// What this rate carries in `span`: rate times delay is the bandwidth-delay product.
    #[must_use]
    pub fn bytes_in(self, span: Duration) -> Bytes {
        let bytes = u128::from(self.0) * span.as_nanos() / 1_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// Prints as a size per second, with a binary unit: `11.92 MiB/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Bytes(self.0))
    }
}

/// The bandwidth of a network, which prints in decimal bits per second: `38.4 Mbit/s`, `10 Gbit/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth(pub Rate);

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.0 as f64 * 8.0;
        let (number, unit) =
            if bits < 1e10 { (bits / 1e6, "Mbit/s") } else { (bits / 1e9, "Gbit/s") };
        let text = alloc::format!("{number:.2}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn sizes_print_with_their_unit() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes::kib(64).to_string(), "64 KiB");
        assert_eq!(Bytes(1536 << 20).to_string(), "1.50 GiB");
        assert_eq!(Rate::mbit(100).to_string(), "11.92 MiB/s");
        for (rate, text) in [
            (Rate(245_760), "1.97 Mbit/s"),
            (Rate::mbit(100), "100 Mbit/s"),
            (Rate::mbit(1000), "1000 Mbit/s"),
            (Rate::mbit(25_000), "25 Gbit/s"),
        ] {
            assert_eq!(Bandwidth(rate).to_string(), text);
        }
    }

    #[test]
    fn a_rate_and_a_delay_make_a_product() {
        // 100 Mbit/s and 50 ms: 625,000 bytes.
        assert_eq!(Rate::mbit(100).bytes_in(Duration::from_millis(50)), Bytes(625_000));
        assert_eq!(Rate::mbit(100).time_for(Bytes(625_000)), Duration::from_millis(50));
        assert_eq!(Rate(0).time_for(Bytes(1)), Duration::MAX);
    }
}
