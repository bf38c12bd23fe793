// SPDX-License-Identifier: Apache-2.0
//! What becomes of a node that was primary, or wants to be.

use crate::config::Config;
use crate::record::Record;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use alloc::format;

impl Standing {
    /// Nothing came of asking the peer.
    pub(crate) fn asking_failed(&mut self, why: &str, record: &Record, turn: &mut Turn) {
        if let Stage::Following(Following::Asking { command }) = self.stage() {
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

    /// The promotion ends: the node is again what its record says.
    pub(crate) fn not_promoted(&mut self, refusal: Refusal, record: &Record, turn: &mut Turn) {
        let Stage::Following(Following::Promoting { command, .. }) = self.stage() else { return };
        self.stand(Following::resting(record.superblock().role));
        if let Some(id) = command {
            turn.done(id, Err(refusal));
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
