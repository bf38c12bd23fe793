// SPDX-License-Identifier: Apache-2.0
//! Suspect copies of a node that does not lead.

use crate::engine::Engine;
use crate::local::suspect::bit;
use crate::show::view::View;
use alloc::format;
use helio_format::superblock::Superblock;
use helio_units::{Generation, VolumeIndex};

impl Engine {
    /// Reports that this copy is suspect, and what ends that.
    pub(crate) fn report_suspect(&mut self) {
        for volume in self.turn.config().indices() {
            if !self.local.suspect().is(volume) {
                continue;
            }
            self.turn.warn(format!(
                "volume {}: a flush failed on this node earlier. Blocks that can be read now may be missing on the disk; \
                 {} rewrites them",
                self.turn.config().name_of(volume), self.turn.config().peer
            ));
        }
    }
}

impl View<'_> {
    /// Whether that volume's hot extents must stay hot: a flush failed, so a later flush does not prove that they are durable.
    pub(crate) fn keeps_hot(&self, volume: VolumeIndex) -> bool {
        let volumes = self.local.suspect().volumes();
        let kept = if self.record.superblock().marks_void {
            volumes
        } else {
            self.local.suspect().unrecorded()
        };
        !self.standing.leads() && kept & bit(volume) != 0
    }

    /// A copy is consistent: what was suspect was written again, if everything was copied since.
    pub(crate) fn shape_consistent(&self, b: &mut Superblock) {
        b.consistent = true;
        if self.record.keeping().invalid().is_peer_proven() {
            b.peer_invalid = Generation::NONE;
        }
        if !b.marks_void {
            b.suspect = 0;
        }
        b.marks_void = b.suspect != 0;
        b.head = self.standing.follower().map_or(b.head, |f| f.completed().next());
    }
}
