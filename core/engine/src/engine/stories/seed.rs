// SPDX-License-Identifier: Apache-2.0
//! Stories of a first sync by a disk that is shipped.

use super::lose::fail;
use super::*;

const BEGIN: Command = Command::SeedBegin { at: 7 };

/// A primary whose disk is on its way.
pub(super) fn seeding() -> Desk {
    let mut desk = Desk::primary(config());
    desk.command(BEGIN);
    assert_eq!(desk.save(true).seeding, 7);
    assert!(!desk.engine.view().is_marked(VolumeIndex(0), 0), "nothing has changed yet");
    desk
}

fn began(desk: &Desk) -> bool {
    desk.said.iter().any(|m| matches!(m, Message::Start(_)))
}

fn label(desk: &Desk) -> Option<&str> {
    desk.engine.view().last_decision().map(|met| met.label.as_str())
}

fn blank() -> Hello {
    hello(Lineage::default(), true)
}

/// The peer holds something else than this node in all places it is asked about.
fn tell_others(desk: &mut Desk) {
    while let Some(Copying::DigestsWanted { volume, extent, coarse }) = desk.asked.pop_front() {
        let list = alloc::vec![[1; 16]; 1];
        desk.hear(Message::Copying(Copying::Digests { volume, extent, coarse, list }));
    }
}

#[test]
fn only_what_was_written_since_is_copied_to_the_shipped_disk() {
    let mut desk = seeding();
    desk.write(0);
    desk.store_all();
    desk.meet(blank());
    assert_eq!((label(&desk), began(&desk)), (Some("seeding"), false));
    desk.command(Command::SeedEnd);
    desk.store_all();
    assert_eq!(desk.save(true).seeding, 0);
    assert_eq!(label(&desk), Some("seeded"));
    assert!(desk.results.last().is_some_and(Result::is_ok));
    let start = desk.last_start();
    assert_eq!((start.whole, start.consistent, start.to_copy), (true, false, REGION.0));
}

/// Another copy of the peer had counted further.
#[test]
fn the_metadata_of_a_peer_that_begins_while_a_disk_is_shipped_counts_from_its_own_beginning() {
    for given_up in [false, true] {
        let mut desk = seeding();
        desk.engine.record.keeping_mut().ages_mut().hear(500);
        if given_up {
            desk.command(Command::FullResync);
        }
        desk.meet_before_saving(Hello { metadata: 3, discarded: true, ..blank() });
        assert_eq!(label(&desk), Some(if given_up { "new-peer" } else { "seeding" }));
        if !given_up {
            desk.command(Command::SeedEnd);
        }
        desk.store_all();
        desk.save_all();
        desk.store_all();
        desk.acked(2);
        desk.lose_link();
        let head = desk.engine.view().status(desk.now).cursors.peer_durable;
        let again =
            Hello { head, received: head, durable: head, ..hello(desk.lineage_now(), true) };
        desk.meet(Hello { metadata: 4, ..again });
        assert_ne!(label(&desk), Some("target-rolled-back"), "given up: {given_up}");
    }
}

#[test]
fn a_disk_that_is_not_the_shipped_one_is_refused_and_nothing_changes() {
    let mut desk = seeding();
    desk.meet(blank());
    desk.command(Command::SeedEnd);
    while !desk.ios.is_empty() {
        desk.store();
    }
    tell_others(&mut desk);
    let refused = desk.results.last().and_then(|r| r.as_ref().err()).map(|r| r.code);
    assert_eq!((refused, began(&desk)), (Some("not-the-disk"), false));
    assert!(desk.saves.is_empty() && desk.engine.view().seeding() == Some(7));
    desk.command(Command::SeedEnd);
    desk.store_all();
    assert_eq!(desk.save(true).seeding, 0, "the right one was put in its place");
}

#[test]
fn what_was_under_way_when_the_seeding_began_is_marked() {
    let mut desk = Desk::primary(config());
    desk.write(0);
    desk.command(BEGIN);
    desk.save(true);
    assert!(desk.engine.view().is_marked(VolumeIndex(0), 0), "the copy may miss it");
    assert!(!desk.engine.view().is_marked(VolumeIndex(0), REGION.0));
}

#[test]
fn a_disk_of_which_a_flush_failed_is_not_shipped() {
    let mut desk = seeding();
    desk.write(0);
    desk.store_all();
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    assert!(matches!(desk.ios.front(), Some((_, StoreOp::Flush, _))), "{:?}", desk.ios);
    fail(&mut desk);
    let record = desk.save(true);
    assert_eq!((record.seeding, record.suspect), (7, 1));
    desk.meet(blank());
    desk.command(Command::SeedEnd);
    let refused = desk.results.last().and_then(|r| r.as_ref().err()).map(|r| r.code);
    assert_eq!(refused, Some("suspect"), "a flush failed");
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    desk.command(Command::Accept { volume: VolumeIndex(0) });
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.seeding, record.suspect, record.marks_void), (0, 0, true));
    desk.command(Command::Promote { force: true });
    desk.save_all();
    assert!(desk.engine.view().is_marked(VolumeIndex(0), REGION.0), "everything is copied instead");
}

#[test]
fn while_a_disk_is_shipped_nobody_is_updated_by_marks() {
    let mut desk = seeding();
    desk.command(Command::Resync);
    assert!(desk.results.last().is_some_and(Result::is_err));
    let ours = desk.engine.record.superblock().lineage;
    desk.meet(hello(ours, true));
    assert_eq!((label(&desk), began(&desk)), (Some("seeding"), false));
    desk.command(Command::SeedEnd);
    assert!(desk.results.last().is_some_and(Result::is_err), "it has a history of its own");
    desk.command(Command::FullResync);
    let record = desk.save(true);
    assert_eq!((record.seeding, record.marks_void), (0, true));
    assert_eq!(desk.last_start().to_copy, SIZE.0);
}

/// The seed is cancelled before the peer connects, and again while that is recorded.
#[test]
fn a_cancelled_seed_waits_for_the_marks_of_the_peer_and_for_its_record() {
    for marks_first in [false, true] {
        let mut desk = seeding();
        desk.command(Command::FullResync);
        let ours = desk.engine.record.superblock().lineage;
        desk.meet_before_saving(hello(ours, true));
        assert!(desk.said.contains(&Message::Copying(Copying::MarksWanted)));
        desk.command(Command::FullResync);
        let told = Message::Copying(Copying::MarksEnd { trusted: true });
        if marks_first {
            desk.hear(told.clone());
        } else {
            desk.save_all();
        }
        assert!(!began(&desk), "marks first: {marks_first}");
        if marks_first {
            desk.save_all();
        } else {
            desk.hear(told);
        }
        assert_eq!(desk.last_start().to_copy, SIZE.0);
    }
}

#[test]
fn a_peer_that_replicates_is_not_seeded() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(BEGIN);
    let refused = desk.results.last().and_then(|r| r.as_ref().err()).map(|r| r.code);
    assert_eq!(refused, Some("peer-has-a-copy"));
    assert!(desk.saves.is_empty());
}

#[test]
fn a_link_that_breaks_between_ends_the_comparison_and_not_the_seeding() {
    let mut desk = seeding();
    desk.meet(blank());
    desk.command(Command::SeedEnd);
    desk.lose_link();
    assert!(desk.results.last().is_some_and(Result::is_err));
    while !desk.ios.is_empty() {
        desk.store();
    }
    desk.meet(blank());
    assert_eq!((label(&desk), desk.saves.len()), (Some("seeding"), 0));
}

#[test]
fn a_node_without_a_history_tells_what_it_holds_and_one_with_does_not() {
    let wanted = Copying::DigestsWanted {
        volume: VolumeIndex(0),
        extent: Extent::new(0, REGION.0),
        coarse: true,
    };
    let mut desk = Desk::new(config());
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    desk.hear(Message::Copying(wanted.clone()));
    desk.store();
    let told = |m: &Message| matches!(m, Message::Copying(Copying::Digests { .. }));
    assert!(desk.said.iter().any(told));
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.lose_link();
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    desk.hear(Message::Copying(wanted));
    assert!(desk.accuses());
}

#[test]
fn a_seeding_that_is_being_recorded_is_not_given_up_before_it_began() {
    let mut desk = Desk::primary(config());
    desk.command(BEGIN);
    desk.command(Command::FullResync);
    assert!(desk.results.last().is_some_and(|r| r.as_ref().is_err_and(|r| r.retry)));
    desk.save(true);
    desk.command(Command::FullResync);
    let record = desk.save(true);
    assert_eq!((record.seeding, record.marks_void), (0, true));
    assert!(desk.engine.view().is_marked(VolumeIndex(0), REGION.0), "everything is marked again");
}

#[test]
fn nobody_vouches_for_a_primary_whose_metadata_fails_while_a_disk_is_shipped() {
    let mut desk = seeding();
    desk.meet(blank());
    desk.unwritable = true;
    desk.write(1);
    let told = desk.said.iter().any(|m| matches!(m, Message::Invalid(_)));
    assert!(!told, "the peer's metadata is about to be replaced with its disk");
    assert_eq!(desk.answers, [(1, false)]);
}

#[test]
fn few_samples_of_a_shipped_disk_are_read_at_once() {
    let (mut desk, peer) = Desk::primary_of(&[Bytes::mib(64)], config());
    desk.command(BEGIN);
    desk.save(true);
    desk.store_all();
    desk.meet(peer);
    desk.command(Command::SeedEnd);
    assert_eq!(desk.ios.len(), 8);
    assert!(desk.ios.iter().all(|(_, op, _)| matches!(op, StoreOp::Read { .. })), "{:?}", desk.ios);
}

#[test]
fn every_unmarked_region_is_compared_if_there_are_few() {
    let (mut desk, peer) = Desk::primary_of(&[Bytes::mib(8)], config());
    desk.command(BEGIN);
    desk.save(true);
    desk.store_all();
    let written = Extent::new(0, Bytes::mib(8).0 - 2 * REGION.0);
    desk.ask(0, Operation::Zero { extent: written, punch: false, fua: false });
    desk.store_all();
    desk.meet(peer);
    desk.command(Command::SeedEnd);
    while !desk.ios.is_empty() {
        desk.store();
    }
    let about = |asked: &Copying| match asked {
        Copying::DigestsWanted { extent, .. } => extent.offset,
        other => panic!("{other:?}"),
    };
    let asked: Vec<u64> = desk.asked.iter().map(about).collect();
    assert_eq!(asked, [written.length, written.length + REGION.0]);
}
