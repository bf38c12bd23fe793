// SPDX-License-Identifier: Apache-2.0
//! A fault that a node reports of a volume is one of its disk: who is told to repair a sound one looks in vain. Or of its metadata,
//! without which nothing may be written. That a disk is silent is told by time, and not judged here.

use crate::promise::{Promise, Violation, hold};
use helio_engine::StoreFault;
use helio_twin::{Cluster, Side};

/// No node reports a volume as failed whose disk never failed, nor gives a copy up for that. A full disk is no failed one. Layers fail, too, and so does one that keeps several members
/// alike if it cannot record how they are: such nodes are not judged.
pub(super) fn judge(cluster: &Cluster) -> Result<(), Violation> {
    for node in Side::BOTH.map(|side| cluster.node(side)) {
        let is_judged = node.layers.is_empty() && node.mirrors.is_empty();
        let Some(engine) = node.engine.as_ref().filter(|_| is_judged) else { continue };
        let given_up = engine.view().given_up();
        let Some((volume, fault)) = engine.view().failed_disk() else { continue };
        let full = fault == StoreFault::NoSpace && given_up != Some(volume);
        let did = full || fault == StoreFault::Silent || node.disk.has_failed(volume);
        hold(did || engine.view().words().metadata_failed, Promise::TrueFaults, || {
            let name = &node.config.node;
            format!("{name} reports volume {}: {fault}; its disk did not fail", volume.0)
        })?;
    }
    Ok(())
}
