// SPDX-License-Identifier: Apache-2.0
//! Stories of messages in turn and out of turn.

use super::*;
use helio_format::lease::Lease;
use helio_format::message::Ping;

fn starts(desk: &Desk) -> usize {
    desk.said.iter().filter(|m| matches!(m, Message::Start(_))).count()
}

#[test]
fn a_quiet_connection_is_tried_four_times_in_a_peer_timeout_and_at_least_once_a_second() {
    let heartbeat = |timeout| Config { peer_timeout: timeout, ..config() }.heartbeat();
    assert_eq!(heartbeat(Duration::from_secs(2)), Duration::from_millis(500));
    assert_eq!(heartbeat(Duration::from_secs(60)), Duration::from_secs(1));
}

#[test]
fn before_the_hello_any_other_message_ends_the_connection() {
    for early in [
        Message::Ping(Ping::default()),
        Message::Pong { token: 0, flushing: false, waits: false, short: false, metadata: 0 },
        Message::Start(start(generation(1), 1, true)),
        item(1),
        ack_of(1, 0, 0),
        Message::Copying(Copying::MarksWanted),
        Message::Lease(Lease::Returned),
        Message::PromoteRequest { generation: Generation::NONE, durable: Sequence::ZERO },
        Message::PromoteReply { granted: true, text: String::new() },
    ] {
        let mut desk = Desk::new(config());
        desk.tell(Event::Connected);
        desk.hear(early.clone());
        assert!(desk.accuses(), "{early:?}");
    }
}

#[test]
fn an_update_begins_once_the_peer_has_told_its_marks() {
    let mut desk = Desk::replicating(Mode::Async);
    let lineage = desk.lineage_now();
    desk.command(Command::Pause);
    desk.write(1);
    desk.store_all();
    desk.save_all();
    desk.lose_link();
    let before = starts(&desk);
    let at = Sequence(3);
    desk.meet(Hello { head: at, received: at, durable: at, ..hello(lineage, true) });
    assert!(
        desk.said.contains(&Message::Copying(Copying::MarksWanted)),
        "{:?}",
        desk.engine.view().last_decision()
    );
    desk.command(Command::Resync);
    assert_eq!(starts(&desk), before, "it waits for the peer's marks");
    desk.hear(Message::Copying(Copying::MarksEnd { trusted: true }));
    assert!(!desk.accuses());
    assert_eq!((starts(&desk), desk.engine.view().state()), (before + 1, State::Syncing));
}

#[test]
fn marks_that_nobody_asked_for_end_the_connection() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.hear(Message::Copying(Copying::MarksEnd { trusted: true }));
    assert!(desk.accuses());
}

#[test]
fn a_peer_that_was_primary_counts_as_crashed_unless_it_stopped_cleanly() {
    let source = hello(generation(1), true);
    for clean in [false, true] {
        let peer = Hello { wrote: true, clean, ..source.clone() };
        assert_eq!(helio_recovery::facts_of(&source, &peer).crashed, !clean);
    }
}

#[test]
fn without_autosync_only_a_copy_that_is_not_consistent_is_updated_unasked() {
    for consistent in [true, false] {
        let mut desk = Desk::level(Config { autosync: false, ..config() });
        let lineage = desk.lineage_now();
        desk.lose_link();
        let before = starts(&desk);
        desk.meet(Hello { trusted: false, metadata: 9, ..hello(lineage, consistent) });
        assert_eq!(
            desk.engine.view().last_decision().map(|met| met.label.as_str()),
            Some("unproven")
        );
        assert_eq!(starts(&desk) > before, !consistent);
        desk.command(Command::Resync);
        assert_eq!(starts(&desk), before + 1);
    }
}

#[test]
fn a_node_whose_marks_prove_nothing_says_so_behind_them() {
    for marks_void in [false, true] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let record = Superblock { lineage: generation(1), marks_void, clean: false, ..new };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
        desk.hear(Message::Copying(Copying::MarksWanted));
        let end = Copying::MarksEnd { trusted: !marks_void };
        assert!(desk.said.contains(&Message::Copying(end)), "{:?}", desk.said);
    }
}

#[test]
fn a_stream_from_a_peer_that_is_not_primary_ends_the_connection() {
    let mut desk = Desk::new(config());
    desk.meet(hello(generation(1), true));
    assert!(!desk.accuses());
    desk.hear(Message::Start(start(generation(1), 1, true)));
    assert!(desk.accuses());
    desk.store_all();
    assert!(desk.saves.is_empty(), "it does not follow that stream");
}

#[test]
fn a_peer_that_reports_want_of_room_before_its_hello_breaks_the_protocol() {
    let mut desk = Desk::primary(config());
    desk.tell(Event::Connected);
    desk.hear(Message::Copying(Copying::NoRoom { wanted: 8192, free: 4096 }));
    assert!(desk.accuses());
}

#[test]
fn a_safe_copy_is_given_up_once_and_the_peer_hears_of_it_on_a_later_connection_too() {
    let mut desk = Desk::new(config());
    let record =
        Superblock { lineage: generation(1), ..Superblock::new("db", "paris", [SIZE.0].into()) };
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    let mut desk = desk.promoted();
    let keeps = |desk: &mut Desk, hello: Hello| {
        desk.lose_link();
        desk.meet(hello);
        desk.hear(Message::Copying(Copying::MarksEnd { trusted: true }));
        desk.save_all();
        desk.last_start().keep
    };
    // It received many items of an earlier generation.
    let many = Sequence(688);
    let of_before = Hello { keeps: true, head: many, ..hello(generation(1), false) };
    assert!(keeps(&mut desk, of_before.clone()));
    desk.hear(Message::Copying(Copying::NoRoom { wanted: 8192, free: 4096 }));
    assert_eq!(desk.engine.view().state(), State::NeedsRoom);
    desk.command(Command::GiveUpSafeCopy);
    assert!(!desk.last_start().keep);
    assert!(!keeps(&mut desk, of_before), "it did not hear of that");
    desk.store_all();
    let (head, now) = (desk.last_start().from, desk.lineage_now());
    assert!(keeps(&mut desk, Hello { head, ..hello(now, false) }), "it did");
}

#[test]
fn a_primary_that_was_told_to_log_sends_nothing_when_its_peer_connects_again() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(Command::Pause);
    desk.lose_link();
    let (before, at) = (starts(&desk), desk.engine.view().status(desk.now).cursors.head);
    let known = hello(desk.lineage_now(), true);
    desk.meet(Hello { head: at, received: at, durable: at, ..known });
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("update-marks")
    );
    desk.hear(Message::Copying(Copying::MarksEnd { trusted: true }));
    desk.tell(Event::Tick);
    assert_eq!((starts(&desk), desk.engine.view().state()), (before, State::Logging));
}

#[test]
fn a_source_that_asks_for_too_much_at_once_breaks_the_protocol() {
    let mut desk = follower(generation(1), false);
    desk.save(true);
    let extent = Extent::new(0, SIZE.0);
    let wanted = Copying::DigestsWanted { volume: VolumeIndex(0), extent, coarse: true };
    for _ in 0..256 {
        desk.hear(Message::Copying(wanted.clone()));
    }
    assert!(!desk.accuses(), "32 MiB may be asked about");
    assert!(desk.ios.len() <= 64, "{} digests are read at once", desk.ios.len());
    desk.hear(Message::Copying(wanted));
    assert!(desk.accuses());
}
