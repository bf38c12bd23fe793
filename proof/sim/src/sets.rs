// SPDX-License-Identifier: Apache-2.0
//! Nodes whose volumes have two or three members: what befalls one of these, what the operator does about it, and what every member
//! must hold.
//!
//! Oracles look at first members. So these never fail alone in such a node: what a first member fails all fail, and that is a write
//! without FUA. A first member that fails a flush or a read, is full, silent, slow or gone is left to the stories of the layers; and in
//! such a node no disk lies.

use crate::coverage::Coverage;
use crate::driver::{Act, Driver};
use crate::faults::Fault;
use crate::oracle::Oracle;
use crate::promise::{Promise, Violation, hold};
use crate::scenario::span;
use core::time::Duration;
use helio_engine::{Command, Leg, SetOp};
use helio_stack::{Duty, SetStatus};
use helio_twin::{Cluster, Disk, Happening, Node, Side, StoreVerb};
use helio_units::{Bytes, Generation, MemberIndex, Moment, VolumeIndex};
use std::collections::BTreeMap;

/// What the coverage report calls what happens to sets.
pub(crate) const LABELS: [&str; 6] = [
    "member-removed",
    "member-silent",
    "member-copied",
    "member-copied-by-bitmap",
    "members-merged",
    "member-read-repaired",
];
/// Members are compared no more often than this.
const JUDGED_EVERY: Duration = Duration::from_millis(100);

/// Which disks of a node something befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// The first one; what it fails the others fail alike.
    First,
    /// One behind the first, counted from zero.
    Mirror(usize),
}

impl Hit {
    pub(crate) fn on(self, node: &mut Node) -> impl Iterator<Item = &mut Disk> {
        let hit = move |n| match self {
            Self::First => n == 0,
            Self::Mirror(at) => n == at + 1,
        };
        node.disks_mut().enumerate().filter(move |(n, _)| hit(*n)).map(|(_, disk)| disk)
    }
}

fn status(node: &Node, volume: VolumeIndex) -> Option<SetStatus> {
    node.engine.as_ref().and_then(|engine| engine.view().set_status(volume))
}

fn duty(set: &SetStatus, leg: Leg) -> Option<Duty> {
    set.members.get(usize::from(leg.member.0)).and_then(|member| member.map(|it| it.duty))
}

/// Whether a node has several members, and something is left to do until all are alike.
pub(crate) fn is_uneven(node: &Node) -> bool {
    node.legs().any(|leg| {
        status(node, leg.volume)
            .is_none_or(|set| duty(&set, leg) != Some(Duty::Full) || set.unmerged != Bytes::ZERO)
    })
}

/// How the sets of a node are, for people.
pub(crate) fn describe(node: &Node) -> String {
    let sets = node.legs().filter_map(|leg| status(node, leg.volume)).collect::<Vec<_>>();
    if sets.is_empty() { String::new() } else { format!(", sets {sets:?}") }
}

/// Whether a fault makes one of several disks of a node lie. Two full members then differ, and nothing can detect which one is right.
pub(crate) fn hides_lie(fault: Fault, cluster: &Cluster) -> bool {
    let (Fault::Lie { side, .. } | Fault::LyingFlush(side)) = fault else { return false };
    !cluster.node(side).mirrors.is_empty()
}

impl Driver {
    /// Which disk of a node something befalls: never the first one of several.
    pub(crate) fn hit(&mut self, side: Side, cluster: &Cluster) -> Hit {
        match cluster.node(side).mirrors.len() as u64 {
            0 => Hit::First,
            mirrors => Hit::Mirror(self.dice.below(mirrors) as usize),
        }
    }

    /// Which disk of a node fails an operation of that kind, and of which kind. A first member fails writes that promise nothing: an
    /// error of a flush reaches whichever flushes are under way, and these are not the same on all members.
    pub(crate) fn hit_by(
        &mut self,
        side: Side,
        verb: StoreVerb,
        cluster: &Cluster,
    ) -> (Hit, StoreVerb) {
        let several = !cluster.node(side).mirrors.is_empty();
        if several && verb == StoreVerb::Write && self.dice.chance(1, 3) {
            return (Hit::First, StoreVerb::PlainWrite);
        }
        (self.hit(side, cluster), verb)
    }

    /// What befalls a disk of a node with mirrors in another way than one without. Returns whether it did.
    pub(crate) fn befalls_mirror(&mut self, fault: Fault, cluster: &mut Cluster) -> bool {
        let (Fault::SilentDisk(side) | Fault::Replace { side, .. }) = fault else {
            return false;
        };
        let node = cluster.node(side);
        if node.mirrors.is_empty() {
            return false;
        }
        let volumes = node.config.volumes.len() as u64;
        let (timeout, now) = (node.config.member_timeout, cluster.now());
        let volume = VolumeIndex(self.dice.below(volumes) as u16);
        let hit = self.hit(side, cluster);
        if matches!(fault, Fault::SilentDisk(_)) {
            let until = now + span(&mut self.dice, timeout / 4, timeout * 8);
            hit.on(cluster.node_mut(side)).for_each(|disk| disk.silence(volume, until));
        } else {
            // Gone for a while, and back.
            hit.on(cluster.node_mut(side)).for_each(|disk| disk.lose(volume, true));
            self.later(cluster, Act::MendDisk(side));
        }
        true
    }

    /// The operator returns members that were removed, and sometimes removes one or has all compared.
    pub(crate) fn look_after_sets(
        &mut self,
        side: Side,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) {
        for leg in cluster.node(side).legs() {
            let set = status(cluster.node(side), leg.volume);
            let Some(duty) = set.and_then(|set| duty(&set, leg)) else { continue };
            let by_bitmap = !self.healing && self.dice.chance(1, 3);
            let force = self.dice.chance(1, 2);
            let op = match duty {
                Duty::Removed { .. } if self.healing || self.dice.chance(1, 3) => {
                    SetOp::Add { leg, by_bitmap }
                }
                Duty::Removed { .. } => continue,
                _ if self.healing => continue,
                _ if self.dice.chance(1, 30) => SetOp::Remove { leg, force },
                _ if self.dice.chance(1, 40) => SetOp::Merge(leg.volume),
                _ => continue,
            };
            self.command(cluster, oracle, side, Command::Set(op));
        }
    }
}

/// What was seen of a member last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    duty: Duty,
    repaired: u64,
    /// It is being copied by a bitmap.
    by_bitmap: bool,
}

/// How old the metadata file of a node is.
///
/// ```text
/// Current ──an old one is put beside disks that went on──▶ Old { told: true }
///    ╰─────────an old one is found there───────────▶ Old { told: false }   nothing tells the node
/// Old ──the node has recorded it; or the peer, which is to tell it, counts from that file on──▶ Current
/// ```
/// The members of a node whose file is old are not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Age {
    #[default]
    Current,
    /// `told`: its peer has a later one on record.
    Old { told: bool },
}

impl Age {
    /// After a step, with how old the file says that it is, and how old the peer's record says that it was.
    fn behind(self, side: Side, cluster: &Cluster) -> Self {
        let Self::Old { told } = self else { return self };
        let (node, other) = (cluster.node(side), cluster.node(side.other()));
        // To read what a file says takes time, and a node that is up knows it.
        let peer = other.superblock().cloned().or_else(|| other.metadata.says());
        // One that gave its own copy up has forgotten its peer, too.
        let told =
            told && peer.as_ref().is_some_and(|peer| peer.lineage.generation != Generation::NONE);
        let Some(engine) = node.engine.as_ref() else { return Self::Old { told } };
        let reported = node.superblock().and_then(|record| record.reported);
        let age = node.metadata.sequence().min(reported.unwrap_or(u64::MAX));
        let forgot = told && peer.is_some_and(|peer| peer.remembers <= age);
        if forgot || engine.view().doubted_members() { Self::Current } else { Self::Old { told } }
    }
}

/// Looks at the sets of both nodes.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: BTreeMap<(Side, Leg), Seen>,
    unmerged: BTreeMap<(Side, VolumeIndex), bool>,
    /// Until then the members of a node are not compared again.
    judged: [Moment; 2],
    old: [Age; 2],
}

impl Watch {
    /// Something happened.
    pub(crate) fn observe(
        &mut self,
        cluster: &Cluster,
        journal: &[Happening],
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        for happening in journal {
            match happening {
                Happening::Died { side, .. } | Happening::Started { side } => self.forget(*side),
                Happening::Restored { side, alone: true } => {
                    self.old[side.index()] = Age::Old { told: true };
                }
                Happening::MetadataFound { side } => {
                    self.old[side.index()] = Age::Old { told: false };
                }
                Happening::MetadataLost { side } | Happening::Discarded { side } => {
                    self.old[side.index()] = Age::Current;
                }
                _ => {}
            }
        }
        // A file may have been replaced behind the death, in the same moment.
        let died = |side: &Side| {
            journal.iter().any(|it| matches!(it, Happening::Died { side: of, .. } if of == side))
        };
        let current = |side: &Side| self.old[side.index()] == Age::Current;
        for side in Side::BOTH.into_iter().filter(died).filter(current) {
            judge_records(side, cluster.node(side))?;
        }
        for side in Side::BOTH {
            self.old[side.index()] = self.old[side.index()].behind(side, cluster);
            self.look(side, cluster, coverage);
        }
        for side in Side::BOTH {
            let (node, judged) = (cluster.node(side), self.judged[side.index()]);
            if cluster.now() >= judged && node.is_up() && node.under_way() == 0 {
                self.judge(side, node)?;
                self.judged[side.index()] = cluster.now() + JUDGED_EVERY;
            }
        }
        Ok(())
    }

    /// While nothing is under way on the disks of a node, every member that is full reads as the first one, but where members wait to be
    /// merged.
    pub(crate) fn judge(&self, side: Side, node: &Node) -> Result<(), Violation> {
        if self.old[side.index()] != Age::Current {
            return Ok(());
        }
        for leg in node.legs() {
            let Some(set) = status(node, leg.volume) else { continue };
            let first = Leg { member: MemberIndex(0), ..leg };
            assert_eq!(duty(&set, first), Some(Duty::Full), "{side}: {first:?} failed alone");
            if set.unmerged == Bytes::ZERO && duty(&set, leg) == Some(Duty::Full) {
                let stray = node.strays(leg).next();
                hold(stray.is_none(), Promise::MembersAlike, || {
                    format!("{side}: block {stray:?} of {leg:?} is not what the first member holds")
                })?;
            }
        }
        Ok(())
    }

    fn forget(&mut self, side: Side) {
        self.seen.retain(|(of, _), _| *of != side);
        self.unmerged.retain(|(of, _), _| *of != side);
    }

    fn look(&mut self, side: Side, cluster: &Cluster, coverage: &mut Coverage) {
        let node = cluster.node(side);
        for leg in node.legs() {
            let Some(set) = status(node, leg.volume) else { continue };
            let Some(Some(member)) = set.members.get(usize::from(leg.member.0)) else { continue };
            let before = self.seen.get(&(side, leg)).copied();
            let mut seen = Seen { duty: member.duty, repaired: member.repaired, by_bitmap: false };
            if let Some(before) = before {
                seen.by_bitmap = before.by_bitmap;
                let silent = node.mirrors[usize::from(leg.member.0) - 1].silent_until(leg.volume);
                match (before.duty, seen.duty) {
                    (Duty::Full | Duty::Copying { .. }, Duty::Removed { .. }) => {
                        let silent = silent > cluster.now();
                        coverage.struck(if silent { "member-silent" } else { "member-removed" });
                    }
                    (Duty::Removed { lacks, .. }, Duty::Copying { .. }) => {
                        seen.by_bitmap = lacks.is_some();
                    }
                    (Duty::Copying { .. }, Duty::Full) => {
                        let by_bitmap = before.by_bitmap;
                        let label = ["member-copied", "member-copied-by-bitmap"];
                        coverage.struck(label[usize::from(by_bitmap)]);
                    }
                    _ => {}
                }
                if seen.repaired > before.repaired {
                    coverage.struck("member-read-repaired");
                }
            }
            self.seen.insert((side, leg), seen);
            let unmerged = set.unmerged != Bytes::ZERO;
            if self.unmerged.insert((side, leg.volume), unmerged) == Some(true) && !unmerged {
                coverage.struck("members-merged");
            }
        }
    }
}

/// What a process finds that starts now.
fn judge_records(side: Side, node: &Node) -> Result<(), Violation> {
    let forgot = node.legs().find_map(|leg| Some((leg, node.forgot(leg)?)));
    hold(forgot.is_none(), Promise::MembersAlike, || {
        format!("{side}: nothing recorded tells of {forgot:?}")
    })
}
