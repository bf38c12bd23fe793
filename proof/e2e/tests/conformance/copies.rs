// SPDX-License-Identifier: Apache-2.0
//! `GROUP/VOLUME` and `GROUP/VOLUME:ro` on a primary and on a secondary.

use crate::stage::{PATIENCE, check, check_command, serving, socket, tell};
use helio_e2e::{wait_level, wait_state};
use helio_nbd::{Client, ClientError, ClientOptions, Context, Contexts, ErrorCode, Form};
use helio_testkit::{Group, Pair, eventually, require};
use helio_units::Bytes;
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

/// Exactly these chunks changed since a snapshot, on both nodes, whether its branch is used or not.
#[track_caller]
fn check_changed(pair: &Pair, snapshot: &str, chunks: &[&str]) {
    wait_level(pair, "paris");
    for node in ["paris", "lyon"] {
        for export in [format!("data@{snapshot}"), format!("data@{snapshot}:rw")] {
            check(pair, &[&["changed", &pair.export(node, &export)], chunks].concat());
        }
    }
}

#[test]
fn what_changed_since_a_snapshot_is_reported_on_either_node_and_is_enough_for_the_next_backup() {
    require!("python3-libnbd", "nbdinfo");
    let pair = serving();
    let live = pair.export("paris", "data");
    check(&pair, &["scatter", &live, "base", "0+128", "8192+64", "32768+256"]);
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    check_changed(&pair, "one", &[]);
    // Chunk 3; 100 and 101; the last one; the first half of a chunk that held data.
    check(&pair, &["scatter", &live, "more", "196+4", "6460+8", "65532+4", "8192+32"]);
    check(&pair, &["clear", &live, "200", "512"]);
    let since_one = ["3", "100", "101", "128", "200", "512", "1023"];
    check_changed(&pair, "one", &since_one);
    pair.helio("paris", &["snapshot", "create", "db@two"]).expect_success();
    // The same bytes again count as changed.
    check(&pair, &["scatter", &live, "more", "196+4", "600+4"]);
    check_changed(&pair, "two", &["3", "9"]);
    check_changed(&pair, "one", &[&since_one[..], &["9"]].concat());
    for node in ["paris", "lyon"] {
        let [one, two] = ["data@one", "data@two"].map(|export| pair.export(node, export));
        check(&pair, &["incremental", &one, &two]);
        check(&pair, &["incremental", &one, &pair.export(node, "data:ro")]);
    }
    let map = ["--map=heliograph:changed", "--json", &pair.export("lyon", "data@two")];
    let map = tell("nbdinfo", &map).json();
    let flags = map.as_array().expect("a list").iter().map(|run| (&run["offset"], &run["type"]));
    let changed: Vec<_> = flags.filter(|(_, flags)| **flags == 1).map(|(at, _)| at).collect();
    assert_eq!(changed, [3 << 16, 9 << 16], "{map}");
    // What a client wrote to the branch counts, for the branch alone.
    check(&pair, &["scatter", &pair.export("paris", "data@two:rw"), "branch", "1280+4"]);
    check(&pair, &["changed", &pair.export("paris", "data@two:rw"), "3", "9", "20"]);
    check(&pair, &["changed", &pair.export("paris", "data@two"), "3", "9"]);
    // A restore changes the volume for younger snapshots, too.
    pair.helio("paris", &["snapshot", "restore", "db@one", "--yes"]).expect_success();
    for snapshot in ["data@one", "data@two"] {
        let snapshot = pair.export("paris", snapshot);
        check(&pair, &["incremental", &snapshot, &pair.export("paris", "data:ro")]);
    }
}

#[test]
fn block_status_of_a_snapshot_that_is_deleted_fails_and_never_says_unchanged() {
    let pair = serving();
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    wait_level(&pair, "paris");
    let options = ClientOptions { form: Form::Structured, contexts: Contexts::ALL };
    let mut clients: Vec<Client> = ["paris", "lyon"]
        .iter()
        .flat_map(|node| ["db/data@one", "db/data@one:rw"].map(|export| (*node, export)))
        .map(|(node, export)| {
            Client::connect_unix_with(socket(&pair, node), export, options).expect("opens")
        })
        .collect();
    for client in &mut clients {
        let offered = Contexts::NONE.with(Context::Allocation).with(Context::Changed);
        assert_eq!(client.contexts(), offered);
        let told = client.block_status(0, Bytes::mib(64), false).expect("it is there");
        for (context, runs) in told {
            assert_eq!((runs.len(), runs[0].flags), (1, 0), "{context:?}");
        }
    }
    pair.helio("paris", &["snapshot", "delete", "db@one", "--yes"]).expect_success();
    wait_level(&pair, "paris");
    for client in &mut clients {
        eventually(PATIENCE, "the end of the snapshot", || {
            match client.block_status(0, Bytes::mib(64), false) {
                Err(ClientError::Failed { source, .. }) if source.code == ErrorCode::Io => Some(()),
                Ok(_) => None,
                Err(error) => panic!("{error}"),
            }
        });
    }
    drop(clients);
    let refused = Client::connect_unix(socket(&pair, "lyon"), "db/data@one");
    assert!(refused.is_err_and(|error| error.to_string().contains("has no snapshot one")));
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
        let ended = reader.wait_end(PATIENCE, "a reader that was sent away");
        assert!(ended.success(), "{ended}");
    }
    check(&pair, &["information", &pair.export("lyon", "data")]);
}
