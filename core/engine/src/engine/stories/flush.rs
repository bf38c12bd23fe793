// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary whose store fails a flush or an operation with FUA: its copy is suspect from then on.

use super::lose::fail;
use super::*;
use helio_format::reading::{Reading, Told};

const V: VolumeIndex = VolumeIndex(0);

/// Time passes, the peer has everything, and whatever else is asked for goes well.
fn settle(desk: &mut Desk) {
    for _ in 0..2 {
        tick(desk);
        desk.store_all();
        peer_has_all(desk);
        desk.save_all();
    }
}

/// Pages of marks are due.
fn tick(desk: &mut Desk) {
    desk.now = desk.now + Duration::from_millis(1100);
    desk.tell(Event::Tick);
}

fn peer_has_all(desk: &mut Desk) {
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    desk.acked(head);
}

fn refused(desk: &Desk) -> Option<&str> {
    desk.results.last().and_then(|result| result.as_ref().err()).map(|refusal| refusal.code)
}

fn fault(desk: &Desk) -> String {
    desk.engine.view().fault().unwrap_or_default().what
}

fn label(desk: &Desk) -> Option<&str> {
    desk.engine.view().last_decision().map(|met| met.label.as_str())
}

fn asked_to_read(desk: &Desk) -> bool {
    desk.said.iter().any(|m| matches!(m, Message::Reading(Reading::Wanted { zeros: false, .. })))
}

/// Level in that mode, quiet, and a single extent may be hot: each write has the engine flush by itself.
fn flushes_by_itself(mode: Mode) -> Desk {
    let mut desk = Desk::level(Config { mode, hot_extents: 1, ..config() });
    settle(&mut desk);
    assert!(!desk.engine.record.superblock().marks_void);
    desk.write(1);
    desk.store();
    desk
}

/// The engine's own flush fails.
fn own_flush_fails(desk: &mut Desk) {
    assert!(matches!(desk.ios.front(), Some((_, StoreOp::Flush, _))), "{:?}", desk.ios);
    fail(desk);
}

/// A write is on both nodes, the link breaks, and an operation fails.
fn suspect_by(operation: Operation) -> Desk {
    let mut desk = Desk::replicating(Mode::Sync);
    settle(&mut desk);
    desk.write(1);
    desk.store_all();
    peer_has_all(&mut desk);
    assert_eq!(desk.answers, [(1, true)]);
    desk.lose_link();
    desk.ask(2, operation);
    fail(&mut desk);
    desk
}

/// The same, and the record says so.
pub(super) fn suspect() -> Desk {
    let mut desk = suspect_by(Operation::Flush);
    desk.save_all();
    desk
}

fn restarted(record: Superblock) -> Desk {
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 2, 2, Moment::ZERO);
    desk
}

/// The peer as it is known: it has everything up to there.
fn level_peer(desk: &Desk, upto: u64) -> Hello {
    let at = Sequence(upto);
    Hello { head: at, received: at, durable: at, clean: true, ..hello(desk.lineage_now(), true) }
}

/// The peer, which has everything up to there, gets the rest and serves in the place of the suspect copy.
fn takes_the_place(desk: &mut Desk, upto: u64) {
    desk.meet(level_peer(desk, upto));
    assert_eq!(label(desk), Some("resume-received"));
    peer_has_all(desk);
    tick(desk);
    desk.save_all();
    assert!(fault(desk).contains("served from lyon"), "{}", fault(desk));
}

#[test]
fn a_flush_of_the_engine_that_fails_hands_the_volume_to_the_level_peer_in_every_mode_and_policy() {
    for (mode, policy) in [
        (Mode::Sync, OnError::Pass),
        (Mode::Sync, OnError::ServeFromPeer),
        (Mode::NearSync, OnError::Pass),
        (Mode::Async, OnError::Pass),
    ] {
        let mut desk = flushes_by_itself(mode);
        desk.set_on_error(policy);
        own_flush_fails(&mut desk);
        let record = desk.save(true);
        assert_eq!((record.suspect, record.marks_void), (1, true), "{mode}: at once");
        desk.ask(2, Operation::Flush);
        desk.ask(3, Operation::Read(Extent::new(0, 4096)));
        assert!(!desk.ios.iter().any(|(_, op, _)| matches!(op, StoreOp::Flush)));
        assert!(
            asked_to_read(&desk),
            "{mode}: the peer is asked for what the store may have dropped"
        );
        tick(&mut desk);
        desk.save_all();
        assert!(!desk.answers.contains(&(2, true)), "{mode}: the peer has not flushed yet");
        peer_has_all(&mut desk);
        assert!(desk.answers.contains(&(2, true)), "{mode}: {:?}", desk.answers);
        assert!(!desk.engine.record.superblock().consistent);
        assert!(fault(&desk).contains("served from lyon"), "{}", fault(&desk));
    }
}

#[test]
fn in_async_a_flush_fails_if_the_peer_goes_away_before_the_queue_has_reached_it() {
    let mut desk = flushes_by_itself(Mode::Async);
    own_flush_fails(&mut desk);
    desk.ask(2, Operation::Flush);
    tick(&mut desk);
    desk.save_all();
    desk.lose_link();
    assert!(!desk.answers.iter().any(|(id, _)| *id == 2), "it may come back");
    desk.now = desk.now + config().flush_limit;
    desk.tell(Event::Tick);
    assert!(desk.answers.contains(&(2, false)));
}

#[test]
fn a_failed_flush_without_a_level_peer_is_recorded_before_its_client_is_told() {
    let mut desk = suspect_by(Operation::Flush);
    assert_eq!(desk.answers, [(1, true)], "no record says so yet");
    assert_eq!(desk.save(true).suspect, 1);
    assert_eq!(desk.answers.last(), Some(&(2, false)));
    assert!(fault(&desk).contains("suspect"), "{}", fault(&desk));
    assert!(!desk.engine.view().status(desk.now).consistent);
    assert!(desk.engine.view().is_marked(V, SIZE.0 - 1), "all of it counts as marked");
}

#[test]
fn a_record_that_cannot_be_written_does_not_hold_the_error_back() {
    let mut desk = suspect_by(Operation::Flush);
    desk.save(false);
    assert_eq!(desk.answers.last(), Some(&(2, false)));
}

#[test]
fn behind_a_failed_flush_no_flush_and_no_fua_succeeds_while_reads_and_writes_go_on() {
    let mut desk = suspect();
    desk.ask(3, Operation::Flush);
    desk.store_all();
    let payload = Payload { id: PayloadId(9), length: 4096 };
    let extent = Extent::new(0, 4096);
    desk.ask(4, Operation::Write { extent, payload, fua: true });
    desk.store_all();
    desk.write(5);
    desk.store_all();
    desk.save_all();
    let answers = &desk.answers[2..];
    assert_eq!(answers, [(3, false), (4, false), (5, true)], "the store says that all went well");
    assert_eq!(fault(&desk).matches("suspect").count(), 1);
}

#[test]
fn of_two_flushes_under_way_one_failure_fails_both() {
    let mut desk = Desk::replicating(Mode::Sync);
    settle(&mut desk);
    desk.lose_link();
    desk.ask(2, Operation::Flush);
    desk.ask(3, Operation::Flush);
    fail(&mut desk);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers, [(2, false), (3, false)]);
}

#[test]
fn any_operation_with_fua_that_fails_is_a_failed_flush() {
    let extent = Extent::new(0, 4096);
    let payload = Payload { id: PayloadId(9), length: 4096 };
    for operation in [
        Operation::Write { extent, payload, fua: true },
        Operation::Zero { extent, punch: true, fua: true },
        Operation::Discard { extent, fua: true },
    ] {
        let mut desk = suspect_by(operation);
        assert_eq!(desk.save(true).suspect, 1, "{operation:?}");
        assert_eq!(desk.answers.last(), Some(&(2, false)));
        desk.ask(3, Operation::Flush);
        desk.store_all();
        assert_eq!(desk.answers.last(), Some(&(3, false)), "{operation:?}");
    }
    let plain = Operation::Zero { extent, punch: true, fua: false };
    let desk = suspect_by(plain);
    assert_eq!(
        (desk.engine.local.suspect().volumes(), desk.answers.last()),
        (0, Some(&(2, false)))
    );
}

#[test]
fn what_fails_for_want_of_metadata_says_nothing_of_the_store() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.lose_link();
    desk.unwritable = true;
    let (extent, payload) = (Extent::new(0, 4096), Payload { id: PayloadId(9), length: 4096 });
    desk.ask(1, Operation::Write { extent, payload, fua: true });
    assert_eq!(
        (desk.answers.last(), desk.engine.local.suspect().volumes()),
        (Some(&(1, false)), 0)
    );
}

#[test]
fn a_suspect_copy_is_not_the_source_of_any_copy() {
    let mut desk = suspect();
    for command in [Command::Resync, Command::FullResync, Command::GiveUpSafeCopy] {
        desk.command(command);
        assert_eq!(refused(&desk), Some("suspect"), "{command:?}");
    }
    // The peer restarted and order was lost: what is to be copied is here alone, or nowhere.
    desk.command(Command::Pause);
    desk.said.clear();
    let peer = level_peer(&desk, 3);
    desk.meet(Hello { incarnation: PEER + 1, ..peer });
    assert_eq!(label(&desk), Some("source-suspect"));
    assert!(!desk.said.iter().any(|m| matches!(m, Message::Start(_))));
    assert!(
        desk.engine.view().status(desk.now).link.hint.is_some_and(|r| r.contains("member accept"))
    );
}

#[test]
fn a_peer_that_gets_the_whole_line_serves_in_the_place_of_a_suspect_copy() {
    let mut desk = suspect();
    desk.write(3);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers.last(), Some(&(3, true)), "answered here alone");
    takes_the_place(&mut desk, 4);
    desk.ask(4, Operation::Flush);
    assert!(desk.ios.is_empty(), "{:?}", desk.ios);
    peer_has_all(&mut desk);
    assert_eq!(desk.answers.last(), Some(&(4, true)));
}

/// The peer answers every question about its store with zeros.
fn peer_tells(desk: &mut Desk) {
    let wanted = |m: &Message| match m {
        Message::Reading(Reading::Wanted { ticket, .. }) => Some(*ticket),
        _ => None,
    };
    while let Some(at) = desk.said.iter().position(|m| wanted(m).is_some()) {
        let Some(ticket) = wanted(&desk.said.remove(at)) else { break };
        desk.hear(Message::Reading(Reading::Told { ticket, what: Told::Zeros }));
        desk.store_all();
    }
}

#[test]
fn an_update_rebuilds_a_suspect_copy_from_the_peer_without_reading_it_and_a_flush_ends_it() {
    let mut desk = flushes_by_itself(Mode::Sync);
    own_flush_fails(&mut desk);
    tick(&mut desk);
    desk.save_all();
    peer_has_all(&mut desk);
    desk.said.retain(|m| matches!(m, Message::Start(_)));
    desk.command(Command::Resync);
    assert!(desk.results.last().is_some_and(Result::is_ok), "{:?}", desk.results.last());
    let reads = |m: &Message| matches!(m, Message::Copying(Copying::DigestsWanted { .. }));
    assert!(!desk.said.iter().any(reads), "what this store reads proves nothing");
    peer_tells(&mut desk);
    settle(&mut desk);
    let record = desk.engine.record.superblock();
    assert_eq!((record.suspect, record.consistent), (0, true));
    assert_eq!(desk.engine.view().state(), State::Replicating);
    assert_eq!(fault(&desk), "");
    settle(&mut desk);
    assert!(!desk.engine.record.superblock().marks_void, "its marks prove something again");
    desk.ask(7, Operation::Flush);
    desk.store_all();
    peer_has_all(&mut desk);
    assert_eq!(desk.answers.last(), Some(&(7, true)));
}

#[test]
fn a_suspect_primary_that_restarted_waits_until_its_peer_is_promoted() {
    let desk = suspect();
    let (record, peer) = (desk.engine.record.superblock().clone(), level_peer(&desk, 4));
    let mut desk = restarted(record);
    desk.meet(peer);
    desk.hear(Message::Pong { token: 1, flushing: false, waits: false, short: false, metadata: 1 });
    assert!(!desk.engine.view().is_primary(), "it does not go on");
    assert!(desk.engine.view().status(desk.now).reason.contains("suspect"));
    let Some(Message::Hello(ours)) = desk.said.iter().find(|m| matches!(m, Message::Hello(_)))
    else {
        panic!("it introduced itself")
    };
    assert!(ours.suspect && !ours.consistent);
    for force in [false, true] {
        desk.command(Command::Promote { force });
        assert_eq!(refused(&desk), Some("suspect"));
    }
}

#[test]
fn a_suspect_primary_without_its_peer_leads_again_once_its_copy_was_accepted() {
    let mut desk = restarted(suspect().engine.record.superblock().clone());
    desk.command(Command::Promote { force: true });
    assert_eq!(refused(&desk), Some("suspect"));
    desk.command(Command::Accept { volume: V });
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.suspect, record.marks_void, record.clean), (0, true, false));
    desk.command(Command::Promote { force: true });
    desk.save(true);
    assert!(desk.engine.view().is_primary());
    assert!(
        desk.engine.view().is_marked(V, SIZE.0 - 1),
        "all of the peer's copy is to be compared"
    );
}

#[test]
fn an_accepted_copy_is_copied_to_the_peer_as_any_other() {
    let mut desk = suspect();
    desk.command(Command::Accept { volume: V });
    assert_eq!(refused(&desk), Some("leads"), "clients use it");
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    assert!(desk.engine.view().may_accept(V).is_ok_and(|stake| stake.contains("acknowledged")));
    desk.command(Command::Accept { volume: V });
    desk.store_all();
    assert_eq!(desk.save(true).suspect, 0);
    assert!(desk.results.last().is_some_and(Result::is_ok));
    desk.command(Command::Promote { force: true });
    desk.save_all();
    desk.ask(3, Operation::Flush);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers.last(), Some(&(3, true)));
    let peer = level_peer(&desk, 3);
    desk.meet(peer);
    assert_eq!(desk.last_start().to_copy, SIZE.0);
    desk.command(Command::Accept { volume: V });
    assert_eq!(refused(&desk), Some("not-suspect"));
}

#[test]
fn a_copy_that_the_peer_takes_the_place_of_is_not_accepted() {
    let mut desk = flushes_by_itself(Mode::Sync);
    own_flush_fails(&mut desk);
    desk.save_all();
    desk.command(Command::Accept { volume: V });
    assert_eq!(refused(&desk), Some("better-copy"));
}

#[test]
fn everything_is_copied_to_a_suspect_target() {
    let mut desk = Desk::primary(config());
    let peer = hello(desk.lineage_now(), false);
    desk.meet(Hello { suspect: true, trusted: false, ..peer });
    assert_eq!(label(&desk), Some("target-suspect"));
    assert!(desk.last_start().whole);
    assert_eq!(desk.last_start().to_copy, SIZE.0);
}

#[test]
fn a_suspect_primary_that_was_demoted_is_written_again_whatever_it_reads() {
    let mut desk = suspect();
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    desk.store_all();
    assert!(!desk.engine.view().holds_line());
    assert!(desk.engine.local.suspect().touches(V, Extent::new(SIZE.0 - 4096, 4096)));
}

#[test]
fn a_copy_that_was_discarded_with_its_metadata_is_written_again_whatever_it_reads() {
    let config = config();
    let mut record = Superblock::new(&config.group, &config.node, [SIZE.0].into());
    (record.discarded, record.suspect) = (true, 1);
    let mut suspect = crate::local::suspect::Suspect::new(1);
    suspect.load(&record, &helio_bitmap::HotExtents::new(&[SIZE], 4), &config);
    assert!(suspect.touches(V, Extent::new(0, 4096)), "no hot extent tells of it any more");
}

#[test]
fn a_read_beside_a_failed_flush_is_asked_of_the_peer() {
    let mut desk = flushes_by_itself(Mode::Sync);
    desk.ask(3, Operation::Read(Extent::new(0, 4096)));
    own_flush_fails(&mut desk);
    desk.said.retain(|m| matches!(m, Message::Start(_)));
    desk.store();
    assert!(!desk.answers.iter().any(|(id, _)| *id == 3), "the store may have dropped it");
    tick(&mut desk);
    desk.save_all();
    assert!(asked_to_read(&desk));
}

#[test]
fn a_secondary_is_suspect_until_a_stream_that_brings_everything_has_ended() {
    let mut record = suspect().engine.record.superblock().clone();
    record.role = Role::Secondary;
    let mut desk = restarted(record);
    let theirs = desk.lineage_now().fork(Generation { number: 9, tag: 9 }, Sequence(4));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(theirs, true) });
    desk.hear(Message::Start(start(theirs, 5, false)));
    desk.store_all();
    assert_eq!(desk.save(true).suspect, 1);
    let Message::Item(marker) = item(5) else { panic!("no item") };
    let extent = Extent::default();
    desk.hear(Message::Item(Item { kind: ItemKind::Consistent, extent, ..marker }));
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.suspect, record.consistent), (0, true));
}

#[test]
fn a_last_flush_that_fails_leaves_a_suspect_copy() {
    for command in [Command::Demote, Command::Stop] {
        let mut desk = Desk::replicating(Mode::Sync);
        desk.write(1);
        desk.store_all();
        peer_has_all(&mut desk);
        desk.command(command);
        fail(&mut desk);
        assert!(!desk.engine.local.hot().was_flushed(V));
        desk.store_all();
        desk.save_all();
        let record = desk.engine.record.superblock();
        assert!(record.marks_void && record.suspect == 1, "{command:?}");
    }
}

#[test]
fn a_write_with_fua_that_failed_does_not_keep_the_peer_from_taking_over() {
    let payload = Payload { id: PayloadId(9), length: 4096 };
    let operation = Operation::Write { extent: Extent::new(0, 4096), payload, fua: true };
    let mut desk = suspect_by(operation);
    desk.save_all();
    let sent = desk.engine.view().status(desk.now).cursors.head.0 - 1;
    takes_the_place(&mut desk, sent);
}

#[test]
fn a_failed_flush_is_answered_although_its_record_waits_behind_pages_that_cannot_be_written() {
    let mut desk = suspect_by(Operation::Flush);
    assert_eq!(desk.answers, [(1, true)], "no record says so yet");
    desk.engine.record.keeping_mut().page_begins(desk.now);
    desk.tell(Event::Kept { kept: Kept::Marks { page: 0 }, ok: false, sequence: 9 });
    assert_eq!(desk.saves.len(), 1, "the record is under way still");
    assert!(desk.answers.contains(&(2, false)), "{:?}", desk.answers);
}

#[test]
fn what_could_not_be_recorded_is_known_as_long_as_the_process_runs() {
    let mut desk = suspect_by(Operation::Flush);
    desk.save(false);
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    assert!(!desk.engine.view().is_primary());
    assert!(desk.engine.local.suspect().touches(V, Extent::new(SIZE.0 - 4096, 4096)));
    desk.command(Command::Promote { force: true });
    assert_eq!(refused(&desk), Some("suspect"));
}

/// The store does what it is asked for, but fails every flush. Returns how many those were.
fn store_without_flushes(desk: &mut Desk) -> usize {
    let mut flushes = 0;
    for _ in 0..100 {
        match desk.ios.front() {
            Some((_, StoreOp::Flush, _)) => {
                flushes += 1;
                fail(desk);
            }
            Some(_) => desk.store(),
            None if desk.saves.is_empty() => return flushes,
            None => desk.save_all(),
        }
    }
    panic!("it asks for ever: {:?}", desk.ios)
}

#[test]
fn a_primary_whose_store_fails_every_flush_writes_on_and_stops() {
    let volumes = [Bytes::mib(16)].into();
    let mut desk = Desk::primary(Config { volumes, hot_extents: 1, ..config() });
    let mut flushes = 0;
    for id in 1..9 {
        let payload = Payload { id: PayloadId(1000 + id), length: 4096 };
        let extent = Extent::new(id % 4 * Bytes::mib(4).0, 4096);
        desk.ask(id, Operation::Write { extent, payload, fua: false });
        flushes += store_without_flushes(&mut desk);
        tick(&mut desk);
        flushes += store_without_flushes(&mut desk);
        assert_eq!(desk.answers.last(), Some(&(id, true)), "it needs no place that a flush frees");
    }
    assert_eq!(flushes, 1, "the first failure told all there is to know");
    assert!(desk.engine.record.superblock().marks_void, "everything counts as marked");
    desk.command(Command::Stop);
    store_without_flushes(&mut desk);
    assert!(matches!(desk.results.last(), Some(Ok(_))), "{:?}", desk.results);
    assert_eq!(
        (desk.engine.record.superblock().suspect, desk.engine.record.superblock().marks_void),
        (1, true)
    );
}

/// The store fails the first thing it was asked for. Returns how often the operator is warned that the copy is suspect.
fn warnings_at_failure(desk: &mut Desk) -> usize {
    let (io, ..) = desk.ios.pop_front().expect("the store has something to do");
    let failed = Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) };
    let mut effects = Vec::new();
    desk.engine.handle(desk.now, failed, &mut effects);
    let warns =
        |e: &&Effect| matches!(e, Effect::Note(note) if note.text.contains("helio member accept"));
    effects.iter().filter(warns).count()
}

#[test]
fn the_first_failed_flush_warns_the_operator_and_the_next_one_does_not_repeat_it() {
    let mut desk = Desk::replicating(Mode::Sync);
    settle(&mut desk);
    desk.lose_link();
    desk.ask(2, Operation::Flush);
    desk.ask(3, Operation::Flush);
    assert_eq!(warnings_at_failure(&mut desk), 1);
    assert_eq!(warnings_at_failure(&mut desk), 0);
}
