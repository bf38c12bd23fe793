// SPDX-License-Identifier: Apache-2.0
//! The end of a conversation, as a value: a room returns it, and the composition carries it out.

use alloc::string::String;
use helio_format::message::Parting;

/// A request to end the conversation with the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct HangUp {
    parting: Parting,
    why: String,
}

impl HangUp {
    pub(crate) fn new(parting: Parting, why: impl Into<String>) -> Self {
        Self { parting, why: why.into() }
    }

    /// What is sent to the peer: the kind of the end, and the reason.
    pub(crate) fn into_parts(self) -> (Parting, String) {
        (self.parting, self.why)
    }
}
