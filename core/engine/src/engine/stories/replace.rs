// SPDX-License-Identifier: Apache-2.0
//! Stories of a disk that is lost and of another one in its place.

use super::*;
use crate::local::members::Members;
use helio_format::reading::Reading;

const DISK: VolumeIndex = VolumeIndex(0);

pub(super) fn on_disk_six(mut desk: Desk) -> Desk {
    let found = MemberFound { identity: 6, block: 512, shown: String::from("disk six") };
    *desk.engine.local.members_mut() = Members::look(desk.engine.record.superblock(), &[found]);
    desk
}

/// A primary that serves from its peer, which has everything; the record says so.
pub(super) fn lost() -> Desk {
    let mut desk = on_disk_six(Desk::replicating(Mode::Sync));
    desk.set_on_error(OnError::ServeFromPeer);
    desk.write(1);
    fail(&mut desk);
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    desk.acked(head);
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    desk.save_all();
    desk.said.clear();
    desk
}

/// The store fails at the first thing it was asked for.
fn fail(desk: &mut Desk) {
    let (io, ..) = desk.ios.pop_front().expect("the store has something to do");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
}

fn pulls(desk: &Desk) -> usize {
    let pull = |m: &&Message| matches!(m, Message::Reading(Reading::Wanted { zeros: true, .. }));
    desk.said.iter().filter(pull).count()
}

#[test]
fn nothing_reaches_another_disk_before_the_record_names_it() {
    let mut desk = lost();
    assert_eq!(desk.engine.view().may_replace(DISK), Ok(()));
    desk.command(Command::Replace { volume: DISK, identity: 7, block: 512 });
    desk.write(2);
    assert!(desk.ios.is_empty() && pulls(&desk) == 0, "the record is on its way");
    let record = desk.save(true);
    assert_eq!((record.consistent, record.members[0]), (false, 7));
    assert!(matches!(desk.results.last(), Some(Ok(text)) if text.contains("copied from lyon")));
    assert_eq!(pulls(&desk), 2, "both regions are asked of the peer");
    desk.write(3);
    assert_eq!(desk.ios.len(), 1, "its store is used again");
}

#[test]
fn a_disk_that_is_not_lost_is_not_replaced() {
    let desk = Desk::replicating(Mode::Sync);
    assert_eq!(desk.engine.view().may_replace(DISK).map_err(|r| r.code), Err("disk-in-use"));
    let mut desk = lost();
    desk.command(Command::Replace { volume: DISK, identity: 7, block: 512 });
    desk.save_all();
    assert_eq!(desk.engine.view().may_replace(DISK).map_err(|r| r.code), Err("disk-in-use"));
}

#[test]
fn without_the_peer_nobody_could_fill_another_disk() {
    let mut desk = lost();
    desk.lose_link();
    assert_eq!(desk.engine.view().may_replace(DISK).map_err(|r| r.code), Err("peer-lost"));
}

#[test]
fn where_the_record_cannot_be_made_the_disk_stays_lost() {
    let mut desk = lost();
    desk.command(Command::Replace { volume: DISK, identity: 7, block: 512 });
    desk.save(false);
    assert!(matches!(desk.results.last(), Some(Err(refusal)) if refusal.code == "metadata-failed"));
    desk.write(2);
    assert!(desk.ios.is_empty(), "nothing reaches it");
}

#[test]
fn a_secondarys_marks_prove_nothing_of_another_disk() {
    let mut desk = on_disk_six(follower(generation(1), true));
    desk.save_all();
    desk.hear(item(1));
    assert_eq!(desk.engine.view().may_replace(DISK).map_err(|r| r.code), Err("disk-in-use"));
    fail(&mut desk);
    desk.tell(Event::Disconnected { why: String::from("hung up") });
    assert_eq!(desk.engine.view().may_replace(DISK), Ok(()));
    desk.command(Command::Replace { volume: DISK, identity: 7, block: 512 });
    assert!(!desk.engine.view().is_consistent(), "whatever the record says still");
    let record = desk.save(true);
    assert!(!record.consistent && record.marks_void && record.members[0] == 7);
    desk.tell(Event::Connected);
    let hello = desk.said.iter().rev().find_map(|m| match m {
        Message::Hello(hello) => Some(hello),
        _ => None,
    });
    assert!(hello.is_some_and(|hello| !hello.trusted && !hello.consistent));
    assert_eq!(desk.engine.view().status(desk.now).fault, None, "what failed is gone");
}

#[test]
fn a_node_that_starts_on_another_disk_than_its_record_names_reports_it_once() {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let record = Superblock { lineage: generation(1), members: [5].into(), ..new };
    let found = MemberFound { identity: 6, block: 512, shown: String::from("disk six") };
    let durable = Durable { members: [found].into(), ..durable(record) };
    let mut engine = Engine::new(config(), durable, 1, 1, Moment::ZERO);
    let mut warnings = || {
        let mut effects = Vec::new();
        engine.settle(Moment::ZERO, &mut effects);
        let warns = |e: &&Effect| matches!(e, Effect::Note(note) if note.text.contains("disk six"));
        effects.iter().filter(warns).count()
    };
    assert_eq!((warnings(), warnings()), (1, 0));
}

#[test]
fn the_disk_of_a_secondary_that_may_hold_writes_of_its_own_is_not_replaced() {
    for (wrote, alone) in [(false, false), (true, false), (false, true)] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let record = Superblock { lineage: generation(1), wrote, alone, ..new };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        let newer = generation(1).fork(Generation { number: 2, tag: 2 }, Sequence::ZERO);
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(newer, true) });
        desk.hear(Message::Start(start(newer, 1, true)));
        fail(&mut desk);
        desk.save_all();
        let refused = desk.engine.view().may_replace(DISK).err().map(|refusal| refusal.code);
        let expected = (wrote || alone).then_some("diverged");
        assert_eq!(refused, expected, "wrote: {wrote}, alone: {alone}");
    }
}

#[test]
fn the_disk_of_a_secondary_whose_primary_reported_a_fault_is_not_replaced() {
    for fault in ["", "the disk of volume data failed; served from paris"] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let mut desk = Desk::new(config());
        let record = Superblock { lineage: generation(1), ..new };
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        let newer = generation(1).fork(Generation { number: 2, tag: 2 }, Sequence::ZERO);
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(newer, true) });
        desk.hear(Message::Start(start(newer, 1, true)));
        desk.hear(Message::Report(Report { fault: fault.into(), ..Report::default() }));
        fail(&mut desk);
        desk.save_all();
        let refused = desk.engine.view().may_replace(DISK).err().map(|refusal| refusal.code);
        assert_eq!(refused, (!fault.is_empty()).then_some("no-whole-copy"), "fault: {fault}");
    }
}

#[test]
fn a_lost_disk_is_used_again_by_a_command_and_lost_again_if_it_fails_again() {
    let mut desk = lost();
    desk.command(Command::Resync);
    assert!(matches!(desk.results.last(), Some(Ok(text)) if text.contains("copied from lyon")));
    assert_eq!(pulls(&desk), 2, "both regions are asked of the peer");
    desk.write(2);
    fail(&mut desk);
    let fault = desk.engine.view().fault().unwrap_or_default().what;
    assert!(fault.contains("served from lyon"), "{fault}");
    desk.write(3);
    assert!(desk.ios.is_empty(), "nothing reaches it");
}
