// SPDX-License-Identifier: Apache-2.0
//! The last act of some stories: everything replicates, and the primary's machine goes back to a snapshot of its disks and its
//! memory. Its process goes on as if the time since had not passed, and answers that clients had since then are kept by its
//! peer alone. The oracle's promises are about machines that do not go back, so it is not asked here: what the peer holds must
//! stay, and nobody may call two different copies equal.

use super::Stage;
use crate::kinds::Kind;
use crate::promise::{Promise, Violation, hold};
use crate::scenario::span;
use core::time::Duration;
use helio_engine::{Command, CommandId, Operation};
use helio_twin::{BLOCK, Breakage, Happening, Side, Stamp, Suspended};
use helio_units::{Extent, Payload, RequestId, State, VolumeIndex};

/// One story in so many ends like this.
const ONE_IN: u64 = 6;
/// What is under way when a machine goes back ends within this, and so does a planned switch.
const ENDS_WITHIN: Duration = Duration::from_secs(6);
/// The two meet, and copy what they would copy, within this.
const MEET_WITHIN: Duration = Duration::from_secs(60);
/// No client asked under these numbers, or wrote these stamps.
const LATE: u64 = 1 << 61 | 1 << 55;

impl Stage<'_> {
    /// Whether this story ends like this. A lease rests on clocks that count, and this machine's does not; a hook that was asked
    /// ends in the life in which it was asked.
    pub(super) fn rewinds(&mut self) -> bool {
        let config = &self.cluster.node(Side::Paris).config;
        let fits = config.hold.is_zero() && !config.hook_before_sync;
        let drawn = self.driver.dice.chance(1, ONE_IN);
        drawn && fits && !self.driver.leaves_out(Kind::Suspended)
    }

    pub(super) fn rewind(&mut self) -> Result<(), Violation> {
        let Some((side, suspended)) = self.suspend_primary() else { return Ok(()) };
        let heir = side.other();
        self.write_late(side, 0);
        if self.driver.dice.chance(1, 4) {
            self.tell(&format_args!("** {side} hands over"));
            self.cluster.command(side, CommandId(LATE), Command::Switch);
            self.pass(ENDS_WITHIN);
            self.write_late(heir, 100);
        } else if self.driver.dice.chance(1, 4) {
            self.cluster.break_link(Breakage::Silent);
            self.write_late(side, 100);
        }
        self.cluster.kill(side, true);
        self.cluster.mend_link(None);
        self.pass(ENDS_WITHIN);
        let held = self.image(heir);
        self.tell(&format_args!("** the machine of {side} goes back with its memory"));
        self.cluster.resume(side, &suspended);
        let differed = self.image(side) != held;
        self.pass(MEET_WITHIN);
        if differed {
            self.driver.coverage.struck("rewound");
        }
        let now = self.image(heir);
        let lost = held
            .iter()
            .flatten()
            .zip(now.iter().flatten())
            .find(|(held, now)| !follows(**held, **now));
        hold(lost.is_none(), Promise::NothingDiscarded, || {
            let states = self.describe();
            format!("the machine of {side} went back, and {heir} lost writes ({lost:?}): {states}")
        })?;
        let state =
            |side| self.cluster.node(side).engine.as_ref().map(|engine| engine.view().state());
        let level = Side::BOTH.into_iter().all(|side| state(side) == Some(State::Replicating));
        hold(!level || self.image(side) == now, Promise::Replicating, || {
            format!("the machine of {side} went back, and its copy is another: {}", self.describe())
        })
    }

    /// A snapshot of the primary's machine, at a moment at which nothing is under way on it.
    fn suspend_primary(&mut self) -> Option<(Side, Suspended)> {
        for _ in 0..50 {
            let side = Side::BOTH.into_iter().find(|side| self.cluster.node(*side).serves())?;
            if let Some(suspended) = self.cluster.suspend(side) {
                self.tell(&format_args!("** a snapshot of {side} with its memory"));
                return Some((side, suspended));
            }
            self.pass(Duration::from_millis(7));
        }
        None
    }

    /// Some writes, the first of them under the number `from`; the last ones may be under way still.
    fn write_late(&mut self, side: Side, from: u64) {
        for n in 0..1 + self.driver.dice.below(30) {
            let dice = &mut self.driver.dice;
            let node = self.cluster.node(side);
            let volume = VolumeIndex(dice.below(node.config.volumes.len() as u64) as u16);
            let block = dice.below(node.disk.live(volume).len() as u64 - 1);
            let extent = Extent::new(block * BLOCK.0, BLOCK.0);
            let pause = span(dice, Duration::from_micros(100), Duration::from_millis(300));
            let operation = Operation::Write { extent, payload: Payload::default(), fua: false };
            let number = LATE | (from + n);
            self.cluster.submit(side, RequestId(number), volume, operation, Stamp(number));
            self.pass(pause);
        }
    }

    /// Time passes, and neither client nor operator does anything.
    fn pass(&mut self, time: Duration) {
        let until = self.cluster.now() + time;
        self.cluster.run_until(until);
        let mut journal = Vec::new();
        self.cluster.take_journal(&mut journal);
        for happening in &journal {
            if let Happening::Told { side, words } = happening {
                self.tell(&format_args!("{side:>5} {words}"));
            }
        }
    }

    fn image(&self, side: Side) -> Vec<Vec<Stamp>> {
        let node = self.cluster.node(side);
        let volumes = (0..node.config.volumes.len() as u16).map(VolumeIndex);
        volumes.map(|volume| node.disk.live(volume).to_vec()).collect()
    }
}

/// Whether a block may hold `now` after `held`: a late write that still waited may have been done since.
fn follows(held: Stamp, now: Stamp) -> bool {
    let is_late = |stamp: Stamp| stamp.0 & LATE == LATE;
    now == held || (is_late(now) && (!is_late(held) || now.0 > held.0))
}
