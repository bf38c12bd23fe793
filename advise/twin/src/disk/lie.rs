// SPDX-License-Identifier: Apache-2.0
//! A disk that lies: an operation reports success, and something else was done. Without checksums no daemon can detect it.

use super::Image;
use crate::{Place, Stamp};
use helio_netmodel::Dice;
use helio_units::VolumeIndex;
use std::collections::BTreeMap;

/// What an operation does instead of what it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A write changes none of its blocks, or only some.
    Lost,
    /// A write changes other blocks of its volume.
    Misdirected,
    /// A read returns an older version of some of its blocks.
    Stale,
}

impl Lie {
    /// Every lie.
    pub const ALL: [Self; 3] = [Self::Lost, Self::Misdirected, Self::Stale];

    /// Its name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lost => "write-lost",
            Self::Misdirected => "write-misdirected",
            Self::Stale => "read-stale",
        }
    }
}

/// A lie that changed an outcome.
#[derive(Clone, Debug)]
pub(crate) struct Lied {
    pub(crate) lie: Lie,
    /// The blocks of which it is not true any more that they hold, or read as, what was written there.
    pub(crate) places: Vec<Place>,
}

/// The lies of one disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Lies {
    /// Those to come.
    armed: Vec<Lie>,
    /// What each block held before it was last written, since the first lie was armed.
    older: BTreeMap<Place, Stamp>,
    remembers: bool,
    lied: Option<Lied>,
}

impl Lies {
    pub(super) fn arm(&mut self, lie: Lie) {
        self.armed.push(lie);
        self.remembers = true;
    }

    pub(super) const fn is_armed(&self) -> bool {
        !self.armed.is_empty()
    }

    pub(super) fn disarm(&mut self) {
        *self = Self { lied: self.lied.take(), ..Self::default() };
    }

    pub(super) fn take(&mut self) -> Option<Lied> {
        self.lied.take()
    }

    /// Keeps what a block holds before it is written.
    pub(super) fn remember(&mut self, place: Place, held: Stamp) {
        if self.remembers {
            self.older.insert(place, held);
        }
    }

    /// What a write that reports success changes.
    pub(super) fn write(
        &mut self,
        volume: VolumeIndex,
        asked: Vec<(Place, Stamp)>,
        image: &Image,
        dice: &mut Dice,
    ) -> Vec<(Place, Stamp)> {
        let Some(at) = self.armed.iter().position(|lie| *lie != Lie::Stale) else { return asked };
        let held = |place: &Place| image.live[place.block as usize];
        let lie = self.armed[at];
        let done: Vec<(Place, Stamp)> = if lie == Lie::Lost {
            let whole = dice.chance(1, 2);
            let is_kept = |_: &&(Place, Stamp)| !whole && dice.chance(1, 2);
            asked.iter().filter(is_kept).copied().collect()
        } else {
            let room = image.live.len() - asked.len() + 1;
            let first = dice.below(room as u64) as u32;
            let moved =
                |(block, (_, stamp)): (u32, &(Place, Stamp))| (Place { volume, block }, *stamp);
            (first..).zip(&asked).map(moved).collect()
        };
        let holds = |(place, stamp): &&(Place, Stamp)| held(place) == *stamp;
        let lost = asked.iter().filter(|block| !done.contains(block));
        let strays = done.iter().filter(|block| !asked.contains(block) && !holds(block));
        if lost.clone().all(|block| holds(&block)) && strays.clone().count() == 0 {
            return asked;
        }
        let places = lost.chain(strays).map(|(place, _)| *place).collect();
        self.armed.swap_remove(at);
        self.lied = Some(Lied { lie, places });
        done
    }

    /// What a read returns of these blocks.
    pub(super) fn read(&mut self, blocks: &mut [(Place, Stamp)], dice: &mut Dice) {
        let Some(at) = self.armed.iter().position(|lie| *lie == Lie::Stale) else { return };
        let older = &self.older;
        let all = dice.chance(1, 2);
        let mut places = Vec::new();
        for (place, stamp) in blocks {
            let before = older.get(place).filter(|before| *before != stamp);
            if let Some(before) = before.filter(|_| all || dice.chance(1, 2)) {
                *stamp = *before;
                places.push(*place);
            }
        }
        if !places.is_empty() {
            self.armed.swap_remove(at);
            self.lied = Some(Lied { lie: Lie::Stale, places });
        }
    }
}
