// SPDX-License-Identifier: Apache-2.0
//! Errors of a store in use, sorted by what can be done about them.

use helio_driver::{Cause, Errno, OpError};
use helio_units::{Bytes, Extent};
use thiserror::Error;

/// Why a store did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The device failed (`EIO`).
    #[error("the device reports an I/O error (EIO)")]
    Eio,
    /// No room where the store lives (`ENOSPC`, `EDQUOT`).
    #[error("no space left on the file system or device (ENOSPC)")]
    Enospc,
    /// The store took some bytes and then none, without an error.
    #[error("the store accepted no more bytes after {0}")]
    ShortWrite(Bytes),
    /// The store ended early: it was made smaller under the daemon.
    #[error("the store ended after {0}: it was made smaller while in use")]
    ShortRead(Bytes),
    /// Anything else the kernel says.
    #[error("{0}")]
    Other(Errno),
    /// The request reaches behind the end of the store.
    #[error("{extent} is not inside a store of {size}")]
    OutOfBounds {
        /// What was asked for.
        extent: Extent,
        /// How large the store is.
        size: Bytes,
    },
    /// The request does not keep to the store's block size, or its buffer does not fit it.
    #[error("{extent} is not aligned to blocks of {alignment}, or its buffer does not fit")]
    Unaligned {
        /// What was asked for.
        extent: Extent,
        /// The block size.
        alignment: Bytes,
    },
}

/// What waiting or trying again can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permanence {
    /// Nothing: the store cannot be trusted with this any more.
    Permanent,
    /// Nothing until somebody makes room; the store itself is sound.
    UntilSpace,
    /// The system was short of something; the same request may do better in a moment.
    Transient,
    /// The request was wrong; the store was not touched.
    Request,
}

impl StoreError {
    /// What waiting or trying again can do about it. A failed *flush* is permanent whatever this says: what
    /// it should have made stable may be lost already.
    #[must_use]
    pub const fn permanence(self) -> Permanence {
        match self {
            Self::Enospc => Permanence::UntilSpace,
            Self::Other(Errno::AGAIN | Errno::INTR | Errno::NOMEM | Errno::NOBUFS) => {
                Permanence::Transient
            }
            Self::OutOfBounds { .. } | Self::Unaligned { .. } => Permanence::Request,
            Self::Eio | Self::ShortWrite(_) | Self::ShortRead(_) | Self::Other(_) => {
                Permanence::Permanent
            }
        }
    }
}

impl From<OpError> for StoreError {
    fn from(error: OpError) -> Self {
        match error.cause {
            Cause::Errno(Errno::IO) => Self::Eio,
            Cause::Errno(Errno::NOSPC | Errno::DQUOT) => Self::Enospc,
            Cause::Errno(errno) => Self::Other(errno),
            Cause::NoProgress(done) => Self::ShortWrite(done),
            Cause::EndOfFile(done) => Self::ShortRead(done),
            Cause::Misfit => Self::Other(Errno::INVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Operation;

    fn error(cause: Cause) -> StoreError {
        OpError { operation: Operation::Write, extent: None, cause }.into()
    }

    #[test]
    fn the_kernels_numbers_keep_their_meaning() {
        assert_eq!(error(Cause::Errno(Errno::IO)), StoreError::Eio);
        assert_eq!(error(Cause::Errno(Errno::NOSPC)), StoreError::Enospc);
        assert_eq!(error(Cause::Errno(Errno::DQUOT)), StoreError::Enospc);
        assert_eq!(error(Cause::NoProgress(Bytes(512))), StoreError::ShortWrite(Bytes(512)));
        assert_eq!(error(Cause::EndOfFile(Bytes(7))), StoreError::ShortRead(Bytes(7)));
    }

    #[test]
    fn only_what_may_pass_is_called_passing() {
        assert_eq!(StoreError::Eio.permanence(), Permanence::Permanent);
        assert_eq!(StoreError::Enospc.permanence(), Permanence::UntilSpace);
        assert_eq!(StoreError::Other(Errno::NOMEM).permanence(), Permanence::Transient);
        assert_eq!(StoreError::Other(Errno::NXIO).permanence(), Permanence::Permanent);
    }
}
