// SPDX-License-Identifier: Apache-2.0
//! Stories of what an operator asks of the members of a volume.

use super::*;
use helio_format::members::{CopyHealth, MEMBERS_MAX};
use helio_shadow::Shadow;
use helio_stack::{Layer, SetOp};
use helio_units::MemberIndex;

const FIRST: Leg = Leg::whole(VolumeIndex(0));
const SECOND: Leg = Leg { member: MemberIndex(1), ..FIRST };
const ADD: Command = Command::Set(SetOp::Add { leg: SECOND, by_bitmap: false });

/// A primary whose volume has these members.
fn primary(members: &[CopyHealth]) -> Desk {
    let mut found = [None; MEMBERS_MAX];
    found.iter_mut().zip(members).for_each(|(found, member)| *found = Some(*member));
    let layers = Stack::new(Vec::from([Shadow::new(&[SIZE], REGION, &[found]).boxed()]));
    let superblock = Superblock::new("db", "paris", [SIZE.0].into());
    let durable = Durable { layers, ..durable(superblock) };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable, 1, 1, Moment::ZERO);
    desk.command(Command::Promote { force: true });
    desk.save(true);
    desk
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
fn a_refused_command_says_which_member_it_is_about() {
    let mut desk = primary(&[CopyHealth::Good, CopyHealth::Removed]);
    desk.results.clear();
    let remove = |leg| SetOp::Remove { leg, force: false };
    assert_eq!(refused(&mut desk, remove(FIRST)), "last-member");
    assert_eq!(refused(&mut desk, remove(SECOND)), "member-unused");
    assert_eq!(refused(&mut desk, SetOp::Add { leg: FIRST, by_bitmap: false }), "member-used");
    let mut desk = Desk::primary(config());
    desk.results.clear();
    assert_eq!(refused(&mut desk, SetOp::Merge(VolumeIndex(0))), "one-member");
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
    let sizes = [Bytes::mib(8)];
    let mut found = [None; MEMBERS_MAX];
    found[..2].fill(Some(CopyHealth::Good));
    let layers = Stack::new(Vec::from([Shadow::new(&sizes, REGION, &[found]).boxed()]));
    let superblock = Superblock::new("db", "paris", sizes.iter().map(|size| size.0).collect());
    let mut desk = Desk::new(config());
    let config =
        Config { hot_extents: 1, volumes: sizes.to_vec(), ..desk.engine.turn.config().clone() };
    desk.engine =
        Engine::new(config, Durable { layers, ..durable(superblock) }, 1, 1, Moment::ZERO);
    desk.command(Command::Promote { force: true });
    desk.save(true);
    desk.write(1);
    let payload = Payload { id: PayloadId(7), length: 4096 };
    let extent = Extent::new(4 << 20, 4096);
    desk.ask(2, Operation::Write { extent, payload, fua: true });
    desk.store_all();
    assert_eq!(desk.answers, [(1, true), (2, true)]);
}
