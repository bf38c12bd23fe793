// SPDX-License-Identifier: Apache-2.0
//! Stories of what neither copy stores.

use super::*;

const ALL: Extent = Extent::new(0, SIZE.0);

fn hollow(looks: &[bool]) -> Desk {
    let mut desk = Desk::primary(config());
    desk.hollow = looks.iter().copied().collect();
    desk.meet(hello(Lineage::default(), true));
    desk
}

fn told_empty(desk: &mut Desk, empty: bool) {
    desk.hear(Message::Copying(Copying::Empty { volume: VolumeIndex(0), extent: ALL, empty }));
}

#[test]
fn what_neither_copy_stores_is_told_in_one_item_and_its_marks_end_when_that_is_durable() {
    let mut desk = hollow(&[true, true]);
    let asked = |m: &Message| matches!(m, Message::Copying(Copying::EmptyWanted { extent, .. }) if *extent == ALL);
    assert!(desk.said.iter().any(asked), "the target was not asked");
    told_empty(&mut desk, true);
    assert_eq!(kinds(&desk), [(ItemKind::Same, SIZE.0)]);
    assert_eq!(desk.engine.view().status(desk.now).marked, [SIZE]);
    desk.acked(1);
    assert_eq!(desk.engine.view().status(desk.now).marked, [Bytes::ZERO]);
    assert!(desk.ios.is_empty(), "nothing had to be read");
}

#[test]
fn what_is_stored_at_the_target_is_compared() {
    let mut desk = hollow(&[true, true]);
    told_empty(&mut desk, false);
    assert!(kinds(&desk).is_empty());
    desk.tell_digests();
    assert_eq!(desk.ios.len(), 2);
}

#[test]
fn what_was_written_here_meanwhile_is_not_called_empty() {
    let mut desk = hollow(&[true, false]);
    told_empty(&mut desk, true);
    assert!(kinds(&desk).is_empty());
    desk.tell_digests();
    assert_eq!(desk.ios.len(), 2);
}

#[test]
fn an_answer_of_the_stream_before_ends_no_mark() {
    let mut desk = hollow(&[true, true, true]);
    desk.command(Command::Pause);
    desk.command(Command::Resync);
    told_empty(&mut desk, true);
    assert!(kinds(&desk).is_empty());
    assert!(!desk.accuses());
    told_empty(&mut desk, true);
    assert_eq!(kinds(&desk), [(ItemKind::Same, SIZE.0)]);
    told_empty(&mut desk, true);
    assert!(desk.accuses(), "nobody asked that");
}

#[test]
fn a_connection_lost_in_the_middle_of_a_survey_leaves_its_marks() {
    let mut desk = hollow(&[true]);
    desk.lose_link();
    assert_eq!(desk.engine.view().status(desk.now).marked, [SIZE]);
    desk.hollow = [true, true].into();
    desk.meet(hello(Lineage::default(), true));
    told_empty(&mut desk, true);
    assert_eq!(kinds(&desk), [(ItemKind::Same, SIZE.0)]);
}

#[test]
fn a_primary_that_leaves_looks_no_more_whatever_the_target_found() {
    let mut desk = hollow(&[true, true]);
    desk.command(Command::Demote);
    let flushing = desk.ios.iter().any(|(_, op, _)| matches!(op, StoreOp::Flush));
    assert!(flushing, "it begins to leave");
    told_empty(&mut desk, true);
    assert!(desk.hollow.len() == 1, "the store is asked again");
    desk.store_all();
    desk.save_all();
    assert!(!desk.engine.view().is_primary());
}

#[test]
fn a_target_tells_whether_its_store_holds_anything_there() {
    for empty in [false, true] {
        let mut desk = follower(generation(1), false);
        desk.save_all();
        desk.hollow = [empty].into();
        desk.hear(Message::Copying(Copying::EmptyWanted { volume: VolumeIndex(0), extent: ALL }));
        let told = Copying::Empty { volume: VolumeIndex(0), extent: ALL, empty };
        assert!(desk.said.contains(&Message::Copying(told)), "empty: {empty}");
    }
}
