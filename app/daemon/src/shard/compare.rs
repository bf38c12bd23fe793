// SPDX-License-Identifier: Apache-2.0
//! What a store's bytes come down to for a verify: a digest for every block of 4 KiB, and where two lists differ.

use helio_driver::Buffer;
use helio_units::Extent;
use twox_hash::XxHash3_128;

const BLOCK: usize = 4096;
const DIGEST: usize = 16;

/// The digests of what was read, one behind the other.
pub(crate) fn digests(bytes: &[u8]) -> Buffer {
    let mut list = Buffer::zeroed(bytes.len().div_ceil(BLOCK) * DIGEST);
    for (block, digest) in bytes.chunks(BLOCK).zip(list.chunks_mut(DIGEST)) {
        digest.copy_from_slice(&XxHash3_128::oneshot(block).to_be_bytes());
    }
    list
}

/// Where what was read at `extent` is not what the digests say, neighbouring blocks together.
pub(crate) fn differing(extent: Extent, bytes: &[u8], theirs: &[u8]) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    let blocks =
        bytes.chunks(BLOCK).zip(theirs.chunks(DIGEST)).zip((extent.offset..).step_by(BLOCK));
    for ((block, digest), at) in blocks {
        if XxHash3_128::oneshot(block).to_be_bytes() == digest {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end() == at => run.length += block.len() as u64,
            _ => runs.push(Extent::new(at, block.len() as u64)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_blocks_are_told_together_and_a_short_last_block_as_it_is() {
        let extent = Extent::new(65_536, 5 * 4096 + 512);
        let mut bytes = vec![7; 5 * 4096 + 512];
        let theirs = digests(&bytes);
        assert_eq!(differing(extent, &bytes, &theirs), []);
        for at in [4096, 2 * 4096 + 4095, 4 * 4096, 5 * 4096 + 511] {
            bytes[at] ^= 1;
        }
        let runs =
            [Extent::new(65_536 + 4096, 2 * 4096), Extent::new(65_536 + 4 * 4096, 4096 + 512)];
        assert_eq!(differing(extent, &bytes, &theirs), runs);
    }

    #[test]
    fn the_digest_is_the_published_one() {
        // XXH3, 128 bits, seed zero, of nothing; see xxHash's specification.
        let empty = XxHash3_128::oneshot(&[]);
        assert_eq!(empty, 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
    }
}
