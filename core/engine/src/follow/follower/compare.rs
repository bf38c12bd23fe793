// SPDX-License-Identifier: Apache-2.0
//! A follower's part in a verify: an item that compares instead of changing.
//!
//! It passes the gate like a write, so everything that overlaps it and came before is in the image, and nothing that
//! comes behind it is. It leaves nothing to flush. What differs is told before the item is acknowledged, on the same
//! connection: a primary that hears the acknowledgement has heard the differences.

use super::news::TELL_AFTER;
use super::{Follower, Stage};
use crate::event::StoreOutcome;
use crate::local::Local;
use crate::turn::Turn;
use alloc::format;
use alloc::vec;
use helio_format::copying::Copying;
use helio_format::message::{Item, Message};
use helio_units::{Bytes, Extent, Mode, Sequence};

/// Bytes one digest of a verify stands for.
pub(crate) const COMPARED_BLOCK: Bytes = Bytes(4096);
/// Bytes of one digest.
const DIGEST_BYTES: u64 = 16;

/// Whether an item carries a digest for every block of its extent.
pub(super) fn is_whole(item: &Item) -> bool {
    let blocks = item.extent.length.div_ceil(COMPARED_BLOCK.0);
    item.payload.is_some_and(|payload| u64::from(payload.length) == blocks * DIGEST_BYTES)
}

impl Follower {
    /// The store compared an extent with the digests of an item.
    pub(super) fn compared(
        &mut self,
        at: Sequence,
        outcome: StoreOutcome,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let (completed, Some(slot)) = (self.completed(), self.slot_mut(at)) else {
            panic!("item {at} was compared twice")
        };
        slot.stage = Stage::Done;
        let item = slot.item;
        if let Some(payload) = slot.item.payload.take() {
            turn.release(payload.id);
            self.memory.give_back(&item);
        }
        let differing = match outcome {
            StoreOutcome::Verified(runs) => runs,
            StoreOutcome::Failed(fault) => {
                // What cannot be read is not what the primary holds; writing it again may mend it.
                turn.warn(format!(
                    "volume {} cannot be read on this node at {}: {fault}; a verify reports it as different",
                    turn.config().name_of(item.volume), item.extent
                ));
                vec![item.extent]
            }
            other => panic!("a comparison ended as {other:?}"),
        };
        self.tell_differences(&item, &differing, turn);
        self.let_through(&item, local, turn);
        self.news.ended(at);
        let patient = turn.config().mode == Mode::Async;
        self.advance(completed, patient.then(|| turn.now() + TELL_AFTER), turn);
    }

    /// Without a connection nothing is told: the primary compares again what it heard nothing of.
    fn tell_differences(&self, item: &Item, differing: &[Extent], turn: &mut Turn) {
        for extent in differing.iter().filter(|_| self.intake.is_begun()) {
            let (volume, sequence) = (item.volume, item.sequence);
            turn.send(Message::Copying(Copying::Differs { volume, extent: *extent, sequence }));
        }
    }
}
