// SPDX-License-Identifier: Apache-2.0
//! Settings of the members of a group's volumes. All of them change while the daemon runs.

use super::error::ConfigError;
use super::table::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The default of `copy-priority` is that of OpenVMS's `SET SHADOW/PRIORITY`.
const COPY_PRIORITY: u32 = 5000;
/// The default of `merge-delay-factor` is OpenVMS's `SHAD$MERGE_DELAY_FACTOR`.
const MERGE_DELAY_FACTOR: u32 = 200;

/// What reads of members cost, by node and path.
pub type ReadCosts = BTreeMap<(String, PathBuf), u16>;

/// Members whose disks are not compared with those of the peer, by node and path.
pub type OwnDisks = BTreeSet<(String, PathBuf)>;

/// The settings of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sets {
    /// How many hundredths of the least time a merge of a region may take before helio pauses.
    pub merge_delay_factor: u32,
    /// Settings of each volume, by its name.
    pub volumes: BTreeMap<String, SetConfig>,
}

/// The settings of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConfig {
    /// Which volume is copied or merged next, the highest first; zero: never.
    pub copy_priority: u16,
    /// What a read of a member costs; the cost of any other member is measured.
    pub read_costs: ReadCosts,
    /// Those that the peer does not compare with its own disks.
    pub own_disks: OwnDisks,
}

impl Sets {
    /// Of a group without volumes yet.
    pub(super) fn read(group: &Table<'_>) -> Result<Self, ConfigError> {
        let factor = group.within("merge-delay-factor", 100..=100_000)?;
        let merge_delay_factor = factor.unwrap_or(MERGE_DELAY_FACTOR);
        Ok(Self { merge_delay_factor, volumes: BTreeMap::new() })
    }

    /// A volume of it.
    pub(super) fn add(
        &mut self,
        name: &str,
        (group, volume): (&Table<'_>, &Table<'_>),
        (read_costs, own_disks): (ReadCosts, OwnDisks),
    ) -> Result<(), ConfigError> {
        let priority = |table: &Table<'_>| table.within("copy-priority", 0..=10_000);
        let priority = priority(volume)?.or(priority(group)?).unwrap_or(COPY_PRIORITY);
        let set = SetConfig { copy_priority: priority as u16, read_costs, own_disks };
        self.volumes.insert(name.to_owned(), set);
        Ok(())
    }

    /// Takes over other settings for the volumes that both have: one that the file no longer names is served with those it has, until
    /// the daemon starts again.
    pub(crate) fn take_over(&mut self, new: Self) {
        self.merge_delay_factor = new.merge_delay_factor;
        for (volume, set) in new.volumes {
            if let Some(running) = self.volumes.get_mut(&volume) {
                *running = set;
            }
        }
    }

    /// Sets what a read of a member costs, if the group has that volume; none: it is measured.
    pub(crate) fn set_read_cost(
        &mut self,
        volume: &str,
        member: (String, PathBuf),
        cost: Option<u16>,
    ) {
        let Some(set) = self.volumes.get_mut(volume) else { return };
        match cost {
            Some(cost) => set.read_costs.insert(member, cost),
            None => set.read_costs.remove(&member),
        };
    }

    /// What a read of that member costs, if that is set.
    #[must_use]
    pub fn read_cost(&self, volume: &str, node: &str, path: &Path) -> Option<u16> {
        let member = (node.to_owned(), path.to_owned());
        self.volumes.get(volume)?.read_costs.get(&member).copied()
    }

    /// Whether the peer does not compare the disk of that member with its own.
    #[must_use]
    pub fn is_own_disk(&self, volume: &str, node: &str, path: &Path) -> bool {
        let member = (node.to_owned(), path.to_owned());
        self.volumes.get(volume).is_some_and(|set| set.own_disks.contains(&member))
    }

    /// What changes on a node: a text for each setting, and its values before and after.
    pub(super) fn changes(&self, new: &Self, node: &str) -> Vec<[String; 3]> {
        let mut all = Vec::new();
        let mut note = |what: &str, from: String, to: String| {
            if from != to {
                all.push([what.to_owned(), from, to]);
            }
        };
        let factor = |of: &Self| of.merge_delay_factor.to_string();
        note("merge-delay-factor", factor(self), factor(new));
        for (volume, after) in &new.volumes {
            let Some(before) = self.volumes.get(volume) else { continue };
            let priority = |of: &SetConfig| of.copy_priority.to_string();
            note(&format!("volume {volume}: copy-priority"), priority(before), priority(after));
            let members = before.read_costs.keys().chain(after.read_costs.keys());
            let members: BTreeSet<_> = members.filter(|(on, _)| on == node).collect();
            for member in members {
                let cost = |of: &SetConfig| of.read_costs.get(member).map(u16::to_string);
                let [from, to] = [before, after].map(|it| cost(it).unwrap_or("auto".to_owned()));
                let path = member.1.display();
                note(&format!("volume {volume}: read-cost of {path}"), from, to);
            }
            for member in before.own_disks.symmetric_difference(&after.own_disks) {
                if member.0 == node {
                    let path = member.1.display();
                    let [from, to] = [before, after].map(|it| it.own_disks.contains(member));
                    let what = format!("volume {volume}: own-disk of {path}");
                    note(&what, from.to_string(), to.to_string());
                }
            }
        }
        all
    }
}

/// `read-cost` of a member.
pub(super) fn read_cost(table: &Table<'_>) -> Result<Option<u16>, ConfigError> {
    Ok(table.within("read-cost", 1..=u32::from(u16::MAX))?.map(|cost| cost as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(factor: u32, volumes: &[(&str, u16)]) -> Sets {
        let set = |copy_priority| SetConfig {
            copy_priority,
            read_costs: ReadCosts::new(),
            own_disks: OwnDisks::new(),
        };
        let volumes = volumes.iter().map(|(name, priority)| ((*name).to_owned(), set(*priority)));
        Sets { merge_delay_factor: factor, volumes: volumes.collect() }
    }

    #[test]
    fn a_volume_that_the_file_no_longer_names_keeps_its_settings() {
        let mut running = sets(200, &[("data", 5000), ("log", 7000)]);
        running.take_over(sets(300, &[("data", 1), ("new", 2)]));
        assert_eq!(running, sets(300, &[("data", 1), ("log", 7000)]));
    }

    #[test]
    fn each_read_cost_is_set_by_itself() {
        let mut running = sets(200, &[("data", 5000)]);
        let member = |path: &str| ("paris".to_owned(), PathBuf::from(path));
        running.set_read_cost("data", member("/a"), Some(3));
        running.set_read_cost("data", member("/b"), Some(4));
        running.set_read_cost("log", member("/c"), Some(5));
        let costs = |of: &Sets| ["/a", "/b"].map(|it| of.read_cost("data", "paris", it.as_ref()));
        assert_eq!(costs(&running), [Some(3), Some(4)]);
        running.set_read_cost("data", member("/a"), None);
        assert_eq!(costs(&running), [None, Some(4)]);
    }
}
