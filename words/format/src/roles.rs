// SPDX-License-Identifier: Apache-2.0
//! What two nodes say about their roles: a planned change of them, and the row of the table that the source went by.
//!
//! | kind | body, in order |
//! |---|---|
//! | 17 switch wanted | nothing |
//! | 18 invite | generation u64 u64, head u64 |
//! | 19 row | label (as a name) |
//!
//! Integers and names are as in [`crate::message`].

use crate::cursor::{NAME_BYTES_MAX, Reader, Short, Writer};
use alloc::string::String;
use helio_units::{Generation, Sequence};

/// Everything that is said about roles, but for the promotion that one side alone asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roles {
    /// A secondary asks its primary to change roles with it.
    SwitchWanted,
    /// A primary that just laid its role down asks the receiver to take it, without force.
    Invite {
        /// The generation that ends here.
        generation: Generation,
        /// Its last position; both images hold everything up to there, durably.
        head: Sequence,
    },
    /// The row of the recovery table by which the source, which alone has all the facts, decided.
    Row {
        /// Its label.
        label: String,
    },
}

impl Roles {
    /// The kind byte of its frame.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::SwitchWanted => 17,
            Self::Invite { .. } => 18,
            Self::Row { .. } => 19,
        }
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::SwitchWanted => {}
            Self::Invite { generation, head } => {
                w.generation(*generation);
                w.sequence(*head);
            }
            Self::Row { label } => {
                assert!(label.len() <= NAME_BYTES_MAX, "a label of {} bytes", label.len());
                w.name(label);
            }
        }
    }

    pub(crate) fn decode(code: u8, r: &mut Reader<'_>) -> Result<Self, Short> {
        Ok(match code {
            17 => Self::SwitchWanted,
            18 => Self::Invite { generation: r.generation()?, head: r.sequence()? },
            19 => Self::Row { label: r.name()? },
            _ => return Err(Short),
        })
    }
}
