// SPDX-License-Identifier: Apache-2.0
//! How much of a volume is copied to a member at a time.

use helio_format::superblock::GRANULARITY_MAX;
use helio_units::Bytes;

/// The most that is copied at a time.
pub const TRANSFER_MAX: Bytes = Bytes(GRANULARITY_MAX as u64);

/// The transfer size of copies: a run of neighbouring regions that the target lacks is read, compared and written as one, up to this size.
/// Writes of clients to it wait meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// [`TRANSFER_MAX`] while no client waits for the volume, otherwise one region.
    #[default]
    Auto,
    /// So much, in whole regions; at least one, at most [`TRANSFER_MAX`].
    Fixed(Bytes),
}

impl Transfer {
    /// In regions of that size. `busy`: a client waits for the volume.
    pub(crate) fn regions(self, region: Bytes, busy: bool) -> u64 {
        let bytes = match self {
            Self::Auto if busy => region,
            Self::Auto => TRANSFER_MAX,
            Self::Fixed(bytes) => bytes.min(TRANSFER_MAX),
        };
        (bytes.0 / region.0).max(1)
    }
}
