// SPDX-License-Identifier: Apache-2.0
//! What two nodes say when the metadata of one of them cannot be written any more.
//!
//! | kind | body, in order |
//! |---|---|
//! | 24 metadata failed | generation u64 u64 |
//! | 27 metadata recorded | nothing |
//!
//! Integers are as in [`crate::message`].

use crate::cursor::{Reader, Short, Writer};
use helio_units::Generation;

/// Everything that is said about metadata that is not valid any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The sender's metadata tells nothing of what it does from now on.
    Failed {
        /// The generation it is in.
        generation: Generation,
    },
    /// That is durably recorded by the sender.
    Recorded,
}

impl Invalid {
    /// The kind byte of its frame.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed { .. } => 24,
            Self::Recorded => 27,
        }
    }

    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        if let Self::Failed { generation } = self {
            w.generation(generation);
        }
    }

    pub(crate) fn decode(code: u8, r: &mut Reader<'_>) -> Result<Self, Short> {
        Ok(match code {
            24 => Self::Failed { generation: r.generation()? },
            27 => Self::Recorded,
            _ => return Err(Short),
        })
    }
}
