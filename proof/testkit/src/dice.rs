// SPDX-License-Identifier: Apache-2.0
//! Chance that repeats: everything a test leaves to luck comes from one seed, and a failure tells it.

use std::process::Command;

/// A small generator of numbers (SplitMix64: a counter and a mixer). Not for secrets.
#[derive(Debug)]
pub struct Dice {
    state: u64,
    seed: u64,
    /// The test to name in the line that replays; a fork has none, since its parent tells.
    test: Option<&'static str>,
}

impl Dice {
    /// The dice of a test: seeded by `HELIO_SEED`, else by 0. Where the test fails, they print the line that
    /// runs it again with the same luck.
    ///
    /// # Panics
    /// Where `HELIO_SEED` is no number.
    #[must_use]
    pub fn of_test(test: &'static str) -> Self {
        let seed = number("HELIO_SEED").unwrap_or(0);
        Self { test: Some(test), ..Self::new(seed) }
    }

    /// Dice from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed, seed, test: None }
    }

    /// Dice of their own for a thread or a round: the label and the seed decide, not who rolled before.
    #[must_use]
    pub fn fork(&self, label: u64) -> Self {
        Self::new(mix(self.seed ^ mix(label)))
    }

    /// The seed they began with.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number from 0 to `bound - 1`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of a product: even to within bound / 2^64.
        let product = u128::from(self.roll()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(u64::MAX)
    }

    /// True in `percent` of a hundred rolls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    ///
    /// # Panics
    /// Where there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let at = self.below(choices.len() as u64);
        &choices[usize::try_from(at).unwrap_or(usize::MAX)]
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(8) {
            let bytes = self.roll().to_le_bytes();
            piece.copy_from_slice(&bytes[..piece.len()]);
        }
    }
}

impl Drop for Dice {
    fn drop(&mut self) {
        if let Some(test) = self.test
            && std::thread::panicking()
        {
            eprintln!("replay: HELIO_SEED={} cargo test -p helio-e2e {test}", self.seed);
        }
    }
}

/// Spreads every bit of `value` over all bits of the result.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// How many rounds a repeated test goes: `HELIO_ROUNDS`, else what it asks for.
///
/// # Panics
/// Where `HELIO_ROUNDS` is no number.
#[must_use]
pub fn rounds(otherwise: u64) -> u64 {
    times("HELIO_ROUNDS", otherwise)
}

/// How often a long story is told: what this variable of the environment says, else what the test asks for.
///
/// # Panics
/// Where the variable is no number.
#[must_use]
pub fn times(variable: &str, otherwise: u64) -> u64 {
    number(variable).unwrap_or(otherwise)
}

/// The first seed of a walk: `HELIO_SEED`, else 0. `cargo xtask test` sets it by the tree that it tests, so that every change
/// walks seeds of its own, and the same tree always the same ones.
///
/// # Panics
/// `HELIO_SEED` is no number.
#[must_use]
pub fn first_seed() -> u64 {
    number("HELIO_SEED").unwrap_or(0)
}

/// A number below `count` that the seed of the run decides.
///
/// # Panics
/// `HELIO_SEED` is no number.
#[must_use]
pub fn drawn(count: usize) -> usize {
    Dice::new(first_seed()).below(count as u64) as usize
}

/// Lets a simulator walk a share of seeds. It prints what the walk comes to, and the line that repeats a story.
///
/// # Panics
/// The program cannot be started, or a promise is broken.
#[track_caller]
pub fn walk_share(program: &str, share: u64) {
    let first = first_seed().to_string();
    let walk =
        Command::new(program).args(["--seeds", &share.to_string(), "--from", &first]).status();
    assert!(walk.is_ok_and(|status| status.success()), "{program}: seeds from {first}");
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name} is `{text}`, and should be a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_tells_the_same_story() {
        let story = |mut dice: Dice| -> Vec<u64> { (0..8).map(|_| dice.below(1000)).collect() };
        assert_eq!(story(Dice::new(7)), story(Dice::new(7)));
        assert_ne!(story(Dice::new(7)), story(Dice::new(8)));
        assert_eq!(story(Dice::new(7).fork(1)), story(Dice::new(7).fork(1)));
        assert_ne!(story(Dice::new(7).fork(1)), story(Dice::new(7).fork(2)));
    }

    #[test]
    fn the_generator_is_the_one_it_says_it_is() {
        // The reference values of SplitMix64 for seed 0.
        let mut dice = Dice::new(0);
        assert_eq!(dice.roll(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(dice.roll(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut dice = Dice::new(1);
        let mut seen = [false; 6];
        for _ in 0..200 {
            seen[usize::try_from(dice.below(6)).expect("small")] = true;
        }
        assert_eq!(seen, [true; 6]);
        assert_eq!(dice.below(0), 0);
        assert!((0..50).all(|_| dice.chance(100)) && !(0..50).any(|_| dice.chance(0)));
        let mut buffer = [0; 13];
        dice.fill(&mut buffer);
        assert!(buffer[8..].iter().any(|byte| *byte != 0));
        assert!([3, 4].contains(dice.pick(&[3, 4])));
    }
}
