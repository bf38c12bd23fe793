// SPDX-License-Identifier: Apache-2.0
//! What two nodes say about the hold lease.
//!
//! | kind | body, in order |
//! |---|---|
//! | 21 lease wanted | number u64, milliseconds u32 |
//! | 22 lease granted | number u64, milliseconds u32 |
//! | 23 lease returned | nothing |
//!
//! Integers are as in [`crate::message`].

use crate::cursor::{Reader, Short, Writer};

/// Everything that is said about leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// A secondary asks for one; its time runs from now on.
    Wanted {
        /// Names the question, within the asking process.
        number: u64,
        /// For how long.
        millis: u32,
    },
    /// It has one.
    Granted {
        /// Which question.
        number: u64,
        /// For how long, from the moment it asked: as long as it asked for, or less.
        millis: u32,
    },
    /// The sender holds none, and will use none that it asked for before.
    Returned,
}

impl Lease {
    /// The kind byte of its frame.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Wanted { .. } => 21,
            Self::Granted { .. } => 22,
            Self::Returned => 23,
        }
    }

    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        match self {
            Self::Wanted { number, millis } | Self::Granted { number, millis } => {
                w.u64(number);
                w.u32(millis);
            }
            Self::Returned => {}
        }
    }

    pub(crate) fn decode(code: u8, r: &mut Reader<'_>) -> Result<Self, Short> {
        Ok(match code {
            21 => Self::Wanted { number: r.u64()?, millis: r.u32()? },
            22 => Self::Granted { number: r.u64()?, millis: r.u32()? },
            23 => Self::Returned,
            _ => return Err(Short),
        })
    }
}
