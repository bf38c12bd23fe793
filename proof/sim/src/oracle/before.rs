// SPDX-License-Identifier: Apache-2.0
//! What a secondary keeps while it is updated: from the record that calls its copy inconsistent to the one that calls
//! it consistent again, what is kept laid over what is there gives the image it had before.
//!
//! Judged for every block that changes, and for all of them whenever the node dies, starts or ends an update. A
//! keeping may be given up by the operator, or not be asked for; then nothing must be kept until the next one. What is
//! kept all the same, until the node hears of it or because it was never asked, can be restored, and is no better an
//! image than it was: so what it was is remembered for it, too.

use super::Oracle;
use super::history::Image;
use crate::promise::{Promise, Violation, hold};
use helio_engine::SafeCopy;
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Place, Side, Stamp};
use helio_units::Role;
use helio_units::VolumeIndex;
use std::collections::BTreeMap;

/// What a node's keeping must give back.
#[derive(Debug)]
pub(super) struct Expected {
    generation: super::Key,
    head: u64,
    /// A restore begins the one behind it; an update that ends leaves it as it is.
    tenure: u64,
    image: Image,
    /// That image was what a power cut had left.
    tainted: bool,
    /// Its node's files were older ones: no record tells what it was.
    unknown: bool,
    /// It need not be kept any more.
    waived: bool,
}

impl Expected {
    /// Whether that record, which says consistent again, is one of a restore. Where the image lies on the line does not tell: an
    /// update may end at the position of what is kept and hold something else, since a change that was denied counts for that
    /// position, and may be on one of the two nodes alone.
    const fn is_restored_by(&self, record: &Superblock) -> bool {
        record.tenure == self.tenure.wrapping_add(1)
    }
}

impl Oracle {
    /// The operator gives safe copies up, or switches them on or off: none is expected until the next update.
    pub(crate) fn safe_copy_given_up(&mut self) {
        self.expected.iter_mut().flatten().for_each(|expected| expected.waived = true);
        (self.waived, self.waives_next) = (true, true);
    }

    /// A record is durable, and is looked at before anything else is.
    pub(super) fn keeping_recorded(
        &mut self,
        cluster: &Cluster,
        side: Side,
    ) -> Result<(), Violation> {
        let lost = core::mem::take(&mut self.before_lost[side.index()]);
        let node = cluster.node(side);
        let Some(record) = node.superblock() else { return Ok(()) };
        let copy = &self.copies[side.index()];
        // What lies on another disk is no image of anything.
        let known = !copy.foreign && copy.generation != super::Key::default();
        // Nor is what a failed flush left.
        let was = copy.consistent && known && record.suspect == 0;
        // A primary gives its image up by the operator's word, for its peer's.
        let by_word = copy.serving && record.role == Role::Primary;
        if was && !record.consistent && !by_word {
            let on = |side: Side| cluster.node(side).config.safe_copy != SafeCopy::Off;
            // The primary asks for it, by its own setting: this node may keep it although its setting is another one.
            let keeps = node.before.kept().is_some();
            let wanted = Side::BOTH.into_iter().all(on);
            hold(
                keeps || self.waived || self.waives_next || !wanted || lost,
                Promise::SafeCopy,
                || format!("{side} gives a consistent image up and keeps nothing of it"),
            )?;
            self.waives_next = false;
            self.expected[side.index()] = keeps.then(|| Expected {
                generation: copy.generation,
                head: node.before.kept_head().unwrap_or_default(),
                tenure: record.tenure,
                image: self.images[side.index()].clone(),
                tainted: copy.tainted,
                unknown: copy.restored,
                waived: self.waived,
            });
        }
        if record.consistent {
            self.waived &= self.copies[side.index()].consistent;
            if let Some(expected) = self.expected[side.index()].take()
                && expected.is_restored_by(record)
                && !self.copies[side.index()].consistent
            {
                let at = (self.history_of(record.lineage.generation), record.head.0);
                hold(at == (expected.generation, expected.head), Promise::SafeCopy, || {
                    format!("{side} restored what it kept, and calls it another image: {at:?}")
                })?;
                self.judge_restored(side, &expected)?;
                self.restored_tainted[side.index()] = expected.tainted;
                // Also where the record says besides that the marks, or the peer's, prove nothing.
                self.copies[side.index()].tainted |= expected.tainted;
                self.restored_unknown[side.index()] = expected.unknown;
                self.restores += 1;
            }
        }
        Ok(())
    }

    fn judge_restored(&self, side: Side, expected: &Expected) -> Result<(), Violation> {
        let images = self.images[side.index()].iter().zip(&expected.image);
        let mut blocks =
            (0u16..).map(VolumeIndex).zip(images).flat_map(|(volume, (one, other))| {
                let pairs = (0u32..).zip(one.iter().zip(other));
                pairs
                    .filter(|(_, (one, other))| one != other)
                    .map(move |(block, _)| Place { volume, block })
            });
        let equal = blocks.all(|place| self.lied_about.has(&place));
        hold(equal, Promise::SafeCopy, || {
            format!("{side} restored an image that is not the one it kept")
        })
    }

    /// What a node must be able to give back now.
    fn demanded(&self, side: Side) -> Option<&Expected> {
        self.expected[side.index()].as_ref().filter(|expected| !expected.waived)
    }

    /// A block of a node's live image changed while an image is kept there.
    pub(super) fn judge_kept_block(
        &self,
        cluster: &Cluster,
        side: Side,
        place: Place,
    ) -> Result<(), Violation> {
        let Some(expected) = self.demanded(side) else { return Ok(()) };
        let kept = cluster.node(side).before.kept_block(place);
        let live = self.images[side.index()][usize::from(place.volume.0)][place.block as usize];
        let wanted = expected.image[usize::from(place.volume.0)][place.block as usize];
        let same = kept.unwrap_or(live) == wanted || self.lied_about.has(&place);
        hold(same, Promise::SafeCopy, || {
            format!("{side} overwrote {wanted:?} at {place:?}, and keeps {kept:?} of it")
        })
    }

    /// All that is kept, laid over all that is there.
    pub(super) fn judge_keeping(&self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let Some(expected) = self.demanded(side) else { return Ok(()) };
        let kept: BTreeMap<Place, Stamp> = cluster.node(side).before.kept().unwrap_or_default();
        let images = expected.image.iter().zip(&self.images[side.index()]);
        for (volume, (wanted, live)) in (0u16..).map(VolumeIndex).zip(images) {
            for (block, (wanted, live)) in (0u32..).zip(wanted.iter().zip(live)) {
                let place = Place { volume, block };
                let gives = kept.get(&place).unwrap_or(live);
                hold(gives == wanted || self.lied_about.has(&place), Promise::SafeCopy, || {
                    format!("{side} kept {wanted:?} at {place:?}; a restore would give {gives:?}")
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use helio_netmodel::Dice;
    use helio_twin::Happening;

    const PLACE: Place = Place { volume: VolumeIndex(0), block: 0 };

    fn kept(image: &Image) -> Expected {
        let generation = super::super::Key::default();
        let (image, [tainted, unknown, waived]) = (image.clone(), [false; 3]);
        Expected { generation, head: 0, tenure: 3, image, tainted, unknown, waived }
    }

    /// A crash of lyon changes a block of which nothing is preserved. In the same step `also` happens to it.
    fn crash(also: impl FnOnce(&mut Cluster)) -> Result<(), Violation> {
        let dice = Dice::new(1);
        let scenario = Scenario::new(&dice);
        let mut cluster = scenario.cluster(&dice, false);
        let mut oracle = Oracle::new(&cluster, scenario.volumes.len());
        oracle.expected[Side::Lyon.index()] = Some(kept(&oracle.images[Side::Lyon.index()]));
        let (side, stamp) = (Side::Lyon, Stamp(7));
        let mut journal = vec![Happening::Changed { side, place: PLACE, stamp, leading: false }];
        also(&mut cluster);
        cluster.take_journal(&mut journal);
        oracle.observe(&cluster, &journal)
    }

    #[test]
    fn a_block_that_changes_is_preserved_before() {
        let broken = crash(|_| {}).expect_err("nothing of the block is preserved");
        assert_eq!(broken.promise, Promise::SafeCopy);
    }

    #[test]
    fn nothing_is_expected_of_before_images_that_went_with_their_disk() {
        assert!(crash(|cluster| cluster.set_up_with(Side::Lyon, |_| Stamp::ZEROS)).is_ok());
    }

    #[test]
    fn an_update_that_ends_at_the_position_of_what_is_kept_is_no_restore() {
        let kept = kept(&Image::new());
        let record = |tenure| Superblock { tenure, ..Superblock::new("db", "lyon", [4096].into()) };
        assert_eq!(kept.head, record(3).head.0);
        assert!(!kept.is_restored_by(&record(3)) && kept.is_restored_by(&record(4)));
    }
}
