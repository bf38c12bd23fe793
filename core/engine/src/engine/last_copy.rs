// SPDX-License-Identifier: Apache-2.0
//! The queue as the last copy: acknowledged writes that are on no complete copy of this node, and not durable at the peer.
//!
//! This happens if regions are missing here, usually because the disk failed (`lead/lack/lose.rs`), and the peer disconnects before it
//! flushes. Until the peer has the writes, such a primary stays primary. A demotion is refused; one under way goes back. A stop waits for the peer as long as for a queue that
//! drains, and says what it leaves behind.

use crate::lead::Primary;
use crate::show::view::View;
use helio_units::{Bytes, Moment};

impl View<'_> {
    /// What would be lost if this node's queue were let go now, while the peer is away.
    pub(crate) fn last_copy(&self) -> Option<Bytes> {
        // A peer whose history went on without this queue will never take it.
        let refused = self.peer.session().refused().is_some();
        let waits = |primary: &&Primary| !primary.streams() && !refused;
        let primary = self.standing.primary().filter(waits)?;
        Some(primary.only_queued()).filter(|bytes| *bytes > Bytes::ZERO)
    }

    /// A stop waits for the peer, which is to be sought meanwhile.
    #[must_use]
    pub fn stop_wants_peer(&self) -> bool {
        self.stop_deadline() != Moment::NEVER && self.standing.leads()
    }

    /// When a stop that waits for the peer goes on. A stop that waits for the end of another change of role has no deadline.
    pub(crate) fn stop_deadline(&self) -> Moment {
        let waits = self.asked.stops() && self.standing.is_settled();
        self.asked.stop_until().filter(|_| waits).unwrap_or(Moment::NEVER)
    }
}
