// SPDX-License-Identifier: Apache-2.0
//! Short stories of planned changes of roles.

use super::*;
use helio_format::roles::Roles;

fn said_roles(desk: &Desk) -> Option<&Roles> {
    desk.said.iter().rev().find_map(|m| match m {
        Message::Roles(talk) if !matches!(talk, Roles::Row { .. }) => Some(talk),
        _ => None,
    })
}

/// A primary that has laid its role down and invited its peer.
fn handing() -> Desk {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Switch);
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.role, record.equal, record.clean), (Role::Secondary, true, true));
    assert!(matches!(said_roles(&desk), Some(Roles::Invite { head: Sequence(3), .. })));
    assert!(desk.results.len() == 1, "it is not over before the peer serves");
    desk
}

fn last_refusal(desk: &Desk) -> Option<&'static str> {
    desk.results.last().and_then(|r| r.as_ref().err()).map(|refusal| refusal.code)
}

#[test]
fn a_switch_is_over_when_the_peer_serves() {
    let mut desk = handing();
    let lineage = desk.lineage();
    desk.lose_link();
    let next = lineage.fork(Generation { number: 9, tag: 9 }, Sequence(3));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(next, true) });
    assert!(desk.results.last().is_some_and(Result::is_ok));
    assert!(!desk.engine.is_primary());
}

#[test]
fn a_peer_that_did_not_take_over_gives_the_role_back() {
    let mut desk = handing();
    let lineage = desk.lineage();
    desk.lose_link();
    let head = Sequence(3);
    desk.meet(Hello { head, received: head, durable: head, ..hello(lineage, true) });
    assert_eq!(last_refusal(&desk), Some("not-switched"));
    let record = desk.save(true);
    assert_eq!(record.role, Role::Primary);
    assert_eq!(record.lineage, lineage, "nothing forked: nobody else wrote");
    assert!(desk.engine.is_primary());
}

#[test]
fn a_peer_that_is_not_heard_of_may_be_primary() {
    let mut desk = handing();
    desk.lose_link();
    desk.now = desk.now + Duration::from_secs(11);
    desk.tell(Event::Tick);
    assert_eq!(last_refusal(&desk), Some("unsure"));
    assert!(!desk.engine.is_primary() && desk.saves.is_empty());
}

#[test]
fn a_switch_that_loses_its_peer_before_the_invitation_changes_nothing() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Switch);
    desk.lose_link();
    desk.tell(Event::Tick);
    assert!(desk.engine.is_primary() || !desk.ios.is_empty());
    desk.store_all();
    while !desk.saves.is_empty() {
        desk.save(true);
    }
    assert_eq!(last_refusal(&desk), Some("not-switched"));
    assert!(desk.engine.is_primary());
}

#[test]
fn a_switch_waits_for_a_peer_that_is_level() {
    let mut desk = Desk::primary(config());
    desk.command(Command::Switch);
    assert_eq!(last_refusal(&desk), Some("peer-lost"));
    desk.meet(hello(Lineage::default(), true));
    desk.command(Command::Switch);
    assert_eq!(last_refusal(&desk), Some("not-level"));
    assert!(desk.engine.is_primary());
}

#[test]
fn an_invited_follower_becomes_primary_and_knows_the_copies_equal() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.store_all();
    desk.command(Command::Switch);
    assert_eq!(said_roles(&desk), Some(&Roles::SwitchWanted));
    let invite = Roles::Invite { generation: generation(1).generation, head: Sequence(1) };
    desk.hear(Message::Roles(invite));
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.role, record.lineage.generation.number), (Role::Primary, 2));
    assert_eq!(record.lineage.ancestors()[0].fork, Sequence(1));
    assert!(desk.engine.is_primary() && desk.results.last().is_some_and(Result::is_ok));
    assert_eq!(desk.engine.state(), State::Queuing, "the copies are equal, so order is kept");
}

#[test]
fn a_follower_that_lacks_something_declines() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    let invite = Roles::Invite { generation: generation(1).generation, head: Sequence(2) };
    desk.hear(Message::Roles(invite));
    assert!(desk.engine.is_link_down(), "its next hello tells that it did not take over");
    desk.store_all();
    assert!(desk.saves.is_empty());
}

#[test]
fn a_stop_during_a_change_of_roles_comes_after_it() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Switch);
    desk.command(Command::Stop);
    desk.store_all();
    desk.save(true);
    desk.tell(Event::Tick);
    let ends: Vec<bool> = desk.results.iter().map(Result::is_ok).collect();
    assert_eq!(ends, [true, false, true], "promoted; switched, perhaps; stopped");
    assert!(!desk.engine.is_primary());
}

/// A primary whose peer went on without it, and which is secondary again.
fn diverged() -> (Desk, Lineage) {
    let mut desk = Desk::replicating(Mode::Async);
    let parent = desk.lineage();
    desk.lose_link();
    desk.write(1);
    desk.store_all();
    desk.command(Command::Demote);
    desk.store_all();
    desk.save(true);
    let rival = parent.fork(Generation { number: 9, tag: 9 }, Sequence(3));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    (desk, rival)
}

#[test]
fn both_nodes_name_the_row_that_fired() {
    let (desk, _) = diverged();
    let met = desk.engine.met().expect("they met");
    assert_eq!((met.label.as_str(), met.as_source), ("diverged", false));
    assert!(met.facts.own && desk.engine.is_link_down());
    let mut desk = follower(generation(1), true);
    desk.hear(Message::Roles(Roles::Row { label: "resume-durable".into() }));
    assert_eq!(desk.engine.met().map(|met| met.label.as_str()), Some("resume-durable"));
    let told =
        |m: &Message| matches!(m, Message::Roles(Roles::Row { label }) if label == "new-peer");
    let source = Desk::replicating(Mode::Async);
    assert!(source.said.iter().any(told), "the source tells its row");
}

#[test]
fn a_side_that_is_given_up_may_follow() {
    let (mut desk, rival) = diverged();
    let stake = desk.engine.stake().expect("it holds something of its own");
    assert_eq!(stake.differing, [(VolumeIndex(0), Extent::new(0, SIZE.0))]);
    assert!(stake.since.is_some());
    desk.command(Command::Yield { generation: stake.generation });
    let record = desk.save(true);
    assert_eq!((record.wrote, record.clean, record.role), (false, false, Role::Secondary));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    assert_eq!(desk.engine.met().map(|met| met.label.as_str()), Some("old-copy"));
    assert!(!desk.engine.is_link_down());
}

#[test]
fn of_two_that_forked_the_one_given_up_goes_back_to_where_they_were_one() {
    let (mut desk, rival) = diverged();
    let parent = Lineage::default().fork(rival.ancestors()[0].generation, Sequence::ZERO);
    desk.command(Command::Promote { force: true });
    desk.save(true);
    desk.command(Command::Demote);
    desk.store_all();
    desk.save(true);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    assert!(desk.engine.is_link_down(), "they forked, and are kept apart");
    let generation = desk.engine.stake().expect("it holds something").generation;
    desk.command(Command::Yield { generation });
    assert_eq!(desk.save(true).lineage, parent);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    assert_eq!(desk.engine.met().map(|met| met.label.as_str()), Some("old-copy"));
}

#[test]
fn nothing_is_given_up_that_was_not_looked_at() {
    let (mut desk, _) = diverged();
    desk.command(Command::Yield { generation: Generation { number: 99, tag: 1 } });
    assert_eq!(last_refusal(&desk), Some("busy"));
    assert!(desk.saves.is_empty());
    let mut primary = Desk::primary(config());
    primary.command(Command::Yield { generation: Generation { number: 1, tag: 1 } });
    assert_eq!(last_refusal(&primary), Some("is-primary"));
}

#[test]
fn what_was_asked_just_before_clients_are_let_go_is_still_answered() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(Command::Switch);
    desk.write(1);
    desk.store_all();
    desk.acked(4);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true)]);
    assert!(matches!(desk.save(true).head, Sequence(4)));
    assert!(matches!(said_roles(&desk), Some(Roles::Invite { head: Sequence(4), .. })));
}
