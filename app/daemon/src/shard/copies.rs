// SPDX-License-Identifier: Apache-2.0
//! Which volumes of this node are copied or merged in the background now, of those that have such work.
//!
//! A limit counts volumes over all groups. A volume that has begun goes on until it has no more such work, the limit falls,
//! or its priority becomes 0. When one is free, the volume with the highest priority is next, and of equal ones the one that has
//! waited longest. One table serves the node, since it has one shard.

use super::Shard;
use helio_api::CopyWait;
use helio_driver::Driver;
use helio_engine::{Event, LayerSetting};
use helio_units::{Moment, VolumeIndex};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A volume, by its group and its place in it.
type Place = (usize, u16);

/// A volume that has work.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Which is next; zero: never.
    priority: u16,
    /// When it had work first, counted.
    since: u64,
    /// It goes on.
    permitted: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Copies {
    most: usize,
    work: BTreeMap<Place, Work>,
    counted: u64,
}

impl Copies {
    /// At most so many volumes at once.
    pub(super) const fn new(most: u32) -> Self {
        Self { most: most as usize, work: BTreeMap::new(), counted: 0 }
    }

    /// These volumes of a group have work, a bit for each, and these priorities. Returns the groups for which that changes what
    /// is permitted.
    fn look(
        &mut self,
        group: usize,
        volumes: u64,
        priority: impl Fn(VolumeIndex) -> u16,
    ) -> BTreeSet<usize> {
        let all = (group, 0)..=(group, u16::MAX);
        let had: Vec<(u16, u16)> =
            self.work.range(all).map(|((_, volume), work)| (*volume, work.priority)).collect();
        let has = (0..u64::BITS as u16).filter(|volume| volumes & (1 << volume) != 0);
        let has: Vec<(u16, u16)> =
            has.map(|volume| (volume, priority(VolumeIndex(volume)))).collect();
        if had == has {
            return BTreeSet::new();
        }
        let before = self.permitted_all();
        for (volume, _) in had.iter().filter(|(volume, _)| volumes & (1 << volume) == 0) {
            self.work.remove(&(group, *volume));
        }
        for (volume, priority) in has {
            self.counted += 1;
            let new = Work { priority, since: self.counted, permitted: false };
            self.work.entry((group, volume)).or_insert(new).priority = priority;
        }
        self.decide(&before)
    }

    /// At most so many volumes at once from now on. Returns the groups for which that changes what is permitted.
    fn set_most(&mut self, most: u32) -> BTreeSet<usize> {
        self.most = most as usize;
        let before = self.permitted_all();
        self.decide(&before)
    }

    /// Decides which volumes go on. Returns the groups of those for which that differs from before.
    fn decide(&mut self, before: &BTreeSet<Place>) -> BTreeSet<usize> {
        let mut order: Vec<(Place, Work)> =
            self.work.iter().map(|(place, work)| (*place, *work)).collect();
        order.retain(|(_, work)| work.priority > 0);
        order.sort_by_key(|(_, work)| (!work.permitted, Reverse(work.priority), work.since));
        order.truncate(self.most);
        let now: BTreeSet<Place> = order.into_iter().map(|(place, _)| place).collect();
        self.work.iter_mut().for_each(|(place, work)| work.permitted = now.contains(place));
        before.symmetric_difference(&now).map(|(group, _)| *group).collect()
    }

    fn permitted_all(&self) -> BTreeSet<Place> {
        let permitted = self.work.iter().filter(|(_, work)| work.permitted);
        permitted.map(|(place, _)| *place).collect()
    }

    /// The volumes of a group that go on, a bit for each.
    fn permitted(&self, group: usize) -> u64 {
        let all = self.work.range((group, 0)..=(group, u16::MAX));
        let permitted = all.filter(|(_, work)| work.permitted);
        permitted.fold(0, |bits, ((_, volume), _)| bits | 1 << volume)
    }

    /// What the work of that volume waits for, if it has some and waits.
    pub(super) fn wait(&self, group: usize, volume: VolumeIndex) -> Option<CopyWait> {
        let work = self.work.get(&(group, volume.0)).filter(|work| !work.permitted)?;
        Some(match work.priority {
            0 => CopyWait::Priority,
            _ if self.most == 0 => CopyWait::Limit,
            _ => CopyWait::Others,
        })
    }
}

impl<D: Driver> Shard<D> {
    /// Notices whether a group has more or less to copy and merge.
    pub(super) fn look_at_copies(&mut self, index: usize, now: Moment) {
        let Self { groups, copies, .. } = self;
        let group = &mut groups[index];
        let has_work = group.is_served() && !group.stopped;
        let volumes = has_work.then(|| group.guarded(|it| it.engine.view().background(now)));
        let volumes = volumes.flatten().unwrap_or(0);
        let changed = copies.look(index, volumes, |volume| group.copy_priority(volume));
        self.permit(&changed, now);
    }

    /// At most so many volumes are copied or merged at once from now on.
    pub(super) fn set_most_copies(&mut self, most: u32, now: Moment) {
        let changed = self.copies.set_most(most);
        self.permit(&changed, now);
    }

    fn permit(&mut self, groups: &BTreeSet<usize>, now: Moment) {
        for index in groups {
            let volumes = self.copies.permitted(*index);
            self.rota.stir(*index);
            let permit = Event::Layers(LayerSetting::Background(volumes));
            self.groups[*index].guarded(|group| group.tell(now, permit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn look(copies: &mut Copies, group: usize, volumes: u64, priority: u16) -> Vec<usize> {
        copies.look(group, volumes, |_| priority).into_iter().collect()
    }

    #[test]
    fn the_volume_with_the_highest_priority_is_next_and_of_equal_ones_the_first() {
        let mut copies = Copies::new(1);
        assert_eq!(look(&mut copies, 0, 0b1, 10), [0]);
        for (group, priority) in [(1, 5000), (2, 7000), (3, 7000)] {
            assert_eq!(look(&mut copies, group, 0b10, priority), NONE);
        }
        let waits = |copies: &Copies, group| copies.wait(group, VolumeIndex(1));
        assert_eq!((copies.permitted(0), waits(&copies, 2)), (1, Some(CopyWait::Others)));
        assert_eq!(look(&mut copies, 0, 0b1, 1), NONE, "what has begun goes on");
        assert_eq!(look(&mut copies, 0, 0, 1), [0, 2]);
        assert_eq!((copies.permitted(2), waits(&copies, 2)), (0b10, None));
        assert_eq!(look(&mut copies, 2, 0, 7000), [2, 3]);
        assert_eq!(look(&mut copies, 1, 0b10, 9000), NONE);
        assert_eq!(look(&mut copies, 3, 0, 7000), [1, 3]);
    }

    #[test]
    fn the_limit_counts_volumes_and_changes_while_they_are_copied() {
        let mut copies = Copies::new(2);
        assert_eq!(look(&mut copies, 0, 0b111, 5000), [0]);
        assert_eq!(copies.permitted(0), 0b11);
        assert_eq!(look(&mut copies, 1, 0b1, 6000), NONE);
        assert_eq!(copies.set_most(4).into_iter().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(copies.set_most(1).into_iter().collect::<Vec<_>>(), [0]);
        assert_eq!((copies.permitted(0), copies.permitted(1)), (0, 1), "the lower ones wait");
        copies.set_most(0);
        assert_eq!(copies.wait(1, VolumeIndex(0)), Some(CopyWait::Limit));
        assert_eq!(copies.set_most(9).len(), 2);
    }

    #[test]
    fn a_volume_of_priority_zero_waits_whatever_is_free() {
        let mut copies = Copies::new(4);
        assert_eq!(look(&mut copies, 0, 0b1, 0), NONE);
        assert_eq!(copies.wait(0, VolumeIndex(0)), Some(CopyWait::Priority));
        assert_eq!(look(&mut copies, 0, 0b1, 1), [0]);
        assert_eq!(look(&mut copies, 0, 0b1, 0), [0], "and what has begun stops");
        assert_eq!(copies.wait(0, VolumeIndex(1)), None, "it has no work");
    }
}
