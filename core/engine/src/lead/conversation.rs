// SPDX-License-Identifier: Apache-2.0
//! How long the peer may take.

use crate::lead::Primary;
use core::time::Duration;
use helio_units::{Bytes, Rate};

/// A link slower than this may lose its peer over one long write; a short one always gets through in time.
const SLOWEST_LINK: Rate = Rate::mbit(1);

impl Primary {
    /// The time that an item on its way to the peer may take, if something sent is unacknowledged. A cursor moves only
    /// when an item has arrived whole: so the next one that has not gets its time on the slowest link. That the socket takes
    /// bytes proves nothing: a hung peer's kernel takes them too.
    pub(crate) fn outstanding(&self) -> Option<Duration> {
        let c = self.target.cursors();
        if !self.target.streams() || c.sent() <= c.durable() {
            return None;
        }
        let next = self.line.get(c.received().next()).filter(|e| e.item.sequence <= c.sent());
        let payload = next.and_then(|e| e.item.payload);
        Some(SLOWEST_LINK.time_for(Bytes(payload.map_or(0, |payload| payload.length.into()))))
    }
}
