// SPDX-License-Identifier: Apache-2.0
//! Settings of members. What reads of them cost: as the operator set it, or in units of the latency of the fastest member of the
//! volume.

use super::Group;
use crate::config::Sets;
use crate::latency::Unmeasured;
use crate::shard::plan::VolumePlan;
use helio_api::ReadCostSource;
use helio_disk::Io;
use helio_engine::{Event, LayerSetting, Leg};
use helio_units::{MemberIndex, Moment, VolumeIndex};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Below this, a latency is that of a system call and not of a disk.
const LEAST: Duration = Duration::from_micros(20);

/// What a read of a member costs, and where that comes from.
pub(crate) type ReadCost = (u16, ReadCostSource);

/// See the module.
#[derive(Debug)]
pub(crate) struct Costs {
    sets: Sets,
    /// The latency of members by volume and path, once it was measured; none of those that could not be read.
    latencies: BTreeMap<(VolumeIndex, PathBuf), Option<Duration>>,
}

impl Costs {
    pub(super) const fn new(sets: Sets) -> Self {
        Self { sets, latencies: BTreeMap::new() }
    }

    /// The settings that run.
    pub(super) const fn sets(&self) -> &Sets {
        &self.sets
    }

    fn latency(&self, at: VolumeIndex, path: &Path) -> Option<Option<Duration>> {
        self.latencies.get(&(at, path.to_owned())).copied()
    }

    /// The cost of each open member of a volume.
    fn of(&self, (at, volume): (VolumeIndex, &VolumePlan), node: &str) -> Vec<(usize, ReadCost)> {
        let open = volume.members.iter().enumerate().filter_map(|(number, member)| {
            let member = member.as_ref().filter(|member| member.store().is_some())?;
            let path = Path::new(&member.path);
            let set = self.sets.read_cost(&volume.name, node, path);
            Some((number, set, self.latency(at, path)))
        });
        let open: Vec<_> = open.collect();
        let fastest = open.iter().filter_map(|(_, _, latency)| latency.flatten()).min();
        let cost = |set: Option<u16>, latency: Option<Option<Duration>>| match (set, latency) {
            (Some(cost), _) => (cost, ReadCostSource::Set),
            (None, None) => (1, ReadCostSource::Unmeasured),
            (None, Some(latency)) => (relative(latency, fastest), ReadCostSource::Measured),
        };
        open.iter().map(|(number, set, latency)| (*number, cost(*set, *latency))).collect()
    }
}

/// A latency in units of the least one: at least 1, and the most where nothing could be read.
fn relative(latency: Option<Duration>, fastest: Option<Duration>) -> u16 {
    let Some((latency, fastest)) = latency.zip(fastest) else { return u16::MAX };
    let ratio = latency.max(LEAST).as_nanos() * 2 / fastest.max(LEAST).as_nanos().max(1);
    u16::try_from(ratio.div_ceil(2)).unwrap_or(u16::MAX)
}

impl Group {
    /// What a read of that member costs, if it is open.
    pub(crate) fn read_cost(&self, at: VolumeIndex, number: usize) -> Option<ReadCost> {
        let volume = &self.volumes[usize::from(at.0)];
        let costs = self.costs.of((at, volume), &self.config.node);
        costs.into_iter().find(|(n, _)| *n == number).map(|(_, cost)| cost)
    }

    /// Other settings of members count from now on.
    pub(super) fn set_sets(&mut self, now: Moment, change: impl FnOnce(&mut Sets)) {
        change(&mut self.costs.sets);
        self.set_merge_delay(now);
        self.set_costs(now);
        self.tell_disks(now);
    }

    /// Which of the volumes with something to copy or merge is next, the highest first; zero: never.
    pub(crate) fn copy_priority(&self, at: VolumeIndex) -> u16 {
        let set = self.costs.sets.volumes.get(&self.volumes[usize::from(at.0)].name);
        set.map_or(0, |set| set.copy_priority)
    }

    /// Gives the layers what they are set to at first. In the background they do nothing until the shard permits it.
    pub(super) fn begin_layers(&mut self, now: Moment) {
        self.tell(now, Event::Layers(LayerSetting::Background(0)));
        self.set_merge_delay(now);
        self.set_costs(now);
        self.measure_members();
    }

    fn set_merge_delay(&mut self, now: Moment) {
        let factor = self.costs.sets.merge_delay_factor;
        self.tell(now, Event::Layers(LayerSetting::MergeDelay(factor)));
    }

    /// Gives the costs to the layer that keeps members alike.
    pub(super) fn set_costs(&mut self, now: Moment) {
        let mut settings = Vec::new();
        for (at, volume) in (0..).map(VolumeIndex).zip(&self.volumes) {
            for (number, (cost, _)) in self.costs.of((at, volume), &self.config.node) {
                let leg = Leg { volume: at, member: MemberIndex(number as u8) };
                settings.push(LayerSetting::ReadCost { leg, cost: u32::from(cost) });
            }
        }
        settings.into_iter().for_each(|setting| self.tell(now, Event::Layers(setting)));
    }

    /// A disk was opened as that member: nothing is known of its latency.
    pub(crate) fn opened(&mut self, at: VolumeIndex, number: usize, now: Moment) {
        let volume = &self.volumes[usize::from(at.0)];
        if let Some(member) = &volume.members[number] {
            self.costs.latencies.remove(&(at, PathBuf::from(&member.path)));
        }
        self.set_costs(now);
        self.tell_disks(now);
        self.measure_members();
    }

    /// A copy to a member has ended. What was measured beside it, or before anything was written to the member, tells little of the
    /// latency of later reads: all members of the volume are measured again.
    pub(super) fn measure_anew(&mut self, at: VolumeIndex) {
        self.costs.latencies.retain(|(volume, _), _| *volume != at);
        self.measure_members();
    }

    /// Has the latency of members measured where a volume has several.
    pub(super) fn measure_members(&self) {
        let mut unmeasured = Vec::new();
        for (at, volume) in (0..).map(VolumeIndex).zip(&self.volumes) {
            let io = if volume.buffered { Io::Buffered } else { Io::Direct };
            let open = volume.members.iter().flatten().filter(|member| member.store().is_some());
            let open: Vec<_> = open.map(|member| PathBuf::from(&member.path)).collect();
            if open.len() > 1 {
                let new = open.into_iter().filter(|path| self.costs.latency(at, path).is_none());
                unmeasured.extend(new.map(|path| {
                    let (volume, size) = (volume.name.clone(), volume.size);
                    Unmeasured { volume, path, size, io }
                }));
            }
        }
        if !unmeasured.is_empty() {
            self.outbox.unmeasured.send_replace(unmeasured);
        }
    }

    /// The latency of a member was measured, or could not be.
    pub(crate) fn measured(
        &mut self,
        member: (VolumeIndex, PathBuf),
        latency: Option<Duration>,
        now: Moment,
    ) {
        self.costs.latencies.insert(member, latency);
        self.set_costs(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_counts_in_units_of_the_fastest_member() {
        let ms = |ms: u64| Some(Duration::from_micros(ms * 1000));
        assert_eq!([1, 2, 5, 90].map(|it| relative(ms(it), ms(2))), [1, 1, 3, 45]);
        assert_eq!(relative(Some(Duration::from_micros(19)), Some(Duration::from_micros(2))), 1);
        assert_eq!([None, ms(10_000_000)].map(|it| relative(it, ms(1))), [u16::MAX; 2]);
        assert_eq!(relative(None, None), u16::MAX);
    }
}
