// SPDX-License-Identifier: Apache-2.0
//! The operator's point-in-time copies: in some stories, created and deleted now and then; in some of these, the volumes are restored
//! from one.

use crate::driver::Driver;
use crate::oracle::Oracle;
use helio_engine::Command;
use helio_format::snapshot::SnapshotAct;
use helio_twin::{Cluster, Side};
use helio_units::CopyName;

impl Driver {
    /// The command that restores the volumes from the oldest copy of a node, in stories in which that is done.
    pub(crate) fn restore_command(&self, cluster: &Cluster, side: Side) -> Option<Command> {
        let engine = cluster.node(side).engine.as_ref().filter(|_| self.copies && self.restores)?;
        let held = engine.view().copies().held;
        held.iter().find_map(|held| held.copy.name()).map(Command::RestoreSnapshot)
    }

    /// Creates a copy, or deletes one.
    pub(crate) fn copy_now_and_then(&mut self, cluster: &mut Cluster, oracle: &mut Oracle) {
        if !self.copies || self.healing || !self.dice.chance(2, 3) {
            return;
        }
        let serving = Side::BOTH.into_iter().find(|side| cluster.node(*side).serves());
        let any = Side::BOTH[self.dice.below(2) as usize];
        let side = serving.filter(|_| self.dice.chance(3, 4)).unwrap_or(any);
        let Some(engine) = &cluster.node(side).engine else { return };
        let held = engine.view().copies().held;
        let held: Vec<CopyName> = held.iter().filter_map(|held| held.copy.name()).collect();
        let one = held.get(self.dice.below(held.len().max(1) as u64) as usize);
        // Now and then what the node of that role refuses.
        let alone = (serving == Some(side)) == self.dice.chance(1, 16);
        let (act, here) = match one {
            Some(name) if self.dice.chance(2, 5) || held.len() > 6 => {
                (SnapshotAct::Delete(*name), self.dice.chance(1, 8))
            }
            Some(name) if self.dice.chance(1, 4) => (SnapshotAct::Refresh(*name), alone),
            _ => {
                let name = CopyName::new(&format!("c{}", self.commands)).expect("a name");
                (SnapshotAct::Create(name), alone)
            }
        };
        let mut command = if here { Command::SnapshotHere(act) } else { Command::Snapshot(act) };
        // While requests are under way it is refused.
        let idle = oracle.waiting() == 0 || self.dice.chance(1, 8);
        if let Some(name) = one.filter(|_| self.restores && idle) {
            command = Command::RestoreSnapshot(*name);
            oracle.is_rewritten();
        }
        self.command(cluster, oracle, side, command);
    }
}
