// SPDX-License-Identifier: Apache-2.0
//! `GROUP/VOLUME` and `GROUP/VOLUME:ro` on a primary and on a secondary.

use crate::stage::{PATIENCE, check, check_command, serving, tell};
use helio_e2e::{wait_level, wait_state};
use helio_testkit::{Group, eventually, require};
use std::process::Stdio;

#[test]
fn a_secondary_refuses_its_volume_and_names_the_primary() {
    require!("qemu-img");
    let pair = serving();
    let uri = pair.export("lyon", "data");
    let said = tell("qemu-img", &["info", "-f", "raw", &uri]).expect_failure();
    for part in ["not primary on this node", "connect to paris", "helio promote db", "db/data:ro"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_copy_to_be_read_only_shows_replicated_data_and_takes_no_change() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["sow", &pair.export("paris", "data")]);
    wait_level(&pair, "paris");
    for (node, connections) in [("paris", "multi-conn"), ("lyon", "single")] {
        let uri = pair.export(node, "data:ro");
        check(&pair, &["pattern", &uri, connections]);
        check(&pair, &["read_only", &uri]);
    }
    // What comes later is seen too.
    check(&pair, &["effects", &pair.export("paris", "data")]);
    check(&pair, &["sow", &pair.export("paris", "data")]);
    wait_level(&pair, "paris");
    check(&pair, &["pattern", &pair.export("lyon", "data:ro"), "single"]);
}

#[test]
fn a_snapshot_shows_what_was_there_on_either_node_and_only_its_branch_is_changed() {
    require!("python3-libnbd", "nbdinfo", "qemu-img");
    let pair = serving();
    check(&pair, &["sow", &pair.export("paris", "data")]);
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    check(&pair, &["effects", &pair.export("paris", "data")]);
    wait_level(&pair, "paris");
    for node in ["paris", "lyon"] {
        let uri = pair.export(node, "data@one");
        check(&pair, &["pattern", &uri, "multi-conn"]);
        check(&pair, &["read_only", &uri]);
    }
    let image = pair.scratch().join("image");
    let bytes: Vec<u8> =
        (0..64 << 14).map(|at: u32| if at % 3 < 1 { 0 } else { (at >> 9) as u8 }).collect();
    std::fs::write(&image, [&bytes[..], &[0; 7 << 20]].concat()).expect("room");
    let image = image.display().to_string();
    for node in ["paris", "lyon"] {
        let branch = pair.export(node, "data@one:rw");
        let copy = ["convert", "-n", "-f", "raw", "-O", "raw", &image, &branch];
        tell("qemu-img", &copy).expect_success();
        tell("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &branch]).expect_success();
        check(&pair, &["pattern", &pair.export(node, "data@one"), "multi-conn"]);
    }
    let uri = pair.export("paris", "data@one");
    let listed = tell("nbdinfo", &["--list", "--no-content", &uri]).expect_success();
    for name in ["data@one", "data@one:rw"] {
        assert!(listed.contains(&format!("export=\"db/{name}\"")), "{listed}");
    }
    pair.helio("paris", &["snapshot", "delete", "db@one", "--yes"]).expect_success();
    let said = tell("qemu-img", &["info", "-f", "raw", &uri]).expect_failure();
    assert!(said.contains("has no snapshot one"), "{said}");
}

#[test]
fn readers_of_a_copy_are_dismissed_when_the_node_is_promoted_or_demoted() {
    require!("python3-libnbd");
    let pair = serving();
    let mut readers: Vec<Group> = ["lyon", "paris"]
        .iter()
        .map(|node| {
            let mut command =
                check_command(&pair, &["until_dismissed", &pair.export(node, "data:ro")]);
            let output = std::fs::File::create(pair.scratch().join(&format!("{node}.out")));
            command.stdout(output.expect("a file")).stderr(Stdio::inherit());
            Group::spawn(&mut command).expect("python runs")
        })
        .collect();
    for node in ["lyon", "paris"] {
        let out = pair.scratch().join(&format!("{node}.out"));
        eventually(PATIENCE, "a reader that reads", || {
            std::fs::read_to_string(&out).ok()?.contains("reading").then_some(())
        });
    }
    pair.helio("paris", &["demote", "db"]).expect_success();
    eventually(PATIENCE, "a promotion", || {
        pair.helio("lyon", &["promote", "db"]).status.success().then_some(())
    });
    wait_state(&pair, "lyon", "replicating");
    for reader in &mut readers {
        let ended = reader.wait(PATIENCE).expect("a reader that was sent away ends");
        assert!(ended.success(), "{ended}");
    }
    check(&pair, &["information", &pair.export("lyon", "data")]);
}
