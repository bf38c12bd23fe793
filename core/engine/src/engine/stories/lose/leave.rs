// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary that is served from its peer, since its own disk failed, and leaves that role: its peer has everything.

use super::super::switch::answer_ping;
use super::*;
use helio_format::reading::Told;
use helio_format::roles::Roles;

/// Served from the peer, which has everything durably.
fn served() -> Desk {
    let mut desk = given_up();
    peer_has_all(&mut desk);
    desk.save_all();
    assert_eq!(desk.answers, [(1, true)]);
    desk.results.clear();
    desk
}

/// It leaves for good, and its record is durable.
fn left(desk: &mut Desk, command: Command) -> Superblock {
    desk.command(command);
    recorded(desk)
}

/// Time passes, and what the disk that works and the metadata are asked for is done. Returns the last record.
fn recorded(desk: &mut Desk) -> Superblock {
    let mut record = None;
    for _ in 0..3 {
        desk.now = desk.now + Duration::from_secs(2);
        desk.tell(Event::Tick);
        desk.store_all();
        while !desk.saves.is_empty() {
            record = Some(desk.save(true));
        }
    }
    record.expect("it records that")
}

fn invited(desk: &Desk) -> bool {
    desk.said.iter().any(|m| matches!(m, Message::Roles(Roles::Invite { .. })))
}

#[test]
fn a_primary_without_its_disk_knows_that_its_peer_has_everything() {
    for connected in [true, false] {
        let mut desk = served();
        if !connected {
            desk.lose_link();
        }
        let lag = desk.engine.view().status(desk.now).lag;
        assert_eq!(lag, Lag::default(), "what is marked is missing here, and not at the peer");
        let record = left(&mut desk, Command::Demote);
        assert_eq!((record.clean, record.equal, record.consistent), (true, true, false));
        let told = desk.results.pop().expect("an answer").expect("it may leave");
        assert_eq!(told, "secondary now; lyon has everything");
        let status = desk.engine.view().status(desk.now);
        assert!(!status.ahead, "the peer lacks nothing");
        assert_eq!(desk.engine.view().neither_has_everything(), None);
        let said = desk.engine.view().hello();
        assert_eq!(said.durable, Sequence::ZERO, "and no stream goes on behind what is missing");
    }
}

/// What the record of a secondary says at its start is less than what its disk has.
#[test]
fn a_peer_that_had_everything_and_restarted_is_given_the_role_by_a_node_that_has_no_complete_copy()
{
    for equal in [true, false] {
        let mut desk = served();
        let lineage = desk.lineage_now();
        let record = left(&mut desk, Command::Demote);
        assert!(record.head > Sequence(1));
        desk.engine.record.superblock_mut().equal = equal;
        desk.lose_link();
        let agreed = agrees(&mut desk, lineage, false);
        assert_eq!(agreed, Some(equal), "what it acknowledged is at the peer: {equal}");
    }
}

/// Whether it agrees to its peer, which asks for the role. The peer has less than this node acknowledged, by its record after a crash, or
/// by what it knows exactly: then it went back.
fn agrees(desk: &mut Desk, lineage: Lineage, exact: bool) -> Option<bool> {
    let (head, generation) = (Sequence(1), lineage.generation);
    let (incarnation, clean, sure) = (PEER + 1, exact, false);
    desk.meet(Hello { incarnation, clean, sure, head, ..hello(lineage, true) });
    desk.hear(Message::PromoteRequest { generation, durable: head });
    let granted = |m: &Message| match m {
        Message::PromoteReply { granted, .. } => Some(*granted),
        _ => None,
    };
    desk.said.iter().rev().find_map(granted)
}

#[test]
fn a_peer_that_went_back_is_not_given_the_role() {
    let mut desk = served();
    let lineage = desk.lineage_now();
    left(&mut desk, Command::Demote);
    desk.lose_link();
    assert_eq!(agrees(&mut desk, lineage, true), Some(false));
}

#[test]
fn a_peer_that_had_everything_and_restarted_is_given_the_role_by_a_node_whose_flush_failed() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    desk.store_all();
    desk.acked(4);
    let lineage = desk.lineage_now();
    desk.command(Command::Demote);
    let (io, ..) = desk.ios.pop_front().expect("it flushes before it hands its role over");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    let record = recorded(&mut desk);
    assert_eq!((record.suspect, record.consistent, record.equal), (1, false, true));
    desk.lose_link();
    assert_eq!(agrees(&mut desk, lineage, false), Some(true));
}

#[test]
fn what_only_its_queue_has_is_told_as_that() {
    let mut desk = answered_at_the_peer_alone();
    desk.lose_link();
    assert_eq!(desk.engine.view().status(desk.now).lag.bytes, Bytes(4096));
    desk.command(Command::Stop);
    desk.now = desk.now + STOP_PATIENCE;
    desk.tell(Event::Tick);
    let record = recorded(&mut desk);
    assert_eq!((record.equal, record.consistent), (false, false));
    assert!(desk.engine.view().is_ahead());
}

#[test]
fn a_primary_that_leaves_before_the_failure_of_its_disk_is_recorded_leaves_no_complete_copy() {
    let mut desk = level();
    desk.write(1);
    fail(&mut desk);
    peer_has_all(&mut desk);
    let record = left(&mut desk, Command::Demote);
    assert_eq!((record.equal, record.consistent), (true, false));
}

#[test]
fn a_switch_leads_out_of_a_node_whose_disk_failed() {
    let mut desk = served();
    let lineage = desk.lineage_now();
    let record = left(&mut desk, Command::Switch);
    assert_eq!((record.role, record.equal, record.consistent), (Role::Secondary, true, false));
    assert!(invited(&desk));
    // What was asked of the peer while this node led is answered behind that.
    let payload = Payload { id: PayloadId(70), length: 4096 };
    desk.told(7, Told::Bytes(payload));
    let (volume, extent, coarse) = (VolumeIndex(0), Extent::new(0, REGION.0), false);
    let list = digests(extent, coarse);
    desk.hear(Message::Copying(Copying::Digests { volume, extent, coarse, list }));
    assert!(!desk.accuses() && desk.released.contains(&payload.id));
    desk.lose_link();
    let next = lineage.fork(Generation { number: 9, tag: 9 }, record.head);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(next, true) });
    assert!(desk.results.last().is_some_and(Result::is_ok), "{:?}", desk.results);
}

#[test]
fn a_switch_leads_out_of_a_disk_that_fails_reads_whose_peer_was_not_to_serve() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.ask(1, Operation::Read(Extent::new(0, 4096)));
    fail(&mut desk);
    peer_has_all(&mut desk);
    desk.save_all();
    assert_eq!(desk.answers, [(1, false)], "the policy is to pass");
    desk.results.clear();
    desk.command(Command::Switch);
    // The disk takes no flush either.
    while !desk.ios.is_empty() {
        fail(&mut desk);
    }
    for _ in 0..3 {
        desk.now = desk.now + Duration::from_secs(2);
        peer_has_all(&mut desk);
        desk.save_all();
    }
    assert!(invited(&desk), "{:?}", desk.results);
}

#[test]
fn a_peer_that_did_not_take_over_gives_no_role_back_to_a_node_without_its_disk() {
    let mut desk = served();
    let lineage = desk.lineage_now();
    let record = left(&mut desk, Command::Switch);
    desk.lose_link();
    let head = record.head;
    let level = Hello { head, received: head, durable: head, ..hello(lineage, true) };
    desk.meet_before_saving(level);
    answer_ping(&mut desk);
    let refusal = desk.results.pop().and_then(Result::err).expect("nothing was switched");
    assert_eq!(refusal.code, "not-switched");
    assert!(refusal.hint.contains("`helio promote db` on lyon"), "{refusal:?}");
    assert!(!desk.engine.view().is_primary() && desk.saves.is_empty());
}
