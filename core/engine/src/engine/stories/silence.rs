// SPDX-License-Identifier: Apache-2.0
//! Stories of a disk that does not complete its operations.

use super::*;
use helio_format::reading::Reading;
use helio_units::MemberState;

const V: VolumeIndex = VolumeIndex(0);

/// Time passes in steps of a busy shard, and the peer shows that it is there.
fn pass(desk: &mut Desk, time: Duration) {
    let until = desk.now + time;
    while desk.now < until {
        desk.now = desk.now + Duration::from_millis(499);
        if desk.engine.view().status(desk.now).link.state == LinkState::Connected {
            desk.hear(pong(false));
        } else {
            desk.tell(Event::Tick);
        }
    }
}

fn pong(waits: bool) -> Message {
    Message::Pong { token: 0, flushing: false, waits, short: false, metadata: 1 }
}

fn state(desk: &Desk) -> MemberState {
    desk.engine.view().status(desk.now).members[usize::from(V.0)]
}

fn fault(desk: &Desk) -> String {
    desk.engine.view().fault().unwrap_or_default().what
}

fn end(desk: &mut Desk, (io, ..): (IoId, StoreOp, ReadAs), outcome: StoreOutcome) {
    desk.tell(Event::StoreDone { io, outcome });
}

/// The peer has everything that was accepted, and the record is made.
fn peer_has_all(desk: &mut Desk) {
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    desk.acked(head);
    desk.save_all();
}

fn level() -> Desk {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.set_on_error(OnError::ServeFromPeer);
    desk
}

/// A write, a read and a flush were under way on a disk that was given up. Returns the operations, which are late.
fn given_up() -> (Desk, Vec<(IoId, StoreOp, ReadAs)>) {
    let mut desk = level();
    desk.write(1);
    desk.ask(2, Operation::Read(Extent::new(0, 4096)));
    desk.ask(3, Operation::Flush);
    let late: Vec<_> = desk.ios.drain(..).collect();
    assert_eq!(late.len(), 3);
    desk.acked(5);
    pass(&mut desk, config().member_timeout + Duration::from_secs(1));
    peer_has_all(&mut desk);
    assert_eq!(state(&desk), MemberState::GivenUp, "{}", fault(&desk));
    (desk, late)
}

#[test]
fn a_disk_is_silent_until_every_operation_from_before_that_has_ended() {
    let mut desk = Desk::primary(config());
    desk.write(1);
    desk.write(2);
    let (first, second) = (desk.ios.pop_front().unwrap(), desk.ios.pop_front().unwrap());
    pass(&mut desk, Duration::from_secs(2));
    assert_eq!((state(&desk), fault(&desk)), (MemberState::Waits, String::new()));
    pass(&mut desk, config().member_timeout);
    assert_eq!(state(&desk), MemberState::Silent);
    assert!(fault(&desk).contains("the disk of volume data is silent"), "{}", fault(&desk));
    let reason = desk.engine.view().status(desk.now).reason;
    assert!(reason.contains("the disk of volume data is silent"), "{reason}");
    desk.write(3);
    end(&mut desk, first, StoreOutcome::Done);
    assert_eq!(state(&desk), MemberState::Silent, "the second one has not ended");
    end(&mut desk, second, StoreOutcome::Done);
    assert_eq!(state(&desk), MemberState::Silent, "nor has the flush that lets extents go");
    desk.store();
    assert!(!desk.ios.is_empty(), "the third one is newer");
    assert_eq!((state(&desk), fault(&desk)), (MemberState::Responds, String::new()));
    desk.store_all();
    assert!([1, 2, 3].iter().all(|id| desk.answers.contains(&(*id, true))), "{:?}", desk.answers);
}

#[test]
fn time_in_which_this_process_stood_still_makes_no_disk_silent() {
    let mut desk = Desk::primary(config());
    desk.write(1);
    pass(&mut desk, Duration::from_secs(1));
    desk.now = desk.now + config().member_timeout * 2;
    desk.tell(Event::Tick);
    pass(&mut desk, config().member_timeout / 2);
    assert_eq!(state(&desk), MemberState::Waits);
    pass(&mut desk, config().member_timeout / 2);
    assert_eq!(state(&desk), MemberState::Silent);
}

#[test]
fn a_pong_says_that_the_store_waits() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(item(1));
    let said = |desk: &mut Desk| {
        desk.hear(Message::Ping(Ping { token: 7, ..Ping::default() }));
        let waits = |m: &Message| match m {
            Message::Pong { waits, .. } => Some(*waits),
            _ => None,
        };
        desk.said.iter().rev().find_map(waits)
    };
    assert_eq!(said(&mut desk), Some(false));
    pass(&mut desk, config().peer_timeout / 4);
    assert_eq!(said(&mut desk), Some(true), "a quarter of the peer timeout is soon enough");
    desk.store_all();
    desk.tell(Event::Tick);
    pass(&mut desk, config().peer_timeout / 4);
    desk.store_all();
    pass(&mut desk, config().peer_timeout / 4);
    assert_eq!(said(&mut desk), Some(false));
}

#[test]
fn a_peer_whose_store_waits_is_lost_at_the_flush_limit_and_any_other_one_before() {
    for waits in [false, true] {
        let mut desk = Desk::replicating(Mode::Async);
        desk.write(1);
        desk.store_all();
        let is_up =
            |desk: &Desk| desk.engine.view().status(desk.now).link.state == LinkState::Connected;
        let mut time = Duration::ZERO;
        while is_up(&desk) && time < Duration::from_secs(600) {
            desk.now = desk.now + Duration::from_millis(499);
            time += Duration::from_millis(500);
            desk.hear(pong(waits));
        }
        let limit = if waits { config().flush_limit } else { config().peer_timeout };
        assert!(time >= limit && time < limit + Duration::from_secs(2), "{waits}: {time:?}");
    }
}

#[test]
fn a_peer_that_says_nothing_is_lost_at_the_peer_timeout_whatever_it_said_of_its_store() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.write(1);
    desk.store_all();
    desk.hear(pong(true));
    let spoke = desk.now;
    let is_up =
        |desk: &Desk| desk.engine.view().status(desk.now).link.state == LinkState::Connected;
    while is_up(&desk) && desk.now - spoke < config().flush_limit * 2 {
        desk.now = desk.now + Duration::from_millis(499);
        desk.tell(Event::Tick);
    }
    let (time, limit) = (desk.now - spoke, config().peer_timeout);
    assert!(time >= limit && time < limit + Duration::from_secs(2), "{time:?}");
}

#[test]
fn without_the_policy_a_silent_disk_is_waited_for() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    desk.acked(4);
    pass(&mut desk, config().member_timeout * 2);
    assert_eq!(state(&desk), MemberState::Silent);
    assert!(desk.answers.is_empty());
    desk.store_all();
    assert_eq!(desk.answers, [(1, true)]);
}

#[test]
fn a_silent_disk_is_given_up_once_its_peer_can_serve() {
    let mut desk = level();
    desk.lose_link();
    desk.write(1);
    pass(&mut desk, config().member_timeout + Duration::from_secs(1));
    assert_eq!(state(&desk), MemberState::Silent, "the peer is not connected");
    let has = Sequence(3);
    let lineage = desk.lineage_now();
    desk.meet(Hello { head: has, received: has, durable: has, ..hello(lineage, true) });
    peer_has_all(&mut desk);
    assert_eq!(state(&desk), MemberState::GivenUp, "it was sent the queue, in order");
    peer_has_all(&mut desk);
    assert_eq!(desk.answers, [(1, true)]);
}

#[test]
fn what_was_asked_of_a_disk_that_was_given_up_is_the_peers_to_answer() {
    let (mut desk, _) = given_up();
    assert!(desk.answers.contains(&(1, true)) && desk.answers.contains(&(3, true)));
    let asked = |m: &Message| matches!(m, Message::Reading(Reading::Wanted { zeros: false, .. }));
    assert!(desk.said.iter().any(asked), "the read is asked of the peer");
    assert!(fault(&desk).contains("is silent; served from lyon"), "{}", fault(&desk));
    desk.write(4);
    desk.ask(5, Operation::Flush);
    assert!(desk.ios.is_empty(), "nothing is issued to it");
    peer_has_all(&mut desk);
    assert!(desk.answers.contains(&(4, true)) && desk.answers.contains(&(5, true)));
}

#[test]
fn a_disk_returns_only_after_its_last_late_operation_and_none_of_them_changes_anything() {
    let (mut desk, late) = given_up();
    let answers = desk.answers.clone();
    let outcomes = [
        StoreOutcome::Failed(StoreFault::Io),
        StoreOutcome::Read { payload: Payload { id: PayloadId(77), length: 4096 }, zero: false },
        StoreOutcome::Failed(StoreFault::Io),
    ];
    for (late, outcome) in late.into_iter().zip(outcomes) {
        desk.results.clear();
        desk.command(Command::Resync);
        let refusal = desk.results.pop().and_then(Result::err);
        let refusal = refusal.unwrap_or_else(|| panic!("{late:?} has not ended"));
        assert_eq!(refusal.code, "busy");
        assert!(refusal.text.contains("is silent"), "{}", refusal.text);
        assert!(desk.engine.view().may_replace(V).is_err());
        end(&mut desk, late, outcome);
    }
    assert_eq!(desk.answers, answers);
    assert_eq!(state(&desk), MemberState::Responds);
    assert!(desk.engine.view().may_replace(V).is_ok());
    desk.command(Command::Resync);
    assert!(desk.results.pop().is_some_and(|result| result.is_ok()));
}

#[test]
fn the_payload_of_a_late_operation_is_held_and_counts_until_the_disk_has_ended_it() {
    let (mut desk, late) = given_up();
    let held = |desk: &Desk| desk.engine.view().status(desk.now).queue.map(|queue| queue.bytes);
    assert!(!desk.released.contains(&PayloadId(1001)));
    assert_eq!(held(&desk), Some(Bytes(4096)), "the item left the queue, its payload did not");
    for late in late {
        let payload = Payload { id: PayloadId(78), length: 4096 };
        let outcome = match late.1 {
            StoreOp::Read { .. } => StoreOutcome::Read { payload, zero: false },
            _ => StoreOutcome::Done,
        };
        end(&mut desk, late, outcome);
    }
    assert_eq!(held(&desk), Some(Bytes::ZERO));
    let released = |id| desk.released.iter().filter(|released| **released == PayloadId(id)).count();
    assert_eq!((released(1001), released(78)), (1, 1));
}

/// The disk of a primary was given up while flushes were under way. The node follows its peer since.
#[test]
fn a_secondary_asks_a_disk_that_was_given_up_for_no_flush_before_it_responds() {
    let settings = Config { mode: Mode::Sync, hot_extents: 1, ..config() };
    let mut desk = Desk::level(Config { on_error: OnError::ServeFromPeer, ..settings });
    desk.ask(1, Operation::Flush);
    let late: Vec<_> = desk.ios.drain(..).collect();
    desk.acked(4);
    pass(&mut desk, config().member_timeout + Duration::from_secs(1));
    peer_has_all(&mut desk);
    desk.command(Command::Demote);
    peer_has_all(&mut desk);
    assert_eq!(desk.engine.view().words().role, Role::Secondary);
    desk.lose_link();
    let line = desk.lineage_now().fork(Generation { number: 9, tag: 9 }, Sequence(4));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(line, true) });
    desk.hear(Message::Start(start(line, 5, false)));
    desk.save_all();
    desk.hear(item(5));
    desk.save_all();
    assert_eq!(state(&desk), MemberState::GivenUp);
    assert!(desk.engine.local.hot().is_short(), "the item has the only place");
    assert!(desk.engine.view().deadline() > desk.now, "nothing is due at once");
    assert!(desk.ios.is_empty(), "{:?}", desk.ios);
    late.into_iter().for_each(|late| end(&mut desk, late, StoreOutcome::Done));
    assert_eq!(state(&desk), MemberState::Responds);
    assert!(matches!(desk.ios.front(), Some((_, StoreOp::Flush, _))), "{:?}", desk.ios);
}
