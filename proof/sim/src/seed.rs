// SPDX-License-Identifier: Apache-2.0
//! A first sync by a shipped disk: the operator stops the peer, says so to the primary, copies its store region by
//! region while it is written to, puts the copy in place beside new metadata, and says that it is there. Now and then
//! it is the wrong disk.

use crate::driver::{Act, Driver};
use crate::faults::lacks;
use crate::oracle::Oracle;
use crate::scenario::{FOREIGN, span};
use core::time::Duration;
use helio_engine::{Command, CommandId};
use helio_format::lineage::Lineage;
use helio_format::snapshot::SnapshotAct;
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Happening, Side, Stamp};
use helio_units::{CopyName, Generation, Role, VolumeIndex};

/// Stamps of a disk that was never copied from anywhere.
const WRONG: u64 = FOREIGN | 1 << 58;
/// Blocks copied at a time.
const PIECE: usize = 16;

/// Whether nothing is lost with what a node holds: it follows, and the other is where its history went on, and has
/// what it recorded that of.
fn is_expendable(side: Side, cluster: &Cluster) -> bool {
    let known = |record: &Superblock| {
        let ours = cluster.node(side.other()).superblock().map(|other| other.lineage);
        let of = |lineage: Lineage| {
            lineage.generation == record.lineage.generation
                || lineage.ancestors().iter().any(|a| a.generation == record.lineage.generation)
        };
        record.role == Role::Secondary && !record.wrote && ours.is_some_and(of)
    };
    let blank = |record: &Superblock| record.lineage.generation == Generation::NONE;
    let node = cluster.node(side);
    let other = side.other();
    let other_is_whole = cluster.node(other).has_its_disk() && !lacks(cluster, other);
    !node.serves()
        && other_is_whole
        && node.superblock().is_none_or(|record| blank(record) || known(record))
}

/// How far the operator is.
#[derive(Debug, Default)]
pub(crate) struct Shipping {
    /// The copy, and the places that are not copied yet, in the order in which they will be.
    copy: Vec<Vec<Stamp>>,
    left: Vec<(usize, usize)>,
    /// The primary's word that it marks what changes.
    begun: Option<CommandId>,
    /// Its word that the disk is the right one.
    ended: Option<CommandId>,
    under_way: bool,
    /// The disk lies where it belongs, and nobody touched it since.
    placed: bool,
    /// It was called the wrong one.
    refused: bool,
    /// The volumes are restored from a snapshot right before.
    restores: bool,
}

impl Driver {
    /// The operator begins.
    pub(crate) fn ship(&mut self, from: Side, cluster: &mut Cluster, oracle: &mut Oracle) {
        let to = from.other();
        let busy = self.shipping.under_way || self.resumed.is_some();
        if busy || !is_expendable(to, cluster) {
            return;
        }
        self.coverage.struck("seed");
        if cluster.node(to).is_up() {
            cluster.kill(to, false);
        }
        self.shipping = Shipping { under_way: true, ..Shipping::default() };
        Side::BOTH.into_iter().for_each(|side| self.forget_image(side));
        // Who copies a disk makes it slow for others.
        if self.dice.chance(1, 2) {
            let hit = self.hit(from, cluster);
            hit.on(cluster.node_mut(from)).for_each(|disk| disk.slow_down(40));
            self.later(cluster, Act::MendDisk(from));
        }
        // Now and then a restore from this snapshot is not written yet when the disk is to be shipped.
        self.shipping.restores = self.copies && self.dice.chance(1, 2);
        if self.shipping.restores {
            let name = CopyName::new(&format!("s{}", self.commands)).expect("a name");
            let create = Command::Snapshot(SnapshotAct::Create(name));
            self.command(cluster, oracle, from, create);
        }
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(2));
        let pause = span(&mut self.dice, least, most);
        self.at(cluster.now() + pause, Act::ShipBegin(from));
    }

    /// The primary, whose peer is away, is told to mark what changes from here on.
    pub(crate) fn ship_begin(&mut self, from: Side, cluster: &mut Cluster, oracle: &mut Oracle) {
        let held = cluster.node(from).engine.as_ref().map(|engine| engine.view().copies().held);
        let name = held.iter().flatten().find_map(|held| held.copy.name());
        if let Some(name) = name.filter(|_| self.shipping.restores && oracle.waiting() == 0) {
            oracle.is_rewritten();
            self.command(cluster, oracle, from, Command::RestoreSnapshot(name));
        }
        let at = cluster.now().0 / 1_000_000;
        let begun = self.command(cluster, oracle, from, Command::SeedBegin { at });
        self.shipping.begun = Some(begun);
        let (least, most) = (Duration::from_millis(50), Duration::from_secs(6));
        let patience = span(&mut self.dice, least, most);
        self.at(cluster.now() + patience, Act::ShipPlace(from.other()));
    }

    /// A command ended, or will not.
    pub(crate) fn shipping_heard(&mut self, cluster: &Cluster, happening: &Happening) {
        if let Happening::Died { .. } = happening {
            (self.shipping.begun, self.shipping.ended) = (None, None);
        }
        let Happening::Commanded { side, id, result } = happening else { return };
        if self.shipping.ended == Some(*id) {
            self.shipping.ended = None;
            self.shipping.refused = result.as_ref().is_err_and(|refusal| !refusal.retry);
        }
        if self.shipping.begun != Some(*id) || result.is_err() {
            return;
        }
        self.shipping.begun = None;
        for volume in 0..cluster.node(*side).config.volumes.len() {
            let blocks = cluster.node(*side).disk.live(VolumeIndex(volume as u16)).len();
            self.shipping.copy.push(vec![Stamp::ZEROS; blocks]);
            let pieces = (0..blocks.div_ceil(PIECE)).map(|n| (volume, n * PIECE));
            self.shipping.left.extend(pieces);
        }
        for at in (1..self.shipping.left.len()).rev() {
            let other = self.dice.below(at as u64 + 1) as usize;
            self.shipping.left.swap(at, other);
        }
        // A snapshot of the store is taken at once; a copy of it takes its time.
        let most = if self.dice.chance(1, 2) { usize::MAX } else { 1 };
        self.ship_pieces(*side, most, cluster);
        self.at(cluster.now(), Act::ShipCopy(*side));
    }

    fn ship_pieces(&mut self, from: Side, most: usize, cluster: &Cluster) {
        for _ in 0..most {
            let Some((volume, first)) = self.shipping.left.pop() else { return };
            let live = cluster.node(from).disk.live(VolumeIndex(volume as u16));
            let end = (first + PIECE).min(live.len());
            self.shipping.copy[volume][first..end].copy_from_slice(&live[first..end]);
        }
    }

    /// Copies a little more of what the primary's store holds now.
    pub(crate) fn ship_copy(&mut self, from: Side, cluster: &Cluster) {
        if self.shipping.left.is_empty() {
            return;
        }
        let most = 1 + self.dice.below(6) as usize;
        self.ship_pieces(from, most, cluster);
        let (least, most) = (Duration::from_micros(50), Duration::from_millis(120));
        let pause = span(&mut self.dice, least, most);
        self.at(cluster.now() + pause, Act::ShipCopy(from));
    }

    /// Puts the copy in place, beside metadata that knows nothing.
    pub(crate) fn ship_place(&mut self, to: Side, cluster: &mut Cluster) {
        let waits = cluster.node(to.other()).superblock().is_some_and(|r| r.seeding != 0);
        // Nobody replaces the only node that remembers that the other one's metadata was lost.
        let remembers = self.missing[to.other().index()].is_some();
        if self.shipping.copy.is_empty() || !waits || remembers || !is_expendable(to, cluster) {
            self.shipping = Shipping::default();
            self.start(to, cluster);
            return;
        }
        if !self.shipping.left.is_empty() {
            self.at(cluster.now() + Duration::from_millis(50), Act::ShipPlace(to));
            return;
        }
        if cluster.node(to).is_up() {
            cluster.kill(to, false);
        }
        let copy = core::mem::take(&mut self.shipping.copy);
        // No two wrong disks are alike: only a sample of a disk is compared.
        let wrong = WRONG | (cluster.now().0 / 1_000_000) << 20;
        let wrong = self.dice.chance(1, 6).then_some(wrong);
        cluster.set_up_with(to, |place| {
            let right = copy[usize::from(place.volume.0)][place.block as usize];
            wrong.map_or(right, |salt| Stamp(salt | u64::from(place.block)))
        });
        self.shipping.under_way = false;
        self.shipping.placed = true;
        self.start(to, cluster);
    }

    /// The disk is not what was shipped any more, or never will be.
    pub(crate) fn shipping_over(&mut self) {
        self.shipping = Shipping::default();
    }

    /// What was planned is forgotten: a disk that is not in place never will be.
    pub(crate) fn shipping_planned_no_more(&mut self) {
        if self.shipping.under_way {
            self.shipping_over();
        }
    }

    /// A primary waits for its disk. Returns what the operator says to it, if anything.
    pub(crate) fn await_disk(&mut self, side: Side, cluster: &mut Cluster, oracle: &mut Oracle) {
        if self.shipping.under_way || self.shipping.ended.is_some() {
            return;
        }
        if !self.shipping.placed || core::mem::take(&mut self.shipping.refused) {
            self.command(cluster, oracle, side, Command::FullResync);
            return;
        }
        let ended = self.command(cluster, oracle, side, Command::SeedEnd);
        self.shipping.ended = Some(ended);
    }
}
