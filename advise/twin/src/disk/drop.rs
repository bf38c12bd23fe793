// SPDX-License-Identifier: Apache-2.0
//! What a disk drops when a flush of it fails.
//!
//! | kind | live image | durable image | a later flush |
//! |---|---|---|---|
//! | kept | as written | the old content | makes it durable |
//! | hidden | as written: the cache keeps the page and calls it clean | the old content | succeeds, and changes nothing |
//! | visible | the old content, at once | the old content | changes nothing |
//!
//! A hidden block becomes visible with the power, at some ends of the process, and never by a flush; writing it again is
//! what makes it like any other.

use super::{Change, Image};
use crate::{Place, Stamp};
use helio_netmodel::Dice;
use helio_units::VolumeIndex;
use std::collections::BTreeSet;

/// What a failed flush dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropped {
    /// Of which volumes: a bit each.
    pub(crate) volumes: u64,
    /// Blocks that read as written, and are lost with the power.
    pub(crate) hidden: usize,
    /// Blocks that read as they were before, and as what.
    pub(crate) visible: Vec<(Place, Stamp)>,
}

impl Dropped {
    pub(super) const fn is_empty(&self) -> bool {
        self.volumes == 0
    }
}

impl Image {
    /// Drops all or part of what is not durable; `hidden` decides which way a block goes.
    pub(super) fn drop_undurable(
        &mut self,
        volume: VolumeIndex,
        hidden: impl Fn(&mut Dice) -> bool,
        dice: &mut Dice,
        dropped: &mut Dropped,
        changes: &mut Vec<Change>,
    ) {
        let blocks: BTreeSet<u32> = self.unflushed.iter().flatten().map(|(b, _)| *b).collect();
        let all = dice.chance(1, 2);
        for block in blocks {
            if !all && dice.chance(1, 2) {
                continue;
            }
            let of_it = |entry: &&mut Option<_>| entry.is_some_and(|(b, _): (u32, _)| b == block);
            self.unflushed.iter_mut().filter(of_it).for_each(|entry| *entry = None);
            if self.live[block as usize] == self.durable[block as usize] {
                continue;
            }
            if hidden(dice) {
                self.hidden.insert(block);
                dropped.hidden += 1;
                dropped.volumes |= 1 << volume.0;
            } else {
                self.show(volume, block, dropped, changes);
            }
        }
    }

    /// Hidden blocks read as they are on the disk from now on.
    pub(super) fn reveal(
        &mut self,
        volume: VolumeIndex,
        dropped: &mut Dropped,
        changes: &mut Vec<Change>,
    ) {
        for block in core::mem::take(&mut self.hidden) {
            self.show(volume, block, dropped, changes);
        }
    }

    fn show(
        &mut self,
        volume: VolumeIndex,
        block: u32,
        dropped: &mut Dropped,
        changes: &mut Vec<Change>,
    ) {
        let stamp = self.durable[block as usize];
        let place = Place { volume, block };
        dropped.visible.push((place, stamp));
        dropped.volumes |= 1 << volume.0;
        if core::mem::replace(&mut self.live[block as usize], stamp) != stamp {
            changes.push(Change { place, stamp, tag: false });
        }
    }
}
