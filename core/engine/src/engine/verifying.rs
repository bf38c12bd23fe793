// SPDX-License-Identifier: Apache-2.0
//! What is known of verifies.

use crate::resync::verified::Verified;
use crate::resync::verify::VerifyStatus;
use crate::show::view::View;
use helio_units::VolumeIndex;

impl View<'_> {
    /// Moves on whenever something is worth a record.
    #[must_use]
    pub fn verify_revision(&self) -> u64 {
        self.resync.verify().revision()
    }

    /// What is known of verifies.
    #[must_use]
    pub fn verify_status(&self) -> VerifyStatus {
        let waits = match self.standing.primary() {
            None => Some("this node is not primary"),
            Some(primary) => primary.verify_waits(self.local),
        };
        self.resync.verify().status(waits)
    }

    /// When a volume was compared to its end last, by this process or one before.
    #[must_use]
    pub fn verified(&self, volume: VolumeIndex) -> Option<Verified> {
        self.resync.verify().verified(self.turn.calendar(), self.record.superblock(), volume)
    }
}
