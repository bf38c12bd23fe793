// SPDX-License-Identifier: Apache-2.0
//! A verify as an operator begins it.

use crate::engine::Engine;
use crate::event::VerifyWish;
use crate::refusal::Refusal;
use crate::resync::verified::Verified;
use crate::resync::verify::VerifyStatus;
use crate::role::busy;
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_units::VolumeIndex;

impl Engine {
    pub(crate) fn verify(&mut self, wish: VerifyWish) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        let Some(primary) = self.standing.primary_mut() else {
            return Err(self.view().not_primary("verify start"));
        };
        let group = self.turn.config().group.clone();
        if self.resync.verify().is_under_way() {
            return Err(Refusal::later(
                "verifying",
                format!("a verify of {group} runs already"),
                format!("wait for its end, or `helio verify stop {group}`"),
            ));
        }
        if wish.repair {
            primary.mark_differing(self.resync.verify_mut(), &mut self.local);
        }
        let resumed =
            self.resync.verify_mut().begin(wish, &self.turn.config().volumes, self.turn.now());
        let what = if resumed { "continues at its position" } else { "begins" };
        Ok(Some(match primary.verify_waits() {
            Some(waits) => format!("the verify of {group} {what} later: {waits}"),
            None => format!("the verify of {group} {what}"),
        }))
    }
}

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
            Some(primary) => primary.verify_waits(),
        };
        self.resync.verify().status(waits)
    }

    /// When a volume was compared to its end last, by this process or one before.
    #[must_use]
    pub fn verified(&self, volume: VolumeIndex) -> Option<Verified> {
        self.resync.verify().verified(self.turn.calendar(), self.record.superblock(), volume)
    }
}
