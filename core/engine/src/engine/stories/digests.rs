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
    assert!(matches!(desk.ios[0].2, ReadAs::Digests { .. }));
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

fn questions(desk: &Desk) -> Vec<u64> {
    let length = |question: &Copying| match question {
        Copying::DigestsWanted { extent, .. } => extent.length,
        _ => 0,
    };
    desk.asked.iter().map(length).collect()
}

/// The store reads what the copier asks for first. All of it differs, and none of it is zeros.
fn differ(desk: &mut Desk) {
    let extent = match desk.ios.front() {
        Some((_, StoreOp::Read { extent }, ReadAs::Runs { .. } | ReadAs::Differing { .. })) => {
            *extent
        }
        _ => return desk.store(),
    };
    let (io, ..) = desk.ios.pop_front().expect("it is there");
    let run = Run { extent, payload: Some(desk.payload(extent.length as u32)) };
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing([run].into()) });
}

#[test]
fn where_most_differs_neighbouring_regions_are_copied_together_without_a_question() {
    let (mut desk, peer) = Desk::primary_of(&[Bytes::mib(48)], config());
    desk.meet(peer);
    assert_eq!(questions(&desk), [1 << 20; 4], "it does not know yet whether it pays to ask");
    assert!(desk.ios.is_empty(), "nothing is copied before an answer");
    let (mut rows, mut turns) = (Vec::new(), 0);
    while desk.engine.view().state() != State::Replicating {
        let row = |(_, op, read_as): &(IoId, StoreOp, ReadAs)| {
            op.reads().filter(|_| matches!(read_as, ReadAs::Runs { .. })).map(|row| row.length)
        };
        rows.extend(desk.ios.iter().filter_map(row));
        turns += 1;
        assert!(turns < 10_000, "the update does not end");
        if desk.ios.is_empty() && desk.asked.is_empty() {
            desk.tell(Event::LinkTook { bytes: u64::MAX });
            let sent = desk.engine.view().status(desk.now).cursors.peer_sent.0;
            desk.acked(sent);
        } else if desk.ios.is_empty() {
            desk.tell_digests();
        } else {
            differ(&mut desk);
        }
        desk.save_all();
    }
    assert!(rows.contains(&(8 * REGION.0)), "{rows:?}");
}

/// Its region stays marked until it is durable there, so it is read again if the peer restarts.
#[test]
fn what_was_copied_takes_no_room_in_the_queue_once_the_peer_has_completed_it() {
    let mut desk = updating();
    desk.tell_digests();
    let (io, ..) = desk.ios.pop_front().expect("a region is compared");
    let payload = desk.payload(65536);
    let run = Run { extent: Extent::new(0, 65536), payload: Some(payload) };
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing([run].into()) });
    let queued =
        |desk: &Desk| desk.engine.view().status(desk.now).queue.expect("it is primary").bytes;
    let before = queued(&desk);
    desk.hear(Message::Ack(Ack {
        stream: LATEST,
        received: Sequence(1),
        completed: Sequence(1),
        durable: Sequence::ZERO,
        ranges: Ranges::default(),
    }));
    assert!(queued(&desk) + Bytes(60_000) < before, "{before} and now {}", queued(&desk));
    assert_eq!(desk.engine.view().status(desk.now).marked, [SIZE], "it may be lost there yet");
}
