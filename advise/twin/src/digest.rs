// SPDX-License-Identifier: Apache-2.0
//! Digests of stamps: what the copier compares in virtual time.

use crate::{BLOCK, Stamp, places};
use helio_engine::digest_piece;
use helio_format::copying::Digest;
use helio_units::{Bytes, Extent, VolumeIndex};

/// Of that many stamps each, in order.
pub(crate) fn of(stamps: &[Stamp], coarse: bool) -> Vec<Digest> {
    let piece = (digest_piece(coarse).0 / BLOCK.0) as usize;
    stamps.chunks(piece).map(one).collect()
}

/// A stamp is told as it is; of several, two sums of which one knows their order.
fn one(stamps: &[Stamp]) -> Digest {
    let (mut plain, mut ordered) = (0u64, 0xCBF2_9CE4_8422_2325u64);
    for Stamp(stamp) in stamps {
        plain = plain.wrapping_add(*stamp);
        ordered = (ordered ^ stamp).wrapping_mul(0x0100_0000_01B3).rotate_left(23);
    }
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&plain.to_le_bytes());
    digest[8..].copy_from_slice(&ordered.to_le_bytes());
    digest
}

/// The stretches that differ from these digests, none of which mixes zeros with others.
pub(crate) fn differing(
    extent: Extent,
    stamps: &[Stamp],
    digests: &[Digest],
    coarse: bool,
) -> Vec<(Extent, Vec<Stamp>)> {
    let differ = pieces(extent, stamps, digest_piece(coarse)).zip(digests);
    joined(differ.filter(|((_, stamps), digest)| one(stamps) != **digest).map(|(piece, _)| piece))
}

/// All of it, zeros apart from others, piece by piece.
pub(crate) fn stretches(
    extent: Extent,
    stamps: &[Stamp],
    piece: Bytes,
) -> Vec<(Extent, Vec<Stamp>)> {
    joined(pieces(extent, stamps, piece))
}

/// The blocks that do not hold what the digests say, neighbours together.
pub(crate) fn unequal(
    volume: VolumeIndex,
    extent: Extent,
    digests: &[Stamp],
    stamps: &[Stamp],
) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for (place, (digest, stamp)) in places(volume, extent).zip(digests.iter().zip(stamps)) {
        if stamp == digest {
            continue;
        }
        let at = u64::from(place.block) * BLOCK.0;
        match runs.last_mut() {
            Some(run) if run.end() == at => run.length += BLOCK.0,
            _ => runs.push(Extent::new(at, BLOCK.0)),
        }
    }
    runs
}

fn pieces(extent: Extent, stamps: &[Stamp], piece: Bytes) -> impl Iterator<Item = (u64, &[Stamp])> {
    let places = (extent.offset..).step_by(piece.0 as usize);
    places.zip(stamps.chunks((piece.0 / BLOCK.0) as usize))
}

/// Neighbouring pieces that are alike, together.
fn joined<'a>(pieces: impl Iterator<Item = (u64, &'a [Stamp])>) -> Vec<(Extent, Vec<Stamp>)> {
    let is_zero = |stamps: &[Stamp]| stamps.iter().all(|stamp| *stamp == Stamp::ZEROS);
    let mut runs: Vec<(Extent, Vec<Stamp>)> = Vec::new();
    for (offset, stamps) in pieces {
        let length = stamps.len() as u64 * BLOCK.0;
        match runs.last_mut() {
            Some((run, held)) if run.end() == offset && is_zero(held) == is_zero(stamps) => {
                run.length += length;
                held.extend_from_slice(stamps);
            }
            _ => runs.push((Extent::new(offset, length), stamps.to_vec())),
        }
    }
    runs
}
