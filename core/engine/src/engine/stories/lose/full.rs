// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary whose disk is full: a full disk is no failed disk.

use super::super::lack::reversed;
use super::*;
use helio_format::reading::{Reading, Told};

/// The peer has everything and could serve in the place of a failed disk.
fn level() -> Desk {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.set_on_error(OnError::ServeFromPeer);
    desk
}

/// The store has no space for the first thing it was asked for.
fn no_space(desk: &mut Desk) {
    let (io, ..) = desk.ios.pop_front().expect("the store has something to do");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::NoSpace) });
}

/// Everything accepted so far is durable at the peer.
fn peer_has_all(desk: &mut Desk) {
    desk.acked(desk.engine.view().status(desk.now).cursors.head.0);
}

/// The group, after a write found no space here. The peer has it.
fn full() -> Desk {
    let mut desk = level();
    desk.write(1);
    no_space(&mut desk);
    peer_has_all(&mut desk);
    desk.save_all();
    desk
}

/// The peer is connected meanwhile, and has everything.
fn wait(desk: &mut Desk, seconds: u64) {
    for _ in 0..seconds {
        desk.now = desk.now + Duration::from_secs(1);
        peer_has_all(desk);
        while desk.ios.front().is_some_and(|(_, op, _)| matches!(op, StoreOp::Flush)) {
            desk.store();
        }
        desk.save_all();
    }
}

/// The copier compares, and sends what differs.
fn copy_all(desk: &mut Desk) {
    for _ in 0..3 {
        desk.store_all();
        peer_has_all(desk);
        desk.save_all();
    }
}

fn fault(desk: &Desk) -> String {
    desk.engine.view().fault().unwrap_or_default().what
}

#[test]
fn a_write_that_finds_no_space_fails_and_the_copy_is_not_given_up() {
    let mut desk = full();
    assert_eq!(desk.answers, [(1, false)]);
    let view = desk.engine.view();
    assert!(view.words().consistent, "this copy holds every acknowledged byte");
    assert!(view.marks().any_dirty(VolumeIndex(0), Extent::new(4096, 4096)), "unknown content");
    assert!(fault(&desk).contains("no space left"), "{}", fault(&desk));
    let hint = desk.engine.view().fault().unwrap_or_default().hint;
    let wanted = "free space on paris; the fault ends with the next write, or with `helio resync db` on paris";
    assert_eq!(hint, wanted);
    desk.ask(9, Operation::Read(Extent::new(0, 4096)));
    assert!(matches!(desk.ios[0].1, StoreOp::Read { .. }), "reads go on here");
    desk.store();
    desk.write(2);
    desk.store();
    peer_has_all(&mut desk);
    assert!(desk.answers.contains(&(2, true)), "it has space there");
}

#[test]
fn what_a_write_left_that_found_no_space_is_copied_to_the_peer_by_itself_behind_the_last_of_them() {
    let mut desk = full();
    wait(&mut desk, 3);
    desk.write(2);
    no_space(&mut desk);
    wait(&mut desk, 3);
    assert!(desk.asked.is_empty(), "such writes follow one another");
    let due = desk.engine.view().deadline();
    assert!(due <= desk.now + Duration::from_secs(2), "{due:?}");
    wait(&mut desk, 2);
    assert_eq!(desk.asked.len(), 1, "its region is compared");
    copy_all(&mut desk);
    assert!(desk.engine.view().marks().none_dirty());
    assert_eq!(desk.engine.view().state(), State::Replicating);
    assert!(fault(&desk).contains("no space left"), "nothing shows that there is space");
    desk.write(3);
    desk.store();
    assert_eq!(fault(&desk), "");
    assert_eq!(desk.answers, [(1, false), (2, false)], "the peer has not answered yet");
}

#[test]
fn while_writes_find_no_space_one_that_does_not_is_no_end_of_it() {
    let mut desk = full();
    desk.ask(3, Operation::Discard { extent: Extent::new(0, 4096), fua: false });
    desk.store_all();
    wait(&mut desk, 6);
    assert!(fault(&desk).contains("no space left"), "a discard takes none");
    desk.write(1);
    no_space(&mut desk);
    desk.write(2);
    desk.store();
    wait(&mut desk, 3);
    assert!(fault(&desk).contains("no space left"), "{}", fault(&desk));
    let due = desk.engine.view().deadline();
    assert!(due <= desk.now + Duration::from_secs(2), "{due:?}");
    wait(&mut desk, 2);
    assert_eq!(fault(&desk), "");
}

#[test]
fn a_flush_that_finds_no_space_is_a_failed_flush() {
    let mut desk = level();
    desk.ask(7, Operation::Flush);
    no_space(&mut desk);
    assert!(fault(&desk).contains("served from lyon"), "{}", fault(&desk));
}

#[test]
fn a_full_disk_hides_no_failed_one() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    fail(&mut desk);
    desk.write(2);
    no_space(&mut desk);
    peer_has_all(&mut desk);
    wait(&mut desk, 6);
    desk.write(3);
    desk.store_all();
    peer_has_all(&mut desk);
    assert!(fault(&desk).contains("EIO"), "{}", fault(&desk));
    assert!(desk.asked.is_empty(), "an operator decides what is copied of a failed disk");
    desk.command(Command::Resync);
    copy_all(&mut desk);
    assert_eq!((fault(&desk).as_str(), desk.engine.view().state()), ("", State::Replicating));
}

#[test]
fn without_a_peer_the_write_fails_and_its_region_is_copied_when_the_peer_returns() {
    let mut desk = level();
    let known = hello(desk.lineage_now(), true);
    desk.lose_link();
    desk.write(1);
    no_space(&mut desk);
    assert_eq!(desk.answers, [(1, false)]);
    assert!(!desk.engine.view().marks().none_dirty());
    desk.save_all();
    desk.now = desk.now + Duration::from_secs(9);
    desk.tell(Event::Tick);
    assert!(desk.engine.view().deadline() > desk.now, "nothing is due without a peer");
    desk.meet(Hello { received: Sequence(3), durable: Sequence(3), ..known });
    copy_all(&mut desk);
    assert_eq!(desk.engine.view().state(), State::Replicating);
}

#[test]
fn a_region_pulled_from_the_peer_that_finds_no_space_is_pulled_again() {
    let mut desk = reversed();
    desk.set_on_error(OnError::ServeFromPeer);
    let (ticket, _, extent, _) = desk.reads_wanted()[0];
    let payload = desk.payload(extent.length as u32);
    desk.told(ticket, Told::Bytes(payload));
    no_space(&mut desk);
    assert!(fault(&desk).contains("no space left"), "{}", fault(&desk));
    assert!(desk.reads_wanted().is_empty(), "not at once");
    wait(&mut desk, 6);
    let again = desk.reads_wanted();
    let (ticket, ..) = again[0];
    let payload = desk.payload(extent.length as u32);
    desk.told(ticket, Told::Bytes(payload));
    desk.store_all();
    desk.save_all();
    assert!(desk.engine.view().words().consistent);
    assert_eq!(fault(&desk), "");
    assert!(!desk.said.iter().any(|m| matches!(m, Message::Reading(Reading::Wanted { .. }))));
}
