// SPDX-License-Identifier: Apache-2.0
//! How a group's two nodes stand to each other, in the words of the control API.

use crate::saved::Part;
use crate::shard::clock::Clock;
use crate::shard::group::Group;
use helio_api::{AtStake, Explanation, Row};
use helio_engine::{LinkState, Refusal, Stake, Status};
use helio_recovery::{LastDecision, Meaning, facts_in_words, meaning_of};
use helio_units::{Bytes, Generation, VolumeIndex, WallTime};
use std::path::PathBuf;
use std::time::Duration;

/// What would be lost with this node's side, and what must be saved before.
#[derive(Clone, Debug)]
pub(crate) struct Losing {
    pub(crate) generation: Generation,
    pub(crate) stake: AtStake,
    pub(crate) parts: Vec<Part>,
}

impl Losing {
    /// Whether the same would be lost.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let regions =
            |losing: &Self| losing.parts.iter().map(|p| p.regions.clone()).collect::<Vec<_>>();
        self.generation == other.generation && regions(self) == regions(other)
    }
}

pub(crate) fn explanation(group: &Group, clock: &Clock) -> Explanation {
    let status = group.engine.view().status(clock.now());
    let peer = group.config.peer_name();
    let changed = peer.and_then(|peer| changed(&status, peer));
    Explanation {
        group: group.name.clone(),
        node: group.config.node.clone(),
        peer: peer.map(str::to_owned),
        role: status.role,
        state: status.state,
        reason: status.reason,
        at_ms: clock.wall_now(),
        row: group.engine.view().last_decision().map(|last| row(last, &group.name, clock)),
        changed,
    }
}

/// What ended the state that the last decision led to.
fn changed(status: &Status, peer: &str) -> Option<String> {
    match status.link.state {
        LinkState::Connected if status.paused => {
            Some(String::from("replication is paused by an operator"))
        }
        LinkState::Connected | LinkState::Refused => None,
        LinkState::Connecting => Some(format!("{peer} is not connected")),
    }
}

fn row(last: &LastDecision, group: &str, clock: &Clock) -> Row {
    let (source, target) = (last.source.node.clone(), last.target.node.clone());
    let Meaning { meaning, next, hint } = meaning_of(last, group);
    Row {
        label: last.label.clone(),
        at_ms: clock.wall(last.at),
        facts: facts_in_words(last),
        source,
        target,
        meaning,
        next,
        hint,
    }
}

pub(crate) fn losing(group: &Group, last_copy: bool, now: WallTime) -> Result<Losing, Refusal> {
    let stake = group.engine.view().stake(last_copy)?;
    let node = &group.config.node;
    let since = stake.since.map_or_else(String::new, |at| format!(" since {at}"));
    let unknown = stake.unknown;
    let unknown =
        unknown.map_or_else(String::new, |why| format!(" unknown{since}, because {why};"));
    let intro = format!("writes that exist only on {node}:{unknown} at most");
    let began = began(&stake, node, now);
    let outro = format!(
        "they are saved first, without blocks of zeros; the copy of {node} is of generation {}{began}",
        stake.generation
    );
    losing_of(group, stake, (&intro, &outro), now)
}

/// When the node began its generation. It may have had its peer then, and for long after.
fn began(stake: &Stake, node: &str, now: WallTime) -> String {
    stake.since.map_or_else(String::new, |at| {
        format!(", which {node} began at {at} ({:.1} s ago)", ago(at, now).as_secs_f64())
    })
}

/// How long ago that is, by the calendar.
fn ago(at: WallTime, now: WallTime) -> Duration {
    Duration::from_millis(now.0.saturating_sub(at.0))
}

/// What a stake comes to, `intro` and `outro` being the words around its size. Refused while members hold something else than what
/// clients read: that would be saved, and what they read discarded.
pub(super) fn losing_of(
    group: &Group,
    stake: Stake,
    (intro, outro): (&str, &str),
    now: WallTime,
) -> Result<Losing, Refusal> {
    let Stake { generation, since, differing, unknown } = stake;
    let part = |(volume, n)| -> Result<Part, Refusal> {
        let volume: &super::VolumePlan = volume;
        let here = differing.iter().filter(|(index, _)| *index == VolumeIndex(n));
        Ok(Part {
            volume: volume.name.clone(),
            member: PathBuf::from(&group.settled(VolumeIndex(n))?.path),
            size: volume.size,
            regions: here.map(|(_, extent)| *extent).collect(),
        })
    };
    let parts = group.volumes.iter().zip(0..).map(part).collect::<Result<Vec<Part>, _>>()?;
    let bytes = differing.iter().fold(Bytes::ZERO, |sum, (_, e)| sum + Bytes(e.length));
    let since = since.map(|at| (at, ago(at, now)));
    let regions = differing.len();
    let text = format!(
        "{intro} {bytes}, in {regions} region(s) of {}; {outro}",
        parts.iter().map(|part| part.volume.as_str()).collect::<Vec<_>>().join(", "),
    );
    let stake = AtStake {
        since_ms: since.map(|(at, _)| at),
        seconds: since.map(|(_, ago)| ago),
        bytes: Some(bytes),
        writes: None,
        unknown: unknown.map(|why| why.label().to_owned()),
        last_contact_ms: None,
        text,
    };
    Ok(Losing { generation, stake, parts })
}
