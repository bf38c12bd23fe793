// SPDX-License-Identifier: Apache-2.0
//! What becomes of a node that was primary, or wants to be.

use crate::config::Config;
use crate::lead::Primary;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::resync::update::Update;
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;

impl Standing {
    /// Nothing came of asking the peer.
    pub(crate) fn asking_failed(&mut self, why: &str, record: &Record, turn: &mut Turn) {
        if let Stage::Following(Following::Asking { command, .. }) = self.stage() {
            let Config { peer, group, .. } = turn.config();
            let hint = format!(
                "repeat when {peer} is connected; if it is down or fenced, `helio promote {group} --force`"
            );
            self.stand(Following::resting(record.superblock().role));
            turn.done(command, Err(Refusal::later("peer-lost", why, hint)));
        }
    }

    pub(crate) fn is_promoting(&self) -> bool {
        matches!(self.stage(), Stage::Following(Following::Promoting { .. }))
    }

    /// The record says that this node is primary: it leads from now on.
    pub(crate) fn promotion_saved(
        &mut self,
        permit: &mut Permit,
        record: &mut Record,
        local: &mut Local,
        update: &mut Update,
        turn: &mut Turn,
    ) {
        let Stage::Following(Following::Promoting { command, equal, .. }) = self.stage() else {
            return;
        };
        if permit.lease().ran_out(turn.now()) {
            return record.want(Goal::Unpromoted);
        }
        let by = permit.lease_mut().promoted(turn.now());
        permit.pause_mut().forget(turn.effects());
        let head = record.superblock().head;
        let Some(mut marks) = record.keeping_mut().take_resting() else {
            panic!("no task holds the bitmap")
        };
        if record.superblock().marks_void {
            marks.set_all();
        } else if equal {
            // Proven since: what was marked, or not heard to be settled, is on both.
            marks.clear();
        } else {
            // What the peer's own records may not tell of is marked here from now on.
            for (volume, extent) in self.unsettled(record, local) {
                marks.set(volume, extent);
            }
        }
        let equal = equal && marks.none_dirty();
        self.lead(Primary::new(turn.config(), head, marks, equal, turn.now()));
        local.hot_mut().bitmap_changed();
        update.begin_leading(equal);
        let generation = record.superblock().lineage.generation;
        turn.info(format!("primary in generation {generation} after item {head}{by}"));
        if let Some(id) = command {
            let until = turn.config().peer_name().map_or_else(String::new, |peer| {
                format!("; until {peer} is in sync, new writes are only here")
            });
            turn.done(id, Ok(format!("primary in generation {generation}{by}{until}")));
        }
    }

    /// The peer went on: we were primary and are not any more.
    pub(crate) fn step_back(&mut self, record: &mut Record, turn: &mut Turn) {
        let peer = &turn.config().peer;
        turn.warn(format!(
            "{peer} was promoted while this node was away; this node is secondary now"
        ));
        self.stand(Following::Secondary);
        record.want(Goal::SteppedBack);
    }
}
