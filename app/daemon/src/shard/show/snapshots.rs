// SPDX-License-Identifier: Apache-2.0
//! The snapshots of a group on this node, as the API shows them.

use crate::shard::group::Group;
use helio_api::{MissingSnapshot, RestoringStatus, Snapshot, SnapshotList};
use helio_engine::{CopiesStatus, HeldCopy, KeptCopy, MissingCopy, RollbackStatus};
use helio_units::{Bytes, CopyName};

/// What the group's engine tells of its copies.
pub(crate) fn snapshots(group: &Group) -> SnapshotList {
    let CopiesStatus { held, missing, preserved } = group.engine.view().copies();
    let sizes = group.config.volumes.iter().copied();
    SnapshotList {
        node: group.config.node.clone(),
        group: group.name.clone(),
        volume_bytes: sizes.fold(Bytes::ZERO, |sum, size| sum + size),
        preserved_bytes: preserved,
        snapshots: held.iter().filter(|held| !held.copy.is_shipped()).map(snapshot).collect(),
        missing: missing.into_iter().map(missing_one).collect(),
    }
}

/// How far the group is with what was restored.
pub(crate) fn restoring(group: &Group) -> Option<RestoringStatus> {
    let view = group.engine.view();
    let (name, RollbackStatus { left, failed, .. }) = view.rollback()?;
    let snapshot = name.map(|name| name.to_string()).unwrap_or_default();
    let failed = failed.map(|fault| fault.to_string());
    Some(RestoringStatus { snapshot, left_bytes: left, failed })
}

/// How operators call a copy.
pub(crate) fn called(copy: &KeptCopy) -> String {
    copy.name().map_or_else(|| String::from(CopyName::SAFE_COPY), |name| name.to_string())
}

fn snapshot(held: &HeldCopy) -> Snapshot {
    let image = &held.copy.image;
    Snapshot {
        name: called(&held.copy),
        safe_copy: held.copy.is_safe_copy(),
        at_ms: image.at,
        generation: image.lineage.generation.to_string(),
        position: image.head.0,
        consistent: image.consistent,
        changed_bytes: held.changed,
        preserved_bytes: held.preserved,
        written_bytes: held.branch,
    }
}

fn missing_one(missing: MissingCopy) -> MissingSnapshot {
    MissingSnapshot { name: missing.name.to_string(), since_ms: missing.since, reason: missing.why }
}
