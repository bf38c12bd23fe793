// SPDX-License-Identifier: Apache-2.0
//! Whether a disk may be shipped to the peer (`role/seeding.rs` has the drawing), and what is known of a node without a history.

use crate::refusal::Refusal;
use crate::resync::seed::is_blank;
use crate::role::busy;
use crate::show::view::View;
use alloc::format;
use helio_units::Generation;

impl View<'_> {
    /// Whether a disk may be shipped to the peer.
    pub(crate) fn may_ship_disk(&self) -> Result<(), Refusal> {
        if self.standing.is_leaving() || self.resync.seed().is_beginning() {
            return Err(busy());
        }
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        let config = self.turn.config();
        let Some(primary) = self.standing.primary() else {
            return Err(self.standing.not_primary("seed begin", config));
        };
        // The marks say what is good at the peer alone, and a disk copied from here would be of the rest.
        primary.refuse_lacking("seed begin", config)?;
        let known = self.peer.session().peer().is_some_and(|hello| !is_blank(hello));
        if known || primary.streams() {
            let (group, peer) = (&config.group, &config.peer);
            return Err(Refusal::new(
                "peer-has-a-copy",
                format!("{peer} is connected and has a copy of {group}: there is nothing to seed"),
                format!(
                    "to seed it again: stop the daemon on {peer}, then `helio seed begin {group}`"
                ),
            ));
        }
        // What a layer still writes to the members is marked no more, and is not on a disk copied from one.
        self.refuse_any_unfit()?;
        match primary.fault() {
            Some((volume, fault)) => Err(self.volume_refusal(volume, fault)),
            None => Ok(()),
        }
    }

    /// Since when a disk is being shipped, in ms since 1970.
    #[must_use]
    pub fn seeding(&self) -> Option<u64> {
        self.turn.config().peer_name()?;
        Some(self.record.superblock().seeding).filter(|at| *at != 0)
    }

    /// A node without a history tells what it holds to whoever leads: no stream changes it yet.
    pub(crate) fn is_blank(&self) -> bool {
        self.record.superblock().lineage.generation == Generation::NONE && !self.is_adopting()
    }
}
