// SPDX-License-Identifier: Apache-2.0
//! Stories of the hold lease.

use super::*;
use helio_format::lease::Lease;
use helio_format::message::Ping;

const HOLD: Duration = Duration::from_secs(4);

fn leasing(mode: Mode) -> Config {
    Config { mode, hold: HOLD, ..config() }
}

impl Desk {
    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.tell(Event::Tick);
    }

    fn granted(&self) -> bool {
        self.said.iter().any(|m| matches!(m, Message::Lease(Lease::Granted { .. })))
    }

    fn wanted(&self) -> Option<u64> {
        let number = |m: &Message| match m {
            Message::Lease(Lease::Wanted { number, .. }) => Some(*number),
            _ => None,
        };
        self.said.iter().rev().find_map(number)
    }

    /// A secondary that replicates, and asked for a lease.
    fn asking() -> Self {
        let line = generation(1);
        let mut desk = Self::new(leasing(Mode::Sync));
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(line, true) });
        desk.hear(Message::Start(start(line, 1, true)));
        desk.store_all();
        desk.save_all();
        let (state, mode) = (Some(State::Replicating), Some(Mode::Sync));
        desk.hear(Message::Ping(Ping { token: 1, state, mode, ..Ping::default() }));
        desk
    }

    fn holding() -> Self {
        let mut desk = Self::asking();
        let number = desk.wanted().expect("it asks");
        desk.hear(Message::Lease(Lease::Granted { number, millis: 4000 }));
        desk.save_all();
        desk
    }
}

#[test]
fn a_primary_that_granted_a_lease_answers_alone_once_it_has_waited() {
    for mode in [Mode::Sync, Mode::NearSync] {
        let mut desk = Desk::level(leasing(mode));
        desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
        assert!(desk.granted(), "{mode}: nothing is answered without the peer");
        desk.lose_link();
        desk.write(1);
        desk.store_all();
        desk.pass(Duration::from_millis(5000));
        assert!(desk.answers.is_empty(), "4 s x 1.01 + 1 s are not over");
        assert!(desk.saves.iter().all(|record| !record.alone), "nor is it alone yet");
        let wait_nearly_over = desk.now;
        desk.pass(Duration::from_millis(40));
        desk.save_all();
        assert!(desk.answers.is_empty(), "nobody tried whether the peer can be reached");
        desk.tell(Event::DialFailed { began: Moment(wait_nearly_over.0 - 2_000_000_000) });
        assert!(desk.saves.is_empty(), "that attempt began while the lease could be used");
        desk.tell(Event::DialFailed { began: wait_nearly_over });
        assert!(
            desk.answers.is_empty(),
            "the generation in which it answers alone is not recorded"
        );
        desk.save_all();
        assert_eq!(desk.answers, [(1, true)], "{mode}");
    }
}

#[test]
fn a_lease_that_is_returned_ends_the_wait_and_so_does_the_peers_own_word() {
    let mut desk = Desk::level(leasing(Mode::Sync));
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    desk.write(1);
    desk.store_all();
    desk.acked(4);
    assert_eq!(desk.answers, [(1, true)], "the peer has it");
    desk.hear(Message::Lease(Lease::Returned));
    desk.lose_link();
    desk.write(2);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers, [(1, true), (2, true)]);
}

#[test]
fn no_lease_is_granted_while_answers_are_given_without_the_peer() {
    let wanted = Message::Lease(Lease::Wanted { number: 1, millis: 4000 });
    for config in [leasing(Mode::Async), Config { mode: Mode::Sync, ..config() }] {
        let mut desk = Desk::level(config);
        desk.hear(wanted.clone());
        assert!(!desk.granted());
    }
    let mut desk = Desk::level(leasing(Mode::Sync));
    desk.command(Command::Pause);
    desk.hear(wanted);
    assert!(!desk.granted(), "only marks are kept");
}

#[test]
fn a_secondary_takes_over_by_its_lease_and_not_a_moment_longer() {
    let mut desk = Desk::holding();
    desk.lose_link();
    desk.pass(Duration::from_millis(3900));
    desk.command(Command::Promote { force: false });
    desk.save_all();
    assert!(desk.engine.view().is_primary() && desk.engine.view().leads_by_lease());
    let told = desk.results.pop().expect("it ended").expect("it is primary");
    assert!(told.contains("by the hold lease, which ends in 0.1 s"), "{told}");

    let mut desk = Desk::holding();
    desk.lose_link();
    desk.pass(HOLD);
    desk.command(Command::Promote { force: false });
    let refusal = desk.results.pop().expect("it ended").expect_err("the lease is over");
    assert_eq!(refusal.code, "needs-force");
    assert!(refusal.text.contains("the hold lease ended"), "{}", refusal.text);
}

/// A primary that cannot grant one says nothing: the secondary must have one soon after it can.
#[test]
fn a_secondary_without_an_answer_asks_for_a_lease_again_within_a_quarter_of_its_time() {
    let mut desk = Desk::asking();
    let first = desk.wanted();
    assert!(first.is_some());
    desk.pass(HOLD / 8);
    assert_eq!(desk.wanted(), first, "an answer may be on its way");
    desk.pass(HOLD / 8);
    assert!(desk.wanted() > first);
}

#[test]
fn a_promotion_whose_record_comes_after_the_lease_is_taken_back() {
    let mut desk = Desk::holding();
    let before = desk.lineage();
    desk.lose_link();
    desk.command(Command::Promote { force: false });
    desk.now = desk.now + HOLD;
    assert_eq!(desk.save(true).role, Role::Primary);
    let back = desk.save(true);
    assert_eq!(back.role, Role::Secondary);
    assert!(back.lineage != before && back.lineage == generation(1), "it follows what it followed");
    assert!(!desk.engine.view().is_primary() && desk.engine.view().standing() == "secondary");
    assert_eq!(desk.results.pop().map(|r| r.map_err(|e| e.code)), Some(Err("needs-force")));
}

#[test]
fn a_flush_that_fails_meanwhile_is_in_the_record_that_takes_the_promotion_back() {
    let mut desk = Desk::holding();
    desk.lose_link();
    desk.command(Command::Promote { force: false });
    let fault = StoreOutcome::Failed(StoreFault::Io);
    desk.engine.standing.cover_flushed(
        VolumeIndex(0),
        &fault,
        &mut desk.engine.local,
        &mut desk.engine.turn,
    );
    desk.now = desk.now + HOLD;
    assert_eq!(desk.save(true).suspect, 0, "it was made before");
    let back = desk.save(true);
    assert!(back.suspect == 1 && back.marks_void, "{back:?}");
    desk.save_all();
    desk.command(Command::Promote { force: true });
    assert_eq!(desk.results.pop().map(|r| r.map_err(|e| e.code)), Some(Err("suspect")));
}

#[test]
fn a_lease_of_a_primary_that_restarted_is_void_and_said_to_be() {
    let mut desk = Desk::holding();
    desk.lose_link();
    let again = Hello { incarnation: 99, role: Role::Primary, ..hello(generation(1), true) };
    desk.meet(again);
    assert!(desk.said.contains(&Message::Lease(Lease::Returned)));
    desk.lose_link();
    desk.command(Command::Promote { force: false });
    assert!(desk.results.pop().is_some_and(|result| result.is_err()));
}

#[test]
fn a_primary_that_restarts_waits_for_a_lease_that_its_record_knows_of() {
    let record = Superblock {
        hold: 4000,
        role: Role::Primary,
        lineage: generation(1),
        ..Superblock::new("db", "paris", [SIZE.0].into())
    };
    let mut desk = Desk::new(leasing(Mode::Sync));
    desk.engine = Engine::new(leasing(Mode::Sync), durable(record), 1, 1, Moment::ZERO);
    desk.command(Command::Promote { force: true });
    desk.save_all();
    desk.write(1);
    desk.store_all();
    desk.pass(Duration::from_secs(5));
    assert!(desk.answers.is_empty(), "forced or not");
    desk.pass(Duration::from_millis(40));
    desk.tell(Event::DialFailed { began: desk.now });
    assert_eq!(desk.answers, [(1, true)]);
}

#[test]
fn a_primary_that_stops_records_the_lease_that_its_peer_may_still_use_and_no_other() {
    for (waited, recorded) in [(Duration::ZERO, 4000), (Duration::from_secs(6), 0)] {
        let mut desk = Desk::level(leasing(Mode::Sync));
        desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
        assert!(desk.granted());
        for _ in 0..6 {
            desk.pass(waited / 6);
            desk.hear(Message::Ping(Ping::default()));
        }
        desk.save_all();
        desk.command(Command::Stop);
        desk.store_all();
        assert_eq!(desk.save(true).hold, recorded, "{waited:?} after it was granted");
    }
}

#[test]
fn in_async_a_write_is_answered_once_the_peer_has_it_while_an_earlier_lease_may_be_used() {
    let mut desk = Desk::level(leasing(Mode::Sync));
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    assert!(desk.granted());
    desk.tell(Event::Reconfigure { config: leasing(Mode::Async) });
    desk.save_all();
    desk.write(1);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers, [], "the peer may take over without it");
    desk.acked(4);
    assert_eq!(desk.answers, [(1, true)], "whoever is primary has it");
}

#[test]
fn a_primary_whose_peer_took_over_by_the_lease_becomes_secondary_by_itself() {
    let mut desk = Desk::level(leasing(Mode::Sync));
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    let ours = desk.lineage();
    desk.lose_link();
    desk.write(1);
    desk.store_all();
    let heir = ours.fork(Generation { number: 99, tag: 99 }, Sequence(3));
    let serving = Hello { serving: true, role: Role::Primary, wrote: true, ..hello(heir, true) };
    desk.meet(Hello { head: Sequence(3), ..serving });
    desk.tell(Event::Tick);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers, [(1, false)], "it was never done");
    assert_eq!(desk.engine.view().standing(), "secondary");
}

#[test]
fn a_primary_that_left_for_its_heir_serves_again_where_it_is_forced_to() {
    let mut desk = Desk::level(leasing(Mode::Sync));
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    let heir = desk.lineage().fork(Generation { number: 99, tag: 99 }, Sequence(3));
    desk.lose_link();
    let serving = Hello { serving: true, role: Role::Primary, wrote: true, ..hello(heir, true) };
    desk.meet(Hello { head: Sequence(3), ..serving });
    desk.tell(Event::Tick);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.engine.view().standing(), "secondary");
    desk.command(Command::Promote { force: true });
    desk.save_all();
    desk.pass(Duration::from_millis(1));
    desk.write(1);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.engine.view().standing(), "primary", "the heir may be gone for good");
    assert_eq!(desk.answers, [(1, true)]);
}

/// Whether it says that a generation begun from its image would lack nothing it confirmed.
fn is_sure(desk: &Desk) -> bool {
    let sure = |m: &Message| match m {
        Message::Hello(hello) => Some(hello.sure),
        _ => None,
    };
    desk.said.iter().rev().find_map(sure).expect("it introduced itself")
}

#[test]
fn a_secondary_that_restarted_is_not_sure_of_what_it_confirmed_whatever_it_was_as_primary() {
    // One that never was primary has a record that says nothing of that.
    for sure in [true, false] {
        let line = generation(1);
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let record = Superblock { role: Role::Secondary, lineage: line, sure, ..new };
        let mut desk = Desk::new(leasing(Mode::NearSync));
        desk.engine = Engine::new(leasing(Mode::NearSync), durable(record), 1, 1, Moment::ZERO);
        let head = Sequence(9);
        let primary = Hello { serving: true, role: Role::Primary, head, ..hello(line, true) };
        desk.meet(primary.clone());
        assert!(!is_sure(&desk), "what lay in the memory of the process before is gone");
        desk.hear(Message::Start(start(line, 1, true)));
        desk.store_all();
        desk.save_all();
        // What the process before had received lies on the primary's line, up to the third item.
        let ping = |accepted| Message::Ping(Ping { token: 1, accepted, ..Ping::default() });
        for (received, sure) in [(1, false), (2, false), (3, true), (4, true)] {
            desk.hear(item(received));
            desk.hear(ping(Sequence(received.max(3))));
            desk.lose_link();
            desk.meet(primary.clone());
            assert_eq!(is_sure(&desk), sure, "{received} received");
            desk.hear(Message::Start(start(line, received + 1, true)));
            desk.store_all();
            desk.save_all();
        }
    }
}

/// A primary whose peer is away is demoted; its record.
fn left(desk: &mut Desk) -> Superblock {
    desk.lose_link();
    desk.command(Command::Demote);
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.wrote, record.alone, record.clean), (true, false, true));
    record
}

#[test]
fn who_left_with_answers_that_its_peers_memory_held_agrees_to_no_peer_that_restarted() {
    let mut desk = Desk::level(leasing(Mode::NearSync));
    desk.write(1);
    desk.store_all();
    desk.hear(ack(4, 3));
    assert_eq!(desk.answers, [(1, true)], "the peer received it");
    let record = left(&mut desk);
    let (head, durable) = (Sequence(3), Sequence(3));
    let restarted =
        Hello { incarnation: PEER + 1, sure: false, head, ..hello(record.lineage, true) };
    desk.meet(restarted);
    desk.hear(Message::PromoteRequest { generation: record.lineage.generation, durable });
    let refused = |m: &Message| matches!(m, Message::PromoteReply { granted: false, text } if text.starts_with("newer-elsewhere"));
    assert!(desk.said.iter().any(refused));
}

#[test]
fn a_secondary_that_never_asked_for_a_lease_does_not_return_one() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    (0..3).for_each(|_| desk.pass(Duration::from_secs(1)));
    assert!(!desk.said.iter().any(|m| matches!(m, Message::Lease(_))), "{:?}", desk.said);
}

#[test]
fn who_left_with_answers_that_its_peer_confirmed_agrees_to_no_peer_that_restores_an_older_image() {
    for consistent in [true, false] {
        let mut desk = Desk::level(leasing(Mode::Sync));
        desk.write(1);
        desk.store_all();
        desk.acked(4);
        assert_eq!(desk.answers, [(1, true)]);
        let record = left(&mut desk);
        let (head, durable) = (Sequence(4), Sequence(3));
        desk.meet(Hello { head, received: head, durable, ..hello(record.lineage, consistent) });
        desk.hear(Message::PromoteRequest { generation: record.lineage.generation, durable });
        let granted = desk.said.iter().rev().find_map(|m| match m {
            Message::PromoteReply { granted, .. } => Some(*granted),
            _ => None,
        });
        assert_eq!(granted, Some(consistent), "an inconsistent copy goes back to item 3");
    }
}

#[test]
fn a_write_that_the_peer_completed_before_it_restarted_waits_for_it_again_while_a_lease_is_out() {
    let mut desk = Desk::level(leasing(Mode::Sync));
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    assert!(desk.granted());
    desk.write(1);
    let (received, completed, durable) = (Sequence(4), Sequence(4), Sequence(3));
    let (stream, ranges) = (LATEST, Ranges::default());
    desk.hear(Message::Ack(Ack { stream, received, completed, durable, ranges }));
    desk.lose_link();
    let (incarnation, head, lineage) = (PEER + 1, Sequence(3), desk.lineage_now());
    desk.meet(Hello { incarnation, clean: false, head, ..hello(lineage, true) });
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("resume-durable")
    );
    desk.store();
    assert_eq!(desk.answers, [], "the peer may have lost it");
    desk.acked(4);
    assert_eq!(desk.answers, [(1, true)]);
}

#[test]
fn a_secondary_that_starts_says_to_its_primary_that_it_has_no_lease() {
    let mut desk = Desk::new(leasing(Mode::Sync));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    assert!(desk.said.contains(&Message::Lease(Lease::Returned)), "{:?}", desk.said);
}

#[test]
fn a_lease_is_over_at_the_moment_until_which_it_is_held() {
    let mut desk = Desk::holding();
    let until = desk.engine.view().lease_held().expect("it holds one");
    desk.lose_link();
    desk.now = Moment(until.0 - 1_000_000);
    desk.command(Command::Promote { force: false });
    assert_eq!(desk.now, until);
    assert_eq!(desk.results.pop().map(|r| r.map_err(|e| e.code)), Some(Err("needs-force")));
    assert!(desk.saves.is_empty());
}

/// The end of the wait is noticed only behind the event: until then the lease counts as usable.
#[test]
fn a_write_that_ends_here_just_when_a_lease_does_is_not_recorded_as_answered_without_the_peer() {
    let mut desk = Desk::level(leasing(Mode::Sync));
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    desk.lose_link();
    desk.write(1);
    desk.pass(Duration::from_secs(3));
    desk.now = desk.now + Duration::from_secs(3);
    desk.store();
    assert_eq!(desk.answers, []);
    assert!(desk.saves.iter().all(|record| !record.alone), "no dial was tried");
}
