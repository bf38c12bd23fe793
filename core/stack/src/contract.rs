// SPDX-License-Identifier: Apache-2.0
//! The contract: what is asked of a store, and how that ends.

use core::fmt;
use helio_units::{Extent, Payload};

/// One operation on this node's store of a volume: all that a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// Read into a buffer that the host provides.
    Read {
        /// Where.
        extent: Extent,
    },
    /// Write the payload.
    Write {
        /// Where.
        extent: Extent,
        /// What.
        payload: Payload,
        /// The bytes must be durable when it is done.
        fua: bool,
    },
    /// Make the extent read as zero.
    Zero {
        /// Where.
        extent: Extent,
        /// Space may be freed.
        punch: bool,
        /// Durable when it is done.
        fua: bool,
    },
    /// Give the space back; it reads as zero afterwards.
    Discard {
        /// Where.
        extent: Extent,
        /// Durable when it is done.
        fua: bool,
    },
    /// Make everything that is done durable.
    Flush,
    /// Report what is allocated: whether nothing is, so that all of it reads as zero. What a store cannot report is allocated.
    Map {
        /// Where.
        extent: Extent,
    },
}

impl StoreOp {
    /// Whether its success says that bytes are durable: a flush, or FUA, which is a write and a flush on most disks.
    #[must_use]
    pub const fn is_flush(&self) -> bool {
        match self {
            Self::Flush => true,
            Self::Write { fua, .. } | Self::Zero { fua, .. } | Self::Discard { fua, .. } => *fua,
            _ => false,
        }
    }

    /// The bytes that it reads.
    #[must_use]
    pub const fn reads(&self) -> Option<Extent> {
        if let Self::Read { extent } = *self { Some(extent) } else { None }
    }

    /// The bytes that it changes.
    #[must_use]
    pub const fn changes(&self) -> Option<Extent> {
        match *self {
            Self::Write { extent, .. }
            | Self::Zero { extent, .. }
            | Self::Discard { extent, .. } => Some(extent),
            Self::Read { .. } | Self::Flush | Self::Map { .. } => None,
        }
    }

    /// The bytes that it writes.
    #[must_use]
    pub const fn payload(&self) -> Option<Payload> {
        if let Self::Write { payload, .. } = *self { Some(payload) } else { None }
    }
}

/// How a store failed, as it reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// The device cannot read or write there (EIO).
    Io,
    /// The file system is full (ENOSPC).
    NoSpace,
    /// Fewer bytes were moved than asked for.
    Short,
    /// It did not complete the operation in time, and may still do so.
    Silent,
    /// Another error number.
    Other(i32),
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io => f.write_str("I/O error (EIO)"),
            Self::NoSpace => f.write_str("no space left on the disk (ENOSPC)"),
            Self::Short => f.write_str("the disk transferred fewer bytes than requested"),
            Self::Silent => f.write_str("the disk does not respond"),
            Self::Other(errno) => write!(f, "error number {errno} from the disk"),
        }
    }
}

/// How an operation on a store ended. Each ends exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The bytes that were read; who gets them releases them.
    Read(Payload),
    /// Whether nothing is allocated there, so that all of it reads as zero.
    Mapped {
        /// Nothing is.
        empty: bool,
    },
    /// It failed: what it was to change holds the old bytes, the new ones, or a mixture.
    Failed(StoreFault),
    /// A flush failed, or an operation with FUA: what was done before it and not made durable may be lost.
    Unsure(StoreFault),
    /// Nothing was touched.
    Refused(StoreFault),
}

impl Outcome {
    /// How an operation fails with that fault.
    #[must_use]
    pub const fn failed(op: &StoreOp, fault: StoreFault) -> Self {
        if op.is_flush() { Self::Unsure(fault) } else { Self::Failed(fault) }
    }
}
