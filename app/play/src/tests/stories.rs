// SPDX-License-Identifier: Apache-2.0
//! What people do first: load, a cut, a killed node, a failover, a failed disk.

use super::*;
use helio_units::Mode;

#[test]
fn the_clients_write_read_and_flush_at_the_given_rate() {
    let mut pair = pair(1);
    let before = pair.status(PARIS).counters;
    pair.pass(Duration::from_secs(20), || true);
    let after = pair.status(PARIS).counters;
    let writes = after.writes - before.writes;
    assert!((1800..2200).contains(&writes), "{writes} writes in 20 s of 100 writes/s");
    assert!(after.reads > before.reads && after.flushes > before.flushes);
    pair.wait_served(PARIS);

    pair.make(set(NewSettings { writes_per_second: Some(0.0), ..NewSettings::default() }))
        .expect("set");
    pair.pass(Duration::from_secs(1), || true);
    let idle = pair.status(PARIS).counters;
    pair.pass(Duration::from_secs(5), || true);
    assert_eq!(pair.status(PARIS).counters.writes, idle.writes);
    assert_eq!(pair.look_now().clients, "The clients make no requests.");
}

#[test]
fn the_same_seed_gives_the_same_counters() {
    let counters = || {
        let mut pair = pair(7);
        pair.pass(Duration::from_secs(5), || true);
        pair.status(LYON).counters
    };
    assert_eq!(counters(), counters());
}

#[test]
fn a_cut_link_makes_regions_dirty_and_a_restored_one_clean() {
    let mut pair = pair(2);
    pair.button(Button::Cut).expect("cut");
    pair.wait_for_state(PARIS, State::Logging);
    let dirty = |pair: &mut Pair| pair.status(PARIS).volumes[0].dirty_bytes.0;
    let first = dirty(&mut pair);
    pair.pass(Duration::from_secs(10), || true);
    assert!(dirty(&mut pair) > first, "dirty regions grow");
    assert!(!pair.look_now().link_up);
    pair.button(Button::Restore).expect("restored");
    pair.wait_in_sync(PARIS);
    pair.make(set(NewSettings { writes_per_second: Some(0.0), ..NewSettings::default() }))
        .expect("set");
    pair.wait("no region is dirty", |pair| (dirty(pair) == 0).then_some(()));
}

#[test]
fn a_slow_link_shows_in_the_latency_of_mode_sync() {
    let mut pair = pair(3);
    pair.make(set(NewSettings { mode: Some(Mode::Sync), ..NewSettings::default() })).expect("set");
    pair.wait("sync in force", |pair| {
        (pair.status(PARIS).mode.effective == Some(Mode::Sync)).then_some(())
    });
    assert_eq!(pair.look_now().settings.mode, Mode::Sync);
    pair.make(set(NewSettings { rtt_ms: Some(200.0), ..NewSettings::default() })).expect("set");
    pair.post(PARIS, paths::QUEUE_RESET, &Value::Null).expect("reset");
    pair.pass(Duration::from_secs(10), || true);
    let median = pair.status(PARIS).answers.expect("writes were acknowledged").writes.p50_us;
    assert!(median >= Duration::from_millis(190), "{median:?}");
}

#[test]
fn a_killed_secondary_starts_again_and_gets_what_it_lacks() {
    let mut pair = pair(4);
    pair.button(Button::Kill(LYON)).expect("killed");
    let error = pair.call(LYON, "GET", paths::STATUS, &Value::Null).expect_err("no daemon");
    assert_eq!(error.error, "no daemon responds on lyon: it was killed");
    assert!(pair.button(Button::Kill(LYON)).is_err());
    pair.pass(Duration::from_secs(10), || true);
    assert_eq!(pair.status(PARIS).verdict.word, Verdict::AtRisk);
    pair.button(Button::Start(LYON)).expect("started");
    assert!(pair.button(Button::Start(LYON)).is_err());
    pair.wait_in_sync(PARIS);
    pair.wait_served(PARIS);
}

#[test]
fn clients_go_on_at_the_node_that_takes_over_and_the_old_primary_gives_up_its_writes() {
    let mut pair = pair(5);
    pair.button(Button::Cut).expect("cut");
    pair.pass(Duration::from_secs(10), || true);
    pair.button(Button::Kill(PARIS)).expect("killed");
    pair.pass(Duration::from_secs(3), || true);
    assert!(pair.look_now().clients.starts_with("The clients have no node"));
    // As the page does it: without force, then with the force that the refusal recommends.
    let promote = |force| json!({ "force": force, "confirmed": force });
    let refused = pair.post(LYON, paths::PROMOTE, &promote(false)).expect_err("paris may serve");
    assert!(refused.hint.is_some_and(|hint| hint.contains("--force")), "{}", refused.error);
    pair.post(LYON, paths::PROMOTE, &promote(true)).expect("promoted");
    pair.wait_served(LYON);
    pair.button(Button::Restore).expect("restored");
    pair.button(Button::Start(PARIS)).expect("started");
    // Paris acknowledged writes that lyon never received.
    pair.wait("the split brain is found", |pair| {
        (pair.status(PARIS).verdict.word == Verdict::SplitBrain).then_some(())
    });
    let discard = |confirmed| json!({ "discard": "paris", "confirmed": confirmed });
    let shown = pair.post(PARIS, paths::RESOLVE, &discard(false)).expect_err("it shows the stake");
    assert_eq!(shown.code, "needs-confirmation");
    pair.post(PARIS, paths::RESOLVE, &discard(true)).expect("resolved");
    pair.wait_in_sync(LYON);
    pair.wait_served(LYON);
}

#[test]
fn clients_leave_for_a_planned_change_of_roles_and_come_back_to_the_new_primary() {
    let mut pair = pair(6);
    pair.post(PARIS, paths::SWITCH, &json!({ "force": false })).expect("switched");
    pair.wait_in_sync(LYON);
    pair.wait_served(LYON);
    pair.post(LYON, paths::DEMOTE, &Value::Null).expect("demoted");
    pair.wait("the clients notice", |pair| {
        pair.look_now().clients.starts_with("The clients have no node").then_some(())
    });
    pair.post(PARIS, paths::PROMOTE, &json!({ "force": false, "confirmed": false }))
        .expect("promoted");
    pair.wait_served(PARIS);
}

#[test]
fn a_failed_disk_is_served_by_the_peer_and_replaced() {
    let mut pair = pair(8);
    assert!(pair.button(Button::ReplaceDisk(PARIS)).is_err(), "it works");
    pair.button(Button::FailDisk(PARIS)).expect("failed");
    pair.wait("the fault is reported", |pair| pair.status(PARIS).fault.map(drop));
    assert_eq!(pair.look_now().nodes[PARIS].disk, DiskState::Failed);
    pair.wait_served(PARIS);
    let next = pair.button(Button::ReplaceDisk(PARIS)).expect("replaced");
    assert!(next.contains("`helio member replace db/data` on paris"), "{next}");
    assert_eq!(pair.look_now().nodes[PARIS].disk, DiskState::New);
    let replace = json!({ "volume": "data", "confirmed": true });
    pair.post(PARIS, paths::MEMBER_REPLACE, &replace).expect("used");
    assert_eq!(pair.look_now().nodes[PARIS].disk, DiskState::Incomplete);
    pair.wait_in_sync(PARIS);
    pair.wait_for_disk(PARIS, DiskState::Sound);
}

/// Kills the daemon of a node, and starts it again on a new disk.
fn start_on_new_disk(pair: &mut Pair, node: usize) {
    pair.button(Button::Kill(node)).expect("killed");
    pair.button(Button::FailDisk(node)).expect("failed");
    let next = pair.button(Button::ReplaceDisk(node)).expect("replaced");
    assert!(next.contains("Next: start its daemon"), "{next}");
    assert_eq!(pair.look_now().nodes[node].disk, DiskState::New);
    // What was under way when it was killed holds its files for a moment.
    pair.wait("the start", |pair| pair.button(Button::Start(node)).ok().map(drop));
    assert_eq!(pair.look_now().nodes[node].disk, DiskState::Incomplete);
}

#[test]
fn a_secondary_that_starts_on_a_new_disk_copies_everything_and_is_no_loss_then() {
    let mut pair = pair(13);
    start_on_new_disk(&mut pair, LYON);
    pair.wait_for_disk(LYON, DiskState::Sound);
    pair.wait_in_sync(PARIS);
    pair.button(Button::FailDisk(PARIS)).expect("failed");
    pair.pass(Duration::from_secs(5), || true);
    assert_eq!(pair.look_now().nodes[LYON].disk, DiskState::Sound);
}

#[test]
fn a_primary_that_starts_on_a_new_disk_is_copied_to_after_what_the_nodes_advise() {
    let mut pair = pair(14);
    start_on_new_disk(&mut pair, PARIS);
    pair.wait("the fault is reported", |pair| pair.status(PARIS).fault.map(drop));
    let next = pair.wait("advice", |pair| {
        Some(pair.status(LYON).next).filter(|next| next.contains("`helio promote db` on lyon"))
    });
    assert_eq!(pair.look_now().nodes[PARIS].disk, DiskState::Incomplete, "{next}");
    // Writes that only paris acknowledged were on the old disk.
    let promote = json!({ "force": false, "confirmed": false });
    let refused = pair.post(LYON, paths::PROMOTE, &promote).expect_err("paris was primary");
    let hint = refused.hint.expect("what to do");
    assert!(hint.contains("`helio resolve db --discard paris` on paris"), "{hint}");
    pair.post(PARIS, paths::RESOLVE, &json!({ "discard": "paris", "confirmed": true }))
        .expect("discarded");
    pair.post(LYON, paths::PROMOTE, &promote).expect("promoted");
    pair.wait_for_disk(PARIS, DiskState::Sound);
    pair.wait_in_sync(LYON);
}

#[test]
fn the_data_is_lost_if_the_other_disk_fails_before_the_copy_on_a_new_one_is_complete() {
    let mut pair = pair(15);
    pair.make(set(NewSettings { rate_mbit: Some(1.0), ..NewSettings::default() })).expect("set");
    start_on_new_disk(&mut pair, LYON);
    pair.wait_for_state(PARIS, State::Syncing);
    pair.button(Button::FailDisk(PARIS)).expect("failed");
    pair.pass(Duration::from_secs(60), || true);
    let disks = pair.look_now().nodes.into_iter().map(|node| node.disk);
    assert_eq!(disks.collect::<Vec<_>>(), [DiskState::Failed, DiskState::Incomplete]);
    let next = pair.button(Button::ReplaceDisk(PARIS)).expect("replaced");
    assert!(next.contains("the data is lost"), "{next}");
}

#[test]
fn a_failed_flush_is_reported() {
    let mut pair = pair(9);
    pair.button(Button::FailFlush(PARIS)).expect("pressed");
    pair.wait("the fault is reported", |pair| pair.status(PARIS).fault.map(drop));
}

#[test]
fn a_restart_begins_again_with_the_first_settings() {
    let mut pair = pair(10);
    pair.make(set(NewSettings { rate_mbit: Some(1.0), ..NewSettings::default() })).expect("set");
    pair.button(Button::Kill(PARIS)).expect("killed");
    pair.button(Button::Restart).expect("restarted");
    assert_eq!(pair.look_now().settings.rate_mbit, 100.0);
    pair.wait_in_sync(PARIS);
}

#[test]
fn the_writes_of_either_node_of_a_split_brain_can_be_kept() {
    for (crashed, lost) in [(false, PARIS), (false, LYON), (true, PARIS), (true, LYON)] {
        let mut pair = pair(11);
        pair.button(Button::Cut).expect("cut");
        pair.pass(Duration::from_secs(10), || true);
        if crashed {
            pair.button(Button::Kill(PARIS)).expect("killed");
            pair.pass(Duration::from_secs(3), || true);
        }
        let force = json!({ "force": true, "confirmed": true });
        pair.post(LYON, paths::PROMOTE, &force).expect("promoted");
        pair.pass(Duration::from_secs(5), || true);
        if crashed {
            pair.button(Button::Start(PARIS)).expect("started");
        }
        pair.button(Button::Restore).expect("restored");
        pair.wait("the split brain is found", |pair| {
            let split = |it: GroupStatus| it.verdict.word == Verdict::SplitBrain;
            (split(pair.status(PARIS)) && split(pair.status(LYON))).then_some(())
        });
        if pair.status(lost).role == Role::Primary {
            pair.post(lost, paths::DEMOTE, &Value::Null).expect("demoted");
            pair.pass(Duration::from_secs(5), || true);
        }
        let discard = json!({ "discard": NODES[lost], "confirmed": true });
        pair.post(lost, paths::RESOLVE, &discard).expect("resolved");
        pair.pass(Duration::from_secs(5), || true);
        let kept = 1 - lost;
        if pair.status(kept).role == Role::Secondary {
            pair.post(kept, paths::PROMOTE, &json!({ "force": false, "confirmed": false }))
                .expect("promoted");
        }
        pair.wait_in_sync(kept);
        pair.wait_served(kept);
    }
}

#[test]
fn a_new_disk_has_no_data_to_get_if_both_were_lost() {
    let mut pair = pair(12);
    for node in [PARIS, LYON] {
        pair.button(Button::FailDisk(node)).expect("failed");
        pair.pass(Duration::from_secs(5), || true);
    }
    let next = pair.button(Button::ReplaceDisk(PARIS)).expect("replaced");
    assert!(next.contains("the data is lost") && next.contains("New pair"), "{next}");
    let lost = |it: &DiskState| *it != DiskState::Sound;
    assert!(pair.look_now().nodes.iter().all(|node| lost(&node.disk)));
    pair.button(Button::Restart).expect("restarted");
    assert!(!pair.look_now().nodes.iter().any(|node| lost(&node.disk)));
    pair.wait_in_sync(PARIS);
}
