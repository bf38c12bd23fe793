// SPDX-License-Identifier: Apache-2.0
//! A former primary reports what would be lost if it were discarded. The report covers every block in which the peer lacks an
//! acknowledged write.

use super::secondary::gave_up;
use super::{History, Image, Key, Oracle};
use crate::promise::{Promise, Violation, hold};
use helio_format::lineage::{ANCESTORS_MAX, Lineage};
use helio_twin::{BLOCK, Cluster, Place, Side};
use helio_units::{Extent, VolumeIndex};

impl Oracle {
    pub(super) fn judge_stakes(&self, cluster: &Cluster) -> Result<(), Violation> {
        if !self.lag_due || self.differing_blocks == 0 {
            return Ok(());
        }
        Side::BOTH.into_iter().try_for_each(|side| self.judge_stake(cluster, side))
    }

    fn judge_stake(&self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let node = cluster.node(side);
        let own = &self.copies[side.index()];
        let Some(history) = self.histories.get(&own.generation).filter(|h| h.leader == side) else {
            return Ok(());
        };
        let tells = node.superblock().is_some_and(|record| record.wrote && !gave_up(record));
        // Of older files, and of what a failed flush or a power cut dropped, no record tells.
        if !tells || own.restored || own.foreign || own.lost_at.is_some() || self.went_back(side) {
            return Ok(());
        }
        let peer = self.copies[side.other().index()].generation;
        let engine = node.engine.as_ref().filter(|engine| {
            let last = engine.view().last_decision();
            // What the peer did that it has not told is in no figure.
            let other = last.map(|last| if last.as_source { &last.target } else { &last.source });
            !engine.view().is_primary()
                && other.is_some_and(|other| self.history_of(other.lineage.generation) == peer)
        });
        let Some(stake) = engine.and_then(|engine| engine.view().stake(true).ok()) else {
            return Ok(());
        };
        // What the peer held when it was promoted first behind what both lines name, if it was.
        let line = |side| {
            let record = cluster.node(side).superblock();
            record.map(|record| self.line_of(&record.lineage)).unwrap_or_default()
        };
        let (mine, peers) = (line(side), line(side.other()));
        let is_common = |at: &Key| *at == own.generation || mine.contains(at);
        // After so many promotions nothing tells any more from what the first one began.
        if peers.len() > ANCESTORS_MAX && !peers.iter().any(is_common) {
            return Ok(());
        }
        let first = peers.into_iter().take_while(|at| !is_common(at)).last();
        let heir = first.and_then(|first| self.histories.get(&first));
        let theirs = heir.map_or(&self.images[side.other().index()], |heir| &heir.base);
        for (volume, regions) in (0u16..).map(VolumeIndex).zip(&self.differing) {
            let differing = regions.iter().enumerate().filter(|(_, n)| **n > 0);
            let blocks = differing.flat_map(|(region, _)| {
                let first = (region * self.grain) as u32;
                first..first + self.grain as u32
            });
            let size = self.images[side.index()][usize::from(volume.0)].len() as u32;
            for block in blocks.take_while(|block| *block < size) {
                let told = stake.differing.iter().any(|(of, extent)| {
                    *of == volume
                        && extent.overlaps(Extent::new(u64::from(block) * BLOCK.0, BLOCK.0))
                });
                hold(
                    told || !self.is_only_at(side, (history, theirs), Place { volume, block }),
                    Promise::Reports,
                    || {
                        format!(
                            "{side} does not tell that block {block} of volume {} would be lost",
                            volume.0
                        )
                    },
                )?;
            }
        }
        Ok(())
    }

    /// The histories that a lineage names, the latest one first.
    fn line_of(&self, lineage: &Lineage) -> Vec<Key> {
        let ancestors = lineage.ancestors().iter().map(|ancestor| ancestor.generation);
        let line = core::iter::once(lineage.generation).chain(ancestors);
        line.map(|generation| self.history_of(generation)).collect()
    }

    /// Whether an answered write of a node is in its own image, and not in the other one.
    fn is_only_at(&self, side: Side, (history, theirs): (&History, &Image), place: Place) -> bool {
        let at = |image: &Image| image[usize::from(place.volume.0)][place.block as usize];
        let [mine, theirs] =
            [&self.images[side.index()], theirs].map(|image| history.span(place, at(image)));
        let Some(((mine, _), (_, theirs))) = mine.zip(theirs) else { return false };
        mine > theirs && history.missing(place, theirs, self.serial).is_some()
    }
}
