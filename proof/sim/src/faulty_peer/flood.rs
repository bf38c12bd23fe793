// SPDX-License-Identifier: Apache-2.0
//! Floods: a peer sends very many messages at once while nothing is done for the engine.
//!
//! Items, most of them without payload, must make the engine pause at its bound of items. Questions about its copy must make
//! it close the connection.

use super::desk::Desk;
use super::says::Peer;
use crate::coverage::Coverage;
use crate::promise::Violation;
use crate::scenario::pick;
use helio_format::copying::Copying;
use helio_format::message::{ItemKind, Message};
use helio_format::reading::Reading;
use helio_netmodel::Dice;
use helio_units::{Extent, Sequence, VolumeIndex};

/// Messages that the transport has read already when the engine pauses it, at most.
pub(super) const READ_AHEAD: usize = 8;
/// Questions of one kind that an engine may have open.
pub(super) const QUESTIONS_MAX: usize = 1024;

impl Peer {
    /// Sends very many messages. The desk completes nothing in that time.
    pub(super) fn flood(
        &mut self,
        desk: &mut Desk,
        dice: &mut Dice,
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        if dice.chance(1, 40) {
            return self.flood_questions(desk, dice, coverage);
        }
        self.flood_items(desk, dice, coverage)
    }

    /// The next items of its line: of one kind, or of all that have no payload and some that have little.
    fn flood_items(
        &mut self,
        desk: &mut Desk,
        dice: &mut Dice,
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        let kinds = [
            ItemKind::Flush,
            ItemKind::Zero,
            ItemKind::Discard,
            ItemKind::Same,
            ItemKind::Consistent,
            ItemKind::Verify,
        ];
        let one = dice.chance(1, 2).then(|| pick(dice, &kinds));
        let mut left = 4 * desk.bound();
        while left > 0 && desk.is_connected() && !desk.is_paused() {
            for _ in 0..=dice.below(READ_AHEAD as u64 - 1) {
                let kind = one.unwrap_or_else(|| pick(dice, &kinds));
                let item = self.item_of(kind, desk, dice);
                self.next += 1;
                left = left.saturating_sub(1);
                desk.hear(&Message::Item(item))?;
                if !desk.is_connected() {
                    return Ok(());
                }
            }
        }
        if desk.is_paused() {
            coverage.struck("peer-floods-items");
        }
        Ok(())
    }

    /// More questions than a sound primary has open.
    fn flood_questions(
        &mut self,
        desk: &mut Desk,
        dice: &mut Dice,
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        let (volume, extent) = (VolumeIndex(0), Extent::new(0, 4096));
        let reads = dice.chance(1, 2);
        let mut asked = 0;
        for ticket in 0..QUESTIONS_MAX as u64 + 16 {
            asked += 1;
            let after = Sequence(self.next);
            let question = if reads {
                Message::Reading(Reading::Wanted { ticket, after, volume, extent, zeros: false })
            } else {
                Message::Copying(Copying::DigestsWanted { volume, extent, coarse: false })
            };
            desk.hear(&question)?;
            if !desk.is_connected() {
                break;
            }
        }
        // A question out of turn ends the connection at once.
        if desk.hung_up && asked >= QUESTIONS_MAX {
            coverage.struck("peer-floods-questions");
        }
        Ok(())
    }
}
