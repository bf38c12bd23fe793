// SPDX-License-Identifier: Apache-2.0
//! Why an operation failed, with the kernel's own number kept.

use helio_units::{Bytes, Extent};
use rustix::io::Errno;
use std::fmt;
use thiserror::Error;

/// Which operation it was, for messages and for those who must tell a failed flush from a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reading a file.
    Read,
    /// Writing a file.
    Write,
    /// Flushing a file's data to stable storage.
    SyncData,
    /// Setting an extended attribute of a file.
    SetAttribute,
    /// Giving back space, which then reads as zero.
    Punch,
    /// Making a range read as zero.
    Zero,
    /// Finding out where a file holds data.
    Map,
    /// Making room for a file.
    Reserve,
    /// Changing the length of a file.
    SetLength,
    /// Taking a connection from a listener.
    Accept,
    /// Connecting.
    Connect,
    /// Receiving.
    Recv,
    /// Sending.
    Send,
    /// Waiting until there is something to read.
    Ready,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::SyncData => "flush",
            Self::SetAttribute => "write of an extended attribute",
            Self::Punch => "discard",
            Self::Zero => "write of zeroes",
            Self::Map => "map",
            Self::Reserve => "reservation of space",
            Self::SetLength => "change of the length",
            Self::Accept => "accept",
            Self::Connect => "connect",
            Self::Recv => "receive",
            Self::Send => "send",
            Self::Ready => "wait for input",
        })
    }
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Cause {
    /// The kernel said so.
    #[error("{0}")]
    Errno(Errno),
    /// The kernel took some bytes and then none, without an error.
    #[error("no progress after {0}")]
    NoProgress(Bytes),
    /// The file ended before the extent did.
    #[error("end of file after {0}")]
    EndOfFile(Bytes),
    /// The buffer, the pieces and the range asked for do not fit each other. A caller's mistake.
    #[error("the buffer does not fit the request")]
    Misfit,
}

/// An operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpError {
    /// What was tried.
    pub operation: Operation,
    /// Where, for operations on files (a flush has no extent).
    pub extent: Option<Extent>,
    /// Why it failed.
    pub cause: Cause,
}

impl OpError {
    /// The kernel's number, where the kernel gave one.
    #[must_use]
    pub const fn errno(&self) -> Option<Errno> {
        match self.cause {
            Cause::Errno(errno) => Some(errno),
            Cause::NoProgress(_) | Cause::EndOfFile(_) | Cause::Misfit => None,
        }
    }

    /// Whether it ended because its socket was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.errno() == Some(Errno::CANCELED)
    }

    pub(crate) const fn new(operation: Operation, cause: Cause) -> Self {
        Self { operation, extent: None, cause }
    }

    pub(crate) const fn at(operation: Operation, extent: Extent, cause: Cause) -> Self {
        Self { operation, extent: Some(extent), cause }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extent {
            Some(extent) => write!(f, "{} at {extent}: {}", self.operation, self.cause),
            None => write!(f, "{}: {}", self.operation, self.cause),
        }
    }
}

impl std::error::Error for OpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
