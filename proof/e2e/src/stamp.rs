// SPDX-License-Identifier: Apache-2.0
//! Blocks that say which write they come from.
//!
//! A block begins with a magic word, the run, the number of its write and its place in the volume; the rest
//! follows from these, so that a block of two halves, a misplaced one and one of another run are all found out.

use helio_testkit::Dice;

/// The bytes of a block.
pub const BLOCK: usize = 4096;

const MAGIC: [u8; 8] = *b"helioe2e";
const HEADER: usize = 32;

/// Fills a block with the stamp of write `number` (from 1) at block `place`.
///
/// # Panics
/// Where the buffer is no block.
pub(crate) fn fill(run: u64, number: u64, place: u64, block: &mut [u8]) {
    assert_eq!(block.len(), BLOCK, "a block has its length");
    block[..8].copy_from_slice(&MAGIC);
    for (word, value) in block[8..HEADER].chunks_exact_mut(8).zip([run, number, place]) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    Dice::new(run).fork(number).fork(place).fill(&mut block[HEADER..]);
}

/// Which write a block comes from; 0 for a block of zeros, as it was at first.
///
/// # Errors
/// What is wrong with a block that is neither.
pub(crate) fn read(run: u64, place: u64, block: &[u8]) -> Result<u64, String> {
    if block.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| block[at + n]));
    let number = word(16);
    let mut expected = [0; BLOCK];
    fill(run, number, place, &mut expected);
    match block.iter().zip(&expected).position(|(is, should)| is != should) {
        None => Ok(number),
        Some(at) => Err(format!(
            "block {place} is no write's: it says number {number}, place {}, and differs from byte {at} on",
            word(24)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_and_nothing_else_is() {
        let mut block = vec![0; BLOCK];
        assert_eq!(read(7, 3, &block), Ok(0));
        fill(7, 42, 3, &mut block);
        assert_eq!(read(7, 3, &block), Ok(42));
        assert!(read(7, 4, &block).is_err(), "in another place");
        assert!(read(8, 3, &block).is_err(), "of another run");
        let mut other = vec![0; BLOCK];
        fill(7, 43, 3, &mut other);
        block[2048..].copy_from_slice(&other[2048..]);
        assert!(read(7, 3, &block).is_err(), "of two halves");
    }
}
