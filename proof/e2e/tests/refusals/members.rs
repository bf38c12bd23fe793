// SPDX-License-Identifier: Apache-2.0
//! Members that cannot be used: found at the start, before anything is changed.

use crate::common::{assert_says, promote, refusal, rewrite};
use helio_testkit::{LoopDevice, Pair, Plan, TempDir, eventually, require, run, say_skipped};
use helio_units::{Bytes, Mode};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn prepared() -> Pair {
    Plan::new("db").volume("data", Bytes::mib(1)).volume("logs", Bytes::mib(1)).prepare()
}

fn said(pair: &Pair) -> String {
    refusal("paris", pair.config(), &pair.state("paris"))
}

fn resize(path: &Path, length: u64) {
    let file = std::fs::File::options().write(true).open(path).expect("the member is there");
    file.set_len(length).expect("it takes its length");
}

#[test]
fn a_member_that_is_missing_or_of_another_size_is_refused() {
    let pair = prepared();
    let member = pair.member("paris", "data");
    let name = member.display().to_string();
    resize(&member, 1 << 19);
    assert_says(&said(&pair), &["member of db/data", &name, "has 512 KiB", "1 MiB", "enlarge it"]);
    resize(&member, 1 << 21);
    assert_says(&said(&pair), &["member of db/data", "has 2 MiB", "configure the volume with"]);
    std::fs::remove_file(&member).expect("it is there");
    assert_says(&said(&pair), &["member of db/data", "does not exist", "fallocate -l 1048576"]);
    std::fs::create_dir(&member).expect("the name is free");
    assert_says(&said(&pair), &["it is a directory", "name a regular file or a block device"]);
}

#[test]
fn one_store_by_two_names_is_refused() {
    let pair = prepared();
    let logs = pair.member("paris", "logs");
    std::fs::remove_file(&logs).expect("it is there");
    symlink(pair.member("paris", "data"), &logs).expect("the name is free");
    assert_says(&said(&pair), &["db/logs", &logs.display().to_string(), "its own file"]);
    std::fs::remove_file(&logs).expect("it is there");
    std::fs::hard_link(pair.member("paris", "data"), &logs).expect("the name is free");
    assert_says(&said(&pair), &["db/logs", &logs.display().to_string(), "its own file"]);
}

#[test]
fn a_member_another_daemon_holds_is_refused_and_stays_that_ones() {
    let mut pair = prepared();
    pair.start("lyon");
    let file = pair.member("lyon", "data").display().to_string();
    rewrite(&pair, "paris-data.img", "lyon-data.img");
    let said = said(&pair);
    assert_says(
        &said,
        &["member of db/data", &file, "most likely another helio daemon", "stop the other program"],
    );
    assert!(pair.helio("lyon", &["status"]).status.success());
}

#[test]
fn a_state_directory_belongs_to_one_daemon() {
    let mut pair = prepared();
    pair.start("paris");
    let said = refusal("lyon", pair.config(), &pair.state("paris"));
    let state = pair.state("paris").display().to_string();
    assert_says(&said, &["another helio daemon uses", &state, "hint: ", "--state"]);
    assert!(pair.helio("paris", &["status"]).status.success());
}

#[test]
fn a_state_directory_whose_path_is_too_long_is_named() {
    let pair = prepared();
    let state = pair.state("paris").join("s".repeat(107));
    let phrases = ["the path of the state directory is too long", "Linux allows 107", "hint: "];
    assert_says(&refusal("paris", pair.config(), &state), &phrases);
    let state = state.display().to_string();
    let told = helio_testkit::helio(&["status", "--state", &state]);
    assert_eq!(told.status.code(), Some(1), "{told}");
    assert_says(&told.stderr, &phrases);
}

#[test]
fn an_address_that_another_process_uses_is_named() {
    let pair = prepared();
    let config = std::fs::read_to_string(pair.config()).expect("it was written");
    let paris = config.split("[node.paris]").nth(1).expect("paris has a table");
    let address = paris.split('"').nth(1).expect("paris has an address");
    let _other = std::net::TcpListener::bind(address).expect("nothing listens there yet");
    let refused = format!("cannot listen on {address}");
    assert_says(&said(&pair), &[&refused, "hint: stop the process that uses it"]);
}

#[test]
fn nodes_that_disagree_about_a_size_do_not_mirror() {
    let mut pair = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(1)).prepare();
    pair.start("lyon");
    rewrite(&pair, "size = \"1MiB\"", "size = \"2MiB\"");
    resize(&pair.member("paris", "data"), 2 << 20);
    pair.start("paris");
    let reason = eventually(crate::common::PATIENCE, "a refusal", || {
        let status = pair.status("paris");
        let peer = &status["groups"][0]["peer"];
        let reason = peer["reason"].as_str()?.to_owned();
        (peer["connection"] == "refused").then_some(reason)
    });
    assert_says(&reason, &["its volumes are [1048576] bytes, on paris [2097152]"]);
    let said = pair.helio("paris", &["status"]).expect_success();
    assert_says(&said, &["NO PRIMARY"]);
    assert!(pair.helio("lyon", &["status"]).status.success());
}

#[test]
fn a_size_that_was_changed_later_is_refused() {
    let mut pair = Plan::new("db").volume("data", Bytes::mib(1)).prepare();
    pair.start("paris");
    pair.start("lyon");
    promote(&pair, "paris");
    assert!(pair.daemon("paris").terminate().success());
    rewrite(&pair, "size = \"1MiB\"", "size = \"2MiB\"");
    resize(&pair.member("paris", "data"), 2 << 20);
    assert_says(&said(&pair), &["1048576", "2097152", "hint: restore the sizes"]);
}

/// A mount, ended when it is dropped.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let ended = Command::new("umount").arg(&self.0).status();
        if !ended.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.0.display());
        }
    }
}

#[test]
fn a_member_that_is_mounted_or_shown_by_a_loop_device_is_refused() {
    require!("mount", "umount", "mke2fs");
    let files = TempDir::new();
    let file = files.file("ext4.img", Bytes::mib(8));
    run(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&file)).expect_success();
    let Some(device) = LoopDevice::on(&file, &[]) else { return };
    let pair = Plan::new("db").volume("data", Bytes::mib(8)).prepare();
    let configured = pair.member("paris", "data").display().to_string();
    rewrite(&pair, &configured, &file.display().to_string());
    let shown = device.path().display().to_string();
    assert_says(&said(&pair), &["is the backing file of", &shown, &format!("losetup -d {shown}")]);

    rewrite(&pair, &file.display().to_string(), &shown);
    let point = files.join("mnt");
    std::fs::create_dir(&point).expect("the name is free");
    let told = run(Command::new("mount").arg(device.path()).arg(&point));
    if !told.status.success() {
        say_skipped("the right to mount");
        return;
    }
    let mounted = Mount(point.clone());
    let place = point.display().to_string();
    assert_says(&said(&pair), &["it is mounted at", &place, "unmount it first"]);
    drop(mounted);
}
