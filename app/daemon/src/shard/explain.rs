// SPDX-License-Identifier: Apache-2.0
//! How a group's two nodes stand to each other, in the words of the control API.

use crate::saved::Part;
use crate::shard::clock::Clock;
use crate::shard::group::Group;
use helio_api::{AtStake, Explanation, Row};
use helio_engine::explain::{Meaning, Met, facts_in_words, meaning};
use helio_engine::{Refusal, Stake};
use helio_units::{Bytes, Generation, VolumeIndex};
use std::path::PathBuf;

/// What would be lost with this node's side, and what must be saved before.
#[derive(Clone, Debug)]
pub(crate) struct Losing {
    pub(crate) generation: Generation,
    pub(crate) stake: AtStake,
    pub(crate) parts: Vec<Part>,
}

pub(crate) fn explanation(group: &Group, clock: &Clock) -> Explanation {
    let status = group.engine.status(clock.now());
    Explanation {
        group: group.name.clone(),
        node: group.config.node.clone(),
        peer: group.peer.clone(),
        role: status.role,
        state: status.state,
        reason: status.reason,
        row: group.engine.met().map(|met| row(met, &group.name, clock)),
    }
}

fn row(met: &Met, group: &str, clock: &Clock) -> Row {
    let (source, target) = (met.source.node.clone(), met.target.node.clone());
    let Meaning { meaning, next, remedy } = meaning(&met.label, group, &source, &target);
    Row {
        label: met.label.clone(),
        at_ms: clock.wall(met.at),
        facts: facts_in_words(met),
        source,
        target,
        meaning,
        next,
        remedy,
    }
}

pub(crate) fn losing(group: &Group, clock: &Clock) -> Result<Losing, Refusal> {
    let Stake { generation, since, differing } = group.engine.stake()?;
    let part = |(volume, n)| {
        let volume: &super::VolumePlan = volume;
        let here = differing.iter().filter(|(index, _)| *index == VolumeIndex(n));
        Part {
            volume: volume.name.clone(),
            member: PathBuf::from(&volume.path),
            size: volume.size,
            regions: here.map(|(_, extent)| *extent).collect(),
        }
    };
    let parts: Vec<Part> = group.volumes.iter().zip(0..).map(part).collect();
    let bytes = differing.iter().fold(Bytes::ZERO, |sum, (_, e)| sum + Bytes(e.length));
    let (node, peer) = (&group.config.node, &group.peer);
    let since = since.map(|at| (clock.wall(at), clock.now() - at));
    let began = since.map_or_else(
        || String::from("since before its daemon started"),
        |(at, ago)| format!("since {at} ({:.1} s ago)", ago.as_secs_f64()),
    );
    let regions = differing.len();
    let text = format!(
        "{node} may differ from {peer} in {bytes}, in {regions} region(s) of {}; it is of generation {generation}, which \
         it wrote on its own {began}",
        parts.iter().map(|part| part.volume.as_str()).collect::<Vec<_>>().join(", "),
    );
    let stake = AtStake {
        since_ms: since.map(|(at, _)| at),
        seconds: since.map(|(_, ago)| ago),
        bytes: Some(bytes),
        writes: None,
        last_contact_ms: None,
        text,
    };
    Ok(Losing { generation, stake, parts })
}
