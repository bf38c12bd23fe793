// SPDX-License-Identifier: Apache-2.0
//! What this node's copy may be used for, by what its volumes lie on.

use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::show::view::View;
use alloc::format;

impl Engine {
    /// Says once what is wrong.
    pub(crate) fn tell_foreign(&mut self) {
        if !self.local.members_mut().tell() {
            return;
        }
        if let Err(refusal) = self.view().may_lead() {
            self.turn.warn(format!("{}; {}", refusal.text, refusal.hint));
        }
    }
}

impl View<'_> {
    /// Whether this node's image keeps the order promise: its record says so, and is about this image, and no flush of it
    /// failed.
    pub(crate) fn is_consistent(&self) -> bool {
        let suspect = self.may_lead_from_suspect().is_err();
        self.record.superblock().consistent && !self.local.members().are_foreign() && !suspect
    }

    /// A node must not lead from a disk of which its record tells nothing.
    pub(crate) fn may_lead(&self) -> Result<(), Refusal> {
        let Some(fault) = self.local.members().fault() else { return Ok(()) };
        let (group, peer) = (&self.turn.config().group, &self.turn.config().peer);
        Err(Refusal::new(
            "another-disk",
            format!("{group}: {fault}"),
            format!(
                "put the right disk back and restart the daemon; or `helio promote {group}` on {peer}, which copies to this \
                 disk; or, if this disk is an exact copy of the recorded one, stop the daemon and `helio metadata accept \
                 {group}`"
            ),
        ))
    }
}
