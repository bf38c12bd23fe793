// SPDX-License-Identifier: Apache-2.0
//! Stories of word about the stream before, on the same connection.

use super::*;

#[test]
fn word_about_the_stream_before_is_no_offence() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.store_all();
    let before = desk.last_start().stream;
    desk.command(Command::Pause);
    desk.command(Command::Resync);
    desk.hear(ack_of(before, 3, 3));
    assert!(!desk.accuses(), "an acknowledgement that was on its way ended the connection");
    desk.store_all();
    desk.acked(5);
    assert_eq!(desk.engine.view().status(desk.now).cursors.peer_durable, Sequence(5));
}

#[test]
fn a_generation_is_told_once_this_stream_is_taken_up_whatever_is_said_of_one_before() {
    let starts = |desk: &Desk| desk.said.iter().filter(|m| matches!(m, Message::Start(_))).count();
    let mut desk = Desk::replicating(Mode::Sync);
    let (before, head) =
        (desk.last_start().stream, desk.engine.view().status(desk.now).cursors.head.0);
    desk.command(Command::Pause);
    desk.command(Command::FullResync);
    desk.save_all();
    desk.write(1);
    desk.store_all();
    desk.save_all();
    assert_eq!((starts(&desk), &desk.answers[..]), (2, &[(1, true)][..]));
    desk.hear(ack_of(before, head, head));
    assert_eq!(starts(&desk), 2, "it would forget the write, which it holds behind a start");
    desk.acked(head);
    assert_eq!(starts(&desk), 3);
    let fork = desk.lineage_now().fork_from(desk.lineage_now().ancestors()[0].generation);
    assert_eq!(Some(desk.last_start().from), fork.map(Sequence::next), "it is behind all before");
}

#[test]
fn no_item_behind_a_generation_that_is_being_recorded_is_sent_in_the_one_before() {
    let items = |desk: &Desk| desk.said.iter().filter(|m| matches!(m, Message::Item(_))).count();
    let mut desk = Desk::replicating(Mode::Sync);
    let before = desk.lineage_now();
    desk.lose_link();
    desk.write(1);
    desk.store_all();
    assert_eq!(desk.saves.len(), 1, "a write is to be acknowledged without the peer");
    let at = Sequence(3);
    desk.meet_before_saving(Hello { head: at, received: at, durable: at, ..hello(before, true) });
    let sent = items(&desk);
    assert_eq!((desk.last_start().lineage, desk.last_start().from), (before, at.next()));
    desk.write(2);
    assert_eq!(items(&desk), sent, "item 5 belongs to a generation that the peer does not know");
    desk.save(true);
    assert_eq!(items(&desk), sent, "nor does it now");
    desk.acked(4);
    let told = desk.last_start();
    assert_eq!((told.lineage, told.from), (desk.lineage_now(), Sequence(5)));
    assert_eq!(told.lineage.fork_from(before.generation), Some(Sequence(4)));
    assert_eq!(items(&desk), sent + 1);
}

#[test]
fn an_update_waits_for_the_record_of_a_generation() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Pause);
    desk.write(1);
    desk.store_all();
    assert_eq!(desk.saves.len(), 1, "a write is to be acknowledged without the peer");
    let before = desk.last_start();
    desk.command(Command::Resync);
    desk.write(2);
    assert_eq!(desk.last_start(), before);
    desk.save(true);
    let update = desk.last_start();
    assert_ne!(update, before);
    assert_eq!(update.lineage, desk.lineage_now());
}

#[test]
fn a_follower_whose_volume_failed_asks_for_no_moment_that_has_passed() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.store();
    desk.hear(item(2));
    super::lose::fail(&mut desk);
    assert!(desk.engine.view().status(desk.now).fault.is_some());
    desk.now = desk.now + Duration::from_secs(1);
    desk.tell(Event::Tick);
    let due = desk.engine.view().deadline();
    assert!(due > desk.now, "item 1 is complete and not durable: {due:?}");
}

#[test]
fn a_stop_that_waits_for_what_is_under_way_asks_for_no_moment_that_has_passed() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    desk.command(Command::Stop);
    desk.now = desk.now + 2 * crate::role::leave::STOP_PATIENCE;
    desk.tell(Event::Tick);
    desk.now = desk.now + Duration::from_millis(1);
    desk.tell(Event::Tick);
    assert_eq!(desk.engine.view().standing(), "leaving", "the store has not ended the write");
    assert!(desk.engine.view().deadline() > desk.now, "only that is waited for");
}

/// The peer restarted with what was durable there. Its record tells of the marker that it completed, item 3.
fn restarted(desk: &Desk) -> Hello {
    let head = Sequence(3);
    Hello { incarnation: PEER + 1, clean: false, head, ..hello(desk.lineage_now(), true) }
}

#[test]
fn what_a_peer_completed_before_it_restarted_counts_as_lag_again() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.hear(Message::Ack(Ack {
        stream: LATEST,
        received: Sequence(4),
        completed: Sequence(4),
        durable: Sequence(3),
        ranges: Ranges::default(),
    }));
    let writes = |desk: &Desk| desk.engine.view().status(desk.now).lag.writes;
    assert_eq!(writes(&desk), 0);
    desk.lose_link();
    desk.meet(restarted(&desk));
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("resume-durable")
    );
    assert_eq!(writes(&desk), 1, "the peer may have lost it");
}

/// Its cursors count from where the stream began, and are behind what was known of it.
#[test]
fn a_peer_that_takes_a_stream_up_may_begin_behind_what_it_had_and_only_goes_on_from_there() {
    let told = |received, completed| {
        let (received, completed) = (Sequence(received), Sequence(completed));
        let (stream, durable, ranges) = (LATEST, Sequence(3), Ranges::default());
        Message::Ack(Ack { stream, received, completed, durable, ranges })
    };
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.write(17);
    desk.hear(told(5, 5));
    desk.lose_link();
    let (received, durable) = (Sequence(5), Sequence(3));
    desk.meet(Hello { head: received, received, durable, ..hello(desk.lineage_now(), true) });
    desk.hear(told(4, 4));
    assert!(!desk.accuses(), "it takes the stream up");
    desk.hear(told(4, 3));
    assert!(desk.accuses(), "it cannot complete less than before on the same stream");
}

#[test]
fn a_stream_that_is_sent_again_says_how_much_it_may_overwrite() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.write(17);
    desk.ask(2, Operation::Flush);
    desk.store_all();
    desk.lose_link();
    desk.meet(restarted(&desk));
    let start = desk.last_start();
    assert_eq!((start.from, start.consistent), (Sequence(4), false));
    let chunk = helio_format::before::CHUNK_BYTES;
    assert_eq!(start.to_copy, 2 * chunk, "two writes touch a chunk each, and a flush none");
}

/// How much the peer may lack.
fn lacks(desk: &Desk) -> Bytes {
    desk.engine.view().status(desk.now).lag.bytes
}

/// The peer received two writes in an update; the connection broke before the marker. It preserves its earlier image and may be
/// promoted with it.
fn cut_off_in_an_update() -> Desk {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.write(17);
    desk.store_all();
    desk.acked(3);
    desk.lose_link();
    desk.meet(restarted(&desk));
    let start = desk.last_start();
    assert_eq!((start.consistent, start.keep), (false, true));
    desk.acked(5);
    assert_eq!(lacks(&desk), Bytes::ZERO, "it has the writes, and the marker is to come");
    desk.lose_link();
    assert_eq!(lacks(&desk), REGION * 2);
    desk
}

#[test]
fn an_update_of_which_the_last_acknowledgement_was_lost_ends_with_the_next_hello() {
    let mut desk = cut_off_in_an_update();
    // No stream begins.
    desk.command(Command::Pause);
    let at = Sequence(6);
    desk.meet(Hello { head: at, received: at, durable: at, clean: true, ..restarted(&desk) });
    assert_eq!(lacks(&desk), Bytes::ZERO);
}

#[test]
fn what_a_peer_received_in_an_update_is_at_stake_until_it_ends() {
    for ends in [false, true] {
        let mut desk = cut_off_in_an_update();
        // The same process has received the marker, and not recorded that its image is consistent.
        let received = Sequence(6);
        let peer =
            Hello { received, keeps: true, clean: false, consistent: false, ..restarted(&desk) };
        desk.meet(peer);
        assert!(desk.last_start().consistent);
        if ends {
            desk.acked(6);
        }
        desk.lose_link();
        let expected = if ends { Bytes::ZERO } else { REGION * 2 };
        assert_eq!(lacks(&desk), expected);
        desk.now = desk.now + Duration::from_secs(1);
        let age = desk.engine.view().status(desk.now).lag.oldest;
        assert_eq!(age >= Duration::from_secs(1), !ends, "{age:?}");
        desk.command(Command::Demote);
        desk.store_all();
        desk.save_all();
        let stake = desk.engine.view().stake(true).expect("it was primary");
        let bytes: u64 = stake.differing.iter().map(|(_, extent)| extent.length).sum();
        assert_eq!(Bytes(bytes), expected);
    }
}

/// A write that waits for its extent to turn hot may need the extents of later ones to turn cold.
#[test]
fn what_the_peer_has_durable_is_not_marked_although_an_earlier_write_has_not_ended_here() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.write(17);
    let (io, ..) = desk.ios.pop_back().expect("the second write is issued");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Done });
    desk.acked(5);
    assert!(!desk.engine.view().is_marked(VolumeIndex(0), REGION.0));
    assert!(desk.engine.view().is_marked(VolumeIndex(0), 0), "the first may be missing here");
    desk.store_all();
    assert!(!desk.engine.view().is_marked(VolumeIndex(0), 0));
}

#[test]
fn a_stream_that_begins_where_no_line_does_ends_the_connection() {
    for from in [0, 1 << 62, 1 << 63, u64::MAX] {
        let mut desk = Desk::new(config());
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
        desk.hear(Message::Start(start(generation(1), from, true)));
        assert!(desk.accuses(), "item {from}");
    }
}

#[test]
fn a_marker_the_peer_received_is_not_ahead_of_it_any_more() {
    let mut desk = Desk::replicating(Mode::Async);
    for id in 1..4 {
        desk.write(id);
    }
    desk.store_all();
    desk.lose_link();
    // The peer restarted: what it had not made durable comes again, and a marker behind it.
    let lineage = desk.lineage();
    let head = Sequence(3);
    desk.meet(Hello { incarnation: PEER + 1, clean: false, head, ..hello(lineage, true) });
    assert_eq!((desk.last_start().from, desk.last_start().consistent), (Sequence(4), false));
    desk.hear(ack(6, 5));
    desk.lose_link();
    // It received the marker, item 7, and we never heard so.
    let received = Sequence(7);
    let again = Hello { incarnation: PEER + 1, head: received, received, ..hello(lineage, true) };
    desk.meet(Hello { durable: Sequence(5), ..again });
    assert_eq!((desk.last_start().from, desk.last_start().consistent), (Sequence(8), true));
}

#[test]
fn a_marker_that_was_never_sent_stays_a_marker() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.store_all();
    let lineage = desk.lineage();
    desk.lose_link();
    desk.tell(Event::Connected);
    let (clean, head) = (false, Sequence(3));
    let restarted = |n| Hello { incarnation: PEER + n, clean, head, ..hello(lineage, true) };
    // The stream breaks before anything of it is sent.
    let broken = Event::Disconnected { why: String::from("cut") };
    desk.tell_together([Event::Message(Message::Hello(restarted(1))), broken]);
    desk.meet(restarted(2));
    assert!(!desk.last_start().consistent);
    let items = desk.said.iter().rev().filter_map(|m| match m {
        Message::Item(item) => Some(item.kind),
        _ => None,
    });
    assert_eq!(items.into_iter().next(), Some(ItemKind::Consistent));
}
