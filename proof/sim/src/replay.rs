// SPDX-License-Identifier: Apache-2.0
//! A flight recorder's file from the field, told again: the same requests, link cuts and commands at the same moments,
//! under the oracle.
//!
//! What a recorder does not keep is drawn from the seed: link, disks, queue, and the mode where no command set it. A
//! connection comes back a little later than it did, since the nodes dial again by their own clock.

use crate::driver::{Act, Driver};
use crate::faults::Fault;
use core::time::Duration;
use helio_engine::{Operation, StoreFault};
use helio_replay::{Script, Step};
use helio_twin::{Breakage, Cluster, Side, StoreVerb};
use helio_units::{Moment, RequestId};

/// The two have met by then and one serves.
pub(crate) const BEGINS: Duration = Duration::from_secs(6);
/// Requests of a script have names of their own, far from the client's.
const SCRIPTED: u64 = 1 << 40;

impl Driver {
    /// Everything a script wants done, at its time.
    pub(crate) fn follow(&mut self, script: &Script) {
        for (n, (at, node, step)) in (0u64..).zip(script.steps()) {
            let (id, side) = (RequestId(SCRIPTED + n), Side::BOTH[*node]);
            self.at(Moment::ZERO + BEGINS + *at, Act::Scripted { side, id, step: *step });
            self.scripted += 1;
        }
    }

    pub(crate) fn scripted(
        &mut self,
        (side, id, step): (Side, RequestId, Step),
        cluster: &mut Cluster,
        oracle: &mut crate::oracle::Oracle,
    ) {
        self.scripted -= 1;
        match step {
            Step::Request { volume, operation } => {
                if cluster.node(side).is_up() {
                    let changes = !matches!(operation, Operation::Read(_) | Operation::Flush);
                    self.tally.scripted_writes += u64::from(changes);
                    oracle.ask(cluster, side, id, volume, operation);
                    cluster.submit(side, id, volume, operation, helio_twin::Stamp(id.0));
                }
            }
            Step::Command(command) => {
                self.command(cluster, oracle, side, command);
            }
            Step::LinkLost => {
                self.strike(Fault::Cut(Breakage::Reset), cluster, oracle);
                cluster.break_link(Breakage::Silent);
            }
            Step::LinkBack => cluster.mend_link(None),
            Step::StoreFails => {
                cluster.node_mut(side).disk.fail_next(StoreVerb::Write, StoreFault::Io);
            }
        }
    }
}
