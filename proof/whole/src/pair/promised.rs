// SPDX-License-Identifier: Apache-2.0
//! What the mode in force promises for a failover: the model is told of every change of it, and the copy that takes over is judged.

use super::run::{Group, Run};
use crate::model::{Heir, Promise, Violation};
use helio_units::State;

/// What of a group counts at a failover.
#[derive(Debug, Default)]
pub(super) struct Promised {
    /// What became of each node since the group was in sync.
    ends: [Heir; 2],
    /// The group was out of sync since then.
    parted: [bool; 2],
    /// What that node has in memory may never reach its disk.
    lossy: [bool; 2],
    /// The lag that a node reported last as primary, in bytes.
    lag: Option<(usize, u64)>,
    /// The node on which the group was adopted, until the nodes are in sync: its metadata has no record of the peer.
    adopted: Option<usize>,
    /// That node lost its metadata, and the nodes were not in sync since.
    blank: [bool; 2],
    /// The machine of the node that serves lost power, and it has not started since.
    power_cut: bool,
}

impl Promised {
    /// The daemon of a node ended, or more.
    fn ended(&mut self, node: usize, how: Heir) {
        self.ends[node] = self.ends[node].max(how);
        self.parted[node] = false;
    }

    /// The copy of a node may have lost what was not durable, or is to be made once more.
    pub(super) fn lost(&mut self, node: usize) {
        self.ended(node, Heir::LostPower);
    }

    /// An operator adopted the group on a node.
    pub(super) fn begins_on(&mut self, node: usize) {
        self.adopted = Some(node);
    }

    /// A node begins with blank metadata.
    pub(super) const fn forgets(&mut self, node: usize) {
        self.blank[node] = true;
    }

    /// Whether a node lost its metadata, and its copy was not in sync since.
    pub(super) const fn is_blank(&self, node: usize) -> bool {
        self.blank[node]
    }

    /// Whether a node takes a peer without metadata for a new one, whatever that one wrote.
    pub(super) fn knows_no_peer(&self, node: usize) -> bool {
        self.adopted == Some(node)
    }

    pub(super) fn heir(&self, node: usize) -> Heir {
        let least = if self.lossy[node] { Heir::Restarted } else { Heir::Lived };
        self.ends[node].max(least)
    }
}

impl Group {
    /// How the primary serves now.
    fn note_serving(&mut self, node: usize, serving: Option<helio_daemon::stepped::Serving>) {
        let in_sync = serving.filter(|serving| serving.state == State::Replicating);
        self.model.set_effective(in_sync.map(|serving| serving.mode));
        let promised = &mut self.promised;
        if in_sync.is_none() {
            promised.parted = [true; 2];
        } else {
            (promised.adopted, promised.blank) = (None, [false; 2]);
            for (end, parted) in promised.ends.iter_mut().zip(promised.parted) {
                if parted {
                    *end = Heir::Lived;
                }
            }
        }
        let Some(serving) = serving else { return };
        let counts = [State::Replicating, State::CatchingUp, State::Queuing, State::Logging];
        let lag = serving.lag.filter(|_| counts.contains(&serving.state));
        promised.lag = lag.map(|(bytes, _)| (node, bytes.0));
        if in_sync
            .is_some_and(|it| it.lag.is_some_and(|(bytes, writes)| bytes.0 == 0 && writes == 0))
        {
            self.model.peer_is_level();
        }
    }
}

impl Run {
    /// Tells the models which modes are in force, once everything that could go on did.
    pub(super) fn note_modes(&mut self) {
        for group in &mut self.groups {
            let Some(node) = group.serves else {
                group.model.set_effective(None);
                continue;
            };
            let mut daemon = self.nodes[node].daemon.as_mut();
            let serving = daemon.as_mut().and_then(|it| it.serving(group.shape.name));
            if serving.is_none() && daemon.is_some_and(|it| it.is_stopping()) {
                // It acknowledges what it had accepted; what its status shows in that time is not seen here.
                group.promised.lag = None;
            }
            group.note_serving(node, serving);
        }
    }

    /// The daemon of a node ended, and with `power` its machine lost power. Whether the copy of a node that serves lost anything is
    /// open until it starts again: its peer may take over before.
    pub(super) fn note_end(&mut self, node: usize, power: bool) {
        self.open(node, None);
        for group in &mut self.groups {
            group.promised.ended(node, if power { Heir::LostPower } else { Heir::Restarted });
            group.promised.power_cut |= power && group.serves == Some(node);
        }
    }

    /// A node started.
    pub(super) fn note_start(&mut self, node: usize) {
        self.nodes[node].unapplied = false;
        for group in self.groups.iter_mut().filter(|group| group.serves == Some(node)) {
            if std::mem::take(&mut group.promised.power_cut) {
                group.model.power_cut();
            }
        }
    }

    /// From now on a write of a node to its disk may fail.
    pub(super) fn note_lossy(&mut self, node: usize) {
        self.groups.iter_mut().for_each(|group| group.promised.lossy[node] = true);
    }

    /// The node that serves a group is another one, and nothing was lost.
    pub(super) fn hand_over(&mut self, node: usize, group: usize) {
        let group = &mut self.groups[group];
        group.model.peer_changed();
        (group.serves, group.last_served) = (Some(node), Some(node));
        group.promised.lag = None;
    }

    /// What a node has of volumes with one member there: several may differ until they are merged.
    pub(super) fn single_images(
        &self,
        node: usize,
        group: usize,
    ) -> Result<Vec<(u16, Vec<u8>)>, Violation> {
        let shape = &self.groups[group].shape;
        let mut images = Vec::new();
        for (n, volume) in (0_u16..).zip(&shape.volumes).filter(|(_, it)| it.members[node] == 1) {
            for path in volume.paths(shape.name, node) {
                let content = self.nodes[node].machine.content(&path).map_err(|errno| {
                    let detail = format!("{}: {errno}", path.display());
                    Violation::new(Promise::SameCopies, detail)
                })?;
                images.push((n, content));
            }
        }
        Ok(images)
    }

    /// A node takes over by force. With `restored` its copy is one that it had preserved.
    ///
    /// # Errors
    /// The promise that its copy breaks.
    pub(super) fn fail_over(
        &mut self,
        node: usize,
        group: usize,
        restored: bool,
    ) -> Result<(), Violation> {
        let images = self.single_images(node, group)?;
        let it = &mut self.groups[group];
        let (heir, name) = (it.promised.heir(node), it.shape.name);
        self.world.tell(format_args!("{} takes over {name}: {heir:?}", self.nodes[node].name));
        let lag = it.promised.lag.filter(|(reporter, _)| *reporter != node);
        if let Some((_, lag)) = lag.filter(|_| heir < Heir::LostPower && !restored) {
            let mut missing = 0;
            for (n, image) in &images {
                missing += it.model.missing_bytes(*n, image)?;
            }
            if missing > lag {
                let heir = self.nodes[node].name;
                let detail =
                    format!("the lag of {name} was {lag} bytes, and {heir} misses {missing}");
                return Err(Violation::new(Promise::Reports, detail));
            }
        }
        it.model.failed_over(heir);
        it.promised.power_cut = false;
        it.promised.lag = None;
        (it.serves, it.last_served) = (Some(node), Some(node));
        images.iter().try_for_each(|(n, image)| it.model.judge_heir(*n, image))
    }
}
