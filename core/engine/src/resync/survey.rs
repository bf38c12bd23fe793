// SPDX-License-Identifier: Apache-2.0
//! The survey: where neither copy stores anything there is nothing to read, and one word ends many marks.
//!
//! ```text
//!  a stretch:  claimed ──empty here?──> asked there ──empty there too──> gate ──still empty here──> Same on the line
//!                            │ no             │ no                              │ no
//!                            └────────────────┴─────────> its regions are copied like any other <───┘
//! ```
//! It goes ahead of the copier while everything is marked, as at a first copy. A new sparse volume of any size is level
//! in the time it takes to ask both file systems, and that is the proof that the copies are the same: holes read as
//! zero. A device cannot tell, so it always says no.
//!
//! The gate is held for one look at the local store, never across a round trip (rule 6). What the target found stays
//! true but for items of the line, as with its digests; a mark ends when the target has the Same durable.

use crate::purpose::StretchId;
use crate::resync::copier::Row;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use helio_bitmap::{Bitmap, Region};
use helio_units::{Bytes, Extent, VolumeIndex};

/// Most bytes of one stretch: as long as an item may be.
pub(crate) const STRETCH_MAX: Bytes = Bytes::mib(32);
/// Stretches under way at once.
const STRETCHES_MAX: usize = 8;

/// A row that the survey looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    row: Row,
    round: u32,
    stage: Stage,
}

impl Stretch {
    pub(crate) const fn row(&self) -> Row {
        self.row
    }

    /// The copier's round that it was taken up in.
    pub(crate) const fn round(&self) -> u32 {
        self.round
    }

    /// Its extent holds the gate: the local store is asked for the second time.
    pub(crate) fn holds_gate(&self) -> bool {
        self.stage == Stage::LookingAgain
    }
}

/// How far a stretch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The local store is asked.
    Looking,
    /// The target is asked.
    Asked,
    /// Its extent waits for the gate.
    Waiting,
    /// Its extent holds the gate, and the local store is asked again.
    LookingAgain,
}

/// See the drawing above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    stretches: Vec<Option<Stretch>>,
    open: usize,
    /// Those the target was asked about, in order.
    asked: VecDeque<StretchId>,
    /// Claimed, and the stretch before it was full.
    spare: Option<Region>,
    /// Claimed, and something is stored there: for the copier.
    found: VecDeque<Region>,
}

impl Survey {
    /// Whether another stretch may be taken up: the copier is to have nothing of an earlier one.
    pub(super) fn may_begin(&self) -> bool {
        self.found.is_empty() && self.open < STRETCHES_MAX
    }

    /// Takes up a stretch of the regions that `next` claims.
    pub(super) fn begin(
        &mut self,
        round: u32,
        marks: &mut Bitmap,
        next: impl FnMut(&mut Bitmap) -> Option<Region>,
    ) -> Option<StretchId> {
        let fits = |extent: Extent| Bytes(extent.length) <= STRETCH_MAX;
        let row = Row::join(marks, &mut self.spare, fits, next)?;
        self.open += 1;
        let free = self.stretches.iter().position(Option::is_none).unwrap_or_else(|| {
            self.stretches.push(None);
            self.stretches.len() - 1
        });
        self.stretches[free] = Some(Stretch { row, round, stage: Stage::Looking });
        Some(StretchId(free as u32))
    }

    /// The target is asked about it.
    pub(crate) fn ask(&mut self, id: StretchId) {
        self.put(id, Stage::Asked);
        self.asked.push_back(id);
    }

    /// The target answers what it was asked first, if that is this place.
    pub(crate) fn answered(
        &mut self,
        place: (VolumeIndex, Extent),
    ) -> Option<(StretchId, Stretch)> {
        let id = self.asked.pop_front()?;
        let stretch = self.get(id);
        (stretch.row.place() == place).then_some((id, stretch))
    }

    /// Its extent waits for the gate.
    pub(crate) fn wait(&mut self, id: StretchId) {
        self.put(id, Stage::Waiting);
    }

    /// The local store is asked; for the second time if its extent waited for the gate. Returns the place.
    pub(crate) fn look(&mut self, id: StretchId) -> (VolumeIndex, Extent) {
        let stretch = self.get(id);
        if stretch.stage == Stage::Waiting {
            self.put(id, Stage::LookingAgain);
        }
        stretch.row.place()
    }

    /// Something is stored there: its regions are for the copier.
    pub(crate) fn hand_over(&mut self, stretch: &Stretch) {
        self.found.extend(stretch.row.regions());
    }

    /// The next region for the copier.
    pub(super) fn next_found(&mut self) -> Option<Region> {
        self.found.pop_front()
    }

    /// What was claimed and is not under way counts no more.
    pub(super) fn lay_aside(&mut self) {
        self.spare = None;
        self.found.clear();
    }

    pub(crate) fn get(&self, StretchId(at): StretchId) -> Stretch {
        self.stretches[at as usize].unwrap_or_else(|| panic!("stretch {at} has ended"))
    }

    fn put(&mut self, StretchId(at): StretchId, stage: Stage) {
        if let Some(stretch) = &mut self.stretches[at as usize] {
            stretch.stage = stage;
        }
    }

    pub(crate) fn end(&mut self, StretchId(at): StretchId) {
        self.stretches[at as usize] = None;
        self.open -= 1;
    }

    /// Whether the local store is being asked.
    pub(crate) fn is_looking(&self) -> bool {
        let mut stages = self.stretches.iter().flatten().map(|stretch| stretch.stage);
        stages.any(|stage| matches!(stage, Stage::Looking | Stage::LookingAgain))
    }

    /// The connection is gone, and with it whoever was asked.
    pub(crate) fn unask(&mut self) {
        for id in core::mem::take(&mut self.asked) {
            self.end(id);
        }
    }
}
