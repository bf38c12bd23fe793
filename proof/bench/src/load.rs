// SPDX-License-Identifier: Apache-2.0
//! Which blocks are written, in which order.

use clap::ValueEnum;

/// The kinds of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mix {
    /// Random blocks.
    Write,
    /// Random blocks, each followed by a flush; both together are one operation.
    WriteFlush,
    /// One block behind the other, from the start again at the end.
    Sequential,
}

impl Mix {
    /// Whether a flush follows each write.
    #[must_use]
    pub fn flushes(self) -> bool {
        self == Self::WriteFlush
    }
}

/// Chooses blocks. The same seed chooses the same ones.
#[derive(Debug)]
pub struct Load {
    mix: Mix,
    block: u64,
    blocks: u64,
    state: u64,
}

impl Load {
    /// Blocks of `block` bytes in a store of `size` bytes, at least one of them.
    #[must_use]
    pub fn new(mix: Mix, block: u64, size: u64, seed: u64) -> Self {
        assert!(size >= block, "a block of {block} bytes does not fit into {size} bytes");
        let state = if mix == Mix::Sequential { 0 } else { seed };
        Self { mix, block, blocks: size / block, state }
    }

    /// Where the next block begins, in bytes.
    pub fn next_offset(&mut self) -> u64 {
        let chosen = if self.mix == Mix::Sequential {
            let chosen = self.state % self.blocks;
            self.state += 1;
            chosen
        } else {
            // An odd step walks all of 2^64; multiplying and folding spreads it.
            self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = mixed ^ (mixed >> 31);
            ((u128::from(mixed) * u128::from(self.blocks)) >> 64) as u64
        };
        chosen * self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_blocks_lie_in_the_store_and_reach_nearly_all_of_it() {
        let mut load = Load::new(Mix::Write, 4096, 256 * 4096, 1);
        let mut met = [false; 256];
        for _ in 0..4096 {
            let offset = load.next_offset();
            assert_eq!(offset % 4096, 0);
            met[(offset / 4096) as usize] = true;
        }
        assert!(met.iter().filter(|met| **met).count() > 250);
    }

    #[test]
    fn sequential_blocks_follow_each_other_and_begin_again() {
        let mut load = Load::new(Mix::Sequential, 4096, 3 * 4096, 9);
        let offsets: Vec<u64> = (0..4).map(|_| load.next_offset()).collect();
        assert_eq!(offsets, [0, 4096, 8192, 0]);
    }
}
