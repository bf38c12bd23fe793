// SPDX-License-Identifier: Apache-2.0
//! A state directory whose file system is full.

use helio_e2e::{Book, Load, assert_members_equal, begin, connect, group, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan, say_skipped};
use helio_units::{Bytes, Mode};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A file system of its own in memory, unmounted at the end, also of a test that fails.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, size: Bytes) -> Option<Self> {
        std::fs::create_dir_all(at).expect("the folder can be made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={}", size.0), "tmpfs"]).arg(at);
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(at.to_owned()));
        }
        say_skipped("the right to mount a file system");
        None
    }

    /// Leaves no room. The file is removed to make room again.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut ballast = File::create(&path).expect("a file can be made");
        std::io::copy(&mut std::io::repeat(1), &mut ballast).expect_err("it takes no more");
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok(), "umount cannot be run");
    }
}

fn prepared() -> Pair {
    Plan::new("db").mode(Mode::Sync).volume("data", Bytes::gib(2)).prepare()
}

#[test]
fn metadata_is_allocated_in_full_so_a_full_file_system_stops_nothing() {
    let mut pair = prepared();
    let Some(small) = Small::mount(&pair.state("paris"), Bytes::mib(4)) else { return };
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    let metadata =
        std::fs::metadata(pair.state("paris").join("groups/db.meta")).expect("it is there");
    assert!(metadata.blocks() * 512 >= metadata.len(), "{metadata:?}");
    small.fill();
    let mut client = connect(&pair, "paris");
    // Every page of hot extents and marks is touched.
    for at in (0..2 << 30).step_by(4 << 20) {
        client.write(at, &[7; 4096], false).expect("there is room for all pages");
    }
    client.flush().expect("it is durable");
    let status = wait(&pair, "paris", "replicating", |db| db["state"] == "replicating");
    assert!(status["fault"].is_null(), "{status}");
    drop(client);
    pair.daemon("paris").kill9();
}

#[test]
fn a_new_group_without_room_for_its_metadata_is_refused_by_name() {
    let pair = prepared();
    let Some(small) = Small::mount(&pair.state("paris"), Bytes::mib(1)) else { return };
    let ballast = small.fill();
    let (config, state) = (pair.config().to_owned(), pair.state("paris"));
    let mut daemon = helio_testkit::Daemon::start("paris", &config, &state);
    assert_eq!(daemon.wait_exit(helio_e2e::PATIENCE).code(), Some(1));
    let log = daemon.log();
    let name = state.join("groups/db.meta").display().to_string();
    for words in [name.as_str(), "No space left on device", "hint: "] {
        assert!(log.contains(words), "{words}: {log}");
    }
    std::fs::remove_file(ballast).expect("it is there");
    let mut daemon = helio_testkit::Daemon::start("paris", &config, &state);
    daemon.wait_ready();
    assert!(group(&pair, "paris")["fault"].is_null());
    daemon.kill9();
}

#[test]
fn an_update_without_room_for_before_images_goes_on_once_there_is_room() {
    let dice = Dice::of_test("an_update_without_room_for_before_images_goes_on_once_there_is_room");
    let mut pair = Plan::new("db").volume("data", Bytes::mib(16)).prepare();
    let Some(small) = Small::mount(&pair.state("lyon"), Bytes::mib(64)) else { return };
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let some = Load { count: Some(200), ..Load::PLAIN };
    some.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    pair.helio("paris", &["pause", "db"]).expect_success();
    some.run(&pair, "paris", &dice.fork(2), &book);
    let kept = std::fs::read(pair.member("lyon", "data")).expect("the member can be read");
    let ballast = small.fill();
    pair.helio("paris", &["resync", "db"]).expect_success();
    wait(&pair, "paris", "the refusal", |db| db["state"] == "needs-room");
    wait(&pair, "lyon", "the same there", |db| db["state"] == "needs-room");
    let now = std::fs::read(pair.member("lyon", "data")).expect("the member can be read");
    assert!(now == kept, "something was overwritten");

    std::fs::remove_file(ballast).expect("it is there");
    pair.helio("paris", &["resync", "db", "--wait"]).expect_success();
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    for node in ["lyon", "paris"] {
        assert!(group(&pair, node)["fault"].is_null(), "{}", group(&pair, node));
        pair.daemon(node).kill9();
    }
}

#[test]
fn a_group_that_came_without_room_for_its_metadata_is_served_once_there_is_room() {
    let mut pair = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(4)).prepare();
    let Some(small) = Small::mount(&pair.state("paris"), Bytes::mib(16)) else { return };
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    let ballast = small.fill();
    let mut text = std::fs::read_to_string(pair.config()).expect("it was written");
    text += "\n[group.web]\nnodes = [\"lyon\", \"paris\"]\n[group.web.volume.data]\nsize = \"2GiB\"\nsparse = true\n";
    for node in ["lyon", "paris"] {
        let member = pair.scratch().file(&format!("{node}-web.img"), Bytes::gib(2));
        text += &format!("members.{node} = [{member:?}]\n");
    }
    pair.scratch().write("heliograph.toml", &text);
    let refused = pair.helio("paris", &["apply"]).expect_failure();
    for words in ["groups/web.meta", "No space left on device", "hint: "] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    connect(&pair, "paris").write(0, &[7; 4096], true).expect("the other group is served");

    std::fs::remove_file(ballast).expect("it is there");
    let applied = pair.helio("paris", &["apply"]).expect_success();
    assert!(applied.contains("group web: added"), "{applied}");
    pair.daemon("paris").kill9();
}
