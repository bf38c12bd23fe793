// SPDX-License-Identifier: Apache-2.0
//! What may not be done from a suspect copy.

use crate::refusal::Refusal;
use crate::show::view::View;
use alloc::string::String;
use helio_units::VolumeIndex;

impl View<'_> {
    /// Whether this node's image keeps the order promise.
    pub(crate) fn is_consistent(&self) -> bool {
        self.local.is_consistent(self.record.superblock())
    }

    /// A node must not lead from a copy that a failed flush left.
    pub(crate) fn may_lead_from_suspect(&self) -> Result<(), Refusal> {
        if self.local.must_not_lead() { Err(self.suspect_refusal()) } else { Ok(()) }
    }

    /// Why nothing may be copied from here.
    pub(crate) fn suspect_refusal(&self) -> Refusal {
        self.local.suspect().refusal(self.turn.config())
    }

    /// What is suspect, for people.
    pub(crate) fn suspect_text(&self) -> Option<(VolumeIndex, String)> {
        let text = self.local.suspect().text(self.turn.config());
        text.filter(|_| !self.is_lacking())
    }
}
