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
    digest: u64,
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
        Self { lines: keeps.then(Vec::new), digest: BASIS }
    }

    pub(crate) fn tell(&mut self, now: Moment, text: fmt::Arguments<'_>) {
        let mut digest = Digest(self.digest);
        // A digest takes every text.
        let _ = write!(digest, "{} {text}", now.0);
        self.digest = digest.0;
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>14.6} {text}", now.0 as f64 / 1e9));
        }
    }

    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }
}
