// SPDX-License-Identifier: Apache-2.0
//! What must be true after every batch. Checked in debug builds and at every step of the simulator.

use crate::show::view::View;
use helio_units::State;

impl View<'_> {
    /// Asserts what must be true between batches.
    ///
    /// # Panics
    /// On our own mistake.
    pub fn check_invariants(&self) {
        if let Some(f) = self.standing.follower() {
            assert!(
                f.received() >= f.completed() && f.completed() >= f.durable(),
                "a follower's cursors crossed"
            );
        }
        assert_eq!(
            self.has_failed(),
            self.fault().is_some(),
            "a fault without a text, or unnoticed"
        );
        let Some(p) = self.standing.primary() else {
            assert!(!self.local.works_for(true), "a primary left with work under way");
            return;
        };
        assert!(!self.local.works_for(false), "a secondary was promoted with work under way");
        let c = p.cursors();
        assert!(
            c.received() >= c.completed() && c.completed() >= c.durable(),
            "the peer's cursors crossed"
        );
        if p.streams() {
            assert!(
                c.sent() >= c.received() && p.head() >= c.sent(),
                "sent more than accepted, or less than received"
            );
            let kept = p.owed().queues_in_order() || p.owed().cut().is_some();
            assert!(kept, "a stream flows from a line that is not kept");
        }
        assert!(p.has_answered_only(p.head()), "acknowledged what was never accepted");
        if self.state() == State::Replicating {
            assert!(
                p.marks().none_dirty() && !p.owed().is_image_out_of_order(),
                "replicating with dirty regions"
            );
        }
    }
}
