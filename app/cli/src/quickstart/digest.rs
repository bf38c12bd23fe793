// SPDX-License-Identifier: Apache-2.0
//! Checksums of files, by what they hold rather than by what they are called.

use anyhow::{Context, Result};
use crc_fast::{CrcAlgorithm, Digest};
use helio_units::Bytes;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The checksum of a run of bytes (CRC-64/NVME).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checksum(pub(super) u64);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The checksum of a piece of memory.
pub(super) fn of_bytes(bytes: &[u8]) -> Checksum {
    Checksum(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes))
}

/// The checksum of the first `length` bytes of a file.
pub(super) fn of_file(path: &Path, length: Bytes) -> Result<Checksum> {
    read(path, length).with_context(|| format!("cannot read {}", path.display()))
}

fn read(path: &Path, length: Bytes) -> std::io::Result<Checksum> {
    let mut file = File::open(path)?;
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let mut buffer = vec![0; 1 << 20];
    let mut left = length.0;
    while left > 0 {
        let part = left.min(buffer.len() as u64) as usize;
        file.read_exact(&mut buffer[..part])?;
        digest.update(&buffer[..part]);
        left -= part as u64;
    }
    Ok(Checksum(digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_the_published_one() {
        // The check value of CRC-64/NVME in its specification.
        assert_eq!(of_bytes(b"123456789").to_string(), "ae8b14860a799888");
    }
}
