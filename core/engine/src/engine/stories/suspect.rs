// SPDX-License-Identifier: Apache-2.0
//! Stories of a follower whose store fails a flush: what is durable then, and what is written again.

use super::*;
use helio_format::members::{CopyHealth, MEMBERS_MAX};
use helio_shadow::Shadow;
use helio_stack::Layer;

const V: VolumeIndex = VolumeIndex(0);
const FAILED: StoreOutcome = StoreOutcome::Failed(StoreFault::Io);

fn flush_item(sequence: u64) -> Message {
    let Message::Item(item) = item(sequence) else { panic!("no item") };
    let (kind, extent) = (ItemKind::Flush, Extent::new(0, 0));
    Message::Item(Item { kind, extent, ..item })
}

fn fua_item(sequence: u64) -> Message {
    let Message::Item(item) = item(sequence) else { panic!("no item") };
    Message::Item(Item { fua: true, ..item })
}

/// Items of zeros from `first` to `last` are applied.
fn applied(desk: &mut Desk, first: u64, last: u64) {
    for sequence in first..=last {
        desk.hear(item(sequence));
        desk.store();
    }
}

/// A follower's own flush is under way, and one behind it that its primary asked for.
fn two_flushes() -> (Desk, IoId, IoId) {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    applied(&mut desk, 1, 1);
    desk.now = desk.now + Duration::from_millis(60);
    desk.tell(Event::Tick);
    desk.hear(flush_item(2));
    let flushes: Vec<IoId> = desk.ios.drain(..).map(|(io, ..)| io).collect();
    let [own, asked] = flushes[..] else { panic!("two flushes are under way: {flushes:?}") };
    (desk, own, asked)
}

fn durable_here(desk: &Desk) -> u64 {
    desk.engine.standing.follower().expect("it follows").durable().0
}

fn end(desk: &mut Desk, io: IoId, outcome: StoreOutcome) {
    desk.tell(Event::StoreDone { io, outcome });
}

#[test]
fn a_flush_that_overlaps_a_failed_one_makes_nothing_durable_whichever_ends_first() {
    for failed_first in [true, false] {
        let (mut desk, own, asked) = two_flushes();
        if failed_first {
            end(&mut desk, own, FAILED);
            end(&mut desk, asked, StoreOutcome::Done);
        } else {
            end(&mut desk, asked, StoreOutcome::Done);
            end(&mut desk, own, FAILED);
        }
        assert_eq!(durable_here(&desk), 0, "failed first: {failed_first}");
        for _ in 0..3 {
            desk.now = desk.now + Duration::from_secs(2);
            desk.tell(Event::Tick);
            desk.store_all();
            desk.save_all();
        }
        assert_eq!(durable_here(&desk), 0, "a later flush proves nothing of what was lost");
    }
}

#[test]
fn two_flushes_that_overlap_and_succeed_make_durable_what_was_before_them() {
    let (mut desk, own, asked) = two_flushes();
    end(&mut desk, asked, StoreOutcome::Done);
    assert_eq!(durable_here(&desk), 0, "the other one may fail yet");
    end(&mut desk, own, StoreOutcome::Done);
    assert_eq!(durable_here(&desk), 2);
}

#[test]
fn a_failed_flush_is_recorded_by_whichever_flush_or_item_it_fails() {
    let record = |desk: &mut Desk| {
        let record = desk.save(true);
        assert!(record.marks_void && record.suspect == 1, "{record:?}");
        assert!(matches!(desk.said.last(), Some(Message::Goodbye { .. })), "it stops");
    };
    let (mut desk, own, _) = two_flushes();
    end(&mut desk, own, FAILED);
    record(&mut desk);
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(fua_item(1));
    let (io, ..) = desk.ios.pop_front().expect("the item is issued");
    end(&mut desk, io, FAILED);
    record(&mut desk);
}

#[test]
fn a_write_that_fails_without_fua_leaves_the_copy_as_good_as_its_last_flush() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(item(1));
    let (io, ..) = desk.ios.pop_front().expect("the item is issued");
    end(&mut desk, io, FAILED);
    assert!(
        desk.saves.is_empty()
            && desk.engine.standing.follower().expect("it follows").failed().is_some()
    );
}

#[test]
fn a_stop_waits_until_it_is_recorded_that_a_flush_failed() {
    let (mut desk, own, _) = two_flushes();
    desk.command(Command::Stop);
    end(&mut desk, own, FAILED);
    assert!(desk.results.is_empty(), "the record is under way");
    assert_eq!(desk.save(true).suspect, 1);
    assert_eq!(desk.results.len(), 1);
}

/// A follower that starts from a record of a copy that is suspect, with its second extent hot.
fn restarted(consistent: bool) -> Desk {
    restarted_above(Stack::default(), consistent)
}

fn restarted_above(layers: Stack, consistent: bool) -> Desk {
    let mut record = Superblock::new("db", "paris", [SIZE.0].into());
    record.lineage = generation(1);
    (record.suspect, record.consistent, record.clean) = (1, consistent, false);
    let mut desk = Desk::new(Config { volumes: [Bytes::mib(16)].into(), ..config() });
    let config = desk.engine.turn.config().clone();
    record.sizes = [config.volumes[0].0].into();
    let found = Durable { hot: [1].into(), layers, ..durable(record) };
    desk.engine = Engine::new(config, found, 2, 1, Moment::ZERO);
    let sizes = [Bytes::mib(16).0].into();
    let peer = hello(generation(1), true);
    desk.meet(Hello { serving: true, role: Role::Primary, sizes, ..peer });
    desk
}

fn trusts(desk: &Desk) -> bool {
    let hellos = desk.said.iter().rev();
    let trusted = |m: &Message| match m {
        Message::Hello(hello) => Some(hello.trusted),
        _ => None,
    };
    hellos.filter_map(trusted).next().expect("it introduced itself")
}

/// Asks for the digests of an extent; returns whether its store is read for them.
fn is_read(desk: &mut Desk, extent: Extent) -> bool {
    let wanted = Copying::DigestsWanted { volume: V, extent, coarse: false };
    desk.hear(Message::Copying(wanted));
    let read = desk.ios.iter().any(|(.., read_as)| matches!(read_as, ReadAs::Digests { .. }));
    desk.store_all();
    read
}

#[test]
fn what_a_failed_flush_may_have_lost_is_not_read_to_be_compared_after_a_restart() {
    let mut desk = restarted(true);
    assert!(!trusts(&desk), "everything is compared");
    desk.hear(Message::Start(start(generation(1), 1, false)));
    desk.save_all();
    let hot = Extent::new(Bytes::mib(4).0, 8192);
    assert!(!is_read(&mut desk, hot), "it reads as it was written, and may not be durable");
    let told = desk.said.iter().rev().find_map(|m| match m {
        Message::Copying(Copying::Digests { list, .. }) => Some(list.clone()),
        _ => None,
    });
    assert_eq!(told.unwrap_or_default(), [[0xFF; 16]; 2], "it differs from whatever it is");
    let empty = Copying::EmptyWanted { volume: V, extent: hot };
    desk.hear(Message::Copying(empty));
    let none = |m: &Message| matches!(m, Message::Copying(Copying::Empty { empty: false, .. }));
    assert!(desk.said.iter().any(none), "nor is it empty");
    assert!(is_read(&mut desk, Extent::new(0, 8192)), "an extent that was durable is compared");
}

#[test]
fn of_a_copy_that_was_being_written_again_all_is_written_again() {
    let mut desk = restarted(false);
    desk.hear(Message::Start(start(generation(1), 1, false)));
    desk.save_all();
    assert!(!is_read(&mut desk, Extent::new(0, 8192)));
}

#[test]
fn a_copy_is_suspect_until_everything_was_copied_and_is_durable() {
    let mut desk = restarted(true);
    desk.hear(Message::Start(start(generation(1), 1, false)));
    assert_eq!(desk.save(true).suspect, 1, "the copy has only begun");
    applied(&mut desk, 1, 1);
    let Message::Item(marker) = item(2) else { panic!("no item") };
    let (kind, extent) = (ItemKind::Consistent, Extent::new(0, 0));
    desk.hear(Message::Item(Item { kind, extent, ..marker }));
    assert!(desk.saves.is_empty(), "nothing is durable yet");
    desk.store_all();
    let record = desk.save(true);
    assert!(record.consistent && !record.marks_void && record.suspect == 0, "{record:?}");
    let hot = Extent::new(Bytes::mib(4).0, 8192);
    assert!(is_read(&mut desk, hot), "it is compared like any other");
}

#[test]
fn a_follower_whose_flush_failed_waits_for_no_flush_of_its_own() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    applied(&mut desk, 1, 1);
    desk.now = desk.now + Duration::from_millis(60);
    desk.tell(Event::Tick);
    let (own, ..) = desk.ios.pop_front().expect("a flush of its own is under way");
    applied(&mut desk, 2, 2);
    end(&mut desk, own, FAILED);
    desk.save_all();
    desk.now = desk.now + Duration::from_secs(10);
    desk.tell(Event::Tick);
    desk.save_all();
    desk.store_all();
    desk.tell(Event::Tick);
    assert!(desk.engine.view().deadline() > desk.now, "it asks to be woken at once, for ever");
}

#[test]
fn a_discarded_copy_of_which_no_flush_failed_is_read_to_be_compared() {
    let mut desk = Desk::new(config());
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let record = Superblock { discarded: true, consistent: false, ..new };
    desk.engine = Engine::new(config(), durable(record), 2, 1, Moment::ZERO);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    assert!(is_read(&mut desk, Extent::new(0, 8192)));
}

/// Takes the first operation like that out of the tray.
fn take(desk: &mut Desk, like: impl Fn(&StoreOp) -> bool) -> IoId {
    let at = desk.ios.iter().position(|(_, op, _)| like(op));
    let (io, ..) = at.and_then(|at| desk.ios.remove(at)).expect("there is one like that");
    io
}

#[test]
fn a_merge_in_a_cold_extent_of_a_suspect_copy_may_be_lost_by_a_flush_that_all_members_fail() {
    let mut found = [None; MEMBERS_MAX];
    found[..2].fill(Some(CopyHealth::Suspect));
    let set = Shadow::new(&[Bytes::mib(16)], REGION, &[found]).boxed();
    let mut desk = restarted_above(Stack::new([set].into()), true);
    desk.hear(Message::Start(start(generation(1), 1, false)));
    desk.save_all();
    // The second member cannot be read there, and is written.
    let first = |op: &StoreOp| op.reads().is_some_and(|extent| extent.offset == 0);
    let reads = [(); 2].map(|()| take(&mut desk, first));
    let payload = desk.payload(REGION.0 as u32);
    end(&mut desk, reads[0], StoreOutcome::Read { payload, zero: true });
    end(&mut desk, reads[1], FAILED);
    let written = take(&mut desk, |op| op.payload().is_some());
    end(&mut desk, written, StoreOutcome::Done);
    desk.hear(flush_item(1));
    for _ in 0..2 {
        let flush = take(&mut desk, |op| *op == StoreOp::Flush);
        end(&mut desk, flush, FAILED);
    }
    let unmerged = |desk: &Desk| desk.engine.local.set_status(V).map(|set| set.unmerged);
    assert_eq!(unmerged(&desk), Some(Bytes::mib(16)), "it is to be merged again");
    desk.save_all();
    while unmerged(&desk) != Some(Bytes::ZERO) {
        desk.store_all();
        desk.now = desk.now + Duration::from_secs(2);
        desk.tell(Event::Tick);
    }
}
