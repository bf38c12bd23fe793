// SPDX-License-Identifier: Apache-2.0
//! Single steps of the layer, as its host sees them. Stories of many are in the simulator.

mod blank;

use crate::{Shadow, Transfer};
use CopyHealth::{Copying, Failed, Good, Removed, Unproven, Withdrawn};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use helio_format::members::{CopyHealth, MEMBERS_MAX, VolumeMembers};
use helio_stack::{
    Duty, LayerRecord, LayerSetting, Leg, MemberEvent, Out, Outcome, SetOp, SetRefusal, Stack,
    StoreFault, StoreOp,
};
use helio_units::{Bytes, Extent, MemberIndex, Moment, Payload, PayloadId, VolumeIndex};

const V: VolumeIndex = VolumeIndex(0);
const SIZE: Bytes = Bytes::mib(8);
const WRITE: StoreOp = StoreOp::Write {
    extent: Extent::new(0, 4096),
    payload: Payload { id: PayloadId(1), length: 4096 },
    fua: false,
};
const READ: StoreOp = StoreOp::Read { extent: Extent::new(0, 4096) };

fn found(states: &[CopyHealth]) -> VolumeMembers {
    let mut found = [None; MEMBERS_MAX];
    found.iter_mut().zip(states).for_each(|(found, state)| *found = Some(*state));
    found
}

fn stack(states: &[CopyHealth]) -> Stack {
    let layer = Shadow::new(&[SIZE], Bytes::kib(64), &[found(states)]);
    Stack::new(vec![Box::new(layer)])
}

const fn leg(member: u8) -> Leg {
    Leg { volume: V, member: MemberIndex(member) }
}

/// Everything that the stack asks and tells now.
fn drain(stack: &mut Stack) -> Vec<Out> {
    core::iter::from_fn(|| stack.next(Moment::ZERO)).collect()
}

/// The operations on members, as member and name.
fn legs(out: &[Out]) -> Vec<(u8, u64)> {
    let leg = |out: &Out| match out {
        Out::Member { name, leg, .. } => Some((leg.member.0, *name)),
        _ => None,
    };
    out.iter().filter_map(leg).collect()
}

fn begin(stack: &mut Stack, name: u64, op: StoreOp) -> Vec<(u8, u64)> {
    stack.begin(name, V, op);
    legs(&drain(stack))
}

const FAILED: Outcome = Outcome::Failed(StoreFault::Io);

fn duty(stack: &Stack, member: usize) -> Option<Duty> {
    stack.set_status(V).and_then(|set| set.members[member]).map(|member| member.duty)
}

#[test]
fn a_set_of_one_member_rests_until_another_one_is_added() {
    let mut stack = stack(&[Good]);
    assert!(stack.rests());
    let refused = stack.ask_set(SetOp::Remove { leg: leg(0), force: true }, Moment::ZERO);
    assert_eq!(refused, Err(SetRefusal::Last));
    let add = SetOp::Add { leg: leg(1), by_bitmap: false };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    assert!(!stack.rests());
    let out = drain(&mut stack);
    let says = Out::Record(LayerRecord::Members(vec![found(&[Good, Unproven])]));
    assert!(out.contains(&says), "{out:?}");
    assert_eq!(legs(&out).len(), 2, "what both hold is made durable first");
}

#[test]
fn a_write_that_one_member_fails_ends_when_its_removal_is_durable() {
    let mut stack = stack(&[Good, Good]);
    let names = begin(&mut stack, 7, WRITE);
    assert_eq!(names.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 1]);
    stack.member_ended(names[0].1, FAILED);
    stack.member_ended(names[1].1, Outcome::Done);
    let says = Out::Record(LayerRecord::Members(vec![found(&[Removed, Good])]));
    assert_eq!(drain(&mut stack), [says]);
    assert_eq!(
        duty(&stack, 0),
        Some(Duty::Removed { lacks: Some(Bytes::kib(64)), withdrawn: false })
    );
    stack.recorded(true, Moment::ZERO);
    let ended = Out::Ended { name: 7, outcome: Outcome::Done };
    assert_eq!(drain(&mut stack)[0], ended);
    let next = begin(&mut stack, 8, WRITE);
    assert_eq!((next.len(), next[0].0), (1, 1), "the other one is written no more");
}

#[test]
fn a_member_that_a_command_removed_says_so_until_a_command_returns_it() {
    let withdrawn = |withdrawn| Some(Duty::Removed { lacks: Some(Bytes::ZERO), withdrawn });
    let mut stack = stack(&[Good, Good, Removed]);
    assert_eq!(duty(&stack, 2), withdrawn(false));
    for member in [1, 2] {
        let remove = SetOp::Remove { leg: leg(member), force: false };
        assert_eq!(stack.ask_set(remove, Moment::ZERO), Ok(()));
        assert_eq!(duty(&stack, usize::from(member)), withdrawn(true));
        assert_eq!(stack.ask_set(remove, Moment::ZERO), Err(SetRefusal::Unused), "nothing changes");
    }
    let says = |out: &[Out]| {
        let says = |out: &Out| match out {
            Out::Record(LayerRecord::Members(members)) => Some(members[0]),
            _ => None,
        };
        out.iter().find_map(says)
    };
    assert_eq!(says(&drain(&mut stack)), Some(found(&[Good, Withdrawn, Removed])));
    stack.recorded(true, Moment::ZERO);
    let all = found(&[Good, Withdrawn, Withdrawn]);
    assert_eq!(says(&drain(&mut stack)), Some(all));
    let again = Shadow::new(&[SIZE], Bytes::kib(64), &[all]);
    let mut again = Stack::new(vec![Box::new(again)]);
    assert_eq!(duty(&again, 1), withdrawn(true));
    let add = SetOp::Add { leg: leg(1), by_bitmap: true };
    assert_eq!(again.ask_set(add, Moment::ZERO), Ok(()));
    assert_eq!(duty(&again, 1), Some(Duty::Copying { left: Bytes::ZERO }));
}

#[test]
fn a_member_that_was_added_during_a_write_stays_and_lacks_it() {
    let mut stack = stack(&[Good, Removed]);
    let [(0, name)] = begin(&mut stack, 1, WRITE)[..] else { panic!("one member is used") };
    let add = SetOp::Add { leg: leg(1), by_bitmap: true };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    drain(&mut stack);
    stack.member_ended(name, Outcome::Done);
    drain(&mut stack);
    assert_eq!(duty(&stack, 1), Some(Duty::Copying { left: Bytes::kib(64) }));
}

#[test]
fn where_the_removal_cannot_be_recorded_the_write_fails() {
    let mut stack = stack(&[Good, Good]);
    let names = begin(&mut stack, 7, WRITE);
    stack.member_ended(names[0].1, FAILED);
    stack.member_ended(names[1].1, Outcome::Done);
    drain(&mut stack);
    stack.recorded(false, Moment::ZERO);
    let outcome = Outcome::Failed(StoreFault::Unrecorded);
    assert_eq!(drain(&mut stack), [Out::Ended { name: 7, outcome }]);
}

#[test]
fn a_write_that_all_members_fail_removes_none_and_readers_wait_for_the_merge() {
    let mut stack = stack(&[Good, Good]);
    let names = begin(&mut stack, 7, WRITE);
    names.iter().for_each(|(_, name)| stack.member_ended(*name, FAILED));
    let out = drain(&mut stack);
    let own = Out::Own { layer: 0, volume: V, extent: Extent::new(0, 4 << 20) };
    assert_eq!(out[..2], [own, Out::Ended { name: 7, outcome: FAILED }]);
    assert_eq!(legs(&out).len(), 2, "the region is read from both");
    assert_eq!(begin(&mut stack, 8, READ), []);
    for ((_, name), id) in legs(&out).into_iter().zip(2..) {
        let payload = Payload { id: PayloadId(id), length: 65536 };
        stack.member_ended(name, Outcome::Read(payload));
    }
    let out = drain(&mut stack);
    let [Out::Compare { name, .. }] = out[..] else { panic!("{out:?}") };
    stack.compared(name, true, Moment::ZERO);
    let out = drain(&mut stack);
    let read = legs(&out);
    assert_eq!((read.len(), read[0].0), (1, 0), "{out:?}");
}

#[test]
fn a_full_member_leaves_with_its_bitmap_and_if_all_are_full_the_write_fails_for_want_of_space() {
    const FULL: Outcome = Outcome::Failed(StoreFault::NoSpace);
    let write = |states: &[CopyHealth], outcomes: [Outcome; 2]| {
        let mut stack = stack(states);
        let names = begin(&mut stack, 7, WRITE);
        let ends = names.iter().zip(outcomes);
        ends.for_each(|((_, name), outcome)| stack.member_ended(*name, outcome));
        let out = drain(&mut stack);
        let ended = out.iter().find_map(|out| match out {
            Out::Ended { outcome, .. } => Some(*outcome),
            _ => None,
        });
        (duty(&stack, 1), ended)
    };
    let both = [Good, Good];
    let left = Some(Duty::Removed { lacks: Some(Bytes::kib(64)), withdrawn: false });
    assert_eq!(write(&both, [Outcome::Done, FULL]), (left, None), "its removal is recorded first");
    for outcomes in [[FULL, FULL], [FULL, FAILED], [FAILED, FULL]] {
        assert_eq!(write(&both, outcomes), (Some(Duty::Full), Some(FULL)), "{outcomes:?}");
    }
    // The disk of the only full member failed; that the other one is full as well hides nothing.
    for outcomes in [[FAILED, FULL], [FAILED, FAILED]] {
        assert_eq!(write(&[Good, Copying], outcomes).1, Some(FAILED), "{outcomes:?}");
    }
}

#[test]
fn reads_go_to_the_cheapest_member_and_where_something_changes_to_the_first() {
    let mut stack = stack(&[Good, Good]);
    stack.set(LayerSetting::ReadCost { leg: leg(0), cost: 3 }, Moment::ZERO);
    let read = |stack: &mut Stack, name| begin(stack, name, READ)[0].0;
    assert_eq!([read(&mut stack, 1), read(&mut stack, 2), read(&mut stack, 3)], [1, 1, 0]);
    let change = begin(&mut stack, 4, WRITE);
    assert_eq!(read(&mut stack, 5), 0);
    assert_eq!(change.len(), 2);
}

#[test]
fn a_silent_member_is_given_up_once_its_removal_is_durable_and_returns_when_all_has_ended() {
    let mut stack = stack(&[Good, Good]);
    let names = begin(&mut stack, 7, WRITE);
    stack.member_ended(names[0].1, Outcome::Done);
    stack.member_event(leg(1), MemberEvent::Silent, Moment::ZERO);
    let out = drain(&mut stack);
    assert_eq!(out, [Out::Record(LayerRecord::Members(vec![found(&[Good, Removed])]))]);
    stack.recorded(true, Moment::ZERO);
    assert_eq!(drain(&mut stack)[0], Out::GiveUp(leg(1)));
    stack.member_ended(names[1].1, Outcome::Failed(StoreFault::Silent));
    assert_eq!(drain(&mut stack), [Out::Ended { name: 7, outcome: Outcome::Done }]);
    let add = SetOp::Add { leg: leg(1), by_bitmap: true };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Err(SetRefusal::Late));
    stack.member_event(leg(1), MemberEvent::Ended, Moment::ZERO);
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    assert_eq!(duty(&stack, 1), Some(Duty::Copying { left: Bytes::kib(64) }));
}

#[test]
fn a_crash_leaves_nothing_to_merge_where_one_member_is_full() {
    let hot = Extent::new(0, 4 << 20);
    assert_eq!(stack(&[Good, Removed]).found_hot(V, hot), 0);
    let mut several = stack(&[Good, Good, Copying]);
    assert_eq!(several.found_hot(V, hot), 1);
    assert_eq!(several.set_status(V).map(|set| set.unmerged), Some(Bytes::mib(4)));
    assert_eq!(duty(&several, 2), Some(Duty::Copying { left: Bytes::mib(4) }));
    assert_eq!(several.deadline(), Moment::ZERO);
}

#[test]
fn a_change_with_fua_counts_as_a_flush_once_a_member_was_given_it() {
    let StoreOp::Write { extent, payload, .. } = WRITE else { panic!("{WRITE:?}") };
    let fua = StoreOp::Write { extent, payload, fua: true };
    for issued in [false, true] {
        let mut stack = stack(&[Good, Good]);
        let change = begin(&mut stack, 1, fua);
        if issued {
            change.iter().for_each(|(_, name)| stack.member_issued(*name));
        }
        let flush = begin(&mut stack, 2, StoreOp::Flush);
        flush.iter().for_each(|(_, name)| stack.member_ended(*name, Outcome::Done));
        let ended = drain(&mut stack).contains(&Out::Ended { name: 2, outcome: Outcome::Done });
        assert_eq!(ended, !issued);
    }
}

/// A host whose members fail to read this region, if there is one.
struct Host {
    stack: Stack,
    now: Moment,
    bad: Option<Extent>,
    payloads: u64,
}

impl Host {
    /// Carries out what the stack asks for, until nothing is left but to wait.
    fn settle(&mut self) {
        while let Some(out) = self.stack.next(self.now) {
            match out {
                Out::Member { name, op, .. } => {
                    let reads = op.reads();
                    let outcome = match reads {
                        Some(extent) if self.bad.is_some_and(|bad| bad.overlaps(extent)) => FAILED,
                        Some(extent) => {
                            self.payloads += 1;
                            let length = extent.length as u32;
                            Outcome::Read(Payload { id: PayloadId(self.payloads), length })
                        }
                        None => Outcome::Done,
                    };
                    self.stack.member_ended(name, outcome);
                }
                Out::Record(_) => self.stack.recorded(true, self.now),
                Out::Compare { name, .. } => self.stack.compared(name, true, self.now),
                _ => {}
            }
        }
        assert!(self.stack.deadline() > self.now, "everything that can be begun now has begun");
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            self.stack.tick(self.now);
            self.settle();
        }
    }
}

#[test]
fn a_region_that_no_full_member_can_read_delays_no_copy_of_the_others() {
    const REGION: u64 = 64 << 10;
    let bad = Extent::new(5 * REGION, REGION);
    let mut stack = stack(&[Good, Good]);
    assert_eq!(stack.found_hot(V, Extent::new(0, 4 << 20)), 1);
    let add = SetOp::Add { leg: leg(2), by_bitmap: false };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    let mut host = Host { stack, now: Moment::ZERO, bad: Some(bad), payloads: 100 };
    host.settle();
    host.pass(9);
    let region = Some(Bytes(REGION));
    assert_eq!(host.stack.set_status(V).map(|set| set.unmerged), region);
    assert_eq!(duty(&host.stack, 2), Some(Duty::Copying { left: Bytes(REGION) }));
    // A client writes it again, and the disks map other blocks in.
    let payload = Payload { id: PayloadId(1), length: REGION as u32 };
    host.bad = None;
    host.stack.begin(7, V, StoreOp::Write { extent: bad, payload, fua: false });
    host.settle();
    host.pass(2);
    assert_eq!(host.stack.set_status(V).map(|set| set.unmerged), Some(Bytes::ZERO));
    assert_eq!(duty(&host.stack, 2), Some(Duty::Full));
}

#[test]
fn sets_of_a_group_share_a_window_and_none_takes_all_of_it() {
    let sizes = [SIZE; 3];
    let layer = Shadow::new(&sizes, Bytes::kib(64), &[found(&[Good, Good]); 3]);
    let mut stack = Stack::new(vec![Box::new(layer)]);
    for volume in (0..3).map(VolumeIndex) {
        assert_eq!(stack.found_hot(volume, Extent::new(0, 4 << 20)), 1);
    }
    stack.tick(Moment::ZERO);
    let out = drain(&mut stack);
    let reads = |volume: u16| {
        let of = |out: &&Out| matches!(out, Out::Member { leg, .. } if leg.volume.0 == volume);
        out.iter().filter(of).count()
    };
    // Each piece reads both members.
    assert_eq!([reads(0), reads(1), reads(2)], [4, 6, 6]);
}

#[test]
fn of_a_suspect_copy_everything_is_merged_and_copied_when_a_process_begins() {
    use CopyHealth::Suspect;
    let set = stack(&[Suspect, Suspect, Removed]).set_status(V).expect("it is a set");
    assert_eq!(set.unmerged, SIZE);
    let removed = set.members[2].map(|member| member.duty);
    assert_eq!(removed, Some(Duty::Removed { lacks: Some(SIZE), withdrawn: false }));
    let mut layer = Shadow::new(&[SIZE], Bytes::kib(64), &[found(&[Suspect, Copying])]);
    layer.load(leg(1), 0, &helio_bitmap::Bitmap::new(&[SIZE], Bytes::kib(64)).page_bits(0));
    let stack = Stack::new(vec![Box::new(layer)]);
    assert_eq!(duty(&stack, 1), Some(Duty::Copying { left: SIZE }));
}

#[test]
fn a_member_that_failed_a_flush_is_not_read_although_the_flush_has_not_ended_on_the_others() {
    let mut stack = stack(&[Good, Good]);
    let before = begin(&mut stack, 1, READ)[0];
    let flush = begin(&mut stack, 2, StoreOp::Flush);
    let failed = flush[usize::from(before.0)];
    stack.member_ended(failed.1, Outcome::Unsure(StoreFault::Io));
    assert_eq!(drain(&mut stack), []);
    assert_eq!(begin(&mut stack, 3, READ)[0].0, 1 - before.0);
    let payload = Payload { id: PayloadId(9), length: 4096 };
    stack.member_ended(before.1, Outcome::Read(payload));
    let out = drain(&mut stack);
    assert_eq!(out[0], Out::Release(payload.id), "what it holds may be gone: {out:?}");
    assert_eq!(legs(&out)[0].0, 1 - before.0);
}

#[test]
fn a_flush_of_the_set_that_its_only_full_member_fails_is_reported_at_once() {
    let (done, fails) = (Outcome::Done, Outcome::Unsure(StoreFault::Io));
    for failed in [[fails, done], [fails; 2], [done, fails], [done; 2]] {
        let mut stack = stack(&[Good]);
        let add = SetOp::Add { leg: leg(1), by_bitmap: false };
        assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
        let flush = legs(&drain(&mut stack));
        assert_eq!(flush.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 1]);
        for ((_, name), outcome) in flush.iter().zip(failed) {
            stack.member_ended(*name, outcome);
        }
        let report = Out::FlushFailed(V, StoreFault::Io);
        let reports = drain(&mut stack).iter().filter(|out| **out == report).count();
        assert_eq!(reports, usize::from(failed[0] != Outcome::Done), "{failed:?}");
    }
}

#[test]
fn a_removed_member_that_is_not_as_it_was_gets_everything_and_one_that_is_used_is_not_touched() {
    let mut stack = stack(&[Good, Removed]);
    stack.set(LayerSetting::Distrust(leg(0)), Moment::ZERO);
    assert_eq!(drain(&mut stack), []);
    stack.set(LayerSetting::Distrust(leg(1)), Moment::ZERO);
    let says = Out::Record(LayerRecord::Members(vec![found(&[Good, Failed])]));
    assert_eq!(drain(&mut stack), [says]);
    let add = |by_bitmap| SetOp::Add { leg: leg(1), by_bitmap };
    assert_eq!(stack.ask_set(add(true), Moment::ZERO), Err(SetRefusal::NoBitmap));
    assert_eq!(stack.ask_set(add(false), Moment::ZERO), Ok(()));
    assert_eq!(duty(&stack, 1), Some(Duty::Copying { left: SIZE }));
}

/// Where a copy to another member reads the first one, in the order in which that begins.
fn copied(stack: &mut Stack) -> Vec<Extent> {
    let add = SetOp::Add { leg: leg(1), by_bitmap: true };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    let mut places = Vec::new();
    while let Some(out) = stack.next(Moment::ZERO) {
        match out {
            Out::Member { name, op: StoreOp::Read { extent }, .. } => {
                places.push(extent);
                let payload = Payload { id: PayloadId(name), length: extent.length as u32 };
                stack.member_ended(name, Outcome::Read(payload));
            }
            Out::Member { name, .. } => stack.member_ended(name, Outcome::Done),
            Out::Record(_) => stack.recorded(true, Moment::ZERO),
            _ => {}
        }
    }
    places
}

#[test]
fn a_copy_transfers_runs_of_neighbouring_regions_up_to_its_size() {
    const REGION: u64 = 64 << 10;
    let lacking = |transfer| {
        let mut layer = Shadow::new(&[SIZE], Bytes(REGION), &[found(&[Good, Removed])]);
        layer.set_transfer(transfer);
        let mut stack = Stack::new(vec![Box::new(layer)]);
        for (name, extent) in
            (1..).zip([Extent::new(0, 5 * REGION), Extent::new(SIZE.0 - 3 * REGION, 3 * REGION)])
        {
            let payload = Payload { id: PayloadId(name), length: extent.length as u32 };
            let write = StoreOp::Write { extent, payload, fua: false };
            let [(0, leg)] = begin(&mut stack, name, write)[..] else { panic!("one is used") };
            stack.member_ended(leg, Outcome::Done);
        }
        drain(&mut stack);
        stack
    };
    let mut stack = lacking(Transfer::Fixed(Bytes(2 * REGION)));
    let runs = [(0, 2), (2, 2), (4, 1), (125, 2), (127, 1)];
    let extents = |runs: &[(u64, u64)]| -> Vec<Extent> {
        runs.iter().map(|(at, of)| Extent::new(at * REGION, of * REGION)).collect()
    };
    assert_eq!(copied(&mut stack), extents(&runs));
    assert_eq!(duty(&stack, 1), Some(Duty::Copying { left: Bytes::ZERO }));
    assert_eq!(copied(&mut lacking(Transfer::Auto)), extents(&[(0, 5), (125, 3)]));
    let mut busy = lacking(Transfer::Auto);
    assert_eq!(begin(&mut busy, 9, StoreOp::Flush).len(), 1, "a client waits");
    let alone = [(0, 1), (1, 1), (2, 1), (3, 1)];
    assert_eq!(copied(&mut busy)[..4], extents(&alone));
}

#[test]
fn a_region_that_cannot_be_read_is_all_that_a_copy_leaves_of_its_run() {
    const REGION: u64 = 64 << 10;
    let bad = Extent::new(5 * REGION, REGION);
    let mut host = Host { stack: stack(&[Good]), now: Moment::ZERO, bad: Some(bad), payloads: 100 };
    let add = SetOp::Add { leg: leg(1), by_bitmap: false };
    assert_eq!(host.stack.ask_set(add, Moment::ZERO), Ok(()));
    host.settle();
    assert_eq!(
        duty(&host.stack, 1),
        Some(Duty::Copying { left: Bytes::mib(5) }),
        "four begin at once"
    );
    host.pass(3);
    assert_eq!(duty(&host.stack, 1), Some(Duty::Copying { left: Bytes(REGION) }));
    host.bad = None;
    host.pass(2);
    assert_eq!(duty(&host.stack, 1), Some(Duty::Full));
}

#[test]
fn where_most_differs_the_target_of_a_copy_is_written_without_a_read_until_a_probe_finds_it_equal()
{
    const PIECES: usize = 400;
    let sizes = [Bytes::kib(64) * PIECES as u64];
    let mut layer = Shadow::new(&sizes, Bytes::kib(64), &[found(&[Good])]);
    layer.set_transfer(Transfer::Fixed(Bytes::kib(64)));
    let mut stack = Stack::new(vec![Box::new(layer)]);
    let add = SetOp::Add { leg: leg(1), by_bitmap: false };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    let (mut compared, mut written) = (0, 0);
    while let Some(out) = stack.next(Moment::ZERO) {
        match out {
            Out::Member { name, op: StoreOp::Read { extent }, .. } => {
                let payload = Payload { id: PayloadId(name), length: extent.length as u32 };
                stack.member_ended(name, Outcome::Read(payload));
            }
            Out::Member { name, op, .. } => {
                written += usize::from(op.changes().is_some());
                stack.member_ended(name, Outcome::Done);
            }
            Out::Record(_) => stack.recorded(true, Moment::ZERO),
            Out::Compare { name, .. } => {
                compared += 1;
                stack.compared(name, written > 200, Moment::ZERO);
            }
            _ => {}
        }
    }
    assert_eq!(duty(&stack, 1), Some(Duty::Full));
    assert!(compared < 150 && written < 350, "{compared} compared, {written} written");
}

#[test]
fn what_no_read_waits_for_is_merged_and_copied_only_where_the_host_permits_it() {
    let mut stack = stack(&[Good, Good, Removed]);
    let permit = |stack: &mut Stack, volumes| {
        stack.set(LayerSetting::Background(volumes), Moment::ZERO);
        drain(stack)
    };
    assert_eq!((permit(&mut stack, 0), stack.background(Moment::ZERO)), (vec![], 0));
    assert_eq!(stack.ask_set(SetOp::Merge(V), Moment::ZERO), Ok(()));
    assert_eq!((legs(&drain(&mut stack)), stack.background(Moment::ZERO)), (vec![], 1));
    let merged = begin(&mut stack, 7, READ);
    assert_eq!(merged.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(begin(&mut stack, 8, READ), [], "it is being merged");
    assert_eq!(legs(&permit(&mut stack, 2)), [], "that is another volume");
    assert_eq!(legs(&permit(&mut stack, 1)).len(), 2 * 3, "as many pieces as a set begins");
}

#[test]
fn of_an_old_record_one_full_member_counts_and_no_bitmap() {
    let mut stack = stack(&[Good, Good, Copying, Removed, Withdrawn, Unproven]);
    drain(&mut stack);
    assert!(stack.is_recorded());
    stack.doubt_members(Moment::ZERO);
    let says = found(&[Good, Failed, Failed, Failed, Failed, Failed]);
    assert!(drain(&mut stack).contains(&Out::Record(LayerRecord::Members(vec![says]))));
    assert!(!stack.is_recorded());
    stack.recorded(true, Moment::ZERO);
    assert!(stack.is_recorded());
    let removed = Some(Duty::Removed { lacks: None, withdrawn: false });
    assert_eq!([1, 2, 3, 4, 5].map(|n| duty(&stack, n)), [removed; 5]);
    let add = SetOp::Add { leg: leg(3), by_bitmap: true };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Err(SetRefusal::NoBitmap));
    assert_eq!(legs(&drain(&mut stack)).len(), 0);
    assert_eq!(begin(&mut stack, 7, READ)[0].0, 0);
}

#[test]
fn nothing_is_compared_of_an_unproven_member_of_an_old_record() {
    let mut stack = stack(&[Good, Unproven]);
    stack.doubt_members(Moment::ZERO);
    let add = SetOp::Add { leg: leg(1), by_bitmap: false };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    let out = drain(&mut stack);
    let says = Out::Record(LayerRecord::Members(vec![found(&[Good, Failed])]));
    assert!(out.contains(&says), "{out:?}");
    let legs = legs(&out);
    assert!(!legs.is_empty() && legs.iter().all(|(member, _)| *member == 0), "{out:?}");
}

#[test]
fn a_write_ends_when_it_is_durable_that_a_bitmap_is_not_believed() {
    let mut stack = stack(&[Good, Removed]);
    drain(&mut stack);
    stack.doubt_members(Moment::ZERO);
    drain(&mut stack);
    let write = begin(&mut stack, 7, WRITE);
    stack.member_ended(write[0].1, Outcome::Done);
    let ended = Out::Ended { name: 7, outcome: Outcome::Done };
    assert!(!drain(&mut stack).contains(&ended), "no bitmap has it");
    stack.recorded(true, Moment::ZERO);
    assert!(drain(&mut stack).contains(&ended));
}

#[test]
fn a_full_member_that_failed_what_is_under_way_is_not_the_one_that_counts() {
    let mut stack = stack(&[Good, Good]);
    let flush = begin(&mut stack, 7, StoreOp::Flush);
    stack.member_ended(flush[0].1, Outcome::Unsure(StoreFault::Io));
    drain(&mut stack);
    stack.doubt_members(Moment::ZERO);
    assert_eq!(duty(&stack, 1), Some(Duty::Full));
    stack.member_ended(flush[1].1, Outcome::Done);
    drain(&mut stack);
    assert_eq!(duty(&stack, 0), Some(Duty::Removed { lacks: None, withdrawn: false }));
}

#[test]
fn a_member_of_which_a_copy_was_being_recorded_as_full_is_removed() {
    let mut host =
        Host { stack: stack(&[Good, Copying]), now: Moment::ZERO, bad: None, payloads: 0 };
    let full = LayerRecord::Members(vec![found(&[Good, Good])]);
    let mut out = host.stack.next(host.now);
    host.stack.tick(host.now);
    while let Some(next) = host.stack.next(host.now) {
        match next {
            Out::Member { name, .. } => host.stack.member_ended(name, Outcome::Done),
            Out::Record(record) if record == full => out = Some(Out::Record(record)),
            Out::Record(_) => host.stack.recorded(true, host.now),
            _ => {}
        }
    }
    assert_eq!(out, Some(Out::Record(full)));
    host.stack.doubt_members(host.now);
    host.stack.recorded(true, host.now);
    let says = Out::Record(LayerRecord::Members(vec![found(&[Good, Failed])]));
    assert!(drain(&mut host.stack).contains(&says));
    assert_eq!(duty(&host.stack, 1), Some(Duty::Removed { lacks: None, withdrawn: false }));
}
