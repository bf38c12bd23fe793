// SPDX-License-Identifier: Apache-2.0
//! Stories of metadata that is lost, on either node, while the other one has a record of it.

mod back;
mod stake;

use super::switch::answer_ping;
use super::*;

/// A node that was primary, or followed one, starts again; it has a record of the metadata of its peer.
fn restarted(role: Role) -> Desk {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let wrote = role == Role::Primary;
    let record = Superblock {
        role,
        wrote,
        alone: wrote,
        lineage: generation(1),
        marks_void: false,
        clean: false,
        remembers: 40,
        ..new
    };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    desk
}

/// A node without metadata.
fn blank() -> Hello {
    Hello { metadata: 0, ..hello(Lineage::default(), true) }
}

fn row(desk: &Desk) -> Option<&str> {
    desk.engine.view().last_decision().map(|met| met.label.as_str())
}

#[test]
fn a_node_without_metadata_cannot_confirm_that_it_did_not_take_over() {
    let mut desk = restarted(Role::Primary);
    desk.meet(blank());
    assert_eq!(row(&desk), Some("metadata-lost"));
    assert!(desk.engine.view().is_link_down() && desk.saves.is_empty());
    assert_eq!(desk.engine.view().standing(), "returning", "it does not become primary by itself");
    let status = desk.engine.view().status(desk.now);
    assert!(status.link.why.starts_with("metadata-lost: lyon"), "{}", status.link.why);
    let hint = status.link.hint.unwrap_or_default();
    assert!(hint.starts_with("restore the state directory of lyon"), "{hint}");
    // An operator discarded that copy.
    desk.meet(Hello { discarded: true, metadata: 1, ..blank() });
    answer_ping(&mut desk);
    assert_eq!(desk.save(true).role, Role::Primary);
}

#[test]
fn a_peer_that_never_had_metadata_is_believed() {
    let mut desk = restarted(Role::Primary);
    let record = Superblock { remembers: 0, ..desk.engine.record.superblock().clone() };
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    desk.meet(blank());
    answer_ping(&mut desk);
    assert_eq!(desk.save(true).role, Role::Primary);
}

#[test]
fn a_promotion_that_the_lost_metadata_of_the_peer_leaves_unproven_is_refused_with_what_loses_nothing()
 {
    let mut desk = restarted(Role::Secondary);
    desk.meet(blank());
    assert_eq!(row(&desk), Some("metadata-lost"));
    desk.command(Command::Promote { force: false });
    let refusal = desk.results.pop().expect("an answer").expect_err("lyon may hold newer writes");
    assert_eq!(refusal.code, "metadata-lost");
    assert!(refusal.text.contains("may hold acknowledged writes"), "{}", refusal.text);
    assert!(refusal.hint.starts_with("restore the state directory of lyon"), "{}", refusal.hint);
    assert!(desk.saves.is_empty());
}

#[test]
fn a_node_that_lost_its_metadata_does_not_recommend_its_peer_and_is_not_promoted_unforced() {
    let mut desk = Desk::new(config());
    desk.meet(Hello { remembers: 40, ..hello(generation(2), true) });
    assert_eq!(row(&desk), Some("metadata-lost"));
    assert!(desk.engine.view().is_link_down());
    desk.command(Command::Promote { force: false });
    let refusal = desk.results.pop().expect("an answer").expect_err("its history is lost");
    assert_eq!(refusal.code, "metadata-lost");
    assert!(refusal.hint.contains("restore the state directory of paris"), "{}", refusal.hint);
}

#[test]
fn a_primary_copies_nothing_over_a_peer_that_lost_its_metadata() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.lose_link();
    let said = desk.said.len();
    desk.meet(Hello { incarnation: PEER + 1, ..blank() });
    assert_eq!(row(&desk), Some("metadata-lost"));
    assert!(desk.engine.view().is_link_down() && desk.engine.view().is_primary());
    assert!(!desk.said[said..].iter().any(|m| matches!(m, Message::Start(_))));
    let discarded = Hello { discarded: true, metadata: 1, incarnation: PEER + 2, ..blank() };
    desk.meet(discarded);
    assert_eq!(row(&desk), Some("new-peer"));
}

#[test]
fn a_primary_records_that_its_peer_has_metadata_before_the_first_copy_ends() {
    let mut desk = Desk::primary(config());
    desk.meet(Hello { metadata: 0, ..hello(Lineage::default(), true) });
    assert_eq!(desk.engine.record.superblock().remembers, 0);
    desk.hear(ack(1, 1));
    assert_eq!(desk.save(true).remembers, 1, "the peer took up a stream: it has a record");
}

#[test]
fn a_primary_with_new_metadata_is_no_source_for_a_peer_that_has_a_record_of_the_old() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(Message::Ping(Ping { metadata: 40, ..Ping::default() }));
    desk.lose_link();
    let forced = generation(7);
    desk.meet(Hello { serving: true, role: Role::Primary, metadata: 3, ..hello(forced, true) });
    assert_eq!(row(&desk), Some("source-metadata-lost"));
    assert!(desk.engine.view().is_link_down());
}

#[test]
fn a_copy_that_was_given_up_whole_is_on_record_as_discarded() {
    let mut desk = restarted(Role::Secondary);
    let (serving, metadata) = (true, 50);
    let peer = hello(generation(5), true);
    let serving = Hello { serving, role: Role::Primary, metadata, ..peer };
    desk.meet(serving.clone());
    assert_eq!(row(&desk), Some("unrelated"));
    let generation = desk.engine.view().stake(false).expect("it holds something").generation;
    desk.command(Command::Yield { generation, last_copy: false });
    assert!(desk.save(true).discarded);
    // Its peer has a record of metadata that may be younger than that: it is new all the same.
    desk.meet(Hello { remembers: 99, ..serving });
    assert_eq!(row(&desk), Some("new-peer"));
    desk.hear(Message::Start(start(super::generation(5), 1, false)));
    desk.store_all();
    assert!(!desk.save(true).discarded, "it takes part again");
}

#[test]
fn a_source_behind_what_its_target_received_in_the_same_generation_is_rolled_back() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    for n in 1..5 {
        desk.hear(item(n));
    }
    desk.store_all();
    desk.lose_link();
    // Its process is the one it was, and its metadata as old as it was last heard of.
    let source = Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) };
    desk.meet(Hello { head: Sequence(2), ..source.clone() });
    assert_eq!(row(&desk), Some("source-rolled-back"));
    assert!(desk.engine.view().is_link_down());
    // It went on without its peer, in a generation that begins before what it had sent.
    let forked = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence(2));
    desk.meet(Hello { head: Sequence(9), lineage: forked, ..source.clone() });
    assert_eq!(row(&desk), Some("source-rolled-back"));
    let forked = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence(4));
    desk.meet(Hello { head: Sequence(9), lineage: forked, ..source });
    assert!(!desk.engine.view().is_link_down(), "what went on behind it all is no older one");
}

/// A secondary that was killed, beside a primary that wrote alone and was demoted then.
fn beside_a_demoted_primary(fork: bool) -> (Desk, Hello) {
    let record = Superblock {
        wrote: false,
        ..restarted(Role::Secondary).engine.record.superblock().clone()
    };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    let alone = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence(4));
    let (head, metadata) = (Sequence(9), 50);
    let lineage = if fork { alone } else { generation(1) };
    let peer = Hello { wrote: true, alone: true, head, metadata, ..hello(lineage, true) };
    (desk, peer)
}

#[test]
fn a_node_that_never_was_primary_is_told_who_holds_newer_writes_and_that_promoting_that_one_loses_nothing()
 {
    for fork in [false, true] {
        let (mut desk, peer) = beside_a_demoted_primary(fork);
        desk.meet(peer);
        desk.command(Command::Promote { force: false });
        let text = String::from("newer-elsewhere: lyon holds newer writes");
        desk.hear(Message::PromoteReply { granted: false, text });
        let refusal = desk.results.pop().expect("an answer").expect_err("lyon has more");
        assert!(refusal.hint.starts_with("`helio promote db` on lyon instead"), "{}", refusal.hint);
        assert!(refusal.hint.contains("nothing is lost"), "{}", refusal.hint);
        assert!(!refusal.hint.contains("--force"), "{}", refusal.hint);
        assert_eq!(row(&desk), Some("newer-elsewhere"));
    }
}

#[test]
fn a_demoted_primary_refuses_one_that_only_followed_as_behind_and_not_as_parted() {
    for alone in [false, true] {
        let mut desk = Desk::replicating(if alone { Mode::Sync } else { Mode::Async });
        let lineage = desk.lineage_now();
        desk.lose_link();
        desk.write(1);
        desk.store_all();
        desk.save_all();
        desk.store_all();
        desk.command(Command::Demote);
        desk.store_all();
        desk.save_all();
        assert_eq!(desk.lineage_now() != lineage, alone, "only sync was together");
        let (incarnation, metadata) = (PEER + 1, 9);
        let peer = Hello { incarnation, clean: false, metadata, ..hello(lineage, true) };
        desk.meet(Hello { head: Sequence(2), ..peer });
        let generation = lineage.generation;
        desk.hear(Message::PromoteRequest { generation, durable: Sequence(2) });
        let text = desk.said.iter().rev().find_map(|m| match m {
            Message::PromoteReply { granted: false, text } => Some(text.clone()),
            _ => None,
        });
        let text = text.expect("it is refused");
        assert!(text.starts_with("newer-elsewhere: paris holds newer writes"), "{text}");
    }
}

/// It began a generation with its peer's image, and left before it had copied that, and before anybody wrote.
#[test]
fn who_wrote_nothing_in_a_generation_of_its_own_agrees_to_the_node_whose_image_it_began_with() {
    // What it left with, whether it answered anything alone, what the peer holds, and whether the peer becomes primary.
    let cases = [
        (4, false, 4, true),
        (4, false, 6, true),
        (4, false, 3, false),
        (5, false, 4, false),
        (4, true, 4, false),
    ];
    for (head, alone, durable, agrees) in cases {
        let own = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence(4));
        let began = restarted(Role::Primary).engine.record.superblock().clone();
        let (wrote, clean, consistent) = (true, true, false);
        let head = Sequence(head);
        let left = Superblock { lineage: own, head, wrote, alone, clean, consistent, ..began };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), super::durable(left), 1, 1, Moment::ZERO);
        let (incarnation, at) = (PEER + 1, Sequence(durable));
        let peer = Hello { incarnation, sure: false, head: at, ..hello(generation(1), true) };
        desk.meet(Hello { durable: at, metadata: 50, ..peer });
        let generation = generation(1).generation;
        desk.hear(Message::PromoteRequest { generation, durable: at });
        let granted = desk.said.iter().rev().find_map(|m| match m {
            Message::PromoteReply { granted, .. } => Some(*granted),
            _ => None,
        });
        assert_eq!(granted, Some(agrees), "{head:?}, alone: {alone}, {at:?}: {:?}", desk.said);
    }
}

#[test]
fn a_source_that_began_the_same_generation_elsewhere_is_rolled_back() {
    let lineage = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence(4));
    let again = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence(6));
    let mut desk = follower(lineage, true);
    desk.save_all();
    desk.lose_link();
    let source =
        Hello { serving: true, role: Role::Primary, head: Sequence(9), ..hello(again, true) };
    desk.meet(source);
    assert_eq!(row(&desk), Some("source-rolled-back"), "its dice fell as before");
}

/// Three items of a generation were received of a process, which is secondary now: how its machine could not be.
#[test]
fn a_former_primary_whose_machine_went_back_is_doubted_before_its_follower_becomes_primary() {
    let lineage = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence::ZERO);
    let wrote =
        |head| Hello { wrote: true, head: Sequence(head), metadata: 9, ..hello(lineage, true) };
    let discarded = Hello { wrote: false, alone: true, ..hello(generation(1), true) };
    for (peer, doubted) in [
        (hello(generation(1), true), true),
        (wrote(2), true),
        (wrote(3), false),
        (Hello { incarnation: PEER + 1, ..wrote(2) }, false),
        (discarded, false),
    ] {
        let mut desk = follower(lineage, true);
        desk.save_all();
        (1..4).for_each(|n| desk.hear(item(n)));
        desk.store_all();
        desk.lose_link();
        desk.meet(peer.clone());
        let recorded = desk.engine.record.superblock().peer_invalid;
        assert_eq!(recorded != Generation::NONE, doubted, "{peer:?}");
        let (generation, durable) = (peer.lineage.generation, peer.head);
        desk.hear(Message::PromoteRequest { generation, durable });
        let refused = desk.said.iter().any(|message| {
            matches!(message, Message::PromoteReply { text, .. } if text.contains("snapshot"))
        });
        assert_eq!(refused, doubted, "it must not become primary either: {peer:?}");
    }
}

/// The position at which its own writes ended is none of the generation that it goes back to.
#[test]
fn a_node_that_gave_its_own_writes_up_follows_the_process_it_followed_before() {
    let lineage = generation(1);
    let (head, durable) = (Sequence(3), Sequence(3));
    let left = Hello { head, durable, wrote: true, ..hello(lineage, true) };
    let again = Hello { serving: true, role: Role::Primary, ..left.clone() };
    let mut desk = follower(lineage, true);
    desk.save_all();
    (1..4).for_each(|n| desk.hear(item(n)));
    desk.store_all();
    desk.lose_link();
    desk.meet(left);
    desk.command(Command::Promote { force: false });
    desk.hear(Message::PromoteReply { granted: true, text: String::new() });
    desk.store_all();
    desk.save_all();
    desk.lose_link();
    (1..9).for_each(|n| desk.write(n));
    desk.store_all();
    desk.save_all();
    assert!(desk.engine.view().status(desk.now).cursors.head > head, "its writes are in the queue");
    desk.meet(again.clone());
    assert_eq!(row(&desk), Some("two-primaries"));
    desk.lose_link();
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    let generation = desk.engine.view().stake(false).expect("it wrote").generation;
    desk.command(Command::Yield { generation, last_copy: false });
    desk.save_all();
    desk.meet(again);
    assert!(!desk.engine.view().is_link_down(), "{:?}", row(&desk));
}

/// The record that gives this node's own writes up lays down everything that was received.
#[test]
fn a_stream_that_begins_while_own_writes_are_given_up_waits_for_the_record() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.lose_link();
    let generation = desk.engine.view().stake(true).expect("it wrote").generation;
    desk.command(Command::Yield { generation, last_copy: true });
    let lineage = super::generation(1);
    let serving = Hello { serving: true, role: Role::Primary, ..hello(lineage, true) };
    desk.meet_before_saving(serving.clone());
    assert!(!desk.engine.view().is_link_down(), "{:?}", row(&desk));
    desk.hear(Message::Start(start(lineage, 1, true)));
    desk.hear(item(1));
    assert!(desk.ios.is_empty(), "it would be laid down while it is under way: {:?}", desk.ios);
    assert!(desk.engine.view().is_link_down(), "{:?}", row(&desk));
    desk.save_all();
    assert!(desk.results.iter().any(Result::is_ok), "{:?}", desk.results);
    desk.meet(serving);
    assert!(!desk.engine.view().is_link_down(), "{:?}", row(&desk));
}

/// The primary forked while the two were connected. So the newest hello that the peer has of it names a generation before that,
/// and a peer that gives its own writes up goes back to that one.
#[test]
fn a_peer_that_discarded_its_own_writes_is_not_taken_for_one_that_went_back() {
    for discarded in [true, false] {
        let mut desk = Desk::replicating(Mode::Sync);
        let met = desk.lineage();
        desk.command(Command::Pause);
        desk.write(1);
        desk.store_all();
        desk.save_all();
        desk.command(Command::Resync);
        desk.store_all();
        let head = desk.engine.view().status(desk.now).cursors.head.0;
        desk.acked(head);
        desk.save_all();
        let forked = desk.lineage_now();
        assert!(forked.fork_from(met.generation).is_some_and(|fork| fork < Sequence(head)));
        desk.lose_link();
        desk.meet(Hello { alone: discarded, clean: false, ..hello(met, true) });
        assert_eq!(row(&desk) == Some("target-rolled-back"), !discarded, "{:?}", row(&desk));
    }
}

#[test]
fn a_node_more_forks_behind_than_a_lineage_remembers_is_refused_and_joins_as_new_once_discarded() {
    let mut far = generation(1);
    for number in 2..20 {
        far = far.fork(Generation { number, tag: number }, Sequence(number));
    }
    let mut desk = restarted(Role::Secondary);
    let metadata = 50;
    let serving = Hello { serving: true, role: Role::Primary, metadata, ..hello(far, true) };
    desk.meet(serving.clone());
    assert_eq!(row(&desk), Some("unrelated"));
    assert!(desk.engine.view().is_link_down(), "nothing is copied over it by itself");
    let generation = desk.engine.view().stake(false).expect("it holds something").generation;
    desk.command(Command::Yield { generation, last_copy: false });
    desk.save_all();
    desk.meet(serving);
    assert_eq!(row(&desk), Some("new-peer"));
}

#[test]
fn a_copy_that_never_was_in_sync_is_not_called_consistent() {
    let desk = Desk::new(config());
    assert!(!desk.engine.view().status(desk.now).consistent);
}

#[test]
fn a_new_node_tells_of_no_metadata_however_often_its_file_was_changed() {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let mut desk = Desk::new(config());
    let found = Durable { sequence: 50, ..durable(new) };
    desk.engine = Engine::new(config(), found, 1, 1, Moment::ZERO);
    let said = desk.said.len();
    let (serving, remembers) = (true, 40);
    let peer = Hello { serving, role: Role::Primary, remembers, ..hello(generation(5), true) };
    desk.meet(peer);
    let told = desk.said[said..].iter().find_map(|message| match message {
        Message::Hello(hello) => Some(hello.metadata),
        _ => None,
    });
    assert_eq!(told, Some(0));
    assert_eq!(row(&desk), Some("metadata-lost"));
}

/// The age of the metadata that the last hello told.
fn told(desk: &Desk) -> Option<u64> {
    let age = |m: &Message| match m {
        Message::Hello(hello) => Some(hello.metadata),
        _ => None,
    };
    desk.said.iter().rev().find_map(age)
}

#[test]
fn a_metadata_file_is_as_old_as_a_start_found_it_until_the_peer_hears_of_a_change_since() {
    let mut desk = Desk::new(config());
    desk.command(Command::Promote { force: true });
    desk.saves.pop_front();
    desk.tell(Event::SuperblockSaved { ok: true, sequence: 9 });
    desk.tell(Event::Connected);
    assert_eq!(told(&desk), Some(1), "nine would look as young as what the peer remembers");
    desk.lose_link();
    let mut desk = desk.joined();
    assert_eq!(told(&desk), Some(1));
    desk.engine.record.keeping_mut().page_begins(desk.now);
    desk.tell(Event::Kept { kept: Kept::Marks { page: 0 }, ok: true, sequence: 11 });
    desk.lose_link();
    desk.meet(hello(desk.lineage_now(), true));
    assert_eq!(told(&desk), Some(11), "the record does not have the age any more");
}

#[test]
fn neither_changes_nor_restarts_make_metadata_younger_before_the_peer_hears_of_them() {
    let mut desk = restarted(Role::Secondary);
    desk.engine.record.keeping_mut().page_begins(desk.now);
    desk.tell(Event::Kept { kept: Kept::Marks { page: 0 }, ok: true, sequence: 50 });
    let record = desk.save(true);
    assert_eq!(record.reported, Some(1));
    let found = Durable { sequence: 51, ..durable(record) };
    desk.engine = Engine::new(config(), found, 2, 1, Moment::ZERO);
    desk.tell(Event::Connected);
    assert_eq!(told(&desk), Some(1));
}

/// A node whose own copy is not complete: only that of its peer may be.
fn inconsistent(role: Role) -> Desk {
    let mut desk = restarted(role);
    let record = Superblock { consistent: false, ..desk.engine.record.superblock().clone() };
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    desk
}

#[test]
fn a_node_that_needs_the_copy_of_its_peer_does_not_recommend_to_discard_it() {
    for role in [Role::Primary, Role::Secondary] {
        let mut desk = inconsistent(role);
        desk.meet(blank());
        assert_eq!(row(&desk), Some("only-copy-unproven"), "{role}");
        let hint = desk.engine.view().status(desk.now).link.hint.unwrap_or_default();
        assert!(hint.starts_with("restore the state directory of lyon"), "{hint}");
        assert!(hint.contains("`helio promote db --force` on lyon"), "{hint}");
        assert!(!hint.contains("metadata create"), "{hint}");
    }
}

#[test]
fn a_node_without_metadata_reports_that_the_copy_of_its_peer_is_not_complete_either() {
    let mut desk = Desk::new(config());
    desk.meet(Hello { remembers: 40, consistent: false, ..hello(generation(2), true) });
    assert_eq!(row(&desk), Some("only-copy-unproven"));
}

#[test]
fn a_copy_that_was_discarded_is_not_promoted_if_its_peer_has_one_that_was_not() {
    let new = || Superblock::new("db", "paris", [SIZE.0].into());
    let discarded = Hello { discarded: true, metadata: 1, ..blank() };
    // What its discarded line wrote counts for nothing, however much that was.
    let line = generation(1);
    let went_back = Hello { alone: true, clean: false, head: Sequence(9), ..hello(line, true) };
    let kept = |wrote| Superblock { lineage: line, wrote, alone: true, marks_void: false, ..new() };
    for (ours, asker, record) in [
        (false, discarded.clone(), new()),
        (true, discarded, Superblock { discarded: true, ..new() }),
        (false, went_back.clone(), Superblock { head: Sequence(5), ..kept(true) }),
        (true, went_back, kept(false)),
    ] {
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        let (granted, text) = desk.is_asked_to_agree(asker);
        assert_eq!(granted, ours, "{text}");
        assert_eq!(text.contains("an operator discarded the copy of lyon"), !ours, "{text}");
    }
}

#[test]
fn a_node_whose_copy_was_discarded_is_told_so_if_its_peer_refuses_a_promotion() {
    let record = Superblock { discarded: true, ..Superblock::new("db", "paris", [SIZE.0].into()) };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    desk.meet(blank());
    desk.command(Command::Promote { force: false });
    desk.hear(Message::PromoteReply { granted: false, text: String::from("no") });
    let hint = match desk.results.last() {
        Some(Err(refusal)) => refusal.hint.clone(),
        other => panic!("{other:?}"),
    };
    assert!(hint.starts_with("`helio promote db` on lyon") && hint.contains("discarded"), "{hint}");
}

#[test]
fn a_blank_copy_is_not_the_complete_one_that_an_incomplete_one_needs() {
    let mut desk = inconsistent(Role::Secondary);
    desk.meet(Hello { discarded: true, metadata: 1, ..blank() });
    assert!(!desk.engine.view().peer_is_complete());
    let mut desk = Desk::new(config());
    desk.meet(Hello { consistent: false, ..hello(generation(2), true) });
    assert!(!desk.engine.view().peer_is_complete());
}

/// Once a source forgets the later state, it trusts the older file of its target.
#[test]
fn a_target_that_was_rolled_back_is_so_until_it_has_taken_up_the_stream_that_brings_everything() {
    let mut desk = Desk::replicating(Mode::Async);
    let (token, flushing, waits, short) = (1, false, false, false);
    desk.hear(Message::Pong { token, flushing, waits, short, metadata: 40 });
    let lineage = desk.lineage_now();
    let old = |metadata, at, consistent| Hello {
        metadata,
        head: Sequence(at),
        received: Sequence(at),
        durable: Sequence(at),
        ..hello(lineage, consistent)
    };
    for _ in 0..2 {
        desk.lose_link();
        desk.meet(old(9, 3, true));
        assert_eq!(row(&desk), Some("target-rolled-back"), "nothing was heard of it in between");
        desk.store_all();
    }
    let at = desk.last_start().from.0 - 1;
    desk.hear(ack(at, at));
    desk.save_all();
    assert_eq!(desk.engine.record.superblock().remembers, 9);
    desk.lose_link();
    desk.meet(old(10, at, false));
    assert_ne!(row(&desk), Some("target-rolled-back"));
}

#[test]
fn why_all_of_a_copy_counts_as_only_here_is_named() {
    use crate::Unknown;
    let (all, nothing) = (SIZE.0, 0);
    for (marks_void, seeding, unknown, bytes) in [
        (false, 0, None, nothing),
        (true, 0, Some(Unknown::NoRecord), all),
        (false, 7, Some(Unknown::ShippedDisk), all),
        (true, 7, Some(Unknown::ShippedDisk), all),
    ] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let lineage = generation(1);
        let record = Superblock { wrote: true, marks_void, seeding, lineage, ..new };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        let stake = desk.engine.view().stake(true).expect("it wrote");
        let differing: u64 = stake.differing.iter().map(|(_, extent)| extent.length).sum();
        assert_eq!((stake.unknown, differing), (unknown, bytes));
    }
}

#[test]
fn a_record_that_the_peer_knows_to_be_void_shows_nothing_of_what_is_only_here() {
    use crate::Unknown;
    let mine = generation(1);
    let serves = Hello { serving: true, role: Role::Primary, ..hello(generation(2), true) };
    let other = Hello { wrote: true, alone: true, ..serves };
    for (told, unknown) in [
        (other.clone(), None),
        (Hello { doubts: true, ..other.clone() }, Some(Unknown::NoRecord)),
        (Hello { remembers: 40, ..other }, Some(Unknown::NoRecord)),
    ] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let record =
            Superblock { wrote: true, alone: true, marks_void: false, lineage: mine, ..new };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        desk.meet(told);
        assert!(desk.engine.view().is_link_down(), "the two are refused");
        let stake = desk.engine.view().stake(true).expect("it wrote");
        let differing: u64 = stake.differing.iter().map(|(_, extent)| extent.length).sum();
        assert_eq!((stake.unknown, differing > 0), (unknown, unknown.is_some()));
    }
}
