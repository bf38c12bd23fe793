// SPDX-License-Identifier: Apache-2.0
//! What an export can do, as the server tells it once per connection.

/// The transmission flags of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TransmissionFlags(pub u16);

impl TransmissionFlags {
    /// Always set.
    pub const HAS_FLAGS: Self = Self(1 << 0);
    /// Every change is refused.
    pub const READ_ONLY: Self = Self(1 << 1);
    /// The client may flush.
    pub const SEND_FLUSH: Self = Self(1 << 2);
    /// The client may ask that one write be durable before its answer.
    pub const SEND_FUA: Self = Self(1 << 3);
    /// The client may trim.
    pub const SEND_TRIM: Self = Self(1 << 5);
    /// The client may write zeroes without sending them.
    pub const SEND_WRITE_ZEROES: Self = Self(1 << 6);
    /// The client may ask that a read be answered in one chunk. Only with structured replies.
    pub const SEND_DF: Self = Self(1 << 7);
    /// A flush on one connection covers what every connection was answered.
    pub const CAN_MULTI_CONN: Self = Self(1 << 8);
    /// The client may say what it will read soon.
    pub const SEND_CACHE: Self = Self(1 << 10);
    /// The client may ask for zeroes only where they are faster than data.
    pub const SEND_FAST_ZERO: Self = Self(1 << 11);
    /// The client may name the contexts a status is wanted of. Only with extended headers.
    pub const BLOCK_STATUS_PAYLOAD: Self = Self(1 << 12);

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Both sets together where `condition` holds.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }

    /// Whether everything in `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
