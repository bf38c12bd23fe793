// SPDX-License-Identifier: Apache-2.0
//! Stories of a suspect copy that an operator takes for what it reads as, and of one whose disk is put back.

use super::*;
use crate::local::members::Members;
use crate::record::save::Goal;

const V: VolumeIndex = VolumeIndex(0);
const FAILED: StoreOutcome = StoreOutcome::Failed(StoreFault::Io);

impl Desk {
    /// The peer connects with that hello, and asks for the role of primary. Returns whether this node agrees, and what it says.
    pub(super) fn is_asked_to_agree(&mut self, asker: Hello) -> (bool, String) {
        let (generation, durable) = (asker.lineage.generation, asker.head);
        self.meet(asker);
        self.hear(Message::PromoteRequest { generation, durable });
        let reply = self.said.iter().rev().find_map(|message| match message {
            Message::PromoteReply { granted, text } => Some((*granted, text.clone())),
            _ => None,
        });
        reply.expect("it has a reply")
    }
}

/// A secondary that started with a suspect copy, alone.
pub(super) fn suspect() -> Desk {
    let mut record = Superblock::new("db", "paris", [SIZE.0].into());
    record.lineage = generation(1);
    (record.suspect, record.marks_void, record.consistent) = (1, true, true);
    record.members[0] = 6;
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 2, 1, Moment::ZERO);
    let found = MemberFound { identity: 6, block: 512, shown: String::from("disk six") };
    *desk.engine.local.members_mut() = Members::look(desk.engine.record.superblock(), &[found]);
    desk
}

pub(super) fn accepting() -> Desk {
    let mut desk = suspect();
    desk.command(Command::Accept { volume: V });
    desk
}

fn refused(desk: &Desk) -> Option<&str> {
    desk.results.last().and_then(|result| result.as_ref().err()).map(|refusal| refusal.code)
}

#[test]
fn all_of_it_is_written_again_and_flushed_before_the_record_trusts_it() {
    let mut desk = accepting();
    let mut written = 0;
    while let Some((io, op, _)) = desk.ios.pop_front() {
        assert!(desk.saves.is_empty() && desk.results.is_empty(), "not before the flush: {op:?}");
        let outcome = match op {
            StoreOp::Read { extent, .. } => {
                let payload = Payload { id: PayloadId(9), length: extent.length as u32 };
                StoreOutcome::Read { payload, zero: extent.offset == 0 }
            }
            StoreOp::Write { extent, .. } | StoreOp::Zero { extent, punch: true, .. } => {
                written += extent.length;
                StoreOutcome::Done
            }
            StoreOp::Flush => {
                assert_eq!(written, SIZE.0, "nothing is missing behind the flush");
                StoreOutcome::Done
            }
            other => panic!("{other:?} was asked of the store"),
        };
        desk.tell(Event::StoreDone { io, outcome });
    }
    assert_eq!(desk.save(true).suspect, 0);
    assert!(desk.results.last().is_some_and(Result::is_ok));
    desk.command(Command::Promote { force: true });
    desk.save(true);
    assert!(desk.engine.view().is_primary(), "no restart is needed");
}

#[test]
fn a_store_that_fails_again_leaves_it_suspect_and_a_repetition_may_succeed() {
    for at in 0..2 {
        let mut desk = accepting();
        (0..at).for_each(|_| desk.store());
        let (io, ..) = desk.ios.pop_front().expect("the copy is read or written");
        desk.tell(Event::StoreDone { io, outcome: FAILED });
        desk.store_all();
        assert_eq!(refused(&desk), Some("not-rewritten"), "operation {at}");
        assert!(desk.saves.is_empty() && desk.engine.local.suspect().is(V));
        desk.command(Command::Accept { volume: V });
        desk.store_all();
        assert_eq!(desk.save(true).suspect, 0);
    }
}

#[test]
fn the_last_flush_must_succeed() {
    let mut desk = accepting();
    while desk.ios.front().is_some_and(|(_, op, _)| !matches!(op, StoreOp::Flush)) {
        desk.store();
    }
    let (io, ..) = desk.ios.pop_front().expect("the flush");
    desk.tell(Event::StoreDone { io, outcome: FAILED });
    assert_eq!(refused(&desk), Some("not-rewritten"));
    assert!(desk.saves.is_empty());
}

#[test]
fn nothing_else_uses_the_store_meanwhile() {
    let mut desk = accepting();
    desk.command(Command::Promote { force: true });
    assert_eq!(refused(&desk), Some("busy"));
    let peer = hello(desk.lineage_now(), true);
    desk.meet(Hello { serving: true, role: Role::Primary, ..peer });
    let follows = |m: &Message| matches!(m, Message::Hello(_) | Message::Ack(_));
    assert!(!desk.said.iter().any(follows), "{:?}", desk.said);
}

#[test]
fn a_stop_ends_it_as_if_it_had_not_begun() {
    let mut desk = accepting();
    desk.command(Command::Stop);
    desk.store_all();
    assert!(desk.results.iter().any(|r| r.as_ref().is_err_and(|r| r.code == "not-rewritten")));
    assert_eq!(desk.engine.view().standing(), "stopped");
    assert_eq!(desk.engine.record.superblock().suspect, 1);
}

#[test]
fn a_copy_is_accepted_beside_a_primary_that_is_suspect_itself() {
    let mut desk = suspect();
    let peer = hello(desk.lineage_now(), true);
    let peer = Hello { serving: true, role: Role::Primary, ..peer };
    desk.meet(peer.clone());
    desk.save_all();
    assert_eq!(desk.engine.view().may_accept(V).map_err(|r| r.code), Err("better-copy"));
    let mut desk = suspect();
    desk.meet(Hello { suspect: true, trusted: false, consistent: false, ..peer });
    desk.save_all();
    assert_eq!(desk.engine.view().may_accept(V).map(|_| ()).map_err(|r| r.code), Ok(()));
}

/// A follower whose flush failed and whose disk is replaced by one of that identity; the record behind that.
fn replaced_by(identity: u128) -> Desk {
    let mut desk = follower(generation(1), true);
    desk.engine.record.superblock_mut().members[0] = 6;
    let found = MemberFound { identity: 6, block: 512, shown: String::from("disk six") };
    *desk.engine.local.members_mut() = Members::look(desk.engine.record.superblock(), &[found]);
    desk.save_all();
    desk.hear(item(1));
    desk.store();
    desk.now = desk.now + Duration::from_millis(60);
    desk.tell(Event::Tick);
    let (io, op, _) = desk.ios.pop_front().expect("its own flush");
    assert_eq!(op, StoreOp::Flush);
    desk.tell(Event::StoreDone { io, outcome: FAILED });
    desk.save_all();
    desk.command(Command::Replace { volume: V, identity, block: 512 });
    desk.save_all();
    desk
}

#[test]
fn the_disk_that_failed_stays_suspect_in_its_own_place() {
    let desk = replaced_by(7);
    assert_eq!(desk.engine.record.superblock().suspect, 0, "another disk");
    assert!(!desk.engine.local.suspect().touches(V, Extent::new(0, 4096)));
    let desk = replaced_by(6);
    assert_eq!(desk.engine.record.superblock().suspect, 1, "the same one");
    let last = Extent::new(SIZE.0 - 4096, 4096);
    assert!(desk.engine.local.suspect().touches(V, last), "all of it is written again");
}

#[test]
fn a_flush_that_fails_while_a_record_is_saved_outlives_that_record() {
    let mut desk = accepting();
    desk.store_all();
    let Some(Goal::Accepted { .. }) = desk.engine.record.saving() else { panic!("it is saved") };
    desk.engine.local.doubt_hot(V);
    assert_eq!(desk.save(true).suspect, 0, "it was made before");
    assert!(desk.engine.local.suspect().is(V));
    assert_eq!(desk.save(true).suspect, 1, "the next one tells");
}

#[test]
fn a_flush_that_fails_while_a_promotion_is_saved_leaves_a_primary_that_promises_nothing() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(item(1));
    desk.store();
    desk.lose_link();
    desk.now = desk.now + Duration::from_millis(60);
    desk.tell(Event::Tick);
    desk.store_all();
    desk.command(Command::Promote { force: true });
    desk.store_all();
    let Some(Goal::Promoted) = desk.engine.record.saving() else { panic!("it is saved") };
    // One of the engine's own, that let hot extents go.
    desk.engine.standing.cover_flushed(V, &FAILED, &mut desk.engine.local, &mut desk.engine.turn);
    desk.save(true);
    assert!(desk.engine.view().is_primary());
    desk.save_all();
    assert_eq!(desk.engine.record.superblock().suspect, 1);
    desk.ask(2, Operation::Flush);
    desk.store_all();
    assert_eq!(desk.answers, [(2, false)]);
}

#[test]
fn a_foreign_disk_is_not_accepted_in_the_place_of_the_suspect_one() {
    let mut desk = suspect();
    let found = MemberFound { identity: 7, block: 512, shown: String::from("disk seven") };
    *desk.engine.local.members_mut() = Members::look(desk.engine.record.superblock(), &[found]);
    desk.command(Command::Accept { volume: V });
    assert_eq!(refused(&desk), Some("another-disk"));
    assert!(desk.ios.is_empty());
}

#[test]
fn a_flush_of_the_engines_own_that_fails_meanwhile_is_not_forgiven() {
    let mut desk = accepting();
    desk.engine.standing.cover_flushed(V, &FAILED, &mut desk.engine.local, &mut desk.engine.turn);
    desk.store_all();
    assert_eq!(refused(&desk), Some("not-rewritten"));
    desk.save_all();
    assert_eq!(desk.engine.record.superblock().suspect, 1);
}

#[test]
fn a_stop_ends_although_the_record_of_a_failed_flush_cannot_be_made() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Stop);
    let flush = desk.ios.iter().position(|(_, op, _)| matches!(op, StoreOp::Flush));
    let (io, ..) = desk.ios.remove(flush.expect("the last flush")).expect("it is there");
    desk.tell(Event::StoreDone { io, outcome: FAILED });
    desk.store_all();
    while !desk.saves.is_empty() {
        desk.save(false);
    }
    assert_eq!(desk.engine.view().standing(), "stopped");
    assert!(matches!(desk.results.last(), Some(Ok(text)) if text.starts_with("stopped")));
}

#[test]
fn nobody_is_sent_to_promote_a_suspect_copy() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.lose_link();
    let mut theirs = hello(generation(1), false);
    (theirs.wrote, theirs.clean, theirs.suspect, theirs.head) = (true, true, true, Sequence(9));
    theirs.lineage = theirs.lineage.fork(Generation { number: 2, tag: 2 }, Sequence(5));
    desk.meet(theirs);
    desk.save_all();
    desk.command(Command::Promote { force: false });
    let text = String::from("it is secondary");
    desk.hear(Message::PromoteReply { granted: false, text });
    let Some(Err(refusal)) = desk.results.last() else { panic!("{:?}", desk.results) };
    assert!(refusal.hint.contains("--force"), "{}", refusal.hint);
    assert!(!refusal.hint.contains("nothing is lost"), "{}", refusal.hint);
}

#[test]
fn a_copy_stays_suspect_if_its_acceptance_cannot_be_recorded() {
    let mut desk = accepting();
    desk.store_all();
    assert_eq!(desk.save(false).suspect, 0);
    assert_eq!(
        (refused(&desk), desk.engine.view().standing()),
        (Some("not-rewritten"), "secondary")
    );
    assert!(desk.engine.local.suspect().is(V));
}

#[test]
fn a_copy_that_nothing_proves_is_not_promoted_unforced_beside_one_that_has_everything() {
    let line = generation(1);
    let accepted = Hello { clean: false, trusted: false, ..hello(line, true) };
    let led = Hello { wrote: true, ..accepted.clone() };
    for (asker, ours_is_complete, granted) in [
        (led.clone(), true, false),
        (accepted, true, false),
        // It may have what only it acknowledged.
        (Hello { alone: true, ..led.clone() }, true, true),
        (led.clone(), false, true),
        // It crashed, and its record is void, but nothing was accepted.
        (Hello { role: Role::Primary, ..led }, true, true),
    ] {
        let mut desk = follower(line, ours_is_complete);
        desk.save_all();
        // It has received all that the primary ever sent, also to an earlier process.
        desk.hear(Message::Ping(Ping::default()));
        desk.lose_link();
        let (agrees, text) = desk.is_asked_to_agree(asker);
        assert_eq!(agrees, granted, "{text}");
        assert_eq!(text.contains("nothing proves what the copy of lyon holds"), !granted, "{text}");
    }
}

#[test]
fn of_two_copies_that_nothing_proves_neither_yields_nor_does_one_that_has_more() {
    let line = generation(1);
    for (proven, alone, yields) in [(false, false, false), (true, false, true), (true, true, false)]
    {
        let mut record = Superblock::new("db", "paris", [SIZE.0].into());
        record.lineage = line;
        (record.wrote, record.alone, record.clean, record.marks_void) = (true, alone, false, true);
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 2, 1, Moment::ZERO);
        desk.meet(Hello { clean: proven, trusted: proven, ..hello(line, true) });
        assert_eq!(desk.engine.view().yields_to_peer().is_some(), yields);
        desk.command(Command::Promote { force: false });
        desk.hear(Message::PromoteReply { granted: false, text: String::from("no") });
        let Some(Err(refusal)) = desk.results.last() else { panic!("it was refused") };
        let names = |step| refusal.hint.contains(step);
        let both = names("`helio promote db` on lyon") && names("`helio promote db --force` here");
        assert_eq!(both, yields, "{}", refusal.hint);
    }
}

#[test]
fn an_accepted_copy_that_is_inconsistent_is_not_said_to_be_ready() {
    for consistent in [true, false] {
        let mut desk = suspect();
        desk.engine.record.superblock_mut().consistent = consistent;
        desk.command(Command::Accept { volume: V });
        desk.store_all();
        desk.save(true);
        let Some(Ok(text)) = desk.results.last() else { panic!("{:?}", desk.results) };
        assert_eq!(text.contains("`helio promote db`"), consistent, "{text}");
        desk.command(Command::Promote { force: true });
        desk.save_all();
        assert_eq!(desk.engine.view().is_primary(), consistent);
    }
}
