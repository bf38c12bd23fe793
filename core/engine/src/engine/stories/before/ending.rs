// SPDX-License-Identifier: Apache-2.0
//! How a keeping ends: dropped, restored, or of no use any more.

use super::*;

#[test]
fn a_restore_says_first_that_the_image_is_neither_and_then_which_it_is() {
    let mut desk = Desk::preserving(3);
    desk.tell(Event::Disconnected { why: String::from("cut") });
    desk.command(Command::Promote { force: true });
    assert_eq!(desk.refused, ["needs-sync"]);
    desk.command(Command::Restore { force: true });
    desk.store_all();
    let neither = desk.save();
    assert!(neither.marks_void && !neither.consistent && !neither.clean);
    desk.restore(&[3]);
    let kept = desk.save();
    assert_eq!((kept.lineage, kept.consistent, kept.head), (generation(1), true, Sequence(7)));
    assert!(kept.marks_void && !kept.sure, "nothing is known of what the peer lacks");
    assert!(desk.saves.is_empty(), "a primary would write before the keeping has ended");
    desk.unlist(PoolOutcome::Done);
    let promoted = desk.save();
    assert_eq!((promoted.role, promoted.lineage.generation.number), (Role::Primary, 2));
    assert!(promoted.marks_void, "it stays so until marks of everything are kept");
    assert!(desk.engine.view().marks().dirty_bytes() == SIZE);
}

#[test]
fn a_restored_image_counts_as_clean_if_the_copy_was_clean_when_it_was_kept() {
    for clean in [false, true] {
        let mut desk = Desk::keeping_of(Superblock { clean, ..record(true) }, None);
        desk.restoring();
        desk.save();
        desk.restore(&[]);
        assert_eq!(desk.save().clean, clean, "a crash leaves the head of the image unknown");
    }
}

#[test]
fn a_restore_discards_the_items_that_wait_for_room() {
    let mut desk = Desk::short();
    desk.restoring();
    desk.store_all();
    assert!(desk.save().marks_void);
    desk.restore(&[0, 1]);
    assert_eq!(desk.save().head, Sequence(7));
    desk.unlist(PoolOutcome::Done);
    assert_eq!(desk.save().role, Role::Primary);
    assert!(desk.engine.view().is_primary() && desk.ios.is_empty(), "{:?}", desk.ios);
}

#[test]
fn a_restore_that_failed_is_met_as_unproven() {
    let mut desk = Desk::preserving(3);
    desk.restoring();
    desk.save();
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    let source = Hello { metadata: 9, ..paris(true) };
    let mut facts = helio_recovery::facts_of(&source, &desk.engine.view().hello());
    (facts.same_memory, facts.line_from_received, facts.line_from_durable) = (true, true, true);
    assert_eq!(helio_recovery::decide(&facts).label, "unproven");
}

#[test]
fn a_damaged_keeping_is_not_restored() {
    let mut desk = Desk::preserving(3);
    desk.restoring();
    desk.save();
    desk.pool(PoolOutcome::Damaged);
    assert_eq!(desk.refused, ["restore-failed"]);
    assert!(!desk.engine.view().is_primary());
}

#[test]
fn a_flush_that_fails_behind_a_restore_makes_the_copy_suspect() {
    let mut desk = Desk::preserving(7);
    desk.restoring();
    desk.save();
    desk.put_back(&[7]);
    assert_eq!(desk.store(StoreOutcome::Failed(StoreFault::Io)), StoreOp::Flush);
    assert_eq!(desk.refused, ["restore-failed"]);
    assert_eq!(desk.save().suspect, 1);
    assert!(desk.engine.local.suspect().touches(VolumeIndex(0), chunk(7)));
}

#[test]
fn a_pool_that_fails_stops_applying_and_is_restored_from_all_the_same() {
    let mut desk = Desk::preserving(3);
    desk.zero(22, 5);
    let (io, _) = desk.ios.remove(0);
    let payload = desk.payload(chunk(5));
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Read { payload, zero: false } });
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert!(desk.gone && !desk.changes(), "it follows no more");
    desk.restoring();
    assert!(desk.save().marks_void);
    desk.restore(&[3]);
    assert!(desk.save().consistent);
    assert_eq!(desk.save().role, Role::Primary);
    assert!(desk.pools.is_empty() && desk.engine.view().is_primary());
}

#[test]
fn chunks_beyond_their_volume_make_what_is_kept_damaged() {
    for (last, refused) in [(15, None), (16, Some("no-safe-copy"))] {
        let mut desk = Desk::finding_in(record(false), last);
        desk.command(Command::Restore { force: true });
        assert_eq!(desk.refused.first().copied(), refused);
        assert_eq!(desk.saves.is_empty(), refused.is_some());
    }
}

#[test]
fn the_keeping_ends_behind_the_record_that_says_consistent() {
    let mut desk = Desk::preserving(3);
    desk.item(22, ItemKind::Consistent, Extent::default());
    desk.store_all();
    assert!(desk.pools.is_empty(), "it ended before the record was durable");
    assert!(desk.save().consistent);
    desk.unlist(PoolOutcome::Done);
}

/// A cut that is shipped ends at its own position, which may be that of what is kept: what the two hold differs where a change was
/// denied.
#[test]
fn the_tenure_tells_a_restore_from_an_update_that_ends_where_what_is_kept_lies() {
    let mut updated = Desk::preserving(3);
    let before = updated.engine.view().tenure();
    updated.item_after(7, 22, ItemKind::Consistent, Extent::default());
    updated.store_all();
    let ended = updated.save();
    assert_eq!((ended.lineage, ended.consistent, ended.head), (generation(1), true, Sequence(7)));
    assert_eq!(ended.tenure, before);
    let mut restored = Desk::preserving(3);
    restored.restoring();
    restored.store_all();
    assert_eq!(restored.save().tenure, before);
    restored.restore(&[3]);
    let kept = restored.save();
    assert_eq!((kept.lineage, kept.consistent, kept.head), (generation(1), true, Sequence(7)));
    assert_eq!(kept.tenure, before + 1);
}

#[test]
fn another_disk_is_recorded_once_the_image_kept_of_the_one_before_has_ended() {
    let mut desk = Desk::keeping();
    desk.zero(21, 3);
    desk.preserve();
    desk.store(StoreOutcome::Failed(StoreFault::Io));
    desk.tell(Event::Disconnected { why: String::from("cut") });
    desk.command(Command::Replace { volume: VolumeIndex(0), identity: 7, block: 512 });
    assert!(desk.saves.is_empty(), "the kept chunks are not part of the new disk's image");
    desk.unlist(PoolOutcome::Done);
    let record = desk.save();
    assert!(!record.consistent && record.marks_void);
}

/// A start arrived, and the copy that is cut before it waits for a flush when the peer is lost and a promotion begins.
fn promoting_during_a_cut() -> Desk {
    let mut desk = Desk::new(None);
    desk.meet();
    desk.start(true);
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { .. }));
    desk.list(CopyStage::Coming);
    desk.tell(Event::Disconnected { why: String::from("cut") });
    desk.command(Command::Promote { force: true });
    assert!(desk.saves.is_empty() && desk.ios.len() == 1, "the cut is under way");
    desk
}

#[test]
fn a_promotion_waits_for_a_cut_under_way_and_nothing_is_kept_behind_it() {
    for ends in [PoolOutcome::Done, PoolOutcome::Failed(StoreFault::Io)] {
        let mut desk = promoting_during_a_cut();
        desk.store_all();
        desk.list(CopyStage::Held);
        assert!(desk.saves.is_empty(), "a primary keeps nothing");
        desk.unlist(ends);
        assert_eq!(desk.save().role, Role::Primary);
        let extent = Extent::new(5 * CHUNK_BYTES, 4096);
        let operation = Operation::Zero { extent, punch: false, fua: false };
        let volume = VolumeIndex(0);
        desk.tell(Event::Request(Request { id: RequestId(1), volume, operation }));
        assert!(desk.changes(), "what clients write is neither held up nor refused");
    }
}

#[test]
fn a_flush_that_fails_in_a_cut_ends_a_promotion_and_makes_the_copy_suspect() {
    let mut desk = promoting_during_a_cut();
    assert_eq!(desk.store(StoreOutcome::Failed(StoreFault::Io)), StoreOp::Flush);
    desk.unlist(PoolOutcome::Done);
    assert_eq!(desk.refused.len(), 1);
    assert_eq!(desk.save().suspect, 1);
    assert!(!desk.engine.view().is_primary());
}

/// What the disk lost does not come back because the pool fails as well.
#[test]
fn a_flush_that_fails_in_a_cut_counts_although_the_pool_fails_behind_it() {
    let mut desk = promoting_during_a_cut();
    assert_eq!(desk.store(StoreOutcome::Failed(StoreFault::Io)), StoreOp::Flush);
    desk.unlist(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.save().suspect, 1);
    assert!(!desk.engine.view().is_primary());
}

/// The image is consistent again, item 23 changes a chunk that is not preserved, and the record is being made.
fn ending(bound: Option<Bytes>) -> Desk {
    let mut desk = Desk::keeping_of(record(true), bound);
    for (sequence, chunk) in [(21, 3), (22, 4)] {
        desk.zero(sequence, chunk);
        desk.preserve();
    }
    desk.store_all();
    desk.item(23, ItemKind::Consistent, Extent::default());
    desk.store_all();
    desk.zero(24, 5);
    desk
}

/// Its items would be applied to an image that the record calls consistent a moment later.
#[test]
fn a_copy_that_begins_before_the_end_of_the_one_before_is_recorded_does_not_go_on_with_it() {
    for marker_waits in [true, false] {
        let mut desk = if marker_waits { Desk::keeping() } else { ending(None) };
        if marker_waits {
            desk.zero(21, 3);
            desk.item(22, ItemKind::Consistent, Extent::default());
            assert!(desk.saves.is_empty(), "an item before the marker is not applied yet");
        }
        let next = if marker_waits { 23 } else { 25 };
        desk.start_at(next, true);
        desk.zero(next, 9);
        if marker_waits {
            desk.preserve();
            desk.store_all();
        }
        assert!(desk.save().consistent);
        let changes = |op: &StoreOp| op.changes().is_some_and(|extent| extent.overlaps(chunk(9)));
        let mut rounds = 0;
        while desk.saves.is_empty() {
            assert!(!desk.ios.iter().any(|(_, op)| changes(op)), "the record says consistent");
            if desk.pools.is_empty() {
                desk.store_all();
            } else {
                desk.pool(PoolOutcome::Done);
            }
            rounds += 1;
            assert!(rounds < 20, "the start is not recorded");
        }
        assert!(!desk.save().consistent, "its start is recorded before its first item");
    }
}

#[test]
fn a_keeping_whose_end_cannot_be_recorded_holds_up_nothing() {
    let mut desk = ending(None);
    assert!(desk.save().consistent);
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { .. }));
    desk.unlist(PoolOutcome::Failed(StoreFault::Io));
    assert!(desk.changes() && !desk.gone, "{:?}", desk.pools);
    desk.store_all();
    desk.tell(Event::Disconnected { why: String::from("cut") });
    desk.command(Command::Promote { force: true });
    desk.store_all();
    assert_eq!(desk.save().role, Role::Primary);
}

#[test]
fn what_is_refused_while_the_keeping_ends_is_applied_behind_its_end() {
    let mut desk = ending(Some(Bytes(2 * RECORD_BYTES)));
    assert!(!desk.changes(), "there is no room to preserve a third chunk");
    assert!(desk.save().consistent);
    desk.unlist(PoolOutcome::Done);
    assert_eq!(desk.no_room(), None);
    assert!(desk.changes() && !desk.gone);
}

#[test]
fn a_restore_ends_with_its_promotion_although_writes_wait_for_a_hot_extent() {
    let record = Superblock { sizes: [Bytes::mib(8).0].into(), ..record(false) };
    let mut desk = Desk::sized((Bytes::mib(8), 1), record, None, found(&[0, 64]));
    desk.restoring();
    desk.store_all();
    desk.save();
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Check { .. }));
    desk.load();
    assert!(matches!(desk.store(StoreOutcome::Done), StoreOp::Write { .. }));
    let flushed = desk.store(StoreOutcome::Failed(StoreFault::Io));
    assert_eq!(flushed, StoreOp::Flush, "it would make the slot free");
    assert_eq!(desk.refused.len(), 1, "the promotion is refused");
    assert!(desk.ios.is_empty() && desk.pools.is_empty());
    assert!(desk.engine.keeper.is_idle() && !desk.engine.local.works_on(None));
    assert_eq!(desk.save().suspect, 1);
    desk.command(Command::Accept { volume: VolumeIndex(0) });
    assert!(!desk.ios.is_empty(), "the copy may be accepted");
}

#[test]
fn a_restore_whose_promotion_has_ended_is_not_recorded() {
    let mut desk = Desk::preserving(3);
    desk.restoring();
    desk.save();
    desk.put_back(&[3]);
    let Engine { standing, keeper, record, turn, .. } = &mut desk.engine;
    standing.not_promoted(
        Refusal::new("restore-failed", "it ends", "repeat"),
        keeper,
        record,
        turn,
    );
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    assert!(desk.saves.is_empty() && desk.engine.keeper.is_idle());
    desk.command(Command::Restore { force: true });
    desk.save();
    desk.restore(&[3]);
    assert!(desk.save().consistent, "it may be repeated");
}

#[test]
fn an_accepted_copy_is_written_again_beside_what_is_preserved() {
    let suspect = Superblock { suspect: 1, marks_void: true, ..record(false) };
    let mut desk = Desk::finding_in(suspect, 3);
    desk.command(Command::Accept { volume: VolumeIndex(0) });
    while desk.saves.is_empty() {
        assert!(desk.pools.is_empty(), "nothing is preserved");
        let (io, op) = desk.ios.remove(0);
        let outcome = match op.reads() {
            Some(extent) => StoreOutcome::Read { payload: desk.payload(extent), zero: false },
            None => StoreOutcome::Done,
        };
        desk.tell(Event::StoreDone { io, outcome });
    }
    assert_eq!(desk.save().suspect, 0);
}

#[test]
fn a_disk_that_fails_in_a_restore_is_named_and_not_the_file() {
    let mut desk = Desk::preserving(3);
    desk.restoring();
    desk.save();
    desk.pool(PoolOutcome::Done);
    desk.load();
    desk.store(StoreOutcome::Failed(StoreFault::NoSpace));
    assert_eq!(desk.refused, ["restore-failed"]);
    let logged = desk.logged.last().expect("it is logged");
    assert!(logged.ends_with("volume 0 failed: no space left on the disk (ENOSPC)"));
}

#[test]
fn a_disk_that_cannot_be_read_to_be_preserved_is_the_fault_and_not_the_file() {
    let mut desk = Desk::keeping();
    desk.zero(21, 3);
    desk.store(StoreOutcome::Failed(StoreFault::Io));
    assert!(desk.gone && !desk.changes());
    let fault = desk.engine.view().fault().expect("nothing more can be preserved");
    assert_eq!(fault.what, "volume 0 could not be read to preserve its content: I/O error (EIO)");
}
