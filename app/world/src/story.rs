// SPDX-License-Identifier: Apache-2.0
//! The event log of a run.

use helio_units::Moment;
use std::fmt::{self, Write};

/// FNV-1a, 64 bits.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// What happened, one line each with its virtual time.
#[derive(Debug)]
pub(crate) struct Story {
    /// None if only the digest is wanted.
    lines: Option<Vec<String>>,
    /// None if nothing is wanted.
    digest: Option<u64>,
}

/// Takes text into a digest.
struct Digest(u64);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME));
        Ok(())
    }
}

impl Story {
    pub(crate) fn new(keeps: bool) -> Self {
        Self { lines: keeps.then(Vec::new), digest: Some(BASIS) }
    }

    /// One that nothing is written to.
    pub(crate) const fn untold() -> Self {
        Self { lines: None, digest: None }
    }

    pub(crate) fn tell(&mut self, now: Moment, text: fmt::Arguments<'_>) {
        let Some(sum) = &mut self.digest else { return };
        let mut digest = Digest(*sum);
        // A digest takes every text.
        let _ = write!(digest, "{} {text}", now.0);
        *sum = digest.0;
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>14.6} {text}", now.0 as f64 / 1e9));
        }
    }

    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.unwrap_or(BASIS)
    }
}
