// SPDX-License-Identifier: Apache-2.0
//! What a row found out by itself. Callgrind counts the instructions.

use std::fmt;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// How many operations were measured.
    pub(crate) operations: u64,
    /// Allocations of all of them.
    pub(crate) allocations: u64,
    /// Operations given to a driver; none if system calls count, which callgrind sees.
    pub(crate) calls: Option<u64>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operations {}\nallocations {}", self.operations, self.allocations)?;
        self.calls.iter().try_for_each(|calls| writeln!(f, "calls {calls}"))
    }
}
