// SPDX-License-Identifier: Apache-2.0
//! The reference store: what each block may hold, by what its client was told.

use super::{Stamp, blocks};
use helio_units::Extent;
use std::collections::BTreeSet;

/// What a block may hold now, and after a power cut.
#[derive(Clone, Debug)]
struct Block {
    /// Now: one value, or several where a change failed.
    now: BTreeSet<Stamp>,
    /// What a change under way puts there.
    coming: Option<Stamp>,
    /// After a power cut: these too.
    older: BTreeSet<Stamp>,
    /// When it last changed, counted.
    changed: u64,
    /// What it held before a reader saw what a change under way puts there.
    unseen: BTreeSet<Stamp>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    volumes: Vec<Vec<Block>>,
    counted: u64,
}

impl Reference {
    pub(super) fn new(volumes: &[usize]) -> Self {
        let (older, unseen) = (BTreeSet::new(), BTreeSet::new());
        let block = Block { now: [0].into(), coming: None, older, changed: 0, unseen };
        let volumes = volumes.iter().map(|blocks| vec![block.clone(); *blocks]).collect();
        Self { volumes, counted: 0 }
    }

    /// Nothing was ever written to a volume, and its members hold these: which of them counts is settled by the first read.
    pub(super) fn never_written(&mut self, volume: usize, stamps: impl Iterator<Item = Stamp>) {
        let stamps: BTreeSet<Stamp> = stamps.collect();
        self.volumes[volume].iter_mut().for_each(|block| block.now.clone_from(&stamps));
    }

    /// The order of what happens.
    pub(super) const fn count(&mut self) -> u64 {
        self.counted += 1;
        self.counted
    }

    /// The latest number that [`Self::count`] gave.
    pub(super) const fn now(&self) -> u64 {
        self.counted
    }

    /// A change begins.
    pub(super) fn begins(&mut self, volume: usize, extent: Extent, stamp: Stamp) {
        for block in &mut self.volumes[volume][blocks(extent)] {
            block.coming = Some(stamp);
        }
    }

    /// It failed: the block holds what it held, or what was to come.
    pub(super) fn failed(&mut self, volume: usize, extent: Extent) {
        let changed = self.count();
        for block in &mut self.volumes[volume][blocks(extent)] {
            block.now.extend(block.coming.take());
            block.now.append(&mut block.unseen);
            block.changed = changed;
        }
    }

    /// It is done; with FUA it is durable.
    pub(super) fn done(&mut self, volume: usize, extent: Extent, stamp: Stamp, fua: bool) {
        let changed = self.count();
        for block in &mut self.volumes[volume][blocks(extent)] {
            let before = core::mem::replace(&mut block.now, [stamp].into());
            let unseen = core::mem::take(&mut block.unseen);
            if fua {
                block.older.clear();
            } else {
                block.older.extend(before.into_iter().chain(unseen));
            }
            (block.coming, block.changed) = (None, changed);
        }
    }

    /// It was refused: nothing was touched.
    pub(super) fn refused(&mut self, volume: usize, extent: Extent) {
        for block in &mut self.volumes[volume][blocks(extent)] {
            block.coming = None;
        }
    }

    /// A flush is done that began at `began`.
    pub(super) fn flushed(&mut self, volume: usize, began: u64) {
        for block in &mut self.volumes[volume] {
            if block.changed < began {
                block.older.clear();
            }
        }
    }

    /// What a block is made to hold by a restore, until it has ended well.
    pub(super) fn may_be(&mut self, image: &[Vec<Stamp>]) {
        for (volume, image) in self.volumes.iter_mut().zip(image) {
            for (block, stamp) in volume.iter_mut().zip(image) {
                block.now.insert(*stamp);
            }
        }
    }

    /// The process starts again, and finds this. With the power cut, that is durable.
    pub(super) fn restarts(&mut self, live: &[Vec<Stamp>], power: bool) {
        for (volume, live) in self.volumes.iter_mut().zip(live) {
            for (block, stamp) in volume.iter_mut().zip(live) {
                let before = core::mem::replace(&mut block.now, [*stamp].into());
                block.coming = None;
                if power {
                    block.older.clear();
                } else {
                    block.older.extend(before);
                }
            }
        }
    }

    /// The same, where several members were found: each block holds what one of them does.
    pub(super) fn restarts_from(&mut self, lives: &[Vec<&[Stamp]>], power: bool) {
        for (volume, lives) in self.volumes.iter_mut().zip(lives) {
            for (at, block) in volume.iter_mut().enumerate() {
                let found = lives.iter().map(|live| live[at]).collect();
                let before = core::mem::replace(&mut block.now, found);
                let unseen = core::mem::take(&mut block.unseen);
                block.coming = None;
                if power {
                    block.older.clear();
                } else {
                    block.older.extend(before.into_iter().chain(unseen));
                }
            }
        }
    }

    /// Every block holds that now, durably.
    pub(super) fn is(&mut self, image: &[Vec<Stamp>]) {
        for (volume, image) in self.volumes.iter_mut().zip(image) {
            for (block, stamp) in volume.iter_mut().zip(image) {
                (block.now, block.older) = ([*stamp].into(), BTreeSet::new());
            }
        }
    }

    /// The first block that holds what it may not. `crashed`: the power was cut.
    pub(super) fn wrong(&self, live: &[Vec<Stamp>], crashed: bool) -> Option<(usize, usize)> {
        let volumes = self.volumes.iter().zip(live).enumerate();
        volumes.into_iter().find_map(|(volume, (blocks, live))| {
            let mut pairs = blocks.iter().zip(live).enumerate();
            pairs.find_map(|(block, (may, holds))| {
                let known = may.now.contains(holds) || may.coming == Some(*holds);
                let right = known || crashed && may.older.contains(holds);
                (!right).then_some((volume, block))
            })
        })
    }

    /// Whether a block may hold that. `crashed`: the power was cut.
    pub(super) fn allows(&self, volume: usize, block: usize, stamp: Stamp, crashed: bool) -> bool {
        let block = &self.volumes[volume][block];
        let unseen = || block.unseen.contains(&stamp);
        let known = block.now.contains(&stamp) || block.coming == Some(stamp) || unseen();
        known || crashed && block.older.contains(&stamp)
    }

    /// What a read that begins now may see, block by block.
    pub(super) fn sees(&self, volume: usize, extent: Extent) -> Vec<BTreeSet<Stamp>> {
        let blocks = self.volumes[volume][blocks(extent)].iter();
        blocks.map(|block| block.now.iter().copied().chain(block.coming).collect()).collect()
    }

    /// A read that began at `began` saw that, where it might see these. From then on no other version may be seen, unless `began` is
    /// zero. Returns whether it might.
    pub(super) fn saw(
        &mut self,
        (volume, extent, began): (usize, Extent, u64),
        read: &[Stamp],
        may: &[BTreeSet<Stamp>],
    ) -> bool {
        let right = read.len() == may.len() && read.iter().zip(may).all(|(s, may)| may.contains(s));
        let changed = self.count();
        for (block, stamp) in self.volumes[volume][blocks(extent)].iter_mut().zip(read) {
            let settled = block.coming.is_none() && block.changed < began;
            if !right || began == 0 || !settled && block.coming != Some(*stamp) {
                continue;
            }
            let mut others = core::mem::replace(&mut block.now, [*stamp].into());
            others.remove(stamp);
            // What was seen may be as young as this: a flush that began before proves nothing of it.
            if !others.is_empty() {
                block.changed = changed;
            }
            block.older.extend(others.iter().copied());
            if block.coming.is_some() {
                block.unseen.append(&mut others);
            }
        }
        right
    }

    /// Whether that may have been read there.
    pub(super) fn may_read(&self, volume: usize, extent: Extent, read: &[Stamp]) -> bool {
        let blocks = &self.volumes[volume][blocks(extent)];
        blocks.len() == read.len() && blocks.iter().zip(read).all(|(b, s)| b.now.contains(s))
    }
}
