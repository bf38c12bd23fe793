// SPDX-License-Identifier: Apache-2.0
//! Copies after a failed flush. A block of such a copy may read as an older version until the peer serves the volume. The
//! record must say that the copy is suspect before a client gets the error. The copy must not overwrite newer data on the
//! peer, unless an operator accepts it.

use super::{Asked, Oracle};
use crate::promise::{Promise, Violation, hold};
use helio_engine::{Denial, Operation};
use helio_twin::{Cluster, Place, Side, Stamp};
use helio_units::VolumeIndex;
use std::collections::BTreeMap;

/// See the module's words.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Blocks that read as they were before a write that was dropped, and as what, until they are written again.
    gone_back: BTreeMap<Place, Stamp>,
    /// Volumes of which the running process saw a flush fail that dropped something: a bit each.
    dropped: u64,
    /// Those of which the record says so.
    recorded: u64,
}

impl Left {
    /// The process ended.
    pub(super) fn ended(&mut self) {
        self.dropped = 0;
    }

    /// Whether a flush failed since the record was begun that is durable now.
    pub(super) fn is_unrecorded(&self) -> bool {
        self.dropped & !self.recorded != 0
    }

    /// Blocks read as they were before, from the end of this step on.
    pub(super) fn went_back(&mut self, visible: &[(Place, Stamp)]) {
        self.gone_back.extend(visible.iter().copied());
    }

    /// Whether a block reads as it was before a write that was dropped.
    pub(super) fn has_gone_back(&self, place: Place) -> bool {
        self.gone_back.contains_key(&place)
    }

    /// A block is written.
    pub(super) fn changed(&mut self, place: Place, stamp: Stamp) {
        let Some(left) = self.gone_back.get_mut(&place) else { return };
        if stamp.parts().is_some_and(|(held, _)| held == *left) {
            // Some of its sectors still read as before.
            *left = stamp;
        } else if *left != stamp {
            self.gone_back.remove(&place);
        }
    }

    /// The image as it is counts from now on.
    pub(super) fn forget(&mut self) {
        self.gone_back.clear();
    }
}

impl Oracle {
    /// A flush failed, or a process ended behind one. What that dropped is seen, or will be with the power.
    pub(super) fn dropped(&mut self, side: Side, volumes: u64, visible: bool) {
        self.left[side.index()].dropped |= volumes;
        // As after a power cut.
        if visible {
            self.copy_loses(side);
        }
    }

    /// The operator accepts a copy whose flush failed: it may lack anything of what that flush covered.
    pub(crate) fn accepted(&mut self, side: Side) {
        self.copy_loses(side);
        // The record that says so adopts nothing.
        self.restored_tainted[side.index()] = true;
    }

    /// A record is durable: what it calls suspect no more was written again.
    pub(super) fn suspect_recorded(&mut self, side: Side, suspect: u64) {
        let left = &mut self.left[side.index()];
        let ended = left.recorded & !suspect;
        left.gone_back.retain(|place, _| ended & 1 << place.volume.0 == 0);
        left.dropped &= !ended;
        left.recorded = suspect;
    }

    /// Whether a block may read as this older version: a flush failed, and the peer does not serve the volume.
    pub(super) fn may_read_as(&self, side: Side, place: Place, stamp: Stamp) -> bool {
        let left = &self.left[side.index()];
        left.gone_back.get(&place) == Some(&stamp) && !self.lacks_regions(side)
    }

    /// Whether any block of a copy may read as an older version.
    pub(super) fn went_back(&self, side: Side) -> bool {
        !self.left[side.index()].gone_back.is_empty()
    }

    /// A client hears that a flush failed: the record says so.
    pub(super) fn judge_flush_denied(
        &self,
        cluster: &Cluster,
        asked: &Asked,
        denial: Denial,
    ) -> Result<(), Violation> {
        let flushes = match asked.operation {
            Operation::Flush => true,
            Operation::Write { fua, .. }
            | Operation::Zero { fua, .. }
            | Operation::Discard { fua, .. } => fua,
            Operation::Read(_) => false,
        };
        let engine = cluster.node(asked.side).engine.as_ref();
        let can_record = engine.is_some_and(|engine| !engine.view().words().metadata_failed);
        if !flushes || !can_record || !matches!(denial, Denial::Store(_)) {
            return Ok(());
        }
        let left = &self.left[asked.side.index()];
        let unrecorded = left.dropped & !left.recorded & 1 << asked.volume.0 != 0;
        hold(!unrecorded, Promise::SuspectCopy, || {
            format!("{} tells of a failed flush, and its record does not", asked.side)
        })
    }

    /// A node writes what its primary sends: not an older version over one that was answered. A client's write that is sent again
    /// to a peer that restarted is no such thing: the later one follows it, and neither is read from the copy.
    pub(super) fn judge_overwrite(
        &self,
        cluster: &Cluster,
        side: Side,
        (volume, first, stamps): (VolumeIndex, u32, &[Stamp]),
    ) -> Result<(), Violation> {
        // Others are those of a restore: the image that this node itself preserved.
        let engine = cluster.node(side).engine.as_ref();
        if engine.is_some_and(|engine| !engine.view().lets_peer_write()) {
            return Ok(());
        }
        let source = &self.copies[side.other().index()];
        let Some(history) = self.histories.get(&source.generation).filter(|_| source.serving)
        else {
            return Ok(());
        };
        if history.is_whole_write(volume, first, stamps) {
            return Ok(());
        }
        let left = &self.left[side.other().index()].gone_back;
        for (block, stamp) in (first..).zip(stamps) {
            let place = Place { volume, block };
            let held = self.images[side.index()][usize::from(volume.0)][block as usize];
            // Zeros have no name: those that are held may be from before this history.
            if held == Stamp::ZEROS {
                continue;
            }
            let spans = history.span(place, held).zip(history.span(place, *stamp));
            let Some(((held, _), (_, gets))) = spans else { continue };
            let old = left.get(&place) == Some(stamp) && held > gets;
            let missing = history.missing(place, gets, self.serial).filter(|_| old);
            hold(missing.is_none(), Promise::SuspectCopy, || {
                format!("{side} is given {stamp:?} at {place:?} by a copy that dropped {missing:?}")
            })?;
        }
        Ok(())
    }
}
