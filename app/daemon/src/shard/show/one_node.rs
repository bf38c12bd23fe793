// SPDX-License-Identifier: Apache-2.0
//! Why the verdict on a group of one node is what it is, and what an operator does next.

use crate::shard::group::Group;
use crate::shard::show::reason;
use helio_engine::Status;
use helio_units::{Role, Verdict, VolumeIndex};

pub(super) fn why(status: &Status, group: &Group) -> String {
    match (status.verdict, &status.fault) {
        (Verdict::DiskFailed, Some(fault)) => format!("{}: {}", group.config.node, fault.what),
        (Verdict::AtRisk, _) => {
            format!("fewer than two full members of volume {}", lacking(group).join(", "))
        }
        _ => reason(status),
    }
}

pub(super) fn next(status: &Status, group: &Group) -> String {
    if let Some(fault) = &status.fault {
        return fault.hint.clone();
    }
    let name = &group.name;
    match (status.role, status.verdict) {
        (Role::Primary, Verdict::AtRisk) => format!(
            "wait while a member is copied; otherwise `helio member add {name}/{} PATH` returns or adds one",
            lacking(group).first().unwrap_or(&"VOLUME")
        ),
        (Role::Primary, _) => "nothing".into(),
        (Role::Secondary, _) => match group.engine.view().may_promote(true, false) {
            Ok(()) => format!("`helio promote {name}` serves the volumes again"),
            Err(refusal) => refusal.hint,
        },
    }
}

/// The volumes with several members of which fewer than two are full.
fn lacking(group: &Group) -> Vec<&str> {
    let all = (0..).map(VolumeIndex).zip(&group.volumes);
    let lacking = all.filter(|(at, _)| group.engine.view().lacks_members(*at));
    lacking.map(|(_, volume)| volume.name.as_str()).collect()
}
