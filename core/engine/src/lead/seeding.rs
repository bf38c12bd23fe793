// SPDX-License-Identifier: Apache-2.0
//! A seed, on a node that leads.

use crate::lead::Primary;
use crate::peer::owed::PeerCopy;
use crate::stream::line::Entry;
use helio_plant::{Plant, planted};

impl Primary {
    /// The peer's image is the disk that was shipped: the marks tell what it lacks.
    pub(crate) fn use_shipped(&mut self) {
        self.target.found(PeerCopy::Shipped { by_bitmaps: false });
        if planted(Plant::SeedForgets) {
            self.marks.clear();
        }
    }

    /// Only what is under way may be missing from a copy that begins now.
    pub(crate) fn mark_for_seed(&mut self) {
        self.marks.clear();
        let pending = self.line.iter().filter(|entry| !entry.has_ended_here()).map(Entry::item);
        for item in pending.filter(|item| item.kind.changes_data()) {
            self.marks.set(item.volume, item.extent);
        }
    }
}
