// SPDX-License-Identifier: Apache-2.0
//! Reads and writes without the layer: what the disks hold before a copy, and the rate that a copy of different data can reach at most.

use super::legs::Legs;
use crate::error::LabError;
use helio_driver::{Buffer, Completion, Outcome, Token};
use helio_netmodel::Dice;
use helio_units::{Bytes, Extent};
use std::time::{Duration, Instant};

/// Bytes of an operation, and how many are in flight: as many as copies have.
const LENGTH: u64 = 1 << 20;
const AT_ONCE: u64 = 4;
/// The disks, by their places among the legs.
pub(super) const SOURCE: usize = 0;
pub(super) const TARGET: usize = 1;

/// Fills a disk with noise of that seed, and makes it durable.
pub(super) fn fill(
    legs: &mut Legs<'_>,
    leg: usize,
    size: Bytes,
    seed: u64,
) -> Result<(), LabError> {
    let mut dice = Dice::new(seed);
    let (mut begun, mut ended) = (0, 0);
    let pieces = size.0.div_ceil(LENGTH);
    while ended < pieces {
        while begun < pieces && begun - ended < AT_ONCE {
            let extent = piece(begun, size);
            let buffer = noise(legs, extent.length, &mut dice);
            let op = legs.write(leg, extent, buffer, false)?;
            legs.submit(leg, Token(begun), op);
            begun += 1;
        }
        ended += legs.wait(None)?.len() as u64;
    }
    flush(legs, leg)
}

/// Reads the source, writes its bytes to the target without comparing, and flushes the target. Returns the rate in bytes per second. After
/// `longest` it ends: the rate is that of what was written by then, and `None` if no write had completed.
pub(super) fn read_and_write(
    legs: &mut Legs<'_>,
    size: Bytes,
    longest: Duration,
) -> Result<Option<f64>, LabError> {
    let pieces = size.0.div_ceil(LENGTH);
    let (mut next, mut busy, mut ended, mut written) = (0, 0, 0, 0);
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
                Outcome::Write { .. } => {
                    (ended, busy) = (ended + 1, busy - 1);
                    written += piece(token.0, size).length;
                }
                _ => {}
            }
        }
    }
    if ended == pieces {
        flush(legs, TARGET)?;
    }
    let span = begun.elapsed();
    legs.abandon()?;
    Ok((written > 0).then(|| written as f64 / span.as_secs_f64()))
}

fn piece(number: u64, size: Bytes) -> Extent {
    let offset = number * LENGTH;
    Extent::new(offset, LENGTH.min(size.0 - offset))
}

fn flush(legs: &mut Legs<'_>, leg: usize) -> Result<(), LabError> {
    let op = legs.member(leg).flush();
    legs.submit(leg, Token(0), op);
    legs.settle()
}

/// A buffer of this length in bytes, filled with noise.
pub(super) fn noise(legs: &Legs<'_>, length: u64, dice: &mut Dice) -> Buffer {
    let mut buffer = legs.buffer(length);
    for word in buffer.chunks_exact_mut(8) {
        word.copy_from_slice(&dice.next_u64().to_le_bytes());
    }
    buffer
}
