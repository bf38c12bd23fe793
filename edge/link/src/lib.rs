// SPDX-License-Identifier: Apache-2.0
//! The connection to a peer: messages to bytes and back, the socket's figures, when to try again.
//!
//! Sans-IO but for socket options: the shard owns the sockets and moves the bytes. Formats live in `helio-format`;
//! who says what, and what follows, is the engine's.

mod backoff;
mod incoming;
mod outgoing;
mod tcp;

pub use backoff::Backoff;
pub use incoming::{Arrived, Incoming, LinkError};
pub use outgoing::frame;
pub use tcp::{Figures, Tuning};

/// CRC-32C, as fast as the machine has it.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_fast_checksum_agrees_with_its_slow_twin(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(super::checksum(&bytes), helio_format::slow_crc32c(&bytes));
        }
    }
}
