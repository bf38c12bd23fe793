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
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    volumes: Vec<Vec<Block>>,
    counted: u64,
}

impl Reference {
    pub(super) fn new(volumes: &[usize]) -> Self {
        let block = Block { now: [0].into(), coming: None, older: BTreeSet::new(), changed: 0 };
        let volumes = volumes.iter().map(|blocks| vec![block.clone(); *blocks]).collect();
        Self { volumes, counted: 0 }
    }

    /// The order of what happens.
    pub(super) const fn count(&mut self) -> u64 {
        self.counted += 1;
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
        for block in &mut self.volumes[volume][blocks(extent)] {
            block.now.extend(block.coming.take());
        }
    }

    /// It is done; with FUA it is durable.
    pub(super) fn done(&mut self, volume: usize, extent: Extent, stamp: Stamp, fua: bool) {
        let changed = self.count();
        for block in &mut self.volumes[volume][blocks(extent)] {
            let before = core::mem::replace(&mut block.now, [stamp].into());
            if fua {
                block.older.clear();
            } else {
                block.older.extend(before);
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

    /// Whether that may have been read there.
    pub(super) fn may_read(&self, volume: usize, extent: Extent, read: &[Stamp]) -> bool {
        let blocks = &self.volumes[volume][blocks(extent)];
        blocks.len() == read.len() && blocks.iter().zip(read).all(|(b, s)| b.now.contains(s))
    }
}
