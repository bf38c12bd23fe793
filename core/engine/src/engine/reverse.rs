// SPDX-License-Identifier: Apache-2.0
//! A reverse resync: begun by an operator.

use crate::config::Config;
use crate::engine::Engine;
use crate::event::CommandId;
use crate::lead::Primary;
use crate::refusal::Refusal;
use crate::role::busy;
use crate::role::resolve::Stake;
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_units::{Extent, VolumeIndex};

impl Engine {
    /// Takes the peer's copy over this node's own, wherever the two may differ.
    pub(crate) fn reverse(&mut self, id: CommandId, full: bool) -> Result<Option<String>, Refusal> {
        self.view().reversal_stake(full)?;
        let incarnation = self.peer.session().peer().map(|peer| peer.incarnation);
        let Some(primary) = self.standing.primary_mut() else { return Err(busy()) };
        // An answer that is held back is about what is replaced, too.
        let quiet = primary.is_quiet() && self.permit.pause().is_quiet();
        if !quiet || self.local.reads_under_way() {
            return Err(Refusal::later(
                "in-use",
                "requests of clients are in progress, and the data that they use is about to be replaced",
                "stop the clients, then repeat",
            ));
        }
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        primary.drop_queue(
            "the operator requested a reverse resync",
            &mut self.local,
            &self.permit,
            &mut self.turn,
        );
        if full {
            primary.marks_mut().set_all();
        }
        self.local.hot_mut().bitmap_changed();
        primary.release_front(&mut self.turn);
        let peer = self.turn.config().peer.clone();
        primary.reverse(id, incarnation);
        primary.suspect_step(&mut self.local, &mut self.turn);
        self.resync.verify_mut().rewind();
        self.resync.update_mut().give_up();
        self.turn
            .info(format!("the operator replaces the copy of this node by the copy of {peer}"));
        Ok(None)
    }
}

impl View<'_> {
    /// What the primary would throw away by taking its peer's copy over its own.
    ///
    /// # Errors
    /// It cannot: it is not primary, or its peer's copy is not known to be consistent.
    pub fn reversal_stake(&self, full: bool) -> Result<Stake, Refusal> {
        let verb = if full { "resync --full --reverse" } else { "resync --reverse" };
        let (config, peer) = (self.turn.config(), &self.turn.config().peer);
        let Some(primary) = self.standing.primary() else { return Err(self.not_primary(verb)) };
        if !self.standing.serves() || self.record.is_saving() {
            return Err(busy());
        }
        if primary.is_lacking() {
            return Err(Refusal::later(
                "lacking",
                format!("the copy of {} is being rebuilt from {peer}", config.node),
                format!("wait for its end; `helio status {}` shows the progress", config.group),
            ));
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
        let differing = if full {
            let sizes = config.volumes.iter().zip(0..);
            sizes.map(|(size, n)| (VolumeIndex(n), Extent::new(0, size.0))).collect()
        } else {
            primary.marks().differing_runs()
        };
        Ok(Stake::of(self.record.superblock(), differing))
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

    /// What cannot be done meanwhile.
    pub(crate) fn lacks(&self, verb: &str) -> Refusal {
        let Config { node, peer, group, .. } = self.turn.config();
        Refusal::later(
            "lacking",
            format!(
                "`helio {verb} {group}` must wait: the copy of {node} is being rebuilt from {peer}"
            ),
            format!("wait for its end; `helio status {group}` shows the progress"),
        )
    }
}
