// SPDX-License-Identifier: Apache-2.0
//! Stories of bounds: a follower that is sent more items than it can hold, and a primary whose queue is full.

use super::*;

/// Sends items that carry nothing until the follower stops reading; returns how many it took.
fn flood(desk: &mut Desk, bound: usize, kind: ItemKind) -> usize {
    desk.engine.bound_received(bound);
    let mut sent = 0;
    while !desk.paused && sent < 10 * bound {
        sent += 1;
        let Message::Item(next) = item(sent as u64) else { panic!("no item") };
        let extent = if kind.changes_data() { next.extent } else { Extent::new(0, 0) };
        let next = Item { kind, extent, after: Sequence::ZERO, ..next };
        desk.hear(Message::Item(next));
    }
    sent
}

#[test]
fn items_without_payload_count_to_the_bound() {
    for kind in [ItemKind::Flush, ItemKind::Zero, ItemKind::Discard] {
        let mut desk = follower(generation(1), true);
        desk.save_all();
        assert_eq!(flood(&mut desk, 20, kind), 21, "{kind:?}");
        desk.store_all();
        assert!(!desk.paused, "{kind:?}: it reads on once they are applied");
    }
}

#[test]
fn a_follower_reads_on_once_half_of_its_items_are_left() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    assert_eq!(flood(&mut desk, 20, ItemKind::Zero), 21);
    for left in (0..21).rev() {
        let zero = desk.ios.iter().position(|(_, op, _)| matches!(op, StoreOp::Zero { .. }));
        let (io, ..) = desk.ios.remove(zero.expect("an item is applied")).expect("it is there");
        desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Done });
        assert_eq!(desk.paused, left > 10, "{left} items are left");
    }
}

#[test]
fn a_marker_that_waits_for_a_flush_counts_and_so_does_what_comes_behind_it() {
    let mut desk = follower(generation(1), false);
    desk.save_all();
    assert_eq!(flood(&mut desk, 20, ItemKind::Consistent), 21);
}

#[test]
fn items_behind_a_start_that_is_not_adopted_count_to_the_bound() {
    let mut desk = follower(generation(1), true);
    assert_eq!(flood(&mut desk, 20, ItemKind::Zero), 21, "the record of the start is not durable");
    desk.save_all();
    desk.store_all();
    assert!(
        !desk.paused && desk.engine.view().items_received() == 0,
        "they were taken and applied"
    );
}

#[test]
fn a_start_that_is_refused_frees_what_came_behind_it() {
    let mut desk = follower(generation(1), true);
    flood(&mut desk, 20, ItemKind::Flush);
    desk.lose_link();
    assert_eq!(desk.engine.view().items_received(), 0);
}

/// What the peer completed it would receive again as a whole region only if it restarted: clients need not wait for it.
#[test]
fn a_full_queue_takes_another_write_once_the_peer_has_completed_one_before_it_is_durable_there() {
    for (completed, taken) in [(3, false), (4, true)] {
        let queue = QueueConfig { memory: Some(Bytes::kib(7)), ..QueueConfig::default() };
        let mut desk = Desk::replicating(Mode::Async);
        desk.tell(Event::Reconfigure { config: Config { queue, ..config() } });
        desk.write(1);
        desk.store_all();
        assert_eq!(desk.answers, [(1, true)]);
        desk.hear(Message::Ack(Ack {
            stream: LATEST,
            received: Sequence(4),
            completed: Sequence(completed),
            durable: Sequence(3),
            ranges: Ranges::default(),
        }));
        desk.write(2);
        desk.store_all();
        assert_eq!(desk.answers.contains(&(2, true)), taken, "item {completed} is completed");
    }
}

fn hurries(desk: &Desk) -> usize {
    let hurry = |m: &&Message| matches!(m, Message::Ping(ping) if ping.hurry);
    desk.said.iter().filter(hurry).count()
}

/// The peer completed everything, and flushed nothing of it.
fn complete_there(desk: &mut Desk) {
    let head = desk.engine.view().status(desk.now).cursors.head;
    desk.hear(Message::Ack(Ack {
        stream: LATEST,
        received: head,
        completed: head,
        durable: Sequence(3),
        ranges: Ranges::default(),
    }));
}

#[test]
fn a_peer_is_told_to_hurry_while_a_write_waits_for_room_or_its_primary_leaves() {
    let queue = QueueConfig { memory: Some(Bytes::kib(5)), ..QueueConfig::default() };
    for (bound, waits) in [(queue, true), (QueueConfig::default(), false)] {
        let mut desk = Desk::replicating(Mode::Async);
        desk.tell(Event::Reconfigure { config: Config { queue: bound, ..config() } });
        (1..4).for_each(|id| desk.write(id));
        complete_there(&mut desk);
        desk.tell(Event::Tick);
        assert_eq!(hurries(&desk), usize::from(waits), "once, until it is answered");
        desk.store_all();
    }
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.store_all();
    complete_there(&mut desk);
    assert_eq!(hurries(&desk), 0, "no write waits");
    desk.command(Command::Demote);
    assert_eq!(hurries(&desk), 1);
}

#[test]
fn a_policy_that_changes_to_log_while_a_write_waits_drops_the_queue_once_and_counts_that() {
    let set = |desk: &mut Desk, disconnected| {
        let memory = Some(Bytes(4096));
        let queue = QueueConfig { memory, disconnected, ..QueueConfig::default() };
        desk.tell(Event::Reconfigure { config: Config { queue, ..config() } });
    };
    let queue = |desk: &Desk| desk.engine.view().status(desk.now).queue.expect("it is a primary");
    let mut desk = Desk::replicating(Mode::Async);
    set(&mut desk, WhenFull::Block);
    desk.lose_link();
    desk.write(1);
    desk.store_all();
    desk.write(2);
    assert_eq!((queue(&desk).waiting, queue(&desk).dropped), (1, 0));
    set(&mut desk, WhenFull::Log);
    desk.store_all();
    assert_eq!((queue(&desk).waiting, queue(&desk).dropped), (0, 1));
    assert_eq!(desk.answers, [(1, true), (2, true)]);
}
