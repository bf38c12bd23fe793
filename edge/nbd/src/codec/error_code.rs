// SPDX-License-Identifier: Apache-2.0
//! The errors a request may end with.

use std::fmt;

/// Why a request failed, in the protocol's closed vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Not permitted: a change to a read-only export.
    Permission,
    /// The store failed.
    Io,
    /// No memory for it now.
    NoMemory,
    /// The request makes no sense: command, flags, alignment, or a read beyond the end.
    Invalid,
    /// A write beyond the end, or a full store.
    NoSpace,
    /// Too long to be served in one piece.
    Overflow,
    /// Not supported.
    NotSupported,
    /// The server is stopping.
    Shutdown,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 8] = [
        Self::Permission,
        Self::Io,
        Self::NoMemory,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::NotSupported,
        Self::Shutdown,
    ];

    /// The number on the wire, never 0.
    #[must_use]
    pub const fn to_wire(self) -> u32 {
        match self {
            Self::Permission => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Shutdown => 108,
        }
    }

    /// The code of a number. One the protocol does not know counts as `Invalid`, as it asks of clients.
    #[must_use]
    pub fn from_wire(number: u32) -> Self {
        Self::ALL.into_iter().find(|code| code.to_wire() == number).unwrap_or(Self::Invalid)
    }

    /// The protocol's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Permission => "EPERM",
            Self::Io => "EIO",
            Self::NoMemory => "ENOMEM",
            Self::Invalid => "EINVAL",
            Self::NoSpace => "ENOSPC",
            Self::Overflow => "EOVERFLOW",
            Self::NotSupported => "ENOTSUP",
            Self::Shutdown => "ESHUTDOWN",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_wire_and_strangers_are_invalid() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_wire(code.to_wire()), code);
        }
        assert_eq!(ErrorCode::from_wire(4711), ErrorCode::Invalid);
    }
}
