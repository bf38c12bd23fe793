// SPDX-License-Identifier: Apache-2.0
//! Stories of word about the stream before, on the same connection.

use super::*;

#[test]
fn word_about_the_stream_before_is_no_offence() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.store_all();
    let before = desk.last_start().stream;
    desk.command(Command::Log);
    desk.command(Command::Update);
    desk.hear(ack_of(before, 3, 3));
    assert!(!desk.accuses(), "an acknowledgement that was on its way ended the connection");
    desk.store_all();
    desk.acked(5);
    assert_eq!(desk.engine.status(desk.now).cursors.peer_durable, Sequence(5));
}

#[test]
fn a_generation_is_told_once_this_stream_is_taken_up_whatever_is_said_of_one_before() {
    let starts = |desk: &Desk| desk.said.iter().filter(|m| matches!(m, Message::Start(_))).count();
    let mut desk = Desk::replicating(Mode::Sync);
    let (before, head) = (desk.last_start().stream, desk.engine.status(desk.now).cursors.head.0);
    desk.command(Command::Log);
    desk.command(Command::Full);
    desk.save_all();
    desk.write(1);
    desk.store_all();
    desk.save_all();
    assert_eq!((starts(&desk), &desk.answers[..]), (2, &[(1, true)][..]));
    desk.hear(ack_of(before, head, head));
    assert_eq!(starts(&desk), 2, "it would forget the write, which it holds behind a start");
    desk.acked(head);
    assert_eq!(starts(&desk), 3);
    assert_eq!(desk.last_start().from, desk.engine.status(desk.now).cursors.head.next());
}

#[test]
fn a_follower_whose_volume_failed_asks_for_no_moment_that_has_passed() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.store();
    desk.hear(item(2));
    super::lose::fail(&mut desk);
    assert!(desk.engine.status(desk.now).fault.is_some());
    desk.now = desk.now + Duration::from_secs(1);
    desk.tell(Event::Tick);
    let due = desk.engine.deadline();
    assert!(due > desk.now, "item 1 is complete and not durable: {due:?}");
}

#[test]
fn a_stop_that_waits_for_what_is_under_way_asks_for_no_moment_that_has_passed() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    desk.command(Command::Stop);
    desk.now = desk.now + 2 * crate::leave::STOP_PATIENCE;
    desk.tell(Event::Tick);
    desk.now = desk.now + Duration::from_millis(1);
    desk.tell(Event::Tick);
    assert_eq!(desk.engine.standing(), "leaving", "the store has not ended the write");
    assert!(desk.engine.deadline() > desk.now, "only that is waited for");
}
