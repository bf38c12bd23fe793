// SPDX-License-Identifier: Apache-2.0
//! Stories of what a secondary reports of the items that its primary sends.

use super::*;
use helio_format::message::Ping;

fn durable_here(desk: &Desk) -> Sequence {
    desk.engine.view().status(desk.now).cursors.durable
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
    assert!(matches!(desk.ios.front(), Some((_, StoreOp::Flush, _))), "{:?}", desk.ios);
    desk.store();
    assert_eq!(durable_here(&desk), Sequence(2));
}

#[test]
fn what_completed_is_flushed_50_ms_later_although_nothing_else_happens() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.store();
    let flushes = |desk: &Desk| desk.ios.iter().any(|(_, op, _)| matches!(op, StoreOp::Flush));
    let completed_at = desk.now;
    while !flushes(&desk) {
        let due = desk.engine.view().deadline();
        assert!(due <= completed_at + Duration::from_millis(60), "{due:?}");
        desk.now = desk.now.max(due);
        desk.tell(Event::Tick);
    }
    assert!(
        desk.now >= completed_at + Duration::from_millis(50),
        "one flush for all items of this time"
    );
}

/// Otherwise the extents of a long run of writes would fill the metadata's places, and applying would stop.
#[test]
fn a_secondary_without_its_primary_lets_hot_extents_go_once_their_marks_are_kept() {
    let mut desk = applied_with_one_hot_extent();
    assert_eq!(desk.engine.local.hot().hot(), 1);
    desk.lose_link();
    wait(&mut desk, Duration::from_secs(1));
    assert_eq!(desk.engine.local.hot().hot(), 0);
    assert!(!desk.engine.view().marks().none_dirty(), "what the primary may lack is marked");
}

/// A secondary that applied an item. A single extent may be hot.
fn applied_with_one_hot_extent() -> Desk {
    let lineage = generation(1);
    let mut desk = Desk::new(Config { hot_extents: 1, ..config() });
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(lineage, true) });
    desk.hear(Message::Start(start(lineage, 1, true)));
    desk.store_all();
    desk.save_all();
    desk.hear(item(1));
    desk.store_all();
    desk
}

/// The primary has accepted item 1, and has completed those up to `completed` itself.
fn report(desk: &mut Desk, completed: u64) {
    let (accepted, completed) = (Sequence(1), Sequence(completed));
    desk.hear(Message::Ping(Ping { accepted, completed, ..Ping::default() }));
}

fn wait(desk: &mut Desk, step: Duration) {
    for _ in 0..4 {
        desk.now = desk.now + step;
        desk.tell(Event::Tick);
        desk.store_all();
        desk.save_all();
    }
}

#[test]
fn a_secondary_lets_hot_extents_go_without_a_mark_once_its_primary_completed_their_items() {
    let mut desk = applied_with_one_hot_extent();
    report(&mut desk, 1);
    wait(&mut desk, Duration::from_millis(300));
    assert_eq!(desk.engine.local.hot().hot(), 0);
    assert!(desk.engine.view().marks().none_dirty(), "the primary's own record covers them");
}

#[test]
fn what_a_secondary_marked_ends_once_its_primary_completed_everything_it_sent() {
    let mut desk = applied_with_one_hot_extent();
    report(&mut desk, 0);
    wait(&mut desk, Duration::from_millis(300));
    assert!(!desk.engine.view().marks().none_dirty(), "the primary did not come forward");
    report(&mut desk, 1);
    assert!(desk.engine.view().marks().none_dirty());
}

/// A secondary that received two items, and whose store has no space for the first.
pub(super) fn full() -> Desk {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.hear(item(2));
    let (io, ..) = desk.ios.pop_front().expect("the first item is issued");
    let outcome = StoreOutcome::Failed(StoreFault::NoSpace);
    desk.tell(Event::StoreDone { io, outcome });
    desk
}

#[test]
fn a_secondary_that_stops_releases_what_it_could_not_apply() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    let Message::Item(second) = item(2) else { panic!("no item") };
    // It is about the same extent, so it waits for the first one.
    let extent = Extent::new(4096, 4096);
    let payload = Some(Payload { id: PayloadId(7), length: 4096 });
    desk.hear(item(1));
    desk.hear(Message::Item(Item { kind: ItemKind::Write, extent, payload, ..second }));
    let (io, ..) = desk.ios.pop_front().expect("the first item is issued");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::NoSpace) });
    let held = desk.released.len();
    desk.command(Command::Stop);
    desk.save_all();
    assert_eq!(desk.engine.view().standing(), "stopped");
    assert_eq!(desk.released[held..], [PayloadId(7)]);
}

fn retry(desk: &mut Desk) {
    let until = desk.now + Duration::from_secs(6);
    while desk.now < until {
        desk.now = desk.now.max(desk.engine.view().deadline()).min(until);
        desk.tell(Event::Tick);
    }
}

#[test]
fn a_full_store_is_tried_again_until_there_is_space_and_then_everything_is_applied() {
    let mut desk = full();
    let hint = desk.engine.view().status(desk.now).fault.expect("it is shown").hint;
    assert!(hint.contains("free space on paris (the resync then continues)"), "{hint}");
    assert!(desk.engine.view().is_link_down(), "nothing more is received");
    retry(&mut desk);
    let (io, ..) = desk.ios.pop_front().expect("it is tried again");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::NoSpace) });
    assert!(desk.ios.is_empty() && desk.engine.view().fault().is_some());
    while desk.engine.view().fault().is_some() {
        retry(&mut desk);
        desk.store_all();
    }
    retry(&mut desk);
    desk.store_all();
    assert_eq!(durable_here(&desk), Sequence(2));
}

#[test]
fn a_full_store_that_fails_otherwise_is_not_tried_again() {
    let mut desk = full();
    retry(&mut desk);
    let (io, ..) = desk.ios.pop_front().expect("it is tried again");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    let hint = desk.engine.view().fault().expect("it is shown").hint;
    assert!(hint.contains("restart its daemon"), "{hint}");
    desk.lose_link();
    let refusal = desk.engine.view().stake(false).expect_err("what was received is in the way");
    assert_eq!(refusal.code, "volume-failed");
    assert!(refusal.hint.contains("restart its daemon"), "{}", refusal.hint);
    desk.now = desk.now + Duration::from_secs(60);
    desk.tell(Event::Tick);
    assert!(desk.ios.is_empty());
}
