// SPDX-License-Identifier: Apache-2.0
//! What is there of a write that failed, or that was under way when its process ended: any of its sectors, or those before
//! the one that failed.
//!
//! The kernel ends what a killed process had under way, and the daemon's locks on its files are free only then: so all of
//! it lands before another process opens them.

use super::Disk;
use crate::{Place, Stamp};
use helio_units::SECTOR;

impl Disk {
    /// What of a write reached the disk.
    pub(super) fn reached(&mut self, asked: Vec<(Place, Stamp)>) -> Vec<(Place, Stamp)> {
        let (dice, count) = (&mut self.dice, asked.len() as u64);
        let upto = dice.chance(1, 3).then(|| dice.below(count + 1));
        let mut reached = Vec::new();
        for (n, (place, stamp)) in (0..).zip(asked) {
            let whole = upto.map_or_else(|| dice.chance(1, 2), |upto| n < upto);
            let in_part = upto.map_or_else(|| dice.chance(1, 3), |upto| n == upto);
            let held = self.images[usize::from(place.volume.0)].live[place.block as usize];
            let torn = Stamp::torn(held, stamp)
                .filter(|_| in_part && u64::from(self.block) == SECTOR && held != stamp);
            self.torn += u64::from(torn.is_some());
            reached.extend(torn.or(whole.then_some(stamp)).map(|stamp| (place, stamp)));
        }
        reached
    }

    /// How many blocks were torn since this was asked last.
    pub(crate) fn take_torn(&mut self) -> u64 {
        core::mem::take(&mut self.torn)
    }
}
