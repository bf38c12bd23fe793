// SPDX-License-Identifier: Apache-2.0
//! What may not be done from a suspect copy.

use crate::refusal::Refusal;
use crate::show::view::View;
use alloc::string::String;
use helio_plant::{Plant, planted};
use helio_units::VolumeIndex;

impl View<'_> {
    /// Whether this node's image keeps the order promise: its record says so, and is about this image, and no flush of it
    /// failed.
    pub(crate) fn is_consistent(&self) -> bool {
        let suspect = self.may_lead_from_suspect().is_err();
        self.record.superblock().consistent && !self.local.members().are_foreign() && !suspect
    }

    /// A node must not lead from a copy that a failed flush left.
    pub(crate) fn may_lead_from_suspect(&self) -> Result<(), Refusal> {
        if !self.local.suspect().any() || planted(Plant::SuspectStreams) {
            return Ok(());
        }
        Err(self.suspect_refusal())
    }

    /// Why nothing may be copied from here.
    pub(crate) fn suspect_refusal(&self) -> Refusal {
        self.local.suspect().refusal(self.turn.config())
    }

    /// Refuses to begin a copy from a suspect store.
    pub(crate) fn refuse_while_suspect(&self) -> Result<(), Refusal> {
        let suspect = self.standing.primary().is_some_and(|p| p.must_not_stream(self.local));
        if suspect { Err(self.suspect_refusal()) } else { Ok(()) }
    }

    /// What is suspect, for people.
    pub(crate) fn suspect_text(&self) -> Option<(VolumeIndex, String)> {
        let text = self.local.suspect().text(self.turn.config());
        text.filter(|_| !self.is_lacking())
    }
}
