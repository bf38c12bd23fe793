// SPDX-License-Identifier: Apache-2.0
//! What is known of verifies, in the words of the control API.

use crate::shard::clock::Clock;
use crate::shard::group::Group;
use helio_api::{Verified, VerifyRun, VerifyStatus};
use helio_engine::Status;
use helio_units::{Bytes, Extent, Items, Role, VolumeIndex};

/// Differences told one by one.
const EXAMPLES: usize = 8;

pub(super) fn last(group: &Group, volume: VolumeIndex) -> Option<Verified> {
    group.engine.view().verified(volume).map(|pass| Verified {
        at_ms: pass.at,
        differed_bytes: pass.differed,
        repaired: pass.repaired,
    })
}

pub(super) fn status(group: &Group, clock: &Clock) -> VerifyStatus {
    let known = group.engine.view().verify_status();
    let name = |volume: VolumeIndex| {
        group.volumes.get(usize::from(volume.0)).map_or("?", |volume| volume.name.as_str())
    };
    let example = |(volume, extent): &(VolumeIndex, Extent)| format!("{} {extent}", name(*volume));
    VerifyStatus {
        run: known.run.map(|run| VerifyRun {
            volume: name(run.volume).to_owned(),
            repair: run.wish.repair,
            compared_bytes: run.compared,
            total_bytes: run.total,
            running_seconds: clock.now() - run.since,
            rate_bytes_per_second: run.wish.rate,
            waits: run.waits.map(str::to_owned),
        }),
        differing: Items(known.listed.len() as u64 + known.beyond),
        differing_bytes: known.listed.iter().fold(Bytes::ZERO, |sum, (_, e)| sum + Bytes(e.length)),
        examples: known.listed.iter().take(EXAMPLES).map(example).collect(),
        stopped: known.stopped,
    }
}

/// Why a copy that is known to differ protects nothing.
pub(super) fn why(status: &Status, group: &Group) -> String {
    let secondary = match status.role {
        Role::Primary => &group.peer,
        Role::Secondary => &group.config.node,
    };
    format!("a verify found {} blocks that differ on {secondary}", status.differing)
}
