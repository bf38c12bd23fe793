// SPDX-License-Identifier: Apache-2.0
//! The dice that the engine was given: the same seed at the same moments, the same numbers.
//!
//! What is rolled names generations, tenures and copies. A machine that goes back to a snapshot with its memory takes its dice
//! back, too, and what it names then is something else: so the moment counts. At two moments, one roll is two numbers.

use helio_units::Moment;

/// splitmix64, public domain, over moments.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, at that moment.
    pub(crate) const fn roll(&mut self, now: Moment) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0 ^ now.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of splitmix64 from the seed 0, as its authors publish them.
    #[test]
    fn the_dice_are_splitmix64() {
        let mut dice = Dice::new(0);
        let rolled = [0; 3].map(|_| dice.roll(Moment::ZERO));
        assert_eq!(rolled, [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
    }
}
