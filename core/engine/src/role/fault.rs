// SPDX-License-Identifier: Apache-2.0
//! What an operator does about a store that failed, by this node's role.

use crate::config::Config;
use crate::follow::follower::Follower;
use crate::refusal::Refusal;
use crate::role::{Following, Standing};
use alloc::format;
use alloc::string::String;
use helio_stack::StoreFault;
use helio_units::VolumeIndex;

impl Standing {
    /// Refuses what needs that volume.
    pub(crate) fn volume_refusal(
        &self,
        volume: VolumeIndex,
        fault: StoreFault,
        config: &Config,
    ) -> Refusal {
        let (group, node) = (&config.group, &config.node);
        let text = format!("{group} on {node}: {}", config.failure_of(volume, fault));
        let is_of_metadata = fault == StoreFault::Unrecorded;
        let code = if is_of_metadata { "metadata-failed" } else { "volume-failed" };
        Refusal::new(code, text, self.store_hint(volume, fault, config))
    }

    /// What helps against that fault.
    pub(crate) fn store_hint(
        &self,
        volume: VolumeIndex,
        fault: StoreFault,
        config: &Config,
    ) -> String {
        let (group, node, peer) = (&config.group, &config.node, &config.peer);
        let (at, volume) = (volume, config.name_of(volume));
        let repair = match fault {
            StoreFault::Unrecorded => return config.repair_metadata(),
            StoreFault::Unissued => {
                return format!(
                    "repair what else `helio status {group}` on {node} shows, then restart its daemon"
                );
            }
            StoreFault::NoSpace => "free space",
            _ => "repair the disk",
        };
        if self.primary().is_some_and(|primary| primary.is_full(at)) {
            // Clients may write no more, so that none succeeds.
            let ends = match config.peer_name() {
                Some(_) => format!("`helio resync {group}` on {node}"),
                None => String::from("a restart of its daemon"),
            };
            format!("free space on {node}; the fault ends with the next write, or with {ends}")
        } else if config.peer_name().is_none() {
            format!("{repair} on {node}, then restart its daemon")
        } else if self.leads() {
            format!("{repair} on {node}, then `helio resync {group}` on {node}")
        } else if self.follower().is_some_and(Follower::waits_for_space) {
            format!("free space on {node} (the resync then continues)")
        } else if self.is(Following::Returning) {
            // It connects only after a restart, and what happens to the copies is agreed upon while it is connected.
            format!(
                "{repair} on {node}, then restart its daemon; if the disk fails again: restart the daemon, then `helio promote \
                 {group}` on {peer}, then `helio member replace {group}/{volume}` on {node}"
            )
        } else {
            // A secondary stopped using the disk: it opens it again when its daemon starts.
            format!(
                "{repair} on {node}, then restart its daemon; or, if {peer} is primary, `helio member replace \
                 {group}/{volume}` on {node}"
            )
        }
    }
}
