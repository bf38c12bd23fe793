// SPDX-License-Identifier: Apache-2.0
//! What two nodes do of which one cannot write its metadata (`record/invalid.rs` has the drawing).

use crate::local::Local;
use crate::peer::Peer;
use crate::peer::hang_up::HangUp;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Goal;
use crate::resync::seed::Seed;
use crate::role::{Following, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::invalid::Invalid;
use helio_format::message::{Message, Parting};

impl Standing {
    /// No record can be made any more: nothing waits for one.
    pub(crate) fn lose_metadata(&mut self, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        local.fail_metadata();
        local.copies_recorded(false, turn);
        if let Some(primary) = self.primary_mut() {
            primary.consider_all(local, permit, turn);
        }
    }

    /// What a node whose metadata cannot be written does with what waits for it. Returns whether that fails.
    pub(super) fn go_on_uncovered(
        &self,
        session: &Session,
        seed: &Seed,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> bool {
        // The record of a node whose disk is on its way ends when that is put in place.
        let leads =
            self.leads() && session.peer().is_some() && !seed.is_under_way(record.superblock());
        if leads && record.keeping_mut().invalid_mut().tells() {
            let generation = record.superblock().lineage.generation;
            turn.send(Message::Invalid(Invalid::Failed { generation }));
        }
        // What no record covers may differ between members: their set is not written there.
        let several = local.keeps_any_several(turn.config());
        local.uncover(leads && !several && record.keeping().invalid().is_recorded());
        if local.is_uncovered() {
            for parked in local.hot_mut().give_up() {
                local.issue(parked.io, parked.op, turn);
            }
        }
        !leads || several
    }

    /// The two speak of metadata that cannot be written.
    pub(crate) fn peer_talks_invalid(
        &self,
        talk: Invalid,
        peer: &Peer,
        record: &mut Record,
        local: &Local,
        turn: &mut Turn,
    ) -> Option<HangUp> {
        let name = turn.config().peer.clone();
        match talk {
            Invalid::Failed { .. } if local.metadata_failed() => {
                let why = format!("{name} cannot write its metadata, and neither can this node");
                return Some(HangUp::new(Parting::VolumeFailed, why));
            }
            Invalid::Failed { generation }
                if record.superblock().peer_invalid == generation && !record.is_saving() =>
            {
                record.keeping_mut().invalid_mut().peer_fails();
                peer.tell_recorded(turn);
            }
            Invalid::Failed { generation } if self.is(Following::Secondary) => {
                turn.warn(format!(
                    "{name} cannot write its metadata; this node records it as invalid since generation {generation}, \
                     and everything is compared after the repair"
                ));
                record.keeping_mut().invalid_mut().peer_fails();
                record.want(Goal::PeerInvalid(generation));
            }
            Invalid::Recorded
                if local.metadata_failed() && record.keeping_mut().invalid_mut().recorded() =>
            {
                let several = local.keeps_any_several(turn.config());
                let then = if several {
                    String::from(
                        "writes to extents that are not hot fail, since volumes have several members",
                    )
                } else {
                    format!("writes continue while {name} is connected")
                };
                turn.warn(format!(
                    "bitmap failed: {name} recorded that this node's metadata is invalid; {then}"
                ));
            }
            Invalid::Failed { .. } | Invalid::Recorded => {}
        }
        None
    }
}
