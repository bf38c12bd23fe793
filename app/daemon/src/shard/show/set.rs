// SPDX-License-Identifier: Apache-2.0
//! The members of a volume that has several, in the words of the control API.

use crate::shard::group::{Group, ReadCost};
use crate::shard::plan::{MemberPlan, MemberStore, VolumePlan};
use helio_api::{Service, SetMemberState, SetMemberStatus};
use helio_engine::{Duty, MemberStatus};
use helio_units::{Bytes, Items, VolumeIndex};

/// The members of a volume, none if it has one, the bytes in which they may differ, and those in which nothing was ever written. A member whose path another disk got is not
/// shown.
pub(super) fn members(group: &Group, at: VolumeIndex) -> (Vec<SetMemberStatus>, [Bytes; 2]) {
    let set = group.engine.view().set_status(at);
    let Some(set) = set else { return (Vec::new(), [Bytes::ZERO; 2]) };
    let volume = &group.volumes[usize::from(at.0)];
    let pairs = set.members.iter().zip(&volume.members).zip(0..);
    let shown = pairs.filter_map(|((status, plan), number)| {
        let cost = group.read_cost(at, usize::from(number));
        let is_there = |plan: &&MemberPlan| volume.at_path(&plan.path) == Some(usize::from(number));
        Some(member((number, volume.size), plan.as_ref().filter(is_there)?, (*status)?, cost))
    });
    let mut shown: Vec<SetMemberStatus> = shown.collect();
    if shown.len() < 2 {
        shown.clear();
    }
    (shown, [set.unmerged, set.blank])
}

/// Where operations on the members are performed, the worst of them.
pub(super) fn service(volume: &VolumePlan) -> Service {
    let stores = volume.members.iter().flatten().filter_map(MemberPlan::store);
    let services = stores.map(|store| match store.service() {
        helio_driver::Service::Here => Service::Here,
        helio_driver::Service::Aside => Service::Aside,
        helio_driver::Service::Slow => Service::Slow,
    });
    services.max().unwrap_or_default()
}

/// The path of the first full member of several.
pub(super) fn used(members: &[SetMemberStatus]) -> Option<&str> {
    let full = members.iter().find(|member| member.state == SetMemberState::Full);
    full.map(|member| member.path.as_str())
}

fn member(
    (number, size): (u8, Bytes),
    plan: &MemberPlan,
    MemberStatus { duty, depth, reads, repaired }: MemberStatus,
    cost: Option<ReadCost>,
) -> SetMemberStatus {
    let (state, left_bytes, dirty_bytes) = match duty {
        Duty::Full => (SetMemberState::Full, None, None),
        Duty::Copying { left } => (SetMemberState::Copying, Some(left), None),
        Duty::Removed { lacks, .. } => (SetMemberState::Removed, None, lacks),
    };
    let why = match &plan.store {
        MemberStore::Open(_) => None,
        MemberStore::Closed(why) => Some(why.clone()),
    };
    SetMemberStatus {
        number,
        path: plan.path.clone(),
        state,
        left_bytes,
        percent: left_bytes.map(|left| percent(left, size)),
        dirty_bytes,
        read_cost: cost.map(|(cost, _)| cost),
        read_cost_source: cost.map(|(_, source)| source),
        reads: Items(reads),
        withdrawn: matches!(duty, Duty::Removed { withdrawn: true, .. }),
        repaired: Items(repaired),
        operations: Items(u64::from(depth)),
        open: why.is_none(),
        why,
    }
}

/// The share that a copying member holds; it holds all only once it is full.
fn percent(left: Bytes, size: Bytes) -> u8 {
    let held = u128::from(size.saturating_sub(left).0) * 100 / u128::from(size.0.max(1));
    held.min(99) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::ReadCostSource;

    fn shown(duty: Duty) -> SetMemberStatus {
        let store = MemberStore::Closed(String::from("it is not in use"));
        let mark = helio_format::members::DiskMark::UNKNOWN;
        let plan = MemberPlan { path: String::from("/b"), mark, store };
        let status = MemberStatus { duty, depth: 3, reads: 9, repaired: 2 };
        member((1, Bytes::mib(64)), &plan, status, Some((7, ReadCostSource::Set)))
    }

    #[test]
    fn a_member_shows_what_it_still_gets_or_lacks() {
        let copying = shown(Duty::Copying { left: Bytes::mib(16) });
        assert_eq!((copying.state, copying.percent), (SetMemberState::Copying, Some(75)));
        assert_eq!((copying.left_bytes, copying.dirty_bytes), (Some(Bytes::mib(16)), None));
        let last = shown(Duty::Copying { left: Bytes::ZERO });
        assert_eq!(last.percent, Some(99), "it is not full yet");
        let removed = shown(Duty::Removed { lacks: Some(Bytes::mib(1)), withdrawn: true });
        assert_eq!((removed.left_bytes, removed.percent), (None, None));
        assert_eq!((removed.dirty_bytes, removed.withdrawn), (Some(Bytes::mib(1)), true));
        assert_eq!((removed.open, removed.why.as_deref()), (false, Some("it is not in use")));
        assert_eq!((removed.operations, removed.repaired), (Items(3), Items(2)));
        assert_eq!((removed.reads, removed.read_cost), (Items(9), Some(7)));
        assert_eq!(removed.read_cost_source, Some(ReadCostSource::Set));
    }
}
