// SPDX-License-Identifier: Apache-2.0
//! A resync that meets a full disk continues when there is space.

use helio_e2e::{assert_members_equal, begin, connect, wait, wait_level};
use helio_testkit::{Plan, SmallFs, TempDir, require, say_skipped};
use helio_units::{Bytes, Mode};
use std::fs;

#[test]
fn a_resync_to_a_full_disk_is_explained_and_continues_once_space_is_freed() {
    require!("mount", "umount");
    let scratch = TempDir::new();
    let Some(small) = SmallFs::at(scratch.join("small"), "3m") else {
        say_skipped("the right to mount");
        return;
    };
    let member = small.join("data.img");
    let made = fs::File::create(&member).and_then(|file| file.set_len(2 << 20));
    made.expect("holes take no room");
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(2));
    let plan = plan.volume_line("sparse = true").volume_line("io = \"buffered\"");
    let pair = plan.member("lyon", "data", &member).start();
    begin(&pair, "paris");
    pair.helio("paris", &["pause", "db"]).expect_success();
    let mut client = connect(&pair, "paris");
    for at in 0..8 {
        client.write(at << 18, &[at as u8 + 1; 1 << 18], false).expect("a primary takes writes");
    }
    client.disconnect().expect("it may go");
    fs::write(small.join("other"), vec![1; 2 << 20]).expect("there is room for it");
    pair.helio("paris", &["resume", "db"]).expect_success();
    for node in ["paris", "lyon"] {
        wait(&pair, node, "the fault", |group| group["verdict"]["word"] == "disk-failed");
        let text = pair.helio(node, &["status", "db"]).expect_success();
        for part in ["lyon: volume data: no space left", "free space on lyon (the resync then"] {
            assert!(text.contains(part), "{node} lacks `{part}`:\n{text}");
        }
    }
    fs::remove_file(small.join("other")).expect("it is there");
    wait_level(&pair, "paris");
    for node in ["paris", "lyon"] {
        wait(&pair, node, "ok", |group| group["verdict"]["word"] == "ok");
    }
    assert_members_equal(&pair, "data");
}
