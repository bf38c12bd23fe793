// SPDX-License-Identifier: Apache-2.0
//! What two nodes do of which one cannot write its metadata.

use crate::engine::Engine;
use crate::record::save::Goal;
use crate::role::Following;
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_format::invalid::Invalid;
use helio_format::message::{Message, Parting};
use helio_units::Generation;

impl Engine {
    /// What a node whose metadata cannot be written does with what waits for it.
    pub(crate) fn go_on_uncovered(&mut self) {
        // The record of a node whose disk is on its way ends when that is put in place.
        let leads = self.standing.leads()
            && self.peer.session().peer().is_some()
            && !self.resync.seed().is_under_way(self.record.superblock());
        if leads && self.record.keeping_mut().invalid_mut().tells() {
            let generation = self.record.superblock().lineage.generation;
            self.turn.send(Message::Invalid(Invalid::Failed { generation }));
        }
        self.local.uncover(leads && self.record.keeping().invalid().is_recorded());
        if self.local.is_uncovered() {
            for parked in self.local.hot_mut().give_up() {
                self.local.issue(parked.io, parked.volume, parked.op, &mut self.turn);
            }
        } else if !leads {
            self.fail_parked();
        }
    }

    /// The two speak of metadata that cannot be written.
    pub(crate) fn peer_talks_invalid(&mut self, talk: Invalid) {
        let peer = self.turn.config().peer.clone();
        match talk {
            Invalid::Failed { .. } if self.local.metadata_failed() => {
                let text = format!("{peer} cannot write its metadata, and neither can this node");
                self.hang_up(Parting::VolumeFailed, text);
            }
            Invalid::Failed { generation }
                if self.record.superblock().peer_invalid == generation
                    && !self.record.is_saving() =>
            {
                self.record.keeping_mut().invalid_mut().peer_fails();
                self.peer.tell_recorded(&mut self.turn);
            }
            Invalid::Failed { generation } if self.standing.is(Following::Secondary) => {
                self.turn.warn(format!(
                    "{peer} cannot write its metadata; this node records it as invalid since generation {generation}, \
                     and everything is compared after the repair"
                ));
                self.record.keeping_mut().invalid_mut().peer_fails();
                self.record.want(Goal::PeerInvalid(generation));
            }
            Invalid::Recorded
                if self.local.metadata_failed()
                    && self.record.keeping_mut().invalid_mut().recorded() =>
            {
                self.turn.warn(format!(
                    "bitmap failed: {peer} recorded that this node's metadata is invalid; writes continue while \
                     {peer} is connected"
                ));
            }
            Invalid::Failed { .. } | Invalid::Recorded => {}
        }
    }
}

impl View<'_> {
    /// Whether this node's record says that its peer's metadata tells nothing.
    pub(crate) fn doubts_peer(&self) -> bool {
        self.record.superblock().peer_invalid != Generation::NONE
    }

    /// What is wrong with the metadata, where something is.
    pub(crate) fn metadata_text(&self) -> Option<String> {
        let peer = &self.turn.config().peer;
        let text = match (self.local.metadata_failed(), self.standing.primary()) {
            (false, _) => return None,
            (true, Some(_)) if self.local.is_uncovered() => format!(
                "bitmap failed: the metadata file cannot be written; {peer} recorded that, and writes continue while \
                 it is connected"
            ),
            (true, Some(_)) => format!(
                "bitmap failed: the metadata file cannot be written, and {peer} did not record that: writes to extents \
                 that are not hot fail"
            ),
            (true, None) => String::from("bitmap failed: the metadata file cannot be written"),
        };
        Some(text)
    }
}
