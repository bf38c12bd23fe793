// SPDX-License-Identifier: Apache-2.0
//! Whether the queue is the last copy.

use crate::lead::Primary;
use crate::stream::line::Entry;
use helio_units::Bytes;

impl Primary {
    /// Acknowledged bytes that are on no complete copy: the peer does not have them durably, and other regions of the own copy are missing.
    pub(crate) fn only_queued(&self) -> Bytes {
        if self.lack.is_none() || self.target.cursors().durable() >= self.line.head() {
            return Bytes::ZERO;
        }
        let durable = self.target.cursors().durable();
        let answered = self.line.iter().filter(|entry| entry.is_answered_for_itself());
        let only = answered
            .map(Entry::item)
            .filter(|item| item.sequence > durable && item.kind.changes_data());
        only.fold(Bytes::ZERO, |sum, item| sum + Bytes(item.extent.length))
    }
}
