// SPDX-License-Identifier: Apache-2.0
//! A promise that was not kept.

use std::fmt;

/// What was promised, and what was found instead.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) promised: String,
    pub(super) found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a promise is broken\n  promised: {}\n  found:    {}", self.promised, self.found)
    }
}

impl std::error::Error for Broken {}
