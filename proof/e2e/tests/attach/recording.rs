// SPDX-License-Identifier: Apache-2.0
//! A recording of what applications ask must not lie where it would be written through the daemon that records.

use crate::common::{Stage, attachable, on};
use helio_testkit::require;
use helio_units::{Bytes, Mode};

#[test]
fn a_recording_onto_an_attached_volume_is_refused_and_one_beside_it_runs() {
    require!("mkfs.ext4");
    attachable!();
    let stage = Stage::new(Mode::Async, Bytes::mib(32));
    let device = stage.attach();
    on("mkfs.ext4", &["-q"], &device).expect_success();
    let mounted = stage.mount(&device);
    let start = |file: &std::path::Path| {
        let file = file.display().to_string();
        stage.pair.helio("paris", &["trace", "start", "db", "--file", &file])
    };
    let inside = mounted.join("db.trace");
    let said = start(&inside);
    assert_eq!(said.status.code(), Some(1), "{said}");
    for words in ["db.trace is on db/data", "hint: ", "not a volume of this node"] {
        assert!(said.stderr.contains(words), "it should say `{words}`: {said}");
    }
    assert!(!inside.exists(), "nothing is left of it");
    assert!(
        start(&mounted.join("none/db.trace")).expect_failure().contains("a directory that exists")
    );

    start(&stage.pair.scratch().join("db.trace")).expect_success();
    std::fs::write(mounted.join("note"), "kept").expect("there is room");
    stage.unmount();
    stage.pair.helio("paris", &["trace", "stop", "db"]).expect_success();
    stage.detach();
}
