// SPDX-License-Identifier: Apache-2.0
//! The snapshots of a group on this node, as the API shows them.

use crate::shard::group::Group;
use helio_api::{MissingSnapshot, RestoringStatus, Snapshot, SnapshotList};
use helio_engine::{CopiesStatus, HeldCopy, KeptCopy, MissingCopy, RollbackStatus};
use helio_units::{Bytes, CopyName, Generation};

/// What the group's engine tells of its copies.
pub(crate) fn snapshots(group: &Group) -> SnapshotList {
    let CopiesStatus { held, missing, preserved } = group.engine.view().copies();
    let shown = held.iter().filter(|held| !held.copy.is_shipped());
    let sizes = group.config.volumes.iter().copied();
    SnapshotList {
        node: group.config.node.clone(),
        group: group.name.clone(),
        volume_bytes: sizes.fold(Bytes::ZERO, |sum, size| sum + size),
        preserved_bytes: preserved,
        snapshots: shown.map(|held| snapshot(held, group)).collect(),
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

fn snapshot(held: &HeldCopy, group: &Group) -> Snapshot {
    let image = &held.copy.image;
    Snapshot {
        name: called(&held.copy),
        safe_copy: held.copy.is_safe_copy(),
        at_ms: image.at,
        identity: identity(&held.copy, &group.config.node, group.config.peer_name().is_some()),
        generation: image.lineage.generation.to_string(),
        position: image.head.0,
        consistent: image.consistent,
        changed_bytes: held.changed,
        preserved_bytes: held.preserved,
        written_bytes: held.branch,
    }
}

/// What no copy has that holds something else. With a peer, one that holds just what is up to a position is known by that: on both nodes,
/// for then whatever goes back to older data begins a generation.
fn identity(copy: &KeptCopy, node: &str, has_peer: bool) -> String {
    let image = &copy.image;
    if has_peer && image.exact && image.consistent {
        let Generation { number, tag } = image.lineage.generation;
        return format!("{number}.{tag:016x}.{}", image.head.0);
    }
    format!("{node}.{}.{}", copy.number.0, image.at.0)
}

fn missing_one(missing: MissingCopy) -> MissingSnapshot {
    MissingSnapshot { name: missing.name.to_string(), since_ms: missing.since, reason: missing.why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::before::{CopyClass, CopyNumber, CopyOwner, CopyStage, KeptImage};
    use helio_format::lineage::Lineage;
    use helio_units::{Sequence, WallTime};

    fn copy(number: u64, exact: bool) -> KeptCopy {
        let lineage = Lineage::default().fork(Generation { number: 2, tag: 0x77aa }, Sequence(9));
        let image = KeptImage {
            lineage,
            head: Sequence(31),
            exact,
            consistent: true,
            at: WallTime(5),
            ..KeptImage::default()
        };
        let (class, stage) = (CopyClass::Expendable, CopyStage::Held);
        let (number, owner) = (CopyNumber(number), CopyOwner::Resync);
        KeptCopy { number, class, stage, owner, image }
    }

    #[test]
    fn copies_at_one_position_are_the_same_only_if_they_hold_just_that() {
        let of = |number, exact, has_peer| identity(&copy(number, exact), "paris", has_peer);
        assert_eq!(of(1, true, true), "2.00000000000077aa.31");
        assert_eq!(of(1, true, true), of(2, true, true));
        assert_eq!(of(1, false, true), "paris.1.5");
        assert_ne!(of(1, false, true), of(2, false, true));
        assert_ne!(of(1, true, false), of(2, true, false), "a restore begins no generation");
    }
}
