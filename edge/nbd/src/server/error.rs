// SPDX-License-Identifier: Apache-2.0
//! What ends a connection.

use crate::codec::option;
use crate::server::limits::{MAX_ANSWERED_PAYLOAD, MAX_OPTION_LENGTH, MAX_OPTIONS};

/// Why a connection cannot go on. Every one is the client's doing; the caller closes the socket after
/// sending what is still in its output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// It does not announce fixed newstyle, the only handshake spoken here.
    #[error("client uses an old handshake: its flags {flags:#x} do not have fixed newstyle")]
    OldHandshake {
        /// The flags it sent.
        flags: u32,
    },
    /// It set flags nobody offered, or is no NBD client.
    #[error("client set flags that were not offered: {flags:#x}")]
    ClientFlags {
        /// The flags it sent.
        flags: u32,
    },
    /// Something other than an option where an option was due.
    #[error("client sent {found:#018x} instead of an option")]
    OptionMagic {
        /// The word in the magic number's place.
        found: u64,
    },
    /// An option too long even to skip.
    #[error(
        "client sent option {} ({option}) with {length} bytes, more than {MAX_OPTION_LENGTH}",
        option::name(*option)
    )]
    OptionTooLong {
        /// Which option.
        option: u32,
        /// Its length in bytes.
        length: u32,
    },
    /// It negotiates without end.
    #[error("client sent more than {MAX_OPTIONS} options")]
    TooManyOptions,
    /// It asked in the old way, which knows no refusal, for an export it cannot have.
    #[error(
        "client used EXPORT_NAME, which can be refused only by closing the connection: {reason}"
    )]
    ExportRefused {
        /// What it would have been told.
        reason: String,
    },
    /// It asked for an export in the old way before the TLS this server requires.
    #[error("client used EXPORT_NAME without the required TLS; use STARTTLS first")]
    TlsRequired,
    /// It sent bytes behind STARTTLS before TLS protected the connection: what an attacker between the
    /// two would plant so that it counts as said under TLS.
    #[error("client sent plaintext after STARTTLS, before TLS started")]
    PlaintextBehindStartTls,
    /// Something other than a request where a request was due.
    #[error("client sent {found:#010x} instead of a request")]
    RequestMagic {
        /// The word in the magic number's place.
        found: u32,
    },
    /// A payload too long even to skip.
    #[error("client sent a payload of {length} bytes, more than {MAX_ANSWERED_PAYLOAD}")]
    PayloadTooLong {
        /// Its length in bytes.
        length: u64,
    },
    /// The session already ended with an error.
    #[error("the session has ended with an earlier error")]
    Ended,
}
