// SPDX-License-Identifier: Apache-2.0
//! What flushes carry: bytes that cannot be compressed, or just as far as was asked.

use crate::error::LabError;
use crate::wire::{HEAD, Head, longest};
use lz4_flex::block::{compress_into, get_maximum_output_size};

/// The piece in which what can be compressed and what cannot take turns.
const PIECE: usize = 4096;
/// LZ4 says a run of one byte in one byte for each 255.
const RUN: f64 = 255.0;
/// How far it can be asked to compress.
pub const RATIOS: std::ops::RangeInclusive<f64> = 1.0..=20.0;

/// One flush after the other.
#[derive(Debug)]
pub(crate) struct Payload {
    body: Vec<u8>,
    compressed: bool,
    frame: Vec<u8>,
}

/// Refuses a ratio that cannot be reached.
pub(crate) fn check(ratio: f64) -> Result<(), LabError> {
    if RATIOS.contains(&ratio) {
        return Ok(());
    }
    let (least, most) = (RATIOS.start(), RATIOS.end());
    Err(LabError::Asked(format!("a compression of {ratio} is not between {least} and {most}")))
}

impl Payload {
    /// Flushes of `flush` bytes, compressed where a ratio is given that was checked: as many times smaller they become.
    pub(crate) fn new(flush: u64, ratio: Option<f64>) -> Self {
        let length = flush as usize - HEAD;
        // What remains of n bytes of which p are random is about p + (n - p) / 255.
        let share = ratio.map_or(1.0, |ratio| (1.0 / ratio - 1.0 / RUN) / (1.0 - 1.0 / RUN));
        let mut body = vec![0; length];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for piece in body.chunks_mut(PIECE) {
            let random = (piece.len() as f64 * share).round() as usize;
            piece[..random].iter_mut().for_each(|byte| *byte = next(&mut state));
        }
        let room = if ratio.is_some() { get_maximum_output_size(length) } else { length };
        Self { body, compressed: ratio.is_some(), frame: vec![0; HEAD + room] }
    }

    /// The flush of that number as it goes on the wire.
    pub(crate) fn frame(&mut self, number: u64) -> &[u8] {
        let length = if self.compressed {
            let room = &mut self.frame[HEAD..];
            compress_into(&self.body, room).expect("there is room for the worst case")
        } else {
            if number == 1 {
                self.frame[HEAD..].copy_from_slice(&self.body);
            }
            self.body.len()
        };
        let stored = HEAD + length;
        let raw = HEAD + self.body.len();
        debug_assert!(stored as u64 <= longest(raw as u64));
        let head = Head { stored: stored as u32, raw: raw as u32, number };
        self.frame[..HEAD].copy_from_slice(&head.encode());
        &self.frame[..stored]
    }
}

/// Marsaglia's xorshift of 64 bits (Journal of Statistical Software 8, 14, 2003): random enough not to be compressed.
fn next(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{LEAST_FLUSH, MOST_FLUSH};

    #[test]
    fn it_is_compressed_as_far_as_was_asked() {
        for ratio in [1.5, 2.0, 2.5, 4.0, 10.0, 20.0] {
            let mut payload = Payload::new(131_072, Some(ratio));
            let reached = 131_072.0 / payload.frame(1).len() as f64;
            assert!((reached / ratio - 1.0).abs() < 0.05, "asked {ratio}, reached {reached:.2}");
        }
    }

    #[test]
    fn what_is_not_compressed_is_as_long_as_the_flush_and_what_cannot_be_stays_in_the_bound() {
        for flush in [LEAST_FLUSH, 4096, 131_072] {
            let mut plain = Payload::new(flush, None);
            assert_eq!(plain.frame(1).len() as u64, flush);
        }
        for flush in [LEAST_FLUSH, 4096, MOST_FLUSH] {
            let mut random = Payload::new(flush, Some(1.0));
            let stored = random.frame(1).len() as u64;
            assert!(stored <= longest(flush), "{flush}: {stored}");
        }
        assert!(check(1.0).is_ok() && check(20.0).is_ok());
        assert!([0.5, 20.1, f64::NAN].into_iter().all(|ratio| check(ratio).is_err()));
    }

    #[test]
    fn what_was_compressed_comes_back() {
        let mut payload = Payload::new(65_536, Some(3.0));
        let frame = payload.frame(1).to_vec();
        let mut room = vec![0; 65_536 - HEAD];
        let length = lz4_flex::block::decompress_into(&frame[HEAD..], &mut room).expect("whole");
        assert!(length == room.len() && room == payload.body);
    }
}
