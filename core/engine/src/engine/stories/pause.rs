// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary whose process was paused.

use super::*;
use helio_format::lease::Lease;
use helio_format::message::Ping;

/// Longer than the peer timeout of [`config`], and than the wait for a lease of 4 s.
const PAUSE: Duration = Duration::from_millis(6500);

impl Desk {
    fn pause(&mut self) {
        self.now = self.now + PAUSE;
    }

    fn heir(&self) -> Hello {
        let line = self.lineage().fork(Generation { number: 99, tag: 99 }, Sequence(3));
        let serving =
            Hello { serving: true, role: Role::Primary, wrote: true, ..hello(line, true) };
        Hello { head: Sequence(3), ..serving }
    }

    fn last_ping(&self) -> Ping {
        let ping = |m: &Message| match m {
            Message::Ping(ping) => Some(*ping),
            _ => None,
        };
        self.said.iter().rev().find_map(ping).expect("it pings")
    }

    fn pong(&mut self) {
        let token = self.last_ping().token;
        self.hear(Message::Pong {
            token,
            flushing: false,
            waits: false,
            short: false,
            metadata: 1,
        });
    }

    /// An async primary without its peer: every answer is given without it.
    fn on_its_own() -> Self {
        let mut desk = Self::replicating(Mode::Async);
        desk.lose_link();
        desk.write(1);
        desk.store_all();
        assert_eq!(desk.answers, [(1, true)]);
        desk
    }
}

#[test]
fn a_paused_primary_whose_lease_was_used_meanwhile_acknowledges_nothing_and_becomes_secondary() {
    let hold = Duration::from_secs(4);
    let mut desk = Desk::level(Config { mode: Mode::Sync, hold, ..config() });
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    desk.write(1);
    desk.pause();
    desk.store_all();
    desk.lose_link();
    desk.save_all();
    assert_eq!(desk.answers, [], "the wait for the lease is over, and nobody looked for the peer");
    desk.meet(desk.heir());
    desk.tell(Event::Tick);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers, [(1, false)]);
    assert_eq!(desk.engine.view().standing(), "secondary");
}

#[test]
fn after_a_pause_a_failed_dial_counts_only_where_it_began_since() {
    let mut desk = Desk::on_its_own();
    let before = desk.now;
    desk.pause();
    desk.write(2);
    desk.store_all();
    desk.tell(Event::DialFailed { began: before });
    assert_eq!(desk.answers, [(1, true)]);
    assert!(desk.engine.view().status(desk.now).reason.contains("was not promoted"));
    desk.tell(Event::DialFailed { began: desk.now });
    assert_eq!(desk.answers, [(1, true), (2, true)]);
}

#[test]
fn a_primary_that_was_idle_for_long_was_not_paused() {
    let mut desk = Desk::on_its_own();
    for _ in 0..10 {
        let due = desk.engine.view().deadline();
        assert!(due <= desk.now + Duration::from_secs(3), "it asks to be told the time");
        desk.now = desk.now.max(due);
        desk.tell(Event::Tick);
    }
    desk.write(2);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true), (2, true)]);
}

#[test]
fn after_a_pause_a_peer_that_still_follows_says_so_in_answer_to_a_ping() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.pause();
    // What lay in the socket meanwhile shows that it lived, and not what it is now.
    desk.acked(3);
    desk.pong();
    desk.write(1);
    desk.store_all();
    let old = desk.last_ping().token;
    assert_eq!(desk.answers, [(1, true)], "the ping was sent since");
    desk.pause();
    desk.write(2);
    let pong =
        Message::Pong { token: old, flushing: false, waits: false, short: false, metadata: 1 };
    desk.tell_together([Event::Message(pong)]);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true)], "that ping was sent before");
}

/// The peer may have died since it said so, and taken over without what it held in memory.
#[test]
fn what_a_peer_acknowledged_before_a_pause_ends_is_answered_only_where_it_is_durable_there() {
    for mode in [Mode::NearSync, Mode::Sync] {
        let mut desk = Desk::replicating(mode);
        desk.write(1);
        desk.write(2);
        desk.store_all();
        desk.pause();
        let head = desk.engine.view().status(desk.now).cursors.head.0;
        let durable = Sequence(head - 1);
        let Message::Ack(there) = ack_of(desk.last_start().stream, head, head) else {
            panic!("an acknowledgement")
        };
        desk.hear(Message::Ack(Ack { durable, ..there }));
        assert_eq!(desk.answers, [(1, true)], "{mode}: it was asked nothing since");
        desk.pong();
        assert_eq!(desk.answers, [(1, true), (2, true)], "{mode}");
    }
}

#[test]
fn what_was_decided_before_a_pause_and_not_sent_is_held_back() {
    let mut desk = Desk::on_its_own();
    desk.write(2);
    let (io, ..) = desk.ios.pop_front().expect("the store has something to do");
    let mut effects = Vec::new();
    // The clock was read before the pause, and the event is handled after it.
    let done = Event::StoreDone { io, outcome: StoreOutcome::Done };
    desk.engine.handle(desk.now, done, &mut effects);
    assert_eq!(replies(&effects), 1, "decided");
    assert!(desk.engine.view().was_paused(desk.now + PAUSE));
    desk.pause();
    desk.engine.settle(desk.now, &mut effects);
    assert_eq!(replies(&effects), 0, "and taken back");
    desk.tell(Event::DialFailed { began: desk.now });
    assert_eq!(desk.answers, [(1, true), (2, true)]);
}

fn replies(effects: &[Effect]) -> usize {
    effects.iter().filter(|e| matches!(e, Effect::Reply { .. })).count()
}

/// A primary that keeps only its bitmap, with an answer that is decided and not sent.
fn answer_decided() -> (Desk, Vec<Effect>) {
    let mut desk = lack::logging();
    desk.write(2);
    let (io, ..) = desk.ios.pop_front().expect("the store has something to do");
    let mut effects = Vec::new();
    let done = Event::StoreDone { io, outcome: StoreOutcome::Done };
    desk.engine.handle(desk.now, done, &mut effects);
    assert_eq!(replies(&effects), 1, "decided");
    (desk, effects)
}

/// The pause is noticed: the peer is still there, and says so.
fn wake_up(desk: &mut Desk, effects: &mut Vec<Effect>) {
    desk.pause();
    desk.engine.handle(desk.now, Event::Message(Message::Report(Report::default())), effects);
    assert_eq!(replies(effects), 0, "it is held back");
}

/// What a reversal replaces, nobody may be told to have.
#[test]
fn a_reversal_waits_for_an_answer_that_is_held_back() {
    let (mut desk, mut effects) = answer_decided();
    wake_up(&mut desk, &mut effects);
    desk.settle(effects);
    desk.command(Command::Reverse(Reversal { full: false, last_copy: false }));
    let last = desk.results.last().expect("it has a result");
    assert_eq!(last.as_ref().map_err(|refusal| refusal.code), Err("in-use"));
}

/// The same, where the pause is noticed behind the command.
#[test]
fn a_reversal_is_recorded_behind_answers_that_are_held_back() {
    let (mut desk, mut effects) = answer_decided();
    let reverse = Event::Command {
        id: CommandId(99),
        command: Command::Reverse(Reversal { full: false, last_copy: false }),
    };
    desk.engine.handle(desk.now, reverse, &mut effects);
    wake_up(&mut desk, &mut effects);
    let answered = desk.answers.len();
    desk.settle(effects);
    let token = desk.last_ping().token;
    desk.settle_pages();
    assert!(desk.saves.is_empty(), "nothing is recorded before it is sent");
    desk.hear(Message::Pong { token, flushing: false, waits: false, short: false, metadata: 1 });
    assert_eq!(desk.answers.len(), answered + 1);
    desk.settle_pages();
    assert!(!desk.saves.is_empty(), "and then the reversal is");
}

#[test]
fn a_connection_of_which_nothing_came_is_a_failed_dial() {
    let mut desk = Desk::on_its_own();
    desk.pause();
    desk.write(2);
    desk.store_all();
    desk.tell(Event::Connected);
    assert_eq!(desk.answers, [(1, true)], "a relay accepts, whoever is behind it");
    desk.now = desk.now + Duration::from_secs(3);
    desk.tell(Event::Tick);
    desk.now = desk.now + Duration::from_millis(3100);
    desk.tell(Event::Tick);
    assert_eq!(desk.answers, [(1, true), (2, true)], "nothing came of it in the peer timeout");
}

#[test]
fn a_primary_that_sees_another_one_begins_no_answers_of_its_own() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.lose_link();
    desk.meet(desk.heir());
    desk.write(1);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.answers, [], "all that it acknowledged so far is at its peer");
    desk.tell(Event::DialFailed { began: desk.now });
    desk.save_all();
    assert_eq!(desk.answers, [(1, true)]);
}

#[test]
fn after_a_pause_a_peer_that_took_over_and_does_not_serve_any_more_is_no_proof_that_it_did_not() {
    for took_over in [false, true] {
        let mut desk = Desk::on_its_own();
        desk.pause();
        desk.write(2);
        desk.store_all();
        // A connection that begins so long after the pause waited in no socket meanwhile.
        for _ in 0..4 {
            desk.now = desk.now + Duration::from_secs(2);
            desk.tell(Event::Tick);
        }
        let heir = Hello { serving: false, ..desk.heir() };
        let refused = Hello { lineage: Lineage::default(), remembers: 99, ..heir.clone() };
        let other = refused.lineage.fork(Generation { number: 7, tag: 7 }, Sequence::ZERO);
        let stranger = Hello { lineage: other, ..refused };
        desk.meet(if took_over { heir } else { stranger });
        desk.store_all();
        let expected: &[(u64, bool)] =
            if took_over { &[(1, true)] } else { &[(1, true), (2, true)] };
        assert_eq!(desk.answers, expected, "took over: {took_over}");
    }
}

impl Desk {
    /// The peer timeout passes twice, with nothing but the clock.
    fn wait(&mut self) {
        for _ in 0..6 {
            self.now = self.now + Duration::from_secs(2);
            self.tell(Event::Tick);
        }
    }

    fn part(&mut self, parting: Parting) {
        self.hear(Message::Goodbye { parting, text: String::from("for a reason") });
    }

    /// A primary that is on its own and was paused, with a write that waits.
    fn paused_on_its_own() -> Self {
        let mut desk = Self::on_its_own();
        desk.pause();
        desk.write(2);
        desk.store_all();
        assert_eq!(desk.answers, [(1, true)]);
        desk
    }

    fn acknowledges(&mut self) -> bool {
        self.store_all();
        self.save_all();
        self.answers.contains(&(2, true))
    }

    fn reason(&self) -> String {
        self.engine.view().status(self.now).reason
    }

    fn follower(&self) -> Hello {
        Hello { received: Sequence(3), durable: Sequence(3), ..hello(self.lineage_now(), true) }
    }
}

#[test]
fn a_peers_daemon_that_does_not_serve_the_group_ends_the_wait() {
    let mut desk = Desk::paused_on_its_own();
    desk.tell(Event::Connected);
    desk.part(Parting::Refused);
    assert!(desk.acknowledges(), "{}", desk.reason());
}

#[test]
fn an_answer_to_a_hello_from_before_the_pause_ends_no_wait() {
    let mut desk = Desk::on_its_own();
    desk.tell(Event::Connected);
    desk.pause();
    desk.write(2);
    desk.store_all();
    desk.part(Parting::Refused);
    assert!(!desk.acknowledges());
}

#[test]
fn a_connection_that_was_closed_during_the_pause_ends_no_wait() {
    let mut desk = Desk::paused_on_its_own();
    desk.tell(Event::Connected);
    desk.tell(Event::Disconnected { why: String::from("closed") });
    assert!(!desk.acknowledges(), "it was made before the pause, too");
    desk.wait();
    desk.tell(Event::Connected);
    desk.tell(Event::Disconnected { why: String::from("closed") });
    assert!(desk.acknowledges());
}

#[test]
fn a_secondary_whose_volume_failed_ends_the_wait() {
    let mut desk = Desk::paused_on_its_own();
    let follower = desk.follower();
    desk.meet(follower.clone());
    desk.part(Parting::VolumeFailed);
    assert!(!desk.acknowledges(), "its hello may have been sent before");
    desk.wait();
    desk.meet(follower);
    desk.part(Parting::VolumeFailed);
    assert!(desk.acknowledges(), "{}", desk.reason());
}

#[test]
fn a_peer_with_larger_blocks_that_is_refused_ends_the_wait() {
    let mut desk = Desk::paused_on_its_own();
    desk.tell(Event::Used { volumes: 1 });
    desk.wait();
    let blocks = [Blocks { member: 4096, volume: 4096 }].into();
    desk.meet(Hello { blocks, ..desk.follower() });
    assert_eq!(desk.engine.peer.session().refused(), Some("block-size"));
    assert!(desk.acknowledges(), "{}", desk.reason());
}

#[test]
fn a_peer_that_is_configured_differently_ends_the_wait_unless_it_serves() {
    for serving in [false, true] {
        let mut desk = Desk::paused_on_its_own();
        desk.wait();
        desk.meet(Hello { sizes: [2 * SIZE.0].into(), serving, ..desk.follower() });
        assert_eq!(desk.engine.peer.session().refused(), Some("wrong-peer"));
        assert_eq!(desk.acknowledges(), !serving);
        assert_eq!(desk.reason().contains("helio demote db"), serving, "{}", desk.reason());
    }
}

#[test]
fn another_node_at_the_peers_address_ends_the_wait() {
    let mut desk = Desk::paused_on_its_own();
    desk.wait();
    desk.meet(Hello { node: "oslo".into(), serving: true, ..desk.follower() });
    assert!(desk.acknowledges(), "{}", desk.reason());
}

#[test]
fn a_peer_that_changes_its_role_after_its_hello_ends_no_wait() {
    let mut desk = Desk::paused_on_its_own();
    desk.wait();
    desk.meet(desk.follower());
    desk.part(Parting::RoleChanged);
    assert!(!desk.acknowledges(), "it may be about to serve");
    desk.meet(desk.follower());
    desk.lose_link();
    assert!(!desk.acknowledges());
    desk.tell(Event::DialFailed { began: desk.now });
    assert!(desk.acknowledges());
}

#[test]
fn a_primary_whose_peer_took_over_says_what_ends_the_wait_and_that_does() {
    let mut desk = Desk::paused_on_its_own();
    desk.wait();
    desk.meet(Hello { serving: false, ..desk.heir() });
    assert!(!desk.acknowledges());
    let reason = desk.reason();
    assert!(reason.contains("lyon was promoted") && reason.contains("helio demote db"), "{reason}");
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.engine.view().standing(), "secondary");
    assert!(desk.answers.contains(&(2, false)), "the write that waited failed");
}

/// A primary that leaves says no hello, so its peer says nothing behind its own.
#[test]
fn a_hello_that_nobody_answers_counts_where_its_connection_ends_in_silence() {
    let stranger = |desk: &Desk| Hello { node: "oslo".into(), ..desk.heir() };
    type Says = fn(&Desk) -> Hello;
    let hellos: [Says; 3] = [Desk::heir, Desk::follower, stranger];
    for (hello, acknowledged) in hellos.into_iter().zip([false, true, true]) {
        let mut desk = Desk::on_its_own();
        desk.pause();
        desk.write(2);
        desk.command(Command::Demote);
        desk.wait();
        desk.tell(Event::Connected);
        let hello = hello(&desk);
        desk.hear(Message::Hello(hello.clone()));
        assert!(desk.engine.view().is_greeting(), "it is not judged: {hello:?}");
        desk.wait();
        assert!(!desk.engine.view().is_greeting(), "given up: {hello:?}");
        desk.store_all();
        assert_eq!(desk.answers, [(1, true), (2, acknowledged)], "{hello:?}");
    }
}

/// One that acknowledged nothing without its peer does not begin to, either.
#[test]
fn a_primary_that_leaves_begins_to_acknowledge_nothing_alone_if_the_hello_that_waits_says_that_the_peer_serves()
 {
    for (serving, acknowledged) in [(true, false), (false, true)] {
        let mut desk = Desk::replicating(Mode::Sync);
        desk.write(2);
        desk.command(Command::Demote);
        desk.tell(Event::Disconnected { why: String::from("cut") });
        desk.tell(Event::Connected);
        let hello = if serving { desk.heir() } else { desk.follower() };
        desk.hear(Message::Hello(hello));
        assert!(desk.engine.view().is_greeting(), "it is not judged");
        desk.wait();
        desk.store_all();
        desk.save_all();
        assert_eq!(desk.answers, [(2, acknowledged)], "serving: {serving}");
    }
}

#[test]
fn the_end_of_every_connection_has_its_row() {
    use crate::peer::pause::{End, Heard, Proof, proof};
    let ends = [End::Broken, End::Silent, End::RoleChange, End::Goodbye];
    let rows = [
        (Heard::Nothing, [Proof::Unreachable; 4]),
        (Heard::NoHello, [Proof::Nothing, Proof::Unreachable, Proof::Nothing, Proof::NotServed]),
        (Heard::Serves, [Proof::Serves; 4]),
        (Heard::TookOver, [Proof::TookOver; 4]),
        (Heard::Follows, [Proof::Nothing, Proof::Follows, Proof::Nothing, Proof::Follows]),
    ];
    for (heard, proofs) in rows {
        for (end, expected) in ends.into_iter().zip(proofs) {
            assert_eq!(proof(heard, end), expected, "{heard:?}, {end:?}");
        }
    }
}

#[test]
fn a_setting_that_is_applied_while_a_hello_is_awaited_makes_no_moment_due_that_has_passed() {
    let hold = Duration::from_secs(4);
    let mut desk = Desk::level(Config { mode: Mode::Sync, hold, ..config() });
    desk.hear(Message::Lease(Lease::Wanted { number: 1, millis: 4000 }));
    desk.lose_link();
    desk.tell(Event::Connected);
    desk.tell(Event::Reconfigure { config: Config { mode: Mode::Async, hold, ..config() } });
    desk.now = desk.now + Duration::from_secs(1);
    desk.tell(Event::Tick);
    let due = desk.engine.view().deadline();
    assert!(due > desk.now, "{due:?}");
}
