// SPDX-License-Identifier: Apache-2.0
//! Stories of a group that is restored from a copy while it is used on.

use super::named::{holding, name};
use super::*;
use crate::show::whole::NotWhole;
use helio_format::message::{Ack, Ranges};
use helio_units::MemberIndex;

fn restore(text: &str) -> Command {
    Command::RestoreSnapshot(name(text))
}

/// A pool with one copy, consistent or not, from which the volume differs in two chunks.
fn one_copy(consistent: bool) -> BeforeFound {
    let mut found = BeforeFound { records: found(&[0, 2]).records, slots: 2, ..holding(1) };
    found.copies[0].image.consistent = consistent;
    found
}

impl Desk {
    /// A primary that restores its only copy, of which everything that it needs is sound. It is listed as coming.
    fn rolling_back() -> Self {
        let mut desk = Self::leading(one_copy(true));
        desk.command(restore("copy-1"));
        assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Check { .. }));
        assert_eq!(desk.stages(PoolOutcome::Done), [CopyStage::Held, CopyStage::Coming]);
        desk
    }

    /// The peer follows, and has everything.
    fn join(&mut self) {
        self.tell(Event::Connected);
        let record = self.engine.record.superblock();
        let (lineage, head) = (record.lineage, record.head);
        let peer = Hello { role: Role::Secondary, wrote: false, alone: false, ..paris(false) };
        self.tell(Event::Message(Message::Hello(Hello { lineage, head, ..peer })));
        self.tell(Event::Message(Message::Copying(Copying::MarksEnd { trusted: true })));
        while !self.saves.is_empty() {
            self.save();
        }
        self.acknowledge();
    }

    /// The peer took up the last stream, and has all of it.
    fn acknowledge(&mut self) {
        let started = |message: &Message| match message {
            Message::Start(Start { stream, from, .. }) => Some((*stream, Sequence(from.0 - 1))),
            _ => None,
        };
        let (stream, head) = self.said.iter().rev().find_map(started).expect("a stream");
        let (received, completed, durable, ranges) = (head, head, head, Ranges::default());
        let ack = Ack { stream, received, completed, durable, ranges };
        self.tell(Event::Message(Message::Ack(ack)));
    }

    /// The pool ends a list like that. Returns how far each of its copies is.
    fn stages(&mut self, outcome: PoolOutcome) -> Vec<CopyStage> {
        let PoolOp::List { copies, .. } = self.pool(outcome) else { panic!("copies are listed") };
        copies.iter().map(|copy| copy.stage).collect()
    }
}

#[test]
fn a_restore_counts_once_marks_and_a_generation_of_its_own_are_durable() {
    let mut desk = Desk::rolling_back();
    let before = desk.engine.record.superblock().lineage.generation;
    let marks = desk.engine.standing.marks(&desk.engine.record);
    assert!([0, 2].iter().all(|n| marks.any_dirty(VolumeIndex(0), chunk(*n))));
    assert!(!marks.any_dirty(VolumeIndex(0), chunk(1)), "what does not differ is not copied");
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    assert!(desk.pools.is_empty(), "it is not listed before the record");
    let alone = desk.save();
    assert_eq!((alone.rollback, alone.alone), (None, true));
    assert!(alone.lineage.generation != before);
    assert_eq!(desk.save().rollback, Some(CopyNumber(2)));
    let stages = desk.stages(PoolOutcome::Done);
    assert_eq!(stages, [CopyStage::Held, CopyStage::Rollback(CopyNumber(1))]);
    assert!(desk.engine.view().is_rolling_back() && desk.refused.is_empty());
}

/// Nothing differs from the copy, so that a resync makes the copies equal before all of the restore is durable.
#[test]
fn a_restore_counts_although_the_peer_has_everything_before_it_is_recorded() {
    let mut desk = Desk::leading(BeforeFound { records: Vec::new(), slots: 0, ..one_copy(true) });
    desk.command(Command::Mode(Mode::Sync));
    desk.join();
    desk.command(restore("copy-1"));
    assert_eq!(desk.stages(PoolOutcome::Done), [CopyStage::Held, CopyStage::Coming]);
    desk.command(Command::Resync);
    assert!(desk.save().alone);
    desk.acknowledge();
    let wish = Reversal { full: false, last_copy: false };
    let refused = desk.engine.view().reversal_stake(wish).map_err(|refusal| refusal.code).err();
    assert_eq!(refused, Some("not-whole"), "the record of the restore would wait for ever");
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    assert_eq!(desk.save().rollback, Some(CopyNumber(2)));
}

/// The list of a failed pool may become durable late: the next start must not take it for a restore of which the metadata was lost.
#[test]
fn a_restore_that_the_pool_may_list_all_the_same_is_recorded_as_over() {
    let mut desk = Desk::rolling_back();
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    desk.save();
    desk.save();
    let listed = rolled_back();
    let mut lost = desk.engine.record.superblock().clone();
    assert_eq!(listed.standing(&lost).label(), "goes-on");
    lost.rollback = None;
    assert_eq!(listed.standing(&lost).label(), "unrecorded", "an older file knows nothing of it");
    desk.stages(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.refused, ["before-failed"]);
    let record = desk.save();
    assert_eq!((record.rollback, record.rollbacks_over), (None, CopyNumber(2)));
    assert_eq!(listed.standing(&record).label(), "over");
}

#[test]
fn no_disk_is_shipped_while_a_part_of_a_restore_is_on_no_member() {
    let mut desk = Desk::rolling_back();
    let whole =
        |desk: &Desk| desk.engine.view().whole_member(VolumeIndex(0)).map_err(NotWhole::label);
    assert_eq!(whole(&desk), Err("restore-begins"), "the marks are made");
    desk.command(Command::SeedBegin { at: 7 });
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    desk.save();
    desk.save();
    desk.stages(PoolOutcome::Done);
    assert_eq!(whole(&desk), Err("restoring"));
    desk.command(Command::SeedBegin { at: 7 });
    assert_eq!(desk.refused, ["not-whole", "not-whole"]);
    assert_eq!(whole(&Desk::leading(one_copy(true))), Ok(MemberIndex(0)));
}

#[test]
fn a_node_that_cannot_record_a_restore_does_not_begin_it() {
    let mut desk = Desk::rolling_back();
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    desk.tell(Event::SuperblockSaved { ok: false, sequence: 1 });
    assert_eq!(desk.stages(PoolOutcome::Done), [CopyStage::Held], "it is as if it never was");
    assert_eq!(desk.refused, ["metadata-failed"]);
    assert!(!desk.engine.view().is_rolling_back());
}

#[test]
fn a_node_whose_metadata_failed_before_answers_all_the_same() {
    let mut desk = Desk::rolling_back();
    desk.tell(Event::SuperblockSaved { ok: false, sequence: 1 });
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    assert_eq!(desk.stages(PoolOutcome::Done), [CopyStage::Held], "it is as if it never was");
    assert_eq!(desk.refused, ["metadata-failed"]);
}

#[test]
fn volumes_that_are_used_when_everything_is_checked_are_not_restored() {
    let mut desk = Desk::leading(one_copy(true));
    desk.command(restore("copy-1"));
    desk.tell(Event::Used { volumes: 1 });
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Check { .. }));
    assert_eq!(desk.stages(PoolOutcome::Done), [CopyStage::Held, CopyStage::Coming]);
    assert_eq!(desk.refused, ["in-use"]);
    assert_eq!(desk.stages(PoolOutcome::Done), [CopyStage::Held], "the cut has no moment");
    assert!(desk.engine.view().copies().held.len() == 1 && !desk.engine.view().is_rolling_back());
    desk.tell(Event::Used { volumes: 0 });
    desk.command(restore("copy-1"));
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Check { .. }), "it may be repeated");
}

#[test]
fn what_a_restore_cannot_be_made_of_is_refused() {
    let mut desk = Desk::leading(one_copy(true));
    desk.command(restore("two"));
    desk.command(restore("copy-1"));
    desk.command(restore("copy-1"));
    assert_eq!(desk.refused, ["unknown-snapshot", "busy"]);
    assert!(matches!(desk.pool(PoolOutcome::Damaged), PoolOp::Check { .. }));
    assert_eq!(desk.refused.pop(), Some("snapshot-damaged"));
    let mut inconsistent = Desk::leading(one_copy(false));
    inconsistent.command(restore("copy-1"));
    let mut secondary = Desk::following(one_copy(true));
    secondary.command(restore("copy-1"));
    assert_eq!(
        (inconsistent.refused, secondary.refused),
        (vec!["not-consistent"], vec!["not-primary"])
    );
}

/// A pool with one copy, and a rollback to it that a process before began.
fn rolled_back() -> BeforeFound {
    let mut found = one_copy(true);
    let stage = CopyStage::Rollback(CopyNumber(1));
    found.copies.push(KeptCopy { number: CopyNumber(2), stage, ..found.copies[0] });
    BeforeFound { last: CopyNumber(2), ..found }
}

/// What a node shows whose restore cannot go on, because its pool cannot be read. No disk failed.
fn assert_shows_the_restore(desk: &Desk) {
    let (view, fault) = (desk.engine.view(), desk.engine.view().fault().expect("it has failed"));
    assert_eq!(fault.what, "the rest of a restore cannot be written: I/O error (EIO)");
    assert!(fault.hint.contains("of the before-image file"), "{fault:?}");
    assert_eq!((view.failed_disk(), view.words().failed), (None, None));
    assert_eq!(view.suspect_text(), None);
}

#[test]
fn a_write_that_waits_for_a_restore_that_failed_is_no_fault_of_its_disk() {
    let mut desk = Desk::rolling_back();
    desk.store_all();
    desk.save();
    desk.save();
    desk.stages(PoolOutcome::Done);
    assert!(matches!(desk.pool(PoolOutcome::Failed(StoreFault::Io)), PoolOp::Load { .. }));
    for (request, fua) in [(1, false), (2, true)] {
        let extent = Extent::new(2 * CHUNK_BYTES, 4096);
        let operation = Operation::Zero { extent, punch: false, fua };
        let (id, volume) = (RequestId(request), VolumeIndex(0));
        desk.tell(Event::Request(Request { id, volume, operation }));
        let (answered, answer) = desk.answered.last().expect("it does not wait any more");
        let denied = Answer::Denied(Denial::Store(StoreFault::Unissued));
        assert_eq!((answered, answer), (&id, &denied));
        assert_shows_the_restore(&desk);
    }
}

#[test]
fn a_secondary_whose_items_wait_for_a_restore_that_failed_stops_and_names_no_disk() {
    let record = Superblock { head: Sequence(20), rollback: Some(CopyNumber(2)), ..record(true) };
    let mut desk = Desk::of(record, None, rolled_back());
    desk.meet();
    desk.start_in_order();
    desk.store_all();
    while !desk.saves.is_empty() {
        desk.save();
    }
    assert!(matches!(desk.pool(PoolOutcome::Failed(StoreFault::Io)), PoolOp::Load { .. }));
    desk.zero(21, 2);
    let stopped = (VolumeIndex(0), StoreFault::Unissued);
    assert_eq!(desk.engine.view().failed(), Some(stopped), "it applies no more");
    assert_shows_the_restore(&desk);
}
