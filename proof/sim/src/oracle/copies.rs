// SPDX-License-Identifier: Apache-2.0
//! What point-in-time copies hold: what a secondary's image may be, the same on both nodes, and the same for ever.

use super::Oracle;
use super::history::Image;
use crate::promise::{Promise, Violation, hold};
use helio_engine::Operation;
use helio_stack::{CopyClass, CopyNumber, KeptCopy};
use helio_twin::{Cluster, Happening, Place, Side};
use helio_units::VolumeIndex;
use std::collections::BTreeMap;

/// The copies of a node, each with what it held when it was seen first.
#[derive(Debug, Default)]
pub(super) struct Copies {
    seen: BTreeMap<CopyNumber, (KeptCopy, Image)>,
}

impl Copies {
    /// What they need is gone, or another one's.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }
}

impl Oracle {
    /// Judges the copies of a node behind a step: those that are new, and where one may have been lost, all.
    pub(super) fn judge_copies(
        &mut self,
        cluster: &Cluster,
        happening: &Happening,
    ) -> Result<(), Violation> {
        match happening {
            Happening::Commanded { side, result: Ok(_), .. } => self.see_copies(cluster, *side),
            Happening::Noted { side, words } if words.starts_with("snapshot ") => {
                self.see_copies(cluster, *side)
            }
            Happening::Died { side, .. } | Happening::Started { side } => {
                self.judge_seen_copies(cluster, *side)
            }
            _ => Ok(()),
        }
    }

    fn see_copies(&mut self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let copy = &self.copies[side.index()];
        if copy.foreign {
            return Ok(());
        }
        let Some(engine) = &cluster.node(side).engine else { return Ok(()) };
        let held = engine.view().copies().held;
        self.named[side.index()]
            .seen
            .retain(|number, _| held.iter().any(|held| held.copy.number == *number));
        for held in held {
            let (number, Some(name)) = (held.copy.number, held.copy.name()) else { continue };
            if self.named[side.index()].seen.contains_key(&number) {
                continue;
            }
            let Some(image) = self.given(cluster, side, number) else { continue };
            // What lies beyond the head may be of a generation that was given up, or be what a power cut left of it.
            let told = held.copy.image.consistent && held.copy.image.exact;
            // Of a node whose files are older ones nothing tells what it holds.
            let known = !self.copies[side.index()].tainted && !self.copies[side.index()].restored;
            if told && known {
                self.judge_image((side, name.as_str()), &held.copy, &image)?;
                self.judge_alike((side, name.as_str()), &held.copy, &image)?;
            }
            self.copies_seen += 1;
            self.named[side.index()].seen.insert(number, (held.copy, image));
        }
        Ok(())
    }

    /// It holds, with any write, every write that was answered before that one was submitted.
    fn judge_image(
        &self,
        (side, name): (Side, &str),
        copy: &KeptCopy,
        image: &Image,
    ) -> Result<(), Violation> {
        let generation = self.history_of(copy.image.lineage.generation);
        let Some(history) = self.histories.get(&generation) else { return Ok(()) };
        let mut latest = 0;
        for (place, stamp) in places(image) {
            if self.is_odd(place) {
                continue;
            }
            let span = history.span(place, stamp);
            hold(span.is_some(), Promise::Copies, || {
                format!(
                    "copy {name} of {side} holds {stamp:?} at {place:?}, which its generation never held"
                )
            })?;
            if let Some((first, _)) = span {
                latest = latest.max(history.submitted(place, first));
            }
        }
        for index in &history.answered {
            let write = &history.writes[*index as usize];
            if write.answered.is_none_or(|at| at >= latest) {
                break;
            }
            let lacking = history.lacks(write, image).filter(|place| !self.is_odd(*place));
            hold(lacking.is_none(), Promise::Copies, || {
                format!(
                    "copy {name} of {side} lacks {:?} in {lacking:?} and holds a later write",
                    write.stamp
                )
            })?;
        }
        Ok(())
    }

    /// The other node's copy of that item of that line holds the same.
    fn judge_alike(
        &self,
        (side, name): (Side, &str),
        copy: &KeptCopy,
        image: &Image,
    ) -> Result<(), Violation> {
        let same = |(other, _): &&(KeptCopy, Image)| {
            let line = |copy: &KeptCopy| (copy.image.lineage.generation, copy.image.head);
            line(other) == line(copy) && other.owner == copy.owner && other.image.consistent
        };
        let Some((_, other)) = self.named[side.other().index()].seen.values().find(same) else {
            return Ok(());
        };
        let differs = places(image).find(|(place, stamp)| {
            let there = other[usize::from(place.volume.0)][place.block as usize];
            there != *stamp && !self.is_odd(*place) && !self.was_denied(*place)
        });
        hold(differs.is_none(), Promise::Copies, || {
            format!("copy {name} of {side} and of {} differ: {differs:?}", side.other())
        })
    }

    fn judge_seen_copies(&mut self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let mut seen = core::mem::take(&mut self.named[side.index()].seen);
        let node = cluster.node(side);
        // What the record says to be over is in the file until the process that starts has dropped it, and nothing is preserved for it.
        let all = CopyNumber(u64::MAX);
        let over = node.metadata.says().map_or(all, |record| record.copies_over(all));
        seen.retain(|number, (copy, _)| {
            let is_over = copy.class == CopyClass::Expendable && *number <= over;
            !is_over && node.before.held(*number).is_some()
        });
        for (number, (copy, image)) in &seen {
            let Some(now) = self.given(cluster, side, *number) else { continue };
            let changed = places(image).find(|(place, stamp)| {
                let now = now[usize::from(place.volume.0)][place.block as usize];
                now != *stamp && !self.is_odd(*place)
            });
            hold(changed.is_none(), Promise::Copies, || {
                let owner = copy.owner;
                let gives = changed
                    .map(|(place, _)| now[usize::from(place.volume.0)][place.block as usize]);
                format!("copy {number} of {side} ({owner:?}) held {changed:?}, and gives {gives:?}")
            })?;
        }
        self.named[side.index()].seen = seen;
        Ok(())
    }

    /// What that copy holds; none if it is not held.
    fn given(&self, cluster: &Cluster, side: Side, number: CopyNumber) -> Option<Image> {
        let differs = cluster.node(side).before.held(number)?;
        let mut image = self.images[side.index()].clone();
        for (place, stamp) in differs {
            image[usize::from(place.volume.0)][place.block as usize] = stamp;
        }
        Some(image)
    }

    /// A disk lied about that block, or it rotted.
    fn is_odd(&self, place: Place) -> bool {
        self.lied_about.has(&place) || self.rotten.contains(&place)
    }

    /// A change there was denied: one of the two nodes may hold it, and the other not.
    fn was_denied(&self, place: Place) -> bool {
        self.denied_at.contains(&place)
    }

    /// A change is denied.
    pub(super) fn note_denied(&mut self, volume: VolumeIndex, operation: &Operation) {
        let extent = match *operation {
            Operation::Write { extent, .. }
            | Operation::Zero { extent, .. }
            | Operation::Discard { extent, .. } => extent,
            Operation::Read(_) | Operation::Flush => return,
        };
        self.denied_at.extend(helio_twin::places(volume, extent));
    }
}

fn places(image: &Image) -> impl Iterator<Item = (Place, helio_twin::Stamp)> + '_ {
    (0u16..).map(VolumeIndex).zip(image).flat_map(|(volume, blocks)| {
        (0u32..).zip(blocks).map(move |(block, stamp)| (Place { volume, block }, *stamp))
    })
}
