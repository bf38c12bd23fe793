// SPDX-License-Identifier: Apache-2.0
//! What must be remembered: every region in which the images differ is marked by a serving primary or recorded by its
//! peer, at every step; and when a node dies, by what lies in the two metadata files.
//!
//! One exemption: a peer that wrote as a primary itself after this one was promoted, or in a generation this one does
//! not descend from, and has not followed since, holds what this one cannot know of. The recovery table must refuse
//! it, and that is judged by its history.

use super::secondary::gave_up;
use super::{Oracle, View};
use crate::promise::{Promise, Violation, hold};
use helio_format::superblock::Superblock;
use helio_twin::{BLOCK, Cluster, Place, Side, Stamp};
use helio_units::{Generation, State, VolumeIndex};

/// A count per region of each volume of an image.
pub(super) fn regions(image: &super::Image, grain: usize) -> Vec<Vec<u32>> {
    image.iter().map(|volume| vec![0; volume.len().div_ceil(grain)]).collect()
}

impl Oracle {
    pub(super) fn count_differences(&mut self) {
        let [a, b] = &self.images;
        for (volume, (a, b)) in a.iter().zip(b).enumerate() {
            for (block, (a, b)) in a.iter().zip(b).enumerate() {
                self.differing[volume][block / self.grain] += u32::from(a != b);
                self.differing_blocks += u32::from(a != b);
            }
        }
    }

    pub(super) fn note_difference(&mut self, side: Side, place: Place, stamp: Stamp) {
        let (volume, block) = (usize::from(place.volume.0), place.block as usize);
        let other = self.images[side.other().index()][volume][block];
        let mine = &mut self.images[side.index()][volume][block];
        let (before, after) = (*mine != other, stamp != other);
        *mine = stamp;
        if self.lied_about.changed(&place, after, self.serial) {
            return;
        }
        let count = &mut self.differing[volume][block / self.grain];
        *count = *count + u32::from(after) - u32::from(before);
        self.differing_blocks = self.differing_blocks + u32::from(after) - u32::from(before);
    }

    pub(super) fn judge_marks(&self, cluster: &Cluster) -> Result<(), Violation> {
        if self.differing_blocks == 0 {
            return Ok(());
        }
        for side in Side::BOTH {
            let node = cluster.node(side);
            let Some(engine) = node.engine.as_ref().filter(|engine| engine.view().is_primary())
            else {
                continue;
            };
            let (own, peer) = (&self.copies[side.index()], &self.copies[side.other().index()]);
            let rival = self.histories.get(&peer.generation).is_some_and(|h| {
                let known = node.superblock().is_some_and(|record| {
                    record
                        .lineage
                        .ancestors()
                        .iter()
                        .any(|a| self.history_of(a.generation) == peer.generation)
                });
                h.leader == side.other() && !known
            });
            // While a disk is shipped the marks are those against it, and nothing travels to any other copy.
            if engine.view().seeding().is_some() {
                continue;
            }
            // Of a peer whose own record proves nothing, everything counts as marked once the two meet.
            let void = |record: &Superblock| record.marks_void || record.seeding != 0;
            // Of one that could not write its metadata, the other's record tells everything, once its memory is gone.
            let doubts = |side: Side| {
                let record = cluster.node(side).superblock();
                record.is_some_and(|record| record.peer_invalid != Generation::NONE)
            };
            // Where it failed in this generation, in which this process leads, its memory tells.
            let since = |side: Side| cluster.node(side).superblock().map(|r| r.peer_invalid);
            let leads_in = cluster.node(side).superblock().map(|r| r.lineage.generation);
            let remembers =
                engine.view().words().metadata_failed && since(side.other()) == leads_in;
            // Of one on another disk than its record is about, everything counts as marked as well.
            let foreign = !cluster.node(side.other()).has_its_disk();
            // What a metadata file that is lost told of is known once an operator decided.
            if own.restored
                || peer.restored
                || peer.lost_at.is_some()
                || foreign
                || doubts(side)
                || doubts(side.other()) && !remembers
                || cluster.node(side.other()).superblock().is_none_or(void)
            {
                continue;
            }
            // Of one that gave its side up, the records tell everything.
            let given_up = cluster.node(side.other()).superblock().is_some_and(gave_up);
            let apart = peer.generation != own.generation && !given_up;
            if apart && (rival || peer.led_at > own.promoted_at) {
                continue;
            }
            self.judge_lag(cluster, side)?;
            self.judge_secondary_lag(cluster, side.other())?;
            for (volume, regions) in (0u16..).map(VolumeIndex).zip(&self.differing) {
                for (region, _) in regions.iter().enumerate().filter(|(_, n)| **n > 0) {
                    let offset = (region * self.grain) as u64 * BLOCK.0;
                    let known = engine.view().is_marked(volume, offset)
                        || is_recorded(cluster, side.other(), volume, offset);
                    hold(known, Promise::Marks, || {
                        format!(
                            "{side} serves, region {region} of volume {} differs from the peer's and is not marked",
                            volume.0
                        )
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What a node says it heard last of its peer was a message.
    pub(super) fn judge_heard(&self, cluster: &Cluster) -> Result<(), Violation> {
        for side in Side::BOTH {
            let node = cluster.node(side);
            let heard = node.engine.as_ref().and_then(|engine| engine.view().last_heard());
            hold(heard <= node.read_at(), Promise::Reports, || {
                format!(
                    "{side} says it heard its peer at {heard:?}, it read at {:?}",
                    node.read_at()
                )
            })?;
        }
        Ok(())
    }

    /// A node died: what both nodes have durably recorded covers every difference, whoever comes back.
    pub(super) fn judge_records(&self, cluster: &Cluster) -> Result<(), Violation> {
        let proves = |side: &Side| {
            let node = cluster.node(*side);
            node.superblock().is_some_and(|record| {
                !record.marks_void
                    && record.peer_invalid == Generation::NONE
                    && record.seeding == 0
                    && record.lineage.generation != Generation::NONE
            })
        };
        let restored = self.copies.iter().any(|copy| copy.restored || copy.lost_at.is_some());
        // Of one on another disk than its record is about, everything counts as marked once it starts.
        let foreign = Side::BOTH.iter().any(|side| !cluster.node(*side).has_its_disk());
        if self.differing_blocks == 0 || restored || foreign || !Side::BOTH.iter().all(proves) {
            return Ok(());
        }
        for (volume, regions) in (0u16..).map(VolumeIndex).zip(&self.differing) {
            for (region, _) in regions.iter().enumerate().filter(|(_, n)| **n > 0) {
                let offset = (region * self.grain) as u64 * BLOCK.0;
                let recorded =
                    Side::BOTH.iter().any(|side| is_recorded(cluster, *side, volume, offset));
                hold(recorded, Promise::Records, || {
                    format!(
                        "region {region} of volume {} differs, and neither node's metadata tells",
                        volume.0
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Replicating is said only of a copy whose own record says consistent.
    pub(super) fn judge_state(
        &self,
        cluster: &Cluster,
        after: &[View; 2],
    ) -> Result<(), Violation> {
        for side in Side::BOTH {
            let peer = cluster.node(side.other());
            let same = self.copies[0].generation == self.copies[1].generation;
            if after[side.index()].state != Some(State::Replicating)
                || !cluster.node(side).serves()
                || !same
                || !peer.is_up()
                || !cluster.wire.is_whole()
                || cluster.node(side).hangs(cluster.now())
            {
                continue;
            }
            let consistent = peer.superblock().is_some_and(|record| record.consistent);
            hold(consistent, Promise::Replicating, || {
                format!("{side} says replicating, {} calls its copy inconsistent", side.other())
            })?;
            let engine = cluster.node(side).engine.as_ref();
            let counts = engine.is_some_and(|engine| engine.view().peer_may_go_back());
            hold(!counts, Promise::Replicating, || {
                format!("{side} says replicating, and that {} may go back", side.other())
            })?;
        }
        Ok(())
    }
}

/// Whether a node's metadata, as it would be read now, tells of that place: by a hot extent or a mark.
fn is_recorded(cluster: &Cluster, side: Side, volume: VolumeIndex, offset: u64) -> bool {
    cluster.node(side).metadata.tells(volume, offset)
}
