// SPDX-License-Identifier: Apache-2.0
//! What a secondary's image may be, as long as its own record calls it consistent: closed under "answered before
//! accepted".
//!
//! Let T be the latest submission among the writes visible in the image. Every write answered before T must be visible
//! or superseded. Each changed block is judged for itself, and when T grows, so is every write answered before the new
//! T; the whole image is judged again whenever a record is made, a node starts or dies, and at a promotion.
//! After a power cut the image is a legal state of a disk with a volatile cache and no more; it is judged again once
//! the node has adopted a stream.

use super::Oracle;
use crate::promise::{Promise, Violation, hold};
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Place, Side, Stamp};
use helio_units::{Generation, Role, VolumeIndex};

impl Oracle {
    /// The record of a node changed, or it starts from its record: what its image promises may have changed.
    pub(super) fn look_again(&mut self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let Some(record) = cluster.node(side).superblock() else { return Ok(()) };
        // What was given up is of no history any more, until a stream is adopted.
        let given_up = gave_up(record);
        let at = if given_up { Generation::NONE } else { record.lineage.generation };
        let generation = self.history_of(at);
        let copy = &mut self.copies[side.index()];
        copy.generation = generation;
        copy.consistent = record.consistent;
        copy.unclean = !record.clean;
        copy.doubts_peer = record.peer_invalid;
        let follows = record.role == Role::Secondary && !record.wrote;
        // What a record made on another disk says is still about the one before.
        copy.watched = follows
            && record.consistent
            && !copy.tainted
            && !copy.foreign
            && self.histories.contains_key(&copy.generation);
        self.judge_whole(side)
    }

    /// A copy becomes consistent: should the power go now, nothing of what it held before may come back.
    pub(super) fn judge_durable(&self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let Some(record) = cluster.node(side).superblock() else { return Ok(()) };
        let Some(history) = self.histories.get(&self.history_of(record.lineage.generation)) else {
            return Ok(());
        };
        if self.copies[side.index()].foreign {
            return Ok(());
        }
        for (volume, blocks) in (0u16..).map(VolumeIndex).zip(&self.images[side.index()]) {
            let durable = cluster.node(side).disk.durable(volume);
            for (block, (_, stamp)) in (0u32..).zip(blocks.iter().zip(durable)) {
                let place = Place { volume, block };
                if self.rotten.contains(&place) {
                    continue;
                }
                hold(history.span(place, *stamp).is_some(), Promise::KnownBytes, || {
                    format!(
                        "{side} calls its copy consistent, {stamp:?} at {place:?} may come back"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Judges one block that changed.
    pub(super) fn judge_block(
        &mut self,
        side: Side,
        place: Place,
        stamp: Stamp,
    ) -> Result<(), Violation> {
        let copy = &mut self.copies[side.index()];
        if !copy.watched {
            return Ok(());
        }
        let history = &self.histories[&copy.generation];
        let Some((first, last)) = history.span(place, stamp) else {
            return Err(unknown(side, place, stamp));
        };
        let submitted = history.submitted(place, first);
        if submitted > copy.latest {
            copy.latest = submitted;
            while let Some(index) = history.answered.get(copy.checked) {
                let write = &history.writes[*index as usize];
                if write.answered.is_none_or(|at| at >= copy.latest) {
                    break;
                }
                let lacking = history.lacks(write, &self.images[side.index()]);
                hold(lacking.is_none(), Promise::Closed, || {
                    format!(
                        "{side} holds {stamp:?} at {place:?} and lacks {:?} in {lacking:?}, which was answered \
                         before that was submitted",
                        write.stamp
                    )
                })?;
                copy.checked += 1;
            }
        }
        let missing = history.missing(place, last, copy.latest);
        hold(missing.is_none(), Promise::Closed, || {
            format!("{side} went back to {stamp:?} at {place:?}; it lacks {missing:?}")
        })
    }

    /// Judges the whole image.
    pub(super) fn judge_whole(&mut self, side: Side) -> Result<(), Violation> {
        let copy = &mut self.copies[side.index()];
        copy.latest = 0;
        copy.checked = 0;
        if !copy.watched {
            return Ok(());
        }
        let history = &self.histories[&copy.generation];
        let image = &self.images[side.index()];
        let blocks = (0u16..).map(VolumeIndex).zip(image).flat_map(|(volume, blocks)| {
            (0u32..).zip(blocks).map(move |(block, stamp)| (Place { volume, block }, *stamp))
        });
        for (place, stamp) in blocks {
            let Some((first, _)) = history.span(place, stamp) else {
                return Err(unknown(side, place, stamp));
            };
            copy.latest = copy.latest.max(history.submitted(place, first));
        }
        for index in &history.answered {
            let write = &history.writes[*index as usize];
            if write.answered.is_none_or(|at| at >= copy.latest) {
                break;
            }
            let lacking = history.lacks(write, image);
            hold(lacking.is_none(), Promise::Closed, || {
                format!("{side} lacks {:?} in {lacking:?} and holds a later write", write.stamp)
            })?;
            copy.checked += 1;
        }
        Ok(())
    }
}

/// Whether an operator gave up what the node holds: it wrote nothing that counts, and is on no line yet.
pub(super) fn gave_up(record: &Superblock) -> bool {
    record.role == Role::Secondary && !record.wrote && record.alone
}

fn unknown(side: Side, place: Place, stamp: Stamp) -> Violation {
    let detail = format!("{side} holds {stamp:?} at {place:?}, which its generation never held");
    Violation::new(Promise::KnownBytes, detail)
}
