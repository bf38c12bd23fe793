// SPDX-License-Identifier: Apache-2.0
//! Stories of what a secondary reports of the items that its primary sends.

use super::*;

fn durable_here(desk: &Desk) -> Sequence {
    desk.engine.status(desk.now).cursors.durable
}

/// A primary in sync answers a client's flush by this report: it must not wait for the secondary's own flush.
#[test]
fn a_flush_of_a_client_is_reported_as_durable_once_the_store_has_done_it() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.store();
    assert_eq!(durable_here(&desk), Sequence::ZERO, "the write may lie in a cache");
    let Message::Item(write) = item(2) else { panic!("an item is an item") };
    let extent = Extent::default();
    desk.hear(Message::Item(Item { kind: ItemKind::Flush, extent, ..write }));
    assert!(matches!(desk.ios.front(), Some((_, StoreOp::Flush))), "{:?}", desk.ios);
    desk.store();
    assert_eq!(durable_here(&desk), Sequence(2));
}
