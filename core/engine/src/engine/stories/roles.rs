// SPDX-License-Identifier: Apache-2.0
//! Stories of commands that change a node's role.

use super::*;

fn answer(desk: &mut Desk) -> Result<String, &'static str> {
    desk.results.pop().expect("an answer").map_err(|refusal| refusal.code)
}

#[test]
fn a_secondary_that_is_demoted_is_secondary_already() {
    let mut desk = Desk::new(config());
    desk.command(Command::Demote);
    let text = answer(&mut desk).expect("nothing is to be done");
    assert!(text.contains("secondary here already"), "{text}");
    assert!(desk.saves.is_empty());
}

#[test]
fn a_node_that_waits_to_go_on_as_primary_is_demoted_at_once() {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let record = Superblock { role: Role::Primary, lineage: generation(1), ..new };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    assert_eq!(desk.engine.view().standing(), "returning");
    desk.command(Command::Demote);
    assert!(answer(&mut desk).is_ok());
    assert_eq!(desk.save(true).role, Role::Secondary);
    assert_eq!(desk.engine.view().standing(), "secondary");
}

#[test]
fn a_node_whose_promotion_cannot_be_recorded_stays_what_it_was() {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    for (role, standing) in [(Role::Secondary, "secondary"), (Role::Primary, "returning")] {
        let record = Superblock { role, lineage: generation(1), ..new.clone() };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        desk.command(Command::Promote { force: true });
        desk.save(false);
        assert_eq!(answer(&mut desk), Err("metadata-failed"));
        assert_eq!(desk.engine.view().standing(), standing);
    }
}

#[test]
fn a_node_reports_whether_its_peer_serves_or_did_when_it_was_connected_last() {
    let role = |desk: &Desk| desk.engine.view().status(desk.now).link.peer_role;
    let mut desk = Desk::replicating(Mode::Sync);
    assert_eq!(role(&desk), Some(Role::Secondary));
    desk.lose_link();
    assert_eq!(role(&desk), Some(Role::Secondary), "the role that it had");
    assert_eq!(role(&follower(generation(1), true)), Some(Role::Primary));
}

#[test]
fn a_node_holds_the_line_while_it_is_primary_and_until_it_has_left() {
    let mut desk = Desk::new(config());
    assert!(!desk.engine.view().holds_line());
    desk.command(Command::Promote { force: true });
    desk.save(true);
    assert!(desk.engine.view().holds_line());
    desk.command(Command::Demote);
    assert!(desk.engine.view().holds_line(), "it is leaving");
    desk.store_all();
    desk.save_all();
    assert!(!desk.engine.view().holds_line());
}

#[test]
fn a_primary_that_is_promoted_is_primary_already() {
    let mut desk = Desk::primary(config());
    desk.command(Command::Promote { force: false });
    let text = answer(&mut desk).expect("nothing is to be done");
    assert!(text.contains("primary here already"), "{text}");
    assert!(desk.saves.is_empty());
}

#[test]
fn a_promotion_ends_if_the_store_fails_what_was_received_before() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(item(1));
    desk.lose_link();
    desk.command(Command::Promote { force: true });
    assert_eq!((desk.engine.view().standing(), desk.results.len()), ("promoting", 0));
    super::lose::fail(&mut desk);
    assert_eq!(answer(&mut desk), Err("volume-failed"));
    assert_eq!(desk.engine.view().standing(), "secondary");
}

#[test]
fn a_node_whose_metadata_fails_does_not_go_on_as_primary_by_its_peers_word() {
    for ok in [true, false] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let record = Superblock { role: Role::Primary, wrote: true, lineage: generation(1), ..new };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        if !ok {
            desk.command(Command::Promote { force: true });
            desk.save(false);
        }
        desk.meet(hello(generation(1), true));
        let (flushing, short, metadata) = (false, false, 2);
        desk.hear(Message::Pong { token: 1, flushing, waits: false, short, metadata });
        let promotes = desk.engine.view().standing() == "promoting";
        assert_eq!((promotes, desk.saves.len()), (ok, usize::from(ok)));
        assert_eq!(desk.engine.view().is_link_down(), ok, "the connection is kept while it waits");
    }
}
