// SPDX-License-Identifier: Apache-2.0
//! The point-in-time copies of a node, for people and programs.

use crate::copies::MissingCopy;
use crate::refusal::Refusal;
use crate::show::view::View;
use alloc::vec::Vec;
use helio_format::snapshot::SnapshotAct;
use helio_stack::{CopyView, HeldCopy, KeptCopy, RollbackStatus};
use helio_units::{Bytes, CopyName, Extent, VolumeIndex};

/// The copies of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiesStatus {
    /// Those that are held, the safe copy among them, the oldest first.
    pub held: Vec<HeldCopy>,
    /// Those that are not here although they were to be.
    pub missing: Vec<MissingCopy>,
    /// Bytes of before-images.
    pub preserved: Bytes,
}

impl View<'_> {
    /// The copies of which that volume can be read now, the oldest first.
    #[must_use]
    pub fn readable_copies(&self, volume: VolumeIndex) -> Vec<KeptCopy> {
        let mut copies = self.local.held_copies();
        let from = (self.keeper, self.record.superblock());
        copies.retain(|copy| self.standing.gives_copy((copy, volume), from, self.local));
        copies
    }

    /// Whether a client can use that volume of a copy now.
    #[must_use]
    pub fn gives(&self, on: CopyView, volume: VolumeIndex) -> bool {
        let from = (self.keeper, self.record.superblock());
        self.standing.gives((on, volume), from, self.local)
    }

    /// Where that volume may have changed since a copy, in an extent that is not empty: whole chunks, in their order. None if a client
    /// cannot use the copy. A younger copy differs from this one nowhere else.
    #[must_use]
    pub fn changed(
        &self,
        on: CopyView,
        volume: VolumeIndex,
        extent: Extent,
    ) -> Option<Vec<Extent>> {
        if self.gives(on, volume) { self.local.changed(on, (volume, extent)) } else { None }
    }

    /// The copies of this node.
    #[must_use]
    pub fn copies(&self) -> CopiesStatus {
        let missing = self.copies.missing().cloned().collect();
        CopiesStatus { held: self.local.copies(), missing, preserved: self.local.preserved() }
    }

    /// A rollback is under way: what members hold is not what the volumes hold.
    #[must_use]
    pub fn is_rolling_back(&self) -> bool {
        self.local.is_rolling_back()
    }

    /// How far it is, which takes time, and the name of its copy. Also of one whose beginning failed, if a restart may continue it: clients
    /// still read the members.
    #[must_use]
    pub fn rollback(&self) -> Option<(Option<CopyName>, RollbackStatus)> {
        let rollback = self.local.rollback()?;
        let copy = self.local.held_copy(rollback.to);
        Some((copy.and_then(|copy| copy.name()), rollback))
    }

    /// Whether this primary can create or refresh that snapshot now.
    ///
    /// # Errors
    /// What is in the way.
    pub fn may_snapshot(&self, act: SnapshotAct) -> Result<(), Refusal> {
        self.standing.may_snapshot(act, self.turn)?;
        self.copies.may_create(act, self.local, self.turn).map(|_replaced| ())
    }
}
