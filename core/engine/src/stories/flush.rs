// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary whose store fails a flush, and goes on: what it holds of what it had completed is unknown.

use super::lose::fail;
use super::*;

/// Time passes, the peer has everything, and whatever else is asked for goes well.
fn settle(desk: &mut Desk) {
    for _ in 0..3 {
        desk.now = desk.now + Duration::from_secs(2);
        desk.tell(Event::Tick);
        desk.store_all();
        peer_has_all(desk);
        desk.save_all();
    }
}

fn peer_has_all(desk: &mut Desk) {
    let head = desk.engine.status(desk.now).cursors.head.0;
    desk.acked(head);
}

/// A write is on both nodes, and the flush behind it fails here.
fn doubted() -> Desk {
    let mut desk = Desk::replicating(Mode::Sync);
    settle(&mut desk);
    assert!(!desk.engine.superblock.marks_void);
    desk.write(1);
    desk.store_all();
    peer_has_all(&mut desk);
    assert_eq!(desk.answers, [(1, true)]);
    assert!(desk.engine.marks().none_stale());
    desk.ask(2, Operation::Flush);
    fail(&mut desk);
    desk
}

#[test]
fn a_flush_that_fails_marks_all_of_its_volume_and_the_record_proves_nothing() {
    let mut desk = doubted();
    assert_eq!(desk.answers.last(), Some(&(2, false)), "the client hears of it");
    let size = desk.engine.shared.config.volumes[0];
    assert!(desk.engine.marks().covers(VolumeIndex(0), Extent::new(0, size.0)));
    let fault = desk.engine.status(desk.now).fault.unwrap_or_default();
    assert!(fault.contains("volume 0"), "{fault}");
    assert!(desk.save(true).marks_void, "whatever becomes of this process, all is compared");
}

#[test]
fn flushes_that_go_well_later_prove_nothing_of_what_a_failed_one_left_behind() {
    let mut desk = doubted();
    desk.save_all();
    settle(&mut desk);
    assert!(desk.engine.superblock.marks_void, "every mark is kept, and a flush went well");
    desk.command(Command::Stop);
    desk.store_all();
    let record = desk.save(true);
    assert!(record.marks_void && !record.clean && !record.equal);
}

#[test]
fn a_last_flush_that_fails_leaves_a_record_that_proves_nothing_to_whoever_takes_the_role_back() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    desk.store_all();
    peer_has_all(&mut desk);
    desk.command(Command::Demote);
    fail(&mut desk);
    assert!(!desk.engine.shared.cover.was_flushed(VolumeIndex(0)));
    desk.store_all();
    let record = desk.save(true);
    assert!(record.marks_void && !record.equal);
}
