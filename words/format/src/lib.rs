// SPDX-License-Identifier: Apache-2.0
//! Every byte Heliograph puts on a disk or a wire, each format beside its table and its validity rule.
//!
//! Absent on purpose: I/O, clocks, and the checksum itself, which the caller gives as a function
//! ([`Checksum`], CRC-32C in the daemon), so that this crate stays `no_std` and free of dependencies.
#![no_std]

extern crate alloc;

pub mod before;
pub mod copying;
mod cursor;
pub mod directory;
pub mod disks;
pub mod epochs;
pub mod exported;
pub mod files;
pub mod frame;
pub mod hot;
pub mod invalid;
pub mod lease;
pub mod lineage;
pub mod marks;
pub mod members;
pub mod message;
pub mod page;
pub mod reading;
pub mod report;
pub mod roles;
pub mod snapshot;
pub mod superblock;
pub mod trace;

/// Computes the CRC-32C (Castagnoli) of some bytes.
pub type Checksum = fn(&[u8]) -> u32;

/// The slow, obvious CRC-32C, bit by bit: the twin of the fast one, and the one the simulator uses.
///
/// Polynomial 0x1EDC6F41 reflected, initial value and final xor all ones (RFC 3720, appendix B.4).
#[must_use]
pub fn slow_crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    /// RFC 3720, appendix B.4: 32 zero bytes, 32 bytes of ones, 0..31 ascending.
    #[test]
    fn the_slow_checksum_meets_the_published_examples() {
        assert_eq!(super::slow_crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(super::slow_crc32c(&[0xFF; 32]), 0x62A8_AB43);
        let ascending: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(super::slow_crc32c(&ascending), 0x46DD_794E);
    }
}
