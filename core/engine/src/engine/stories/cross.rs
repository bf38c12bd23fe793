// SPDX-License-Identifier: Apache-2.0
//! Short stories of two nodes that are to be promoted at once.

use super::*;

const AT: Sequence = Sequence(4);

/// Two level copies, neither of them primary, and met. `first`: this node's name is first of the two.
fn met(first: bool) -> Desk {
    let (node, peer) = if first { ("lyon", "paris") } else { ("paris", "lyon") };
    let plain = Config::new("db", node, peer, [SIZE].into());
    let config = Config { names: [String::from("data")].into(), ..plain };
    let line = generation(1);
    let new = Superblock::new("db", node, [SIZE.0].into());
    let (clean, consistent, head) = (true, true, AT);
    let record = Superblock { lineage: line, consistent, clean, head, marks_void: false, ..new };
    let mut desk = Desk::new(config.clone());
    desk.engine = Engine::new(config, durable(record), 1, 1, Moment::ZERO);
    desk.meet(level(&desk));
    desk
}

/// The hello of a peer with the same copy.
fn level(desk: &Desk) -> Hello {
    let peer = desk.engine.turn.config().peer.as_str();
    let said = hello(generation(1), true);
    Hello { node: peer.into(), head: AT, received: AT, durable: AT, ..said }
}

fn asks(desk: &mut Desk) {
    desk.command(Command::Promote { force: false });
    assert_eq!(desk.engine.view().standing(), "asking");
}

fn hears_request(desk: &mut Desk) {
    let generation = generation(1).generation;
    desk.hear(Message::PromoteRequest { generation, durable: AT });
}

fn hears_answer(desk: &mut Desk, granted: bool) {
    desk.hear(Message::PromoteReply { granted, text: String::from("it has no reason") });
}

/// What it answered the peer.
fn answers(desk: &Desk) -> Vec<bool> {
    let answer = |m: &Message| match m {
        Message::PromoteReply { granted, .. } => Some(*granted),
        _ => None,
    };
    desk.said.iter().filter_map(answer).collect()
}

fn refusals(desk: &Desk) -> Vec<&'static str> {
    let refused = desk.results.iter().filter_map(|result| result.as_ref().err());
    refused.map(|refusal| refusal.code).collect()
}

#[test]
fn the_first_one_hears_what_becomes_of_its_own_request_before_it_answers() {
    let mut desk = met(true);
    asks(&mut desk);
    hears_request(&mut desk);
    assert_eq!(answers(&desk), [] as [bool; 0], "the request waits");
    hears_answer(&mut desk, true);
    assert_eq!(desk.save(true).role, Role::Primary);
    assert_eq!(answers(&desk), [] as [bool; 0], "it ended with the connection");
    assert!(desk.results.iter().all(Result::is_ok), "{:?}", desk.results);
}

#[test]
fn the_first_one_answers_once_it_was_refused() {
    let mut desk = met(true);
    asks(&mut desk);
    hears_request(&mut desk);
    hears_answer(&mut desk, false);
    assert_eq!(answers(&desk), [true], "no reason is left");
    assert_eq!(refusals(&desk), ["peer-promotes"], "its result says why");
    assert_eq!(desk.engine.view().standing(), "secondary");
}

#[test]
fn the_second_one_takes_its_request_back_before_it_agrees() {
    let mut desk = met(false);
    asks(&mut desk);
    hears_request(&mut desk);
    assert_eq!(answers(&desk), [true]);
    assert_eq!(refusals(&desk), ["peer-promotes"]);
    assert_eq!(desk.engine.view().standing(), "secondary");
    // One that does not know this order answers all the same.
    hears_answer(&mut desk, true);
    assert_eq!((desk.engine.view().standing(), desk.saves.len()), ("secondary", 0));
}

#[test]
fn the_second_one_goes_on_asking_where_it_has_what_the_first_one_lacks() {
    let mut desk = met(false);
    asks(&mut desk);
    let generation = Generation { number: 7, tag: 7 };
    desk.hear(Message::PromoteRequest { generation, durable: AT });
    assert_eq!(answers(&desk), [false]);
    assert_eq!(desk.engine.view().standing(), "asking");
    hears_answer(&mut desk, true);
    assert_eq!(desk.save(true).role, Role::Primary);
}

#[test]
fn a_request_that_waits_ends_with_its_connection() {
    let mut desk = met(true);
    asks(&mut desk);
    hears_request(&mut desk);
    desk.lose_link();
    assert_eq!(refusals(&desk), ["peer-lost"]);
    desk.meet(level(&desk));
    asks(&mut desk);
    hears_answer(&mut desk, false);
    assert_eq!(answers(&desk), [] as [bool; 0]);
}

#[test]
fn who_agreed_does_not_ask_until_it_has_heard_what_came_of_that() {
    let mut desk = met(true);
    hears_request(&mut desk);
    assert_eq!(answers(&desk), [true]);
    for force in [false, true] {
        desk.command(Command::Promote { force });
    }
    assert_eq!(refusals(&desk), ["peer-promotes"; 2]);
    assert!(!desk.said.iter().any(|m| matches!(m, Message::PromoteRequest { .. })));
    desk.lose_link();
    desk.command(Command::Promote { force: false });
    assert_eq!(refusals(&desk), ["peer-promotes"; 3]);
    desk.now = desk.now + desk.engine.turn.config().peer_timeout;
    desk.command(Command::Promote { force: false });
    assert_eq!(refusals(&desk).last(), Some(&"needs-force"), "it may have died");
    // It was not promoted, and says so: it may be asked.
    desk.meet(level(&desk));
    asks(&mut desk);
}
