// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary whose volume has two members, which a layer keeps alike.

use super::*;
use helio_format::invalid::Invalid;
use helio_format::members::{CopyHealth, MEMBERS_MAX};
use helio_shadow::Shadow;
use helio_stack::Layer;

fn above_two_members() -> Desk {
    let mut found = [None; MEMBERS_MAX];
    found[..2].fill(Some(CopyHealth::Good));
    let set = Shadow::new(&[SIZE], REGION, &[found]).boxed();
    let config =
        Config { mode: Mode::Sync, on_error: OnError::ServeFromPeer, hot_extents: 1, ..config() };
    Desk::above(Stack::new([set].into()), config)
}

/// Both members fail a change.
fn fail(desk: &mut Desk) {
    for _ in 0..2 {
        let (io, op, _) = desk.ios.pop_front().expect("both members are written");
        assert!(op.changes().is_some(), "{op:?}");
        desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    }
}

#[test]
fn what_is_hot_on_several_members_stays_so_until_a_flush_although_the_peer_serves() {
    let mut desk = above_two_members().promoted().joined();
    desk.write(1);
    fail(&mut desk);
    desk.acked(desk.engine.view().status(desk.now).cursors.head.0);
    desk.save_all();
    desk.store_all();
    let served = desk.engine.view().fault().unwrap_or_default().what;
    assert!(served.contains("served from lyon"), "{served}");
    assert_eq!(desk.engine.local.hot().hot(), 1, "the members may differ there");
}

#[test]
fn what_members_differ_in_is_merged_although_no_extent_turns_hot_any_more() {
    let mut desk = above_two_members().promoted();
    desk.meet(hello(Lineage::default(), true));
    desk.store_all();
    desk.acked(2);
    desk.acked(3);
    desk.save(false);
    desk.lose_link();
    let lineage = desk.lineage();
    desk.meet(Hello { doubts: true, received: Sequence(3), ..hello(lineage, true) });
    desk.hear(Message::Invalid(Invalid::Recorded));
    desk.store_all();
    assert_eq!(desk.engine.local.hot().hot(), 0);
    desk.write(1);
    fail(&mut desk);
    let reads = desk.ios.iter().filter(|(_, op, _)| op.reads().is_some()).count();
    assert_eq!(reads, 2, "the members are compared");
    desk.store_all();
    assert_eq!(desk.engine.local.hot().hot(), 0);
    assert_eq!(desk.engine.local.layers_deadline(), Moment::NEVER, "they are merged");
}
