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
use crate::Place;
use helio_netmodel::Dice;
use helio_units::VolumeIndex;
use std::collections::BTreeSet;

/// What a failed flush dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Blocks that read as written, and are lost with the power.
    pub(crate) hidden: usize,
    /// Blocks that read as they were before.
    pub(crate) visible: usize,
}

impl Image {
    /// Drops all or part of what is not durable.
    pub(super) fn drop_undurable(
        &mut self,
        volume: VolumeIndex,
        hidden: bool,
        dice: &mut Dice,
        changes: &mut Vec<Change>,
    ) -> Dropped {
        let blocks: BTreeSet<u32> = self.unflushed.iter().flatten().map(|(b, _)| *b).collect();
        let all = dice.chance(1, 2);
        let mut dropped = Dropped::default();
        for block in blocks.into_iter().filter(|_| all || dice.chance(1, 2)) {
            let of_it = |entry: &&mut Option<_>| entry.is_some_and(|(b, _): (u32, _)| b == block);
            self.unflushed.iter_mut().filter(of_it).for_each(|entry| *entry = None);
            if self.live[block as usize] == self.durable[block as usize] {
                continue;
            }
            if hidden {
                self.hidden.insert(block);
                dropped.hidden += 1;
            } else {
                self.show(volume, block, changes);
                dropped.visible += 1;
            }
        }
        dropped
    }

    /// Hidden blocks read as they are on the disk from now on.
    pub(super) fn reveal(&mut self, volume: VolumeIndex, changes: &mut Vec<Change>) -> usize {
        let hidden = core::mem::take(&mut self.hidden);
        let count = hidden.len();
        hidden.into_iter().for_each(|block| self.show(volume, block, changes));
        count
    }

    /// Hidden blocks are durable after all.
    pub(super) fn write_hidden(&mut self) {
        for block in core::mem::take(&mut self.hidden) {
            self.durable[block as usize] = self.live[block as usize];
        }
    }

    fn show(&mut self, volume: VolumeIndex, block: u32, changes: &mut Vec<Change>) {
        let stamp = self.durable[block as usize];
        self.hidden.remove(&block);
        if core::mem::replace(&mut self.live[block as usize], stamp) != stamp {
            changes.push(Change { place: Place { volume, block }, stamp, tag: false });
        }
    }
}
