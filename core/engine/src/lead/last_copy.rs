// SPDX-License-Identifier: Apache-2.0
//! Whether the queue is the last copy.

use crate::lead::Primary;
use helio_units::Bytes;

impl Primary {
    /// Answered bytes that are durable nowhere: what is lacking here is not made whole by a write that reached the store.
    pub(crate) fn only_queued(&self) -> Bytes {
        if self.lack.is_none() || self.target.cursors().durable() >= self.line.head {
            return Bytes::ZERO;
        }
        let durable = self.target.cursors().durable();
        let only = self.line.iter().filter(|entry| {
            entry.item.sequence > durable
                && entry.item.kind.changes_data()
                && entry.answered
                && !entry.denied
                && self.marks.any_dirty(entry.item.volume, entry.item.extent)
        });
        only.fold(Bytes::ZERO, |sum, entry| sum + Bytes(entry.item.extent.length))
    }
}
