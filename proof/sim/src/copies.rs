// SPDX-License-Identifier: Apache-2.0
//! The operator's point-in-time copies: in some stories, created and deleted now and then.

use crate::driver::Driver;
use crate::oracle::Oracle;
use helio_engine::Command;
use helio_twin::{Cluster, Side};
use helio_units::CopyName;

impl Driver {
    /// Creates a copy, or deletes one.
    pub(crate) fn copy_now_and_then(&mut self, cluster: &mut Cluster, oracle: &mut Oracle) {
        if !self.copies || self.healing || !self.dice.chance(2, 3) {
            return;
        }
        let serving = Side::BOTH.into_iter().find(|side| cluster.node(*side).serves());
        let any = Side::BOTH[self.dice.below(2) as usize];
        let side = serving.filter(|_| self.dice.chance(7, 8)).unwrap_or(any);
        let Some(engine) = &cluster.node(side).engine else { return };
        let held = engine.view().copies().held;
        let one = held.get(self.dice.below(held.len().max(1) as u64) as usize);
        let command = match one {
            Some((name, _)) if self.dice.chance(2, 5) || held.len() > 6 => {
                Command::DeleteCopy(*name)
            }
            _ => {
                let name = CopyName::new(&format!("c{}", self.commands)).expect("a name");
                Command::CreateCopy(name)
            }
        };
        self.command(cluster, oracle, side, command);
    }
}
