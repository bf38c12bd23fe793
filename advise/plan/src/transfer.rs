// SPDX-License-Identifier: Apache-2.0
//! What a measured transfer comes to, as the HADR simulator prints it.

use crate::PerSecond;
use helio_units::{Bytes, Rate};
use std::fmt;
use std::time::Duration;

/// So many bytes in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// What travelled.
    pub bytes: Bytes,
    /// How long it took; more than nothing.
    pub span: Duration,
}

impl Transfer {
    /// Decimal megabytes (10^6 bytes) per second, the simulator's unit.
    #[must_use]
    pub fn megabytes_per_second(self) -> f64 {
        self.bytes.0 as f64 / self.span.as_secs_f64() / 1e6
    }

    /// The same to the nearest byte per second.
    #[must_use]
    pub fn rate(self) -> Rate {
        Rate((self.bytes.0 as f64 / self.span.as_secs_f64()).round() as u64)
    }

    /// Bytes in each of `pieces`.
    #[must_use]
    pub fn bytes_each(self, pieces: u64) -> f64 {
        self.bytes.0 as f64 / pieces as f64
    }

    /// Time for each of `pieces`.
    #[must_use]
    pub fn span_each(self, pieces: u64) -> Duration {
        self.span.div_f64(pieces as f64)
    }

    /// How many of `pieces` there were in a second.
    #[must_use]
    pub fn each_second(self, pieces: u64) -> PerSecond {
        PerSecond(pieces as f64 / self.span.as_secs_f64())
    }
}

/// Prints `2097152 bytes in 12.460158 seconds, 0.168309 MBytes/sec`.
impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, seconds) = (self.bytes.0, self.span.as_secs_f64());
        let rate = self.megabytes_per_second();
        write!(f, "{bytes} bytes in {seconds:.6} seconds, {rate:.6} MBytes/sec")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_prints_as_the_simulator_does() {
        let told = Transfer { bytes: Bytes(2_097_152), span: Duration::from_micros(12_460_158) };
        assert_eq!(told.to_string(), "2097152 bytes in 12.460158 seconds, 0.168309 MBytes/sec");
        assert_eq!(told.rate(), Rate(168_309));
    }
}
