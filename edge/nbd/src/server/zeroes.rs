// SPDX-License-Identifier: Apache-2.0
//! Finding zeroes in data that was read, cheaply enough to look at every read.

use std::ops::Range;

/// Reads shorter than this are never split, in bytes: what a hole in them would spare is not worth the
/// chunks around it.
const SPLIT_MIN: usize = 64 << 10;

/// What is looked at first of a block, in bytes. Data that is not zero nearly always shows it here.
const GLANCE: usize = 64;

/// Cuts data into runs that are zero throughout and runs that are not, in order and without gaps; no two
/// neighbours are of the same sort. `offset` is where the data lies on the export: runs change at multiples of
/// `granularity` there (bytes, at least 1; 4096 and up make sense), so runs are whole blocks but for the ends.
/// Data of less than 64 KiB is one run.
///
/// A block that is not zero costs a look at its first 64 bytes, unless those are zero.
pub fn zero_runs(
    offset: u64,
    data: &[u8],
    granularity: u32,
) -> impl Iterator<Item = (Range<usize>, bool)> {
    let granularity = granularity.max(1) as usize;
    let first = granularity - (offset % granularity as u64) as usize;
    let mut blocks = Blocks { data, at: 0, next: first, granularity };
    if data.len() < SPLIT_MIN {
        blocks.next = data.len();
    }
    let mut open: Option<(Range<usize>, bool)> = None;
    std::iter::from_fn(move || {
        for (block, zero) in blocks.by_ref() {
            match &mut open {
                Some((run, sort)) if *sort == zero => run.end = block.end,
                _ => {
                    let complete = open.replace((block, zero));
                    if complete.is_some() {
                        return complete;
                    }
                }
            }
        }
        open.take()
    })
}

/// Block by block, each with whether it is zero.
struct Blocks<'a> {
    data: &'a [u8],
    at: usize,
    /// Where the block that begins at `at` ends, if the data reaches that far.
    next: usize,
    granularity: usize,
}

impl Iterator for Blocks<'_> {
    type Item = (Range<usize>, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.at..self.next.min(self.data.len());
        if block.is_empty() {
            return None;
        }
        self.at = block.end;
        self.next = block.end.saturating_add(self.granularity);
        let zero = is_zero(&self.data[block.clone()]);
        Some((block, zero))
    }
}

/// Whether every byte is zero. Stops within the first 64-byte piece that is not.
fn is_zero(block: &[u8]) -> bool {
    let (pieces, rest) = block.as_chunks::<GLANCE>();
    // Without a branch per byte, which lets the compiler look at many at once.
    let clear = |piece: &[u8]| piece.iter().fold(0, |seen, byte| seen | byte) == 0;
    pieces.iter().all(|piece| clear(piece)) && clear(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(offset: u64, data: &[u8]) -> Vec<(Range<usize>, bool)> {
        zero_runs(offset, data, 4096).collect()
    }

    #[test]
    fn zeroes_between_data_are_found_in_whole_blocks() {
        let mut data = vec![0; 80 << 10];
        data[..5000].fill(1);
        data[70 << 10] = 1;
        let wanted = [
            (0..8192, false),
            (8192..68 << 10, true),
            (68 << 10..72 << 10, false),
            (72 << 10..80 << 10, true),
        ];
        assert_eq!(runs(0, &data), wanted);
    }

    #[test]
    fn runs_change_where_the_exports_blocks_do() {
        let mut data = vec![0; 80 << 10];
        data[0] = 1;
        assert_eq!(runs(512, &data), [(0..3584, false), (3584..80 << 10, true)]);
        assert_eq!(runs(3584, &data), [(0..512, false), (512..80 << 10, true)]);
    }

    #[test]
    fn short_data_is_one_run() {
        let mut data = vec![0; SPLIT_MIN - 1];
        assert_eq!(runs(0, &data), [(0..SPLIT_MIN - 1, true)]);
        data[SPLIT_MIN - 2] = 1;
        assert_eq!(runs(0, &data), [(0..SPLIT_MIN - 1, false)]);
        assert_eq!(runs(0, &[]), []);
    }

    proptest! {
        #[test]
        fn runs_cover_the_data_in_turns_and_tell_the_truth(
            offset in 0_u64..20_000,
            length in 0_usize..200_000,
            spots in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            granularity in prop_oneof![Just(512_u32), Just(4096), Just(65_536), 1_u32..9000],
        ) {
            let mut data = vec![0; length];
            for spot in spots {
                if length > 0 {
                    data[spot.index(length)] = 7;
                }
            }
            let found: Vec<_> = zero_runs(offset, &data, granularity).collect();
            let mut at = 0;
            for (n, (run, zero)) in found.iter().enumerate() {
                prop_assert_eq!(run.start, at);
                prop_assert!(run.end > run.start);
                prop_assert_eq!(*zero, data[run.clone()].iter().all(|byte| *byte == 0));
                prop_assert!(n == 0 || found[n - 1].1 != *zero);
                prop_assert!(n == 0 || (offset + at as u64).is_multiple_of(granularity.into()));
                at = run.end;
            }
            prop_assert_eq!(at, length);
        }
    }
}
