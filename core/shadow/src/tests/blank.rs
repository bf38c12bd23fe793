// SPDX-License-Identifier: Apache-2.0
//! Volumes that were created with several members at once, and what commands ask to merge.

use super::*;
use crate::blank_pages;
use CopyHealth::Blank;
use helio_stack::{MergeRecord, SetStatus};

const REGION: Bytes = Bytes::kib(64);

/// The members of a volume whose bitmaps have every region.
fn created(states: &[CopyHealth]) -> Stack {
    let mut layer = Shadow::new(&[SIZE], REGION, &[found(states)]);
    for (member, _) in (0..).zip(states) {
        for (page, bits) in blank_pages(SIZE, REGION) {
            layer.load(leg(member), page, &bits);
        }
    }
    Stack::new(vec![Box::new(layer)])
}

const fn write(offset: u64, length: u64) -> StoreOp {
    let payload = Payload { id: PayloadId(1), length: length as u32 };
    StoreOp::Write { extent: Extent::new(offset, length), payload, fua: false }
}

fn status(stack: &Stack) -> SetStatus {
    stack.set_status(V).expect("it keeps several members")
}

fn left(stack: &Stack) -> [Bytes; 2] {
    let set = status(stack);
    [set.unmerged, set.blank]
}

#[test]
fn blank_members_are_equal_where_a_whole_region_was_written_and_merged_where_part_of_one_was() {
    let mut stack = created(&[Blank, Blank]);
    assert_eq!((legs(&drain(&mut stack)), left(&stack)), (vec![], [Bytes::ZERO, SIZE]));
    // One whole region, and parts of its neighbours.
    for (_, name) in begin(&mut stack, 1, write(REGION.0 - 4096, REGION.0 + 8192)) {
        stack.member_ended(name, Outcome::Done);
    }
    let reads = legs(&drain(&mut stack));
    assert_eq!(reads.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 1, 0, 1]);
    assert_eq!(left(&stack), [REGION * 2, Bytes(SIZE.0 - 3 * REGION.0)]);
}

#[test]
fn a_blank_region_is_merged_for_the_first_read_and_no_other_one_is() {
    let mut stack = created(&[Blank, Blank]);
    let reads = begin(&mut stack, 1, READ);
    assert_eq!(reads.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(left(&stack), [REGION, Bytes(SIZE.0 - REGION.0)]);
    assert_eq!(stack.background(Moment::ZERO), 1, "a read waits for it");
}

#[test]
fn a_hot_extent_that_is_to_cool_has_none_of_its_blank_regions_merged() {
    let mut stack = created(&[Blank, Blank]);
    for (_, name) in begin(&mut stack, 1, write(0, REGION.0)) {
        stack.member_ended(name, Outcome::Failed(StoreFault::Io));
    }
    let mut reads = legs(&drain(&mut stack));
    stack.set(LayerSetting::LetCool, Moment::ZERO);
    reads.extend(legs(&drain(&mut stack)));
    assert_eq!(reads.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(left(&stack), [REGION, Bytes(SIZE.0 - REGION.0)]);
}

#[test]
fn no_region_is_blank_where_a_member_was_missing_before_a_restart() {
    for states in [&[Blank, Removed][..], &[Blank, Blank, Copying], &[Blank, Good]] {
        let stack = created(states);
        assert_eq!(left(&stack), [SIZE, Bytes::ZERO], "{states:?}");
    }
}

#[test]
fn a_member_that_returns_in_the_same_process_is_full_without_blank_regions_and_a_new_one_is_not() {
    let mut host =
        Host { stack: created(&[Blank, Blank]), now: Moment::ZERO, bad: None, payloads: 100 };
    let remove = SetOp::Remove { leg: leg(0), force: false };
    assert_eq!(host.stack.ask_set(remove, host.now), Ok(()));
    host.settle();
    host.stack.begin(1, V, write(0, REGION.0));
    host.settle();
    assert_eq!(host.stack.ask_set(SetOp::Add { leg: leg(0), by_bitmap: true }, host.now), Ok(()));
    host.settle();
    host.pass(2);
    assert_eq!(duty(&host.stack, 0), Some(Duty::Full));
    assert_eq!(left(&host.stack), [Bytes::ZERO, Bytes(SIZE.0 - REGION.0)]);
    let add = SetOp::Add { leg: leg(2), by_bitmap: false };
    assert_eq!(host.stack.ask_set(add, host.now), Ok(()));
    assert_eq!(left(&host.stack), [Bytes(SIZE.0 - REGION.0), Bytes::ZERO]);
    host.settle();
    host.pass(9);
    assert_eq!((duty(&host.stack, 2), left(&host.stack)), (Some(Duty::Full), [Bytes::ZERO; 2]));
}

#[test]
fn a_member_that_was_added_during_a_write_of_a_blank_region_is_not_full_without_it() {
    let mut stack = created(&[Blank, Blank, Blank]);
    let remove = SetOp::Remove { leg: leg(0), force: false };
    assert_eq!(stack.ask_set(remove, Moment::ZERO), Ok(()));
    drain(&mut stack);
    stack.recorded(true, Moment::ZERO);
    let names = begin(&mut stack, 1, write(0, REGION.0));
    let add = SetOp::Add { leg: leg(0), by_bitmap: true };
    assert_eq!(stack.ask_set(add, Moment::ZERO), Ok(()));
    let mut host = Host { stack, now: Moment::ZERO, bad: None, payloads: 100 };
    host.pass(3);
    assert!(matches!(duty(&host.stack, 0), Some(Duty::Copying { .. })));
    names.into_iter().for_each(|(_, name)| host.stack.member_ended(name, Outcome::Done));
    host.settle();
    host.pass(3);
    assert_eq!(duty(&host.stack, 0), Some(Duty::Full));
    assert_eq!(left(&host.stack), [Bytes::ZERO, Bytes(SIZE.0 - REGION.0)]);
}

#[test]
fn a_command_to_merge_is_recorded_once_the_bitmap_of_each_full_member_says_so() {
    let mut stack = stack(&[Good, Good]);
    stack.set(LayerSetting::Background(0), Moment::ZERO);
    assert_eq!(stack.ask_set(SetOp::Merge(V), Moment::ZERO), Ok(()));
    for member in 0..2 {
        assert_eq!(status(&stack).merge, MergeRecord::UnderWay);
        let [(page, bits)] = &blank_pages(SIZE, REGION)[..] else { panic!("one page") };
        let (page, bits) = (*page, bits.clone());
        let says = Out::Record(LayerRecord::Page { leg: leg(member), page, bits });
        assert_eq!(drain(&mut stack), [says]);
        stack.recorded(true, Moment::ZERO);
    }
    drain(&mut stack);
    assert_eq!(status(&stack).merge, MergeRecord::Durable);
    assert_eq!(left(&created(&[Good, Good])), [SIZE, Bytes::ZERO], "a restart does not end it");
}

#[test]
fn a_command_to_merge_that_cannot_be_recorded_says_so() {
    let mut stack = stack(&[Good, Good]);
    assert_eq!(stack.ask_set(SetOp::Merge(V), Moment::ZERO), Ok(()));
    drain(&mut stack);
    stack.recorded(false, Moment::ZERO);
    assert_eq!(status(&stack).merge, MergeRecord::Failed);
    assert_eq!(stack.ask_set(SetOp::Merge(V), Moment::ZERO), Err(SetRefusal::NoRecord));
}

#[test]
fn a_command_to_merge_is_recorded_although_a_removed_member_always_has_a_page_to_record() {
    let mut stack = stack(&[Good, Good, Removed]);
    stack.set(LayerSetting::Background(0), Moment::ZERO);
    assert_eq!(stack.ask_set(SetOp::Merge(V), Moment::ZERO), Ok(()));
    for region in 1..8 {
        stack.begin(region, V, write(region * REGION.0, 4096));
        let out = drain(&mut stack);
        let is_record = |out: &Out| matches!(out, Out::Record(_));
        assert_eq!(out.iter().filter(|out| is_record(out)).count(), 1, "it always has one");
        legs(&out).into_iter().for_each(|(_, name)| stack.member_ended(name, Outcome::Done));
        stack.recorded(true, Moment::ZERO);
        if status(&stack).merge == MergeRecord::Durable {
            return;
        }
    }
    panic!("full members had no turn");
}
