// SPDX-License-Identifier: Apache-2.0
//! The copy that a primary ships in mode periodic.
//!
//! ```text
//!   Nothing ──asked──> Cutting ──held──> Held ──no longer shipped──> Dropping ──> Nothing
//! ```
//! One that an earlier process left is held, too, and is not shipped.

use super::{Copies, why_not_cut};
use crate::local::Local;
use crate::local::copying::CopyUser;
use crate::turn::Turn;
use alloc::string::String;
use helio_format::before::{CopyClass, CopyOwner, CopyStage};
use helio_ledger::BeforeFound;
use helio_stack::{CopyNumber, CopyOp, CopyOutcome};
use helio_units::Bytes;

/// See the drawing above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shipped {
    #[default]
    Nothing,
    Cutting,
    Held(CopyNumber),
    Dropping,
}

impl Shipped {
    /// The one that an earlier process left.
    pub(super) fn found(found: &BeforeFound) -> Self {
        let mut held = found.copies.iter().filter(|copy| copy.stage == CopyStage::Held);
        held.rfind(|copy| copy.is_shipped()).map_or(Self::Nothing, |copy| Self::Held(copy.number))
    }
}

impl Copies {
    /// A cut may be asked for.
    pub(crate) fn may_ship(&self) -> bool {
        self.shipped == Shipped::Nothing
    }

    /// Prepares a cut that is to be shipped.
    pub(crate) fn cut_to_ship(&mut self, local: &mut Local, turn: &mut Turn) {
        self.shipped = Shipped::Cutting;
        let (class, owner) = (CopyClass::Expendable, CopyOwner::Resync);
        let op = CopyOp::Cut { class, owner, overwritten: Bytes::ZERO };
        local.copy(CopyUser::Shipping, op, turn);
    }

    /// What was asked of the layer ended. Returns the copy that is held now, or why there is none; nothing if one was dropped.
    pub(crate) fn ship_done(
        &mut self,
        outcome: CopyOutcome,
        local: &Local,
        turn: &Turn,
    ) -> Option<Result<CopyNumber, String>> {
        let cut = self.shipped == Shipped::Cutting;
        self.shipped = match outcome {
            CopyOutcome::Cut(number) => Shipped::Held(number),
            _ => Shipped::Nothing,
        };
        match outcome {
            CopyOutcome::Cut(number) => Some(Ok(number)),
            outcome => cut.then(|| Err(why_not_cut(outcome, local, turn))),
        }
    }

    /// That copy is over for want of room. Returns whether it is the one that is shipped.
    pub(super) fn ship_over(&mut self, number: CopyNumber) -> bool {
        let over = self.shipped == Shipped::Held(number);
        if over {
            self.shipped = Shipped::Nothing;
        }
        over
    }

    /// Drops the copy that is held, unless it is `used`.
    pub(crate) fn drop_shipped(
        &mut self,
        used: Option<CopyNumber>,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        if let Shipped::Held(number) = self.shipped
            && used != Some(number)
        {
            self.shipped = Shipped::Dropping;
            local.copy(CopyUser::Shipping, CopyOp::Drop(number), turn);
        }
    }
}
