// SPDX-License-Identifier: Apache-2.0
//! The queue as the last copy: what was answered, lies on no store of this node, and is not durable at the peer.
//!
//! It comes about where this node lacks regions, most of all where the store of a volume was given up (`lose.rs`), and the
//! peer, which holds everything, stops before its flush: a power cut there takes what only this queue has. While the peer is away such a primary stays
//! primary. A demotion is refused; one under way goes back. A stop waits for the peer as long as for a queue that
//! drains, and says what it leaves behind.

use crate::engine::Engine;
use crate::event::CommandId;
use crate::lead::Primary;
use crate::record::save::Leave;
use crate::refusal::Refusal;
use crate::role::leave::STOP_PATIENCE;
use crate::role::{Leading, LeaveStage, Stage};
use alloc::format;
use helio_units::{Bytes, Moment};

impl Engine {
    /// What would be lost if this node's queue were let go now, while the peer is away.
    fn last_copy(&self) -> Option<Bytes> {
        // A peer whose history went on without this queue will never take it.
        let refused = self.peer.session.refused().is_some();
        let waits = |primary: &&Primary| !primary.streams() && !refused;
        let primary = self.standing.primary().filter(waits)?;
        Some(primary.only_queued()).filter(|bytes| *bytes > Bytes::ZERO)
    }

    /// Why this primary does not leave.
    fn last_copy_refusal(&self, bytes: Bytes) -> Refusal {
        let (node, peer) = (&self.turn.config().node, &self.turn.config().peer);
        Refusal::later(
            "last-copy",
            format!(
                "{bytes} of acknowledged writes may exist only in the queue of {node}: its disk failed, and {peer} disconnected \
                 before it flushed them"
            ),
            format!("connect {peer} again; {node} then resends them"),
        )
    }

    /// Whether an operator's demotion may begin.
    pub(crate) fn may_let_go(&self, command: Option<CommandId>, to: Leave) -> Result<(), Refusal> {
        match self.last_copy() {
            Some(bytes) if command.is_some() && to == Leave::Secondary => {
                Err(self.last_copy_refusal(bytes))
            }
            _ => Ok(()),
        }
    }

    /// A demotion goes back where the peer left before it had flushed what only this queue holds.
    pub(crate) fn keep_last_copy(&mut self) {
        let Stage::Leading(Leading::Leaving {
            command: Some(command),
            to: Leave::Secondary,
            stage: LeaveStage::Draining,
            ..
        }) = self.standing.stage()
        else {
            return;
        };
        let Some(bytes) = self.last_copy() else { return };
        let refusal = self.last_copy_refusal(bytes);
        self.turn.warn(format!("not demoted: {}", refusal.text));
        self.standing.stand(Leading::Primary);
        self.done(command, Err(refusal));
    }

    /// Whether a stop waits for the peer; the first question sets until when.
    pub(crate) fn stop_waits(&mut self) -> bool {
        let Some(bytes) = self.last_copy() else { return false };
        let now = self.turn.now();
        if self.asked.stop_until().is_none() {
            let words = self.last_copy_refusal(bytes).text;
            self.turn.warn(format!("the stop waits {} s: {words}", STOP_PATIENCE.as_secs()));
        }
        let until = self.asked.wait_for_peer(now + STOP_PATIENCE);
        if now < until {
            return true;
        }
        let peer = &self.turn.config().peer;
        self.turn.warn(format!(
            "stopping without {peer}: up to {bytes} of acknowledged writes may be lost"
        ));
        false
    }

    /// A stop waits for the peer, which is to be sought meanwhile.
    #[must_use]
    pub fn stop_wants_peer(&self) -> bool {
        self.asked.stops() && self.asked.stop_until().is_some() && self.standing.leads()
    }

    /// When a stop that waits for the peer goes on. A stop that waits for the end of another change of role has no deadline.
    pub(crate) fn stop_deadline(&self) -> Moment {
        let waits = self.asked.stops() && self.standing.is_settled();
        self.asked.stop_until().filter(|_| waits).unwrap_or(Moment::NEVER)
    }
}
