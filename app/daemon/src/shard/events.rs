// SPDX-License-Identifier: Apache-2.0
//! Notices what changed about groups, peers and volumes, and tells the hub.
//!
//! After every turn a few words and counts are compared with those of the last; only where they differ anything is
//! built. Figures that move with every write cause no events, on purpose.

use crate::events::Hub;
use crate::failed::{self, Failures};
use crate::shard::clients::Clients;
use crate::shard::clock::Clock;
use crate::shard::group::Group;
use crate::shard::show;
use helio_api::event::{Fields, Object, Value};
use helio_engine::Words;
use helio_units::{VolumeIndex, WallTime};
use std::sync::Arc;

/// What was seen of a group last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    words: Words,
    /// Connections per volume.
    clients: Vec<u64>,
    /// When the last drill ended.
    drill: Option<WallTime>,
}

/// Looks at groups for a hub.
pub(crate) struct Watch {
    hub: Arc<Hub>,
    seen: Vec<Option<Seen>>,
}

impl Watch {
    pub(crate) fn new(hub: Arc<Hub>, groups: usize) -> Self {
        Self { hub, seen: vec![None; groups] }
    }

    /// One group more.
    pub(crate) fn add(&mut self) {
        self.seen.push(None);
    }

    /// A group is not served any more.
    pub(crate) fn failed(&self, name: &str, failures: &Failures, clock: &Clock) {
        if let Some(failed) = failures.get(name) {
            let (key, fields) = failed::event(&failed);
            self.hub.tell(clock.wall(clock.now()), key, fields, Some(failed.reason));
        }
    }

    /// Tells what changed since the last look; looks only, where nothing did.
    pub(crate) fn look(&mut self, index: usize, group: &Group, clients: &Clients, clock: &Clock) {
        let words = group.engine.view().words();
        let volumes = || (0..group.volumes.len() as u16).map(VolumeIndex);
        let count = |volume| clients.count(index, volume);
        let drill = group.drills.as_ref().map(|drills| drills.last.at_ms);
        if self.seen[index].as_ref().is_some_and(|seen| {
            seen.words == words
                && volumes().map(count).eq(seen.clients.iter().copied())
                && seen.drill == drill
        }) {
            return;
        }
        let seen = Seen { words, clients: volumes().map(count).collect(), drill };
        let shown = show::group(group, clock, |volume| (seen.clients[usize::from(volume.0)], None));
        let at = clock.wall(clock.now());
        let tell = |object, name: &str, fields, why: &str| {
            let key = (group.name.clone(), object, name.to_owned());
            self.hub.tell(at, key, fields, Some(why.to_owned()));
        };
        let why = match &self.seen[index] {
            // Only the end of a drill was recorded.
            Some(before) if before.words == words && before.drill != seen.drill => {
                let last = shown.drill.as_ref().and_then(|drills| drills.last.failure.as_deref());
                last.unwrap_or("a drill succeeded")
            }
            _ => shown.state_reason.as_str(),
        };
        tell(Object::Group, &group.name, of_group(&shown, &words), why);
        if let Some(peer) = &shown.peer {
            tell(Object::Peer, &peer.name, of_peer(peer), &peer.reason);
        }
        for (volume, n) in shown.volumes.iter().zip(0..) {
            let failed = words.failed == Some(VolumeIndex(n));
            tell(Object::Volume, &volume.name, of_volume(volume, failed), &shown.state_reason);
        }
        self.seen[index] = Some(seen);
    }
}

fn fields<const N: usize>(list: [(&str, Value); N]) -> Fields {
    list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn of_group(shown: &helio_api::GroupStatus, words: &Words) -> Fields {
    let drill = shown.drill.as_ref().map(|drill| &drill.last);
    fields([
        ("role", Some(shown.role).into()),
        ("changing", words.changing.into()),
        ("state", Some(shown.state).into()),
        ("generation", Some(&shown.generation).into()),
        ("consistent", Value::Flag(shown.consistent)),
        ("verdict", Some(shown.verdict.word.word()).into()),
        ("mode_requested", Some(shown.mode.requested).into()),
        ("mode_effective", shown.mode.effective.into()),
        ("fault", shown.fault.as_ref().into()),
        (
            "drill",
            drill.map(|last| if last.failure.is_none() { "succeeded" } else { "failed" }).into(),
        ),
        ("drill_ms", drill.map_or(Value::None, |last| Value::Number(last.at_ms.0))),
    ])
}

fn of_peer(peer: &helio_api::PeerStatus) -> Fields {
    fields([
        ("connection", Some(peer.connection).into()),
        ("role", peer.role.into()),
        ("state", peer.state.into()),
    ])
}

fn of_volume(volume: &helio_api::VolumeStatus, failed: bool) -> Fields {
    fields([
        ("size_bytes", Value::Number(volume.size_bytes.0)),
        ("clients", Value::Number(volume.clients.0)),
        ("state", Some(if failed { "failed" } else { "good" }).into()),
    ])
}
