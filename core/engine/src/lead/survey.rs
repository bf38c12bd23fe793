// SPDX-License-Identifier: Apache-2.0
//! The survey of holes, on a node that leads.

use crate::event::StoreOutcome;
use crate::lead::Primary;
use crate::lead::ticket::Ticket;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::purpose::PrimaryIo;
use crate::purpose::StretchId;
use crate::resync::copier::Row;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::copying::{Copying, Digest};
use helio_format::message::{ItemKind, Message};
use helio_stack::StoreOp;
use helio_units::{Extent, VolumeIndex};

impl Primary {
    /// Takes up as many stretches as may be under way, unless the copier has enough to do.
    pub(crate) fn survey_step(&mut self, local: &mut Local, turn: &mut Turn) {
        if !self.copier.is_sure(self.target.cursors().completed()) {
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
        let stretch = self.copier.survey().get(id);
        let of_this_round = self.copier.is_of_round(stretch.round());
        let current = of_this_round && self.copier.is_running() && self.target.streams();
        // What cannot be asked is read, and a fault comes to light there.
        let empty = matches!(outcome, StoreOutcome::Empty(true));
        let (volume, extent) = stretch.row().place();
        if current && empty && !stretch.holds_gate() {
            self.copier.survey_mut().ask(id);
            turn.send(Message::Copying(Copying::EmptyWanted { volume, extent }));
            return;
        }
        self.copier.survey_mut().end(id);
        if current && empty {
            self.land_empty(stretch.row(), turn);
        } else if of_this_round {
            self.copier.survey_mut().hand_over(&stretch);
        }
        if stretch.holds_gate() {
            self.leave_gate(volume, extent, local, permit, turn);
        }
    }

    /// Neither copy stores anything there.
    fn land_empty(&mut self, row: Row, turn: &Turn) {
        let (volume, extent) = row.place();
        let item = self.copier_item(ItemKind::Same, volume, extent);
        self.push_copy(item, crate::stream::slots::ITEM_COST, turn);
        self.copier.landed(row, self.line.head());
    }

    /// The peer tells what it holds.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn digests_told(
        &mut self,
        place: (VolumeIndex, Extent, bool),
        list: &[Digest],
    ) -> Result<(), String> {
        self.copier.digests_told(place, list, &self.marks)
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
        let Some((id, stretch)) = self.copier.survey_mut().answered((volume, extent)) else {
            return Err(format!("it reported whether {extent} is empty without a request"));
        };
        let of_this_round = self.copier.is_of_round(stretch.round());
        // A primary that leaves begins nothing more: it has flushed, or is about to.
        if !of_this_round || !empty || !self.copier.is_running() {
            self.copier.survey_mut().end(id);
            if of_this_round {
                self.copier.survey_mut().hand_over(&stretch);
            }
            return Ok(());
        }
        self.copier.survey_mut().wait(id);
        if self.gate.enter(Ticket::Survey(id), volume, extent) {
            self.survey_look(id, local, turn);
        }
        Ok(())
    }

    /// Is it empty here? Before the target is asked, and again once the gate is ours.
    pub(crate) fn survey_look(&mut self, id: StretchId, local: &mut Local, turn: &mut Turn) {
        let (volume, extent) = self.copier.survey_mut().look(id);
        local.store(volume, StoreOp::Map { extent }, PrimaryIo::Survey(id), turn);
    }
}
