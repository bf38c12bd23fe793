// SPDX-License-Identifier: Apache-2.0
//! The operator verifies now and then, whatever else goes on.

use crate::driver::Driver;
use crate::faults::Fault;
use crate::oracle::Oracle;
use crate::scenario::pick;
use core::time::Duration;
use helio_engine::{Command, VerifyWish};
use helio_twin::{Cluster, Side};
use helio_units::{Bytes, Rate};

impl Driver {
    pub(crate) fn verify_now_and_then(&mut self, cluster: &mut Cluster, oracle: &mut Oracle) {
        let Some(side) = Side::BOTH.into_iter().find(|side| cluster.node(*side).serves()) else {
            return;
        };
        if self.healing || !self.dice.chance(3, 4) {
            return;
        }
        let [slow, steady] = [1, 4].map(|rate| Some(Rate(Bytes::mib(rate).0)));
        let wish = VerifyWish {
            volume: None,
            repair: self.dice.chance(1, 2),
            rate: pick(&mut self.dice, &[None, slow, steady]),
            restart: self.dice.chance(1, 2),
        };
        self.tally.verifies += 1;
        let stop = self.dice.chance(1, 5);
        let command = if stop { Command::StopVerify } else { Command::Verify(wish) };
        self.command(cluster, oracle, side, command);
        // A peer that dies with comparisons on their way to it must not be asked them again.
        if !stop && self.dice.chance(1, 3) {
            let fault = Fault::Kill { side: side.other(), power: self.dice.chance(1, 3) };
            self.shortly(fault, Duration::from_millis(200), cluster);
        }
    }
}
