// SPDX-License-Identifier: Apache-2.0
//! A node whose files were replaced while it was down: what was durable there is so no more, and its image is no state
//! of any generation until it has adopted a stream.

use super::Oracle;
use helio_twin::Side;

impl Oracle {
    /// Whether a node's files are older ones, and the two have not come to terms since.
    pub(crate) fn is_restored(&self, side: Side) -> bool {
        self.copies[side.index()].restored
    }

    pub(super) fn restored(&mut self, side: Side) {
        self.expected[side.index()] = None;
        let copy = &mut self.copies[side.index()];
        copy.restored = true;
        copy.tainted = true;
        copy.watched = false;
        copy.lost_power_at = self.serial;
        for history in self.histories.values_mut() {
            let whose = usize::from(history.leader != side);
            history.writes.iter_mut().for_each(|write| write.durable[whose] = false);
        }
    }
}
