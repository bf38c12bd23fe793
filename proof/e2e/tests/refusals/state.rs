// SPDX-License-Identifier: Apache-2.0
//! Metadata that was damaged, moved or swapped between two starts.

use crate::common::{assert_says, promote, refusal, rewrite};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
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
    let half = bytes.len() / 2;
    for slot in [0, half] {
        // In the part of each slot that is covered by its checksum.
        let at = slot + dice.below(32) as usize;
        bytes[at] ^= 1 << dice.below(8);
    }
    std::fs::write(&metadata, &bytes).expect("it can be written");
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    let name = metadata.display().to_string();
    assert_says(&said, &[&name, "remedy: if it cannot be restored, remove it"]);
    assert_eq!(
        std::fs::read(&metadata).expect("it is there"),
        bytes,
        "nothing may be repaired away"
    );
}

#[test]
fn one_damaged_slot_is_survived() {
    let (mut pair, metadata) = stopped();
    let sound = std::fs::read(&metadata).expect("it was written");
    for slot in [0, sound.len() / 2] {
        let mut bytes = sound.clone();
        bytes[slot + 20] ^= 0x10;
        std::fs::write(&metadata, &bytes).expect("it can be written");
        pair.start("paris");
        assert!(pair.daemon("paris").terminate().success());
        std::fs::write(&metadata, &sound).expect("it can be written");
    }
}

#[test]
fn metadata_of_another_node_or_group_is_refused() {
    let (mut pair, metadata) = stopped();
    assert!(pair.daemon("lyon").terminate().success());
    let said = refusal("paris", pair.config(), &pair.state("lyon"));
    assert_says(&said, &["belongs to group db on node lyon", "remedy: ", "--state"]);

    std::fs::rename(&metadata, metadata.with_file_name("web.meta")).expect("it is there");
    rewrite(&pair, "group.db", "group.web");
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    assert_says(&said, &["belongs to group db", "not to web on paris"]);
}
