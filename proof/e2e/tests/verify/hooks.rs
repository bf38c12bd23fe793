// SPDX-License-Identifier: Apache-2.0
//! The operator's programs: one that refuses a resync, one that proves the other node fenced, and those that are told.

use helio_e2e::{begin, wait, wait_level, wait_state};
use helio_testkit::{Pair, Plan, TempDir, eventually};
use helio_units::Bytes;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A hook that writes its facts into a file beside it and ends with the code that stands in another.
fn hook(folder: &TempDir, name: &str) -> PathBuf {
    let script = format!(
        "#!/bin/sh\ncd {}\necho \"$HELIO_EVENT $HELIO_GROUP $HELIO_NODE $HELIO_PEER $HELIO_STATE\" >> told\n\
         exit $(cat {name}.code 2>/dev/null || echo 0)\n",
        folder.path().display()
    );
    let file = folder.write(name, &script);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).expect("it may be run");
    file
}

fn pair(folder: &TempDir) -> Pair {
    let path = |name: &str| hook(folder, name).display().to_string();
    let line = format!(
        "hooks = {{ before-resync = \"{}\", after-resync = \"{}\", lost-peer = \"{}\", fence = \"{}\" }}",
        path("before"),
        path("after"),
        path("lost"),
        path("fence")
    );
    Plan::new("db").group_line(&line).volume("data", Bytes::mib(4)).start()
}

fn told(folder: &TempDir, line: &str) {
    eventually(helio_e2e::PATIENCE, line, || {
        let text = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
        text.lines().any(|told| told == line).then_some(())
    });
}

#[test]
fn a_resync_waits_for_its_hook_and_does_not_begin_where_it_says_no() {
    let folder = TempDir::new();
    folder.write("before.code", "1");
    let pair = pair(&folder);
    wait(&pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
    pair.helio("paris", &["promote", "db"]).expect_success();
    told(&folder, "before-resync db paris lyon logging");
    // The hook has said what it was asked before its answer arrives; until then an update only waits for that.
    let refused = eventually(helio_e2e::PATIENCE, "the hook's answer", || {
        let asked = pair.helio("paris", &["resync", "db"]);
        (asked.status.code() != Some(0)).then_some(asked)
    });
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    assert!(refused.stderr.contains("hook before-resync of db refused"), "{refused}");
    let status = wait_state(&pair, "paris", "logging");
    assert_eq!(status["sync"], serde_json::Value::Null, "nothing was copied");

    folder.write("before.code", "0");
    pair.helio("paris", &["resync", "db"]).expect_success();
    wait_level(&pair, "paris");
    told(&folder, "after-resync db paris lyon replicating");
}

#[test]
fn a_promotion_behind_a_fence_goes_on_only_where_the_other_node_is_proven_out() {
    let folder = TempDir::new();
    let mut pair = pair(&folder);
    begin(&pair, "lyon");
    pair.daemon("lyon").kill9();
    // A peer that changes its role hangs up, too: what was told before counts for nothing.
    wait(&pair, "paris", "the loss", |status| status["peer"]["connection"] != "connected");
    told(&folder, "lost-peer db paris lyon logging");
    folder.write("fence.code", "6");
    let refused = pair.helio("paris", &["promote", "db", "--fence"]);
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    assert!(refused.stderr.contains("it refuses, because it is primary (code 6)"), "{refused}");
    folder.write("fence.code", "7");
    let done = pair.helio("paris", &["promote", "db", "--fence"]).expect_success();
    assert!(done.contains("lyon is fenced (code 7)"), "{done}");
    told(&folder, "fence db paris lyon logging");
}
