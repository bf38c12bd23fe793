// SPDX-License-Identifier: Apache-2.0
//! Whether a reverse resync may begin, and what is given up by it.

use crate::event::Reversal;
use crate::lead::Primary;
use crate::refusal::{Refusal, until_complete};
use crate::role::resolve::Stake;
use crate::role::{busy, recording};
use crate::show::view::View;
use crate::show::whole::NotWhole;
use alloc::format;
use helio_units::{Extent, VolumeIndex};

impl View<'_> {
    /// What the primary would throw away by taking its peer's copy over its own.
    ///
    /// # Errors
    /// It cannot: it is not primary, or its peer's copy is not known to be consistent, or to be complete.
    pub fn reversal_stake(&self, wish: Reversal) -> Result<Stake, Refusal> {
        let Reversal { full, last_copy } = wish;
        let verb = if full { "resync --full --reverse" } else { "resync --reverse" };
        let (config, peer) = (self.turn.config(), &self.turn.config().peer);
        let Some(primary) = self.standing.primary() else {
            return Err(self.standing.not_primary(verb, config));
        };
        if !self.standing.serves() {
            return Err(busy());
        }
        if self.record.is_saving() {
            return Err(recording());
        }
        if primary.is_lacking() {
            return Err(Refusal::later(
                "lacking",
                format!(
                    "the copy of {} is not complete, and {peer} is served in its place",
                    config.node
                ),
                until_complete(&config.group),
            ));
        }
        // It is recorded only while writes may be acknowledged without the peer, and a reversal ends that.
        if self.copies.restore_begins() {
            return Err(NotWhole::RestoreBegins.refusal(VolumeIndex(0), config));
        }
        self.resync.seed().refuse_update(self.record.superblock(), config)?;
        if self.peer.session().peer().is_none() || self.resync.update().is_awaiting() {
            return Err(Refusal::later(
                "peer-lost",
                format!("{peer} is not connected, or has not reported yet what may differ"),
                format!("repeat when `helio status {}` shows it connected", config.group),
            ));
        }
        if !primary.peer_is_consistent() {
            return Err(Refusal::new(
                "needs-sync",
                format!("{peer}'s copy is not consistent: a copy to it was interrupted"),
                format!("`helio resync {}` completes it; then repeat", config.group),
            ));
        }
        self.refuse_last_complete(last_copy)?;
        let differing = if full {
            let sizes = config.volumes.iter().zip(0..);
            sizes.map(|(size, n)| (VolumeIndex(n), Extent::new(0, size.0))).collect()
        } else {
            primary.marks().differing_runs()
        };
        Ok(Stake::of(self.record.superblock(), differing, None))
    }

    /// This node is primary and lacks regions.
    pub(crate) fn is_lacking(&self) -> bool {
        self.standing.primary().is_some_and(Primary::is_lacking)
    }

    /// A reversal is being recorded.
    pub(crate) fn is_reversing(&self) -> bool {
        self.standing.primary().and_then(Primary::reversal).is_some()
    }

    /// Whether that extent is being written with what was pulled from the peer; for tests and proofs.
    #[must_use]
    pub fn is_pulling(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.standing.primary().is_some_and(|primary| primary.is_pulling(volume, extent))
    }
}
