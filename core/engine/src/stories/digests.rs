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
