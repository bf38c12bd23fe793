// SPDX-License-Identifier: Apache-2.0
//! Notices what changed about groups, peers and volumes, and which alerts begin and end, and tells the hub.
//!
//! After every turn a few words and counts are compared with those of the last; only where they differ anything is
//! built. Figures that move with every write cause no events, on purpose; once a second they are compared with their bounds.

use crate::alerts::{Alerts, Edge, Sample};
use crate::config::Alert;
use crate::events::Hub;
use crate::failed::{self, Failures};
use crate::shard::clients::Clients;
use crate::shard::clock::Clock;
use crate::shard::group::Group;
use crate::shard::show;
use helio_api::event::{Fields, Object, Value};
use helio_engine::Words;
use helio_units::{Moment, VolumeIndex, WallTime};
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
    alerts: Vec<Alerts>,
}

impl Watch {
    pub(crate) fn new(hub: Arc<Hub>, groups: usize) -> Self {
        let alerts = (0..groups).map(|_| Alerts::default()).collect();
        Self { hub, seen: vec![None; groups], alerts }
    }

    /// One group more.
    pub(crate) fn add(&mut self) {
        self.seen.push(None);
        self.alerts.push(Alerts::default());
    }

    /// A group is not served any more. Nothing but its names is used of it.
    pub(crate) fn failed(
        &mut self,
        index: usize,
        group: &Group,
        failures: &Failures,
        clock: &Clock,
    ) {
        let Some(failed) = failures.get(&group.name) else { return };
        let ((key, mut fields), at) = (failed::event(&failed), clock.wall(clock.now()));
        let alerts = &mut self.alerts[index];
        let flag = |alert: Alert, raised| (alert.field().to_owned(), Value::Flag(raised));
        fields.extend(Alert::ALL.map(|alert| flag(alert, alerts.is_raised(alert))));
        self.hub.tell(at, key.clone(), fields.clone(), Some(failed.reason.clone()));
        for alert in alerts.stop() {
            let why = format!("the group is not served on this node: {}", failed.reason);
            log(group, (alert, false), &why);
            fields.extend([flag(alert, false)]);
            self.hub.tell(at, key.clone(), fields.clone(), Some(why));
        }
    }

    /// When a group must be looked at although nothing happens.
    pub(crate) fn deadline(&self, index: usize) -> Moment {
        self.alerts[index].deadline()
    }

    /// Tells what changed since the last look; looks only, where nothing did.
    pub(crate) fn look(
        &mut self,
        index: usize,
        group: &Group,
        clients: &Clients,
        (clock, now): (&Clock, Moment),
    ) {
        let words = group.engine.view().words();
        let edges = self.edges(index, group, &words, now);
        let volumes = || (0..group.volumes.len() as u16).map(VolumeIndex);
        let count = |volume| clients.count(index, volume);
        let drill = group.drills.as_ref().map(|drills| drills.last.at_ms);
        let same = self.seen[index].as_ref().is_some_and(|seen| {
            seen.words == words
                && volumes().map(count).eq(seen.clients.iter().copied())
                && seen.drill == drill
        });
        if same && edges.is_empty() {
            return;
        }
        let seen = Seen { words, clients: volumes().map(count).collect(), drill };
        let shown = show::group(group, clock, |volume| (seen.clients[usize::from(volume.0)], None));
        let at = clock.wall(now);
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
        let mut fields = of_group(&shown, &words);
        for alert in Alert::ALL {
            let changes = edges.iter().any(|edge| edge.alert == alert);
            let was = self.alerts[index].is_raised(alert) != changes;
            fields.insert(alert.field().to_owned(), Value::Flag(was));
        }
        tell(Object::Group, &group.name, fields.clone(), why);
        for Edge { alert, begins, why } in edges {
            let verdict = &shown.verdict;
            let why = why.unwrap_or_else(|| format!("{}: {}", verdict.word, verdict.why));
            log(group, (alert, begins), &why);
            fields.insert(alert.field().to_owned(), Value::Flag(begins));
            tell(Object::Group, &group.name, fields.clone(), &why);
        }
        if let Some(peer) = &shown.peer {
            tell(Object::Peer, &peer.name, of_peer(peer), &peer.reason);
        }
        for (volume, n) in shown.volumes.iter().zip(0..) {
            let failed = words.failed == Some(VolumeIndex(n));
            tell(Object::Volume, &volume.name, of_volume(volume, failed), &shown.state_reason);
        }
        self.seen[index] = Some(seen);
    }

    /// Alerts of a group that begin or end now.
    fn edges(&mut self, index: usize, group: &Group, words: &Words, now: Moment) -> Vec<Edge> {
        let alerts = &mut self.alerts[index];
        if !alerts.is_due(words.verdict, now) {
            return Vec::new();
        }
        let sample = Sample::of(&group.engine.view(), words, group.config.period, now);
        alerts.look(sample, &group.settings.alerts, &group.peer, now)
    }
}

fn log(group: &Group, (alert, begins): (Alert, bool), why: &str) {
    let (group, peer, alert) = (&group.name, &group.peer, alert.word());
    if begins {
        tracing::warn!(group, peer, alert, why, "an alert began");
    } else {
        tracing::info!(group, peer, alert, why, "an alert ended");
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
