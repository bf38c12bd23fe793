// SPDX-License-Identifier: Apache-2.0
//! Members whose blocks differ: a loop device with sectors of 4096 bytes on one node, a file on the other.

use crate::common::{Stage, VOLUME, attachable, clear, edit, on, queue};
use helio_e2e::{assert_members_equal, connect, wait, wait_level};
use helio_testkit::{Pair, Plan, require};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::path::Path;

const SIZE: Bytes = Bytes::mib(8);

/// Lyon's member is a device with sectors of 4096 bytes; paris' takes every multiple of 512.
fn on_large_sectors(pair: &Pair) {
    let file = pair.member("lyon", "data");
    let arguments = ["--find", "--show", "--sector-size", "4096"];
    let told = on("losetup", &arguments, &file).expect_success();
    edit(pair, &format!("{file:?}"), &format!("{:?}", told.trim_end()));
    edit(pair, "members.lyon", "io = \"buffered\"\nmembers.lyon");
}

fn refused(status: &Value) -> bool {
    status["peer"]["connection"] == "refused"
}

#[test]
fn a_volume_has_the_larger_blocks_of_its_two_members() {
    attachable!();
    require!("losetup", "blockdev");
    let mut stage = Stage::with(Plan::new("db").mode(Mode::Sync).volume("data", SIZE), |pair| {
        on_large_sectors(pair);
    });
    let mut client = connect(&stage.pair, "paris");
    assert_eq!(client.shape().minimum_block, 4096);
    let error = client.write(512, &[1; 512], false).expect_err("a sector is not written");
    assert!(error.to_string().contains("minimum block"), "{error}");
    client.write(4096, &[2; 4096], true).expect("a block is");
    drop(client);

    // As a device, and mirrored.
    let device = stage.attach();
    assert_eq!(queue(&device, "logical_block_size"), "4096");
    let to = format!("of={}", device.display());
    let copied = ["if=/dev/zero", "bs=4096", "count=3", "seek=9", "oflag=direct"];
    on("dd", &copied, Path::new(&to)).expect_success();
    stage.detach();
    stage.assert_mirrored();

    // Without its peer it offers no smaller ones, nor does the one that takes over.
    assert!(stage.pair.daemon("paris").terminate().success());
    assert!(stage.pair.daemon("lyon").terminate().success());
    stage.pair.start("paris");
    stage.pair.helio("paris", &["promote", "db", "--force", "--yes"]);
    wait(&stage.pair, "paris", "primary", |status| status["role"] == "primary");
    assert_eq!(connect(&stage.pair, "paris").shape().minimum_block, 4096);
    stage.pair.start("lyon");
    wait_level(&stage.pair, "paris");
    stage.pair.helio("paris", &["demote", "db"]).expect_success();
    stage.pair.helio("lyon", &["promote", "db"]).expect_success();
    assert_eq!(connect(&stage.pair, "lyon").shape().minimum_block, 4096);
}

#[test]
fn a_peer_with_larger_blocks_is_refused_until_no_client_uses_smaller_ones() {
    attachable!();
    require!("losetup");
    let mut pair = Plan::new("db").mode(Mode::Sync).volume("data", SIZE).prepare();
    let _clear = clear(&pair);
    on_large_sectors(&pair);
    pair.start("paris");
    pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    let mut client = connect(&pair, "paris");
    assert_eq!(client.shape().minimum_block, 512, "it never met its peer");
    client.write(512, &[3; 512], false).expect("a sector is written");
    pair.start("lyon");
    let status = wait(&pair, "paris", "a refusal", refused);
    let reason = status["peer"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("block-size") && reason.contains("4 KiB"), "{reason}");
    assert!(pair.daemon("paris").log().contains("disconnect the NBD clients"));
    client.write(1024, &[4; 512], false).expect("it is served on");
    let fault = wait(&pair, "lyon", "lyon", |_| true)["fault"].take();
    assert!(fault.is_null(), "{fault}");

    drop(client);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    let mut client = connect(&pair, "paris");
    assert_eq!(client.shape().minimum_block, 4096);
    client.write(4096, &[5; 4096], true).expect("a block is written");
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
}

#[test]
fn a_device_keeps_its_blocks_and_a_peer_with_larger_ones_is_refused() {
    attachable!();
    require!("losetup");
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", SIZE);
    let mut stage = Stage::with(plan, |pair| {
        edit(pair, "members.lyon", "io = \"buffered\"\nmembers.lyon");
    });
    let device = stage.attach();
    assert_eq!(queue(&device, "logical_block_size"), "512");
    assert!(stage.pair.daemon("lyon").terminate().success());
    // The same bytes, on sectors of 4096.
    let file = stage.pair.member("lyon", "data");
    let shown = on("losetup", &["--find", "--show", "--sector-size", "4096"], &file);
    let text = std::fs::read_to_string(stage.pair.config()).expect("it was written");
    let looped = format!("{:?}", shown.expect_success().trim_end());
    stage.pair.scratch().write("heliograph.toml", &text.replace(&format!("{file:?}"), &looped));
    stage.pair.start("lyon");
    wait(&stage.pair, "paris", "a refusal", refused);
    assert_eq!(queue(&device, "logical_block_size"), "512");
    stage.detach();
    wait(&stage.pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
    let device = stage.attach();
    assert_eq!(queue(&device, "logical_block_size"), "4096");
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
}
