// SPDX-License-Identifier: Apache-2.0
//! The snapshots of a group on this node, as the API shows them.

use crate::shard::group::Group;
use helio_api::{MissingSnapshot, Snapshot, SnapshotList};
use helio_engine::{CopiesStatus, HeldCopy, MissingCopy};
use helio_units::Bytes;

/// What the group's engine tells of its copies.
pub(crate) fn snapshots(group: &Group) -> SnapshotList {
    let CopiesStatus { held, missing, preserved } = group.engine.view().copies();
    let sizes = group.config.volumes.iter().copied();
    SnapshotList {
        node: group.config.node.clone(),
        group: group.name.clone(),
        volume_bytes: sizes.fold(Bytes::ZERO, |sum, size| sum + size),
        preserved_bytes: preserved,
        snapshots: held.iter().map(snapshot).collect(),
        missing: missing.into_iter().map(missing_one).collect(),
    }
}

fn snapshot(held: &HeldCopy) -> Snapshot {
    let image = &held.copy.image;
    Snapshot {
        name: held.copy.name().map(|name| name.to_string()),
        at_ms: image.at,
        generation: image.lineage.generation.to_string(),
        position: image.head.0,
        consistent: image.consistent,
        changed_bytes: held.changed,
        preserved_bytes: held.preserved,
    }
}

fn missing_one(missing: MissingCopy) -> MissingSnapshot {
    MissingSnapshot { name: missing.name.to_string(), since_ms: missing.since, reason: missing.why }
}
