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

/// A node that starts on disk six, of which its record says that it was this one.
fn started(role: Role, disk: u128) -> Desk {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    found(Superblock { role, lineage: generation(1), members: [disk].into(), ..new })
}

/// A node that starts on disk six with that record.
fn found(record: Superblock) -> Desk {
    let found = MemberFound { identity: 6, block: 512, shown: String::from("disk six") };
    let mut desk = Desk::new(config());
    let durable = Durable { members: [found].into(), ..durable(record) };
    desk.engine = Engine::new(config(), durable, 1, 1, Moment::ZERO);
    desk
}

#[test]
fn on_a_former_primary_whose_disk_was_exchanged_the_refusal_names_the_disk_and_the_promotion() {
    let mut desk = started(Role::Primary, 5);
    for connected in [false, true] {
        if connected {
            desk.meet(hello(generation(1), true));
        }
        assert_eq!(desk.engine.view().standing(), "returning");
        let refusal =
            desk.engine.view().may_replace(DISK).expect_err("it may hold the last writes");
        assert_eq!((refusal.code, refusal.retry), ("another-disk", false));
        assert!(refusal.text.contains("disk six"), "{refusal:?}");
        assert!(refusal.hint.contains("`helio promote db` on lyon"), "{refusal:?}");
    }
}

#[test]
fn on_a_former_primary_whose_disk_failed_the_refusal_names_the_promotion_before_the_replacement() {
    let mut desk = started(Role::Primary, 6);
    let refused = |desk: &Desk| desk.engine.view().may_replace(DISK).expect_err("refused");
    assert_eq!(refused(&desk).code, "disk-in-use", "{:?}", refused(&desk));
    let follower = desk.engine.standing.follower_mut().expect("it does not lead");
    follower.stop_applying(DISK, StoreFault::Io);
    let refusal = refused(&desk);
    assert_eq!(refusal.code, "volume-failed");
    assert!(refusal.hint.contains(
        "restart the daemon, then `helio promote db` on lyon, then `helio member replace"
    ));
}

#[test]
fn on_a_former_primary_that_was_served_from_its_peer_the_refusal_names_the_promotion() {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let desk = found(Superblock {
        role: Role::Primary,
        lineage: generation(1),
        members: [6].into(),
        consistent: false,
        ..new
    });
    let refusal = desk.engine.view().may_replace(DISK).expect_err("its peer has everything");
    assert_eq!((refusal.code, refusal.retry), ("needs-sync", false));
    assert!(refusal.hint.starts_with("`helio promote db` on lyon"), "{refusal:?}");
}

#[test]
fn a_secondary_whose_disk_was_exchanged_is_copied_to_without_a_replacement() {
    let mut desk = started(Role::Secondary, 5);
    let refused = |desk: &Desk| desk.engine.view().may_replace(DISK).expect_err("refused");
    let refusal = refused(&desk);
    assert_eq!(refusal.code, "disk-in-use");
    assert!(refusal.text.contains("disk six"), "{refusal:?}");
    assert!(refusal.hint.starts_with("nothing; lyon copies everything"), "{refusal:?}");
    desk.meet(hello(generation(1), true));
    assert!(refused(&desk).hint.starts_with("`helio promote db` on lyon"), "{:?}", refused(&desk));
    desk.lose_link();
    let newer = generation(1).fork(Generation { number: 2, tag: 2 }, Sequence::ZERO);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(newer, true) });
    desk.hear(Message::Start(Start { whole: true, ..start(newer, 1, false) }));
    desk.save_all();
    let refusal = refused(&desk);
    assert!(refusal.text.contains("did not fail"), "the record names the disk now: {refusal:?}");
}

/// A secondary with that record that flushes its disk before it adopts the stream of its new primary, which says this.
fn before_adoption(wrote: bool, alone: bool) -> (Desk, Hello) {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let mut desk = found(Superblock {
        lineage: generation(1),
        members: [6].into(),
        marks_void: false,
        clean: false,
        wrote,
        alone,
        ..new
    });
    let newer = generation(1).fork(Generation { number: 2, tag: 2 }, Sequence::ZERO);
    let primary = Hello { serving: true, role: Role::Primary, ..hello(newer, true) };
    desk.meet(primary.clone());
    desk.hear(Message::Start(start(newer, 1, true)));
    (desk, primary)
}

fn met_as(desk: &Desk) -> &str {
    desk.engine.view().last_decision().map_or("", |met| &met.label)
}

#[test]
fn the_failed_disk_of_a_former_primary_is_replaced_whose_peer_has_all_that_it_acknowledged() {
    for (wrote, alone) in [(false, false), (true, false), (false, true)] {
        let (mut desk, primary) = before_adoption(wrote, alone);
        fail(&mut desk);
        desk.save_all();
        desk.lose_link();
        assert_eq!(desk.engine.view().may_replace(DISK), Ok(()), "wrote: {wrote}, alone: {alone}");
        assert_eq!(desk.engine.view().lost_with_disk(), None);
        desk.command(Command::Replace { volume: DISK, identity: 7, block: 512 });
        assert_eq!(desk.save(true).wrote, wrote, "the stream that it adopts ends that");
        desk.meet(primary);
        assert_eq!(met_as(&desk), "unproven");
        assert!(!desk.engine.view().is_link_down());
    }
}

#[test]
fn the_failed_disk_of_a_secondary_that_is_refused_for_its_writes_is_replaced_and_they_are_given_up()
{
    let (mut desk, primary) = before_adoption(true, false);
    desk.lose_link();
    // Its primary may have lost what this node had confirmed.
    let unsure = Hello { sure: false, ..primary };
    desk.meet(unsure.clone());
    assert_eq!(met_as(&desk), "both-crashed");
    fail(&mut desk);
    desk.save_all();
    let refusal =
        desk.engine.view().stake(false).expect_err("they cannot be saved from a failed disk");
    assert!(refusal.hint.contains("`helio member replace db/data` on paris"), "{refusal:?}");
    assert_eq!(desk.engine.view().may_replace(DISK), Ok(()));
    let lost = desk.engine.view().lost_with_disk().expect("what it wrote is lost with the disk");
    assert!(lost.contains("all writes of db that exist only on paris"), "{lost}");
    desk.command(Command::Replace { volume: DISK, identity: 7, block: 512 });
    let record = desk.save(true);
    assert_eq!((record.wrote, record.alone, record.members[0]), (false, true, 7));
    assert!(!record.consistent && record.marks_void);
    desk.meet(unsure);
    assert_eq!(met_as(&desk), "unproven");
    assert!(!desk.engine.view().is_link_down(), "its peer copies everything to the new disk");
}

#[test]
fn the_failed_disk_of_a_secondary_is_not_replaced_beside_a_primary_whose_copy_is_suspect() {
    let (mut desk, primary) = before_adoption(true, false);
    desk.lose_link();
    desk.meet(Hello { suspect: true, ..primary });
    fail(&mut desk);
    desk.save_all();
    assert_eq!(desk.engine.view().may_replace(DISK).map_err(|r| r.code), Err("no-whole-copy"));
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
