// SPDX-License-Identifier: Apache-2.0
//! How far chunks are preserved before a change wants them.

use crate::work::BATCH_CHUNKS;

/// Where all of the volumes will be overwritten, so many chunks are preserved ahead of the last one that a change wanted: what
/// four batches preserve.
const AHEAD_CHUNKS: u64 = 4 * BATCH_CHUNKS as u64;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    /// At most so many chunks: none unless everything will be overwritten.
    most: u64,
    /// Behind the last chunk that a change wanted.
    reached: u64,
    /// From there up to here nothing is left to preserve.
    done: u64,
}

impl Ahead {
    /// Ahead of changes that overwrite everything, or not at all.
    pub(crate) const fn new(everything: bool) -> Self {
        Self { most: if everything { AHEAD_CHUNKS } else { 0 }, reached: 0, done: 0 }
    }

    /// A change wanted chunks up to there.
    pub(crate) const fn reach(&mut self, end: u64) {
        self.reached = end;
    }

    /// Nothing is preserved ahead any more. Returns whether it was.
    pub(crate) const fn stop(&mut self) -> bool {
        let ran = self.most > 0;
        self.most = 0;
        ran
    }

    /// The next chunk to preserve, of that many, where it is not preserved already.
    pub(crate) fn next(&mut self, total: u64, preserved: impl Fn(u64) -> bool) -> Option<u64> {
        if self.most == 0 {
            return None;
        }
        let end = (self.reached + self.most).min(total);
        if !(self.reached..=end).contains(&self.done) {
            self.done = self.reached;
        }
        while self.done < end {
            self.done += 1;
            if !preserved(self.done - 1) {
                return Some(self.done - 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_preserved_ahead_as_far_as_four_batches_go_and_no_further() {
        let mut ahead = Ahead::new(true);
        ahead.reach(3);
        let total = 10 * AHEAD_CHUNKS;
        let next = || ahead.next(total, |_| false);
        let chunks: alloc::vec::Vec<u64> = core::iter::from_fn(next).collect();
        assert_eq!(chunks.len() as u64, AHEAD_CHUNKS);
        assert_eq!(chunks.last(), Some(&(3 + AHEAD_CHUNKS - 1)));
        assert_eq!(Ahead::new(false).next(total, |_| false), None);
    }
}
