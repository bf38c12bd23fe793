// SPDX-License-Identifier: Apache-2.0
//! What reaches a node from behind: its clock, its connections' order, its files and disks in older or foreign hands.

use crate::driver::{Act, Driver};
use crate::faults::{Fault, lacks};
use crate::scenario::{FOREIGN, span};
use core::time::Duration;
use helio_engine::Engine;
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Restore, Side, Stamp, Suspended};
use helio_units::{State, VolumeIndex};

/// Stamps of a disk that belongs to somebody else.
const STRANGER: u64 = FOREIGN | 1 << 59;

impl Driver {
    pub(crate) fn tamper(&mut self, fault: Fault, cluster: &mut Cluster) {
        match fault {
            Fault::ClockLeap(side) => {
                let (least, most) = (Duration::from_millis(1), Duration::from_secs(60));
                let by = span(&mut self.dice, least, most);
                // A lease rests on clocks that count at the right speed; there, a machine sleeps and its clock goes on.
                if cluster.node(side).config.hold.is_zero() {
                    cluster.leap_clock(side, by);
                } else if cluster.node(side).is_up() && !cluster.node(side).hangs(cluster.now()) {
                    cluster.hang(side, cluster.now() + by.min(Duration::from_secs(8)));
                }
            }
            Fault::LateClose => self.delay_acceptance(cluster),
            Fault::RollBack(side) => self.put_back(side, Restore::Machine, fault, cluster),
            Fault::Suspend(side) => self.go_back(side, cluster),
            Fault::RestoreMetadata(side) => {
                self.put_back(side, Restore::Metadata, fault, cluster);
            }
            Fault::LoseMetadata { side, zeroed } => {
                self.lose_metadata(side, zeroed, fault, cluster)
            }
            Fault::LoseBefore { side, zeroed } => {
                let power = self.dice.chance(1, 2);
                self.kill(side, power, cluster);
                self.at(cluster.now(), Act::LoseBefore { side, zeroed });
            }
            Fault::WrongDisk(side) => {
                // Where both nodes lose what they had, nobody is left who has it.
                let only = *self.tampered.get_or_insert(side) == side;
                // A peer that has just begun to be copied to has no image of its own any more, whatever its record says.
                if self.copies(cluster)
                    || Side::BOTH.into_iter().any(|side| wears_out(cluster, side))
                    || self.lied
                    || !only
                    || !Side::BOTH.into_iter().all(|side| is_sound(cluster, side))
                {
                    return;
                }
                self.kill(side, true, cluster);
                if !cluster.node(side).is_up() {
                    self.coverage.struck(fault.class().1);
                    self.forget_image(side);
                    self.taken_out[side.index()] = Some(cluster.machine_image(side));
                    cluster.swap_disk(side, |place| {
                        Stamp(STRANGER | u64::from(place.volume.0) << 32 | u64::from(place.block))
                    });
                }
            }
            _ => {}
        }
    }

    /// The operator puts the right disk back where the status of a node asks for it. Returns whether that was done.
    pub(crate) fn put_right_disk_back(&mut self, side: Side, cluster: &mut Cluster) -> bool {
        let node = cluster.node(side);
        let engine = node.engine.as_ref().filter(|_| !node.hangs(cluster.now()));
        let fault = engine.and_then(|engine| engine.view().fault());
        let asks = fault.is_some_and(|fault| fault.hint.starts_with("put the right disk back on"));
        let may = asks && self.resumed.is_none();
        let Some(disks) = self.taken_out[side.index()].take_if(|_| may) else { return false };
        cluster.kill(side, false);
        cluster.restore(side, &disks, Restore::Disks);
        self.start(side, cluster);
        true
    }

    /// The image of a node does not fit its disks any more.
    pub(crate) fn forget_image(&mut self, side: Side) {
        self.images[side.index()] = None;
        self.suspended[side.index()] = None;
    }

    /// The before-image file of a node that is down is lost, and its peer's copy is whole.
    pub(crate) fn lose_before(&mut self, side: Side, zeroed: bool, cluster: &mut Cluster) {
        if self.lied
            || cluster.node(side).is_up()
            || !is_sound(cluster, side.other())
            || wears_out(cluster, side.other())
            || *self.tampered.get_or_insert(side) != side
        {
            return;
        }
        if cluster.node(side).before.kept().is_some() {
            self.coverage.struck(if zeroed { "before-zeroed" } else { "before-missing" });
        }
        cluster.lose_before(side, zeroed);
    }

    /// The metadata file of a node is lost, and its peer has a record of it.
    fn lose_metadata(&mut self, side: Side, zeroed: bool, fault: Fault, cluster: &mut Cluster) {
        let remembers = |record: &Superblock| record.remembers > 0;
        if self.lied
            || self.copies(cluster)
            || !Side::BOTH.into_iter().all(|side| is_sound(cluster, side))
            || Side::BOTH.into_iter().any(|side| wears_out(cluster, side))
            || !cluster.node(side.other()).superblock().is_some_and(remembers)
            || *self.tampered.get_or_insert(side) != side
        {
            return;
        }
        let power = self.dice.chance(1, 2);
        self.kill(side, power, cluster);
        if !cluster.node(side).is_up() {
            self.coverage.struck(fault.class().1);
            self.forget_image(side);
            self.missing[side.index()] = Some(cluster.node(side).metadata.backup());
            cluster.lose_metadata(side, zeroed);
            self.promote_blank(side, cluster);
        }
    }

    /// Now and then an operator promotes the node whose metadata is lost, without force.
    fn promote_blank(&mut self, side: Side, cluster: &Cluster) {
        let (least, most) = (Duration::from_millis(5), Duration::from_secs(6));
        for _ in 0..self.dice.below(4) {
            let when = cluster.now() + span(&mut self.dice, least, most);
            self.at(when, Act::Unasked(side));
        }
    }

    /// Sometimes the state directory is found again, as long as nothing was decided without it.
    pub(crate) fn find_metadata(&mut self, side: Side, cluster: &mut Cluster) {
        let record = cluster.node(side).metadata.says();
        if record.is_some_and(|record| record.discarded || record.lineage.generation.number > 0) {
            self.missing[side.index()] = None;
        }
        if self.missing[side.index()].is_none() || !self.dice.chance(1, 4) {
            return;
        }
        if cluster.node(side).is_up() {
            self.kill(side, false, cluster);
        }
        let Some(bytes) = self.missing[side.index()].take_if(|_| !cluster.node(side).is_up())
        else {
            return;
        };
        cluster.find_metadata(side, bytes);
        self.start(side, cluster);
    }

    /// Whether a copy out of order has begun, or may have: of one for whom nothing is kept, that it begins may still be
    /// on its way.
    fn copies(&self, cluster: &Cluster) -> bool {
        let serves_in = |state| {
            let engines = Side::BOTH.map(|side| cluster.node(side).engine.as_ref());
            engines
                .into_iter()
                .flatten()
                .any(|e| e.view().is_primary() && e.view().state() == state)
        };
        serves_in(State::Syncing)
            || serves_in(State::CatchingUp)
            || self.keeps_nothing && !serves_in(State::Replicating)
    }

    /// The first time an image of the machine is taken, the second time it is put back while the node is down.
    fn put_back(&mut self, side: Side, what: Restore, fault: Fault, cluster: &mut Cluster) {
        // Whoever goes back to an image that was no consistent one, while the other is gone too, has lost all there was.
        if self.lied || !Side::BOTH.into_iter().all(|side| is_sound(cluster, side)) {
            return;
        }
        if self.images[side.index()].is_some() && self.copies(cluster) {
            return;
        }
        let Some(image) = self.images[side.index()].take() else {
            self.images[side.index()] = Some(cluster.machine_image(side));
            return;
        };
        // An older metadata that the other node never recorded to be older cannot be told from the newest, once that node
        // went down, too: a limit that docs/reference/recovery.md names.
        let other = cluster.node(side.other());
        let remembered = other.superblock().map_or(0, |record| record.remembers);
        if remembered <= image.changes() || image.changes() == 0 {
            return;
        }
        // Where both nodes go back, nobody is left who remembers; nor where the other's disk is gone and nobody noticed yet.
        if wears_out(cluster, side.other()) || *self.tampered.get_or_insert(side) != side {
            return;
        }
        self.kill(side, true, cluster);
        if !cluster.node(side).is_up() {
            cluster.restore(side, &image, what);
            self.coverage.struck(fault.class().1);
        }
    }

    /// The first time a secondary's machine is suspended while it goes on, as its hypervisor does for a snapshot; the
    /// second time it goes back.
    fn go_back(&mut self, side: Side, cluster: &mut Cluster) {
        // A lease rests on clocks that count, and this machine's does not.
        let counts = !cluster.node(side).config.hold.is_zero();
        // A hook that was asked ends in the life in which it was asked.
        let asks = cluster.node(side).config.hook_before_sync;
        let sound = Side::BOTH.into_iter().all(|side| is_sound(cluster, side));
        if self.lied || counts || asks || !sound || self.resumed.is_some() {
            return;
        }
        let Some(suspended) = self.suspended[side.index()].take() else {
            let standing =
                cluster.node(side).engine.as_ref().map(|engine| engine.view().standing());
            if standing != Some("secondary") || self.dice.chance(1, 8) {
                return;
            }
            let suspended = cluster.suspend(side);
            let most = if suspended.is_some() { 400 } else { 20 };
            self.suspended[side.index()] = suspended;
            self.shortly(Fault::Suspend(side), Duration::from_millis(most), cluster);
            return;
        };
        if !is_noticed(cluster, side, &suspended) {
            if self.dice.chance(7, 8) {
                self.suspended[side.index()] = Some(suspended);
                self.shortly(Fault::Suspend(side), Duration::from_millis(400), cluster);
            }
            return;
        }
        if self.copies(cluster)
            || wears_out(cluster, side.other())
            || cluster.node(side.other()).hangs(cluster.now())
            || *self.tampered.get_or_insert(side) != side
        {
            return;
        }
        self.kill(side, true, cluster);
        if !cluster.node(side).is_up() {
            self.coverage.struck("resumed");
            self.forget_image(side);
            self.resumed = Some(side);
            cluster.resume(side, &suspended);
        }
    }

    /// A node restarts, and its disks have other blocks.
    pub(crate) fn change_blocks(&mut self, side: Side, cluster: &mut Cluster) {
        self.kill(side, false, cluster);
        if !cluster.node(side).is_up() {
            self.forget_image(side);
            for disk in cluster.node_mut(side).disks_mut() {
                disk.set_block(if disk.block() == 512 { 4096 } else { 512 });
            }
        }
    }

    pub(crate) fn delay_acceptance(&mut self, cluster: &mut Cluster) {
        let (least, most) = (Duration::from_micros(50), Duration::from_secs(3));
        let by = span(&mut self.dice, least, most);
        cluster.delay_acceptance(by);
    }
}

/// Whether the peer of a machine that goes back can detect it. As with older metadata, the peer must know more than the image: its
/// record does, or the process that leads was told more by that machine. A primary that was told nothing lets its cursors begin at
/// the head.
fn is_noticed(cluster: &Cluster, side: Side, suspended: &Suspended) -> bool {
    let other = cluster.node(side.other());
    let knows = other.engine.as_ref().is_some_and(|engine| {
        engine.view().is_primary() && engine.view().told_durable() > suspended.head()
    });
    let remembered = other.superblock().map_or(0, |record| record.remembers);
    let told = remembered > suspended.changes() && suspended.changes() > 0;
    knows || told
}

/// Whether a node is about to give its own disk up for its peer's copy, or has done so.
fn wears_out(cluster: &Cluster, side: Side) -> bool {
    cluster.node(side).disk.is_failing() || lacks(cluster, side)
}

/// Whether a node's record says that its copy is one, whichever of those it may find at its next start. What a failed
/// save left in the file, nobody knows.
fn is_sound(cluster: &Cluster, side: Side) -> bool {
    let node = cluster.node(side);
    let failed =
        |engine: &Engine| engine.view().status(node.clock.read(cluster.now())).fault.is_some();
    if node.engine.as_ref().is_none_or(failed) {
        return false;
    }
    // A disk that is silent may be given up for the other node's.
    let silent = |at| node.disk.silent_until(VolumeIndex(at as u16)) > cluster.now();
    if (0..node.config.volumes.len()).any(silent) {
        return false;
    }
    let took_part = |r: Superblock| r.consistent && r.lineage.generation.number > 0;
    node.has_its_disk() && node.superblock().is_some() && node.records().all(took_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use helio_engine::{Command, CommandId, Operation};
    use helio_netmodel::Dice;
    use helio_twin::{BLOCK, Breakage};
    use helio_units::{Extent, Mode, Payload, RequestId};

    fn pass(cluster: &mut Cluster) {
        cluster.run_until(cluster.now() + Duration::from_secs(20));
    }

    fn promote(cluster: &mut Cluster, id: u64) {
        cluster.command(Side::Paris, CommandId(id), Command::Promote { force: true });
        pass(cluster);
        assert!(cluster.node(Side::Paris).serves(), "promotion {id}");
    }

    fn write(cluster: &mut Cluster, id: u64) {
        let (volume, extent) = (VolumeIndex(0), Extent::new(0, BLOCK.0));
        let operation = Operation::Write { extent, payload: Payload::default(), fua: false };
        cluster.submit(Side::Paris, RequestId(id), volume, operation, Stamp(id));
        pass(cluster);
    }

    #[test]
    fn a_primary_notices_that_a_machine_goes_back_by_what_it_was_told_alone() {
        let dice = Dice::new(1);
        let mut scenario = Scenario::new(&dice);
        (scenario.config.mode, scenario.config.hold) = (Mode::Sync, Duration::ZERO);
        let mut cluster = scenario.cluster(&dice, false);
        Side::BOTH.iter().for_each(|side| assert!(cluster.start(*side).is_ok(), "{side}"));
        promote(&mut cluster, 1);
        let suspend = |cluster: &Cluster| cluster.suspend(Side::Lyon).expect("it is at rest");
        let before = suspend(&cluster);
        write(&mut cluster, 2);
        assert!(is_noticed(&cluster, Side::Lyon, &before), "it told that it has the write");
        cluster.break_link(Breakage::Silent);
        write(&mut cluster, 3);
        let behind = suspend(&cluster);
        cluster.kill(Side::Paris, false);
        assert!(cluster.start(Side::Paris).is_ok(), "it starts");
        promote(&mut cluster, 4);
        let status = |engine: &Engine| engine.view().status(cluster.now()).cursors.peer_durable;
        let cursor = cluster.node(Side::Paris).engine.as_ref().map(status);
        assert!(cursor > Some(behind.head()), "its cursors begin at its head");
        assert!(!is_noticed(&cluster, Side::Lyon, &behind), "it was told nothing");
    }
}
