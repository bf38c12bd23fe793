// SPDX-License-Identifier: Apache-2.0
//! What can go wrong at the client's end.

use crate::codec::ErrorCode;
use helio_units::Extent;
use std::fmt;
use std::io;

/// A request's failure as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The kind.
    pub code: ErrorCode,
    /// The server's words; empty where it sent none.
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => write!(f, "{}", self.code),
            message => write!(f, "{message} ({})", self.code),
        }
    }
}

impl std::error::Error for ServerError {}

/// Why the client could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The operating system failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Its words.
        source: io::Error,
    },
    /// The server hung up.
    #[error("{doing}: the server closed the connection")]
    Closed {
        /// What was being done.
        doing: &'static str,
    },
    /// The server does not speak the fixed newstyle handshake, or is no NBD server.
    #[error("the server does not speak NBD's fixed newstyle handshake")]
    NotNewstyle,
    /// The server refused something in the handshake.
    #[error("the server refused {asked}: {reason}{}", quoted(.message))]
    Refused {
        /// What it was asked: the option's name.
        asked: &'static str,
        /// The kind of refusal.
        reason: &'static str,
        /// The server's words; empty where it sent none.
        message: String,
    },
    /// The export offers no such command.
    #[error("the export does not offer {0}")]
    NotOffered(&'static str),
    /// The request cannot be put into the protocol's numbers.
    #[error("cannot send {0}")]
    Unsendable(&'static str),
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The server could not do it.
    #[error("{command} at {extent} failed: {source}")]
    Failed {
        /// The command.
        command: &'static str,
        /// Where.
        extent: Extent,
        /// The server's report.
        source: ServerError,
    },
}

fn quoted(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl ClientError {
    /// For `map_err`: names what was being done when the system failed or the server hung up.
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => Self::Closed { doing },
            _ => Self::Io { doing: doing.into(), source },
        }
    }

    pub(super) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol(what.into())
    }
}
