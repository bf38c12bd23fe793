// SPDX-License-Identifier: Apache-2.0
//! Stories of what an operator asks of the members of a volume.

use super::*;
use crate::record::save::Goal;
use helio_format::members::{CopyHealth, MEMBERS_MAX, VolumeMembers};
use helio_shadow::Shadow;
use helio_stack::{Duty, Layer, LayerRecord, LayerSetting, SetOp};
use helio_units::MemberIndex;

pub(super) const FIRST: Leg = Leg::whole(VolumeIndex(0));
const REMOVED: Duty = Duty::Removed { lacks: None, withdrawn: false };
pub(super) const SECOND: Leg = Leg { member: MemberIndex(1), ..FIRST };
const ADD: Command = Command::Set(SetOp::Add { leg: SECOND, by_bitmap: false });

/// A node whose volume has this size and these members.
fn node(size: Bytes, members: &[CopyHealth]) -> Desk {
    found(Config { volumes: [size].into(), ..config() }, members, &[])
}

/// A node whose volume has these members, and on which these extents were hot when it crashed.
pub(super) fn found(config: Config, members: &[CopyHealth], hot: &[u64]) -> Desk {
    let superblock = Superblock::new("db", "paris", [config.volumes[0].0].into());
    found_with(superblock, config, members, hot)
}

/// The same, with that superblock.
fn found_with(superblock: Superblock, config: Config, members: &[CopyHealth], hot: &[u64]) -> Desk {
    let found = recorded(members);
    let layer = Shadow::new(&[config.volumes[0]], REGION, &[found]);
    let layers = Stack::new(Vec::from([layer.boxed()]));
    let durable = Durable { layers, hot: hot.to_vec(), ..durable(superblock) };
    let mut desk = Desk::new(config.clone());
    desk.engine = Engine::new(config, durable, 1, 1, Moment::ZERO);
    desk
}

/// What the ledger says of these members.
fn recorded(members: &[CopyHealth]) -> VolumeMembers {
    let mut recorded = [None; MEMBERS_MAX];
    recorded.iter_mut().zip(members).for_each(|(recorded, member)| *recorded = Some(*member));
    recorded
}

/// A primary whose volume has these members.
fn primary(members: &[CopyHealth]) -> Desk {
    node(SIZE, members).promoted()
}

/// A primary of which the second member is being copied.
fn copies(size: Bytes, peer: bool) -> Desk {
    let mut desk = node(size, &[CopyHealth::Good]).promoted();
    if peer {
        desk.meet(Hello { sizes: [size.0].into(), ..hello(Lineage::default(), true) });
        for _ in 0..9 {
            desk.store_all();
            desk.acked(desk.engine.view().status(desk.now).cursors.head.0);
            desk.save_all();
        }
        assert_eq!(desk.engine.view().state(), State::Replicating);
    }
    desk.command(ADD);
    while desk.ios.iter().all(|(_, op, _)| op.reads().is_none()) {
        desk.store();
    }
    desk.results.clear();
    desk
}

fn duty(desk: &Desk, leg: Leg) -> Option<Duty> {
    let set = desk.engine.view().set_status(leg.volume)?;
    set.members[usize::from(leg.member.0)].map(|member| member.duty)
}

fn refused(desk: &mut Desk, op: SetOp) -> &'static str {
    desk.command(Command::Set(op));
    desk.results.pop().and_then(Result::err).map_or("", |refusal| refusal.code)
}

#[test]
fn a_command_for_a_member_waits_for_changes_that_pass_beside_the_layers() {
    let mut desk = primary(&[CopyHealth::Good]);
    desk.results.clear();
    desk.write(1);
    desk.command(ADD);
    desk.write(2);
    assert_eq!((desk.ios.len(), desk.results.len()), (2, 0), "it could miss the first write");
    desk.store();
    assert_eq!(desk.results.len(), 1);
    let text = desk.results[0].clone().unwrap();
    assert_eq!(text, "this member of volume data: the copy started");
    desk.store();
    assert!([1, 2].iter().all(|id| desk.answers.contains(&(*id, true))), "{:?}", desk.answers);
}

#[test]
fn a_flush_for_a_copy_that_the_only_full_member_fails_makes_the_copy_of_the_node_suspect() {
    let follower = || {
        let mut desk = node(SIZE, &[CopyHealth::Good]);
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
        desk.hear(Message::Start(start(generation(1), 1, true)));
        desk
    };
    for mut desk in [primary(&[CopyHealth::Good]), follower()] {
        desk.store_all();
        desk.save_all();
        desk.command(ADD);
        let flushes: Vec<IoId> = desk.ios.drain(..).map(|(io, ..)| io).collect();
        let [full, target] = flushes[..] else { panic!("both are flushed: {flushes:?}") };
        desk.tell(Event::StoreDone { io: full, outcome: StoreOutcome::Failed(StoreFault::Io) });
        desk.tell(Event::StoreDone { io: target, outcome: StoreOutcome::Done });
        assert_eq!(desk.save(true).suspect, 1, "no client asked for a flush");
    }
}

#[test]
fn what_cannot_be_recorded_of_members_is_a_fault_of_the_metadata_and_of_no_disk() {
    for fua in [false, true] {
        let mut desk = primary(&[CopyHealth::Good; 2]);
        desk.write(1);
        desk.store_all();
        assert_eq!(desk.answers, [(1, true)]);
        desk.unwritable = true;
        let payload = Payload { id: PayloadId(7), length: 4096 };
        desk.ask(2, Operation::Write { extent: Extent::new(0, 4096), payload, fua });
        let (io, ..) = desk.ios.pop_back().expect("the second member gets it");
        desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
        desk.store_all();
        assert_eq!(desk.answers.last(), Some(&(2, false)), "a crash may bring the member back");
        let (view, fault) = (desk.engine.view(), desk.engine.view().fault().unwrap_or_default());
        assert!(fault.what.contains("a member misses"), "{fault:?}");
        assert!(
            fault.hint.contains("state directory") && !fault.hint.contains("disk"),
            "{fault:?}"
        );
        assert_eq!((view.failed(), view.suspect_text()), (None, None), "no disk failed");
    }
}

#[test]
fn a_secondary_that_cannot_record_of_its_members_stops_and_names_its_metadata() {
    let mut desk = node(SIZE, &[CopyHealth::Good; 2]);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    desk.hear(Message::Start(start(generation(1), 1, true)));
    desk.store_all();
    desk.save_all();
    desk.hear(item(1));
    desk.unwritable = true;
    let (io, ..) = desk.ios.pop_back().expect("the second member gets it");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    desk.store_all();
    let (view, fault) = (desk.engine.view(), desk.engine.view().fault().unwrap_or_default());
    assert_eq!(view.failed(), Some((FIRST.volume, StoreFault::Unrecorded)), "it applies no more");
    assert_eq!(view.words().failed, None, "no disk failed");
    assert!(fault.what.starts_with("bitmap failed"), "{fault:?}");
    assert!(fault.hint.contains("state directory") && !fault.hint.contains("disk"), "{fault:?}");
    assert_eq!(view.suspect_text(), None);
}

#[test]
fn a_disk_that_fails_after_the_metadata_is_the_fault_that_counts() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    let follower = desk.engine.standing.follower_mut().expect("it follows");
    follower.stop_applying(FIRST.volume, StoreFault::Unrecorded);
    let (io, ..) = desk.ios.pop_front().expect("the item is written");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    assert_eq!(desk.engine.view().failed(), Some((FIRST.volume, StoreFault::Io)));
}

#[test]
fn a_refused_command_says_which_member_it_is_about() {
    let mut desk = primary(&[CopyHealth::Good, CopyHealth::Withdrawn]);
    desk.results.clear();
    let remove = |leg| SetOp::Remove { leg, force: false };
    assert_eq!(refused(&mut desk, remove(FIRST)), "last-member");
    assert_eq!(refused(&mut desk, remove(SECOND)), "member-unused");
    assert_eq!(refused(&mut desk, SetOp::Add { leg: FIRST, by_bitmap: false }), "member-used");
    assert_eq!(refused(&mut desk, SetOp::Merge(FIRST.volume)), "one-full-member");
    let mut desk = Desk::primary(config());
    desk.results.clear();
    assert_eq!(refused(&mut desk, SetOp::Merge(VolumeIndex(0))), "one-full-member");
}

#[test]
fn a_member_returns_once_its_operations_have_ended_and_by_a_bitmap_if_it_has_one() {
    let mut desk = primary(&[CopyHealth::Good, CopyHealth::Good]);
    desk.results.clear();
    desk.write(1);
    desk.command(Command::Set(SetOp::Remove { leg: SECOND, force: true }));
    assert!(desk.results.pop().is_some_and(|result| result.is_ok()), "another one is full");
    assert_eq!(refused(&mut desk, SetOp::Add { leg: SECOND, by_bitmap: true }), "member-late");
    let third = Leg { member: MemberIndex(2), ..FIRST };
    assert_eq!(refused(&mut desk, SetOp::Add { leg: third, by_bitmap: true }), "no-bitmap");
    assert_eq!(refused(&mut desk, SetOp::Remove { leg: third, force: false }), "no-member");
}

#[test]
fn a_write_with_fua_that_waits_for_its_extent_keeps_no_flush_from_ending() {
    let config = Config { hot_extents: 1, volumes: [Bytes::mib(8)].into(), ..config() };
    let mut desk = found(config, &[CopyHealth::Good; 2], &[]).promoted();
    desk.write(1);
    let payload = Payload { id: PayloadId(7), length: 4096 };
    let extent = Extent::new(4 << 20, 4096);
    desk.ask(2, Operation::Write { extent, payload, fua: true });
    desk.store_all();
    assert_eq!(desk.answers, [(1, true), (2, true)]);
}

#[test]
fn a_stop_and_a_demotion_do_not_wait_for_a_copy() {
    for command in [Command::Stop, Command::Demote] {
        let stops = command == Command::Stop;
        let mut desk = copies(Bytes::mib(16), false);
        desk.command(command);
        for _ in 0..9 {
            if desk.results.is_empty() {
                desk.store_all();
                desk.save_all();
                desk.tell(Event::Tick);
            }
        }
        assert!(matches!(desk.results[..], [Ok(_)]), "{:?}", desk.results);
        let copying = |desk: &Desk| matches!(duty(desk, SECOND), Some(Duty::Copying { .. }));
        assert_eq!((copying(&desk), desk.ios.is_empty()), (true, stops), "a secondary copies on");
        desk.store_all();
        assert_eq!(copying(&desk), stops);
    }
}

#[test]
fn a_primary_whose_role_is_not_handed_over_goes_on_copying() {
    let mut desk = copies(Bytes::mib(16), true);
    desk.command(Command::Switch);
    assert!(desk.engine.standing.is_leaving(), "{:?}", desk.results);
    desk.lose_link();
    desk.tell(Event::Tick);
    desk.store_all();
    assert!(desk.engine.view().is_primary());
    assert_eq!(duty(&desk, SECOND), Some(Duty::Full));
}

#[test]
fn a_member_that_responds_again_is_not_removed_when_another_one_becomes_full() {
    let mut desk = primary(&[CopyHealth::Good, CopyHealth::Removed]);
    desk.write(1);
    let until = desk.now + config().member_timeout + Duration::from_secs(1);
    while desk.now < until {
        desk.now = desk.now + Duration::from_millis(499);
        desk.tell(Event::Tick);
    }
    assert!(desk.engine.view().fault().is_some_and(|fault| fault.what.contains("is silent")));
    desk.store_all();
    desk.tell(Event::Tick);
    desk.command(Command::Set(SetOp::Add { leg: SECOND, by_bitmap: true }));
    desk.store_all();
    desk.tell(Event::Tick);
    assert_eq!([FIRST, SECOND].map(|leg| duty(&desk, leg)), [Some(Duty::Full); 2]);
}

#[test]
fn of_the_members_of_a_node_whose_metadata_went_back_one_is_used_until_a_command_returns_others() {
    let mut desk = node(SIZE, &[CopyHealth::Good; 2]);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    desk.hear(Message::Start(start(generation(1), 1, true)));
    desk.store_all();
    desk.save_all();
    for (remembers, second) in [(1, Duty::Full), (99, REMOVED), (99, REMOVED)] {
        desk.lose_link();
        let peer = hello(generation(1), true);
        desk.meet(Hello { serving: true, role: Role::Primary, remembers, ..peer });
        desk.store_all();
        assert_eq!([FIRST, SECOND].map(|leg| duty(&desk, leg)), [Some(Duty::Full), Some(second)]);
    }
}

#[test]
fn a_primary_whose_metadata_went_back_uses_one_full_member_and_no_bitmap() {
    let members = [CopyHealth::Good, CopyHealth::Good, CopyHealth::Removed];
    let mut desk = primary(&members);
    desk.results.clear();
    desk.meet(Hello { remembers: 99, ..hello(desk.lineage_now(), true) });
    let row = desk.engine.view().last_decision().map(|met| met.label.clone());
    assert_eq!(row.as_deref(), Some("source-rolled-back"));
    assert_eq!(duty(&desk, SECOND), Some(REMOVED), "nothing is written to it");
    let third = Leg { member: MemberIndex(2), ..FIRST };
    assert_eq!(refused(&mut desk, SetOp::Add { leg: third, by_bitmap: true }), "no-bitmap");
    desk.write(1);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true)], "it serves");
}

#[test]
fn the_members_of_a_node_that_begins_anew_are_not_doubted() {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let anew = Superblock { discarded: true, consistent: false, ..new };
    let mut desk = found_with(anew, config(), &[CopyHealth::Good, CopyHealth::Copying], &[]);
    let peer = hello(generation(1), true);
    desk.meet(Hello { serving: true, role: Role::Primary, remembers: 99, ..peer });
    assert!(!matches!(duty(&desk, SECOND), Some(Duty::Removed { .. })));
}

#[test]
fn that_the_record_of_the_members_is_old_is_durable_before_any_later_superblock() {
    use CopyHealth::{Failed, Good, Removed};
    for marks_void in [false, true] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let old = Superblock { lineage: generation(1), marks_void, ..new };
        let mut desk = found_with(old, config(), &[Good, Good, Removed], &[]);
        desk.tell(Event::Connected);
        let peer = hello(generation(1), true);
        let peer = Hello { serving: true, role: Role::Primary, remembers: 99, ..peer };
        let mut effects = Vec::new();
        desk.engine.handle(desk.now, Event::Message(Message::Hello(peer)), &mut effects);
        desk.engine.record.want(Goal::Remember);
        desk.engine.handle(desk.now, Event::Tick, &mut effects);
        let saves = |effects: &[Effect]| {
            effects.iter().any(|effect| matches!(effect, Effect::SaveSuperblock(_)))
        };
        let says = Effect::Record(LayerRecord::Members([recorded(&[Good, Failed, Failed])].into()));
        assert!(effects.contains(&says) && !saves(&effects), "{marks_void}: {effects:?}");
        desk.engine.handle(desk.now, Event::Recorded { ok: true, sequence: 1 }, &mut effects);
        assert!(saves(&effects), "{marks_void}: {effects:?}");
    }
}

#[test]
fn that_the_record_of_the_members_is_old_is_not_durable_where_it_cannot_be_written() {
    use CopyHealth::Good;
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let old = Superblock { lineage: generation(1), ..new };
    for durable in [false, true] {
        let mut desk = found_with(old.clone(), config(), &[Good, Good], &[]);
        desk.tell(Event::Connected);
        let peer = hello(generation(1), true);
        let peer = Hello { serving: true, role: Role::Primary, remembers: 99, ..peer };
        let mut effects = Vec::new();
        desk.engine.handle(desk.now, Event::Message(Message::Hello(peer)), &mut effects);
        assert_eq!(duty(&desk, SECOND), Some(REMOVED), "whoever starts from that file is told so");
        assert!(!desk.engine.view().doubted_members());
        desk.engine.handle(desk.now, Event::Recorded { ok: durable, sequence: 1 }, &mut effects);
        assert_eq!(desk.engine.view().doubted_members(), durable);
        assert_eq!(duty(&desk, SECOND), Some(REMOVED), "this process does not use it");
    }
}

#[test]
fn a_copy_goes_on_while_the_host_permits_it() {
    let mut desk = copies(Bytes::mib(16), false);
    assert_eq!(desk.engine.view().background(desk.now), 1);
    desk.tell(Event::Layers(LayerSetting::Background(0)));
    desk.store_all();
    assert!(matches!(duty(&desk, SECOND), Some(Duty::Copying { left }) if left > Bytes::ZERO));
    assert_eq!((desk.ios.len(), desk.engine.view().background(desk.now)), (0, 1));
    desk.tell(Event::Layers(LayerSetting::Background(1)));
    desk.store_all();
    assert_eq!(duty(&desk, SECOND), Some(Duty::Full));
    assert_eq!(desk.engine.view().background(desk.now), 0);
}

#[test]
fn a_write_that_waits_for_a_hot_extent_that_is_to_be_merged_gets_it_whatever_the_host_permits() {
    let config = Config { hot_extents: 1, volumes: [Bytes::mib(8)].into(), ..config() };
    let mut desk = found(config, &[CopyHealth::Good; 2], &[0]);
    desk.tell(Event::Layers(LayerSetting::Background(0)));
    let mut desk = desk.promoted();
    desk.store_all();
    let unmerged = |desk: &Desk| desk.engine.view().set_status(FIRST.volume).unwrap().unmerged;
    assert_eq!(unmerged(&desk), Bytes::mib(4), "nothing waits for it");
    let payload = Payload { id: PayloadId(7), length: 4096 };
    desk.ask(2, Operation::Write { extent: Extent::new(4 << 20, 4096), payload, fua: false });
    for _ in 0..9 {
        desk.store_all();
        desk.save_all();
        desk.tell(Event::Tick);
    }
    assert_eq!((desk.answers.as_slice(), unmerged(&desk)), (&[(2, true)][..], Bytes::ZERO));
}
