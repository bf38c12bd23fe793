// SPDX-License-Identifier: Apache-2.0
//! Stories of when a follower tells digests of what it holds.

use super::*;

#[test]
fn digests_are_read_only_once_the_stream_is_adopted() {
    let mut desk = follower(generation(1), false);
    let extent = Extent::new(0, SIZE.0);
    let wanted = Copying::DigestsWanted { volume: VolumeIndex(0), extent, coarse: true };
    desk.hear(Message::Copying(wanted));
    assert!(desk.ios.is_empty(), "what an earlier stream left to apply would be missed");
    desk.save(true);
    assert_eq!(desk.ios.len(), 1);
    desk.store();
    let told = |m: &Message| matches!(m, Message::Copying(Copying::Digests { .. }));
    assert!(desk.said.iter().any(told));
}

#[test]
fn digests_are_read_once_what_was_received_before_a_stream_that_goes_on_is_applied() {
    let lineage = generation(1);
    let mut desk = follower(lineage, true);
    desk.save_all();
    desk.hear(item(1));
    desk.hear(Message::Start(start(lineage, 2, true)));
    let extent = Extent::new(0, SIZE.0);
    let wanted = Copying::DigestsWanted { volume: VolumeIndex(0), extent, coarse: true };
    desk.hear(Message::Copying(wanted));
    assert_eq!(
        desk.ios.len(),
        1,
        "item 1 may have failed at the source, which does not know it of us"
    );
    desk.store();
    assert!(matches!(desk.ios[0].1, StoreOp::Digest { .. }));
}

#[test]
fn marks_tell_of_what_was_received_and_waits_to_be_applied() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(item(1));
    let Message::Item(later) = item(2) else { panic!("no item") };
    let extent = Extent::new(REGION.0, 4096);
    desk.hear(Message::Item(Item { extent, ..later }));
    assert_eq!(desk.ios.len(), 1, "the second waits for the first");
    desk.lose_link();
    let source = Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) };
    desk.meet(Hello { head: Sequence(2), ..source });
    desk.hear(Message::Copying(Copying::MarksWanted));
    let marked = desk.said.iter().find_map(|m| match m {
        Message::Copying(Copying::Marks { page: 0, bits }) => bits.as_ref().map(|bits| bits[0]),
        _ => None,
    });
    assert_eq!(marked, Some(0b11), "its source may have died before it had it itself");
}
