// SPDX-License-Identifier: Apache-2.0
//! The dice: a small deterministic generator, so that a seed tells a whole story again.

/// The step of the seeding sequence: 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// One output of SplitMix64 for a state: spreads every input bit over the whole word.
const fn mix(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A deterministic source of chance: the xoshiro256++ generator, seeded through SplitMix64.
///
/// Equal seeds give equal rolls on every machine and in every build, for ever: recorded seeds must go on telling
/// the same story, so the algorithm may not change. Not for secrets.
#[derive(Clone, Debug)]
pub struct Dice {
    seed: u64,
    state: [u64; 4],
}

impl Dice {
    /// The dice of `seed`. Every seed is as good as any other, 0 included.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let word = |n: u64| mix(seed.wrapping_add(GOLDEN.wrapping_mul(n)));
        Self { seed, state: [word(1), word(2), word(3), word(4)] }
    }

    /// Independent dice for one purpose, named by `label`.
    ///
    /// They depend on the seed and the label alone, not on what was rolled before: a purpose that rolls once more
    /// leaves every other purpose's story as it was.
    #[must_use]
    pub fn split(&self, label: &str) -> Self {
        // FNV-1a over the label; `mix` then spreads what it leaves in the low bits.
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::new(mix(self.seed ^ mix(hash)))
    }

    /// As [`Dice::split`], for the `n`th of several alike: links, nodes, volumes.
    #[must_use]
    pub fn split_nth(&self, label: &str, n: u64) -> Self {
        let family = self.split(label);
        Self::new(mix(family.seed.wrapping_add(GOLDEN.wrapping_mul(n.wrapping_add(1)))))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let carried = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= carried;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// One of `0..n`, each equally likely; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // The high word of roll × n is fair once low words under 2^64 mod n are rolled again.
        let unfair = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= unfair {
                return (product >> 64) as u64;
            }
        }
    }

    /// True `numerator` times out of `denominator`; never where the denominator is 0.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        denominator > 0 && self.below(denominator) < numerator
    }

    /// A fraction in `0.0..1.0`, in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_generators_are_the_published_ones() {
        // The first outputs their authors' reference code gives: for the state 1, 2, 3, 4 and the seed 1234567.
        let mut dice = Dice { seed: 0, state: [1, 2, 3, 4] };
        let rolls: Vec<u64> = (0..4).map(|_| dice.next_u64()).collect();
        assert_eq!(rolls, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
        let seeded = Dice::new(1_234_567).state;
        assert_eq!(seeded[..2], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn splitting_ignores_what_was_rolled_and_tells_labels_apart() {
        let (fresh, mut used) = (Dice::new(7), Dice::new(7));
        used.next_u64();
        assert_eq!(fresh.split("link").next_u64(), used.split("link").next_u64());
        let mut rolls: Vec<u64> =
            ["link", "disk", ""].iter().map(|label| fresh.split(label).next_u64()).collect();
        rolls.extend((0..5).map(|n| fresh.split_nth("link", n).next_u64()));
        rolls.push(Dice::new(7).next_u64());
        let all = rolls.len();
        rolls.sort_unstable();
        rolls.dedup();
        assert_eq!(rolls.len(), all);
    }

    #[test]
    fn below_is_fair_and_in_range() {
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let mut seen = [0u32; 6];
            for _ in 0..6000 {
                seen[dice.below(6) as usize] += 1;
            }
            // Five standard deviations of a binomial (6000, 1/6) are 144.
            assert!(seen.iter().all(|n| n.abs_diff(1000) < 144), "seed {seed}: {seen:?}");
            assert_eq!(dice.below(0), 0, "seed {seed}");
            assert_eq!(dice.below(1), 0, "seed {seed}");
            assert!(dice.below(u64::MAX) < u64::MAX, "seed {seed}");
        }
    }

    #[test]
    fn chance_and_uniform_keep_their_odds() {
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let hits = (0..10_000).filter(|_| dice.chance(1, 4)).count();
            assert!(hits.abs_diff(2500) < 220, "seed {seed}: {hits}");
            let mean = (0..10_000).map(|_| dice.uniform()).sum::<f64>() / 10_000.0;
            assert!((mean - 0.5).abs() < 0.015, "seed {seed}: {mean}");
            assert!(!dice.chance(0, 5) && dice.chance(5, 5) && !dice.chance(1, 0), "seed {seed}");
        }
    }
}
