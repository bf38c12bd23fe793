// SPDX-License-Identifier: Apache-2.0
//! Metadata that was damaged, moved or swapped between two starts.

use crate::common::{assert_says, promote, refusal, replicating, rewrite};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A node that was primary and stopped cleanly, and its metadata file.
fn stopped() -> (Pair, PathBuf) {
    let mut pair = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(1)).start();
    promote(&pair, "paris");
    assert!(pair.daemon("paris").terminate().success());
    let metadata = pair.state("paris").join("groups/db.meta");
    (pair, metadata)
}

#[test]
fn damaged_metadata_is_refused_with_what_to_do_and_left_as_it_is() {
    let (pair, metadata) = stopped();
    let mut dice = Dice::of_test("damaged_metadata_is_refused");
    let mut bytes = std::fs::read(&metadata).expect("it was written");
    // Both copies of the superblock.
    for copy in [0, 4096] {
        let at = copy + dice.below(4096) as usize;
        bytes[at] ^= 1 << dice.below(8);
    }
    std::fs::write(&metadata, &bytes).expect("it can be written");
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    let name = metadata.display().to_string();
    assert_says(&said, &[&name, "neither copy of the superblock", "hint: ", "metadata create"]);
    assert_eq!(
        std::fs::read(&metadata).expect("it is there"),
        bytes,
        "nothing may be repaired away"
    );
}

#[test]
fn a_metadata_or_before_image_file_that_another_daemon_writes_is_refused_and_left_as_it_is() {
    for name in ["db.meta", "db.before"] {
        let mut pair = Plan::new("db").volume("data", Bytes::mib(1)).prepare();
        pair.start("lyon");
        let theirs = pair.state("lyon").join("groups").join(name);
        let groups = pair.state("paris").join("groups");
        std::fs::create_dir_all(&groups).expect("the state directory is this test's");
        symlink(&theirs, groups.join(name)).expect("the name is free");
        let before = std::fs::read(&theirs).expect("it is there");
        let said = refusal("paris", pair.config(), &pair.state("paris"));
        assert_says(&said, &[name, "another process writes this file", "hint: stop it"]);
        assert_eq!(std::fs::read(&theirs).expect("it is there"), before, "{name}");
        assert!(pair.helio("lyon", &["status"]).status.success());
    }
}

#[test]
fn one_damaged_copy_is_survived_and_mended() {
    let (mut pair, metadata) = stopped();
    let sound = std::fs::read(&metadata).expect("it was written");
    for copy in [0, 4096] {
        let mut bytes = sound.clone();
        bytes[copy + 20] ^= 0x10;
        std::fs::write(&metadata, &bytes).expect("it can be written");
        pair.start("paris");
        assert!(pair.daemon("paris").terminate().success());
        let after = std::fs::read(&metadata).expect("it is there");
        assert!(after[..4096] == after[4096..8192], "both copies are whole again");
        std::fs::write(&metadata, &sound).expect("it can be written");
    }
}

#[test]
fn metadata_of_another_node_or_group_is_refused() {
    let (mut pair, metadata) = stopped();
    assert!(pair.daemon("lyon").terminate().success());
    let said = refusal("paris", pair.config(), &pair.state("lyon"));
    assert_says(&said, &["belongs to group db on node lyon", "hint: ", "--state"]);

    std::fs::rename(&metadata, metadata.with_file_name("web.meta")).expect("it is there");
    rewrite(&pair, "group.db", "group.web");
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    assert_says(&said, &["belongs to group db", "not to web on paris"]);
}

#[test]
fn a_member_with_an_identity_beside_a_state_directory_without_metadata_is_no_new_one() {
    let (mut pair, metadata) = stopped();
    let sound = std::fs::read(&metadata).expect("it was written");
    let member = pair.member("paris", "data");
    for lost in ["missing", "zeros"] {
        match lost {
            "missing" => std::fs::remove_file(&metadata).expect("it is there"),
            _ => std::fs::write(&metadata, vec![0; sound.len()]).expect("it can be written"),
        }
        let said = refusal("paris", pair.config(), &pair.state("paris"));
        let phrases = ["has an identity of Heliograph", "check --state", "metadata create"];
        assert_says(&said, &phrases);
        assert_says(&said, &[&member.display().to_string(), &metadata.display().to_string()]);
    }
    // Restored, all is as it was.
    std::fs::write(&metadata, &sound).expect("it can be written");
    pair.start("paris");
    replicating(&pair, "paris");
    assert!(pair.daemon("paris").terminate().success());

    // What is sound is not discarded by this; what is lost only by an operator's word.
    let config = pair.config().display().to_string();
    let line = ["metadata", "create", "db", "--node", "paris", "--config", &config];
    let told = pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_failure();
    assert_says(&told, &["has the history of db", "helio resolve"]);
    std::fs::write(&metadata, vec![7; 100]).expect("it can be written");
    let asked = pair.helio("paris", &line);
    assert_eq!(asked.status.code(), Some(4), "nothing is discarded unasked: {asked}");
    assert_says(&asked.stderr, &["at stake: all of db on paris"]);
    let told = pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_success();
    assert_says(&told, &["joins as a new node on paris", "db.meta.damaged-1"]);
    pair.start("paris");
    promote(&pair, "lyon");
    let (ours, theirs) = (std::fs::read(member), std::fs::read(pair.member("lyon", "data")));
    assert_eq!(ours.expect("a file"), theirs.expect("a file"));
}
