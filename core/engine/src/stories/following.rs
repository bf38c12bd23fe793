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

/// Otherwise the extents of a long run of writes would fill the metadata's places, and applying would stop.
#[test]
fn a_secondary_without_its_primary_lets_hot_extents_go_once_their_marks_are_kept() {
    let lineage = generation(1);
    let mut desk = Desk::new(Config { hot_extents: 1, ..config() });
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(lineage, true) });
    desk.hear(Message::Start(start(lineage, 1, true)));
    desk.store_all();
    desk.save_all();
    desk.hear(item(1));
    desk.store_all();
    assert_eq!(desk.engine.shared.cover.hot(), 1);
    desk.lose_link();
    for _ in 0..4 {
        desk.now = desk.now + Duration::from_secs(1);
        desk.tell(Event::Tick);
        desk.store_all();
        desk.save_all();
    }
    assert_eq!(desk.engine.shared.cover.hot(), 0);
    assert!(!desk.engine.marks().none_stale(), "what the primary may lack is marked");
}
