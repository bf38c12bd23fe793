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

use crate::effect::StoreOp;
use crate::event::StoreOutcome;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::peer::primary::{Primary, PrimaryIo};
use crate::resync::copier::Row;
use crate::stream::write::Ticket;
use crate::turn::Turn;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_bitmap::{Bitmap, Region};
use helio_format::copying::Copying;
use helio_format::message::{ItemKind, Message};
use helio_units::{Bytes, Extent, VolumeIndex};

/// Most bytes of one stretch: as long as an item may be.
pub(crate) const STRETCH_MAX: Bytes = Bytes::mib(32);
/// Stretches under way at once.
const STRETCHES_MAX: usize = 8;

/// Names a stretch under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StretchId(u32);

/// A row that the survey looks at.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    row: Row,
    round: u32,
    stage: Stage,
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

    /// Something is stored there: its regions are for the copier.
    fn hand_over(&mut self, stretch: &Stretch) {
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

    fn get(&self, StretchId(at): StretchId) -> Stretch {
        self.stretches[at as usize].unwrap_or_else(|| panic!("stretch {at} has ended"))
    }

    fn put(&mut self, StretchId(at): StretchId, stage: Stage) {
        if let Some(stretch) = &mut self.stretches[at as usize] {
            stretch.stage = stage;
        }
    }

    fn end(&mut self, StretchId(at): StretchId) {
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

impl Primary {
    /// Takes up as many stretches as may be under way, unless the copier has enough to do.
    pub(crate) fn survey_step(&mut self, local: &mut Local, turn: &mut Turn) {
        if !self.copier.is_sure(self.cursors.completed()) {
            return;
        }
        while let Some(id) = self.copier.next_stretch(&mut self.marks) {
            self.survey_look(id, local, turn);
        }
    }

    /// The local store was asked whether it holds anything there.
    pub(crate) fn surveyed(
        &mut self,
        id: StretchId,
        outcome: StoreOutcome,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let stretch = self.copier.survey.get(id);
        let of_this_round = self.copier.is_of_round(stretch.round);
        let current = of_this_round && self.copier.is_running() && self.flow.is_some();
        // What cannot be asked is read, and a fault comes to light there.
        let empty = matches!(outcome, StoreOutcome::Empty(true));
        let Row { volume, extent, .. } = stretch.row;
        if current && empty && stretch.stage == Stage::Looking {
            self.copier.survey.put(id, Stage::Asked);
            self.copier.survey.asked.push_back(id);
            turn.send(Message::Copying(Copying::EmptyWanted { volume, extent }));
            return;
        }
        self.copier.survey.end(id);
        if current && empty {
            self.land_empty(stretch.row, turn);
        } else if of_this_round {
            self.copier.survey.hand_over(&stretch);
        }
        if stretch.stage == Stage::LookingAgain {
            self.leave_gate(volume, extent, local, permit, turn);
        }
    }

    /// Neither copy stores anything there.
    fn land_empty(&mut self, row: Row, turn: &Turn) {
        let item = self.copier_item(ItemKind::Same, row.volume, row.extent);
        self.push_copy(item, crate::stream::write::ITEM_COST, turn);
        self.copier.landed(row, self.line.head);
    }

    /// The target tells whether it holds anything there.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn emptiness_told(
        &mut self,
        (volume, extent): (VolumeIndex, Extent),
        empty: bool,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<(), String> {
        let survey = &mut self.copier.survey;
        let id = survey.asked.pop_front();
        let is_asked = |a: &Stretch| (a.row.volume, a.row.extent) == (volume, extent);
        let asked = id.map(|id| survey.get(id)).filter(is_asked);
        let (Some(id), Some(stretch)) = (id, asked) else {
            return Err(format!("it reported whether {extent} is empty without a request"));
        };
        let of_this_round = self.copier.is_of_round(stretch.round);
        // A primary that leaves begins nothing more: it has flushed, or is about to.
        if !of_this_round || !empty || !self.copier.is_running() {
            self.copier.survey.end(id);
            if of_this_round {
                self.copier.survey.hand_over(&stretch);
            }
            return Ok(());
        }
        self.copier.survey.put(id, Stage::Waiting);
        if self.gate.enter(Ticket::Survey(id), volume, extent) {
            self.survey_look(id, local, turn);
        }
        Ok(())
    }

    /// Is it empty here? Before the target is asked, and again once the gate is ours.
    pub(crate) fn survey_look(&mut self, id: StretchId, local: &mut Local, turn: &mut Turn) {
        let Stretch { row: Row { volume, extent, .. }, stage, .. } = self.copier.survey.get(id);
        if stage == Stage::Waiting {
            self.copier.survey.put(id, Stage::LookingAgain);
        }
        local.store(volume, StoreOp::IsEmpty { extent }, PrimaryIo::Survey(id), turn);
    }
}
