// SPDX-License-Identifier: Apache-2.0
//! Digests or raw: which way costs less, as far as the last regions tell.
//!
//! Where most bytes differ, digests only cost the target its reads; where most are equal, they save the link. The
//! choice follows the last [`RECENT`] regions with hysteresis, and while copying raw a few regions are asked about
//! now and then, so that equal stretches are noticed: a single one, since the target must read what is asked about, and
//! more at once behind one that was found equal.

/// Regions the choice looks back on.
const RECENT: u32 = 32;
/// Raw beyond this many parts of 256 that differ, digests below the other.
const MOST: u32 = 224;
const HALF: u32 = 128;
/// Regions copied raw between two probes.
const PROBE_EVERY: u32 = 128;

/// The choice, from update to update.
#[derive(Clone, Debug, Default)]
pub struct Guess {
    /// Of 256 parts, how many differed lately.
    share: u32,
    /// The same of the last region that was compared.
    last: u32,
    /// How many regions `share` looks back on.
    heard: u32,
    /// The share from which on regions are copied raw: the lower one while they are.
    bound: u32,
    since_probe: u32,
}

impl Guess {
    /// How much of a region that was compared differed.
    pub fn learn(&mut self, differed: u64, of: u64) {
        let share = (differed * 256 / of.max(1)) as u32;
        // The first ones count as much as there are of them; later ones a part of what is remembered.
        self.heard = (self.heard + 1).min(RECENT);
        self.share = (self.share * (self.heard - 1) + share) / self.heard;
        self.last = share;
        if share < HALF {
            self.since_probe = PROBE_EVERY;
        }
        self.bound = if self.is_raw_mostly() { HALF } else { MOST };
    }

    /// Whether the next region is copied without a question.
    #[inline]
    pub fn is_raw(&self) -> bool {
        self.is_raw_mostly() && self.since_probe < PROBE_EVERY
    }

    /// Whether a question is a probe, and about one region only: behind one that was mostly equal, it is about more.
    pub fn is_probing(&self) -> bool {
        self.is_raw_mostly() && self.last >= HALF
    }

    /// Nothing was ever compared.
    pub fn is_blind(&self) -> bool {
        self.heard == 0
    }

    /// Regions were copied without a question.
    pub fn count_raw(&mut self, regions: u64) {
        self.since_probe = self.since_probe.saturating_add(regions as u32);
    }

    /// A run was asked about.
    pub fn count_asked(&mut self) {
        self.since_probe = 0;
    }

    /// Whether regions are copied raw, but for probes.
    pub fn is_raw_mostly(&self) -> bool {
        self.heard >= RECENT / 2 && self.share >= self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_copies_raw_where_most_differs_and_asks_again_where_probes_find_equal() {
        let mut guess = Guess::default();
        assert!(!guess.is_raw(), "a new update asks first");
        (0..RECENT).for_each(|_| guess.learn(65536, 65536));
        assert!(guess.is_raw());
        for _ in 0..PROBE_EVERY {
            assert!(guess.is_raw());
            guess.count_raw(1);
        }
        assert!(!guess.is_raw(), "a probe is due");
        guess.count_asked();
        assert!(guess.is_raw() && guess.is_probing(), "one region was asked about");
        guess.learn(32768, 65536);
        assert!(
            guess.is_raw() && guess.is_probing(),
            "half of it differed: it was not mostly equal"
        );
        guess.learn(0, 65536);
        assert!(!guess.is_raw() && !guess.is_probing(), "a whole run is asked about at once");
        (0..RECENT).for_each(|_| guess.learn(0, 65536));
        assert!(!guess.is_raw() && !guess.is_raw_mostly());
    }

    #[test]
    fn a_few_changed_blocks_are_no_reason_to_copy_raw() {
        let mut guess = Guess::default();
        for n in 0..1000 {
            guess.learn(if n % 3 == 0 { 65536 } else { 4096 }, 65536);
            assert!(!guess.is_raw_mostly());
        }
    }
}
