// SPDX-License-Identifier: Apache-2.0
//! Digests of bytes, and what differs from the peer's: XXH3 with 128 bits and seed zero, as the format says.
//!
//! It tells by chance alone, not against malice: two blocks that differ have the same digest once in 2^128. Who could
//! make such blocks on purpose writes to the volume already.

use helio_driver::Buffer;
use helio_engine::digest_piece;
use helio_format::copying::Digest;
use helio_units::{Bytes, Extent};
use twox_hash::XxHash3_128;

/// The digests of these bytes, one per piece.
pub(crate) fn of(bytes: &[u8], coarse: bool) -> Vec<Digest> {
    bytes.chunks(digest_piece(coarse).0 as usize).map(one).collect()
}

/// A name that stands for these bytes in a record; never zero.
pub(crate) fn name(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes).max(1)
}

/// What stands for the name of a volume in a record; never zero.
pub(crate) fn volume(volume: &str) -> u64 {
    (name(volume.as_bytes()) as u64).max(1)
}

fn one(bytes: &[u8]) -> Digest {
    XxHash3_128::oneshot(bytes).to_be_bytes()
}

/// A stretch of bytes that differs from the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) extent: Extent,
    /// All of its bytes are zero here.
    pub(crate) zero: bool,
}

/// What of the bytes at `extent` differs from these digests, in order; none mixes zeros with others.
pub(crate) fn differing(
    extent: Extent,
    bytes: &[u8],
    digests: &[Digest],
    coarse: bool,
) -> Vec<Stretch> {
    let piece = digest_piece(coarse).0;
    let pieces = (extent.offset..).step_by(piece as usize).zip(bytes.chunks(piece as usize));
    let differ = pieces.zip(digests).filter(|((_, bytes), theirs)| one(bytes) != **theirs);
    joined(differ.map(|(piece, _)| piece))
}

/// All of the bytes at `extent`, in order: stretches of pieces that are zero, and of others.
pub(crate) fn stretches(extent: Extent, bytes: &[u8], piece: Bytes) -> Vec<Stretch> {
    let piece = piece.0 as usize;
    joined((extent.offset..).step_by(piece).zip(bytes.chunks(piece)))
}

/// Neighbouring pieces that are alike, together.
fn joined<'a>(pieces: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for (offset, bytes) in pieces {
        let (length, zero) = (bytes.len() as u64, is_zero(bytes));
        match stretches.last_mut() {
            Some(last) if last.extent.end() == offset && last.zero == zero => {
                last.extent.length += length;
            }
            _ => stretches.push(Stretch { extent: Extent::new(offset, length), zero }),
        }
    }
    stretches
}

/// The fine digests of these bytes one behind the other, as an item of a verify carries them.
pub(crate) fn payload(bytes: &[u8]) -> Buffer {
    let pieces = bytes.chunks(digest_piece(false).0 as usize);
    let mut list = Buffer::zeroed(pieces.len() * size_of::<Digest>());
    for (piece, digest) in pieces.zip(list.chunks_mut(size_of::<Digest>())) {
        digest.copy_from_slice(&one(piece));
    }
    list
}

/// Where the bytes at `extent` are not what such digests say, neighbouring blocks together.
pub(crate) fn unequal(extent: Extent, bytes: &[u8], theirs: &[u8]) -> Vec<Extent> {
    let piece = digest_piece(false).0 as usize;
    let places = (extent.offset..).step_by(piece);
    let mut runs: Vec<Extent> = Vec::new();
    let told = theirs.chunks(size_of::<Digest>());
    for ((block, digest), at) in bytes.chunks(piece).zip(told).zip(places) {
        if one(block) == digest {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end() == at => run.length += block.len() as u64,
            _ => runs.push(Extent::new(at, block.len() as u64)),
        }
    }
    runs
}

/// Whether every byte is zero: compared with a page of zeros at a time, which the machine does fast.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1 << 20;

    fn found(ours: &[u8], theirs: &[u8], coarse: bool) -> Vec<(u64, u64, bool)> {
        let extent = Extent::new(AT, ours.len() as u64);
        let stretches = differing(extent, ours, &of(theirs, coarse), coarse);
        stretches.iter().map(|s| (s.extent.offset - AT, s.extent.length, s.zero)).collect()
    }

    #[test]
    fn zeros_are_told_apart_piece_by_piece_and_nothing_is_left_out() {
        let mut bytes = vec![0u8; 5 * 4096 + 512];
        bytes[2 * 4096 + 17] = 1;
        bytes[3 * 4096] = 1;
        let extent = Extent::new(AT, bytes.len() as u64);
        let found = stretches(extent, &bytes, Bytes(4096));
        let told = found.iter().map(|s| (s.extent.offset - AT, s.extent.length, s.zero));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(0, 8192, true), (8192, 8192, false), (4 * 4096, 4096 + 512, true)]
        );
    }

    #[test]
    fn only_blocks_that_differ_are_told_and_neighbours_together() {
        let theirs = vec![7u8; 65536];
        let mut ours = theirs.clone();
        assert_eq!(found(&ours, &theirs, false), []);
        ours[5 * 4096] = 8;
        ours[6 * 4096 + 17] = 8;
        ours[9 * 4096..11 * 4096].fill(0);
        let told = [(5 * 4096, 8192, false), (9 * 4096, 8192, true)];
        assert_eq!(found(&ours, &theirs, false), told);
        assert_eq!(found(&ours, &theirs, true), [(0, 65536, false)], "coarse, all of it");
    }

    #[test]
    fn a_block_that_is_zero_here_and_not_there_is_told_as_zeros() {
        assert_eq!(found(&[0; 65536], &[1; 65536], true), [(0, 65536, true)]);
        assert_eq!(found(&[0; 65536], &[0; 65536], true), []);
    }

    #[test]
    fn the_tail_of_a_volume_may_be_shorter_than_a_block() {
        let theirs = vec![3u8; 4096 + 512];
        let mut ours = theirs.clone();
        ours[4096 + 511] = 0;
        assert_eq!(found(&ours, &theirs, false), [(4096, 512, false)]);
    }

    #[test]
    fn a_verify_tells_neighbouring_blocks_together_and_a_short_last_block_as_it_is() {
        let extent = Extent::new(65_536, 5 * 4096 + 512);
        let mut bytes = vec![7; 5 * 4096 + 512];
        let theirs = payload(&bytes);
        assert_eq!(unequal(extent, &bytes, &theirs), []);
        for at in [4096, 2 * 4096 + 4095, 4 * 4096, 5 * 4096 + 511] {
            bytes[at] ^= 1;
        }
        let runs =
            [Extent::new(65_536 + 4096, 2 * 4096), Extent::new(65_536 + 4 * 4096, 4096 + 512)];
        assert_eq!(unequal(extent, &bytes, &theirs), runs);
    }

    #[test]
    fn a_digest_is_the_published_one() {
        // XXH3_128bits of no bytes with seed zero, from the algorithm's own test vectors.
        assert_eq!(u128::from_be_bytes(one(b"")), 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
    }
}
