// SPDX-License-Identifier: Apache-2.0
//! Reads and writes without the layer: what the disks hold before a copy, and the rate that a copy of different data can reach at most.

use super::legs::Legs;
use crate::error::LabError;
use helio_driver::{Buffer, Completion, Outcome, Token};
use helio_units::{Bytes, Extent};
use std::time::{Duration, Instant};

/// Bytes of an operation, and how many are in flight: as many as copies have.
const LENGTH: u64 = 1 << 20;
const AT_ONCE: u64 = 4;
/// The disks, by their places among the legs.
pub(super) const SOURCE: usize = 0;
pub(super) const TARGET: usize = 1;

/// Fills a disk with noise of that seed, and makes it durable.
pub(super) fn fill(legs: &mut Legs, leg: usize, size: Bytes, seed: u64) -> Result<(), LabError> {
    let (mut begun, mut ended) = (0, 0);
    let pieces = size.0.div_ceil(LENGTH);
    while ended < pieces {
        while begun < pieces && begun - ended < AT_ONCE {
            let extent = piece(begun, size);
            let mut buffer = legs.buffer(extent.length);
            noise(&mut buffer, seed.wrapping_add(begun << 20));
            let op = legs.write(leg, extent, buffer, false)?;
            legs.submit(leg, Token(begun), op);
            begun += 1;
        }
        ended += legs.wait(None)?.len() as u64;
    }
    flush(legs, leg)
}

/// Reads the source and writes it to the target without looking at it, then flushes the target. Returns how long that took;
/// `longest`: after that it ends where it is, and the time is what all of it would have taken.
pub(super) fn read_and_write(
    legs: &mut Legs,
    size: Bytes,
    longest: Duration,
) -> Result<Duration, LabError> {
    let pieces = size.0.div_ceil(LENGTH);
    let (mut next, mut busy, mut ended) = (0, 0, 0);
    let begun = Instant::now();
    while ended < pieces && begun.elapsed() < longest {
        while next < pieces && busy < AT_ONCE {
            let extent = piece(next, size);
            let op = Legs::fits(legs.member(SOURCE).read(extent, legs.buffer(extent.length)))?;
            legs.submit(SOURCE, Token(next), op);
            (next, busy) = (next + 1, busy + 1);
        }
        for Completion { token, outcome } in legs.wait(Some(begun + longest))? {
            match outcome {
                Outcome::Read { buffer, .. } => {
                    let op = legs.write(TARGET, piece(token.0, size), buffer, false)?;
                    legs.submit(TARGET, token, op);
                }
                Outcome::Write { .. } => (ended, busy) = (ended + 1, busy - 1),
                _ => {}
            }
        }
    }
    if ended < pieces {
        let span = begun.elapsed();
        legs.settle()?;
        return Ok(span.mul_f64(pieces as f64 / (ended as f64).max(1.0)));
    }
    flush(legs, TARGET)?;
    Ok(begun.elapsed())
}

fn piece(number: u64, size: Bytes) -> Extent {
    let offset = number * LENGTH;
    Extent::new(offset, LENGTH.min(size.0 - offset))
}

fn flush(legs: &mut Legs, leg: usize) -> Result<(), LabError> {
    let op = legs.member(leg).flush();
    legs.submit(leg, Token(0), op);
    legs.settle()
}

/// Bytes of the SplitMix64 sequence (Steele, Lea and Flood, 2014).
fn noise(buffer: &mut Buffer, mut state: u64) {
    for word in buffer.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
}
