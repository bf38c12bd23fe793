// SPDX-License-Identifier: Apache-2.0
//! Settings of the members of a group's volumes. All of them change while the daemon runs.

use super::error::ConfigError;
use super::table::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The settings of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Those of each volume, by its name.
    pub volumes: BTreeMap<String, SetConfig>,
}

/// The settings of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetConfig {
    /// What a read of a member costs, by node and path; the cost of any other member is measured.
    pub read_costs: BTreeMap<(String, PathBuf), u16>,
}

impl Sets {
    /// What a read of that member costs, if that is set.
    #[must_use]
    pub fn read_cost(&self, volume: &str, node: &str, path: &Path) -> Option<u16> {
        let member = (node.to_owned(), path.to_owned());
        self.volumes.get(volume)?.read_costs.get(&member).copied()
    }

    /// What changes on a node: a text for each setting, and its values before and after.
    pub(super) fn changes(&self, new: &Self, node: &str) -> Vec<(String, String, String)> {
        let mut all = Vec::new();
        for (volume, after) in &new.volumes {
            let Some(before) = self.volumes.get(volume) else { continue };
            let members = before.read_costs.keys().chain(after.read_costs.keys());
            let members: BTreeSet<_> = members.filter(|(on, _)| on == node).collect();
            for member in members {
                let cost = |of: &SetConfig| of.read_costs.get(member).copied();
                let text = |cost: Option<u16>| cost.map_or("auto".to_owned(), |it| it.to_string());
                if cost(before) != cost(after) {
                    let what = format!("volume {volume}: read-cost of {}", member.1.display());
                    all.push((what, text(cost(before)), text(cost(after))));
                }
            }
        }
        all
    }
}

/// `read-cost` of a member.
pub(super) fn read_cost(table: &Table<'_>) -> Result<Option<u16>, ConfigError> {
    let Some(given) = table.count("read-cost")? else { return Ok(None) };
    match u16::try_from(given.value) {
        Ok(cost) => Ok(Some(cost)),
        Err(_) => {
            let message = format!("`read-cost` {} is out of bounds", given.value);
            Err(table.refuse(given.at, message, "use 1 to 65535"))
        }
    }
}
