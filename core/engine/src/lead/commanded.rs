// SPDX-License-Identifier: Apache-2.0
//! What an operator commands of a primary alone, and whether it may leave.

use crate::lead::Primary;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;

impl Primary {
    /// Nothing is sent until the operator resumes.
    pub(crate) fn pause_commanded(
        &mut self,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> String {
        self.forget_refusal();
        self.drop_queue("paused by an operator", local, permit, turn);
        self.pause();
        local.hot_mut().bitmap_changed();
        let group = &turn.config().group;
        format!(
            "{group} is paused: dirty regions are recorded and nothing is sent; `helio resume {group}` ends the pause"
        )
    }

    /// Whether the peer is still to make durable what it is sent in order.
    pub(crate) fn owes_items(&self) -> bool {
        self.streams()
            && !self.owed().is_image_out_of_order()
            && self.cursors().durable() < self.line.head()
    }

    pub(crate) fn reset_queue_marks(&mut self, turn: &Turn) -> String {
        self.queue.reset_marks(turn.now());
        self.requests.forget_times();
        format!(
            "the high-water marks, counters and latency histograms of {} are reset",
            turn.config().group
        )
    }
}
