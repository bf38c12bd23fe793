// SPDX-License-Identifier: Apache-2.0
//! What is attached to be read only, on either node.

use crate::common::{Stage, VOLUME, attachable, queue};
use helio_e2e::{PATIENCE, wait_level};
use helio_testkit::eventually;
use helio_units::{Bytes, Mode};
use std::fs::File;
use std::os::unix::fs::FileExt;

#[test]
fn a_secondary_is_attached_to_be_read_only_and_shows_what_the_primary_writes() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let said = stage.pair.helio("lyon", &["attach", VOLUME, "--via", "fuse"]).expect_failure();
    assert!(said.contains("--read-only"), "{said}");
    let copy = stage
        .pair
        .helio("lyon", &["attach", VOLUME, "--read-only", "--via", "fuse"])
        .expect_success();
    assert_eq!(copy.trim_end(), stage.link("lyon").display().to_string());
    let open = File::options().read(true).write(true).open(copy.trim_end());
    let written = open.and_then(|file| file.write_all_at(&[1; 4096], 0));
    assert!(written.is_err(), "it can be written to");
    let device =
        File::options().read(true).write(true).open(stage.attach()).expect("the primary's");
    device.write_all_at(&[9; 8192], 1 << 20).and_then(|()| device.sync_all()).expect("room");
    wait_level(&stage.pair, "paris");
    let mut found = [0; 8192];
    let copy = File::open(copy.trim_end()).expect("it can be read");
    copy.read_exact_at(&mut found, 1 << 20).expect("it can be read");
    assert_eq!(found, [9; 8192]);
    drop((device, copy));
    for node in ["lyon", "paris"] {
        stage.pair.helio(node, &["detach", VOLUME]).expect_success();
        stage.assert_nothing_left(node);
    }
}

#[test]
fn a_primary_may_be_attached_to_be_read_only_and_then_be_demoted() {
    attachable!();
    let stage = Stage::new(Mode::Async, Bytes::mib(16));
    let path = stage
        .pair
        .helio("paris", &["attach", VOLUME, "--read-only", "--via", "fuse"])
        .expect_success();
    assert_eq!(queue(path.trim_end().as_ref(), "rotational"), "0");
    assert_eq!(stage.shown("paris")["read_only"], true);
    let said = stage.pair.helio("paris", &["attach", VOLUME, "--via", "fuse"]).expect_failure();
    assert!(said.contains("already attached, read-only"), "{said}");
    stage.pair.helio("paris", &["demote", "db"]).expect_success();
    // What it was is another thing now: the device is made anew, of the secondary's copy.
    stage.attached("paris");
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
    stage.assert_nothing_left("paris");
}

/// The attached volume, which a snapshot saw with ones at 1 MiB, and which has twos there now; and the name of that snapshot.
#[track_caller]
fn snapshot_of_ones(stage: &Stage) -> (File, String) {
    let device =
        File::options().read(true).write(true).open(stage.attach()).expect("the primary's");
    let write = |byte| {
        device.write_all_at(&[byte; 8192], 1 << 20).and_then(|()| device.sync_all()).expect("room");
    };
    write(1);
    stage.pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    write(2);
    wait_level(&stage.pair, "paris");
    (device, format!("{VOLUME}@one"))
}

#[test]
fn a_snapshot_is_attached_to_be_read_only_and_shows_what_was_there() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let (device, snapshot) = snapshot_of_ones(&stage);
    for node in ["lyon", "paris"] {
        let attach = |more: &[&str]| {
            let line = [&["attach", &snapshot, "--via", "fuse"], more].concat();
            stage.pair.helio(node, &line)
        };
        let path = attach(&["--read-only"]).expect_success();
        let file = File::open(path.trim_end()).expect("it can be read");
        let mut found = [0; 8192];
        file.read_exact_at(&mut found, 1 << 20).expect("it can be read");
        assert_eq!(found, [1; 8192], "on {node}");
        drop(file);
        stage.pair.helio(node, &["detach", &snapshot]).expect_success();
    }
    let said = stage
        .pair
        .helio("lyon", &["attach", &format!("{VOLUME}@two"), "--read-only", "--via", "fuse"])
        .expect_failure();
    assert!(said.contains("no snapshot two"), "{said}");
    // What exports are called beyond a volume is no part of its name.
    for line in [&["attach", "db/data:ro"][..], &["attach", "db/data@one:rw", "--read-only"]] {
        let said = stage.pair.helio("paris", line).expect_failure();
        assert!(said.contains("has no volume db/data"), "{line:?}: {said}");
    }
    let said = stage.pair.helio("paris", &["attach", "db@one"]).expect_failure();
    assert!(said.contains("db/data@daily"), "{said}");
    drop(device);
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
    ["lyon", "paris"].iter().for_each(|node| stage.assert_nothing_left(node));
}

#[test]
fn what_is_written_to_an_attached_snapshot_is_seen_there_alone_and_outlives_the_daemon() {
    attachable!();
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let (device, snapshot) = snapshot_of_ones(&stage);
    let attach = |stage: &Stage, more: &[&str]| {
        let line = [&["attach", &snapshot, "--via", "fuse"], more].concat();
        let path = stage.pair.helio("lyon", &line).expect_success();
        File::options().read(true).write(more.is_empty()).open(path.trim_end()).expect("it opens")
    };
    let bytes = |file: &File| {
        let mut found = [0; 16384];
        file.read_exact_at(&mut found, (1 << 20) - 4096).expect("it can be read");
        [found[4095], found[4096], found[8192], found[12287], found[12288]]
    };
    let branch = attach(&stage, &[]);
    assert_eq!(bytes(&branch), [0, 1, 1, 1, 0]);
    // Across the border of two chunks, and in the middle of a block.
    branch.write_all_at(&[3; 8192], (1 << 20) - 4096).expect("room");
    branch.write_all_at(&[4; 512], (1 << 20) + 4096).expect("room");
    branch.sync_all().expect("it is flushed");
    assert_eq!(bytes(&branch), [3, 3, 4, 1, 0]);
    stage.pair.daemon("lyon").kill9();
    drop(branch);
    stage.pair.start("lyon");
    let path = stage.attached("lyon");
    let again = File::open(&path).expect("it is back");
    assert_eq!(bytes(&again), [3, 3, 4, 1, 0]);
    drop(again);
    stage.pair.helio("lyon", &["detach", &snapshot]).expect_success();
    let cut = attach(&stage, &["--read-only"]);
    assert_eq!(bytes(&cut), [0, 1, 1, 1, 0], "the snapshot is as it was");
    drop(cut);
    stage.pair.helio("lyon", &["detach", &snapshot]).expect_success();
    let listed = stage.pair.helio("lyon", &["snapshot", "list", "db", "--json"]).expect_success();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("it is JSON");
    assert_eq!(listed["snapshots"][0]["written_bytes"], 2 << 16, "{listed}");
    assert_eq!(bytes(&device), [0, 2, 2, 2, 0], "and so is the volume");
    drop(device);
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
    ["lyon", "paris"].iter().for_each(|node| stage.assert_nothing_left(node));
}

#[test]
fn an_attached_snapshot_comes_back_with_the_daemon_until_it_is_deleted() {
    attachable!();
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let (device, snapshot) = snapshot_of_ones(&stage);
    let line = ["attach", &snapshot, "--read-only", "--via", "fuse"];
    let path = stage.pair.helio("lyon", &line).expect_success();
    stage.pair.daemon("lyon").kill9();
    stage.pair.start("lyon");
    stage.attached("lyon");
    let read = || {
        let mut found = [0; 8192];
        File::open(path.trim_end()).and_then(|file| file.read_exact_at(&mut found, 1 << 20))?;
        Ok::<_, std::io::Error>(found)
    };
    assert_eq!(read().expect("it is back"), [1; 8192]);
    wait_level(&stage.pair, "paris");
    stage.pair.helio("paris", &["snapshot", "delete", "db@one", "--yes"]).expect_success();
    wait_level(&stage.pair, "paris");
    eventually(PATIENCE, "lyon to have no snapshot", || {
        let listed = stage.pair.helio("lyon", &["snapshot", "list", "db"]).expect_success();
        listed.starts_with("0 snapshots").then_some(())
    });
    stage.pair.daemon("lyon").kill9();
    stage.pair.start("lyon");
    eventually(PATIENCE, "the reason why it is not attached", || {
        let shown = stage.shown("lyon");
        shown["reason"].as_str().filter(|why| why.contains("no snapshot one")).map(drop)
    });
    stage.pair.helio("lyon", &["detach", &snapshot]).expect_success();
    drop(device);
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
    ["lyon", "paris"].iter().for_each(|node| stage.assert_nothing_left(node));
}
