// SPDX-License-Identifier: Apache-2.0
//! Short stories of two nodes in virtual time.

use core::time::Duration;
use helio_engine::{Command, CommandId, Config, Duty, Leg, Operation, SetOp};
use helio_netmodel::{Dice, Profile};
use helio_stack::{Layer, StoreFault};
use helio_twin::{
    BLOCK, Breakage, Cluster, Happening, MetadataFault, Node, Replied, Restore, Side, Stamp,
    StoreVerb,
};
use helio_units::{
    Bytes, Extent, MemberIndex, Mode, Moment, Payload, Rate, RequestId, State, VolumeIndex,
};
use std::sync::{Arc, Mutex};

const V: VolumeIndex = VolumeIndex(0);
/// Bytes of a hot extent.
const EXTENT: Bytes = Bytes::mib(4);

fn config(side: Side, mode: Mode) -> Config {
    Config {
        mode,
        peer_timeout: Duration::from_secs(2),
        flush_limit: Duration::from_secs(10),
        on_error: helio_engine::OnError::Pass,
        ..Config::new("db", side.name(), side.other().name(), vec![Bytes::mib(1)])
    }
}

/// Two nodes 20 ms apart, Paris primary, both disks equal.
fn pair(mode: Mode) -> Cluster {
    pair_of(mode, |_| {}, |_| {})
}

/// The same, otherwise configured and equipped.
fn pair_of(mode: Mode, change: impl Fn(&mut Config), equip: impl Fn(&mut Node)) -> Cluster {
    let profile = Profile::wan(Duration::from_millis(20), Rate::mbit(100));
    let tick = Duration::from_micros(100);
    let config_of = |side| {
        let mut config = config(side, mode);
        change(&mut config);
        config
    };
    let mut cluster = Cluster::of_two(config_of, tick, &profile, &Dice::new(7));
    for side in Side::BOTH {
        equip(cluster.node_mut(side));
        cluster.start(side).expect("a new node starts");
    }
    pass(&mut cluster, Duration::from_secs(1));
    assert!(cluster.command(Side::Paris, CommandId(1), Command::Promote { force: false }));
    pass(&mut cluster, Duration::from_secs(3));
    assert_eq!(state(&cluster), State::Replicating);
    cluster
}

fn pass(cluster: &mut Cluster, span: Duration) {
    let until = cluster.now() + span;
    cluster.run_until(until);
}

fn state(cluster: &Cluster) -> State {
    cluster.node(Side::Paris).engine.as_ref().expect("paris runs").view().state()
}

fn write(cluster: &mut Cluster, id: u64) {
    write_at(cluster, id, id * BLOCK.0);
}

fn write_at(cluster: &mut Cluster, id: u64, offset: u64) {
    let extent = Extent::new(offset, BLOCK.0);
    let operation = Operation::Write { extent, payload: Payload::default(), fua: false };
    assert!(cluster.submit(Side::Paris, RequestId(id), V, operation, Stamp(id)));
}

/// When a request was answered "done", counted from now.
fn answered_after(cluster: &mut Cluster, id: u64) -> Option<Duration> {
    let began = cluster.now();
    let until = began + Duration::from_secs(20);
    while cluster.next_at().is_some_and(|at| at < until) {
        cluster.step();
        let mut journal = Vec::new();
        cluster.take_journal(&mut journal);
        let done = |h: &Happening| matches!(h, Happening::Replied { request, answer: Replied::Done, .. } if request.0 == id);
        if journal.iter().any(done) {
            return Some(cluster.now() - began);
        }
    }
    None
}

#[test]
fn a_write_on_one_node_is_a_write_on_the_other() {
    let mut cluster = pair(Mode::Async);
    write(&mut cluster, 5);
    assert!(answered_after(&mut cluster, 5).expect("answered") < Duration::from_millis(2));
    pass(&mut cluster, Duration::from_millis(200));
    let [paris, lyon] = Side::BOTH.map(|side| cluster.node(side).disk.live(V).to_vec());
    assert!(paris == lyon && paris[5] == Stamp(5));
    assert!(Side::BOTH.iter().all(|side| cluster.node(*side).pool.is_empty()));
}

#[test]
fn sync_costs_a_round_trip_and_async_does_not() {
    let mut cluster = pair(Mode::Sync);
    write(&mut cluster, 5);
    let took = answered_after(&mut cluster, 5).expect("answered");
    assert!(took > Duration::from_millis(20) && took < Duration::from_millis(25), "{took:?}");
    assert_eq!(cluster.node(Side::Lyon).disk.live(V)[5], Stamp(5));
}

#[test]
fn a_silent_cut_is_noticed_and_healed_in_order() {
    let mut cluster = pair(Mode::Sync);
    cluster.break_link(Breakage::Silent);
    write(&mut cluster, 5);
    let took = answered_after(&mut cluster, 5).expect("answered once the peer is given up");
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(4), "{took:?}");
    assert_eq!(state(&cluster), State::Queuing);
    cluster.mend_link(None);
    pass(&mut cluster, Duration::from_secs(10));
    assert_eq!(state(&cluster), State::Replicating);
    assert_eq!(cluster.node(Side::Lyon).disk.live(V)[5], Stamp(5));
}

#[test]
fn a_killed_node_keeps_its_image_and_comes_back() {
    let mut cluster = pair(Mode::Async);
    write(&mut cluster, 5);
    pass(&mut cluster, Duration::from_secs(1));
    cluster.kill(Side::Lyon, false);
    assert_eq!(cluster.node(Side::Lyon).disk.live(V)[5], Stamp(5));
    write(&mut cluster, 6);
    pass(&mut cluster, Duration::from_secs(1));
    cluster.start(Side::Lyon).expect("its metadata is whole");
    pass(&mut cluster, Duration::from_secs(10));
    assert_eq!(state(&cluster), State::Replicating);
    assert_eq!(cluster.node(Side::Lyon).disk.live(V)[6], Stamp(6));
    assert!(cluster.now() > Moment::ZERO);
}

#[test]
fn a_daemon_that_does_not_serve_the_group_turns_the_peer_away_until_it_is_started_again() {
    let mut cluster = pair(Mode::Sync);
    cluster.unserve(Side::Lyon);
    pass(&mut cluster, Duration::from_secs(2));
    let mut journal = Vec::new();
    cluster.take_journal(&mut journal);
    let refused = |h: &&Happening| matches!(h, Happening::TurnedAway { side: Side::Paris });
    assert_eq!(journal.iter().filter(refused).count(), 1, "a refused peer waits for longer");
    let status =
        cluster.node(Side::Paris).engine.as_ref().expect("it runs").view().status(cluster.now());
    assert!(status.link.why.contains("is not served"), "{:?}", status.link);
    cluster.start(Side::Lyon).expect("it starts");
    pass(&mut cluster, Duration::from_secs(10));
    assert_eq!(state(&cluster), State::Replicating);
}

/// Sixteen hot extents, half of which may be hot at once.
fn small(config: &mut Config) {
    config.volumes = vec![EXTENT * 16];
    config.hot_extents = 8;
}

/// Writes a block in each of these hot extents, one after the other.
fn write_in(cluster: &mut Cluster, extents: core::ops::Range<u64>) {
    for extent in extents {
        write_at(cluster, 100 + extent, extent * EXTENT.0);
        let answered = answered_after(cluster, 100 + extent);
        assert!(answered.is_some(), "a slot is found for extent {extent}");
    }
}

#[test]
fn what_a_removed_member_lacks_is_found_recorded_on_a_machine_that_goes_back_with_its_memory() {
    let mirrored = |node: &mut Node| node.mirrors = vec![node.disk.clone()];
    let mut cluster = pair_of(Mode::Async, small, mirrored);
    let leg = Leg { volume: V, member: MemberIndex(1) };
    let remove = Command::Set(SetOp::Remove { leg, force: false });
    assert!(cluster.command(Side::Paris, CommandId(3), remove));
    write_in(&mut cluster, 0..16);
    pass(&mut cluster, Duration::from_secs(5));
    let suspended = cluster.suspend(Side::Paris).expect("nothing is under way");
    cluster.kill(Side::Paris, true);
    cluster.resume(Side::Paris, &suspended);
    let node = cluster.node(Side::Paris);
    assert_eq!((node.strays(leg).count(), node.forgot(leg)), (16, None));
}

#[test]
fn what_a_first_member_fails_no_other_one_fails_later() {
    let mirrored = |node: &mut Node| node.mirrors = vec![node.disk.clone()];
    let mut cluster = pair_of(Mode::Async, small, mirrored);
    pass(&mut cluster, Duration::from_secs(30));
    let later = cluster.now() + Duration::from_secs(1);
    let node = cluster.node_mut(Side::Paris);
    node.mirrors[0].silence(V, later);
    node.disk.fail_next(StoreVerb::PlainWrite, StoreFault::Io);
    write_at(&mut cluster, 1, 0);
    pass_until(|cluster| cluster.node(Side::Paris).disk.under_way() == 1, &mut cluster);
    assert!(cluster.now() < later, "the other disk is silent");
    assert_eq!(cluster.node(Side::Paris).mirrors[0].under_way(), 0, "it has failed there");
}

/// The second member of the volume.
const SECOND: Leg = Leg { volume: V, member: MemberIndex(1) };

fn duty(cluster: &Cluster) -> Option<Duty> {
    let engine = cluster.node(Side::Lyon).engine.as_ref().expect("lyon runs");
    let set = engine.view().set_status(V).expect("it has a set");
    set.members[1].map(|member| member.duty)
}

/// Whether it is durable that lyon's metadata file is old.
fn doubts(cluster: &Cluster) -> bool {
    let engine = cluster.node(Side::Lyon).engine.as_ref();
    engine.is_some_and(|engine| engine.view().doubted_members())
}

/// Until that is so, or for half a minute.
fn pass_until(is: impl Fn(&Cluster) -> bool, cluster: &mut Cluster) {
    let within = cluster.now() + Duration::from_secs(30);
    while !is(cluster) && cluster.now() < within {
        pass(cluster, Duration::from_micros(100));
    }
}

/// Lyon is down. By its metadata file a member is full, and this member lacks sixteen blocks.
fn with_an_old_file() -> Cluster {
    let mirrored = |node: &mut Node| node.mirrors = vec![node.disk.clone()];
    let mut cluster = pair_of(Mode::Async, small, mirrored);
    pass(&mut cluster, Duration::from_secs(30));
    assert_eq!(duty(&cluster), Some(Duty::Full), "a start adds new members");
    let image = cluster.machine_image(Side::Lyon);
    let remove = Command::Set(SetOp::Remove { leg: SECOND, force: false });
    assert!(cluster.command(Side::Lyon, CommandId(3), remove));
    write_in(&mut cluster, 0..16);
    pass(&mut cluster, Duration::from_secs(30));
    cluster.kill(Side::Lyon, true);
    cluster.restore(Side::Lyon, &image, Restore::Metadata);
    assert!(cluster.node(Side::Lyon).forgot(SECOND).is_some(), "it calls that member full");
    cluster
}

#[test]
fn that_a_restored_metadata_file_is_old_survives_a_crash_right_behind_the_record_of_it() {
    let mut cluster = with_an_old_file();
    cluster.start(Side::Lyon).expect("it starts");
    pass_until(doubts, &mut cluster);
    cluster.kill(Side::Lyon, true);
    assert_eq!(cluster.node(Side::Lyon).forgot(SECOND), None);
    cluster.start(Side::Lyon).expect("it starts again");
    pass(&mut cluster, Duration::from_secs(60));
    let removed = Some(Duty::Removed { lacks: None, withdrawn: false });
    assert_eq!((duty(&cluster), state(&cluster)), (removed, State::Replicating));
    assert_eq!(cluster.node(Side::Lyon).strays(SECOND).count(), 16, "nothing was written to it");
    let add = Command::Set(SetOp::Add { leg: SECOND, by_bitmap: false });
    assert!(cluster.command(Side::Lyon, CommandId(4), add));
    pass(&mut cluster, Duration::from_secs(60));
    assert_eq!(duty(&cluster), Some(Duty::Full));
    assert_eq!(cluster.node(Side::Lyon).strays(SECOND).count(), 0);
}

#[test]
fn a_restored_metadata_file_that_cannot_be_written_stays_old_and_a_secondary_says_so_each_time() {
    let mut cluster = with_an_old_file();
    assert!(cluster.command(Side::Paris, CommandId(4), Command::Demote));
    pass(&mut cluster, Duration::from_secs(10));
    let removed = Some(Duty::Removed { lacks: None, withdrawn: false });
    let old = cluster.node(Side::Lyon).metadata.backup();
    for _ in 0..3 {
        cluster.start(Side::Lyon).expect("it starts");
        pass_until(|cluster| duty(cluster) == removed, &mut cluster);
        cluster.node_mut(Side::Lyon).metadata.fail_next(MetadataFault::Write);
        pass(&mut cluster, Duration::from_secs(10));
        let engine = cluster.node(Side::Lyon).engine.as_ref().expect("it runs");
        assert!(engine.view().words().metadata_failed);
        assert_eq!((duty(&cluster), doubts(&cluster)), (removed, false));
        cluster.kill(Side::Lyon, true);
        // Nothing of the write that failed is found.
        cluster.node_mut(Side::Lyon).metadata.restore(old.clone());
        assert!(cluster.node(Side::Lyon).forgot(SECOND).is_some());
    }
    cluster.start(Side::Lyon).expect("it starts again");
    pass_until(doubts, &mut cluster);
    assert_eq!((duty(&cluster), doubts(&cluster)), (removed, true));
    cluster.kill(Side::Lyon, true);
    assert_eq!(cluster.node(Side::Lyon).forgot(SECOND), None);
}

/// A layer that owns what a crash left hot, remembers what it was, and has done nothing there yet.
#[derive(Clone, Debug, Default)]
struct Owes(Arc<Mutex<Vec<u64>>>);

impl Layer for Owes {
    fn found_hot(&mut self, _volume: VolumeIndex, extent: Extent) -> bool {
        self.0.lock().expect("no thread has panicked").push(extent.offset / EXTENT.0);
        true
    }

    fn rests(&self) -> bool {
        false
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

#[test]
fn two_crashes_in_a_row_find_what_the_first_one_left_although_its_slots_were_wanted_between() {
    let owes = Owes::default();
    let mut cluster = pair_of(Mode::Async, small, |node| node.layers = vec![owes.boxed()]);
    let crash = |cluster: &mut Cluster| {
        cluster.kill(Side::Paris, true);
        cluster.start(Side::Paris).expect("it starts again");
        pass(cluster, Duration::from_secs(3));
        assert_eq!(state(cluster), State::Replicating);
        core::mem::take(&mut *owes.0.lock().expect("no thread has panicked"))
    };
    write_in(&mut cluster, 0..3);
    assert_eq!(crash(&mut cluster), [0, 1, 2]);
    write_in(&mut cluster, 3..16);
    let found = crash(&mut cluster);
    assert!(found.starts_with(&[0, 1, 2]), "{found:?}");
    assert!(found.len() > 3 && found.len() <= 8, "{found:?}");
}
